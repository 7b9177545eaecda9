//! The chunks of a track, as `stsc`, `stco` and `stsz` state them together.

use crate::{
    error::TrackProblemKind,
    table::{
        chunk_block::{ChunkBlock, ChunkReader},
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
    /// Number of samples in each chunk of the runs so far.
    counts: ColumnBuilder,
    /// Number of chunks of the current run so far, without those that have no samples.
    run_chunks: u32,
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
            run_chunks: 0,
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
    pub(crate) fn finish(mut self) -> Result<Column, TrackProblemKind> {
        if let Some(problem) = self.problem {
            return Err(problem);
        }
        if self.samples < self.count {
            let Self { count, samples, .. } = self;
            let what = format!("stsz has {count} samples, but the chunks hold {samples}");
            return Err(TrackProblemKind::malformed(what));
        }
        self.end_run();
        Ok(self.counts.finish())
    }

    /// Appends the chunks of the current run to the counts.
    fn end_run(&mut self) {
        self.counts.push_run(self.samples_per_chunk, std::mem::take(&mut self.run_chunks));
    }

    /// Returns the problem of the chunks, if any.
    pub(crate) fn check(mut self) -> Option<TrackProblemKind> {
        self.by_ref().for_each(drop);
        self.finish().err()
    }

    /// Starts the run of `stsc` with the next chunk, if the current one does not hold it.
    #[inline]
    fn start_run_if_due(&mut self) -> Result<(), TrackProblemKind> {
        if self.run_starts <= self.next + 1 || self.next_run == 0 { self.start_run() } else { Ok(()) }
    }

    fn start_run(&mut self) -> Result<(), TrackProblemKind> {
        let number = self.next + 1;
        while self.run_starts <= number
            && let Some(run) = self.tables.stsc.get(self.next_run)
        {
            if run.first_chunk < number {
                return Err(TrackProblemKind::malformed("stsc: chunk numbers do not ascend"));
            }
            self.end_run();
            self.samples_per_chunk = run.samples_per_chunk;
            self.next_run += 1;
            self.run_starts = self.tables.stsc.get(self.next_run).map_or(u32::MAX, |run| run.first_chunk);
        }
        if self.next_run == 0 {
            return Err(TrackProblemKind::malformed("stsc does not begin with the first chunk"));
        }
        Ok(())
    }

    /// Reads chunks of the current run into `block`, from their entries as they are stored. Does
    /// nothing and returns false if the next chunk needs [`Self::next`]: the last one if it has
    /// fewer samples, one that ends beyond the object, and the end.
    fn fill_from_run<const N: usize>(
        &mut self,
        (offsets, sizes): (&[[u8; N]], &[[u8; 4]]),
        number: fn(&[u8; N]) -> u64,
        block: &mut ChunkBlock,
    ) -> bool {
        let next = self.next as usize;
        let samples = self.samples as usize;
        let per_chunk = self.samples_per_chunk as usize;
        let left = (self.count - self.samples) as usize;
        let offsets = offsets.get(next..).unwrap_or_default();
        let in_run = self.run_starts.saturating_sub(self.next.saturating_add(1)) as usize;
        let Some(whole) = left.checked_div(per_chunk) else { return false };
        let chunks = in_run.min(whole).min(offsets.len()).min(block.room());
        let sizes = sizes.get(samples..).and_then(|sizes| sizes.get(..chunks * per_chunk));
        let (Some(offsets), Some(sizes)) = (offsets.get(..chunks), sizes) else { return false };
        let size = |entry: &[u8; 4]| u64::from(u32::from_be_bytes(*entry));
        let offsets = offsets.iter().map(number);
        // Chunks have few samples if there is one for each video frame.
        let highest = match per_chunk {
            1 => block.extend(offsets.zip(sizes.iter().map(size))),
            2 => {
                let pairs = sizes.as_chunks().0.iter();
                block.extend(offsets.zip(pairs.map(|[one, two]| size(one) + size(two))))
            }
            _ => {
                block.extend(offsets.zip(sizes.chunks_exact(per_chunk).map(|all| all.iter().map(size).sum())))
            }
        };
        if chunks == 0 || highest > self.object_size {
            block.shorten(chunks);
            return false;
        }
        // No more than there are samples.
        let chunks = u32::try_from(chunks).unwrap_or(u32::MAX);
        self.next += chunks;
        self.samples += chunks * self.samples_per_chunk;
        self.run_chunks += chunks;
        true
    }

    /// Ends the iteration with a problem.
    #[cold]
    fn fail(&mut self, problem: TrackProblemKind) -> Option<Chunk> {
        self.problem = Some(problem);
        None
    }
}

impl ChunkReader for &mut Chunks<'_> {
    fn fill(&mut self, block: &mut ChunkBlock) {
        let sizes = self.tables.stsz.words();
        while block.room() > 0 && self.problem.is_none() {
            if let Err(problem) = self.start_run_if_due() {
                self.fail(problem);
                return;
            }
            let stco = &self.tables.stco;
            let is_read = match (stco.narrow(), stco.wide(), sizes) {
                (Some(offsets), _, Some(sizes)) => {
                    let number = |entry: &[u8; 4]| u32::from_be_bytes(*entry).into();
                    self.fill_from_run((offsets, sizes), number, block)
                }
                (_, Some(offsets), Some(sizes)) => {
                    self.fill_from_run((offsets, sizes), |entry| u64::from_be_bytes(*entry), block)
                }
                _ => false,
            };
            if !is_read {
                let Some(chunk) = self.next() else { return };
                block.push(chunk);
            }
        }
    }
}

impl Iterator for Chunks<'_> {
    type Item = Chunk;

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
            if let Err(problem) = self.start_run_if_due() {
                return self.fail(problem);
            }
            self.next += 1;
            if self.samples_per_chunk > left {
                // The last chunk has fewer samples than those before it.
                self.end_run();
                self.samples_per_chunk = left;
            }
            let samples = self.samples_per_chunk;
            if samples == 0 {
                continue;
            }
            let bytes = self.tables.stsz.sum(self.samples, samples);
            self.samples += samples;
            let end = offset.saturating_add(bytes);
            if end > self.object_size {
                let sample = self.samples;
                let object_size = self.object_size;
                return self.fail(TrackProblemKind::Truncated { sample, end, object_size });
            }
            self.run_chunks += 1;
            return Some(Chunk { offset, bytes, samples });
        }
    }
}
