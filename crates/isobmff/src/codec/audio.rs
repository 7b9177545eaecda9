//! Audio sample entries: which codec, and what manifests say of the sound.

use super::children::{Child, Children};
use super::sample_entry::{SampleEntry, Sound};
use super::{Audio, Codec, Config, DeclaredBitrate, Media};
use super::{aac, ac3, ac4, colour, dts, esds, flac, mp3, opus, other, sinf};
use crate::{Error, FourCc};

/// The codec's own part of a description.
pub(super) struct Coding {
    pub(super) rfc6381: String,
    pub(super) config: Config,
    pub(super) audio: Audio,
    pub(super) bitrate: DeclaredBitrate,
}

impl Coding {
    /// A coding with channels and rate; where the configuration does not say (0), the sample entry does.
    pub(super) fn new(rfc6381: String, config: Config, sound: Sound, stated: Sound) -> Self {
        let or = |said, stated| if said == 0 { stated } else { said };
        let sample_rate = if sound.sample_rate == 0 { stated.sample_rate } else { sound.sample_rate };
        let audio = Audio { channels: or(sound.channels, stated.channels), sample_rate, joc: None };
        Self { rfc6381, config, audio, bitrate: DeclaredBitrate::default() }
    }
}

/// The entry is audio, or was before encryption.
pub(super) fn is_audio(format: FourCc) -> bool {
    is_read(format) || other::is_audio(format) || matches!(&format.0, b"enca" | b"drms")
}

/// Coding names whose configuration is read.
fn is_read(format: FourCc) -> bool {
    matches!(&format.0, b"mp4a" | b"ac-3" | b"ec-3" | b"ac-4" | b"Opus" | b"fLaC")
        || mp3::is(format)
        || dts::is(format)
}

pub(super) fn describe(entry: &SampleEntry) -> Result<Codec, Error> {
    let (stated, boxes) = entry.sound()?;
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

fn coding(format: FourCc, boxes: &Children, stated: Sound) -> Result<Coding, Error> {
    match &format.0 {
        b"mp4a" => mp4a(boxes, stated),
        b"ac-3" => ac3::ac3(format.to_string(), &boxes.require(b"dac3")?, stated),
        b"ec-3" => ac3::eac3(format.to_string(), &boxes.require(b"dec3")?, stated),
        b"ac-4" => ac4::coding(&boxes.require(b"dac4")?, stated),
        b"Opus" => opus::coding(&boxes.require(b"dOps")?, stated),
        b"fLaC" => flac::coding(&boxes.require(b"dfLa")?, stated),
        _ if mp3::is(format) => Ok(Coding::new("mp3".to_owned(), Config::Mp3, stated, stated)),
        _ if dts::is(format) => dts::coding(format, boxes, stated),
        _ if other::is_audio(format) => Ok(other::audio(format, boxes, stated)),
        _ => Err(boxes.at().unsupported("audio coding name")),
    }
}

/// A box of the entry, or of QuickTime's `wave` in it.
pub(super) fn find(boxes: &Children, kind: &[u8; 4]) -> Option<Child> {
    boxes.first(kind).or_else(|| boxes.first(b"wave")?.children(0).first(kind))
}

/// `mp4a`: the ES descriptor tells what it is.
fn mp4a(boxes: &Children, stated: Sound) -> Result<Coding, Error> {
    let esds = find(boxes, b"esds").map_or_else(|| boxes.require(b"esds"), Ok)?;
    let stream = esds::stream(&esds)?;
    let object_type = stream.object_type;
    let name = format!("mp4a.{object_type:02X}");
    let plain = |config| Coding::new(name.clone(), config, stated, stated);
    let coding = match object_type {
        0x40 | 0x66..=0x68 => {
            let asc = stream.specific.as_ref().ok_or_else(|| esds.at.bad("no AudioSpecificConfig"))?;
            let asc = aac::read(asc, stated.sample_rate, esds.at)?;
            let name = if object_type == 0x40 { format!("{name}.{}", asc.config.object_type) } else { name };
            let sound = Sound { channels: asc.channels, sample_rate: asc.sample_rate };
            Coding::new(name, aac_config(asc.config), sound, stated)
        }
        // MPEG-2 and MPEG-1 audio; which layer only the frames tell.
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
        // Vorbis (0xdd) and whatever else is registered.
        _ => plain(Config::Other),
    };
    Ok(Coding { bitrate: stream.bitrate, ..coding })
}

/// Object types 32 to 34 are the layers of MPEG-1 and MPEG-2 audio.
fn aac_config(config: super::Aac) -> Config {
    match config.core_object_type {
        34 => Config::Mp3,
        32 | 33 => Config::Other,
        _ => Config::Aac(config),
    }
}
