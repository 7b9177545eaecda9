//! `stss`: sync samples (ISO/IEC 14496-12 §8.6.2).

use crate::{
    Error, FourCc,
    cursor::{Cursor, u32_at},
    write::{WriteBox, put_table},
};
use bytes::{BufMut, Bytes};

/// The numbers of the sync samples; a view of the box's entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncSamples {
    entries: Bytes,
}

impl SyncSamples {
    /// Reads the payload of a `stss`. The caller checks that the numbers ascend.
    pub fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        Ok(Self { entries: payload.counted_table(4)? })
    }

    /// Iterates over the sample numbers, 1-based, in file order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u32> + Clone + '_ {
        self.entries.as_chunks::<4>().0.iter().map(|entry| u32_at(entry, 0))
    }
}

impl FromIterator<u32> for SyncSamples {
    fn from_iter<I: IntoIterator<Item = u32>>(samples: I) -> Self {
        let mut entries = Vec::new();
        for sample in samples {
            entries.put_u32(sample);
        }
        Self { entries: entries.into() }
    }
}

impl WriteBox for SyncSamples {
    fn kind(&self) -> FourCc {
        FourCc(*b"stss")
    }

    fn payload_size(&self) -> u64 {
        8 + self.entries.len() as u64
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        put_table(out, 0, 4, &self.entries);
    }
}
