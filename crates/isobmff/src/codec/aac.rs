//! AudioSpecificConfig (ISO/IEC 14496-3 §1.6.2.1): the codec and its output format.

use super::children::Position;
use super::description::Aac;
use super::usac;
use crate::Error;
use crate::bits::BitReader;
use bytes::Bytes;

/// A parsed AudioSpecificConfig, with the values that follow from it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AudioSpecificConfig {
    pub(super) config: Aac,
    /// Channels as decoded, with parametric stereo counted as 2; 0 if unknown.
    pub(super) channels: u16,
    /// Samples per second as decoded.
    pub(super) sample_rate: u32,
}

/// Sampling frequencies by samplingFrequencyIndex (ISO/IEC 14496-3 Table 1.18).
const SAMPLE_RATES: [u32; 13] =
    [96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350];

/// Audio object types (ISO/IEC 14496-3 Table 1.17).
const LC: u8 = 2;
const SBR: u8 = 5;
const ER_BSAC: u8 = 22;
const ER_AAC_LD: u8 = 23;
const PS: u8 = 29;
const ER_AAC_ELD: u8 = 39;
const USAC: u8 = 42;

/// Highest core rate at which spectral band replication may be present without being signalled.
const IMPLICIT_SBR_MAX_RATE: u32 = 24000;

/// Fields of an AudioSpecificConfig as they are read.
#[derive(Debug, Default)]
struct Parsed {
    core: u8,
    core_rate: u32,
    channel_config: u8,
    /// Number of channels in a program config element or a USAC configuration.
    counted: Option<u16>,
    program_config: bool,
    frame_length: u16,
    sbr_rate: Option<u32>,
    parametric_stereo: bool,
}

/// Reason why a configuration cannot be read.
enum Fault {
    Truncated,
    Bad(&'static str),
    Unsupported(&'static str),
}

/// Reads `asc`. `stated_rate` is the rate of the sample entry. If the configuration leaves spectral
/// band replication implicit, only this rate shows it.
pub(super) fn read(asc: &Bytes, stated_rate: u32, at: Position) -> Result<AudioSpecificConfig, Error> {
    let mut parsed = parse(asc).map_err(|fault| match fault {
        Fault::Truncated => at.truncated(),
        Fault::Bad(what) => at.bad(what),
        Fault::Unsupported(what) => at.unsupported(what),
    })?;
    let implicit = parsed.core == LC
        && parsed.sbr_rate.is_none()
        && parsed.core_rate <= IMPLICIT_SBR_MAX_RATE
        && stated_rate == parsed.core_rate * 2;
    if implicit {
        parsed.sbr_rate = Some(stated_rate);
    }
    let core_channels = parsed.counted.unwrap_or_else(|| channels(parsed.channel_config));
    let stereo_from_mono = parsed.parametric_stereo && core_channels == 1;
    let object_type = match (parsed.parametric_stereo, parsed.core) {
        (true, _) => PS,
        // Low-delay SBR is part of its object type and has none of its own.
        (false, core) if core == ER_AAC_ELD || parsed.sbr_rate.is_none() => core,
        (false, _) => SBR,
    };
    Ok(AudioSpecificConfig {
        channels: if stereo_from_mono { 2 } else { core_channels },
        sample_rate: parsed.sbr_rate.unwrap_or(parsed.core_rate),
        config: Aac {
            asc: asc.clone(),
            core_object_type: parsed.core,
            object_type,
            core_sample_rate: parsed.core_rate,
            channel_config: parsed.channel_config,
            program_config: parsed.program_config,
            frame_length: parsed.frame_length,
        },
    })
}

fn parse(asc: &[u8]) -> Result<Parsed, Fault> {
    let mut bits = BitReader::new(asc);
    let mut parsed = Parsed { core: object_type(&mut bits)?, ..Parsed::default() };
    parsed.core_rate = sample_rate(&mut bits)?;
    parsed.channel_config = bits.u8(4).ok_or(Fault::Truncated)?;
    // Hierarchical signalling: SBR or PS first, then the core they extend.
    let explicit = matches!(parsed.core, SBR | PS);
    if explicit {
        parsed.parametric_stereo = parsed.core == PS;
        parsed.sbr_rate = Some(sample_rate(&mut bits)?);
        parsed.core = object_type(&mut bits)?;
        if parsed.core == ER_BSAC {
            bits.skip(4).ok_or(Fault::Truncated)?;
        }
    }
    match parsed.core {
        1..=4 | 6 | 7 | 17 | 19..=23 => general_audio(&mut bits, &mut parsed).ok_or(Fault::Truncated)?,
        ER_AAC_ELD => low_delay(&mut bits, &mut parsed).ok_or(Fault::Truncated)?,
        USAC => {
            let usac = usac::config(&mut bits, |index| SAMPLE_RATES.get(usize::from(index)).copied());
            let usac = usac.ok_or(Fault::Truncated)?;
            parsed.core_rate = usac.sample_rate;
            parsed.frame_length = usac.frame_length;
            parsed.counted = usac.channels;
            return Ok(parsed);
        }
        // Layers 1 to 3 of MPEG-1 and MPEG-2 audio.
        32..=34 => {
            parsed.frame_length = if parsed.core == 32 { 384 } else { 1152 };
            return Ok(parsed);
        }
        0 => return Err(Fault::Bad("audio object type 0")),
        SBR | PS => return Err(Fault::Bad("SBR or PS nested in SBR or PS")),
        _ => return Err(Fault::Unsupported("audio object type")),
    }
    if matches!(parsed.core, 17 | 19..=27 | ER_AAC_ELD) && bits.u8(2).is_some_and(|ep_config| ep_config > 1) {
        return Err(Fault::Unsupported("error protection of the AudioSpecificConfig"));
    }
    if !explicit {
        // Backward compatible signalling follows the fields that old decoders read. If it is cut
        // off, it is ignored.
        let _ = sync_extension(&mut bits, &mut parsed);
    }
    Ok(parsed)
}

/// Reads GetAudioObjectType() (§1.6.2.1).
fn object_type(bits: &mut BitReader<'_>) -> Result<u8, Fault> {
    let kind = bits.u8(5).ok_or(Fault::Truncated)?;
    if kind == 31 { bits.u8(6).map(|extended| 32 + extended).ok_or(Fault::Truncated) } else { Ok(kind) }
}

fn sample_rate(bits: &mut BitReader<'_>) -> Result<u32, Fault> {
    let index = bits.u8(4).ok_or(Fault::Truncated)?;
    let rate = if index == 15 {
        bits.bits(24).ok_or(Fault::Truncated)?
    } else {
        *SAMPLE_RATES.get(usize::from(index)).ok_or(Fault::Bad("reserved sampling frequency index"))?
    };
    if rate == 0 { Err(Fault::Bad("sampling frequency 0")) } else { Ok(rate) }
}

/// Returns the channels of a channelConfiguration (ISO/IEC 14496-3 Table 1.19; 23001-8 for 11 and
/// above).
fn channels(config: u8) -> u16 {
    match config {
        1..=6 => config.into(),
        7 | 12 | 14 => 8,
        11 => 7,
        13 => 24,
        _ => 0,
    }
}

/// Reads GASpecificConfig() (§4.4.1).
fn general_audio(bits: &mut BitReader<'_>, parsed: &mut Parsed) -> Option<()> {
    let short_frames = bits.flag()?;
    parsed.frame_length = match (parsed.core == ER_AAC_LD, short_frames) {
        (false, false) => 1024,
        (false, true) => 960,
        (true, false) => 512,
        (true, true) => 480,
    };
    if bits.flag()? {
        bits.skip(14)?;
    }
    let extension = bits.flag()?;
    if parsed.channel_config == 0 {
        parsed.program_config = true;
        parsed.counted = Some(program_config_element(bits)?);
    }
    if matches!(parsed.core, 6 | 20) {
        bits.skip(3)?;
    }
    if extension {
        match parsed.core {
            ER_BSAC => bits.skip(5 + 11)?,
            17 | 19 | 20 | ER_AAC_LD => bits.skip(3)?,
            _ => {}
        }
        bits.skip(1)?;
    }
    Some(())
}

/// Reads program_config_element() (§4.4.1.1) and returns the number of channels in all its
/// elements.
fn program_config_element(bits: &mut BitReader<'_>) -> Option<u16> {
    // element_instance_tag, object_type, sampling_frequency_index.
    bits.skip(4 + 2 + 4)?;
    let front = bits.u16(4)?;
    let side = bits.u16(4)?;
    let back = bits.u16(4)?;
    let low = bits.u16(2)?;
    let data = usize::from(bits.u8(3)?);
    let coupling = usize::from(bits.u8(4)?);
    for length in [4, 4, 3] {
        if bits.flag()? {
            bits.skip(length)?;
        }
    }
    let mut channels = low;
    for _ in 0..front + side + back {
        let pair = bits.flag()?;
        bits.skip(4)?;
        channels += if pair { 2 } else { 1 };
    }
    bits.skip(usize::from(low) * 4 + data * 4 + coupling * 5)?;
    bits.align();
    let comment = usize::from(bits.u8(8)?);
    bits.skip(comment * 8)?;
    Some(channels)
}

/// Reads ELDSpecificConfig() (§4.6.20) up to low-delay SBR.
fn low_delay(bits: &mut BitReader<'_>, parsed: &mut Parsed) -> Option<()> {
    parsed.frame_length = if bits.flag()? { 480 } else { 512 };
    bits.skip(3)?;
    if bits.flag()? {
        let dual_rate = bits.flag()?;
        parsed.sbr_rate = dual_rate.then_some(parsed.core_rate * 2);
    }
    // The rest ends with tagged extensions. Error protection after them is not read.
    bits.rest();
    Some(())
}

/// Reads the sync extension at the end (§1.6.2.1): SBR under 0x2b7, PS under 0x548.
fn sync_extension(bits: &mut BitReader<'_>, parsed: &mut Parsed) -> Option<()> {
    if bits.bits(11)? != 0x2b7 || object_type(bits).ok()? != SBR || !bits.flag()? {
        return None;
    }
    parsed.sbr_rate = Some(sample_rate(bits).ok()?);
    if bits.bits(11)? == 0x548 {
        parsed.parametric_stereo = bits.flag()?;
    }
    Some(())
}
