//! `mfhd`: sequence number of a movie fragment (ISO/IEC 14496-12 §8.8.5).

use crate::{
    Error, FourCc,
    cursor::Cursor,
    write::{WriteBox, put_version_and_flags},
};
use bytes::BufMut;

/// Sequence number of a fragment; it ascends through a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mfhd(pub u32);

impl Mfhd {
    /// Reads the payload of a `mfhd`.
    pub fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        payload.version_and_flags()?;
        payload.u32().map(Self)
    }
}

impl WriteBox for Mfhd {
    fn kind(&self) -> FourCc {
        FourCc(*b"mfhd")
    }

    fn payload_size(&self) -> u64 {
        8
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        put_version_and_flags(out, 0, 0);
        out.put_u32(self.0);
    }
}
