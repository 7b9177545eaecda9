//! The segment grid: the boundaries of segments, the same for every protocol, rendition and node.
//!
//! Boundary k is the first sync point at or after k × target duration; boundaries that coincide
//! count once. Only sync points that all video tracks share count, as long as each lasts. Where
//! there is no video, or only a still picture, the cut points of audio count. The grid is a pure
//! function of the index and the target duration.

pub(crate) mod cut_points;
mod still;

use crate::{
    grid::cut_points::{CutPoint, CutPoints, CutTrack},
    media::{Samples, Track, TrackKind},
};
use latemux_isobmff::{Time, Timescale, time::Round};
use std::time::Duration;

/// Largest number of segments of a title: 27 hours of segments of 1 s.
pub(crate) const MAX_SEGMENTS: usize = 100_000;

/// Segment boundaries of a title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// Start of each segment in presentation time, ascending. The first is the title's start (≥ 0).
    pub starts: Vec<Time>,
    /// End of the title.
    pub end: Time,
}

/// Agreement of the video tracks with the grid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Alignment {
    /// All video tracks have the grid's sync points.
    Aligned,
    /// Their GOPs disagree: each track is cut at its own first sync sample after a boundary.
    Misaligned,
}

impl Grid {
    /// Lays out the grid for tracks in title order. Returns `None` if there are no tracks.
    pub(crate) fn lay(cuts: &[CutTrack<'_>], target: Duration) -> Option<(Self, Alignment)> {
        let start = cuts.iter().map(|cut| Time::new(cut.track.start, cut.track.timescale)).min()?;
        let end = cuts.iter().map(end_of).max()?;
        let videos: Vec<_> = cuts.iter().filter(|cut| cut.track.kind == TrackKind::Video).collect();
        let audio = cuts.iter().find(|cut| cut.track.kind == TrackKind::Audio);
        let by = reference(&videos, target).or(audio).or(cuts.first())?;
        let others: Vec<_> = videos.iter().copied().filter(|&other| !std::ptr::eq(other, by)).collect();

        let alone = boundaries(by, &[], start, target, None)?;
        let longest = longest(start, &alone, by.track.end);
        let (mut starts, alignment) = if others.is_empty() {
            (alone, Alignment::Aligned)
        } else {
            // Shared sync points may make segments at most twice as long.
            let limit = longest.saturating_mul(2);
            match boundaries(by, &others, start, target, Some(limit)) {
                Some(shared) => (shared, Alignment::Aligned),
                None => (alone, Alignment::Misaligned),
            }
        };
        starts.insert(0, start);
        let picture_end = videos.iter().map(|cut| end_of(cut)).max();
        if let (Some(audio), Some(picture_end)) = (audio, picture_end) {
            starts = still::with_boundaries_of_sound(&starts, picture_end, &videos, audio, target);
        }

        // Where there is no video, the longest audio is cut at its own points, and where there is
        // no audio either, the longest text.
        let mut covered = picture_end.unwrap_or(end_of(by));
        for kind in [TrackKind::Audio, TrackKind::Text] {
            let of_kind = cuts.iter().filter(|cut| cut.track.kind == kind);
            let Some(last) = of_kind.max_by_key(|cut| end_of(cut)) else { continue };
            if outlasts(last.track, covered, target) {
                let until = end_of(last);
                let before = Time::new(covered.ticks - 1, covered.scale);
                let points = &mut CutPoints::new(last);
                starts.extend(own_boundaries(points, before.max(start), until, target));
                covered = until;
            }
        }
        Some((Self { starts, end }, alignment))
    }

    /// Returns the number of segments.
    pub fn segment_count(&self) -> usize {
        self.starts.len()
    }
}

fn end_of(cut: &CutTrack<'_>) -> Time {
    Time::new(cut.track.end, cut.track.timescale)
}

/// Returns the first video track that lasts to the end of the picture, give or take the target
/// duration. `None` without video.
fn reference<'c, 't>(videos: &[&'c CutTrack<'t>], target: Duration) -> Option<&'c CutTrack<'t>> {
    let longest = videos.iter().max_by_key(|cut| end_of(cut))?;
    videos.iter().copied().find(|cut| !outlasts(longest.track, end_of(cut), target))
}

/// Returns true if a track ends more than the target duration after a time.
pub(crate) fn outlasts(track: &Track, time: Time, target: Duration) -> bool {
    let rest = track.end - time.in_scale(track.timescale, Round::Up);
    rest > TargetMultiples::from(time, target).target_ticks(track.timescale)
}

/// Returns the boundaries after a time, and before another, at a track's own cut points. The times
/// of successive calls must ascend.
fn own_boundaries(points: &mut CutPoints<'_>, from: Time, until: Time, target: Duration) -> Vec<Time> {
    let track = points.track;
    let mut steps = TargetMultiples::from(from, target);
    let mut starts = Vec::new();
    while starts.len() <= MAX_SEGMENTS
        && let Some(point) = steps.next_point(points, None)
    {
        let time = Time::new(point.time, track.timescale);
        if time >= until {
            break;
        }
        if time > from && starts.last().is_none_or(|&last| time > last) {
            starts.push(time);
        }
        steps.skip_past(time, track);
    }
    starts
}

/// Returns the boundaries after the first, at cut points of one track that all `others` share. With
/// a limit in the reference's ticks, returns `None` if a segment would be longer.
fn boundaries(
    by: &CutTrack<'_>,
    others: &[&CutTrack<'_>],
    start: Time,
    target: Duration,
    limit: Option<i64>,
) -> Option<Vec<Time>> {
    let reference = by.track;
    let scale = reference.timescale;
    let mut points = CutPoints::new(by);
    let mut others: Vec<CutPoints<'_>> = others.iter().map(|cut| CutPoints::new(cut)).collect();
    let ends = |other: &CutPoints<'_>| Time::new(other.track.end, other.track.timescale);
    let mut first_end = others.iter().map(ends).min();
    let mut starts: Vec<Time> = Vec::new();
    let mut steps = TargetMultiples::from(start, target);
    let mut previous = start.in_scale(scale, Round::Down);
    let mut after = previous;
    let too_long = |previous: i64, now: i64| limit.is_some_and(|limit| now - previous > limit);
    while starts.len() <= MAX_SEGMENTS
        && let Some(point) = steps.next_point(&mut points, Some(after))
    {
        if too_long(previous, point.time) {
            return None;
        }
        let time = Time::new(point.time, scale);
        // A rendition that has ended does not restrict the boundaries.
        if first_end.is_some_and(|end| time >= end) {
            others.retain(|other| time < ends(other));
            first_end = others.iter().map(ends).min();
        }
        after = point.time;
        match others.iter_mut().find_map(|other| other.far_until(time)) {
            // Not every point is looked for in a rendition with few of them.
            Some(far) => after = after.max(far.in_scale(scale, Round::Down).saturating_sub(2)),
            None => {
                starts.push(time);
                previous = point.time;
                steps.skip_past(time, reference);
            }
        }
    }
    (!too_long(previous, reference.end)).then_some(starts)
}

/// Returns the length of the longest segment in the ticks of the boundaries, or `i64::MAX` if there
/// are none.
fn longest(start: Time, boundaries: &[Time], end: i64) -> i64 {
    let Some(scale) = boundaries.first().map(|b| b.scale) else { return i64::MAX };
    let mut previous = start.in_scale(scale, Round::Down);
    let mut longest = 0;
    for now in boundaries.iter().map(|b| b.ticks).chain([end]) {
        longest = longest.max(now - previous);
        previous = now;
    }
    longest
}

/// Multiples of the target duration.
struct TargetMultiples {
    number: i128,
    /// Target duration in nanoseconds, ≥ 1.
    target: i128,
}

const NANOS: i128 = 1_000_000_000;

/// Longest audio frame, in milliseconds, except for FLAC with unusual block sizes. Opus frames have
/// at most 120 ms (RFC 6716 §2.1.4), AAC frames 128 ms (1024 samples at 8 kHz), and those of usual
/// FLAC encoders 4608 samples (104 ms at 44.1 kHz).
const AUDIO_FRAME_MILLIS: i64 = 128;

impl TargetMultiples {
    /// Starts with the first multiple after a time.
    fn from(time: Time, target: Duration) -> Self {
        // 64 bits of nanoseconds are 584 years, and leave room to multiply.
        let target = i128::from(u64::try_from(target.as_nanos()).unwrap_or(u64::MAX).max(1));
        let mut steps = Self { number: i128::MIN, target };
        steps.skip_to(time);
        steps
    }

    /// Moves to the first multiple after a time, and at least to the next one.
    fn skip_to(&mut self, time: Time) {
        let scale = i128::from(time.scale.get()) * self.target;
        let after = (i128::from(time.ticks) * NANOS).div_euclid(scale) + 1;
        self.number = (self.number + 1).max(after);
    }

    /// Moves to the first multiple after a cut of a track, and at least to the next one. Fragments
    /// without video may have been cut to match video, and then start at their first frame after a
    /// sync sample of the video. If such a start is less than a frame after a multiple, the
    /// multiple is not skipped, since the sync sample may lie before it.
    fn skip_past(&mut self, cut: Time, track: &Track) {
        let frame = Time::new(AUDIO_FRAME_MILLIS, Timescale::MILLIS).in_scale(cut.scale, Round::Up);
        let slack = if is_fragments_without_video(track) { frame } else { 0 };
        self.skip_to(Time::new(cut.ticks - slack, cut.scale));
    }

    /// Returns the current multiple in ticks, rounded up.
    fn ticks(&self, scale: Timescale) -> Option<i64> {
        let nanos = self.number.checked_mul(self.target)?;
        i64::try_from(-(-nanos.checked_mul(scale.get().into())?).div_euclid(NANOS)).ok()
    }

    /// Returns the target duration in ticks, rounded down.
    fn target_ticks(&self, scale: Timescale) -> i64 {
        i64::try_from(self.target * i128::from(scale.get()) / NANOS).unwrap_or(i64::MAX)
    }

    /// Returns the first cut point at or after the current multiple, and after a time in the
    /// track's ticks if given. For fragments without video it is the point nearest to the multiple,
    /// since they are seldom exactly as long as intended.
    fn next_point(&self, points: &mut CutPoints<'_>, after: Option<i64>) -> Option<CutPoint> {
        let ticks = self.ticks(points.track.timescale)?;
        let after = after.unwrap_or(i64::MIN);
        if is_fragments_without_video(points.track) {
            let nearest = points.boundary(Time::new(ticks, points.track.timescale))?;
            if nearest.time > after {
                return Some(nearest);
            }
        }
        points.at_or_after(ticks.max(after + 1))
    }
}

fn is_fragments_without_video(track: &Track) -> bool {
    track.kind != TrackKind::Video && matches!(track.samples, Samples::Fragments(_))
}
