//! `tfdt`: decode time of a fragment's first sample (ISO/IEC 14496-12 §8.8.12).

use crate::{
    Error, FourCc,
    cursor::Cursor,
    write::{WriteBox, put_version_and_flags},
};
use bytes::BufMut;

/// Decode time of the first sample in track ticks, before the edit list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tfdt(pub u64);

impl Tfdt {
    /// Reads the payload of a `tfdt`.
    pub fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        let (version, _) = payload.version_up_to(1)?;
        payload.u32_or_u64(version).map(Self)
    }
}

impl WriteBox for Tfdt {
    fn kind(&self) -> FourCc {
        FourCc(*b"tfdt")
    }

    fn payload_size(&self) -> u64 {
        12
    }

    /// Always writes version 1, so that the size of a `moof` does not depend on the time.
    fn write_payload(&self, out: &mut Vec<u8>) {
        put_version_and_flags(out, 1, 0);
        out.put_u64(self.0);
    }
}
