//! `stts`: durations of samples, run by run (ISO/IEC 14496-12 §8.6.1.2).

use crate::{
    Error, FourCc,
    cursor::{Cursor, u32_at},
    write::{WriteBox, put_table},
};
use bytes::{BufMut, Bytes};

/// Durations of samples, run by run; a view of the box's entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TimeToSamples {
    entries: Bytes,
}

/// A run of samples with the same duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Samples in the run.
    pub count: u32,
    /// Duration of each, in track ticks.
    pub delta: u32,
}

impl TimeToSamples {
    /// Reads the payload of a `stts`.
    pub fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        Ok(Self { entries: payload.counted_table(8)? })
    }

    /// Iterates over the runs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Run> + Clone + '_ {
        let entries = self.entries.as_chunks::<8>().0;
        entries.iter().map(|entry| Run { count: u32_at(entry, 0), delta: u32_at(entry, 4) })
    }
}

impl FromIterator<Run> for TimeToSamples {
    fn from_iter<I: IntoIterator<Item = Run>>(runs: I) -> Self {
        let mut entries = Vec::new();
        for run in runs {
            entries.put_u32(run.count);
            entries.put_u32(run.delta);
        }
        Self { entries: entries.into() }
    }
}

impl WriteBox for TimeToSamples {
    fn kind(&self) -> FourCc {
        FourCc(*b"stts")
    }

    fn payload_size(&self) -> u64 {
        8 + self.entries.len() as u64
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        put_table(out, 0, 8, &self.entries);
    }
}
