//! `stss`: Which samples are sync samples (ISO/IEC 14496-12 §8.6.2).

use bytes::Bytes;

/// Which samples are sync samples; a view of the box's entries.
#[derive(Debug, Clone, Default)]
pub struct SyncSamples {
    entries: Bytes,
}

impl SyncSamples {
    /// Sample numbers, 1-based, as they stand in the file.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> + Clone + '_ {
        self.entries.chunks_exact(4).map(|_| todo!())
    }
}
