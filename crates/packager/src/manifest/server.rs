//! Server manifests (`.ism`): a SMIL 2.0 document that lists the tracks and files of a title.
//!
//! ```text
//! smil / body / switch / (video | audio | textstream)   src, systemBitrate, [systemLanguage]
//!                          param                         trackID, [trackName], hints
//! ```
//!
//! Many tools have written them over many years, so only the necessary elements are read. Unknown
//! metas and params are ignored. All params but `trackID`, `trackName`, `tiles`,
//! `label`, `role`, `accessibility`, `forced` and `captions` are hints, because the boxes of the
//! media are more precise.

mod parse;

pub use parse::{MAX_BYTES, ManifestError, parse};

use super::xml::Xml;
use crate::{
    Address, Resource,
    selection::filter::{four_cc, kind_name},
};
use latemux_index::{
    Track,
    media::{Captions, Purpose, Role, TrackKind},
    title::TrackName,
};
use latemux_isobmff::{
    boxes::mdhd::Language,
    codec::{Config, Media},
};
use std::sync::Arc;

/// The contents of a server manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerManifest {
    /// Elements of the switch in order; at least one.
    pub elements: Vec<Element>,
}

/// One track of a title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Element {
    /// `video`, `audio` or `textstream`.
    pub kind: TrackKind,
    /// Location of the file, as written: a URL relative to the manifest, or absolute.
    pub src: String,
    /// `systemBitrate` in bits per second, at least 1: the number in URLs.
    pub bitrate: u64,
    /// `systemLanguage`, if it is a known language.
    pub language: Option<Language>,
    /// `trackID` in the file.
    pub track_id: u32,
    /// `tiles`: the grid of tiles, if the track is one of thumbnails.
    pub tiles: Option<String>,
    /// `label`: name for viewers.
    pub label: Option<String>,
    /// `role` and `accessibility`, which replace those of the file.
    pub role: Option<Role>,
    /// `forced`, or the role `forced-subtitle`, which replaces what the file states.
    pub forced: Option<bool>,
    /// `captions`: the closed captions in the video.
    pub captions: Option<Arc<[Captions]>>,
    /// `trackName`, if it differs from the element's name.
    pub name: Option<String>,
    /// Line of the document, 1-based.
    pub line: u32,
}

impl Element {
    /// Describes the element for error messages.
    pub fn describe(&self) -> String {
        format!("<{} src=\"{}\"> in line {}", kind_name(self.kind), self.src, self.line)
    }

    /// Returns purpose and label of the track, of which `own` are those that the file states.
    pub fn purpose(&self, own: &Track) -> (Purpose, Option<Arc<str>>) {
        let Purpose { forced, default, role } = own.purpose;
        let purpose =
            Purpose { forced: self.forced.unwrap_or(forced), default, role: self.role.unwrap_or(role) };
        (purpose, self.label.as_deref().map(Arc::from).or_else(|| own.label.clone()))
    }

    /// Returns the name of the track in URLs, before collisions are resolved:
    /// `trackName[_lang]=systemBitrate`. `own` is the language that the file states.
    pub fn track_name(&self, own: &Language) -> TrackName {
        let language = self.language.as_ref().unwrap_or(own);
        track_name(self.kind, self.name.as_deref(), language, self.bitrate)
    }
}

/// Longest `trackName` that is kept, in bytes.
const MAX_NAME: usize = 64;

fn track_name(kind: TrackKind, name: Option<&str>, language: &Language, bitrate: u64) -> TrackName {
    let to_plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '_' | '.') { c } else { '_' };
    let name: String = name.unwrap_or_else(|| kind_name(kind)).chars().map(to_plain).take(MAX_NAME).collect();
    let name = if name.is_empty() { kind_name(kind).to_owned() } else { name };
    let stem = if language.is_known() { format!("{name}_{language}") } else { name };
    let named = TrackName { stem, bitrate };
    // A stem with `-` in it cannot always be parsed from a URL.
    let resource = Resource::DashInit(named.clone());
    let url = Address::new("x".to_owned(), resource.clone()).to_url();
    if Address::parse(&url, None).is_ok_and(|address| address.resource == resource) {
        return named;
    }
    TrackName { stem: named.stem.replace('-', "_"), bitrate }
}

/// A track to be listed in a server manifest.
#[derive(Debug, Clone, Copy)]
pub struct ManifestTrack<'a> {
    /// Location of its file, as a URL relative to the manifest.
    pub src: &'a str,
    /// The track itself.
    pub track: &'a Track,
}

/// Returns the text of a server manifest.
pub fn write(tracks: &[ManifestTrack<'_>]) -> String {
    let mut xml = Xml::new();
    xml.tag("smil").attr("xmlns", parse::SMIL).children();
    xml.tag("head").children();
    xml.tag("meta").attr("name", "creator").attr("content", "latemux").empty();
    xml.close();
    xml.tag("body").children();
    xml.tag("switch").children();
    for ManifestTrack { src, track } in tracks {
        let language = track.language.is_known().then_some(&track.language);
        xml.tag(kind_name(track.kind))
            .attr("src", src)
            .attr("systemBitrate", track.rounded_bitrate())
            .attr_if("systemLanguage", language)
            .children();
        for (name, value) in params(track) {
            xml.tag("param").attr("name", name).attr("value", value).attr("valueType", "data").empty();
        }
        xml.close();
    }
    xml.finish()
}

fn params(track: &Track) -> Vec<(&'static str, String)> {
    let mut params = vec![
        ("trackID", track.id.to_string()),
        ("trackName", kind_name(track.kind).to_owned()),
        ("timescale", track.timescale.get().to_string()),
        ("FourCC", four_cc(track)),
    ];
    match &track.codec.media {
        Media::Video(video) => {
            params.push(("MaxWidth", video.width.to_string()));
            params.push(("MaxHeight", video.height.to_string()));
        }
        Media::Audio(audio) => {
            if matches!(track.codec.config, Config::Aac(_)) {
                params.push(("AudioTag", "255".to_owned()));
            }
            params.push(("Channels", audio.channels.to_string()));
            params.push(("SamplingRate", audio.sample_rate.to_string()));
        }
        Media::Text => {}
    }
    params
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
