//! The codecs that each protocol carries. A track that a protocol cannot carry is left out of its
//! manifest, with the reason in the log and in `inspect`. It is never sent broken.
//!
//! | | DASH | HLS CMAF | HLS TS | Smooth | HDS | note |
//! |---|---|---|---|---|---|---|
//! | AVC | ✓ | ✓ | ✓ | 4 | 4 | NAL lengths of 4 bytes only; in TS, others are read first |
//! | SVC | ✓ | ✓ | – | – | – | `svc1`, `svc2` with their base layer; SVC in `avc1` is AVC |
//! | HEVC | ✓ | ✓ | – | 4 | – | Apple's authoring specification 1.5 demands fMP4 |
//! | AV1, VP9 | ✓ | ✓ | – | – | – | no TS mapping; hls.js and Shaka play VP9 in CMAF |
//! | AAC | ✓ | ✓ | ADTS | not xHE | Main, LC, HE | ADTS: ISO/IEC 14496-3 §1.A.2 |
//! | E-AC-3 | ✓ | ✓ | ✓ | ✓ | – | Smooth states it by a WAVEFORMATEXTENSIBLE |
//! | AC-3 | ✓ | ✓ | ✓ | – | – | |
//! | MP3 | ✓ | ✓ | ✓ | – | FLV's rates | |
//! | AC-4, DTS, Opus, FLAC | ✓ | ✓ | – | – | – | no CODECS name in HLS TS |
//! | `stpp` | ✓ | ✓ | ✓ | ✓ | – | HLS: as WebVTT beside TS, and beside CMAF unless it is `im1t` |
//! | `wvtt` | ✓ | ✓ | ✓ | ✓ | – | HLS: as WebVTT; Smooth: as TTML |
//! | `tx3g` | ✓ | ✓ | ✓ | ✓ | – | DASH: as `wvtt`; HLS: as WebVTT; Smooth: as TTML |

use crate::PackError;
use latemux_index::{
    Title, Track,
    media::TrackKind,
    title::{TitleProblem, TrackName},
};
use latemux_isobmff::codec::{Aac, Avc, Codec, Config, Hevc, Media, Svc};

/// A protocol with its container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// MPEG-DASH with CMAF segments.
    Dash,
    /// HLS with CMAF segments.
    HlsCmaf,
    /// HLS with MPEG-2 TS segments.
    HlsTs,
    /// Microsoft Smooth Streaming.
    Smooth,
    /// Adobe HTTP Dynamic Streaming.
    Hds,
}

impl Protocol {
    /// All protocols.
    pub const ALL: [Self; 5] = [Self::Dash, Self::HlsCmaf, Self::HlsTs, Self::Smooth, Self::Hds];

    /// Returns the name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dash => "DASH",
            Self::HlsCmaf => "HLS CMAF",
            Self::HlsTs => "HLS TS",
            Self::Smooth => "Smooth Streaming",
            Self::Hds => "HDS",
        }
    }
}

/// Checks if a protocol carries a track.
///
/// # Errors
/// The reason why it does not, for people, such as "HLS TS has no mapping for av01".
pub fn carries(protocol: Protocol, track: &Track) -> Result<(), String> {
    let codec = &track.codec;
    if let Some(scheme) = codec.protection {
        return Err(format!("{} is encrypted ({scheme})", codec.format));
    }
    match (protocol, &codec.config) {
        (protocol, Config::Other) => Err(no_mapping(protocol, codec)),
        (_, Config::Svc(Svc { has_base: false, .. })) => {
            Err(format!("{} needs the base layer of another track", codec.format))
        }
        (Protocol::Dash | Protocol::HlsCmaf, _)
        | (Protocol::HlsTs, Config::Avc(_) | Config::Mp3 | Config::Ac3 | Config::Eac3)
        | (Protocol::HlsTs, Config::Wvtt | Config::Stpp | Config::Tx3g)
        | (Protocol::Smooth, Config::Eac3 | Config::Stpp | Config::Wvtt | Config::Tx3g) => Ok(()),
        (Protocol::HlsTs, Config::Aac(aac)) => check_adts(aac),
        (Protocol::Smooth | Protocol::Hds, Config::Avc(avc)) => {
            check_sample_entry(protocol, codec)?;
            check_avc(protocol, avc)
        }
        (Protocol::Smooth, Config::Hevc(hevc)) => {
            check_sample_entry(protocol, codec)?;
            check_hevc(hevc)
        }
        // Low-delay AAC and xHE-AAC have no FourCC.
        (Protocol::Smooth, Config::Aac(aac)) => check_object_type(4, protocol, aac),
        (Protocol::Hds, Config::Aac(aac)) => check_object_type(2, protocol, aac),
        (Protocol::Hds, Config::Mp3) => check_flv_rate(codec),
        (protocol, _) => Err(no_mapping(protocol, codec)),
    }
}

/// Returns true if HLS sends all text of a title as WebVTT segments. Beside CMAF, TTML that players
/// take is sent as it is: IMSC1 text, if the title has no other text. Players of HLS take neither
/// WebVTT in MP4 nor other TTML.
pub(crate) fn sends_webvtt(title: &Title, protocol: Protocol) -> bool {
    let texts = || title.whole_tracks().map(|named| title.track(named)).filter(|t| t.kind == TrackKind::Text);
    protocol == Protocol::HlsTs
        || (protocol == Protocol::HlsCmaf && texts().any(|text| text.codec.rfc6381 != "stpp.ttml.im1t"))
}

/// Returns the problems of a title that some protocols cannot state: they have no field for the
/// turning or mirroring of a picture, which `tkhd` states.
pub fn problems(title: &Title) -> Vec<TitleProblem> {
    let mut found = Vec::new();
    for named in title.tracks() {
        let track = title.track(named);
        let silent = [Protocol::HlsTs, Protocol::Smooth, Protocol::Hds];
        let protocols: Vec<&str> = silent
            .into_iter()
            .filter(|&protocol| carries(protocol, track).is_ok())
            .map(Protocol::name)
            .collect();
        if track.matrix.is_upright() || protocols.is_empty() {
            continue;
        }
        let turn = match track.matrix.quarter_turns() {
            Some(degrees) => format!("rotated by {degrees}°"),
            None => "rotated or mirrored".to_owned(),
        };
        found.push(TitleProblem {
            object: Some(named.object),
            reason: "rotation_lost",
            detail: format!(
                "{} must be {turn} for display, which cannot be stated in {}",
                named.name,
                protocols.join(", ")
            ),
        });
    }
    found
}

/// Checks if a protocol carries a track. Fails with [`PackError::CannotCarry`] if it does not.
pub(crate) fn must_carry(protocol: Protocol, track: &Track) -> Result<(), PackError> {
    let format = track.codec.format;
    carries(protocol, track).map_err(|_| PackError::CannotCarry { protocol: protocol.name(), format })
}

/// Finds a track by name, and its index. Fails with [`PackError::NoSuchTrack`] if the title has no
/// such track, with [`PackError::CannotCarry`] if the protocol does not carry it.
pub(crate) fn find_carried<'a>(
    title: &'a Title,
    protocol: Protocol,
    name: &TrackName,
) -> Result<(usize, &'a Track), PackError> {
    let index = title.find(name).ok_or_else(|| PackError::NoSuchTrack(name.to_string()))?;
    let track = title.track(&title.tracks()[index]);
    must_carry(protocol, track)?;
    Ok((index, track))
}

fn no_mapping(protocol: Protocol, codec: &Codec) -> String {
    format!("{} has no mapping for {}", protocol.name(), codec.format)
}

/// Refuses Dolby Vision sample entries. These protocols do not name sample entries: a decoder only
/// learns that the track is AVC or HEVC, and must be able to decode it as such.
fn check_sample_entry(protocol: Protocol, codec: &Codec) -> Result<(), String> {
    if codec.format.0.starts_with(b"dv") {
        return Err(no_mapping(protocol, codec));
    }
    Ok(())
}

/// Checks that a decoder can be set up from the configuration alone. Parameter sets are in the
/// manifest or in a tag of their own. Lengths must have four bytes: Smooth players build the
/// decoder's configuration from the manifest with that number, and Flash decodes no other.
fn check_avc(protocol: Protocol, avc: &Avc) -> Result<(), String> {
    check_nal_lengths(protocol, avc.nal_length_size)?;
    if avc.sps.is_empty() || avc.pps.is_empty() {
        return Err(format!("{} needs parameter sets outside the samples", protocol.name()));
    }
    Ok(())
}

fn check_hevc(hevc: &Hevc) -> Result<(), String> {
    check_nal_lengths(Protocol::Smooth, hevc.nal_length_size)?;
    // nal_unit_type of VPS, SPS and PPS (ISO/IEC 23008-2 Table 7-1).
    let has = |kind: u8| hevc.nal_units.iter().any(|nal| nal.first().is_some_and(|b| b >> 1 & 0x3F == kind));
    if !(has(32) && has(33) && has(34)) {
        return Err("Smooth Streaming needs parameter sets outside the samples".to_owned());
    }
    Ok(())
}

fn check_nal_lengths(protocol: Protocol, nal_length_size: u8) -> Result<(), String> {
    if nal_length_size != 4 {
        return Err(format!("{} needs NAL unit lengths of 4 bytes, not {nal_length_size}", protocol.name()));
    }
    Ok(())
}

fn check_object_type(highest: u8, protocol: Protocol, aac: &Aac) -> Result<(), String> {
    if !(1..=highest).contains(&aac.core_object_type) {
        return Err(format!("{} cannot carry audio object type {}", protocol.name(), aac.core_object_type));
    }
    Ok(())
}

/// Sampling rates that an FLV audio tag can state for MP3 (Video File Format Specification 10.1
/// §E.4.2.1). 48 kHz has the code of 44.1 kHz by convention; the frames state the rate too.
pub(crate) const FLV_MP3_RATES: [u32; 5] = [48_000, 44_100, 22_050, 11_025, 8000];

fn check_flv_rate(codec: &Codec) -> Result<(), String> {
    match &codec.media {
        Media::Audio(audio) if FLV_MP3_RATES.contains(&audio.sample_rate) => Ok(()),
        Media::Audio(audio) => Err(format!("HDS has no code for MP3 at {} Hz", audio.sample_rate)),
        Media::Video(_) | Media::Text => Err("MP3 in a track that is not audio".to_owned()),
    }
}

/// Sampling frequencies in Hz, in the order of their `samplingFrequencyIndex` (ISO/IEC 14496-3
/// Table 1.18). ADTS has no escape for other rates.
pub(crate) const ADTS_RATES: [u32; 13] =
    [96000, 88200, 64000, 48000, 44100, 32000, 24000, 22050, 16000, 12000, 11025, 8000, 7350];

/// Checks that ADTS can state it (ISO/IEC 14496-3 §1.A.2.2). SBR and PS are implicit.
fn check_adts(aac: &Aac) -> Result<(), String> {
    if !(1..=4).contains(&aac.core_object_type) {
        return Err(format!("ADTS cannot carry audio object type {}", aac.core_object_type));
    }
    if !ADTS_RATES.contains(&aac.core_sample_rate) {
        return Err(format!("ADTS has no index for {} Hz", aac.core_sample_rate));
    }
    if aac.channel_config > 7 {
        return Err(format!("ADTS cannot state channel configuration {}", aac.channel_config));
    }
    if aac.channel_config == 0 && !aac.program_config {
        return Err("there is neither a channel configuration nor a program config element".to_owned());
    }
    if aac.frame_length != 1024 {
        return Err(format!("ADTS frames have 1024 samples, but these have {}", aac.frame_length));
    }
    Ok(())
}
