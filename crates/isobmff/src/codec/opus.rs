//! Opus: `dOps` (Encapsulation of Opus in ISO Base Media File Format §4.3.2).

use super::audio_coding::AudioCoding;
use super::children::Child;
use super::description::Config;
use super::sample_entry::AudioFields;
use crate::Error;

/// Rate that Opus decodes to, independent of the input (RFC 6716 §2).
const SAMPLE_RATE: u32 = 48000;

/// Reads `dOps`.
pub(super) fn coding(dops: &Child, stated: AudioFields) -> Result<AudioCoding, Error> {
    let mut bits = dops.bits();
    if bits.u8(8).ok_or(dops.at.truncated())? != 0 {
        return Err(dops.at.unsupported("version of dOps"));
    }
    let channels = bits.u16(8).ok_or(dops.at.truncated())?;
    // PreSkip, InputSampleRate, OutputGain, ChannelMappingFamily.
    bits.skip(16 + 32 + 16 + 8).ok_or(dops.at.truncated())?;
    let coded = AudioFields { channels, sample_rate: SAMPLE_RATE };
    Ok(AudioCoding::new("Opus".to_owned(), Config::Opus, coded, stated))
}
