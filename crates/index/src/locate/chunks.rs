//! The chunks of a track, as `stsc`, `stco` and `stsz` state them together.

use crate::{error::TrackProblemKind, table::layout::Chunk};
use latemux_isobmff::{boxes::stsc::Run, movie::SampleTables};

/// Reads the chunks of a track in order, leaving out those without samples.
#[derive(Clone)]
pub(crate) struct Chunks<'a> {
    tables: &'a SampleTables,
    /// Index of the next chunk in `stco`.
    next: u32,
    /// Index of the next run in `stsc`, and that run.
    next_run: usize,
    run: Option<Run>,
    samples_per_chunk: Option<u32>,
    /// Number of samples in the chunks so far.
    pub(crate) samples: u32,
}

impl<'a> Chunks<'a> {
    pub(crate) fn new(tables: &'a SampleTables) -> Self {
        let run = tables.stsc.get(0);
        Self { tables, next: 0, next_run: 0, run, samples_per_chunk: None, samples: 0 }
    }

    /// Returns the next chunk, or `None` after the last sample or the last chunk.
    ///
    /// # Errors
    ///
    /// [`TrackProblemKind::Malformed`] if `stsc` does not begin with the first chunk, or goes back.
    pub(crate) fn try_next(&mut self) -> Result<Option<Chunk>, TrackProblemKind> {
        let left = self.tables.stsz.count() - self.samples;
        if left == 0 {
            return Ok(None);
        }
        loop {
            let Some(offset) = self.tables.stco.get(self.next as usize) else { return Ok(None) };
            self.next += 1;
            while let Some(run) = self.run.filter(|run| run.first_chunk <= self.next) {
                if run.first_chunk < self.next {
                    return Err(TrackProblemKind::malformed("stsc: chunk numbers do not ascend"));
                }
                self.samples_per_chunk = Some(run.samples_per_chunk);
                self.next_run += 1;
                self.run = self.tables.stsc.get(self.next_run);
            }
            let Some(samples) = self.samples_per_chunk else {
                return Err(TrackProblemKind::malformed("stsc does not begin with the first chunk"));
            };
            let samples = samples.min(left);
            if samples > 0 {
                let bytes = self.tables.stsz.sum(self.samples, samples);
                self.samples += samples;
                return Ok(Some(Chunk { offset, bytes, samples }));
            }
        }
    }
}

impl Iterator for Chunks<'_> {
    type Item = Chunk;

    /// Returns the next chunk. Errors end the iteration: callers have checked the tables before.
    fn next(&mut self) -> Option<Chunk> {
        self.try_next().ok().flatten()
    }
}
