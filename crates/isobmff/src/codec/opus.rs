//! Opus: `dOps` (Encapsulation of Opus in ISO Base Media File Format §4.3.2).

use super::Config;
use super::audio::Coding;
use super::children::Child;
use super::sample_entry::Sound;
use crate::Error;

/// Opus decodes to this rate whatever went in (RFC 6716 §2).
const SAMPLE_RATE: u32 = 48000;

/// Reads `dOps`.
pub(super) fn coding(dops: &Child, stated: Sound) -> Result<Coding, Error> {
    let mut bits = dops.bits();
    if bits.u8(8).ok_or(dops.at.truncated())? != 0 {
        return Err(dops.at.unsupported("version of dOps"));
    }
    let channels = bits.u16(8).ok_or(dops.at.truncated())?;
    // PreSkip, InputSampleRate, OutputGain, ChannelMappingFamily.
    bits.skip(16 + 32 + 16 + 8).ok_or(dops.at.truncated())?;
    let sound = Sound { channels, sample_rate: SAMPLE_RATE };
    Ok(Coding::new("Opus".to_owned(), Config::Opus, sound, stated))
}
