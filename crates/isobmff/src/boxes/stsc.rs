//! `stsc`: How many samples each chunk holds (ISO/IEC 14496-12 §8.7.4).

use bytes::Bytes;

/// How many samples each chunk holds; a view of the box's entries.
#[derive(Debug, Clone, Default)]
pub struct SamplesToChunks {
    entries: Bytes,
}

/// From `first_chunk` on, every chunk holds `samples_per_chunk` samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// First chunk of the run, 1-based.
    pub first_chunk: u32,
    /// Samples in each chunk of the run.
    pub samples_per_chunk: u32,
    /// 1-based index into `stsd`.
    pub sample_description_index: u32,
}

impl SamplesToChunks {
    /// The runs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Run> + Clone + '_ {
        self.entries.chunks_exact(12).map(|_| todo!())
    }
}
