//! Chunks of a track, read some at a time: this takes a fraction of the time of one by one.

use crate::table::layout::Chunk;

/// Largest number of chunks that are read at a time.
const CHUNKS: usize = 128;

/// Consecutive chunks of a track, as columns of numbers.
#[derive(Debug)]
pub(crate) struct ChunkBlock {
    len: usize,
    /// The first byte of each chunk, and the one after its last, from the start of the object.
    starts: [u64; CHUNKS],
    ends: [u64; CHUNKS],
}

impl ChunkBlock {
    pub(crate) fn new() -> Self {
        Self { len: 0, starts: [0; CHUNKS], ends: [0; CHUNKS] }
    }

    pub(crate) fn starts(&self) -> &[u64] {
        self.starts.get(..self.len).unwrap_or_default()
    }

    pub(crate) fn ends(&self) -> &[u64] {
        self.ends.get(..self.len).unwrap_or_default()
    }

    /// Returns the number of chunks that can be appended.
    pub(crate) fn room(&self) -> usize {
        CHUNKS - self.len
    }

    pub(crate) fn clear(&mut self) {
        self.len = 0;
    }

    /// Removes the last `count` chunks.
    pub(crate) fn shorten(&mut self, count: usize) {
        self.len = self.len.saturating_sub(count);
    }

    pub(crate) fn push(&mut self, chunk: Chunk) {
        self.extend([(chunk.offset, chunk.bytes)].into_iter());
    }

    /// Appends chunks, given as offset and size in bytes, as far as there is room. Returns the
    /// highest of their ends.
    pub(crate) fn extend(&mut self, chunks: impl Iterator<Item = (u64, u64)>) -> u64 {
        let starts = self.starts.get_mut(self.len..).unwrap_or_default();
        let ends = self.ends.get_mut(self.len..).unwrap_or_default();
        let mut highest = 0;
        let mut count = 0;
        for ((start, end), (offset, bytes)) in starts.iter_mut().zip(ends).zip(chunks) {
            *start = offset;
            *end = offset.saturating_add(bytes);
            highest = highest.max(*end);
            count += 1;
        }
        self.len += count;
        highest
    }
}

/// Reads the chunks of a track in order.
pub(crate) trait ChunkReader {
    /// Appends the next chunks to `block`, as many as there is room for, or all that are left.
    fn fill(&mut self, block: &mut ChunkBlock);
}

/// Reads chunks from an iterator.
#[derive(Debug)]
pub(crate) struct OneByOne<I>(pub(crate) I);

impl<I: Iterator<Item = Chunk>> ChunkReader for OneByOne<I> {
    fn fill(&mut self, block: &mut ChunkBlock) {
        let chunks = self.0.by_ref().take(block.room());
        block.extend(chunks.map(|chunk| (chunk.offset, chunk.bytes)));
    }
}
