//! `stts`: durations of samples, run by run (ISO/IEC 14496-12 §8.6.1.2).

use super::table::{Table, TableEntry};
use crate::cursor::u32_at;
use bytes::BufMut;

/// Durations of samples, run by run; a view of the box's entries.
pub type TimeToSamples = Table<Run, 8>;

/// A run of samples with the same duration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Run {
    /// Samples in the run.
    pub count: u32,
    /// Duration of each sample, in track ticks.
    pub delta: u32,
}

impl TableEntry<8> for Run {
    const KIND: &'static [u8; 4] = b"stts";

    fn read(entry: &[u8; 8]) -> Self {
        Self { count: u32_at(entry, 0), delta: u32_at(entry, 4) }
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.put_u32(self.count);
        out.put_u32(self.delta);
    }
}
