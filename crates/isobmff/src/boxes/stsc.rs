//! `stsc`: the number of samples in each chunk (ISO/IEC 14496-12 §8.7.4).

use crate::{
    Error, FourCc,
    cursor::{Cursor, u32_at},
    write::{WriteBox, put_table},
};
use bytes::{BufMut, Bytes};

/// The number of samples in each chunk; a view of the box's entries.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SamplesToChunks {
    entries: Bytes,
}

/// A run of chunks with the same number of samples.
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
    /// Reads the payload of a `stsc`. The caller checks that the chunk numbers ascend.
    pub fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        Ok(Self { entries: payload.counted_table(12)? })
    }

    /// Iterates over the runs in order.
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
        put_table(out, 0, 12, &self.entries);
    }
}
