//! The plan: what a response will be, before any media byte is read.

use crate::{
    Address, PackError, Resource,
    address::{Links, Profile, rep_id},
    carry::{Protocol, carries},
    manifest::{dash, hds, hls, smooth as smooth_manifest},
    segment::{MAX_SAMPLES, Mux, cmaf, f4f, smooth, ts},
};
use bytes::{Bytes, BytesMut};
use latemux_index::{
    Sample, Title, Track,
    fragments::KnownFragments,
    media::{Samples, TrackKind},
    title::{Segment, SegmentSamples, TrackName},
};
use std::{fmt::Write as _, ops::Range};
use xxhash_rust::xxh3::Xxh3;

/// Part of every digest: raised with every change of the bytes this crate makes of the same request, so that no cache mixes old and
/// new.
const FORMAT_VERSION: u32 = 2;

/// A plan, or what must be read first.
#[derive(Debug)]
pub enum Planned {
    /// Ready to answer.
    Ready(Plan),
    /// Samples of these fragments are not known yet: read their `moof`s, then plan again.
    Needs(Needs),
    /// The body's length depends on media bytes: read those of [`MediaFirst::parts`], then [`MediaFirst::plan`] it.
    NeedsMedia(MediaFirst),
}

/// Fragments whose samples are not known yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needs {
    /// Their `moof`s are to be read, see [`latemux_index::fragments::FragmentReader`].
    pub fragments: Vec<SourceRange>,
    /// As [`Plan::reach`].
    pub reach: Vec<SourceRange>,
}

/// A response whose length only its media tells: TS of AVC with NAL lengths of other than four bytes.
#[derive(Debug)]
pub struct MediaFirst {
    digest: u128,
    segment: ts::TsMedia,
    reach: Vec<SourceRange>,
}

impl MediaFirst {
    /// What to read, in order.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.segment.parts
    }

    /// As [`Plan::reach`].
    #[must_use]
    pub fn reach(&self) -> &[SourceRange] {
        &self.reach
    }

    /// What [`Plan::digest`] will be: a conditional request needs no media.
    #[must_use]
    pub fn digest(&self) -> u128 {
        self.digest
    }

    /// The plan, all of it inline, from all bytes of the parts in order. Bytes that are missing count as zeros.
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

/// IANA `video/mp2t`, for audio alone too.
const TS_TYPE: &str = "video/mp2t";

/// A byte range of one of the title's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRange {
    /// Index into [`Title::objects`].
    pub object: usize,
    /// Bytes from the start of the object.
    pub range: Range<u64>,
}

/// Everything about a response but its media bytes.
#[derive(Debug)]
pub struct Plan {
    /// `Content-Type`.
    pub content_type: &'static str,
    /// Exact length of the body in bytes.
    pub content_length: u64,
    /// A digest of everything the body depends on; an ETag is made from it.
    pub digest: u128,
    /// Manifest, init or media: decides compression and `Cache-Control`.
    pub class: Class,
    /// The body in order.
    pub parts: Vec<Part>,
    /// How source bytes become body bytes; `None`: untouched.
    pub transform: Option<Box<dyn Transform>>,
    /// What belongs to the same stretch of the grid, at most one range for each object: a cache that reads it whole reads no
    /// byte twice, whichever track or protocol comes next ([`Title::reach`]). A hint, and empty where there is nothing to read.
    pub reach: Vec<SourceRange>,
}

/// What kind of response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Playlists and MPDs: text, worth compressing.
    Manifest,
    /// Init segments.
    Init,
    /// Media segments.
    Media,
}

/// A piece of the body, or of what the transform is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Made from the index.
    Inline(Bytes),
    /// An untouched slice of a source object.
    Source(SourceRange),
}

/// Turns source bytes into body bytes, in one pass. It is given all parts' bytes in order, in pieces of any size: inline
/// parts too. The total output is [`Plan::content_length`] for every input of the planned length.
pub trait Transform: Send + std::fmt::Debug {
    /// Takes the next bytes of the parts; appends what it can to `out`.
    fn write(&mut self, input: &[u8], out: &mut BytesMut);

    /// All parts were given; appends the rest.
    fn finish(&mut self, out: &mut BytesMut);
}

impl Plan {
    /// The parts that make the bytes `range` of the body, trimmed to them; what of it lies beyond the end is left out. `None`
    /// where a transform makes the body: its output must be made from the start and skipped.
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

    /// What must be read of the title's objects, in the order the body needs it.
    pub fn source_ranges(&self) -> impl Iterator<Item = &SourceRange> {
        self.parts.iter().filter_map(|part| match part {
            Part::Source(range) => Some(range),
            Part::Inline(_) => None,
        })
    }
}

impl Part {
    /// Bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Source(source) => source.range.end.saturating_sub(source.range.start),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes `range` of the part; it lies within.
    fn trimmed(&self, range: Range<u64>) -> Self {
        match self {
            Self::Inline(bytes) => {
                // Both are at most the length, which is a `usize`.
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

    /// Appends a slice of an object; one that goes on where the last part ends becomes part of it.
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

/// Plans a response. Cost does not grow with the title for segments and init segments. What of the address is not its resource only
/// manifests depend on.
///
/// # Errors
/// Where the title has no such track or segment, or the protocol cannot carry it.
pub fn plan(title: &Title, address: &Address, known: &dyn KnownFragments) -> Result<Planned, PackError> {
    let request = Request { title, address, known };
    let links = || Links::new(address);
    match &address.resource {
        Resource::DashManifest(template) => {
            request.manifest("application/dash+xml", dash::mpd(title, &links(), *template)?)
        }
        Resource::SmoothManifest => request
            .manifest("application/vnd.ms-sstr+xml", smooth_manifest::client_manifest(title, &links())?),
        Resource::HdsManifest => request.manifest("application/f4m+xml", hds::manifest(title, &links())?),
        Resource::HdsBootstrap(tracks) => request.manifest("video/abst", hds::bootstrap(title, tracks)?),
        Resource::SmoothFragment(track, time) => request.smooth_fragment(track, *time),
        Resource::HdsFragment(tracks, n) => request.hds_fragment(tracks, *n),
        Resource::HlsMultivariant(container) => {
            request.playlist(hls::multivariant(title, &links(), *container)?)
        }
        Resource::HlsPlaylist(tracks, container) => {
            request.playlist(hls::media(title, &links(), tracks, *container)?)
        }
        Resource::HlsIFramePlaylist(track, container) => {
            request.playlist(hls::iframes(title, &links(), track, *container)?)
        }
        Resource::DashInit(track) => request.cmaf_init(Protocol::Dash, track),
        Resource::HlsInit(track) => request.cmaf_init(Protocol::HlsCmaf, track),
        Resource::DashSegmentAt(track, time) => {
            let find = |t: usize| title.tracks.get(t)?.segment_at(i64::try_from(*time).ok()?);
            request.cmaf_segment(Protocol::Dash, track, find, *time, Take::All)
        }
        Resource::DashSegment(track, n) => request.cmaf_segment_number(Protocol::Dash, track, *n, Take::All),
        Resource::HlsSegment(track, n) => {
            request.cmaf_segment_number(Protocol::HlsCmaf, track, *n, Take::All)
        }
        Resource::HlsIFrameCmaf(track, n) => {
            request.cmaf_segment_number(Protocol::HlsCmaf, track, *n, Take::IFrame)
        }
        Resource::HlsTsSegment(tracks, n) => request.ts_segment(tracks, *n, Take::All),
        Resource::HlsIFrameTs(track, n) => request.ts_segment(std::slice::from_ref(track), *n, Take::IFrame),
    }
}

/// Which samples of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Take {
    All,
    /// The sync sample it starts with, alone.
    IFrame,
}

impl Take {
    fn word(self) -> &'static str {
        match self {
            Self::All => "segment",
            Self::IFrame => "iframe",
        }
    }
}

/// What every answer is made from.
struct Request<'a> {
    title: &'a Title,
    address: &'a Address,
    known: &'a dyn KnownFragments,
}

impl<'a> Request<'a> {
    /// A digest of everything a body depends on. `what` names the bytes, not the URL: one segment has one ETag whichever protocol
    /// asks for it.
    fn digest(&self, what: &str) -> u128 {
        let mut hash = Xxh3::new();
        hash.update(&FORMAT_VERSION.to_le_bytes());
        hash.update(&self.title.fingerprint.to_le_bytes());
        hash.update(what.as_bytes());
        hash.digest128()
    }

    fn ready(&self, class: Class, content_type: &'static str, what: &str, parts: Vec<Part>) -> Plan {
        Plan {
            content_type,
            content_length: parts.iter().map(Part::len).sum(),
            digest: self.digest(what),
            class,
            parts,
            transform: None,
            reach: Vec::new(),
        }
    }

    fn manifest(&self, content_type: &'static str, body: impl Into<Bytes>) -> Result<Planned, PackError> {
        let mut what = format!("manifest {} {}", self.address.name(), self.address.relative_to_base());
        if let Profile::NginxVod(form) = &self.address.profile {
            // What URLs look like depends on the configuration, and on how many files there are.
            let _ = write!(what, " {form:?}");
        }
        Ok(Planned::Ready(self.ready(Class::Manifest, content_type, &what, vec![Part::Inline(body.into())])))
    }

    fn playlist(&self, text: String) -> Result<Planned, PackError> {
        self.manifest("application/vnd.apple.mpegurl", text)
    }

    /// The index of a track in the title, if the protocol carries it.
    fn track(&self, protocol: Protocol, name: &TrackName) -> Result<(usize, &'a Track), PackError> {
        let index = self.title.find(name).ok_or_else(|| PackError::NoSuchTrack(name.to_string()))?;
        let track = self.title.track(&self.title.tracks[index]);
        if carries(protocol, track).is_err() {
            return Err(PackError::CannotCarry { protocol: protocol.name(), format: track.codec.format });
        }
        Ok((index, track))
    }

    fn cmaf_init(&self, protocol: Protocol, name: &TrackName) -> Result<Planned, PackError> {
        let (_, track) = self.track(protocol, name)?;
        let what = format!("cmaf init {}", rep_id(name));
        let parts = vec![Part::Inline(cmaf::init(track)?)];
        Ok(Planned::Ready(self.ready(Class::Init, cmaf_type(track.kind), &what, parts)))
    }

    fn cmaf_segment_number(
        &self,
        protocol: Protocol,
        name: &TrackName,
        number: u32,
        take: Take,
    ) -> Result<Planned, PackError> {
        let find = |t: usize| self.title.tracks.get(t)?.segment(number.checked_sub(1)?);
        self.cmaf_segment(protocol, name, find, u64::from(number), take)
    }

    /// `find` looks the segment up in the track of an index; `asked` is how it was asked for.
    fn cmaf_segment(
        &self,
        protocol: Protocol,
        name: &TrackName,
        find: impl Fn(usize) -> Option<Segment>,
        asked: u64,
        take: Take,
    ) -> Result<Planned, PackError> {
        let (index, track) = self.track(protocol, name)?;
        if take == Take::IFrame && track.kind != TrackKind::Video {
            return Err(PackError::NoSuchTrack(name.to_string()));
        }
        let none = || PackError::NoSuchSegment { track: name.to_string(), segment: asked.to_string() };
        let segment = find(index).ok_or_else(none)?;
        let samples = match self.samples(index, &segment, take)? {
            SegmentSamples::Known(samples) => samples,
            SegmentSamples::Needs(ranges) => {
                let fragments = self.of_object(index, ranges).collect();
                let reach = self.reach([(index, &segment)]);
                return Ok(Planned::Needs(Needs { fragments, reach }));
            }
        };
        if samples.is_empty() {
            return Err(none());
        }
        let number = segment.number.saturating_add(1);
        let parts = cmaf::media(self.title.tracks[index].object, number, &samples)?;
        let what = format!("cmaf {} {} {number}", take.word(), rep_id(name));
        let mut plan = self.ready(Class::Media, cmaf_type(track.kind), &what, parts);
        if take == Take::All {
            plan.reach = self.reach([(index, &segment)]);
        }
        Ok(Planned::Ready(plan))
    }

    /// The samples of a segment, or what must be read to know them.
    fn samples(&self, track: usize, segment: &Segment, take: Take) -> Result<SegmentSamples, PackError> {
        let title_track = &self.title.tracks[track];
        let mut segment = segment.clone();
        if let Samples::Table(_) = self.title.track(title_track).samples {
            if take == Take::IFrame {
                segment.cut.end = segment.cut.start.saturating_add(1).min(segment.cut.end);
            }
            if segment.cut.len() > MAX_SAMPLES {
                return Err(PackError::TooLarge("more samples than a segment takes"));
            }
        }
        let mut samples = self.title.samples(track, &segment, self.known);
        if let (SegmentSamples::Known(samples), Take::IFrame) = (&mut samples, take) {
            samples.truncate(1);
        }
        Ok(samples)
    }

    /// Byte ranges of a track's object.
    fn of_object(&self, track: usize, ranges: Vec<Range<u64>>) -> impl Iterator<Item = SourceRange> + use<> {
        let object = self.title.tracks[track].object;
        ranges.into_iter().map(move |range| SourceRange { object, range })
    }

    /// What of the objects belongs to the same stretch of the grid as these segments.
    fn reach<'s>(&self, segments: impl IntoIterator<Item = (usize, &'s Segment)>) -> Vec<SourceRange> {
        let mut reach: Vec<SourceRange> = Vec::new();
        for (track, segment) in segments {
            let Some(range) = self.title.reach(track, &segment.cut) else { continue };
            let object = self.title.tracks[track].object;
            match reach.iter_mut().find(|known| known.object == object) {
                Some(SourceRange { range: known, .. }) => {
                    *known = known.start.min(range.start)..known.end.max(range.end);
                }
                None => reach.push(SourceRange { object, range }),
            }
        }
        reach
    }

    /// What tracks bring to one segment (1-based), packed together.
    fn muxed(
        &self,
        protocol: Protocol,
        names: &[TrackName],
        number: u32,
        take: Take,
    ) -> Result<Muxed<'a>, PackError> {
        let all = || names.iter().map(TrackName::to_string).collect::<Vec<_>>().join(" with ");
        let mut tracks =
            names.iter().map(|name| self.track(protocol, name)).collect::<Result<Vec<_>, _>>()?;
        // Video first, whatever the order in the URL: one segment has one body.
        tracks.sort_by_key(|&(index, track)| (track.kind, index));
        let twice = tracks.windows(2).any(|w| w[0].1.kind == w[1].1.kind);
        let kind = |take| take == Take::All || tracks.iter().all(|(_, t)| t.kind == TrackKind::Video);
        if twice || !kind(take) {
            return Err(PackError::NoSuchTrack(all()));
        }
        let indexes: Vec<usize> = tracks.iter().map(|&(index, _)| index).collect();
        let none = || PackError::NoSuchSegment { track: all(), segment: number.to_string() };
        let mux = Mux::new(self.title, &indexes).ok_or_else(none)?;
        let at = number.checked_sub(1).filter(|&n| n < mux.segment_count()).ok_or_else(none)?;
        let mut shares = Vec::with_capacity(indexes.len());
        let mut fragments: Vec<SourceRange> = Vec::new();
        let parts: Vec<_> = mux.parts(at).collect();
        let used = parts.iter().filter_map(|(index, segment)| Some((*index, segment.as_ref()?)));
        let reach = if take == Take::All { self.reach(used) } else { Vec::new() };
        for ((index, segment), &(_, track)) in parts.into_iter().zip(&tracks) {
            let known = segment.as_ref().map(|part| self.samples(index, part, take)).transpose()?;
            match known.unwrap_or_else(|| SegmentSamples::Known(Vec::new())) {
                SegmentSamples::Known(samples) => shares.push(Share { index, track, segment, samples }),
                SegmentSamples::Needs(ranges) => fragments.extend(self.of_object(index, ranges)),
            }
        }
        // Tracks of one object often share fragments.
        fragments.sort_by_key(|source| (source.object, source.range.start));
        fragments.dedup();
        if !fragments.is_empty() {
            return Ok(Muxed::Needs(Needs { fragments, reach }));
        }
        let ids: Vec<String> = indexes.iter().map(|&i| rep_id(&self.title.tracks[i].name)).collect();
        let ids = ids.join(" ");
        Ok(Muxed::Known { at, ids, shares, reach })
    }

    fn ts_segment(&self, names: &[TrackName], number: u32, take: Take) -> Result<Planned, PackError> {
        let (at, ids, shares, reach) = match self.muxed(Protocol::HlsTs, names, number, take)? {
            Muxed::Needs(needs) => return Ok(Planned::Needs(needs)),
            Muxed::Known { at, ids, shares, reach } => (at, ids, shares, reach),
        };
        let muxed: Vec<ts::TsTrack<'_>> = shares
            .iter()
            .map(|share| ts::TsTrack {
                track: share.track,
                object: self.title.tracks[share.index].object,
                samples: &share.samples,
            })
            .collect();
        let digest = self.digest(&format!("ts {} {ids} {number}", take.word()));
        Ok(match ts::plan_ts(&muxed, at)? {
            ts::TsPlan::Ready(segment) => Planned::Ready(Plan {
                content_type: TS_TYPE,
                content_length: segment.content_length,
                digest,
                class: Class::Media,
                parts: segment.parts,
                transform: Some(segment.muxer),
                reach,
            }),
            ts::TsPlan::NeedsMedia(segment) => Planned::NeedsMedia(MediaFirst { digest, segment, reach }),
        })
    }

    fn hds_fragment(&self, names: &[TrackName], number: u32) -> Result<Planned, PackError> {
        let (ids, shares, reach) = match self.muxed(Protocol::Hds, names, number, Take::All)? {
            Muxed::Needs(needs) => return Ok(Planned::Needs(needs)),
            Muxed::Known { ids, shares, reach, .. } => (ids, shares, reach),
        };
        let tracks: Vec<f4f::F4fTrack<'_>> = shares
            .into_iter()
            .filter_map(|Share { index, track, segment, samples }| {
                let object = self.title.tracks[index].object;
                Some(f4f::F4fTrack { track, index, object, segment: segment?, samples })
            })
            .collect();
        let parts = f4f::media(&f4f::clock(self.title), number, &tracks)?;
        let plan = self.ready(Class::Media, "video/f4f", &format!("f4f segment {ids} {number}"), parts);
        Ok(Planned::Ready(Plan { reach, ..plan }))
    }

    fn smooth_fragment(&self, name: &TrackName, time: u64) -> Result<Planned, PackError> {
        let (index, track) = self.track(Protocol::Smooth, name)?;
        let none = || PackError::NoSuchSegment { track: name.to_string(), segment: time.to_string() };
        let clock = smooth::clock(self.title);
        let number = i64::try_from(time).ok().and_then(|time| clock.segment_at(index, time));
        let title_track = &self.title.tracks[index];
        let segment = number.and_then(|number| title_track.segment(number)).ok_or_else(none)?;
        let samples = match self.samples(index, &segment, Take::All)? {
            SegmentSamples::Known(samples) => samples,
            SegmentSamples::Needs(ranges) => {
                let fragments = self.of_object(index, ranges).collect();
                let reach = self.reach([(index, &segment)]);
                return Ok(Planned::Needs(Needs { fragments, reach }));
            }
        };
        if samples.is_empty() {
            return Err(none());
        }
        let parts = smooth::media(&clock, (index, title_track.object), &segment, &samples)?;
        let what = format!("smooth segment {} {time}", rep_id(name));
        let mut plan = self.ready(Class::Media, cmaf_type(track.kind), &what, parts);
        plan.reach = self.reach([(index, &segment)]);
        Ok(Planned::Ready(plan))
    }
}

/// Tracks packed into one segment.
enum Muxed<'a> {
    /// These fragments must be read first.
    Needs(Needs),
    /// All is known.
    Known {
        /// The segment's number, 0-based.
        at: u32,
        /// Names of the tracks, video first.
        ids: String,
        /// What each of them brings, video first.
        shares: Vec<Share<'a>>,
        /// As [`Plan::reach`].
        reach: Vec<SourceRange>,
    },
}

/// What a track brings to a segment it shares with others.
struct Share<'a> {
    index: usize,
    track: &'a Track,
    /// `None` where it has nothing there.
    segment: Option<Segment>,
    samples: Vec<Sample>,
}

/// `Content-Type` of CMAF tracks (ISO/IEC 23000-19 §7.3.3.1 and RFC 4337).
fn cmaf_type(kind: TrackKind) -> &'static str {
    match kind {
        TrackKind::Video => "video/mp4",
        TrackKind::Audio => "audio/mp4",
        TrackKind::Text => "application/mp4",
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
