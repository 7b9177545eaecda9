//! UsacConfig (ISO/IEC 23003-3 §5.2): xHE-AAC.

use crate::bits::BitReader;

/// The head of a UsacConfig. Rate and frame length are those of the output, after SBR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct UsacConfig {
    pub(super) sample_rate: u32,
    pub(super) frame_length: u16,
    /// `None` if the index is reserved.
    pub(super) channels: Option<u16>,
}

/// Rates by usacSamplingFrequencyIndex from 15 on, beyond those of MPEG-4 audio (ISO/IEC 23003-3
/// Table 67).
const MORE_RATES: [u32; 13] =
    [57600, 51200, 40000, 38400, 34150, 28800, 25600, 20000, 19200, 17075, 14400, 12800, 9600];

/// Channels by channelConfigurationIndex, from 1 on (ISO/IEC 23003-3 Table 68).
const CHANNELS: [u16; 13] = [1, 2, 3, 4, 5, 6, 8, 2, 3, 4, 7, 8, 24];

/// Reads the fields from usacSamplingFrequencyIndex to UsacChannelConfig. `rate_of` returns the
/// rates that are shared with MPEG-4 audio.
pub(super) fn config(bits: &mut BitReader<'_>, rate_of: impl Fn(u8) -> Option<u32>) -> Option<UsacConfig> {
    let index = bits.u8(5)?;
    let sample_rate = match index {
        31 => bits.bits(24)?,
        0..15 => rate_of(index)?,
        _ => *MORE_RATES.get(usize::from(index) - 15)?,
    };
    // coreSbrFrameLengthIndex (Table 70): output samples in a frame.
    let frame_length = match bits.u8(3)? {
        0 => 768,
        1 => 1024,
        2 | 3 => 2048,
        4 => 4096,
        _ => return None,
    };
    let channels = match bits.u8(5)? {
        0 => u16::try_from(escaped_value(bits, [5, 8, 16])?).ok(),
        index => CHANNELS.get(usize::from(index) - 1).copied(),
    };
    Some(UsacConfig { sample_rate, frame_length, channels })
}

/// Reads escapedValue() (ISO/IEC 23003-3 §5.2): a number that continues as long as all bits of its
/// last part are ones.
fn escaped_value(bits: &mut BitReader<'_>, lengths: [u32; 3]) -> Option<u32> {
    let mut value = 0u32;
    for length in lengths {
        let part = bits.bits(length)?;
        value = value.checked_add(part)?;
        if part != (1u32 << length) - 1 {
            break;
        }
    }
    Some(value)
}
