//! Time in protocols whose segments carry no edit list: Smooth Streaming and HDS.
//!
//! In these protocols, decode times cannot be negative. Players take the time of a segment in the
//! manifest for the decode time of its first sample. Therefore, in ticks of the protocol:
//!
//! - Everything is presented later than in other protocols by one *delay*, the same for all tracks
//!   of a title: the smallest one that lets every track begin at 0 or later.
//! - A segment's time is the decode time of its first sample. Video is decoded before it is
//!   presented by one *reorder* time, the longest that any of the title's renditions needs. Their
//!   segments thus have the same times although their B-frames differ.
//! - Where the frame rate varies, so does the time that a source reorders frames by. A segment
//!   whose samples would then be decoded beyond the start of the next one is decoded faster.
//! - A title or clip that starts later than 0 is moved to start at 0, because players take the
//!   duration in a manifest for the end of the last segment.
//! - Times are rounded down, each by itself, and durations are their differences: nothing drifts.
//!
//! If the index does not hold all samples (fragments), the reorder time is that of the fragments
//! that were read when the index was made. A sample that needs more has a negative composition
//! offset.
//!
//! A Smooth Streaming source in ticks of 100 ns was on such a clock before (`pack` writes such
//! files). The delay in its edit list and its reordering of frames are kept, so that packing it
//! again gives the same fragments, whichever of its tracks remain.

use crate::carry::{Protocol, carries};
use latemux_index::{
    Sample, Title, Track,
    media::{Samples, TrackKind},
    title::{Segment, TitleTrack},
};
use latemux_isobmff::{Time, Timescale, time::Round};
use std::ops::Range;

/// A longer guess of the reorder time is discarded: it means that the fragments do not begin at 0.
const LONGEST_GUESS: Time = Time::new(1000, Timescale::MILLIS);

/// The times of a title's segments and samples, in ticks of a protocol.
#[derive(Debug)]
pub struct Clock<'a> {
    title: &'a Title,
    scale: Timescale,
    delay: i64,
    reorder: i64,
    /// Subtracted from all times: 0, or nearly the start of the presentation.
    origin: i64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SampleTiming {
    /// Decode time, ≥ 0 if the source's tables are correct.
    pub decode: i64,
    /// Presentation time minus decode time.
    pub composition_offset: i32,
    /// Time to the next sample's decode time, or from a segment's last sample to the next segment.
    pub duration: u32,
}

impl<'a> Clock<'a> {
    /// Creates the clock of all tracks that a protocol carries, selected or not. O(tracks).
    pub(crate) fn new(title: &'a Title, protocol: Protocol, scale: Timescale) -> Self {
        let tracks = || {
            let tracks = title.whole_tracks().map(|title_track| (title_track, title.track(title_track)));
            tracks.filter(|(_, track)| carries(protocol, track).is_ok())
        };
        // HDS has no files, and ticks of a millisecond are common in other sources.
        let is_packed = |track: &Track| protocol == Protocol::Smooth && track.timescale == scale;
        let reorders =
            tracks().filter(|(_, track)| track.kind == TrackKind::Video).map(|(title_track, track)| {
                reorder(track, title_track.reorder, is_packed(track)).in_scale(scale, Round::Up)
            });
        let reorder = reorders.max().unwrap_or(0);
        let mut clock = Self { title, scale, delay: 0, reorder, origin: 0 };
        let earliest =
            tracks().map(|(_, track)| clock.decoded(track, first_presented(track))).min().unwrap_or(0);
        let packed = tracks().filter(|(_, track)| is_packed(track));
        let edited = |track: &Track| track.presentation.media_time - track.presentation.shift.min(0);
        let kept = packed.map(|(_, track)| edited(track)).max();
        clock.delay = (-earliest.min(0)).max(kept.unwrap_or(0));
        let is_clip = title.grid().starts.first() != Some(&title.start());
        if kept.is_none() || is_clip {
            // Video at the start is decoded at 0 or later, even if it is reordered by more than the
            // delay.
            let early = (clock.reorder - clock.delay).max(0);
            clock.origin = (title.start().in_scale(scale, Round::Down) - early).max(0);
        }
        clock
    }

    pub(crate) fn title(&self) -> &'a Title {
        self.title
    }

    /// Returns the delay: how much later than in other protocols everything is presented; ≥ 0.
    pub(crate) fn delay(&self) -> u64 {
        u64::try_from(self.delay).unwrap_or(0)
    }

    /// Returns the start of each segment of a track and the end of the last one, ascending: one
    /// more than there are segments. The last segment ends when its last sample has been presented.
    /// Empty if there is no such track (an index into [`Title::tracks`]).
    pub(crate) fn boundaries(&self, track: usize) -> Vec<i64> {
        let numbers = self.title.tracks().get(track).map_or(0..0, TitleTrack::numbers);
        (numbers.start..=numbers.end).filter_map(|number| self.boundary(track, number)).collect()
    }

    /// Returns the start of a segment (0-based in the whole title) of a track. For the number after
    /// the last one, returns the end of the last segment.
    pub fn boundary(&self, track: usize, number: u32) -> Option<i64> {
        let title_track = self.title.tracks().get(track)?;
        let track = self.title.track(title_track);
        let position = title_track.position(number)?;
        let cut = *title_track.cuts.get(position)?;
        if number == title_track.numbers().end && cut == sample_count(track) {
            return Some(self.presented(track, *title_track.times.get(position)?));
        }
        // A clip ends where the first sample after it would begin.
        let ticks = if cut == 0 { first_presented(track) } else { *title_track.times.get(position)? };
        Some(self.decoded(track, ticks))
    }

    /// Returns the segment (0-based) of a track that begins at `time`. O(log n).
    pub(crate) fn segment_at(&self, track: usize, time: i64) -> Option<u32> {
        let Range { start: mut low, end } = self.title.tracks().get(track)?.numbers();
        let mut high = end;
        while low < high {
            let middle = low + (high - low) / 2;
            if self.boundary(track, middle)? < time { low = middle + 1 } else { high = middle }
        }
        (low < end && self.boundary(track, low) == Some(time)).then_some(low)
    }

    /// Returns the times of the samples of a segment, which may be several joined.
    pub(crate) fn timings(&self, track: usize, segment: &Segment, samples: &[Sample]) -> Vec<SampleTiming> {
        let Some((title_track, first)) = self.title.tracks().get(track).zip(samples.first()) else {
            return Vec::new();
        };
        let next = title_track.cuts.partition_point(|&cut| cut < segment.cut.end);
        let next = u32::try_from(next).ok().and_then(|next| title_track.first.checked_add(next));
        let next = next.and_then(|next| self.boundary(track, next));
        let track = self.title.track(title_track);
        // The end of the track is a presentation time, from which no decode time follows.
        let next = next.filter(|_| segment.cut.end < sample_count(track));
        let start = if segment.cut.start == 0 { first_presented(track) } else { segment.start };
        let natural = |time: i64| self.decoded(track, start + time - first.decode_time);
        let end = |sample: &Sample| sample.decode_time + i64::from(sample.duration);
        let overlap = next.zip(samples.last()).and_then(|(next, last)| {
            let own = natural(end(last));
            (own > next).then(|| Overlap { start: natural(first.decode_time), end: own, next })
        });
        let decode = |time: i64| overlap.map_or(natural(time), |overlap| overlap.squeezed(natural(time)));
        samples
            .iter()
            .enumerate()
            .map(|(i, sample)| {
                let at = decode(sample.decode_time);
                let until = match samples.get(i + 1) {
                    Some(after) => decode(after.decode_time),
                    None => next.unwrap_or_else(|| decode(end(sample))),
                };
                let composition_offset = match track.kind {
                    TrackKind::Video => {
                        let ticks = track.presentation.time(sample.decode_time, sample.composition_offset);
                        self.presented(track, ticks) - at
                    }
                    // These are not reordered: their times follow from the segment's time alone.
                    TrackKind::Audio | TrackKind::Text => self.floor(track, sample.composition_offset.into()),
                };
                SampleTiming {
                    decode: at,
                    composition_offset: clamped(composition_offset),
                    duration: u32::try_from((until - at).max(0)).unwrap_or(u32::MAX),
                }
            })
            .collect()
    }

    /// Returns the protocol's time for a presentation time in track ticks.
    fn presented(&self, track: &Track, ticks: i64) -> i64 {
        self.floor(track, ticks) + self.delay - self.origin
    }

    /// Returns the decode time of a sample that is presented at `ticks` and not reordered.
    fn decoded(&self, track: &Track, ticks: i64) -> i64 {
        let reorder = if track.kind == TrackKind::Video { self.reorder } else { 0 };
        self.presented(track, ticks) - reorder
    }

    fn floor(&self, track: &Track, ticks: i64) -> i64 {
        Time::new(ticks, track.timescale).in_scale(self.scale, Round::Down)
    }
}

/// A segment whose samples last beyond the start of the next segment.
#[derive(Debug, Clone, Copy)]
struct Overlap {
    start: i64,
    end: i64,
    next: i64,
}

impl Overlap {
    /// Returns a time between the start and the end, scaled to lie between the two starts.
    fn squeezed(self, time: i64) -> i64 {
        let since = |time: i64| i128::from(time) - i128::from(self.start);
        let scaled = since(time) * since(self.next).max(0) / since(self.end).max(1);
        self.start.saturating_add(i64::try_from(scaled).unwrap_or(i64::MAX))
    }
}

/// Returns the number of samples of a track, or of fragments if only those are known.
fn sample_count(track: &Track) -> u32 {
    match &track.samples {
        Samples::Table(table) => table.len(),
        Samples::Fragments(table) => table.len(),
    }
}

fn clamped(ticks: i64) -> i32 {
    i32::try_from(ticks).unwrap_or(if ticks < 0 { i32::MIN } else { i32::MAX })
}

/// Returns the presentation time of the first segment's start, in track ticks. Unlike
/// [`Track::start`] it may be negative, because of priming or samples that an edit list hides.
fn first_presented(track: &Track) -> i64 {
    let first = match &track.samples {
        // Other samples may be presented before the one that is decoded first.
        Samples::Table(table) => table
            .get(0)
            .map(|s| track.presentation.time(s.decode_time, s.composition_offset).min(track.start)),
        Samples::Fragments(table) => table.start(0),
    };
    first.unwrap_or(track.start)
}

/// Returns the least time from the decoding of a segment's first sample to the segment's start with
/// which no sample is presented before decoding. `later` is [`TitleTrack::reorder`]. For a track
/// that was packed before, returns the time that it has.
fn reorder(track: &Track, later: i64, is_packed: bool) -> Time {
    let ticks = match &track.samples {
        Samples::Table(table) if is_packed => table.get(0).map_or(0, |first| first.composition_offset.into()),
        Samples::Table(table) => {
            let decoded = table.get(0).map_or(0, |first| track.presentation.time(first.decode_time, 0));
            let first = first_presented(track) - decoded;
            first.max(later) - i64::from(table.composition_bounds().0)
        }
        Samples::Fragments(table) if is_packed => table.first_offset().into(),
        // Decoding starts at 0 in files of their own: the time is at least the first offset.
        Samples::Fragments(table) => {
            let composed = table.start(0).unwrap_or(0) + track.presentation.media_time;
            let guess = if Time::new(composed, track.timescale) > LONGEST_GUESS { 0 } else { composed };
            guess.max(table.reorder().into())
        }
    };
    Time::new(ticks.max(0), track.timescale)
}
