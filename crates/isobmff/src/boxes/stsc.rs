//! `stsc`: the number of samples in each chunk (ISO/IEC 14496-12 §8.7.4).

use super::table::{Table, TableEntry};
use crate::cursor::u32_at;
use bytes::BufMut;

/// The number of samples in each chunk; a view of the box's entries. Reading does not check that
/// the chunk numbers ascend.
pub type SamplesToChunks = Table<Run, 12>;

/// A run of chunks with the same number of samples.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Run {
    /// First chunk of the run, 1-based.
    pub first_chunk: u32,
    /// Samples in each chunk of the run.
    pub samples_per_chunk: u32,
    /// 1-based index into `stsd`.
    pub sample_description_index: u32,
}

impl TableEntry<12> for Run {
    const KIND: &'static [u8; 4] = b"stsc";

    fn read(entry: &[u8; 12]) -> Self {
        Self {
            first_chunk: u32_at(entry, 0),
            samples_per_chunk: u32_at(entry, 4),
            sample_description_index: u32_at(entry, 8),
        }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.put_u32(self.first_chunk);
        out.put_u32(self.samples_per_chunk);
        out.put_u32(self.sample_description_index);
    }
}
