//! What there is to play, whatever the protocol: renditions, their segments, and where each lies.

use crate::manifest::{Deferred, Template};
use std::{fmt, sync::Arc};
use url::Url;

/// A streaming protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Protocol {
    /// HTTP Live Streaming (RFC 8216).
    Hls,
    /// MPEG-DASH (ISO/IEC 23009-1).
    Dash,
    /// Smooth Streaming ([MS-SSTR]).
    Smooth,
    /// HTTP Dynamic Streaming (Flash Media Manifest 1.0).
    Hds,
}

impl Protocol {
    /// As in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hls => "hls",
            Self::Dash => "dash",
            Self::Smooth => "smooth",
            Self::Hds => "hds",
        }
    }
}

/// What segments are made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Container {
    /// ISO base media fragments behind an init segment.
    Cmaf,
    /// Smooth Streaming's fragments: no init segment.
    Smooth,
    /// MPEG-2 transport stream.
    Ts,
    /// HDS fragments: FLV tags in an `mdat`.
    F4f,
    /// WebVTT documents.
    WebVtt,
    /// TTML documents.
    Ttml,
    /// AAC in ADTS frames, or another elementary stream, with its time in an ID3 tag (RFC 8216 §3.4).
    PackedAudio,
    /// Encrypted as a whole, or of no kind that is known: only its length can be checked.
    Opaque,
}

/// What a rendition shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MediaKind {
    /// Picture alone.
    Video,
    /// Sound alone.
    Audio,
    /// Both in the same segments.
    Muxed,
    /// Subtitles and captions.
    Text,
}

/// Bytes `first..=last` of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ByteRange {
    /// First byte.
    pub first: u64,
    /// Last byte, not before the first.
    pub last: u64,
}

impl ByteRange {
    /// `length` bytes from `offset` on; `None` for none at all, or beyond 64 bits.
    #[must_use]
    pub fn new(offset: u64, length: u64) -> Option<Self> {
        Some(Self { first: offset, last: offset.checked_add(length.checked_sub(1)?)? })
    }

    /// `first-last`, as in manifests; `None` for anything else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.trim().split_once('-')?;
        let range = Self { first: first.parse().ok()?, last: last.parse().ok()? };
        (range.first <= range.last).then_some(range)
    }

    /// Bytes in it.
    #[must_use]
    pub const fn len(self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }

    /// Never: a range has a byte.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        false
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.first, self.last)
    }
}

/// Something to fetch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resource {
    /// Where it lies.
    pub url: Url,
    /// Which bytes of it; `None` for all.
    pub range: Option<ByteRange>,
}

/// What a manifest says there is to play.
#[derive(Debug, Clone)]
pub struct Presentation {
    /// The protocol it was read from.
    pub protocol: Protocol,
    /// What plays at the same time: one rendition of each set. Never empty, nor is any set.
    pub sets: Vec<RenditionSet>,
}

/// Renditions of the same content, within which a player switches.
#[derive(Debug, Clone)]
pub struct RenditionSet {
    /// What they show.
    pub kind: MediaKind,
    /// By rising bit rate.
    pub renditions: Vec<Rendition>,
}

impl RenditionSet {
    /// Returns the index of the highest rendition whose bit rate is at most `rate`, or that of the
    /// lowest rendition if all are above.
    #[must_use]
    pub fn highest_within(&self, rate: u64) -> usize {
        self.renditions.partition_point(|rendition| rendition.bandwidth <= rate).saturating_sub(1)
    }
}

/// Reads a bit rate such as `800k`, `3M` or `2500000`. `min` is 0 and `max` is [`u64::MAX`].
///
/// # Errors
/// If the text is none of these, or is above 10^15.
pub fn parse_bit_rate(text: &str) -> Result<u64, String> {
    let wrong = || format!("not a bit rate such as 800k, 3M, min or max: '{text}'");
    match text {
        "min" => return Ok(0),
        "max" => return Ok(u64::MAX),
        _ => {}
    }
    let (digits, unit) = match text.as_bytes().last() {
        Some(b'k') => (text.strip_suffix('k'), 1e3),
        Some(b'M') => (text.strip_suffix('M'), 1e6),
        _ => (Some(text), 1.0),
    };
    let number: f64 = digits.and_then(|digits| digits.parse().ok()).ok_or_else(wrong)?;
    let rate = number * unit;
    if !(0.0..=1e15).contains(&rate) {
        return Err(wrong());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1e15")]
    let rate = rate.round() as u64;
    Ok(rate)
}

/// One rendition.
#[derive(Debug, Clone)]
pub struct Rendition {
    /// What the manifest calls it.
    pub name: String,
    /// Bits per second, as the manifest states it; 0 where it does not.
    pub bandwidth: u64,
    /// Its segments.
    pub index: Index,
    /// How it is coded, where the manifest says so instead of an init segment.
    pub coding: Option<Arc<DeclaredCoding>>,
}

/// What a manifest of Smooth Streaming says of a track, which elsewhere stands in its init segment ([MS-SSTR] 2.2.2.5).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeclaredCoding {
    /// `FourCC`, in upper case.
    pub four_cc: String,
    /// `CodecPrivateData`.
    pub private_data: Vec<u8>,
    /// Width and height in pixels; 0 for sound, and where they are not stated.
    pub size: (u16, u16),
    /// Samples of sound per second; 0 for pictures.
    pub sampling_rate: u32,
    /// Channels of sound.
    pub channels: u16,
    /// Language tag; "" where there is none.
    pub language: String,
}

/// Where the segments of a rendition are told.
#[derive(Debug, Clone)]
pub enum Index {
    /// In the manifest.
    Known(Arc<Segments>),
    /// In something to be fetched first: a media playlist, a `sidx`, bootstrap information.
    Deferred(Arc<Deferred>),
    /// Period by period, some of them in something to be fetched first. Never joined themselves.
    Joined(Arc<[Index]>),
}

/// The segments of a rendition.
#[derive(Debug, Clone)]
pub struct Segments {
    /// In the order of play; never empty.
    pub entries: Vec<Segment>,
    /// What they have in common, group by group: one, unless there are several periods, discontinuities or init segments. Never empty, and the
    /// first begins with the first entry.
    pub groups: Vec<SegmentGroup>,
}

/// Segments that have the same address, scale and init segment.
#[derive(Debug, Clone)]
pub struct SegmentGroup {
    /// Index of the first of them.
    pub first: usize,
    /// Parts of the same number are on one timeline: their times go on from one to the next.
    pub timeline: u32,
    /// Seconds of the presentation at which their times count from 0: where a period starts.
    pub start: f64,
    /// What they are made of.
    pub container: Container,
    /// What has to be there before the first.
    pub init: Option<Resource>,
    /// Scale of the times of [`Segments::entries`], in ticks per second; not 0.
    pub timescale: u64,
    /// Media time at [`Self::start`], in ticks; `None` where the protocol does not say, and the first segment does.
    pub origin: Option<i64>,
    /// By how many seconds a segment's media may begin earlier or later than its manifest says.
    pub tolerance: f64,
    pub(crate) addresses: Addresses,
}

/// One segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// When it is presented, in ticks from [`SegmentGroup::start`]; before 0 where it begins earlier.
    pub start: i64,
    /// How long it lasts, in ticks.
    pub duration: u64,
    /// What its address is made of: `$Number$`, or a position in a list.
    pub(crate) number: u64,
    /// `$Time$`.
    pub(crate) time: u64,
    pub(crate) range: Option<ByteRange>,
}

/// How addresses of segments are made.
#[derive(Debug, Clone)]
pub(crate) enum Addresses {
    /// From a segment's number and time.
    Template { base: Url, media: Template },
    /// One behind the other; [`Segment::number`] is an index.
    List(Vec<Arc<Url>>),
}

impl SegmentGroup {
    /// Ticks in seconds.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "ticks of a title, and of epochs in microseconds, are below 2^53"
    )]
    pub fn seconds(&self, ticks: i64) -> f64 {
        ticks as f64 / self.timescale as f64
    }
}

impl Segments {
    /// Segments with everything in common.
    pub(crate) fn uniform(group: SegmentGroup, entries: Vec<Segment>) -> Self {
        Self { entries, groups: vec![group] }
    }

    /// Segments of periods that follow each other, each a timeline of its own.
    #[must_use]
    pub fn joined(periods: impl IntoIterator<Item = Arc<Self>>) -> Self {
        let mut joined = Self { entries: Vec::new(), groups: Vec::new() };
        for (timeline, period) in (0..).zip(periods) {
            let before = joined.entries.len();
            joined.entries.extend_from_slice(&period.entries);
            let later = |group: &SegmentGroup| SegmentGroup {
                first: group.first.saturating_add(before),
                timeline,
                ..group.clone()
            };
            joined.groups.extend(period.groups.iter().map(later));
        }
        joined
    }

    /// The place of the group that a segment is of.
    #[must_use]
    pub fn group_index(&self, index: usize) -> usize {
        self.groups.partition_point(|group| group.first <= index).saturating_sub(1)
    }

    /// What the segment at that index has in common with others.
    #[must_use]
    pub fn group(&self, index: usize) -> Option<&SegmentGroup> {
        self.groups.get(self.group_index(index))
    }

    /// What to fetch for the segment at that index.
    #[must_use]
    pub fn resource(&self, index: usize) -> Option<Resource> {
        let segment = self.entries.get(index)?;
        let url = match &self.group(index)?.addresses {
            Addresses::Template { base, media } => {
                base.join(&media.fill(Some(segment.number), Some(segment.time))).ok()?
            }
            Addresses::List(urls) => Url::clone(urls.get(usize::try_from(segment.number).ok()?)?),
        };
        Some(Resource { url, range: segment.range })
    }

    /// When the segment at that index starts, and how long it lasts, in seconds.
    #[must_use]
    pub fn time(&self, index: usize) -> Option<(f64, f64)> {
        let (segment, group) = (self.entries.get(index)?, self.group(index)?);
        let duration = group.seconds(i64::try_from(segment.duration).ok()?);
        Some((group.start + group.seconds(segment.start), duration))
    }

    /// When the last one ends, in seconds.
    #[must_use]
    pub fn end(&self) -> f64 {
        self.time(self.entries.len().saturating_sub(1)).map_or(0.0, |(start, duration)| start + duration)
    }

    /// The one that is presented at a time in seconds; the first or last where the time is before or behind all.
    #[must_use]
    pub fn at(&self, seconds: f64) -> usize {
        let group = self
            .groups
            .partition_point(|group| self.time(group.first).is_some_and(|(start, _)| start <= seconds));
        let group = group.saturating_sub(1);
        let bound = |place: usize| self.groups.get(place).map_or(self.entries.len(), |group| group.first);
        let (first, end) = (bound(group), bound(group.saturating_add(1)));
        let (Some(common), Some(entries)) = (self.groups.get(group), self.entries.get(first..end)) else {
            return 0;
        };
        let behind = entries.partition_point(|entry| common.start + common.seconds(entry.start) <= seconds);
        first.saturating_add(behind).saturating_sub(1).max(first)
    }
}
