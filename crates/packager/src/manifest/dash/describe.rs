//! Descriptors of colour, of audio channels and of the purposes of tracks.

use crate::manifest::xml::Xml;
use latemux_index::{
    Track,
    media::{Captions, Role, TrackKind},
};
use latemux_isobmff::codec::{Audio, Config, Video, VideoRange, captions::CaptionChannel};

/// Writes a descriptor (ISO/IEC 23009-1 §5.8.2).
pub(super) fn descriptor(xml: &mut Xml, element: &'static str, scheme: &str, value: impl std::fmt::Display) {
    xml.tag(element).attr("schemeIdUri", scheme).attr("value", value).empty();
}

/// Writes the colour of HDR video (DASH-IF IOP §6.2.5.1). The properties are essential, so that a
/// player that does not know them ignores the set, only if there is SDR to play instead.
pub(super) fn colour(xml: &mut Xml, video: &Video, has_sdr: bool) {
    let transfer = match video.range {
        VideoRange::Sdr => return,
        VideoRange::Hlg => 18,
        VideoRange::Pq => 16,
    };
    let element = if has_sdr { "EssentialProperty" } else { "SupplementalProperty" };
    if let Some(colour) = video.colour {
        descriptor(xml, element, "urn:mpeg:mpegB:cicp:ColourPrimaries", colour.primaries);
        descriptor(xml, element, "urn:mpeg:mpegB:cicp:MatrixCoefficients", colour.matrix);
    }
    let transfer = video.colour.map_or(transfer, |c| c.transfer);
    descriptor(xml, element, "urn:mpeg:mpegB:cicp:TransferCharacteristics", transfer);
}

/// Writes `Accessibility` and `Role`. `is_foreign` is true for audio in another language than the
/// title's main one.
pub(super) fn purpose(xml: &mut Xml, track: &Track, is_foreign: bool) {
    let role = match (track.kind, track.purpose.role) {
        (TrackKind::Video, _) => "main",
        (TrackKind::Text, _) if track.purpose.forced => "forced-subtitle",
        (TrackKind::Text, Role::Captions) => "caption",
        (_, Role::Commentary) => "commentary",
        (TrackKind::Text, _) => "subtitle",
        (TrackKind::Audio, Role::Description) => {
            // The visually impaired (ETSI TS 102 822-3-1, AudioPurposeCS).
            descriptor(xml, "Accessibility", "urn:tva:metadata:cs:AudioPurposeCS:2007", 1);
            "description"
        }
        (TrackKind::Audio, Role::Dub) => "dub",
        (TrackKind::Audio, _) => {
            if is_foreign {
                "alternate"
            } else {
                "main"
            }
        }
    };
    descriptor(xml, "Role", "urn:mpeg:dash:role:2011", role);
}

/// Writes an `Accessibility` for the closed captions of each standard (ANSI/SCTE 214-1 §7.2.3).
pub(super) fn captions(xml: &mut Xml, captions: &[Captions]) {
    let mut cea608 = Vec::new();
    let mut cea708 = Vec::new();
    for Captions { channel, language } in captions {
        match channel {
            CaptionChannel::Cea608(number) => cea608.push(format!("CC{number}={language}")),
            CaptionChannel::Cea708(number) => cea708.push(format!("{number}=lang:{language}")),
        }
    }
    for (standard, listed) in [("608", cea608), ("708", cea708)] {
        if !listed.is_empty() {
            let scheme = format!("urn:scte:dash:cc:cea-{standard}:2015");
            descriptor(xml, "Accessibility", &scheme, listed.join(";"));
        }
    }
}

/// Writes `AudioChannelConfiguration` if channels are known, and Joint Object Coding if present.
pub(super) fn audio(xml: &mut Xml, audio: &Audio, config: &Config) {
    if let Some((scheme, value)) = channels(audio, config) {
        descriptor(xml, "AudioChannelConfiguration", scheme, value);
    }
    // ETSI TS 103 420 Annex D.
    if let Some(complexity) = audio.joc {
        let property = "SupplementalProperty";
        descriptor(xml, property, "tag:dolby.com,2018:dash:EC3_ExtensionType:2018", "JOC");
        descriptor(xml, property, "tag:dolby.com,2018:dash:EC3_ExtensionComplexityIndex:2018", complexity);
    }
}

/// Returns scheme and value of `AudioChannelConfiguration`. The index states the number of channels
/// but not their positions, so the usual layout for that number is stated.
fn channels(audio: &Audio, config: &Config) -> Option<(&'static str, String)> {
    let count = audio.channels;
    match config {
        // ETSI TS 102 366 Annex I.1.2.1: speakers as bits, from L (highest) to LFE (lowest).
        Config::Ac3 | Config::Eac3 => {
            let speakers: u16 = match count {
                1 => 0x4000,
                2 => 0xa000,
                // 3 and 4 channels have no usual layout.
                5 => 0xf800,
                6 => 0xf801,
                8 => 0xfa01,
                _ => return None,
            };
            let scheme = "tag:dolby.com,2014:dash:audio_channel_configuration:2011";
            Some((scheme, format!("{speakers:04X}")))
        }
        // ETSI TS 103 190-2 Annex G.3: groups of speakers as bits of 24.
        Config::Ac4 => {
            let groups: u32 = match count {
                1 => 0x2,
                2 => 0x1,
                3 => 0x3,
                5 => 0x7,
                6 => 0x47,
                8 => 0x4f,
                _ => return None,
            };
            let scheme = "tag:dolby.com,2015:dash:audio_channel_configuration:2015";
            Some((scheme, format!("{groups:06X}")))
        }
        Config::Dts => {
            (count > 0).then(|| ("tag:dts.com,2014:dash:audio_channel_configuration:2012", count.to_string()))
        }
        _ => {
            // ChannelConfiguration of ISO/IEC 23091-3. Up to 7 it equals that of MPEG-4 audio.
            let layout = match (count, config) {
                (8, Config::Aac(aac)) if aac.channel_config == 7 => 7,
                (1..=6, _) => count,
                (7, _) => 11,
                (8, _) => 12,
                (24, _) => 13,
                _ => return None,
            };
            Some(("urn:mpeg:mpegB:cicp:ChannelConfiguration", layout.to_string()))
        }
    }
}
