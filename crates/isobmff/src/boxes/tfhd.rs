//! `tfhd`: a fragment's track and its defaults (ISO/IEC 14496-12 §8.8.7).

use crate::{
    Error, FourCc,
    cursor::Cursor,
    write::{WriteBox, put_version_and_flags},
};
use bytes::BufMut;

const BASE_DATA_OFFSET: u32 = 0x1;
const SAMPLE_DESCRIPTION_INDEX: u32 = 0x2;
const DEFAULT_DURATION: u32 = 0x8;
const DEFAULT_SIZE: u32 = 0x10;
const DEFAULT_FLAGS: u32 = 0x20;
const DURATION_IS_EMPTY: u32 = 0x1_0000;
const DEFAULT_BASE_IS_MOOF: u32 = 0x2_0000;

/// A track fragment header. A field that is `None` is absent from the box; its value comes from
/// `trex`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tfhd {
    /// Track of the fragment.
    pub track_id: u32,
    /// Base of the data offsets, in bytes from the start of the file.
    pub base_data_offset: Option<u64>,
    /// 1-based index into `stsd`.
    pub sample_description_index: Option<u32>,
    /// Default sample duration in track ticks.
    pub default_duration: Option<u32>,
    /// Default sample size in bytes.
    pub default_size: Option<u32>,
    /// Default sample flags (§8.8.3.1).
    pub default_flags: Option<u32>,
    /// True if the fragment has no samples.
    pub duration_is_empty: bool,
    /// If true, the base without a base data offset is the first byte of the `moof`.
    pub default_base_is_moof: bool,
}

impl Tfhd {
    /// Reads the payload of a `tfhd`.
    pub fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        let (_, flags) = payload.version_and_flags()?;
        let track_id = payload.u32()?;
        let base_data_offset = if flags & BASE_DATA_OFFSET != 0 { Some(payload.u64()?) } else { None };
        let mut optional = |flag| if flags & flag != 0 { payload.u32().map(Some) } else { Ok(None) };
        Ok(Self {
            track_id,
            base_data_offset,
            sample_description_index: optional(SAMPLE_DESCRIPTION_INDEX)?,
            default_duration: optional(DEFAULT_DURATION)?,
            default_size: optional(DEFAULT_SIZE)?,
            default_flags: optional(DEFAULT_FLAGS)?,
            duration_is_empty: flags & DURATION_IS_EMPTY != 0,
            default_base_is_moof: flags & DEFAULT_BASE_IS_MOOF != 0,
        })
    }

    /// Returns the optional 32-bit fields in the order of the box, each with its flag.
    const fn optional(&self) -> [(u32, Option<u32>); 4] {
        [
            (SAMPLE_DESCRIPTION_INDEX, self.sample_description_index),
            (DEFAULT_DURATION, self.default_duration),
            (DEFAULT_SIZE, self.default_size),
            (DEFAULT_FLAGS, self.default_flags),
        ]
    }
}

impl WriteBox for Tfhd {
    fn kind(&self) -> FourCc {
        FourCc(*b"tfhd")
    }

    fn payload_size(&self) -> u64 {
        let optional = self.optional().iter().filter(|(_, field)| field.is_some()).count() as u64;
        8 + if self.base_data_offset.is_some() { 8 } else { 0 } + 4 * optional
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        let present = |flag, is: bool| if is { flag } else { 0 };
        let flags = present(BASE_DATA_OFFSET, self.base_data_offset.is_some())
            | present(DURATION_IS_EMPTY, self.duration_is_empty)
            | present(DEFAULT_BASE_IS_MOOF, self.default_base_is_moof)
            | self.optional().iter().fold(0, |flags, (flag, field)| flags | present(*flag, field.is_some()));
        put_version_and_flags(out, 0, flags);
        out.put_u32(self.track_id);
        if let Some(offset) = self.base_data_offset {
            out.put_u64(offset);
        }
        for field in self.optional().into_iter().filter_map(|(_, field)| field) {
            out.put_u32(field);
        }
    }
}
