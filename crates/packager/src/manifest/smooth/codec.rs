//! The codec attributes of a quality level ([MS-SSTR] 2.2.2.5): FourCC and configuration.

use latemux_index::Track;
use latemux_isobmff::codec::{Config, Hevc, configuration_record};
use std::fmt::Write as _;

/// Attributes of a `QualityLevel`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct CodecAttributes {
    pub(super) four_cc: String,
    pub(super) private_data: String,
    /// `AudioTag`: a WAVEFORMATEX format tag.
    pub(super) audio_tag: Option<u16>,
    /// `NALUnitLengthField` in bytes.
    pub(super) nal_length: Option<u8>,
    /// `SamplingRate` if it differs from that of the decoded audio: HE-AAC states that of its core.
    pub(super) sampling_rate: Option<u32>,
}

/// WAVE_FORMAT_RAW_AAC1 and WAVE_FORMAT_EXTENSIBLE.
const AAC_TAG: u16 = 255;
const EXTENSIBLE_TAG: u16 = 65534;
/// KSDATAFORMAT_SUBTYPE_DOLBY_DDPLUS, {A7FB87AF-2D02-42FB-A4D4-05CD93843BDD}, as in memory.
const DOLBY_DIGITAL_PLUS: [u8; 16] =
    [0xAF, 0x87, 0xFB, 0xA7, 0x02, 0x2D, 0xFB, 0x42, 0xA4, 0xD4, 0x05, 0xCD, 0x93, 0x84, 0x3B, 0xDD];
/// Samples in an E-AC-3 frame of six blocks.
const FRAME_SAMPLES: u16 = 1536;

impl CodecAttributes {
    /// Returns the attributes of a track. `None` if Smooth Streaming does not carry it.
    pub(super) fn of(track: &Track) -> Option<Self> {
        let plain = |four_cc: &str, private_data| Self {
            four_cc: four_cc.to_owned(),
            private_data,
            audio_tag: None,
            nal_length: None,
            sampling_rate: None,
        };
        Some(match &track.codec.config {
            Config::Avc(avc) => Self {
                nal_length: Some(avc.nal_length_size),
                ..plain("AVC1", byte_stream(avc.sps.iter().chain(&avc.pps)))
            },
            Config::Hevc(hevc) => Self {
                nal_length: Some(hevc.nal_length_size),
                ..plain(
                    if track.codec.format == b"hev1" { "HEV1" } else { "HVC1" },
                    byte_stream(parameter_sets(hevc)),
                )
            },
            Config::Aac(aac) => {
                // 5 and 29: spectral band replication, without and with parametric stereo.
                let high_efficiency = matches!(aac.object_type, 5 | 29);
                Self {
                    audio_tag: Some(AAC_TAG),
                    sampling_rate: high_efficiency.then_some(aac.core_sample_rate),
                    ..plain(if high_efficiency { "AACH" } else { "AACL" }, hex(&aac.asc))
                }
            }
            Config::Eac3 => Self {
                audio_tag: Some(EXTENSIBLE_TAG),
                ..plain("EC-3", wave_format(&configuration_record(&track.sample_entry, b"dec3")?)?)
            },
            Config::Stpp | Config::Wvtt | Config::Tx3g => plain("TTML", String::new()),
            _ => return None,
        })
    }
}

/// Returns VPS, SPS and PPS of a configuration, in this order (ISO/IEC 23008-2 Table 7-1).
fn parameter_sets(hevc: &Hevc) -> impl Iterator<Item = &bytes::Bytes> {
    let of = |kind: u8| move |nal: &&bytes::Bytes| nal.first().is_some_and(|b| b >> 1 & 0x3F == kind);
    [32, 33, 34].into_iter().flat_map(move |kind| hevc.nal_units.iter().filter(of(kind)))
}

/// Joins NAL units with start codes of four bytes.
fn byte_stream<'a>(nal_units: impl Iterator<Item = &'a bytes::Bytes>) -> String {
    nal_units.fold(String::new(), |data, nal| data + "00000001" + &hex(nal))
}

/// Returns what follows the WAVEFORMATEX: samples per frame, channel mask, sub-format, `dec3`.
fn wave_format(dec3: &[u8]) -> Option<String> {
    let mut data = FRAME_SAMPLES.to_le_bytes().to_vec();
    data.extend(channel_mask(dec3)?.to_le_bytes());
    data.extend(DOLBY_DIGITAL_PLUS);
    data.extend(dec3);
    Some(hex(&data))
}

/// Returns the speakers of the first programme: those of its independent substream by acmod (ETSI
/// TS 102 366 Table 4.3), low-frequency effects, and those that dependent substreams add by
/// chan_loc (Table F.6.1). Surround speakers count as back speakers, as in decoders of 5.1.
fn channel_mask(dec3: &[u8]) -> Option<u32> {
    const BY_ACMOD: [u32; 8] = [0x3, 0x4, 0x3, 0x7, 0x103, 0x107, 0x33, 0x37];
    const LOW_FREQUENCY: u32 = 0x8;
    // Lc/Rc, Lrs/Rrs (the other surround speakers then are at the sides), Cs, Ts, Lsd/Rsd, Lw/Rw,
    // Lvh/Rvh, Cvh, LFE2. A 0 stands for speakers without a bit in the mask.
    const BY_LOCATION: [u32; 9] = [0xC0, 0x600, 0x100, 0x800, 0x600, 0, 0x5000, 0x2000, 0];
    // data_rate and num_ind_sub, then fscod to bsmod.
    let &[_, _, _, modes, dependent, ..] = dec3 else { return None };
    let mut mask = *BY_ACMOD.get(usize::from(modes >> 1 & 7))?;
    if modes & 1 != 0 {
        mask |= LOW_FREQUENCY;
    }
    if dependent >> 1 & 0xF > 0 {
        let locations = u32::from(dependent & 1) << 8 | u32::from(*dec3.get(5)?);
        for (bit, speakers) in BY_LOCATION.iter().enumerate() {
            if locations >> bit & 1 != 0 {
                mask |= speakers;
            }
        }
    }
    Some(mask)
}

/// Formats bytes in upper-case hexadecimal.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02X}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Data that encoders of Dolby Digital Plus write for Smooth Streaming.
    #[test]
    fn dolby_digital_plus_data_matches_that_of_encoders() {
        let dec3 = [0x07, 0x00, 0x20, 0x0F, 0x00];
        let data = wave_format(&dec3).unwrap();
        assert_eq!(data, "00063F000000AF87FBA7022DFB42A4D405CD93843BDD0700200F00");
    }

    #[test]
    fn channel_masks_name_the_speakers() {
        assert_eq!(channel_mask(&[0, 0, 0x20, 0x04, 0]), Some(0x3));
        assert_eq!(channel_mask(&[0, 0, 0x20, 0x02, 0]), Some(0x4));
        // 7.1: back surround in a dependent substream.
        assert_eq!(channel_mask(&[0, 0, 0x20, 0x0F, 0x02, 0x02]), Some(0x63F));
        assert_eq!(channel_mask(&[0, 0, 0x20, 0x0F, 0x02]), None);
        assert_eq!(channel_mask(&[0, 0, 0x20]), None);
    }
}
