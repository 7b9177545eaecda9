//! Exact sizes of a track's segments, and the bit rates that manifests state. O(samples), at some
//! nanoseconds each: tables are read by columns. The origin caches manifests.

mod beside;
mod estimate;

pub(crate) use beside::SizesBeside;

use crate::{
    carry::Protocol,
    peak::highest_run,
    protection::Cover,
    segment::{
        MAX_SAMPLES, PackedTracks, cmaf, f4f,
        iframes::{self, IFrame},
        smooth, text, ts,
    },
};
use latemux_index::{
    Title, Track,
    media::{Samples, TrackKind},
    table::{
        batches::{SampleBatch, SampleBatches},
        samples::SampleTable,
    },
    title::{Segment, TitleTrack},
};
use std::{borrow::Cow, rc::Rc};

/// Returns the bytes of every segment of a track (an index into [`Title::tracks`]) in a protocol,
/// as sent alone: in TS with PAT and PMT. Empty if there is no such track.
///
/// If only the fragments of a track are known, the sizes are upper estimates: their source bytes
/// plus the container's overhead. Fragments with several tracks are shared out by the rates in
/// three of them.
pub fn segment_sizes(title: &Title, track: usize, protocol: Protocol) -> Vec<u64> {
    muxed_sizes(title, &[track], protocol)
}

/// Returns the bytes of every segment of tracks packed together ([`PackedTracks`]), as sent. For
/// CMAF, counts what a player fetches of all tracks for one segment of the lead.
pub fn muxed_sizes(title: &Title, tracks: &[usize], protocol: Protocol) -> Vec<u64> {
    PackedTracks::new(title, tracks).map(|packed| packed_sizes(title, &packed, protocol)).unwrap_or_default()
}

/// Returns the bytes of every segment of tracks packed together, like [`muxed_sizes`].
pub(crate) fn packed_sizes(title: &Title, packed: &PackedTracks<'_>, protocol: Protocol) -> Vec<u64> {
    sizes_of_shares(title, packed, protocol, |track| share_sizes(title, packed, track, protocol).into())
}

/// Returns [`packed_sizes`]. `share` returns the [`share_sizes`] of a track.
fn sizes_of_shares(
    title: &Title,
    packed: &PackedTracks<'_>,
    protocol: Protocol,
    share: impl Fn(usize) -> Rc<[u64]>,
) -> Vec<u64> {
    let mut sizes: Vec<u64> = packed.numbers().map(|_| container_bytes(protocol)).collect();
    for track in packed.tracks() {
        for (sum, size) in sizes.iter_mut().zip(&*share(track)) {
            *sum += *size;
        }
    }
    if let Some(last) = sizes.last_mut() {
        *last += tail_bytes(title, packed, protocol);
    }
    sizes
}

/// Returns the bytes that the last segment of tracks packed together has more than the tracks alone
/// ([`ts::tail_bytes`]).
pub(crate) fn tail_bytes(title: &Title, packed: &PackedTracks<'_>, protocol: Protocol) -> u64 {
    if protocol != Protocol::HlsTs || packed.tracks().count() < 2 {
        return 0;
    }
    let Some(number) = packed.numbers().last() else { return 0 };
    let of_kind = |kind| {
        let named = |&i: &usize| title.track(&title.tracks()[i]);
        let found = packed.tracks().find(|i| named(i).kind == kind)?;
        Some((named(&found), packed.share(found, number)?))
    };
    match (of_kind(TrackKind::Video), of_kind(TrackKind::Audio)) {
        (Some((video, picture)), Some((audio, sound))) => ts::tail_bytes((video, &picture), (audio, &sound)),
        _ => 0,
    }
}

/// Returns the bytes of every I-frame of a track that manifests list, as sent alone; at least as
/// many if only the fragments of the track are known.
pub fn iframe_sizes(title: &Title, track: usize, protocol: Protocol) -> Vec<u64> {
    segment_and_iframe_sizes(title, track, protocol, &iframes::of_track(title, track)).1
}

/// Returns both [`segment_sizes`], and the sizes of I-frames that [`iframes::of_track`] returned,
/// at little more than the cost of the former.
pub(crate) fn segment_and_iframe_sizes(
    title: &Title,
    track: usize,
    protocol: Protocol,
    frames: &[IFrame],
) -> (Vec<u64>, Vec<u64>) {
    let Some(title_track) = title.tracks().get(track) else { return (Vec::new(), Vec::new()) };
    let of_title = title.track(title_track);
    let starts_segments = frames.len() == title_track.grid_segments.len();
    // Of I-frames inside a segment it is not known that they have composition offsets.
    let size = if starts_segments {
        StretchSize::new(title, title_track, protocol)
    } else {
        StretchSize::of_any(of_title, protocol)
    };
    let (Samples::Table(table), Some(size), false) = (&of_title.samples, size, frames.is_empty()) else {
        let alone = sizes_alone(title, track, protocol, &iframes::as_segments(title_track, frames));
        return (segment_sizes(title, track, protocol), alone);
    };
    let container = container_bytes(protocol);
    let mut whole = Vec::with_capacity(title_track.cuts.len());
    let mut alone = Vec::with_capacity(frames.len());
    let mut frames = frames.iter().peekable();
    let mut stretches = size.batches(table, &title_track.cuts);
    for cut in title_track.cuts.windows(2) {
        let (&[start, end], Some(stretch)) = (cut, stretches.next_batch()) else { break };
        let bytes = container + (size.bytes)(&stretch);
        whole.push(bytes);
        let mut samples = stretch.one_by_one();
        while let Some(frame) = frames.next_if(|frame| frame.index < end) {
            let at = frame.index.saturating_sub(start) as usize;
            // A segment of one sample is its I-frame.
            let is_whole = stretch.sizes.len() == 1 && at == 0;
            alone.push(if is_whole { bytes } else { container + (size.bytes)(&samples.get(at)) });
        }
    }
    (whole, alone)
}

/// Returns the bytes of I-frames that are sent alone, see [`iframes::as_segments`].
pub(crate) fn sizes_alone(title: &Title, track: usize, protocol: Protocol, frames: &[Segment]) -> Vec<u64> {
    let Some(title_track) = title.tracks().get(track) else { return Vec::new() };
    let of_title = title.track(title_track);
    let container = container_bytes(protocol);
    if let Samples::Table(table) = &of_title.samples
        && let Some(size) = StretchSize::of_any(of_title, protocol)
    {
        let first = frames.first().map_or(0, |frame| frame.cut.start);
        let Some(mut samples) = table.singles_from(first) else { return Vec::new() };
        let sample = |frame: &Segment| Some(container + (size.bytes)(&samples.get(frame.cut.start)?));
        return frames.iter().map_while(sample).collect();
    }
    frames.iter().map(|frame| share_size(title, track, frame, protocol) + container).collect()
}

/// Returns the bytes of a track's share of every segment, without [`container_bytes`].
fn share_sizes(title: &Title, packed: &PackedTracks<'_>, track: usize, protocol: Protocol) -> Vec<u64> {
    let of_title = &title.tracks()[track];
    let is_text = title.track(of_title).kind == TrackKind::Text;
    if let Samples::Table(table) = &title.track(of_title).samples
        && let Some(size) = StretchSize::new(title, of_title, protocol)
        && let Some(cuts) = cuts_of_shares(packed, track)
    {
        let mut sizes = Vec::with_capacity(cuts.len());
        let mut stretches = size.batches(table, &cuts);
        for number in packed.numbers() {
            let Some(stretch) = stretches.next_batch() else { break };
            // A segment of text without samples is sent as a file without cues.
            let is_empty = stretch.sizes.is_empty() && !(is_text && packed.share(track, number).is_some());
            sizes.push(if is_empty { 0 } else { (size.bytes)(&stretch) });
        }
        return sizes;
    }
    let shares = packed.numbers().map(|number| packed.share(track, number));
    shares.map(|share| share.map_or(0, |share| share_size(title, track, &share, protocol))).collect()
}

/// Computes the bytes of a stretch of samples at once. The result equals that of [`share_size`].
struct StretchSize<'a> {
    bytes: Box<dyn Fn(&SampleBatch<'_>) -> u64 + 'a>,
    /// True if the size depends on composition offsets.
    compositions: bool,
}

impl<'a> StretchSize<'a> {
    fn new(title: &'a Title, title_track: &TitleTrack, protocol: Protocol) -> Option<Self> {
        let track = title.track(title_track);
        match protocol {
            _ if track.kind == TrackKind::Text => Self::of_any(track, protocol),
            Protocol::Dash | Protocol::HlsCmaf => {
                let composed = title_track.starts_composed(track);
                let bytes = Box::new(move |stretch: &SampleBatch<'_>| cmaf::stretch_bytes(stretch, composed));
                Some(Self { bytes, compositions: !composed })
            }
            _ => Self::of_any(track, protocol),
        }
    }

    /// Like [`Self::new`], for stretches that begin anywhere.
    fn of_any(track: &'a Track, protocol: Protocol) -> Option<Self> {
        match protocol {
            Protocol::Smooth => None,
            _ if track.kind == TrackKind::Text => Some(Self {
                bytes: Box::new(move |stretch| text_bytes(track, stretch, protocol)),
                compositions: true,
            }),
            Protocol::Dash | Protocol::HlsCmaf => Some(Self {
                bytes: Box::new(|stretch: &SampleBatch<'_>| cmaf::stretch_bytes(stretch, false)),
                compositions: true,
            }),
            Protocol::HlsTs => Some(Self { bytes: Box::new(ts::stretch_bytes(track)), compositions: true }),
            Protocol::Hds => Some(Self { bytes: Box::new(f4f::stretch_bytes(track)), compositions: false }),
        }
    }

    /// Iterates over the stretches between cuts, with the columns that the size depends on.
    fn batches<'b>(&self, table: &'b SampleTable, cuts: &'b [u32]) -> SampleBatches<'b> {
        let batches = table.batches(cuts);
        if self.compositions { batches } else { batches.without_compositions() }
    }
}

/// Returns the shares of a track as consecutive cuts, with empty ones for missing shares. `None` if
/// the first share is missing or the shares do not follow one another.
fn cuts_of_shares<'a>(packed: &PackedTracks<'a>, track: usize) -> Option<Cow<'a, [u32]>> {
    if let Some(cuts) = packed.own_cuts(track) {
        return Some(Cow::Borrowed(cuts));
    }
    let mut cuts: Vec<u32> = Vec::new();
    for number in packed.numbers() {
        match (cuts.last(), packed.share(track, number)) {
            (None, Some(share)) => cuts.extend([share.cut.start, share.cut.end]),
            (Some(&last), Some(share)) if share.cut.start == last => cuts.push(share.cut.end),
            (Some(&last), None) => cuts.push(last),
            _ => return None,
        }
    }
    Some(Cow::Owned(cuts))
}

/// Returns the bytes of a segment that belong to no track.
fn container_bytes(protocol: Protocol) -> u64 {
    match protocol {
        Protocol::HlsTs => ts::PSI_BYTES,
        Protocol::Hds => f4f::FRAGMENT_BYTES,
        Protocol::Dash | Protocol::HlsCmaf | Protocol::Smooth => 0,
    }
}

/// Returns the bytes that the samples of `segment.cut` take, without [`container_bytes`].
fn share_size(title: &Title, index: usize, segment: &Segment, protocol: Protocol) -> u64 {
    let title_track = &title.tracks()[index];
    let track = title.track(title_track);
    if track.kind == TrackKind::Text {
        return text_size(title, index, segment, protocol);
    }
    match (&track.samples, protocol) {
        (Samples::Table(table), Protocol::Dash | Protocol::HlsCmaf) => {
            cmaf::segment_bytes(table.range(segment.cut.clone()))
        }
        (Samples::Table(table), Protocol::HlsTs) => ts::ts_bytes(track, table.range(segment.cut.clone())),
        (Samples::Table(table), Protocol::Hds) => f4f::track_bytes(track, table.range(segment.cut.clone())),
        (Samples::Table(table), Protocol::Smooth) => {
            let samples: Vec<_> = table.range(segment.cut.clone()).take(MAX_SAMPLES).collect();
            smooth::fragment_bytes(&smooth::clock(title), index, segment, &samples)
        }
        (Samples::Fragments(fragments), _) => {
            estimate::share_size(&title.objects()[title_track.object], track, fragments, segment, protocol)
        }
    }
}

/// Computes [`text_size`] of a stretch of samples at once.
fn text_bytes(track: &Track, stretch: &SampleBatch<'_>, protocol: Protocol) -> u64 {
    let sizes = stretch.sizes.iter().take(MAX_SAMPLES);
    let samples = sizes.len() as u64;
    let bytes = sizes.map(|&size| u64::from(size)).sum();
    match protocol {
        Protocol::HlsTs => text::webvtt_bytes(track, samples, bytes),
        Protocol::Dash | Protocol::HlsCmaf => {
            cmaf::stretch_bytes(stretch, false) + text::added_bytes(track, samples, bytes)
        }
        Protocol::Smooth | Protocol::Hds => bytes,
    }
}

/// Returns at least the bytes of a segment of text, which may be sent in another form.
fn text_size(title: &Title, index: usize, segment: &Segment, protocol: Protocol) -> u64 {
    let title_track = &title.tracks()[index];
    let track = title.track(title_track);
    let (samples, bytes) = match &track.samples {
        Samples::Table(table) => {
            let sizes = table.range(segment.cut.clone()).take(MAX_SAMPLES).map(|sample| sample.size);
            sizes.fold((0, 0), |(samples, bytes), size| (samples + 1, bytes + u64::from(size)))
        }
        Samples::Fragments(fragments) => {
            let object = &title.objects()[title_track.object];
            (1, estimate::share_size(object, track, fragments, segment, Protocol::Dash))
        }
    };
    match (protocol, &track.samples) {
        (Protocol::HlsTs, _) => text::webvtt_bytes(track, samples, bytes),
        (Protocol::Dash | Protocol::HlsCmaf, Samples::Table(table)) => {
            let stored = cmaf::segment_bytes(table.range(segment.cut.clone()));
            stored + text::added_bytes(track, samples, bytes)
        }
        (Protocol::Smooth, _) if text::is_made_for_smooth(track) => text::ttml_bytes(samples, bytes),
        (Protocol::Smooth, Samples::Table(table)) => {
            let samples: Vec<_> = table.range(segment.cut.clone()).take(MAX_SAMPLES).collect();
            smooth::fragment_bytes(&smooth::clock(title), index, segment, &samples)
        }
        _ => bytes,
    }
}

/// Bit rates in bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bitrate {
    /// Highest rate of any run of segments that lasts between half and one and a half times the
    /// target duration, rounded up, and at least the average. The target duration is the longest
    /// segment's in whole seconds. This is `BANDWIDTH` (RFC 8216 §4.3.4.2 and §1, "peak segment
    /// bit rate" of RFC 8216bis §4.4.6.2) and `@bandwidth`. A last segment of a few frames does
    /// not determine it.
    pub peak: u64,
    /// All bytes over the whole duration, rounded up: `AVERAGE-BANDWIDTH`.
    pub average: u64,
}

/// Size and duration of one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentSize {
    /// Size in bytes.
    pub bytes: u64,
    /// Duration in ticks. 0 counts as 1.
    pub duration: u64,
}

impl Bitrate {
    /// Returns the bit rates of consecutive segments with durations in ticks; zeros for none.
    pub fn of(segments: &[SegmentSize], timescale: u32) -> Self {
        Self::of_playlist(segments, timescale, 0)
    }

    /// Returns the bit rates of a playlist. Its target duration is at least `least_target` seconds.
    pub(crate) fn of_playlist(segments: &[SegmentSize], timescale: u32, least_target: u64) -> Self {
        let timescale = u128::from(timescale);
        let rate = |bytes: u128, ticks: u128| {
            let bits_per_second = (bytes * 8 * timescale).div_ceil(ticks.max(1));
            u64::try_from(bits_per_second).unwrap_or(u64::MAX)
        };
        let longest = segments.iter().map(|s| u128::from(s.duration)).max().unwrap_or(0);
        // EXT-X-TARGETDURATION: rounded to whole seconds (RFC 8216bis §4.4.3.1), in ticks.
        let target =
            ((2 * longest + timescale) / (2 * timescale)).max(least_target.into()).max(1) * timescale;
        let (bytes, ticks) = total(segments);
        let average = rate(bytes, ticks);
        // A title shorter than half a target has no such run.
        let peak = highest_run(segments, target).map_or(0, |run| rate(run.bytes.into(), run.ticks.into()));
        Self { peak: peak.max(average), average }
    }

    /// Returns the bit rates of tracks packed together, or fetched together ([`muxed_sizes`]).
    pub fn of_tracks(title: &Title, tracks: &[usize], protocol: Protocol) -> Self {
        let (segments, timescale) = sized_segments(title, tracks, protocol);
        Self::of(&segments, timescale)
    }
}

/// Returns the segments of tracks packed together, and the ticks per second of their durations.
pub(crate) fn sized_segments(title: &Title, tracks: &[usize], protocol: Protocol) -> (Vec<SegmentSize>, u32) {
    sized_encrypted(title, tracks, protocol, None)
}

/// Returns [`sized_segments`] of one track with a cover.
pub(crate) fn sized_encrypted(
    title: &Title,
    tracks: &[usize],
    protocol: Protocol,
    cover: Option<&Cover<'_>>,
) -> (Vec<SegmentSize>, u32) {
    let Some(packed) = PackedTracks::new(title, tracks) else { return (Vec::new(), 1) };
    let mut sizes = packed_sizes(title, &packed, protocol);
    if let (Some(cover), [track]) = (cover, tracks) {
        add_encryption(title, &packed, *track, cover, &mut sizes);
    }
    with_durations(title, &packed, sizes)
}

/// Returns segments of these sizes, and the ticks per second of their durations.
fn with_durations(title: &Title, packed: &PackedTracks<'_>, sizes: Vec<u64>) -> (Vec<SegmentSize>, u32) {
    let segments = packed
        .numbers()
        .zip(sizes)
        .map(|(number, bytes)| SegmentSize { bytes, duration: packed.duration(number) })
        .collect();
    (segments, title.track(packed.lead()).timescale.get())
}

/// Adds the bytes of encryption to the sizes of all segments of one track. Of fragments the number
/// of samples is not known, and nothing is added.
pub(crate) fn add_encryption(
    title: &Title,
    packed: &PackedTracks<'_>,
    track: usize,
    cover: &Cover<'_>,
    sizes: &mut [u64],
) {
    let of_title = title.track(&title.tracks()[track]);
    if !matches!(of_title.samples, Samples::Table(_)) {
        return;
    }
    let is_video = of_title.kind == TrackKind::Video;
    for (number, bytes) in packed.numbers().zip(sizes) {
        let samples = packed.share(track, number).map_or(0, |share| share.cut.len());
        *bytes += cover.added_bytes(is_video, samples as u64);
    }
}

/// Returns the least time in milliseconds, rounded up, that a client must buffer at `bandwidth`
/// bits per second so that every segment has arrived whole when its playback begins, whichever
/// segment the client starts with: `@minBufferTime` (ISO/IEC 23009-1 §5.3.1.2, §5.3.5.4).
pub(crate) fn min_buffer_millis(segments: &[SegmentSize], timescale: u32, bandwidth: u64) -> u64 {
    // In bits × ticks per second. A client that starts with segment j at time s_j has received
    // bandwidth × (buffer + s_k − s_j) bits at time s_k and needs those of segments j to k.
    let scale = i128::from(timescale);
    let rate = i128::from(bandwidth.max(1));
    let mut bits = 0_i128;
    let mut start = 0_i128;
    let mut least = i128::MAX;
    let mut buffer = 0_i128;
    for segment in segments {
        // Bits, scale and rate have at most 64, 32 and 64 bits, and times fewer than 63.
        let ahead = |bits: i128| bits * scale - start * rate;
        least = least.min(ahead(bits));
        let next = bits + i128::from(segment.bytes) * 8;
        buffer = buffer.max(ahead(next) - least);
        bits = next;
        start += i128::from(segment.duration.max(1));
    }
    let unit = rate * scale;
    u64::try_from((buffer * 1000 + unit - 1) / unit).unwrap_or(u64::MAX)
}

fn total(segments: &[SegmentSize]) -> (u128, u128) {
    segments.iter().fold((0, 0), |(bytes, ticks), s| {
        (bytes + u128::from(s.bytes), ticks + u128::from(s.duration.max(1)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segments(of: &[(u64, u64)]) -> Vec<SegmentSize> {
        of.iter().map(|&(bytes, duration)| SegmentSize { bytes, duration }).collect()
    }

    #[test]
    fn rates_are_rounded_up() {
        let s = segments(&[(1000, 4000), (2000, 4000), (1501, 4000)]);
        assert_eq!(Bitrate::of(&s, 1000), Bitrate { peak: 4000, average: 3001 });
        assert_eq!(Bitrate::of(&[], 1000), Bitrate { peak: 0, average: 0 });
    }

    #[test]
    fn a_short_last_segment_does_not_set_the_peak() {
        let s = segments(&[(1000, 4000), (1000, 4000), (500, 40)]);
        // 8 kbit over 4 s, or 12 kbit over 4.04 s with the tail. Alone, the tail would give 100
        // kbit/s.
        assert_eq!(Bitrate::of(&s, 1000).peak, (1500_u64 * 8 * 1000).div_ceil(4040));
        // If nothing is long enough, the whole title counts.
        assert_eq!(Bitrate::of(&segments(&[(500, 40)]), 1000).peak, 100_000);
    }

    #[test]
    fn the_buffer_is_the_smallest_that_suffices() {
        let s = segments(&[(1000, 4000), (2000, 4000), (1500, 4000), (900, 100)]);
        let rate = Bitrate::of(&s, 1000).peak;
        let enough = |millis: u64| {
            (0..s.len()).all(|j| {
                (j..s.len()).all(|k| {
                    let bits: u64 = s[j..=k].iter().map(|s| s.bytes * 8).sum();
                    let since: u64 = s[j..k].iter().map(|s| s.duration).sum();
                    u128::from(bits) * 1000 <= u128::from(rate) * u128::from(millis + since)
                })
            })
        };
        let buffer = min_buffer_millis(&s, 1000, rate);
        assert!(enough(buffer) && !enough(buffer - 1), "{buffer}");
    }
}

#[cfg(test)]
#[path = "sizes_tests.rs"]
mod columns;
