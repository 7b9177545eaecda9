//! Audio sample entries: their codec and the facts that manifests state.

use super::audio_coding::AudioCoding;
use super::children::Children;
use super::description::{Aac, Codec, Config, Media};
use super::sample_entry::{AudioFields, EntryBody};
use super::{aac, ac3, ac4, colour, dts, esds, flac, opus, other, sinf};
use crate::{Error, FourCc};

/// Returns true if the entry is audio, or was before encryption.
pub(super) fn is_audio(format: FourCc) -> bool {
    is_read(format) || other::is_audio(format) || matches!(&format.0, b"enca" | b"drms")
}

/// Returns true for coding names whose configuration is read.
fn is_read(format: FourCc) -> bool {
    matches!(&format.0, b"mp4a" | b"ac-3" | b"ec-3" | b"ac-4" | b"Opus" | b"fLaC")
        || is_mp3(format)
        || dts::is_dts(format)
}

/// Returns true for MPEG-1 and MPEG-2 audio under a coding name of its own: QuickTime's `.mp3` and
/// Microsoft's tag 0x55. In `mp4a`, the ES descriptor names them.
fn is_mp3(format: FourCc) -> bool {
    matches!(&format.0, b".mp3" | b"mp3 " | b"ms\0\x55")
}

pub(super) fn describe(entry: &EntryBody) -> Result<Codec, Error> {
    let (stated, boxes) = entry.audio()?;
    let protection = if sinf::is_protected(entry.format) { Some(sinf::protection(&boxes)?) } else { None };
    let format = protection.map_or(entry.format, |protection| protection.original);
    let coding = coding(format, &boxes, stated)?;
    Ok(Codec {
        format,
        rfc6381: coding.rfc6381,
        protection: protection.map(|protection| protection.scheme),
        config: coding.config,
        media: Media::Audio(coding.audio),
        declared_bitrate: colour::bitrate(&boxes).or(coding.bitrate),
    })
}

fn coding(format: FourCc, boxes: &Children, stated: AudioFields) -> Result<AudioCoding, Error> {
    match &format.0 {
        b"mp4a" => mp4a(boxes, stated),
        b"ac-3" => ac3::ac3(format.to_string(), &boxes.require_in_entry_or_wave(b"dac3")?, stated),
        b"ec-3" => ac3::eac3(format.to_string(), &boxes.require_in_entry_or_wave(b"dec3")?, stated),
        b"ac-4" => ac4::coding(&boxes.require(b"dac4")?, stated),
        b"Opus" => opus::coding(&boxes.require(b"dOps")?, stated),
        b"fLaC" => flac::coding(&boxes.require(b"dfLa")?, stated),
        _ if is_mp3(format) => Ok(AudioCoding::new("mp3".to_owned(), Config::Mp3, stated, stated)),
        _ if dts::is_dts(format) => dts::coding(format, boxes, stated),
        _ if other::is_audio(format) => Ok(other::audio(format, boxes, stated)),
        _ => Err(boxes.at().unsupported("audio coding name")),
    }
}

/// Reads `mp4a`: the ES descriptor names the codec.
fn mp4a(boxes: &Children, stated: AudioFields) -> Result<AudioCoding, Error> {
    let esds = boxes.require_in_entry_or_wave(b"esds")?;
    let stream = esds::stream(&esds)?;
    let object_type = stream.object_type;
    let name = format!("mp4a.{object_type:02X}");
    let plain = |config| AudioCoding::new(name.clone(), config, stated, stated);
    let coding = match object_type {
        0x40 | 0x66..=0x68 => {
            let asc = stream.specific.as_ref().ok_or_else(|| esds.at.bad("no AudioSpecificConfig"))?;
            let asc = aac::read(asc, stated.sample_rate, esds.at)?;
            let name = if object_type == 0x40 { format!("{name}.{}", asc.config.object_type) } else { name };
            let coded = AudioFields { channels: asc.channels, sample_rate: asc.sample_rate };
            AudioCoding::new(name, aac_config(asc.config), coded, stated)
        }
        // MPEG-2 and MPEG-1 audio; only the frames state the layer.
        0x69 | 0x6b => plain(Config::Mp3),
        0xa5 => match boxes.first(b"dac3") {
            Some(dac3) => ac3::ac3(name, &dac3, stated)?,
            None => plain(Config::Ac3),
        },
        0xa6 => match boxes.first(b"dec3") {
            Some(dec3) => ac3::eac3(name, &dec3, stated)?,
            None => plain(Config::Eac3),
        },
        // DTS core, High Resolution, Master Audio, Express, DTS:X.
        0xa9..=0xac | 0xb2 => plain(Config::Dts),
        // Vorbis (0xdd) and all other registered types.
        _ => plain(Config::Other),
    };
    Ok(AudioCoding { bitrate: stream.bitrate, ..coding })
}

/// Sorts out object types 32 to 34, which are the layers of MPEG-1 and MPEG-2 audio.
fn aac_config(config: Aac) -> Config {
    match config.core_object_type {
        34 => Config::Mp3,
        32 | 33 => Config::Other,
        _ => Config::Aac(config),
    }
}
