//! FLAC: `dfLa` (Encapsulation of FLAC in ISO Base Media File Format §3.3.2).

use super::Config;
use super::audio::Coding;
use super::children::Child;
use super::sample_entry::Sound;
use crate::Error;

/// BLOCK_TYPE of STREAMINFO, which comes first (RFC 9639 §8.1).
const STREAMINFO: u8 = 0;

/// Reads `dfLa`. The sample entry's 16-bit rate cannot hold 96 kHz; STREAMINFO does.
pub(super) fn coding(dfla: &Child, stated: Sound) -> Result<Coding, Error> {
    let (_, mut bits) = dfla.full_box()?;
    let kind = bits.u8(8).ok_or(dfla.at.truncated())? & 0x7f;
    if kind != STREAMINFO {
        return Err(dfla.at.bad("dfLa does not begin with STREAMINFO"));
    }
    let sound = (|| {
        // Length; block and frame sizes.
        bits.skip(24 + 2 * 16 + 2 * 24)?;
        let sample_rate = bits.bits(20)?;
        let channels = bits.u16(3)? + 1;
        Some(Sound { channels, sample_rate })
    })();
    Ok(Coding::new("fLaC".to_owned(), Config::Flac, sound.ok_or(dfla.at.truncated())?, stated))
}
