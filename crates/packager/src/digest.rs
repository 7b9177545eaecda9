//! Digests: the hash of the text that names the bytes of a response. ETags are made from it, and
//! IVs of encrypted segments.

use crate::{
    address::{IFrameNumber, displayed_rep_id, push_rep_id},
    selection::Selected,
};
use latemux_index::{
    Title,
    title::{Segment, TrackName},
};
use std::fmt::{self, Write as _};
use xxhash_rust::xxh3::Xxh3;

/// Part of every digest. It is raised with every change of the bytes that this crate makes for the
/// same request, so that no cache mixes old and new ones.
const FORMAT_VERSION: u32 = 3;

/// A digest that text can be written to.
struct DigestWriter(Xxh3);

impl fmt::Write for DigestWriter {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.update(text.as_bytes());
        Ok(())
    }
}

/// Bytes that hold the usual names of two tracks and the number of a segment.
const USUAL_TEXT: usize = 96;

/// Returns the digest of everything that a body depends on. `what` names the bytes rather than the
/// URL, so that a segment has one ETag in all protocols that send the same bytes.
pub(crate) fn digest_of(title: &Title, what: fmt::Arguments<'_>) -> u128 {
    let mut hash = DigestWriter(Xxh3::new());
    hash.0.update(&FORMAT_VERSION.to_le_bytes());
    hash.0.update(&title.fingerprint().to_le_bytes());
    // Writing to a digest cannot fail.
    let _ = hash.write_fmt(what);
    hash.0.digest128()
}

/// Returns the digest of a body that depends on what another digest stands for, and on a text.
pub(crate) fn extended(digest: u128, text: fmt::Arguments<'_>) -> u128 {
    let mut hash = DigestWriter(Xxh3::new());
    hash.0.update(&digest.to_le_bytes());
    // Writing to a digest cannot fail.
    let _ = hash.write_fmt(text);
    hash.0.digest128()
}

/// The samples of a segment that a response holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SampleChoice {
    All,
    /// Only one I-frame of the segment, by its place from 1 on.
    IFrame(u32),
    /// Only the I-frame that the segment starts with. It lasts as long as the segment.
    LastingIFrame,
}

impl SampleChoice {
    /// Returns the choice of one I-frame.
    pub(crate) const fn of_iframe(number: IFrameNumber) -> Self {
        Self::IFrame(number.place)
    }

    /// Returns the place of the only I-frame, from 1 on. `None` for all samples.
    pub(crate) const fn place(self) -> Option<u32> {
        match self {
            Self::All => None,
            Self::IFrame(place) => Some(place),
            Self::LastingIFrame => Some(1),
        }
    }
}

impl fmt::Display for SampleChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("segment"),
            Self::IFrame(0 | 1) => f.write_str("iframe"),
            Self::LastingIFrame => f.write_str("lasting iframe"),
            Self::IFrame(place) => write!(f, "iframe {place} of"),
        }
    }
}

/// The text of a CMAF segment of one track, without its cut. Numbers count from 1.
pub(crate) struct CmafText<'a>(pub(crate) SampleChoice, pub(crate) &'a TrackName, pub(crate) u32);

impl fmt::Display for CmafText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(choice, name, number) = self;
        write!(f, "cmaf {choice} {} {number}", displayed_rep_id(name))
    }
}

/// The text of a TS segment, from that of its tracks.
pub(crate) struct TsText<'a>(pub(crate) SampleChoice, pub(crate) &'a str);

impl fmt::Display for TsText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ts {} {}", self.0, self.1)
    }
}

/// The text of an fMP4 segment of several tracks, from that of its tracks.
pub(crate) struct Fmp4Text<'a>(pub(crate) &'a str);

impl fmt::Display for Fmp4Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fmp4 segment {}", self.0)
    }
}

/// Returns the text of tracks packed together, video first, in segment `number` (1-based).
pub(crate) fn packed_text<'a>(names: impl Iterator<Item = &'a TrackName>, number: u32, cut: &str) -> String {
    let mut text = String::with_capacity(USUAL_TEXT);
    for name in names {
        push_rep_id(&mut text, name);
        text.push(' ');
    }
    // Writing to a string cannot fail.
    let _ = write!(text, "{number}{cut}");
    text
}

/// Returns the text that tells how segment `number` (0-based) of tracks differs from that of the
/// whole title. Returns empty text if there is no difference, so that both have one ETag.
pub(crate) fn cut_text<'s>(
    selected: &Selected<'_>,
    tracks: &[usize],
    number: u32,
    shares: impl Iterator<Item = Option<&'s Segment>> + Clone,
) -> String {
    let is_whole = selected.is_whole(tracks, number, shares.clone());
    let cut = |share: Option<&Segment>| format!(" {:?}", share.map(|share| &share.cut));
    if is_whole { String::new() } else { shares.map(cut).collect() }
}
