//! The plan: what a response will be, before any media byte is read.

mod following;
mod request;

pub use following::following;

use crate::{
    Address, PackError, Resource,
    address::Links,
    carry::Protocol,
    manifest::{dash, hds, hls, smooth},
    segment::{Mux, ts},
    selected::Selected,
};
use bytes::{Bytes, BytesMut};
use latemux_index::{Title, media::fragment_samples::KnownFragments};
use request::{Request, Take};
use std::ops::Range;

/// The result of planning: a plan, or what must be read before there can be one.
#[derive(Debug)]
pub enum Planned {
    /// The plan is complete.
    Ready(Plan),
    /// The samples of some fragments are unknown. Read their `moof`s, then plan again.
    Needs(Needs),
    /// The length of the body depends on media bytes. Read those of [`MediaFirst::parts`], then
    /// call [`MediaFirst::plan`].
    NeedsMedia(MediaFirst),
}

/// Fragments whose samples are unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// Byte ranges of the fragments. [`latemux_index::locate::fragment_reader::FragmentReader`] reads their
    /// `moof`s.
    pub fragments: Vec<SourceRange>,
    /// The ranges around them that a cache may fetch along, see [`Plan::reach`].
    pub reach: Vec<SourceRange>,
}

/// A response whose length depends on its media: TS of AVC with NAL lengths of other than four
/// bytes.
#[derive(Debug)]
pub struct MediaFirst {
    digest: u128,
    segment: ts::TsMedia,
    reach: Vec<SourceRange>,
}

impl MediaFirst {
    /// Returns the parts to read, in order.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.segment.parts
    }

    /// Returns the ranges around the parts that a cache may fetch along, see [`Plan::reach`].
    #[must_use]
    pub fn reach(&self) -> &[SourceRange] {
        &self.reach
    }

    /// Returns the later [`Plan::digest`], so that a conditional request needs no media.
    #[must_use]
    pub fn digest(&self) -> u128 {
        self.digest
    }

    /// Returns the plan, all of it inline. `media` holds all bytes of the parts in order. Missing
    /// bytes count as zeros.
    #[must_use]
    pub fn plan(self, media: &[u8]) -> Plan {
        let body = self.segment.segment(media);
        Plan {
            content_type: TS_TYPE,
            content_length: body.len() as u64,
            digest: self.digest,
            class: Class::Media,
            parts: vec![Part::Inline(body)],
            transform: None,
            reach: Vec::new(),
        }
    }
}

/// Media type registered for TS, used for audio alone too.
const TS_TYPE: &str = "video/mp2t";

/// A byte range of one of the title's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRange {
    /// Index into [`Title::objects`].
    pub object: usize,
    /// Bytes, counted from the start of the object.
    pub range: Range<u64>,
}

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

/// One piece of a plan: of its body, or of the transform's input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Bytes made from the index.
    Inline(Bytes),
    /// An untouched slice of a source object.
    Source(SourceRange),
}

/// Turns source bytes into body bytes in one pass. The input is the bytes of all parts in order,
/// inline parts included, in pieces of any size. The total output has
/// [`Plan::content_length`](crate::Plan::content_length) bytes for every input of the planned
/// length.
pub trait Transform: Send + std::fmt::Debug {
    /// Takes the next bytes of the parts and appends all output that they allow to `out`.
    fn write(&mut self, input: &[u8], out: &mut BytesMut);

    /// Ends the input and appends the rest of the output.
    fn finish(&mut self, out: &mut BytesMut);
}

impl Plan {
    /// Returns the parts that make the bytes `range` of the body, trimmed to it. Bytes beyond the
    /// end of the body are left out. `None` if a transform makes the body: its output must be
    /// produced from the start and skipped.
    #[must_use]
    pub fn slice(&self, range: Range<u64>) -> Option<Vec<Part>> {
        if self.transform.is_some() {
            return None;
        }
        let mut at = 0_u64;
        let mut slice = Vec::new();
        for part in &self.parts {
            let end = at.saturating_add(part.len());
            let (from, to) = (range.start.max(at), range.end.min(end));
            if from < to {
                slice.push(part.trimmed(from - at..to - at));
            }
            at = end;
        }
        Some(slice)
    }

    /// Iterates over the ranges to read from the title's objects, in the order of the body.
    pub fn source_ranges(&self) -> impl Iterator<Item = &SourceRange> {
        self.parts.iter().filter_map(|part| match part {
            Part::Source(range) => Some(range),
            Part::Inline(_) => None,
        })
    }
}

impl Part {
    /// Returns the number of bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Source(source) => source.range.end.saturating_sub(source.range.start),
        }
    }

    /// True if the part has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes `range` of the part, which must lie within it.
    fn trimmed(&self, range: Range<u64>) -> Self {
        match self {
            Self::Inline(bytes) => {
                // Both bounds are at most the length, which is a `usize`.
                let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(bytes.len());
                Self::Inline(bytes.slice(at(range.start)..at(range.end)))
            }
            Self::Source(source) => {
                let from = source.range.start.saturating_add(range.start);
                let to = source.range.start.saturating_add(range.end);
                Self::Source(SourceRange { object: source.object, range: from..to })
            }
        }
    }

    /// Appends a slice of an object. If it continues the last part, that part is extended.
    pub(crate) fn push_source(parts: &mut Vec<Self>, object: usize, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        match parts.last_mut() {
            Some(Self::Source(last)) if last.object == object && last.range.end == range.start => {
                last.range.end = range.end;
            }
            _ => parts.push(Self::Source(SourceRange { object, range })),
        }
    }
}

/// Plans a response.
///
/// For segments and init segments the cost does not grow with the title, except at the ends of a
/// clip. Only manifests depend on the address's profile and base.
///
/// # Errors
/// [`PackError`] if the title has no such track or segment, if the selection is empty, if the
/// protocol does not carry a track, or if a segment is too large.
pub fn plan(title: &Title, address: &Address, known: &dyn KnownFragments) -> Result<Planned, PackError> {
    let selected = &Selected::new(title, address)?;
    let title = selected.title();
    let request = Request { selected, title, address, known };
    // Only manifests hold URLs.
    let links = || Links::new(address);
    match &address.resource {
        Resource::DashManifest(template) => {
            request.manifest("application/dash+xml", dash::mpd(selected, &links(), *template)?)
        }
        Resource::SmoothManifest => {
            request.manifest("application/vnd.ms-sstr+xml", smooth::client_manifest(selected, &links())?)
        }
        Resource::HdsManifest => request.manifest("application/f4m+xml", hds::manifest(selected, &links())?),
        Resource::HdsBootstrap(tracks) => request.manifest("video/abst", hds::bootstrap(selected, tracks)?),
        Resource::SmoothFragment(track, time) => request.smooth_fragment(track, *time),
        Resource::HdsFragment(tracks, n) => request.hds_fragment(tracks, *n),
        Resource::HlsMultivariant(container) => {
            request.playlist(hls::multivariant(selected, &links(), *container)?)
        }
        Resource::HlsPlaylist(tracks, container) => {
            request.playlist(hls::media(selected, &links(), tracks, *container)?)
        }
        Resource::HlsIFramePlaylist(track, container) => {
            request.playlist(hls::iframes(selected, &links(), track, *container)?)
        }
        Resource::DashInit(track) => request.cmaf_init(Protocol::Dash, track),
        Resource::HlsInit(tracks) => match tracks.as_slice() {
            [track] => request.cmaf_init(Protocol::HlsCmaf, track),
            tracks => request.muxed_init(tracks),
        },
        Resource::DashSegmentAt(track, time) => {
            let find = |t: usize| title.tracks().get(t)?.segment_at(i64::try_from(*time).ok()?);
            request.cmaf_segment(Protocol::Dash, track, find, *time, Take::All)
        }
        Resource::DashSegment(track, n) => request.cmaf_segment_number(Protocol::Dash, track, *n, Take::All),
        Resource::HlsSegment(tracks, n) => {
            let [track] = tracks.as_slice() else { return request.muxed_segment(tracks, *n) };
            let find = |t: usize| {
                let mux = Mux::new(title, std::slice::from_ref(&t))?.joined(selected.minimum);
                mux.parts(n.checked_sub(1)?).find_map(|(_, part)| part)
            };
            request.cmaf_segment(Protocol::HlsCmaf, track, find, u64::from(*n), Take::All)
        }
        Resource::HlsIFrameCmaf(track, n) => {
            request.cmaf_segment_number(Protocol::HlsCmaf, track, *n, Take::IFrame)
        }
        Resource::HlsTsSegment(tracks, n) => request.ts_segment(tracks, *n, Take::All),
        Resource::HlsIFrameTs(track, n) => request.ts_segment(std::slice::from_ref(track), *n, Take::IFrame),
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
