//! `stss`: Which samples are sync samples (ISO/IEC 14496-12 §8.6.2).

use crate::{
    Error, FourCc,
    cursor::{Cursor, u32_at},
    emit::{WriteBox, put_version_and_flags},
};
use bytes::{BufMut, Bytes};

/// Which samples are sync samples; a view of the box's entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SyncSamples {
    entries: Bytes,
}

impl SyncSamples {
    /// Reads the payload of a `stss`. Whether the numbers ascend is for the caller to see.
    ///
    /// # Errors
    /// Truncated, or more entries than bytes.
    pub fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        payload.version_and_flags()?;
        let count = payload.u32()?;
        Ok(Self { entries: payload.table("entry_count", count, 4)? })
    }

    /// Sample numbers, 1-based, as they stand in the file.
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
        put_version_and_flags(out, 0, 0);
        out.put_u32(u32::try_from(self.entries.len() / 4).unwrap_or(u32::MAX));
        out.put_slice(&self.entries);
    }
}
