//! `ctts`: composition offsets, run by run, in version 0 and 1 (ISO/IEC 14496-12 §8.6.1.3).

use crate::{
    Error, FourCc,
    cursor::{Cursor, u32_at},
    write::{WriteBox, put_table},
};
use bytes::{BufMut, Bytes};

/// Composition offsets, run by run; a view of the box's entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompositionOffsets {
    entries: Bytes,
}

/// A run of samples with the same composition offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Samples in the run.
    pub count: u32,
    /// Composition time minus decode time, in track ticks. Values of version 0 are read as signed
    /// too, as all players do: some writers store negative offsets there.
    pub offset: i32,
}

impl CompositionOffsets {
    /// Reads the payload of a `ctts`.
    pub fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        Ok(Self { entries: payload.counted_table(8)? })
    }

    /// Iterates over the runs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Run> + Clone + '_ {
        let entries = self.entries.as_chunks::<8>().0;
        entries.iter().map(|entry| Run { count: u32_at(entry, 0), offset: u32_at(entry, 4).cast_signed() })
    }
}

impl FromIterator<Run> for CompositionOffsets {
    fn from_iter<I: IntoIterator<Item = Run>>(runs: I) -> Self {
        let mut entries = Vec::new();
        for run in runs {
            entries.put_u32(run.count);
            entries.put_i32(run.offset);
        }
        Self { entries: entries.into() }
    }
}

impl WriteBox for CompositionOffsets {
    fn kind(&self) -> FourCc {
        FourCc(*b"ctts")
    }

    fn payload_size(&self) -> u64 {
        8 + self.entries.len() as u64
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        put_table(out, u8::from(self.iter().any(|run| run.offset < 0)), 8, &self.entries);
    }
}
