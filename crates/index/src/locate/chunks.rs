//! The chunks of a track, as `stsc`, `stco` and `stsz` state them together.

use crate::{
    error::TrackProblemKind,
    table::{
        column::{Column, ColumnBuilder},
        layout::Chunk,
    },
};
use latemux_isobmff::movie::SampleTables;

/// Reads the chunks of a track in order, leaving out those without samples, and checks each of
/// them. The iteration ends with the last sample, the last chunk or the first problem, which
/// [`Self::finish`] returns.
pub(crate) struct Chunks<'a> {
    tables: &'a SampleTables,
    /// Size in bytes of the object that holds the media.
    object_size: u64,
    /// Index of the next chunk in `stco`.
    next: u32,
    /// Index of the next run in `stsc`, and the 1-based number of its first chunk. `u32::MAX` if
    /// there is none.
    next_run: usize,
    run_starts: u32,
    /// Number of samples in each chunk of the current run.
    samples_per_chunk: u32,
    /// Number of samples in the chunks so far, and in all of them.
    samples: u32,
    count: u32,
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
            run_starts: tables.stsc.get(0).map_or(u32::MAX, |run| run.first_chunk),
            samples_per_chunk: 0,
            samples: 0,
            count: tables.stsz.count(),
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
        if self.samples < self.count {
            let Self { count, samples, .. } = self;
            let what = format!("stsz has {count} samples, but the chunks hold {samples}");
            return Err(TrackProblemKind::malformed(what));
        }
        Ok(self.counts.finish())
    }

    /// Returns the problem of the chunks, if any.
    pub(crate) fn check(mut self) -> Option<TrackProblemKind> {
        self.by_ref().for_each(drop);
        self.finish().err()
    }

    /// Starts the run of `stsc` that begins with the chunk whose 1-based number is `next`.
    fn start_run(&mut self) -> Result<(), TrackProblemKind> {
        while self.run_starts <= self.next
            && let Some(run) = self.tables.stsc.get(self.next_run)
        {
            if run.first_chunk < self.next {
                return Err(TrackProblemKind::malformed("stsc: chunk numbers do not ascend"));
            }
            self.samples_per_chunk = run.samples_per_chunk;
            self.next_run += 1;
            self.run_starts = self.tables.stsc.get(self.next_run).map_or(u32::MAX, |run| run.first_chunk);
        }
        if self.next_run == 0 {
            return Err(TrackProblemKind::malformed("stsc does not begin with the first chunk"));
        }
        Ok(())
    }

    /// Ends the iteration with a problem.
    #[cold]
    fn fail(&mut self, problem: TrackProblemKind) -> Option<Chunk> {
        self.problem = Some(problem);
        None
    }
}

impl Iterator for Chunks<'_> {
    type Item = Chunk;

    // Each file has hundreds of thousands of chunks. The usual path has no calls, and returns its
    // result in registers.
    #[inline]
    fn next(&mut self) -> Option<Chunk> {
        if self.problem.is_some() {
            return None;
        }
        loop {
            let left = self.count - self.samples;
            if left == 0 {
                return None;
            }
            let offset = self.tables.stco.get(self.next as usize)?;
            self.next += 1;
            if (self.run_starts <= self.next || self.next_run == 0)
                && let Err(problem) = self.start_run()
            {
                return self.fail(problem);
            }
            let samples = self.samples_per_chunk.min(left);
            if samples == 0 {
                continue;
            }
            let bytes = self.tables.stsz.sum(self.samples, samples);
            self.samples += samples;
            let end = offset.saturating_add(bytes);
            if end > self.object_size {
                let (sample, object_size) = (self.samples, self.object_size);
                return self.fail(TrackProblemKind::Truncated { sample, end, object_size });
            }
            self.counts.push(samples);
            return Some(Chunk { offset, bytes, samples });
        }
    }
}
