//! `mehd`: duration of a fragmented movie (ISO/IEC 14496-12 §8.8.2).

use crate::{
    Error, FourCc,
    cursor::Cursor,
    write::{WriteBox, put_time, put_version_and_flags, version_for},
};

/// Duration of the longest track, fragments included, in movie ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mehd(pub u64);

impl Mehd {
    /// Reads the payload of a `mehd`.
    pub fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        let (version, _) = payload.version_up_to(1)?;
        payload.u32_or_u64(version).map(Self)
    }
}

impl WriteBox for Mehd {
    fn kind(&self) -> FourCc {
        FourCc(*b"mehd")
    }

    fn payload_size(&self) -> u64 {
        if version_for(&[self.0]) == 0 { 8 } else { 12 }
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        let version = version_for(&[self.0]);
        put_version_and_flags(out, version, 0);
        put_time(out, version, self.0);
    }
}
