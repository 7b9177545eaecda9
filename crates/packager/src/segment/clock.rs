//! Time in protocols whose segments carry no edit list: Smooth Streaming and HDS.
//!
//! There, decode times below 0 cannot be said, and players take the time a manifest gives for a segment as the decode time of its first
//! sample, whatever is in the segment. Therefore, in ticks of the protocol:
//!
//! - everything is presented later than in other protocols by one *delay*, the same for all tracks of a title, the least that lets every track
//!   begin at 0 or later: what played together still does;
//! - a segment's time is that of its first sample's decoding. Video is decoded by one *reorder* time before it is presented, the longest any of
//!   the title's renditions needs, so that their segments have the same times although their B-frames differ;
//! - times are rounded down from the exact ones, each by itself, and durations are differences of times: nothing drifts.
//!
//! Where samples are not all known from the index (fragments), the reorder time is that of the fragments looked into when it was made.
//! Should a sample need more, its composition offset is negative.
//!
//! A source of Smooth Streaming in ticks of 100 ns was on such a clock before (`pack` writes such files): the delay its edit list
//! says is kept, and how its frames are reordered, so that the same fragments come out of it, whichever of its tracks are left.

use crate::carry::{Protocol, carries};
use latemux_index::{
    Sample, Title, Track,
    media::{Samples, TrackKind},
    title::{Segment, TitleTrack},
};
use latemux_isobmff::{Time, Timescale, time::Round};
use std::ops::Range;

/// A guess of the reorder time that is longer than this is none: the fragments do not begin at 0.
const LONGEST_GUESS: Time = Time::new(1000, Timescale::MILLIS);

/// When segments and samples of a title are, in ticks of a protocol.
#[derive(Debug)]
pub struct Clock<'a> {
    title: &'a Title,
    scale: Timescale,
    delay: i64,
    reorder: i64,
}

/// When a sample is decoded and presented.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// Decode time, ≥ 0 where the source's tables are sound.
    pub decode: i64,
    /// Presentation time less decode time.
    pub composition_offset: i32,
    /// Up to the next sample's decode time; of a segment's last sample up to the next segment.
    pub duration: u32,
}

impl<'a> Clock<'a> {
    /// The clock of a title's tracks that a protocol carries, whatever is selected of them. O(tracks).
    #[must_use]
    pub fn new(title: &'a Title, protocol: Protocol, scale: Timescale) -> Self {
        let tracks = || title.whole_tracks().filter(|track| carries(protocol, track).is_ok());
        let video = tracks().filter(|t| t.kind == TrackKind::Video);
        // Of HDS there are no files, and milliseconds are anybody's ticks.
        let is_packed = |track: &Track| protocol == Protocol::Smooth && track.timescale == scale;
        let reorder = video.map(|track| reorder(track, is_packed(track)).in_scale(scale, Round::Up));
        let mut clock = Self { title, scale, delay: 0, reorder: reorder.max().unwrap_or(0) };
        let earliest = tracks().map(|track| clock.first_decoded(track)).min().unwrap_or(0);
        let packed = tracks().filter(|track| is_packed(track));
        let kept = packed.map(|track| track.presentation.media_time).max().unwrap_or(0);
        clock.delay = earliest.min(0).saturating_neg().max(kept);
        clock
    }

    /// Whose clock it is.
    #[must_use]
    pub fn title(&self) -> &'a Title {
        self.title
    }

    /// How much later than its presentation time in other protocols everything is presented; ≥ 0.
    #[must_use]
    pub fn delay(&self) -> u64 {
        u64::try_from(self.delay).unwrap_or(0)
    }

    /// When segments of a track begin, and when the last one ends: one more than there are segments, ascending. The last one lasts until
    /// its last sample has been presented. Empty where there is no such track (index into [`Title::tracks`]).
    #[must_use]
    pub fn boundaries(&self, track: usize) -> Vec<i64> {
        let numbers = self.title.tracks().get(track).map_or(0..0, TitleTrack::numbers);
        (numbers.start..=numbers.end).filter_map(|number| self.boundary(track, number)).collect()
    }

    /// When a segment (0-based in the whole title) of a track begins; with the number after the last one, when that ends.
    #[must_use]
    pub fn boundary(&self, track: usize, number: u32) -> Option<i64> {
        let title_track = self.title.tracks().get(track)?;
        let track = self.title.track(title_track);
        let position = title_track.position(number)?;
        let cut = *title_track.cuts.get(position)?;
        if number == title_track.numbers().end && cut == sample_count(track) {
            return Some(self.presented(track, *title_track.times.get(position)?));
        }
        // A clip ends where what is left out would begin.
        let ticks = if cut == 0 { first_presented(track) } else { *title_track.times.get(position)? };
        Some(self.decoded(track, ticks))
    }

    /// The segment (0-based) of a track that begins at `time`. O(log n).
    #[must_use]
    pub fn segment_at(&self, track: usize, time: i64) -> Option<u32> {
        let Range { start: mut low, end } = self.title.tracks().get(track)?.numbers();
        let mut high = end;
        while low < high {
            let middle = low + (high - low) / 2;
            if self.boundary(track, middle)? < time { low = middle + 1 } else { high = middle }
        }
        (low < end && self.boundary(track, low) == Some(time)).then_some(low)
    }

    /// Stamps of the samples of a segment of a track: of one of its own, or of several joined.
    #[must_use]
    pub fn stamps(&self, track: usize, segment: &Segment, samples: &[Sample]) -> Vec<Stamp> {
        let Some((title_track, first)) = self.title.tracks().get(track).zip(samples.first()) else {
            return Vec::new();
        };
        let next = title_track.cuts.partition_point(|&cut| cut < segment.cut.end);
        let next = u32::try_from(next).ok().and_then(|next| title_track.first.checked_add(next));
        let next = next.and_then(|next| self.boundary(track, next));
        let track = self.title.track(title_track);
        // What is presented behind the last sample has no part in when that is decoded.
        let next = next.filter(|_| segment.cut.end < sample_count(track));
        let start = if segment.cut.start == 0 { first_presented(track) } else { segment.start };
        let decode =
            |time: i64| self.decoded(track, start.saturating_add(time.saturating_sub(first.decode_time)));
        let end = |sample: &Sample| sample.decode_time.saturating_add(sample.duration.into());
        samples
            .iter()
            .enumerate()
            .map(|(i, sample)| {
                let at = decode(sample.decode_time);
                let until = match samples.get(i + 1) {
                    Some(after) => decode(after.decode_time),
                    None => next.filter(|&next| next > at).unwrap_or_else(|| decode(end(sample))),
                };
                let composition_offset = match track.kind {
                    TrackKind::Video => {
                        let ticks = track.presentation.time(sample.decode_time, sample.composition_offset);
                        self.presented(track, ticks).saturating_sub(at)
                    }
                    // Not reordered: whatever the index says of the segment's time, there is none but that.
                    TrackKind::Audio | TrackKind::Text => self.floor(track, sample.composition_offset.into()),
                };
                Stamp {
                    decode: at,
                    composition_offset: clamped(composition_offset),
                    duration: u32::try_from(until.saturating_sub(at).max(0)).unwrap_or(u32::MAX),
                }
            })
            .collect()
    }

    /// The protocol's time for a presentation time in track ticks.
    fn presented(&self, track: &Track, ticks: i64) -> i64 {
        self.floor(track, ticks).saturating_add(self.delay)
    }

    /// When something is decoded that is presented at `ticks` and not reordered.
    fn decoded(&self, track: &Track, ticks: i64) -> i64 {
        let reorder = if track.kind == TrackKind::Video { self.reorder } else { 0 };
        self.presented(track, ticks).saturating_sub(reorder)
    }

    fn first_decoded(&self, track: &Track) -> i64 {
        self.decoded(track, first_presented(track))
    }

    fn floor(&self, track: &Track, ticks: i64) -> i64 {
        Time::new(ticks, track.timescale).in_scale(self.scale, Round::Down)
    }
}

/// Samples of a track, or fragments where only those are known.
fn sample_count(track: &Track) -> u32 {
    match &track.samples {
        Samples::Table(table) => table.len(),
        Samples::Fragments(table) => table.len(),
    }
}

/// The nearest number of 32 bits.
fn clamped(ticks: i64) -> i32 {
    i32::try_from(ticks).unwrap_or(if ticks < 0 { i32::MIN } else { i32::MAX })
}

/// Presentation time of the first sample in decode order, in track ticks; unlike [`Track::start`] it may be negative: priming, or what an
/// edit list hides.
fn first_presented(track: &Track) -> i64 {
    let first = match &track.samples {
        Samples::Table(table) => {
            table.get(0).map(|s| track.presentation.time(s.decode_time, s.composition_offset))
        }
        Samples::Fragments(table) => table.start(0),
    };
    first.unwrap_or(track.start)
}

/// How long before its presentation the first sample must be decoded, so that none is decoded after it; of a track that was packed as it
/// is, how long that is.
fn reorder(track: &Track, is_packed: bool) -> Time {
    let ticks = match &track.samples {
        Samples::Table(table) => {
            let first = table.get(0).map_or(0, |sample| sample.composition_offset);
            let least = if is_packed { 0 } else { table.composition_bounds().0 };
            i64::from(first).saturating_sub(least.into())
        }
        Samples::Fragments(table) if is_packed => table.first_offset().into(),
        // Decoding starts at 0 in files of their own: then it is at least the first one's composition offset.
        Samples::Fragments(table) => {
            let composed = table.start(0).unwrap_or(0).saturating_add(track.presentation.media_time);
            let guess = if Time::new(composed, track.timescale) > LONGEST_GUESS { 0 } else { composed };
            guess.max(table.reorder().into())
        }
    };
    Time::new(ticks.max(0), track.timescale)
}
