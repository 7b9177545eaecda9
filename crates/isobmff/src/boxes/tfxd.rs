//! `uuid` boxes in a track fragment: absolute time and duration of Smooth Streaming ([MS-SSTR]
//! 2.2.4.4), and the extended type of PIFF's sample encryption (PIFF 1.1 §5.3.2).

use crate::{
    Error, FourCc,
    cursor::Cursor,
    write::{WriteBox, put_version_and_flags},
};
use bytes::BufMut;

/// Extended type of the absolute time and duration box.
pub const TFXD: [u8; 16] =
    [0x6d, 0x1d, 0x9b, 0x05, 0x42, 0xd5, 0x44, 0xe6, 0x80, 0xe2, 0x14, 0x1d, 0xaf, 0xf7, 0x57, 0xb2];

/// Extended type of PIFF's sample encryption box, the forerunner of `senc`.
pub const PIFF_SENC: [u8; 16] =
    [0xa2, 0x39, 0x4f, 0x52, 0x5a, 0x9b, 0x4f, 0x14, 0xa2, 0x44, 0x6c, 0x42, 0x7c, 0x64, 0x8d, 0xf4];

/// Reads the payload of a `uuid` box of type [`TFXD`], extended type included. Returns the absolute
/// time of the fragment and its duration, in track ticks.
pub fn parse(mut payload: Cursor<'_>) -> Result<(u64, u64), Error> {
    payload.skip(16)?;
    let (version, _) = payload.version_up_to(1)?;
    Ok((payload.u32_or_u64(version)?, payload.u32_or_u64(version)?))
}

/// The absolute time and duration of a fragment, to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tfxd {
    /// Absolute time of the fragment, in track ticks.
    pub time: u64,
    /// Duration of the fragment, in track ticks.
    pub duration: u64,
}

impl WriteBox for Tfxd {
    fn kind(&self) -> FourCc {
        FourCc(*b"uuid")
    }

    fn payload_size(&self) -> u64 {
        36
    }

    /// Always writes version 1, so that the size does not depend on the time.
    fn write_payload(&self, out: &mut Vec<u8>) {
        out.put_slice(&TFXD);
        put_version_and_flags(out, 1, 0);
        out.put_u64(self.time);
        out.put_u64(self.duration);
    }
}
