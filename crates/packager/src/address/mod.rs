//! URLs, printed and parsed by one grammar: parsing a printed URL gives the same address.
//!
//! A path is `BASE/REST`. The base names the title, the rest names a resource of it, and the query
//! selects a part of the title.
//!
//! - [`native`]: paths of latemux's own form
//! - [`nginx_vod`]: paths in the form of nginx-vod-module, behind a prefix
//! - [`query`]: options of a manifest and the selection
//! - [`links`]: the URLs that manifests hold
//!
//! Any `NAME` is accepted and ignored, as other servers do. The printed NAME is derived from the
//! base ([`name_of`]), so the NAME that a client used changes no byte of a response.
//!
//! Under a prefix of another server, an [`Address`] is made in two steps:
//! [`nginx_vod::NginxVodAddress::parse`] needs no title, but
//! [`nginx_vod::NginxVodAddress::address`] does.

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

/// Every character that a URL must escape: all but the unreserved ones of RFC 3986 §2.3.
pub(crate) const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Like [`RESERVED`], but the comma of `.urlset` lists stays readable (a sub-delimiter, RFC 3986
/// §3.3).
const RESERVED_IN_BASE: &AsciiSet = &RESERVED.remove(b',');

/// A resource of a title, as one URL names it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Address {
    /// The grammar of the URL, and of the URLs that its manifest holds.
    pub profile: Profile,
    /// The base, percent-decoded, without leading or trailing `/`: a media file, a folder or a
    /// `.urlset` list. Empty for the root itself. No component is empty, `.` or `..`, or holds `/`,
    /// `\` or a control character.
    pub base: String,
    /// The requested resource.
    pub resource: Resource,
    /// The selected part of the title.
    pub selection: Selection,
}

/// The grammar that a URL follows.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Profile {
    /// The grammar of latemux itself.
    #[default]
    Native,
    /// The grammar of nginx-vod-module.
    NginxVod(nginx_vod::Form),
}

/// The reason why a URL is not an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The path matches no grammar.
    #[error("no such URL")]
    NoSuchUrl,
    /// A file or segment has number 0, but counting starts at 1.
    #[error("files and segments are counted from 1")]
    IndexZero,
    /// The text in the place of a track names none.
    #[error("'{0}' is no track: f1, v1, a1 and t1 are a file, its video, audio and text")]
    BadTracks(String),
    /// The URL is longer than that of any title.
    #[error("too long: more than {limit} {what}")]
    TooLong {
        /// The thing that is limited, in the plural.
        what: &'static str,
        /// The highest number allowed.
        limit: usize,
    },
    /// A parameter has a value without a meaning.
    #[error("{parameter}: {problem}")]
    Malformed {
        /// Name of the parameter.
        parameter: &'static str,
        /// Description of the problem, for people.
        problem: String,
    },
}

impl AddressError {
    /// Returns the stable word for logs, metrics and responses.
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

/// A resource that can be requested of a title.
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
    /// `/QualityLevels(BITRATE)/Fragments(STEM=TIME)`; start of the fragment in units of 100 ns.
    SmoothFragment(TrackName, u64),
    /// `/.f4m`
    HdsManifest,
    /// `/NAME-REPID[-REPID].abst`
    HdsBootstrap(Vec<TrackName>),
    /// `/NAME-REPID[-REPID]-Seg1-FragN`; 1-based. One track, or audio and video muxed.
    HdsFragment(Vec<TrackName>, u32),
}

/// The way a DASH manifest addresses segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum DashTemplate {
    /// `$Time$`
    #[default]
    Time,
    /// `$Number$` (query `mpd_segment_template=number`)
    Number,
}

/// The container of HLS segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum HlsContainer {
    /// MPEG-2 TS if it carries the codecs, else CMAF.
    #[default]
    Auto,
    /// CMAF (query `hls_fmp4`).
    Cmaf,
}

impl Address {
    /// Creates the address of a resource of a whole title in the native grammar.
    #[must_use]
    pub fn new(base: impl Into<String>, resource: Resource) -> Self {
        Self { profile: Profile::Native, base: base.into(), resource, selection: Selection::default() }
    }

    /// Parses a URL path (with or without its leading `/`, percent-encoded) and query. Unknown
    /// query parameters are ignored.
    ///
    /// # Errors
    /// [`AddressError::NoSuchUrl`] if the path does not match the native grammar, whatever the
    /// query; [`AddressError::Malformed`] if a parameter of the query has no meaning.
    pub fn parse(path: &str, query: Option<&str>) -> Result<Self, AddressError> {
        let options = Options::parse(query.unwrap_or_default());
        let native::Parsed { base, resource, clip } =
            native::parse(path, &options).ok_or(AddressError::NoSuchUrl)?;
        let mut selection = options.selection()?;
        selection.clip = clip.unwrap_or(selection.clip);
        Ok(Self { profile: Profile::Native, base, resource, selection })
    }

    /// Returns the NAME that URLs of this title carry, see [`name_of`].
    #[must_use]
    pub fn name(&self) -> String {
        name_of(&self.base)
    }

    /// Returns the URL path and query from the root, with the leading `/`.
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

    /// Returns the URL relative to the base (`BASE/`), query included.
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

/// Returns the NAME printed in the URLs of a title: the last component of its base without
/// extension, percent-encoded.
///
/// `=` is written as `_`, because `=` separates the parts of a REPID. A `-` that could be taken for
/// the start of a REPID (`-video_`) is written as `_` too. The NAME does not depend on the spelling
/// that a client used.
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
    // Goes from the right: a `_` in place of a `-` can make the text before it the start of a
    // track, as in `-video-video_`.
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

/// Returns [`rep_id`] as a value to be displayed, without allocating.
pub(crate) fn shown_rep_id(track: &TrackName) -> impl std::fmt::Display {
    std::fmt::from_fn(|f| write!(f, "{}={}", utf8_percent_encode(&track.stem, RESERVED), track.bitrate))
}

/// Returns the name of a track in URLs: `STEM=BITRATE`, the stem percent-encoded. If the stem holds
/// unreserved characters only, [`TrackName`] displays the same text.
#[must_use]
pub fn rep_id(track: &TrackName) -> String {
    format!("{}={}", utf8_percent_encode(&track.stem, RESERVED), track.bitrate)
}

#[cfg(test)]
mod tests;
