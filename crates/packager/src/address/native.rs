//! Paths of the native form.
//!
//! ```text
//! REST      = [NAME] ".mpd"                              DASH manifest
//!           | "dash/" NAME "-" REPID ".dash"             DASH init
//!           | "dash/" NAME "-" REPID "-" TIME ".dash"    DASH segment by time
//!           | "dash/" NAME "-" REPID "-" N ".m4s"        DASH segment by number
//!           | [NAME] ".m3u8"                             HLS multivariant playlist
//!           | NAME 1*("-" REPID) ".m3u8"                 HLS media playlist
//!           | NAME 1*("-" REPID) "-" N ".ts"             HLS TS segment
//!           | "hls/" NAME 1*("-" REPID) ".m4s"           HLS CMAF init; fMP4 for several tracks
//!           | "hls/" NAME "-" REPID "-lead.m4s"          HLS CMAF init of a clear lead
//!           | "hls/" NAME 1*("-" REPID) "-" N ".m4s"     HLS CMAF segment; fMP4 likewise
//!           | ["hls/"] NAME "-" REPID "-" N ".webvtt"    HLS text segment beside TS, or CMAF
//!           | "keyframes/" NAME "-" REPID ".m3u8"        HLS I-frame playlist
//!           | "keyframes/" NAME "-" REPID "-" N ["-" PLACE] (".ts" | ".m4s")   one I-frame
//!           | "keyframes/" NAME "-" REPID "-" N ".dash"  DASH I-frame
//!           | "images/" NAME "-" THUMBS "-" N ".jpg"       sheet of thumbnails
//!           | "images/" NAME "-" THUMBS ".m3u8"         HLS playlist of these
//!           | NAME "-thumbs.vtt"                         storyboard
//!           | "Manifest" | "manifest"                    Smooth Streaming client manifest
//!           | "QualityLevels(" BITRATE ")/Fragments(" STEM "=" TIME ")"
//!           | [NAME] ".f4m"                              HDS manifest
//!           | [CLIP "/"] NAME 1*("-" REPID) ".abst"      HDS bootstrap information
//!           | [CLIP "/"] NAME 1*("-" REPID) "-Seg1-Frag" N   HDS fragment
//! CLIP      = "vbegin=" SECONDS ["&vend=" SECONDS] | "vend=" SECONDS   as in a query
//! REPID     = STEM "=" BITRATE
//! THUMBS    = "thumbs" ["_" TEXT] "=" BITRATE
//! PLACE     = 1*DIGIT, from 2
//! N         = 1*DIGIT, from 1; TIME and BITRATE = 1*DIGIT
//! ```
//!
//! Numbers have no leading zeros, so that each has one spelling. REPIDs are found from the right. A
//! stem may hold `-` (`audio_pt-BR`): it starts at the last `video`, `audio` or `textstream` that
//! follows a `-`, else behind the last `-`.

use super::{
    DashTemplate, HlsContainer, IFrameNumber, Resource,
    name::{KINDS, RESERVED, push_rep_id},
    query::{QueryOptions, clip_of_folder, folder_of_clip},
    rep_id,
};
use crate::selection::Clip;
use latemux_index::title::TrackName;
use percent_encoding::{percent_decode_str, utf8_percent_encode};
use std::borrow::Cow;

/// Most tracks that one media playlist may name. No manifest names more.
pub(super) const MAX_TRACKS: usize = 8;
/// The folder of I-frame playlists and their segments.
pub(super) const KEYFRAMES: &str = "keyframes/";
/// The end of the names of init segments of a clear lead, without the extension.
const LEAD: &str = "-lead";
/// The end of the names of text segments of HLS.
const WEBVTT: &str = ".webvtt";
/// The folder of thumbnails.
pub(super) const IMAGES: &str = "images/";
/// The word that stems of thumbnails begin with.
const THUMBS: &str = "thumbs";
/// The end of the name of the storyboard.
const STORYBOARD: &str = "-thumbs.vtt";
/// Text between the tracks and the number of an HDS fragment. All fragments are in segment 1.
pub(super) const HDS_FRAGMENT: &str = "-Seg1-Frag";
/// The end of [`HDS_FRAGMENT`] that a player appends itself.
pub(super) const HDS_ADDED: &str = "Seg1-Frag";

#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) base: String,
    pub(super) resource: Resource,
    pub(super) clip: Option<Clip>,
}

/// Parses a URL path (percent-encoded, leading `/` optional). `None` if it is not of this grammar.
pub(super) fn parse(path: &str, options: &QueryOptions) -> Option<Parsed> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let components = path.split('/').map(decode).collect::<Option<Vec<_>>>()?;
    let (file, folders) = components.split_last()?;
    let (resource, depth) = match folders.last().map(|folder| &**folder) {
        Some("dash") if file.ends_with(".dash") || file.ends_with(".m4s") => (dash_file(file)?, 1),
        Some("hls") if file.ends_with(".m4s") => (hls_cmaf_file(file)?, 1),
        Some("hls") if file.ends_with(WEBVTT) => (text_file(file, HlsContainer::Cmaf)?, 1),
        Some("keyframes") => match keyframe_file(file, options) {
            Some(resource) => (resource, 1),
            // A title may lie in a folder of this name. Its manifests are not I-frame playlists.
            None => (base_file(file, options)?, 0),
        },
        Some("images") => match image_file(file) {
            Some(resource) => (resource, 1),
            None => (base_file(file, options)?, 0),
        },
        Some(level) if file.starts_with("Fragments(") && file.ends_with(')') => {
            (smooth_fragment(level, file)?, 1)
        }
        _ => (base_file(file, options)?, 0),
    };
    let mut base = folders.get(..folders.len().checked_sub(depth)?)?;
    let mut clip = None;
    if let (Resource::HdsFragment(..) | Resource::HdsBootstrap(_), Some((last, before))) =
        (&resource, base.split_last())
        && let Some(found) = clip_of_folder(last)
    {
        (base, clip) = (before, Some(found));
    }
    let is_name = |c: &Cow<'_, str>| !matches!(&**c, "" | "." | "..");
    base.iter().all(is_name).then(|| Parsed { base: base.join("/"), resource, clip })
}

/// Returns the path relative to the base (`BASE/`). `name` is the encoded NAME to print.
pub(super) fn path(resource: &Resource, name: &str, clip: Clip) -> String {
    let ids = rep_ids_of;
    let id = |track: &TrackName| ids(std::slice::from_ref(track));
    match resource {
        Resource::DashManifest(_) => ".mpd".to_owned(),
        Resource::DashInit(t) => format!("dash/{name}{}.dash", id(t)),
        Resource::DashSegmentAt(t, time) => format!("dash/{name}{}-{time}.dash", id(t)),
        Resource::DashSegment(t, n) => format!("dash/{name}{}-{n}.m4s", id(t)),
        Resource::HlsMultivariant(_) => ".m3u8".to_owned(),
        Resource::HlsPlaylist(t, _) => format!("{name}{}.m3u8", ids(t)),
        Resource::HlsTsSegment(t, n) => format!("{name}{}-{n}.ts", ids(t)),
        Resource::HlsText(t, n, HlsContainer::Auto) => format!("{name}{}-{n}{WEBVTT}", id(t)),
        Resource::HlsText(t, n, HlsContainer::Cmaf) => format!("hls/{name}{}-{n}{WEBVTT}", id(t)),
        Resource::HlsInit(t) => format!("hls/{name}{}.m4s", ids(t)),
        Resource::HlsLeadInit(t) => format!("hls/{name}{}{LEAD}.m4s", id(t)),
        Resource::HlsSegment(t, n) => format!("hls/{name}{}-{n}.m4s", ids(t)),
        Resource::HlsIFramePlaylist(t, _) => format!("{KEYFRAMES}{name}{}.m3u8", id(t)),
        Resource::HlsIFrameTs(t, n) => format!("{KEYFRAMES}{name}{}-{n}.ts", id(t)),
        Resource::HlsIFrameCmaf(t, n) => format!("{KEYFRAMES}{name}{}-{n}.m4s", id(t)),
        Resource::DashIFrame(t, n) => format!("{KEYFRAMES}{name}{}-{n}.dash", id(t)),
        Resource::ThumbnailSheet(t, n) => format!("{IMAGES}{name}{}-{n}.jpg", id(t)),
        Resource::ThumbnailPlaylist(t) => format!("{IMAGES}{name}{}.m3u8", id(t)),
        Resource::Storyboard => format!("{name}{STORYBOARD}"),
        Resource::SmoothManifest => "Manifest".to_owned(),
        Resource::SmoothFragment(t, time) => {
            let stem = utf8_percent_encode(&t.stem, RESERVED);
            format!("QualityLevels({})/Fragments({stem}={time})", t.bitrate)
        }
        Resource::HdsManifest => ".f4m".to_owned(),
        Resource::HdsBootstrap(t) => format!("{}{name}{}.abst", clip_folder(clip), ids(t)),
        Resource::HdsFragment(t, n) => format!("{}{n}", hds_fragments(name, t, clip)),
    }
}

/// Returns `SegmentTemplate@initialization`, relative to the base.
pub(super) fn dash_initialization(name: &str) -> String {
    format!("dash/{name}-$RepresentationID$.dash")
}

/// Returns `SegmentTemplate@media`, relative to the base. `name` is encoded and holds no `$`.
pub(super) fn dash_media(template: DashTemplate, name: &str) -> String {
    match template {
        DashTemplate::Time => format!("dash/{name}-$RepresentationID$-$Time$.dash"),
        DashTemplate::Number => format!("dash/{name}-$RepresentationID$-$Number$.m4s"),
    }
}

/// Returns `SegmentTemplate@initialization` and `@media` of the I-frames of a track.
pub(super) fn dash_iframes(name: &str, track: &TrackName) -> (String, String) {
    let id = rep_id(track);
    (format!("dash/{name}-{id}.dash"), format!("{KEYFRAMES}{name}-{id}-$Number$.dash"))
}

/// Returns `SegmentTemplate@media` of the sheets of thumbnails.
pub(super) fn thumbnail_template(name: &str, track: &TrackName) -> String {
    format!("{IMAGES}{name}-{}-$Number$.jpg", rep_id(track))
}

/// Returns `StreamIndex@Url` of tracks with a stem, relative to the base.
pub(super) fn smooth_url(stem: &str) -> String {
    format!("QualityLevels({{bitrate}})/Fragments({}={{start time}})", utf8_percent_encode(stem, RESERVED))
}

/// Returns `media@url`, relative to the base: the URL of an HDS fragment up to [`HDS_ADDED`].
pub(super) fn hds_url(name: &str, tracks: &[TrackName], clip: Clip) -> String {
    let url = hds_fragments(name, tracks, clip);
    url.strip_suffix(HDS_ADDED).map_or_else(String::new, str::to_owned)
}

/// Returns the REPIDs of tracks, each with a hyphen before it.
fn rep_ids_of(tracks: &[TrackName]) -> String {
    let mut ids = String::new();
    for track in tracks {
        ids.push('-');
        push_rep_id(&mut ids, track);
    }
    ids
}

/// Returns the URL of an HDS fragment up to its number.
fn hds_fragments(name: &str, tracks: &[TrackName], clip: Clip) -> String {
    format!("{}{name}{}{HDS_FRAGMENT}", clip_folder(clip), rep_ids_of(tracks))
}

/// Returns the folder that states a clip in place of a query. Empty for the whole title.
fn clip_folder(clip: Clip) -> String {
    let folder = folder_of_clip(clip);
    if folder.is_empty() { folder } else { folder + "/" }
}

/// Parses the name of a file directly under the base.
fn base_file(file: &str, options: &QueryOptions) -> Option<Resource> {
    if file.ends_with(".mpd") {
        return Some(Resource::DashManifest(options.template));
    }
    if let Some(stem) = file.strip_suffix(".ts") {
        let (ids, n) = numbered(stem)?;
        return Some(Resource::HlsTsSegment(rep_ids(ids)?, n));
    }
    if file.ends_with(WEBVTT) {
        return text_file(file, HlsContainer::Auto);
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
    if let Some(stem) = file.strip_suffix(".m3u8") {
        // A NAME with `=` is more likely a misspelt REPID than a name.
        if stem.contains('=') {
            return Some(Resource::HlsPlaylist(rep_ids(stem)?, options.container));
        }
        return Some(Resource::HlsMultivariant(options.container));
    }
    if file.ends_with(STORYBOARD) {
        return Some(Resource::Storyboard);
    }
    let (ids, n) = file.rsplit_once(HDS_FRAGMENT)?;
    Some(Resource::HdsFragment(rep_ids(ids)?, number(n).filter(|&n| n > 0)?))
}

/// Parses the name of a file under `dash/`.
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

/// Parses the name of a file under `hls/`.
fn hls_cmaf_file(file: &str) -> Option<Resource> {
    let stem = file.strip_suffix(".m4s")?;
    if let Some(tracks) = rep_ids(stem) {
        return Some(Resource::HlsInit(tracks));
    }
    if let Some(id) = stem.strip_suffix(LEAD) {
        return only_rep_id(id).map(Resource::HlsLeadInit);
    }
    let (ids, n) = numbered(stem)?;
    Some(Resource::HlsSegment(rep_ids(ids)?, n))
}

/// Parses the name of a text segment of HLS.
fn text_file(file: &str, container: HlsContainer) -> Option<Resource> {
    let (id, n) = numbered(file.strip_suffix(WEBVTT)?)?;
    Some(Resource::HlsText(only_rep_id(id)?, n, container))
}

/// Parses the name of a file under `keyframes/`.
fn keyframe_file(file: &str, options: &QueryOptions) -> Option<Resource> {
    if let Some(stem) = file.strip_suffix(".m3u8") {
        return Some(Resource::HlsIFramePlaylist(only_rep_id(stem)?, options.container));
    }
    if let Some(stem) = file.strip_suffix(".ts") {
        let (id, n) = iframe_number(stem)?;
        return Some(Resource::HlsIFrameTs(id, n));
    }
    if let Some(stem) = file.strip_suffix(".dash") {
        let (id, n) = numbered(stem)?;
        return Some(Resource::DashIFrame(only_rep_id(id)?, n));
    }
    let (id, n) = iframe_number(file.strip_suffix(".m4s")?)?;
    Some(Resource::HlsIFrameCmaf(id, n))
}

/// Parses the name of a file under `images/`. A title may lie in a folder of this name, so only
/// thumbnails are found.
fn image_file(file: &str) -> Option<Resource> {
    let is_thumbs = |name: &TrackName| {
        name.stem.strip_prefix(THUMBS).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    if let Some(stem) = file.strip_suffix(".m3u8") {
        return only_rep_id(stem).filter(is_thumbs).map(Resource::ThumbnailPlaylist);
    }
    let (id, n) = numbered(file.strip_suffix(".jpg")?)?;
    Some(Resource::ThumbnailSheet(only_rep_id(id).filter(is_thumbs)?, n))
}

/// Parses `QualityLevels(BITRATE)/Fragments(STEM=TIME)`.
pub(super) fn smooth_fragment(level: &str, file: &str) -> Option<Resource> {
    let bitrate = number(level.strip_prefix("QualityLevels(")?.strip_suffix(')')?)?;
    let (stem, time) = file.strip_prefix("Fragments(")?.strip_suffix(')')?.rsplit_once('=')?;
    let is_named = !stem.is_empty() && !stem.contains('=');
    is_named.then_some(Resource::SmoothFragment(TrackName { stem: stem.to_owned(), bitrate }, number(time)?))
}

/// Splits `…-N`, N counted from 1.
fn numbered(stem: &str) -> Option<(&str, u32)> {
    let (rest, n) = stem.rsplit_once('-')?;
    Some((rest, number(n).filter(|&n| n > 0)?))
}

/// Parses `NAME-REPID-N[-PLACE]`.
fn iframe_number(stem: &str) -> Option<(TrackName, IFrameNumber)> {
    let (rest, last) = numbered(stem)?;
    if let Some(track) = only_rep_id(rest) {
        return Some((track, IFrameNumber::first_of(last)));
    }
    let (id, segment) = numbered(rest)?;
    // The first place has one spelling.
    (last > 1).then_some((only_rep_id(id)?, IFrameNumber { segment, place: last }))
}

/// Parses the last REPID of `NAME-REPID`. All text before it is the NAME.
fn only_rep_id(stem: &str) -> Option<TrackName> {
    last_rep_id(stem).map(|(_, track)| track)
}

/// Parses the REPIDs of `NAME-REPID[-REPID]…`, in the order of the text.
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
    // A stem holds no `=`, so it lies behind the REPID before it.
    let floor = left.rfind('=').map_or(0, |at| at + 1);
    let mut dashes = left.get(floor..)?.rmatch_indices('-').map(|(at, _)| floor + at);
    let is_kind = |at: &usize| {
        let stem = left.get(at + 1..).unwrap_or_default();
        KINDS
            .iter()
            .any(|kind| stem.strip_prefix(kind).is_some_and(|rest| rest.is_empty() || rest.starts_with('_')))
    };
    let at = dashes.clone().find(is_kind).or_else(|| dashes.next())?;
    let rest = left.get(..at)?;
    let stem = left.get(at + 1..)?;
    (!stem.is_empty()).then(|| (rest, TrackName { stem: stem.to_owned(), bitrate }))
}

/// Parses digits without leading zeros, so that each number has one spelling.
pub(super) fn number<N: std::str::FromStr>(digits: &str) -> Option<N> {
    let is_canonical =
        digits.bytes().all(|b| b.is_ascii_digit()) && (digits.len() == 1 || !digits.starts_with('0'));
    is_canonical.then(|| digits.parse().ok()).flatten()
}

/// Percent-decodes one path component, once. `None` for a `%` without two hex digits, bytes that
/// are not UTF-8, and characters that no name may hold (`/` and `\` get here only encoded).
pub(super) fn decode(component: &str) -> Option<Cow<'_, str>> {
    let bytes = component.as_bytes();
    // Most components need no decoding.
    if bytes.iter().all(|&byte| byte.is_ascii_graphic() && !matches!(byte, b'%' | b'/' | b'\\')) {
        return Some(Cow::Borrowed(component));
    }
    let is_escape = |(at, _): (usize, _)| {
        bytes.get(at + 1..at + 3).is_some_and(|hex| hex.iter().all(u8::is_ascii_hexdigit))
    };
    if !component.match_indices('%').all(is_escape) {
        return None;
    }
    let decoded = percent_decode_str(component).decode_utf8().ok()?;
    let is_misplaced = |c: char| c == '/' || c == '\\' || c.is_control();
    (!decoded.contains(is_misplaced)).then_some(decoded)
}
