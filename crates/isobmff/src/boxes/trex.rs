//! `trex`: defaults for a track's fragments (ISO/IEC 14496-12 §8.8.3).

use crate::{
    Error, FourCc,
    cursor::Cursor,
    write::{WriteBox, put_version_and_flags},
};
use bytes::BufMut;

/// Defaults that `tfhd` and `trun` can override.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trex {
    /// Track of the defaults.
    pub track_id: u32,
    /// 1-based index into `stsd`.
    pub sample_description_index: u32,
    /// Sample duration in track ticks.
    pub duration: u32,
    /// Sample size in bytes.
    pub size: u32,
    /// Sample flags (§8.8.3.1).
    pub flags: u32,
}

impl Trex {
    /// Returns defaults that state only the first sample entry; fragments state everything else.
    pub const fn plain(track_id: u32) -> Self {
        Self { track_id, sample_description_index: 1, duration: 0, size: 0, flags: 0 }
    }

    /// Reads the payload of a `trex`.
    pub fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        payload.version_and_flags()?;
        Ok(Self {
            track_id: payload.u32()?,
            sample_description_index: payload.u32()?,
            duration: payload.u32()?,
            size: payload.u32()?,
            flags: payload.u32()?,
        })
    }
}

impl WriteBox for Trex {
    fn kind(&self) -> FourCc {
        FourCc(*b"trex")
    }

    fn payload_size(&self) -> u64 {
        24
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        put_version_and_flags(out, 0, 0);
        let fields = [self.track_id, self.sample_description_index, self.duration, self.size, self.flags];
        fields.into_iter().for_each(|field| out.put_u32(field));
    }
}
