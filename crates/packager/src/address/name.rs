//! Names in URLs: those of titles and of tracks.

use latemux_index::title::TrackName;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::borrow::Cow;

/// Every character that a URL must escape: all but the unreserved ones of RFC 3986 §2.3.
pub(super) const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Like [`RESERVED`], but the comma, a sub-delimiter (RFC 3986 §3.3), stays readable in lists.
const RESERVED_IN_BASE: &AsciiSet = &RESERVED.remove(b',');

/// Most characters of `=BITRATE`.
const MOST_SUFFIX: usize = 1 + 20;

/// The words with which a stem that contains a `-` begins.
pub(super) const KINDS: [&str; 3] = ["video", "audio", "textstream"];

/// Returns the NAME in the URLs of a title: its base's last component, without extension, encoded.
///
/// `=` is written as `_`, because it separates the parts of a REPID. A `-` that could be taken for
/// the start of a REPID (`-video_`) is written as `_` too.
pub(crate) fn name_of(base: &str) -> String {
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
    // Goes from the right: a `_` for a `-` can make the text before it a start: `-video-video_`.
    for at in dashes.into_iter().rev() {
        let behind = name.get(at + 1..).unwrap_or_default();
        if KINDS.iter().any(|kind| behind.strip_prefix(kind).is_some_and(|rest| rest.starts_with('_'))) {
            name.replace_range(at..=at, "_");
        }
    }
    utf8_percent_encode(&name, RESERVED).to_string()
}

/// Returns [`rep_id`] as a value to be displayed, without allocating.
pub(crate) fn displayed_rep_id(track: &TrackName) -> impl std::fmt::Display {
    std::fmt::from_fn(|f| write!(f, "{}={}", utf8_percent_encode(&track.stem, RESERVED), track.bitrate))
}

/// Returns the name of a track in URLs: `STEM=BITRATE`, the stem percent-encoded. If the stem holds
/// unreserved characters only, [`TrackName`] displays the same text.
pub(crate) fn rep_id(track: &TrackName) -> String {
    let mut id = String::with_capacity(track.stem.len() + MOST_SUFFIX);
    push_rep_id(&mut id, track);
    id
}

/// Appends [`rep_id`]. Playlists hold it in each line, so that formatting it piece by piece would
/// take most of their time.
pub(crate) fn push_rep_id(text: &mut String, track: &TrackName) {
    text.push_str(&Cow::from(utf8_percent_encode(&track.stem, RESERVED)));
    text.push('=');
    text.push_str(itoa::Buffer::new().format(track.bitrate));
}

/// Appends the components of a base to a URL, each followed by `/`.
pub(super) fn push_base(url: &mut String, base: &str) {
    for component in base.split('/').filter(|component| !component.is_empty()) {
        url.extend(utf8_percent_encode(component, RESERVED_IN_BASE));
        url.push('/');
    }
}
