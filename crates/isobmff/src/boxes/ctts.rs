//! `ctts`: composition offsets, run by run, in version 0 and 1 (ISO/IEC 14496-12 §8.6.1.3).

use super::table::{Table, TableEntry};
use crate::cursor::u32_at;
use bytes::BufMut;

/// Composition offsets, run by run; a view of the box's entries.
pub type CompositionOffsets = Table<Run, 8>;

/// A run of samples with the same composition offset.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Run {
    /// Samples in the run.
    pub count: u32,
    /// Composition time minus decode time, in track ticks. Values of version 0 are also read as
    /// signed, as all players do, since some writers store negative offsets in version 0.
    pub offset: i32,
}

impl TableEntry<8> for Run {
    const KIND: &'static [u8; 4] = b"ctts";

    fn read(entry: &[u8; 8]) -> Self {
        Self { count: u32_at(entry, 0), offset: u32_at(entry, 4).cast_signed() }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.put_u32(self.count);
        out.put_i32(self.offset);
    }

    fn version(mut runs: impl Iterator<Item = Self>) -> u8 {
        u8::from(runs.any(|run| run.offset < 0))
    }
}
