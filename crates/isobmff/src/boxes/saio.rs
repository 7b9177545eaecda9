//! `saio`: offsets of sample auxiliary information (ISO/IEC 14496-12 §8.7.9).

use super::saiz::{parse_type, put_type};
use crate::{
    Error, FourCc,
    cursor::Cursor,
    write::{WriteBox, put_count},
};
use bytes::BufMut;

/// The positions of auxiliary information in a track fragment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saio<'a> {
    /// `aux_info_type`, that of the `saiz`. `None` stands for the protection scheme of the track.
    pub info_type: Option<FourCc>,
    /// For each run of samples, the offset in bytes of the information of its first sample, from
    /// the base of the data offsets.
    pub offsets: &'a [u32],
}

impl Saio<'_> {
    /// Reads the type and the first offset from the payload of a `saio`. The offset is `None` if
    /// there is none, or if offsets have 64 bits.
    pub fn parse_first(mut payload: Cursor<'_>) -> Result<(Option<FourCc>, Option<u32>), Error> {
        let version = payload.peek().first().copied();
        let info_type = parse_type(&mut payload)?;
        let has_offset = payload.u32()? > 0 && version == Some(0);
        Ok((info_type, if has_offset { Some(payload.u32()?) } else { None }))
    }
}

impl WriteBox for Saio<'_> {
    fn kind(&self) -> FourCc {
        FourCc(*b"saio")
    }

    fn payload_size(&self) -> u64 {
        8 + if self.info_type.is_some() { 8 } else { 0 } + 4 * self.offsets.len() as u64
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        put_type(out, self.info_type);
        put_count(out, self.offsets.len());
        self.offsets.iter().for_each(|&offset| out.put_u32(offset));
    }
}
