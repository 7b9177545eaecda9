//! URLs, printed and parsed by one grammar (parse ∘ print is the identity).
//!
//! A path is `BASE/REST`: the base names the title, the rest what is asked of it; the query says which part of the title is meant.
//!
//! - [`native`]: what stands in a path
//! - [`nginx_vod`]: what stands in a path of nginx-vod-module's form, behind a prefix
//! - [`query`]: what stands in a query
//! - [`selection`]: what of a title is asked for
//! - [`links`]: the URLs manifests hold
//!
//! Any `NAME` is accepted and ignored, as the servers people come from do; what is printed is derived from the base
//! ([`name_of`]), so the NAME a client used changes no byte of any answer.
//!
//! Under a prefix of another server, an [`Address`] is made in two steps: [`nginx_vod::NginxVodAddress::parse`] needs no title, what it names does.

pub mod links;
pub mod native;
pub mod nginx_vod;
pub mod query;
pub mod selection;

pub use links::{Extent, Links};
pub use selection::{Clip, Selection};

use latemux_index::title::TrackName;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use query::Options;

/// Everything but the unreserved characters of RFC 3986 §2.3.
pub(crate) const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// As [`RESERVED`], but the comma of `.urlset` lists stays readable (a sub-delimiter, RFC 3986 §3.3).
const RESERVED_IN_BASE: &AsciiSet = &RESERVED.remove(b',');

/// What a URL asks of which title.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// Whose grammar the URL has, and with it those that its manifest holds.
    pub profile: Profile,
    /// The base, percent-decoded, without leading or trailing `/`: a media file, a folder, or a `.urlset` list. Empty for
    /// the root itself. No component of it is empty, `.` or `..`, or holds a `/`, `\` or control character.
    pub base: String,
    /// What is asked.
    pub resource: Resource,
    /// Of what part of the title.
    pub selection: Selection,
}

/// Whose grammar a URL has.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Profile {
    /// Our own.
    #[default]
    Native,
    /// That of nginx-vod-module.
    NginxVod(nginx_vod::Form),
}

/// Why a URL is no address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// A path that no grammar has.
    #[error("no such URL")]
    NoSuchUrl,
    /// Files and segments are counted from 1.
    #[error("files and segments are counted from 1")]
    IndexZero,
    /// What stands for a track does not.
    #[error("'{0}' is no track: f1, v1, a1 and t1 are a file, its video, audio and text")]
    BadTracks(String),
    /// Longer than any URL of a title is.
    #[error("too long: more than {limit} {what}")]
    TooLong {
        /// What is counted.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// A parameter whose value means nothing.
    #[error("{parameter}: {problem}")]
    Malformed {
        /// Its name.
        parameter: &'static str,
        /// What is wrong with it.
        problem: String,
    },
}

impl AddressError {
    /// A stable word for logs, metrics and answers.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoSuchUrl => "no_such_url",
            Self::IndexZero => "index_zero",
            Self::BadTracks(_) => "bad_tracks",
            Self::TooLong { .. } => "url_too_long",
            Self::Malformed { parameter: query::FILTER, .. } => "filter_malformed",
            Self::Malformed {
                parameter: query::BEGIN | query::END | nginx_vod::CLIP_FROM | nginx_vod::CLIP_TO,
                ..
            } => "clip_malformed",
            Self::Malformed { .. } => "parameter_malformed",
        }
    }
}

/// What can be asked of a title.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Resource {
    /// `/.mpd`
    DashManifest(DashTemplate),
    /// `/dash/NAME-REPID.dash`
    DashInit(TrackName),
    /// `/dash/NAME-REPID-TIME.dash`; presentation time in track ticks.
    DashSegmentAt(TrackName, u64),
    /// `/dash/NAME-REPID-NUMBER.m4s`; 1-based.
    DashSegment(TrackName, u32),
    /// `/.m3u8`
    HlsMultivariant(HlsContainer),
    /// `/NAME-REPID[-REPID].m3u8`
    HlsPlaylist(Vec<TrackName>, HlsContainer),
    /// `/NAME-REPID[-REPID]-N.ts`; 1-based. One track, or audio and video muxed.
    HlsTsSegment(Vec<TrackName>, u32),
    /// `/hls/NAME-REPID.m4s`
    HlsInit(Vec<TrackName>),
    /// `/hls/NAME-REPID-N.m4s`; 1-based.
    HlsSegment(Vec<TrackName>, u32),
    /// `/keyframes/NAME-REPID.m3u8`
    HlsIFramePlaylist(TrackName, HlsContainer),
    /// `/keyframes/NAME-REPID-N.ts`: the I-frame a segment starts with, alone; 1-based.
    HlsIFrameTs(TrackName, u32),
    /// `/keyframes/NAME-REPID-N.m4s`
    HlsIFrameCmaf(TrackName, u32),
    /// `/Manifest`
    SmoothManifest,
    /// `/QualityLevels(BITRATE)/Fragments(STEM=TIME)`; when it begins, in 100 ns.
    SmoothFragment(TrackName, u64),
    /// `/.f4m`
    HdsManifest,
    /// `/NAME-REPID[-REPID].abst`
    HdsBootstrap(Vec<TrackName>),
    /// `/NAME-REPID[-REPID]-Seg1-FragN`; 1-based. One track, or audio and video muxed.
    HdsFragment(Vec<TrackName>, u32),
}

/// How a DASH manifest addresses segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DashTemplate {
    /// `$Time$`
    #[default]
    Time,
    /// `$Number$` (query `mpd_segment_template=number`)
    Number,
}

/// How HLS segments are packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HlsContainer {
    /// MPEG-2 TS where it carries the codecs, else CMAF.
    #[default]
    Auto,
    /// CMAF (query `hls_fmp4`).
    Cmaf,
}

impl Address {
    /// The address of a resource of a whole title in our own grammar.
    #[must_use]
    pub fn new(base: impl Into<String>, resource: Resource) -> Self {
        Self { profile: Profile::Native, base: base.into(), resource, selection: Selection::default() }
    }

    /// Reads a URL path (with or without its leading `/`, percent-encoded) and query. Unknown query parameters are ignored.
    ///
    /// # Errors
    /// [`AddressError::NoSuchUrl`] for a path that is none of this grammar, whatever its query; else [`AddressError::Malformed`].
    pub fn parse(path: &str, query: Option<&str>) -> Result<Self, AddressError> {
        let options = Options::parse(query.unwrap_or_default());
        let native::Parsed { base, resource, clip } =
            native::parse(path, &options).ok_or(AddressError::NoSuchUrl)?;
        let mut selection = options.selection()?;
        selection.clip = clip.unwrap_or(selection.clip);
        Ok(Self { profile: Profile::Native, base, resource, selection })
    }

    /// The NAME that URLs of this title carry, see [`name_of`].
    #[must_use]
    pub fn name(&self) -> String {
        name_of(&self.base)
    }

    /// The URL path and query, from the root, with its leading `/`.
    #[must_use]
    pub fn to_url(&self) -> String {
        let mut url = match &self.profile {
            Profile::Native => String::from("/"),
            Profile::NginxVod(form) => form.prefix(&self.resource).to_owned(),
        };
        if !self.base.is_empty() {
            for component in self.base.split('/') {
                url.extend(utf8_percent_encode(component, RESERVED_IN_BASE));
                url.push('/');
            }
        }
        url + &self.relative_to_base()
    }

    /// The URL relative to the base (`BASE/`), query included.
    #[must_use]
    pub fn relative_to_base(&self) -> String {
        match &self.profile {
            Profile::Native => {
                let path = native::path(&self.resource, &self.name(), self.selection.clip);
                path + &query::of(&self.resource, &self.selection)
            }
            Profile::NginxVod(form) => form.asked().to_owned(),
        }
    }
}

/// The NAME printed in the URLs of a title: its base's last component without extension, percent-encoded, `=` written as
/// `_` because that separates a REPID's parts, and so the `-` of what would be taken for the start of one (`-video_`). It is the same however a client spelled it.
#[must_use]
pub fn name_of(base: &str) -> String {
    let last = base.rsplit('/').next().unwrap_or(base);
    let last = last.strip_suffix(".urlset").unwrap_or(last);
    let stem = match last.rsplit_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem,
        _ => last,
    };
    if stem.is_empty() {
        return "title".to_owned();
    }
    let mut name = stem.replace('=', "_");
    let dashes: Vec<usize> = name.match_indices('-').map(|(at, _)| at).collect();
    // From the right, for a `_` put in place of one makes another the start of a track: `-video-video_`.
    for at in dashes.into_iter().rev() {
        let behind = name.get(at + 1..).unwrap_or_default();
        if native::KINDS
            .iter()
            .any(|kind| behind.strip_prefix(kind).is_some_and(|rest| rest.starts_with('_')))
        {
            name.replace_range(at..=at, "_");
        }
    }
    utf8_percent_encode(&name, RESERVED).to_string()
}

/// A track's name as it stands in URLs: `STEM=BITRATE`, the stem percent-encoded. Where the stem holds unreserved characters
/// only, this is what [`TrackName`] displays.
#[must_use]
pub fn rep_id(track: &TrackName) -> String {
    format!("{}={}", utf8_percent_encode(&track.stem, RESERVED), track.bitrate)
}

#[cfg(test)]
mod tests;
