//! The chunks of a track, as `stsc`, `stco` and `stsz` state them together.

use crate::{
    error::TrackProblemKind,
    table::{
        column::{Column, ColumnBuilder},
        layout::Chunk,
    },
};
use latemux_isobmff::{boxes::stsc::Run, movie::SampleTables};

/// Reads the chunks of a track in order, leaving out those without samples, and checks each of
/// them. The iteration ends with the last sample, the last chunk or the first problem, which
/// [`Self::finish`] returns.
pub(crate) struct Chunks<'a> {
    tables: &'a SampleTables,
    /// Size in bytes of the object that holds the media.
    object_size: u64,
    /// Index of the next chunk in `stco`.
    next: u32,
    /// Index of the next run in `stsc`, and that run.
    next_run: usize,
    run: Option<Run>,
    samples_per_chunk: Option<u32>,
    /// Number of samples in the chunks so far.
    samples: u32,
    /// Number of samples in each chunk so far.
    counts: ColumnBuilder,
    problem: Option<TrackProblemKind>,
}

impl<'a> Chunks<'a> {
    pub(crate) fn new(tables: &'a SampleTables, object_size: u64) -> Self {
        Self {
            tables,
            object_size,
            next: 0,
            next_run: 0,
            run: tables.stsc.get(0),
            samples_per_chunk: None,
            samples: 0,
            counts: ColumnBuilder::default(),
            problem: None,
        }
    }

    /// Returns the number of samples in each chunk, once all chunks have been read.
    ///
    /// # Errors
    ///
    /// - [`TrackProblemKind::Malformed`] if `stsc` does not begin with the first chunk, or goes
    ///   back, or if there are more samples than the chunks hold
    /// - [`TrackProblemKind::Truncated`] if a chunk ends beyond the object
    pub(crate) fn finish(self) -> Result<Column, TrackProblemKind> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        let count = self.tables.stsz.count();
        if self.samples < count {
            let what = format!("stsz has {count} samples, but the chunks hold {}", self.samples);
            return Err(TrackProblemKind::malformed(what));
        }
        Ok(self.counts.finish())
    }

    /// Returns the problem of the chunks, if any.
    pub(crate) fn check(mut self) -> Option<TrackProblemKind> {
        self.by_ref().for_each(drop);
        self.finish().err()
    }

    fn try_next(&mut self) -> Result<Option<Chunk>, TrackProblemKind> {
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
                let end = offset.saturating_add(bytes);
                if end > self.object_size {
                    let (sample, object_size) = (self.samples, self.object_size);
                    return Err(TrackProblemKind::Truncated { sample, end, object_size });
                }
                self.counts.push(samples);
                return Ok(Some(Chunk { offset, bytes, samples }));
            }
        }
    }
}

impl Iterator for Chunks<'_> {
    type Item = Chunk;

    #[inline]
    fn next(&mut self) -> Option<Chunk> {
        if self.problem.is_some() {
            return None;
        }
        self.try_next().unwrap_or_else(|problem| {
            self.problem = Some(problem);
            None
        })
    }
}
