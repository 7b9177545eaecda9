//! The plan of a response: everything about it that is known before any media byte is read.
//!
//! [`plan`] takes a title and an [`Address`] and returns a [`Plan`]: the exact length of the body,
//! the digest behind the ETag, and the [`Part`]s of the body in order. A part is either inline
//! bytes, made from the index, or a source range, sent unchanged. If the body is
//! TS or encrypted, a [`Transform`] turns the parts into the body, whose length is still known in
//! advance.
//!
//! Five kinds of responses need a read before the plan ([`Planned`]): fragments whose samples the
//! index does not hold, TS of video whose length depends on its media, text in another form than it
//! is stored in, scalable video in order of importance, and video that is encrypted slice by slice.

mod cuts;
mod following;
mod layered;
mod muxed;
mod planner;
mod sealed;
mod text;
mod thumbnails;

pub use crate::part::{Part, SourceRange, Transform, Trimmed};
pub use cuts::{CutSamples, KnownCuts, NeedsCuts, NoCuts};
pub use following::following;

use crate::{
    Address, PackError, Resource,
    address::Links,
    carry::Protocol,
    clear_lead::LeadCheck,
    digest::SampleChoice,
    manifest::{dash, hds, hls, smooth, storyboard::storyboard},
    protection::{Cover, Protection, Seal},
    segment::{layers::LayeredMedia, text::TextMedia, ts},
    selection::{Selected, Selection},
};
use latemux_index::{
    Title,
    media::{TrackKind, fragment_samples::KnownFragments},
};
use planner::Planner;
use sealed::Sealing;
use std::ops::Range;

/// The result of planning: a plan, or what must be read before there can be one.
#[derive(Debug)]
pub enum Planned {
    /// The plan is complete.
    Ready(Plan),
    /// The samples of some fragments are unknown. Read their `moof`s, then plan again.
    Needs(Needs),
    /// The length depends on media. Read [`MediaFirst::parts`], then call [`MediaFirst::plan`].
    NeedsMedia(MediaFirst),
    /// The slices of video that is to be encrypted are unknown. Read the samples, then plan again.
    NeedsCuts(Box<NeedsCuts>),
}

/// Fragments whose samples are unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// Their byte ranges. A [`FragmentReader`] reads the `moof`s.
    ///
    /// [`FragmentReader`]: latemux_index::locate::fragment_reader::FragmentReader
    pub fragments: Vec<SourceRange>,
    /// The ranges around them that a cache may fetch along, see [`Plan::reach`].
    pub reach: Vec<SourceRange>,
}

/// A response whose length depends on its media: TS of AVC with NAL lengths of 1 or 2 bytes, TS
/// with encrypted samples, text in another form than it is stored in, and scalable video in order
/// of importance.
#[derive(Debug)]
pub struct MediaFirst {
    digest: u128,
    segment: MediaSegment,
    reach: Vec<SourceRange>,
    /// The encryption of the segment, if any.
    seal: Option<Seal>,
}

/// A segment that is made of media that was read.
#[derive(Debug)]
enum MediaSegment {
    Ts {
        segment: ts::TsMedia,
        /// Names of its tracks.
        track: String,
    },
    Text(Box<TextMedia>),
    Layers(Box<LayeredMedia>),
}

impl MediaFirst {
    /// Returns the parts to read, in order.
    pub fn parts(&self) -> &[Part] {
        match &self.segment {
            MediaSegment::Ts { segment, .. } => &segment.parts,
            MediaSegment::Text(segment) => &segment.parts,
            MediaSegment::Layers(segment) => &segment.parts,
        }
    }

    /// Returns the ranges around the parts that a cache may fetch along, see [`Plan::reach`].
    pub fn reach(&self) -> &[SourceRange] {
        &self.reach
    }

    /// Returns [`Self::reach`], which is empty from then on.
    pub fn take_reach(&mut self) -> Vec<SourceRange> {
        std::mem::take(&mut self.reach)
    }

    /// Returns the later [`Plan::digest`], so that a conditional request needs no media.
    pub fn digest(&self) -> u128 {
        self.digest
    }

    /// Returns the plan, all inline, from all bytes of the parts. Missing bytes count as zeros.
    ///
    /// # Errors
    /// [`PackError::CannotCut`] if a sample cannot be encrypted, [`PackError::TooLarge`] for video
    /// in order of importance that is too long.
    pub fn plan(self, media: &[u8]) -> Result<Plan, PackError> {
        let (content_type, body) = match self.segment {
            MediaSegment::Ts { segment, track } => {
                let body = segment.segment(media);
                (TS_TYPE, body.map_err(|problem| PackError::CannotCut { track, problem })?)
            }
            MediaSegment::Text(segment) => (segment.content_type(), segment.segment(media)),
            MediaSegment::Layers(segment) => (planner::cmaf_type(TrackKind::Video), segment.segment(media)?),
        };
        let plan = Plan {
            content_type,
            content_length: body.len() as u64,
            digest: self.digest,
            class: Class::Media,
            parts: vec![Part::Inline(body)],
            transform: None,
            reach: Vec::new(),
        };
        Ok(match self.seal {
            Some(seal) => seal.seal_inline(plan),
            None => plan,
        })
    }

    /// Returns the same response encrypted.
    pub(crate) fn sealed(self, cover: &Cover<'_>) -> Self {
        let seal = cover.seal(self.digest);
        Self { digest: seal.digest, seal: Some(seal), ..self }
    }
}

/// Media type of HLS playlists.
const HLS_TYPE: &str = "application/vnd.apple.mpegurl";
/// Media type registered for TS, used for audio alone too.
const TS_TYPE: &str = "video/mp2t";

/// Everything known about a response before its media is read.
#[derive(Debug)]
pub struct Plan {
    /// `Content-Type`.
    pub content_type: &'static str,
    /// Exact length of the body in bytes.
    pub content_length: u64,
    /// A digest of everything that the body depends on. The ETag is made from it.
    pub digest: u128,
    /// The class of the response, which decides about compression and `Cache-Control`.
    pub class: Class,
    /// The parts of the body, or of the transform's input, in order.
    pub parts: Vec<Part>,
    /// Turns source bytes into body bytes. With `None`, source bytes are sent untouched.
    pub transform: Option<Box<dyn Transform>>,
    /// The ranges around the source ranges that a cache may fetch along: the bytes of the same
    /// stretch of the grid, at most one range for each object. A cache that always fetches them
    /// whole reads no byte twice, whichever track or protocol is requested next ([`Title::reach`]).
    /// This is a hint. It is empty if there is nothing to read.
    pub reach: Vec<SourceRange>,
}

/// The class of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Playlists and other manifests: text, worth compressing.
    Manifest,
    /// Init segments.
    Init,
    /// Media segments.
    Media,
}

impl Plan {
    /// Cuts the plan down to the bytes `range` of the body; bytes beyond its end are left out.
    /// Returns the number of bytes that a transform makes before them.
    pub fn cut(&mut self, range: Range<u64>) -> u64 {
        let Trimmed { input, before } = match &mut self.transform {
            Some(transform) => transform.trim(range),
            None => Trimmed { input: range, before: 0 },
        };
        self.parts = self.parts_within(input);
        before
    }

    /// Returns the parts for the bytes `range` of all parts together.
    fn parts_within(&self, range: Range<u64>) -> Vec<Part> {
        let mut at = 0_u64;
        let mut slice = Vec::new();
        for part in &self.parts {
            let end = at + part.len();
            let from = range.start.max(at);
            let to = range.end.min(end);
            if from < to {
                slice.push(part.trimmed(from - at..to - at));
            }
            at = end;
        }
        slice
    }
}

/// Plans a response of a title, encrypted if the title has a protection.
///
/// # Errors
/// Those of [`plan`], and [`PackError::CannotProtect`] for a protocol without a scheme.
pub fn plan_protected(
    title: &Title,
    address: &Address,
    known: &dyn KnownFragments,
    cuts: &dyn KnownCuts,
    protection: Option<&Protection>,
) -> Result<Planned, PackError> {
    let Some(protection) = protection else { return plan(title, address, known) };
    let readdressed = protection.readdressed(address);
    let address = readdressed.as_ref().unwrap_or(address);
    let cover = protection.cover_of(address)?;
    let of_samples = cover.as_ref().filter(|cover| cover.scheme.is_of_samples());
    let sealing = of_samples.map(|cover| Sealing { cover, cuts });
    // What the rule leaves clear on purpose has no lead.
    let lead = cover.as_ref().map_or_else(LeadCheck::default, |cover| LeadCheck::new(cover.lead));
    let planned = plan_resource(title, address, known, Some(protection), sealing, &lead)?;
    Ok(protection.complete(planned, cover.as_ref().filter(|_| !lead.is_clear())))
}

/// Plans a response of a title without protection.
///
/// For segments and init segments the cost does not grow with the title, except at the ends of a
/// clip. Only manifests depend on the address's profile and base.
///
/// # Errors
/// [`PackError`] if the title has no such track or segment, if the selection is empty, if the
/// protocol does not carry a track, or if a segment is too large.
pub fn plan(title: &Title, address: &Address, known: &dyn KnownFragments) -> Result<Planned, PackError> {
    plan_resource(title, address, known, None, None, &LeadCheck::default())
}

/// Plans a response. If the title has a protection, manifests name the keys of segments. Segments
/// are planned clear, unless their samples are encrypted by `sealing` and not held by `lead`.
fn plan_resource(
    title: &Title,
    address: &Address,
    known: &dyn KnownFragments,
    protection: Option<&Protection>,
    sealing: Option<Sealing<'_>>,
    lead: &LeadCheck,
) -> Result<Planned, PackError> {
    let everything = Selection::default();
    // I-frames and thumbnails are those of the whole title, in clips too.
    let selection = if address.resource.is_of_whole_title() { &everything } else { &address.selection };
    let selected = &Selected::new(title, selection, address.resource.is_manifest())?;
    let title = selected.title();
    // Pictures are never encrypted.
    let is_picture = |track| protection.is_none() && title.find_thumbnails(track).is_some();
    let planner = Planner { selected, title, address, known, sealing, lead };
    // Only manifests hold URLs.
    let links = || Links::new(address);
    let hls = |playlist: String| planner.manifest(HLS_TYPE, playlist);
    match &address.resource {
        Resource::DashManifest(template) => {
            planner.manifest("application/dash+xml", dash::mpd(selected, &links(), *template, protection)?)
        }
        Resource::SmoothManifest => {
            let manifest = smooth::client_manifest(selected, &links(), protection)?;
            planner.manifest("application/vnd.ms-sstr+xml", manifest)
        }
        Resource::HdsManifest => planner.manifest("application/f4m+xml", hds::manifest(selected, &links())?),
        Resource::HdsBootstrap(tracks) => planner.manifest("video/abst", hds::bootstrap(selected, tracks)?),
        Resource::HlsMultivariant(container) => {
            hls(hls::multivariant(selected, &links(), *container, protection)?)
        }
        Resource::HlsPlaylist(tracks, container) => {
            hls(hls::media(selected, &links(), tracks, *container, protection)?)
        }
        Resource::HlsIFramePlaylist(track, _) if is_picture(track) => {
            hls(hls::thumbnail_iframes(selected, &links(), track)?)
        }
        Resource::HlsIFramePlaylist(track, container) => {
            hls(hls::iframes(selected, &links(), track, *container, protection)?)
        }
        Resource::ThumbnailPlaylist(track) => hls(hls::thumbnail_playlist(selected, &links(), track)?),
        Resource::Storyboard => planner.manifest("text/vtt", storyboard(selected, &links())?),
        Resource::DashInit(track) => planner.cmaf_init(Protocol::Dash, track),
        Resource::HlsInit(tracks) => match tracks.as_slice() {
            [track] if is_picture(track) => planner.thumbnail_init(track),
            [track] => planner.cmaf_init(Protocol::HlsCmaf, track),
            tracks => planner.muxed_init(tracks),
        },
        Resource::HlsLeadInit(track) => planner.cmaf_init(Protocol::HlsCmaf, track),
        Resource::SmoothFragment(track, time) => planner.smooth_fragment(track, *time),
        Resource::HdsFragment(tracks, n) => planner.hds_fragment(tracks, *n),
        Resource::DashSegmentAt(track, time) => planner.dash_segment_at(track, *time),
        Resource::DashSegment(track, n) => {
            planner.cmaf_segment_number(Protocol::Dash, track, *n, SampleChoice::All)
        }
        Resource::DashIFrame(track, n) => planner.dash_iframe(track, *n),
        Resource::HlsSegment(tracks, n) => planner.hls_segment(tracks, *n),
        Resource::HlsText(track, n, container) => planner.hls_text(track, *n, *container),
        Resource::HlsIFrameCmaf(track, n) if is_picture(track) => planner.thumbnail_iframe(track, *n),
        Resource::HlsIFrameCmaf(track, n) => {
            let choice = SampleChoice::of_iframe(*n);
            planner.cmaf_segment_number(Protocol::HlsCmaf, track, n.segment, choice)
        }
        Resource::HlsTsSegment(tracks, n) => planner.ts_segment(tracks, *n, SampleChoice::All),
        Resource::HlsIFrameTs(track, n) => {
            planner.ts_segment(std::slice::from_ref(track), n.segment, SampleChoice::of_iframe(*n))
        }
        Resource::ThumbnailSheet(track, n) => planner.thumbnail_sheet(track, *n),
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
