//! `stco` and `co64`: where chunks lie (ISO/IEC 14496-12 §8.7.5).

use bytes::Bytes;

/// Chunk offsets, in bytes from the start of the file; a view of the box's entries.
#[derive(Debug, Clone, Default)]
pub struct ChunkOffsets {
    wide: bool,
    entries: Bytes,
}

impl ChunkOffsets {
    /// Number of chunks.
    #[must_use]
    pub fn count(&self) -> usize {
        self.entries.len() / if self.wide { 8 } else { 4 }
    }

    /// Offsets in chunk order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> + Clone + '_ {
        (0..self.count()).map(|_| todo!())
    }
}
