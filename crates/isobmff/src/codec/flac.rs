//! FLAC: `dfLa` (Encapsulation of FLAC in ISO Base Media File Format §3.3.2).

use super::audio_coding::AudioCoding;
use super::children::Child;
use super::description::Config;
use super::sample_entry::AudioFields;
use crate::Error;

/// BLOCK_TYPE of STREAMINFO, which is the first block (RFC 9639 §8.1).
const STREAMINFO: u8 = 0;

/// Reads `dfLa`. STREAMINFO can state 96 kHz, which does not fit the sample entry's 16-bit rate.
pub(super) fn coding(dfla: &Child, stated: AudioFields) -> Result<AudioCoding, Error> {
    let (_, mut bits) = dfla.full_box()?;
    let kind = bits.u8(8).ok_or(dfla.at.truncated())? & 0x7f;
    if kind != STREAMINFO {
        return Err(dfla.at.bad("dfLa does not begin with STREAMINFO"));
    }
    let coded = (|| {
        // Length; block and frame sizes.
        bits.skip(24 + 2 * 16 + 2 * 24)?;
        let sample_rate = bits.bits(20)?;
        let channels = bits.u16(3)? + 1;
        Some(AudioFields { channels, sample_rate })
    })();
    Ok(AudioCoding::new("fLaC".to_owned(), Config::Flac, coded.ok_or(dfla.at.truncated())?, stated))
}
