//! The content of a manifest, independent of the protocol: renditions, their segments, and the
//! address of each segment.

pub(crate) mod deferred;
pub(crate) mod template;

pub use deferred::Deferred;
use std::{fmt, sync::Arc};
use template::Template;
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
    /// Returns the name that reports use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hls => "hls",
            Self::Dash => "dash",
            Self::Smooth => "smooth",
            Self::Hds => "hds",
        }
    }
}

/// The container format of segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Container {
    /// ISO base media fragments, with an init segment.
    Cmaf,
    /// Fragments of Smooth Streaming, without an init segment.
    Smooth,
    /// MPEG-2 transport stream.
    Ts,
    /// HDS fragments: FLV tags in an `mdat`.
    F4f,
    /// WebVTT documents.
    WebVtt,
    /// TTML documents.
    Ttml,
    /// AAC in ADTS frames, or another elementary stream, with its time in an ID3 tag (RFC 8216
    /// §3.4).
    PackedAudio,
    /// Encrypted as a whole, or unknown. Only its length can be checked.
    Opaque,
}

/// The media of a rendition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum MediaKind {
    /// Video without audio.
    Video,
    /// Audio without video.
    Audio,
    /// Video and audio in the same segments.
    Muxed,
    /// Subtitles and captions.
    Text,
}

/// Bytes `first..=last` of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ByteRange {
    /// The first byte.
    pub first: u64,
    /// The last byte, which is not before the first.
    pub last: u64,
}

impl ByteRange {
    /// Returns the range of `length` bytes at `offset`; `None` if `length` is 0 or the last byte is
    /// beyond 64 bits.
    pub fn new(offset: u64, length: u64) -> Option<Self> {
        Some(Self { first: offset, last: offset.checked_add(length.checked_sub(1)?)? })
    }

    /// Reads `first-last`, as manifests write it; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        let (first, last) = text.trim().split_once('-')?;
        let range = Self { first: first.parse().ok()?, last: last.parse().ok()? };
        (range.first <= range.last).then_some(range)
    }

    /// Returns the number of bytes, which saturates at [`u64::MAX`].
    pub const fn length(self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }
}

impl fmt::Display for ByteRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.first, self.last)
    }
}

/// A resource to fetch.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Resource {
    /// Its address.
    pub url: Url,
    /// The bytes to request; `None` for all.
    pub range: Option<ByteRange>,
}

/// The content of a manifest.
#[derive(Debug, Clone)]
pub struct Presentation {
    /// The protocol of the manifest.
    pub protocol: Protocol,
    /// The sets that play together, one rendition of each set at a time. There is at least one set,
    /// and none is empty.
    pub sets: Vec<RenditionSet>,
}

/// Renditions of the same content, between which a player switches.
#[derive(Debug, Clone)]
pub struct RenditionSet {
    /// Their media.
    pub kind: MediaKind,
    /// The renditions, by rising bit rate.
    pub renditions: Vec<Rendition>,
}

impl RenditionSet {
    /// Returns the index of the highest rendition whose bit rate is at most `rate`, or of the
    /// lowest rendition if there is none.
    pub fn highest_within(&self, rate: u64) -> usize {
        self.renditions.partition_point(|rendition| rendition.bandwidth <= rate).saturating_sub(1)
    }
}

/// Reads a bit rate such as `800k`, `3M` or `2500000`. `min` is 0 and `max` is [`u64::MAX`].
///
/// # Errors
/// If the text has none of these forms, or the bit rate is negative or above 10^15.
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
    /// Its name in the manifest.
    pub name: String,
    /// Bits per second as the manifest states them; 0 if it does not.
    pub bandwidth: u64,
    /// Its segments.
    pub index: Index,
    /// Its coding, if the manifest states it instead of an init segment.
    pub coding: Option<Arc<DeclaredCoding>>,
}

/// The coding of a track as a Smooth Streaming manifest declares it ([MS-SSTR] 2.2.2.5). In other
/// protocols, the init segment states the coding.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeclaredCoding {
    /// The value of `FourCC`, in upper case.
    pub four_cc: String,
    /// The value of `CodecPrivateData`.
    pub private_data: Vec<u8>,
    /// Width and height in pixels; 0 for audio, or if the manifest omits them.
    pub size: (u16, u16),
    /// Audio samples per second; 0 for video.
    pub sampling_rate: u32,
    /// Audio channels.
    pub channels: u16,
    /// The language tag; empty if there is none.
    pub language: String,
}

/// The list of a rendition's segments, or the resource that holds it.
#[derive(Debug, Clone)]
pub enum Index {
    /// The manifest holds the list.
    Known(Arc<Segments>),
    /// Another resource holds the list: a media playlist, a `sidx`, or bootstrap information.
    Deferred(Arc<Deferred>),
    /// A list for each period, at least one of them deferred. None is itself joined.
    Joined(Arc<[Index]>),
}

impl Index {
    /// Returns the lists of all periods.
    pub fn periods(&self) -> &[Self] {
        match self {
            Self::Joined(periods) => periods,
            one => std::slice::from_ref(one),
        }
    }
}

/// The segments of a rendition.
#[derive(Debug, Clone)]
pub struct Segments {
    /// The segments in the order of play; never empty.
    pub entries: Vec<Segment>,
    /// The groups of consecutive segments with common properties. There is one group unless the
    /// rendition has several periods, discontinuities or init segments. The first group starts with
    /// the first entry.
    pub groups: Vec<SegmentGroup>,
}

/// Consecutive segments that share their addressing, timescale and init segment.
#[derive(Debug, Clone)]
pub struct SegmentGroup {
    /// The index of the first segment.
    pub first: usize,
    /// The number of the timeline. Times continue from one group to the next on the same timeline.
    pub timeline: u32,
    /// The presentation time, in seconds, from which the segments' times count: the start of a
    /// period.
    pub start: f64,
    /// The container of the segments.
    pub container: Container,
    /// The init segment of the segments.
    pub init: Option<Resource>,
    /// Ticks per second of the times of [`Segments::entries`]; not 0.
    pub timescale: u64,
    /// The media time at [`Self::start`], in ticks; `None` if the protocol does not state it, so
    /// that the first segment determines it.
    pub origin: Option<i64>,
    /// The maximum difference in seconds between the start of a segment and its time in the
    /// manifest.
    pub tolerance: f64,
    pub(crate) addresses: Addresses,
}

/// One segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// The start in ticks after [`SegmentGroup::start`]; negative if the segment begins before
    /// that.
    pub start: i64,
    /// The duration in ticks.
    pub duration: u64,
    /// The value of `$Number$`, or an index into a list of addresses.
    pub(crate) number: u64,
    /// The value of `$Time$`.
    pub(crate) time: u64,
    pub(crate) range: Option<ByteRange>,
}

/// The addresses of a group of segments.
#[derive(Debug, Clone)]
pub(crate) enum Addresses {
    /// Addresses that contain the number or time of the segment.
    Template { base: Url, media: Template },
    /// A list, into which [`Segment::number`] is an index.
    List(Vec<Arc<Url>>),
}

impl SegmentGroup {
    /// Makes a group that starts with the first segment at time 0, without an init segment. The
    /// first segment determines its origin.
    pub(crate) const fn new(
        container: Container,
        timescale: u64,
        tolerance: f64,
        addresses: Addresses,
    ) -> Self {
        let init = None;
        let origin = None;
        Self { first: 0, timeline: 0, start: 0.0, container, init, timescale, origin, tolerance, addresses }
    }

    /// Converts ticks to seconds.
    pub fn seconds(&self, ticks: i64) -> f64 {
        ticks as f64 / self.timescale as f64
    }
}

impl Segments {
    /// Makes segments of one group.
    pub(crate) fn uniform(group: SegmentGroup, entries: Vec<Segment>) -> Self {
        Self { entries, groups: vec![group] }
    }

    /// Joins the segments of consecutive periods. Each of several periods becomes a timeline.
    pub fn joined(mut periods: Vec<Arc<Self>>) -> Arc<Self> {
        if periods.len() == 1 {
            return periods.remove(0);
        }
        let mut joined = Self { entries: Vec::new(), groups: Vec::new() };
        for (timeline, period) in (0..).zip(periods) {
            let before = joined.entries.len();
            joined.entries.extend_from_slice(&period.entries);
            let later = |group: &SegmentGroup| SegmentGroup {
                first: group.first + before,
                timeline,
                ..group.clone()
            };
            joined.groups.extend(period.groups.iter().map(later));
        }
        Arc::new(joined)
    }

    /// Returns the index of the group that a segment belongs to.
    pub fn group_index(&self, index: usize) -> usize {
        self.groups.partition_point(|group| group.first <= index).saturating_sub(1)
    }

    /// Returns the group that a segment belongs to.
    pub fn group(&self, index: usize) -> Option<&SegmentGroup> {
        self.groups.get(self.group_index(index))
    }

    /// Returns the resource of a segment.
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

    /// Returns the start and the duration of a segment, in seconds of the presentation.
    pub fn time(&self, index: usize) -> Option<(f64, f64)> {
        let segment = self.entries.get(index)?;
        let group = self.group(index)?;
        let duration = group.seconds(i64::try_from(segment.duration).ok()?);
        Some((group.start + group.seconds(segment.start), duration))
    }

    /// Returns the end of the last segment, in seconds of the presentation.
    pub fn end(&self) -> f64 {
        self.time(self.entries.len().saturating_sub(1)).map_or(0.0, |(start, duration)| start + duration)
    }

    /// Returns the index of the segment at a presentation time in seconds: the first segment if the
    /// time is before all segments, and the last one if it is after them.
    pub fn at(&self, seconds: f64) -> usize {
        let group = self
            .groups
            .partition_point(|group| self.time(group.first).is_some_and(|(start, _)| start <= seconds));
        let group = group.saturating_sub(1);
        let bound = |place: usize| self.groups.get(place).map_or(self.entries.len(), |group| group.first);
        let first = bound(group);
        let end = bound(group + 1);
        let (Some(common), Some(entries)) = (self.groups.get(group), self.entries.get(first..end)) else {
            return 0;
        };
        let behind = entries.partition_point(|entry| common.start + common.seconds(entry.start) <= seconds);
        first + behind.saturating_sub(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Segments of 2 s from the start of a group on, in milliseconds.
    fn segments(starts: &[i64], group_start: f64) -> Segments {
        let url = Arc::new(Url::parse("http://a/b").unwrap());
        let group = SegmentGroup::new(Container::Cmaf, 1000, 0.1, Addresses::List(vec![url]));
        let group = SegmentGroup { start: group_start, ..group };
        let segment =
            |start: &i64| Segment { start: *start, duration: 2000, number: 0, time: 0, range: None };
        Segments::uniform(group, starts.iter().map(segment).collect())
    }

    #[test]
    fn byte_ranges_include_their_ends() {
        assert_eq!(ByteRange::new(5, 3), Some(ByteRange { first: 5, last: 7 }));
        assert_eq!((ByteRange::new(5, 0), ByteRange::new(u64::MAX, 2)), (None, None));
        let range = ByteRange::parse(" 5-7 ").unwrap();
        assert_eq!((range.length(), range.to_string().as_str()), (3, "5-7"));
        assert_eq!(ByteRange { first: 0, last: u64::MAX }.length(), u64::MAX, "saturates");
        for wrong in ["", "5", "7-5", "-5", "5-", "a-b", "5-7-9"] {
            assert_eq!(ByteRange::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn bit_rates_have_units() {
        for (text, rate) in [
            ("min", 0),
            ("max", u64::MAX),
            ("800k", 800_000),
            ("2.5M", 2_500_000),
            ("64000", 64_000),
            ("0", 0),
        ] {
            assert_eq!(parse_bit_rate(text), Ok(rate), "{text}");
        }
        for wrong in ["", "k", "fast", "-1", "NaN", "inf", "1e99", "1G", "800 k"] {
            assert!(parse_bit_rate(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_highest_rendition_within_a_rate_is_chosen() {
        let index = Index::Known(Arc::new(segments(&[0], 0.0)));
        let rendition =
            |bandwidth| Rendition { name: String::new(), bandwidth, index: index.clone(), coding: None };
        let set = |rates: &[u64]| RenditionSet {
            kind: MediaKind::Video,
            renditions: rates.iter().map(|rate| rendition(*rate)).collect(),
        };
        let ladder = set(&[100, 200, 200, 300]);
        let chosen = [0, 99, 100, 199, 200, 299, u64::MAX].map(|rate| ladder.highest_within(rate));
        assert_eq!(chosen, [0, 0, 0, 0, 2, 2, 3]);
        assert_eq!(set(&[0, 0]).highest_within(0), 1, "rates that are not stated");
    }

    #[test]
    fn segments_are_found_by_time() {
        // A gap of 1 s between the second and the third.
        let segments = segments(&[0, 2000, 5000], 10.0);
        let at = [0.0, 10.0, 11.999, 12.0, 14.5, 15.0, 99.0].map(|seconds| segments.at(seconds));
        assert_eq!(at, [0, 0, 0, 1, 1, 2, 2]);
        assert_eq!((segments.time(2), segments.end()), (Some((15.0, 2.0)), 17.0));
        assert_eq!((segments.time(3), segments.resource(3)), (None, None));
    }

    #[test]
    fn joined_periods_are_timelines() {
        let periods = [segments(&[0, 2000], 0.0), segments(&[0], 4.0), segments(&[0, 2000], 6.0)];
        let joined = Segments::joined(periods.map(Arc::new).to_vec());
        let groups: Vec<(usize, u32)> =
            joined.groups.iter().map(|group| (group.first, group.timeline)).collect();
        assert_eq!(groups, [(0, 0), (2, 1), (3, 2)]);
        assert_eq!([0, 1, 2, 3, 4].map(|index| joined.group_index(index)), [0, 0, 1, 2, 2]);
        let starts: Vec<f64> = (0..5).map(|index| joined.time(index).unwrap().0).collect();
        assert_eq!(starts, [0.0, 2.0, 4.0, 6.0, 8.0]);
        assert_eq!([3.9, 4.0, 5.9, 6.0, 8.0].map(|seconds| joined.at(seconds)), [1, 2, 2, 3, 4]);
    }
}
