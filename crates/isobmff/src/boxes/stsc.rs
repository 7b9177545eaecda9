//! `stsc`: How many samples each chunk holds (ISO/IEC 14496-12 §8.7.4).

use crate::{
    Error, FourCc,
    cursor::{Cursor, u32_at},
    emit::{WriteBox, put_version_and_flags},
};
use bytes::{BufMut, Bytes};

/// How many samples each chunk holds; a view of the box's entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
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
    /// Reads the payload of a `stsc`. Whether the chunks ascend is for the caller to see.
    ///
    /// # Errors
    /// Truncated, or more entries than bytes.
    pub fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        payload.version_and_flags()?;
        let count = payload.u32()?;
        Ok(Self { entries: payload.table("entry_count", count, 12)? })
    }

    /// The runs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Run> + Clone + '_ {
        self.entries.as_chunks::<12>().0.iter().map(|entry| Run {
            first_chunk: u32_at(entry, 0),
            samples_per_chunk: u32_at(entry, 4),
            sample_description_index: u32_at(entry, 8),
        })
    }
}

impl FromIterator<Run> for SamplesToChunks {
    fn from_iter<I: IntoIterator<Item = Run>>(runs: I) -> Self {
        let mut entries = Vec::new();
        for run in runs {
            entries.put_u32(run.first_chunk);
            entries.put_u32(run.samples_per_chunk);
            entries.put_u32(run.sample_description_index);
        }
        Self { entries: entries.into() }
    }
}

impl WriteBox for SamplesToChunks {
    fn kind(&self) -> FourCc {
        FourCc(*b"stsc")
    }

    fn payload_size(&self) -> u64 {
        8 + self.entries.len() as u64
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        put_version_and_flags(out, 0, 0);
        out.put_u32(u32::try_from(self.entries.len() / 12).unwrap_or(u32::MAX));
        out.put_slice(&self.entries);
    }
}
