//! `uuid` boxes in a track fragment: absolute time and duration of Smooth Streaming ([MS-SSTR] 2.2.4.4), and
//! the extended type that tells PIFF's sample encryption (PIFF 1.1 §5.3.2).

use crate::{Error, cursor::Cursor};

/// Extended type of the absolute time and duration box.
pub const TFXD: [u8; 16] =
    [0x6d, 0x1d, 0x9b, 0x05, 0x42, 0xd5, 0x44, 0xe6, 0x80, 0xe2, 0x14, 0x1d, 0xaf, 0xf7, 0x57, 0xb2];

/// Extended type of PIFF's sample encryption box, the forerunner of `senc`.
pub const PIFF_SENC: [u8; 16] =
    [0xa2, 0x39, 0x4f, 0x52, 0x5a, 0x9b, 0x4f, 0x14, 0xa2, 0x44, 0x6c, 0x42, 0x7c, 0x64, 0x8d, 0xf4];

/// Reads the payload of a `uuid` box of type [`TFXD`], extended type included: the absolute time of the fragment
/// and its duration, in track ticks.
///
/// # Errors
/// Truncated, or a version nobody knows yet.
pub fn parse(mut payload: Cursor<'_>) -> Result<(u64, u64), Error> {
    payload.skip(16)?;
    let (version, _) = payload.version_up_to(1)?;
    Ok((payload.u32_or_u64(version)?, payload.u32_or_u64(version)?))
}
