//! URLs of the native form, printed and parsed by one grammar (parse ∘ print is the identity).
//!
//! A path is `BASE/REST`: the base names the title, the rest what is asked of it.
//!
//! ```text
//! REST      = [NAME] ".mpd"                              DASH manifest
//!           | "dash/" NAME "-" REPID ".dash"             DASH init
//!           | "dash/" NAME "-" REPID "-" TIME ".dash"    DASH segment by time
//!           | "dash/" NAME "-" REPID "-" N ".m4s"        DASH segment by number
//!           | [NAME] ".m3u8"                             HLS multivariant playlist
//!           | NAME 1*("-" REPID) ".m3u8"                 HLS media playlist
//!           | NAME 1*("-" REPID) "-" N ".ts"             HLS TS segment
//!           | "hls/" NAME "-" REPID ["-" N] ".m4s"       HLS CMAF init, segment
//!           | "keyframes/" NAME "-" REPID ".m3u8"        HLS I-frame playlist
//!           | "keyframes/" NAME "-" REPID "-" N (".ts" | ".m4s")
//!           | "Manifest" | "manifest"                    Smooth Streaming client manifest
//!           | "QualityLevels(" BITRATE ")/Fragments(" STEM "=" TIME ")"
//!           | [NAME] ".f4m"                              HDS manifest
//!           | NAME 1*("-" REPID) ".abst"                 HDS bootstrap information
//!           | NAME 1*("-" REPID) "-Seg1-Frag" N          HDS fragment
//! REPID     = STEM "=" BITRATE
//! N         = 1*DIGIT from 1, TIME and BITRATE = 1*DIGIT; without leading zeros, so that each has one spelling
//! ```
//!
//! Any `NAME` is accepted and ignored, as the servers people come from do; what is printed is derived from the base
//! ([`name_of`]), so the NAME a client used changes no byte of any answer. REPIDs are found from the right. A stem may hold `-`
//! (`audio_pt-BR`): it starts at the last `video`, `audio` or `textstream` that follows a `-`, else behind the last `-`.
//!
//! The prefixes of other servers get their arms in [`Address::parse`].

pub mod nginx_vod;

use latemux_index::title::TrackName;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use std::fmt::Write as _;

/// Everything but the unreserved characters of RFC 3986 §2.3.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// As [`RESERVED`], but the comma of `.urlset` lists stays readable (a sub-delimiter, RFC 3986 §3.3).
const RESERVED_IN_BASE: &AsciiSet = &RESERVED.remove(b',');
/// Most tracks one media playlist may name: more are not a playlist anybody was given.
const MAX_TRACKS: usize = 8;
/// The folder I-frame playlists and their segments are in.
const KEYFRAMES: &str = "keyframes/";
/// Between the tracks and the number of an HDS fragment: all of them are in the first segment.
pub(crate) const HDS_FRAGMENT: &str = "-Seg1-Frag";

/// What a URL path asks of which title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// The base, percent-decoded, without leading or trailing `/`: a media file, a folder, or a `.urlset` list. Empty for
    /// the root itself. No component of it is empty, `.` or `..`, or holds a `/`, `\` or control character.
    pub base: String,
    /// What is asked.
    pub resource: Resource,
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
    HlsInit(TrackName),
    /// `/hls/NAME-REPID-N.m4s`; 1-based.
    HlsSegment(TrackName, u32),
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
    /// Reads a URL path (with or without its leading `/`, percent-encoded) and query. `None` where it is no address of this
    /// grammar. Unknown query parameters are ignored.
    #[must_use]
    pub fn parse(path: &str, query: Option<&str>) -> Option<Self> {
        let path = path.strip_prefix('/').unwrap_or(path);
        let components = path.split('/').map(decode).collect::<Option<Vec<_>>>()?;
        let (file, folders) = components.split_last()?;
        let options = Options::parse(HlsContainer::Auto, query.unwrap_or_default());
        let (resource, depth) = match folders.last().map(String::as_str) {
            Some("dash") if file.ends_with(".dash") || file.ends_with(".m4s") => (dash_file(file)?, 1),
            Some("hls") if file.ends_with(".m4s") => (hls_cmaf_file(file)?, 1),
            Some("keyframes") => match keyframe_file(file, options) {
                Some(resource) => (resource, 1),
                // A title may be in a folder of that name: its manifests are not I-frame playlists.
                None => (base_file(file, options)?, 0),
            },
            Some(level) if file.starts_with("Fragments(") && file.ends_with(')') => {
                (smooth_fragment(level, file)?, 1)
            }
            _ => (base_file(file, options)?, 0),
        };
        let base = folders.get(..folders.len().checked_sub(depth)?)?;
        let sound = |c: &String| !matches!(c.as_str(), "" | "." | "..");
        base.iter().all(sound).then(|| Self { base: base.join("/"), resource })
    }

    /// The NAME that URLs of this title carry, see [`name_of`].
    #[must_use]
    pub fn name(&self) -> String {
        name_of(&self.base)
    }

    /// The URL path and query, from the root, with its leading `/`.
    #[must_use]
    pub fn to_url(&self) -> String {
        let mut url = String::from("/");
        if !self.base.is_empty() {
            for component in self.base.split('/') {
                url.extend(utf8_percent_encode(component, RESERVED_IN_BASE));
                url.push('/');
            }
        }
        url + &self.resource.relative_to_base(&self.name())
    }
}

/// The NAME printed in the URLs of a title: its base's last component without extension, percent-encoded, and `=` written as
/// `_` because that separates a REPID's parts. It is the same however a client spelled it.
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
    utf8_percent_encode(&stem.replace('=', "_"), RESERVED).to_string()
}

/// A track's name as it stands in URLs: `STEM=BITRATE`, the stem percent-encoded. Where the stem holds unreserved characters
/// only, this is what [`TrackName`] displays.
#[must_use]
pub fn rep_id(track: &TrackName) -> String {
    format!("{}={}", utf8_percent_encode(&track.stem, RESERVED), track.bitrate)
}

impl Resource {
    /// The URL relative to the base (`BASE/`), query included; `name` is the NAME to print, already encoded
    /// ([`name_of`]).
    #[must_use]
    pub fn relative_to_base(&self, name: &str) -> String {
        let ids = |tracks: &[TrackName]| {
            tracks.iter().fold(String::new(), |mut ids, track| {
                // Writing to a string cannot fail.
                let _ = write!(ids, "-{}", rep_id(track));
                ids
            })
        };
        let id = |track: &TrackName| ids(std::slice::from_ref(track));
        match self {
            Self::DashManifest(template) => format!(".mpd{}", template.query()),
            Self::DashInit(t) => format!("dash/{name}{}.dash", id(t)),
            Self::DashSegmentAt(t, time) => format!("dash/{name}{}-{time}.dash", id(t)),
            Self::DashSegment(t, n) => format!("dash/{name}{}-{n}.m4s", id(t)),
            Self::HlsMultivariant(c) => format!(".m3u8{}", c.query()),
            Self::HlsPlaylist(t, c) => format!("{name}{}.m3u8{}", ids(t), c.query()),
            Self::HlsTsSegment(t, n) => format!("{name}{}-{n}.ts", ids(t)),
            Self::HlsInit(t) => format!("hls/{name}{}.m4s", id(t)),
            Self::HlsSegment(t, n) => format!("hls/{name}{}-{n}.m4s", id(t)),
            Self::HlsIFramePlaylist(t, c) => format!("{KEYFRAMES}{name}{}.m3u8{}", id(t), c.query()),
            Self::HlsIFrameTs(t, n) => format!("{KEYFRAMES}{name}{}-{n}.ts", id(t)),
            Self::HlsIFrameCmaf(t, n) => format!("{KEYFRAMES}{name}{}-{n}.m4s", id(t)),
            Self::SmoothManifest => "Manifest".to_owned(),
            Self::SmoothFragment(t, time) => {
                let stem = utf8_percent_encode(&t.stem, RESERVED);
                format!("QualityLevels({})/Fragments({stem}={time})", t.bitrate)
            }
            Self::HdsManifest => ".f4m".to_owned(),
            Self::HdsBootstrap(t) => format!("{name}{}.abst", ids(t)),
            Self::HdsFragment(t, n) => format!("{}{n}", hds_url(name, t)),
        }
    }

    /// The URL relative to a manifest of the same title, query included: I-frame playlists are one folder below the base,
    /// all other manifests directly under it.
    #[must_use]
    pub fn relative_to(&self, manifest: &Self, name: &str) -> String {
        let url = self.relative_to_base(name);
        if !matches!(manifest, Self::HlsIFramePlaylist(..)) {
            return url;
        }
        match url.strip_prefix(KEYFRAMES) {
            Some(beside) => beside.to_owned(),
            None => format!("../{url}"),
        }
    }
}

impl DashTemplate {
    /// The query that asks for it, `?` included; empty for the default.
    #[must_use]
    pub fn query(self) -> &'static str {
        match self {
            Self::Time => "",
            Self::Number => "?mpd_segment_template=number",
        }
    }

    /// `SegmentTemplate@initialization`, relative to the MPD.
    #[must_use]
    pub fn initialization(self, name: &str) -> String {
        format!("dash/{name}-$RepresentationID$.dash")
    }

    /// `SegmentTemplate@media`, relative to the MPD. `name` holds no `$`: [`name_of`] encodes it.
    #[must_use]
    pub fn media(self, name: &str) -> String {
        match self {
            Self::Time => format!("dash/{name}-$RepresentationID$-$Time$.dash"),
            Self::Number => format!("dash/{name}-$RepresentationID$-$Number$.m4s"),
        }
    }
}

impl HlsContainer {
    /// The query that asks for it, `?` included; empty for the default. Children playlists carry it on.
    #[must_use]
    pub fn query(self) -> &'static str {
        match self {
            Self::Auto => "",
            Self::Cmaf => "?hls_fmp4",
        }
    }
}

/// `StreamIndex@Url` of tracks with a stem, relative to the client manifest, with the places a player fills in.
#[must_use]
pub fn smooth_url(stem: &str) -> String {
    format!("QualityLevels({{bitrate}})/Fragments({}={{start time}})", utf8_percent_encode(stem, RESERVED))
}

/// The URL of an HDS fragment up to its number, relative to the manifest; `name` is already encoded ([`name_of`]). Up to `Seg`, where
/// a player goes on, it is `media@url`.
#[must_use]
pub fn hds_url(name: &str, tracks: &[TrackName]) -> String {
    let ids: String = tracks.iter().map(|track| format!("-{}", rep_id(track))).collect();
    format!("{name}{ids}{HDS_FRAGMENT}")
}

/// What the query says.
#[derive(Debug, Clone, Copy, Default)]
struct Options {
    template: DashTemplate,
    container: HlsContainer,
}

impl Options {
    /// The last of several settings of one parameter wins; `container` where the query does not say.
    fn parse(container: HlsContainer, query: &str) -> Self {
        let mut options = Self { container, ..Self::default() };
        for parameter in query.split('&') {
            match parameter.split_once('=').unwrap_or((parameter, "")) {
                ("hls_fmp4", "" | "true" | "1") => options.container = HlsContainer::Cmaf,
                ("hls_fmp4", _) => options.container = HlsContainer::Auto,
                ("mpd_segment_template", "number") => options.template = DashTemplate::Number,
                ("mpd_segment_template", _) => options.template = DashTemplate::Time,
                _ => {}
            }
        }
        options
    }
}

/// Files directly under the base.
fn base_file(file: &str, options: Options) -> Option<Resource> {
    if file.ends_with(".mpd") {
        return Some(Resource::DashManifest(options.template));
    }
    if let Some(stem) = file.strip_suffix(".ts") {
        let (ids, n) = numbered(stem)?;
        return Some(Resource::HlsTsSegment(rep_ids(ids)?, n));
    }
    if matches!(file, "Manifest" | "manifest") {
        return Some(Resource::SmoothManifest);
    }
    if file.ends_with(".f4m") {
        return Some(Resource::HdsManifest);
    }
    if let Some(ids) = file.strip_suffix(".abst") {
        return Some(Resource::HdsBootstrap(rep_ids(ids)?));
    }
    if let Some((ids, n)) = file.rsplit_once(HDS_FRAGMENT) {
        return Some(Resource::HdsFragment(rep_ids(ids)?, number(n).filter(|&n| n > 0)?));
    }
    let stem = file.strip_suffix(".m3u8")?;
    // A NAME with `=` is a misspelt REPID sooner than a name.
    if stem.contains('=') {
        return Some(Resource::HlsPlaylist(rep_ids(stem)?, options.container));
    }
    Some(Resource::HlsMultivariant(options.container))
}

/// Files under `dash/`.
fn dash_file(file: &str) -> Option<Resource> {
    if let Some(stem) = file.strip_suffix(".m4s") {
        let (id, n) = numbered(stem)?;
        return Some(Resource::DashSegment(only_rep_id(id)?, n));
    }
    let stem = file.strip_suffix(".dash")?;
    if let Some(track) = only_rep_id(stem) {
        return Some(Resource::DashInit(track));
    }
    let (id, time) = stem.rsplit_once('-')?;
    Some(Resource::DashSegmentAt(only_rep_id(id)?, number(time)?))
}

/// Files under `hls/`.
fn hls_cmaf_file(file: &str) -> Option<Resource> {
    let stem = file.strip_suffix(".m4s")?;
    if let Some(track) = only_rep_id(stem) {
        return Some(Resource::HlsInit(track));
    }
    let (id, n) = numbered(stem)?;
    Some(Resource::HlsSegment(only_rep_id(id)?, n))
}

/// Files under `keyframes/`.
fn keyframe_file(file: &str, options: Options) -> Option<Resource> {
    if let Some(stem) = file.strip_suffix(".m3u8") {
        return Some(Resource::HlsIFramePlaylist(only_rep_id(stem)?, options.container));
    }
    if let Some(stem) = file.strip_suffix(".ts") {
        let (id, n) = numbered(stem)?;
        return Some(Resource::HlsIFrameTs(only_rep_id(id)?, n));
    }
    let (id, n) = numbered(file.strip_suffix(".m4s")?)?;
    Some(Resource::HlsIFrameCmaf(only_rep_id(id)?, n))
}

/// `QualityLevels(BITRATE)/Fragments(STEM=TIME)`.
fn smooth_fragment(level: &str, file: &str) -> Option<Resource> {
    let bitrate = number(level.strip_prefix("QualityLevels(")?.strip_suffix(')')?)?;
    let (stem, time) = file.strip_prefix("Fragments(")?.strip_suffix(')')?.rsplit_once('=')?;
    let named = !stem.is_empty() && !stem.contains('=');
    named.then_some(Resource::SmoothFragment(TrackName { stem: stem.to_owned(), bitrate }, number(time)?))
}

/// `…-N`, N from 1.
fn numbered(stem: &str) -> Option<(&str, u32)> {
    let (rest, n) = stem.rsplit_once('-')?;
    Some((rest, number(n).filter(|&n| n > 0)?))
}

/// `NAME-REPID`: the last REPID; what is before it is the NAME, whatever it is.
fn only_rep_id(stem: &str) -> Option<TrackName> {
    last_rep_id(stem).map(|(_, track)| track)
}

/// `NAME-REPID[-REPID]…`: as many as there are, in the order they stand.
fn rep_ids(stem: &str) -> Option<Vec<TrackName>> {
    let (mut rest, last) = last_rep_id(stem)?;
    let mut tracks = vec![last];
    while rest.contains('=') {
        let (before, track) = last_rep_id(rest)?;
        tracks.push(track);
        rest = before;
        if tracks.len() > MAX_TRACKS {
            return None;
        }
    }
    tracks.reverse();
    Some(tracks)
}

/// Splits `REST-STEM=BITRATE`.
fn last_rep_id(stem: &str) -> Option<(&str, TrackName)> {
    let (left, bitrate) = stem.rsplit_once('=')?;
    let bitrate = number(bitrate)?;
    // A stem holds no `=`: it lies behind the REPID before it.
    let floor = left.rfind('=').map_or(0, |at| at + 1);
    let mut dashes = left.get(floor..)?.rmatch_indices('-').map(|(at, _)| floor + at);
    let is_kind = |at: &usize| {
        let stem = left.get(at + 1..).unwrap_or_default();
        ["video", "audio", "textstream"]
            .iter()
            .any(|kind| stem.strip_prefix(kind).is_some_and(|rest| rest.is_empty() || rest.starts_with('_')))
    };
    let at = dashes.clone().find(is_kind).or_else(|| dashes.next())?;
    let (rest, stem) = (left.get(..at)?, left.get(at + 1..)?);
    (!stem.is_empty()).then(|| (rest, TrackName { stem: stem.to_owned(), bitrate }))
}

/// Digits alone, without leading zeros: a number has one spelling.
fn number<N: std::str::FromStr>(digits: &str) -> Option<N> {
    let canonical =
        digits.bytes().all(|b| b.is_ascii_digit()) && (digits.len() == 1 || !digits.starts_with('0'));
    canonical.then(|| digits.parse().ok()).flatten()
}

/// Percent-decodes one path component, once. `None` for a `%` without two hex digits, bytes that are not UTF-8, or
/// characters that have no place in a name (`/` and `\` only get here encoded).
fn decode(component: &str) -> Option<String> {
    let bytes = component.as_bytes();
    let whole = |(at, _): (usize, _)| {
        bytes.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    };
    if !component.match_indices('%').all(whole) {
        return None;
    }
    let decoded = percent_decode_str(component).decode_utf8().ok()?;
    let misplaced = |c: char| c == '/' || c == '\\' || c.is_control();
    (!decoded.contains(misplaced)).then(|| decoded.into_owned())
}

#[cfg(test)]
#[path = "address_tests.rs"]
mod tests;
