//! The points where a track can be cut: sync samples, or starts of fragments.

use crate::{
    media::{Samples, Track, TrackKind},
    table::samples::SampleTable,
};
use latemux_isobmff::{Time, Timescale, time::Round};

/// Largest distance in milliseconds between sync points of renditions that count as equal: rounding
/// to different timescales moves them apart.
const TOLERANCE_MILLIS: i64 = 10;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CutPoint {
    /// Index of the sample or fragment that starts there.
    pub(crate) index: u32,
    /// Presentation time of that sample, or of the fragment's sync sample, in track ticks.
    pub(crate) time: i64,
}

/// A track with its cut points, if finding them takes a pass over all its samples.
#[derive(Debug)]
pub(crate) struct CutTrack<'a> {
    pub(crate) track: &'a Track,
    /// Every sync sample in decode order. `None` if no pass is needed to look them up: for
    /// fragments, and if all samples are short sync samples with a composition offset of 0.
    points: Option<Vec<SyncPoint>>,
}

#[derive(Debug, Clone, Copy)]
struct SyncPoint {
    point: CutPoint,
    /// Decode time in presentation time: on the output timeline, less the media time.
    decoded: i64,
    /// Earliest presentation time of the samples up to the next sync sample. Leading pictures of an
    /// open GOP are decoded after their sync sample and presented before it.
    earliest: i64,
}

impl<'a> CutTrack<'a> {
    pub(crate) fn new(track: &'a Track) -> Self {
        let points = match &track.samples {
            Samples::Table(table)
                if !table.all_sync() || table.composition_bounds() != (0, 0) || is_sparse(track, table) =>
            {
                let presentation = &track.presentation;
                let mut points: Vec<SyncPoint> = Vec::with_capacity(table.sync_count() as usize);
                table.each_gop(|index, decoded, composed, earliest| {
                    let time = |ticks| presentation.time(ticks, 0);
                    points.push(SyncPoint {
                        point: CutPoint { index, time: time(composed) },
                        decoded: time(decoded),
                        earliest: time(earliest),
                    });
                });
                Some(points)
            }
            _ => None,
        };
        Self { track, points }
    }

    /// Returns true if a segment has samples that are presented before the sync sample it starts
    /// with. `cuts` are the first samples of segments, ascending, and one past the last sample.
    pub(crate) fn has_leading_samples(&self, cuts: &[u32]) -> bool {
        let mut points = self.points.as_deref().unwrap_or_default();
        let mut ranges = cuts.iter().zip(cuts.iter().skip(1));
        ranges.any(|(&start, &end)| {
            while let Some((_, later)) = points.split_first().filter(|(sync, _)| sync.point.index < start) {
                points = later;
            }
            let within = points.iter().take_while(|sync| sync.point.index < end);
            let earliest = within.map(|sync| sync.earliest).min();
            earliest.zip(points.first()).is_some_and(|(earliest, first)| earliest < first.point.time)
        })
    }
}

/// Returns true if samples are so long that most of them may be cut points. One pass over them is
/// then faster than a search for each, which reads a part of a packed column.
fn is_sparse(track: &Track, table: &SampleTable) -> bool {
    const SAMPLES_PER_SECOND: i128 = 8;
    let ticks = i128::from(track.end) - i128::from(track.start);
    i128::from(table.len()) * i128::from(track.timescale.get()) < ticks * SAMPLES_PER_SECOND
}

/// A search for a track's cut points in ascending order of time.
#[derive(Debug, Clone)]
pub(crate) struct CutPoints<'a> {
    pub(crate) track: &'a Track,
    points: Option<&'a [SyncPoint]>,
}

impl<'a> CutPoints<'a> {
    pub(crate) fn new(track: &'a CutTrack<'a>) -> Self {
        Self { track: track.track, points: track.points.as_deref() }
    }

    /// Returns the first cut point at or after `time` in track ticks. The times of successive calls
    /// must ascend.
    pub(crate) fn at_or_after(&mut self, time: i64) -> Option<CutPoint> {
        if let Some(points) = &mut self.points {
            // Points before this time are before all later times too.
            while points.first()?.point.time < time {
                *points = points.get(1..)?;
            }
            return points.first().map(|sync| sync.point);
        }
        match &self.track.samples {
            Samples::Table(table) => {
                let media_time = self.track.presentation.media_time;
                let index = table.decoded_until(time + media_time - 1);
                let time = table.composition_time(index)? - media_time;
                Some(CutPoint { index, time })
            }
            Samples::Fragments(table) => {
                let mut index = table.synced_from(time);
                if self.track.kind == TrackKind::Video {
                    index = table.sync_from(index)?;
                }
                Some(CutPoint { index, time: table.sync_time(index)? })
            }
        }
    }

    /// Returns the earliest presentation time from a cut point to the next one, in track ticks. The
    /// point is the one that the search has returned last.
    ///
    /// Also returns how much later that is than the point's decode time, 0 for fragments.
    pub(crate) fn earliest(&self, point: CutPoint) -> (i64, i64) {
        let Some(points) = self.points else {
            return match &self.track.samples {
                Samples::Fragments(table) => (table.start(point.index).unwrap_or(point.time), 0),
                Samples::Table(_) => (point.time, 0),
            };
        };
        let sync = points.first().filter(|sync| sync.point.index == point.index);
        sync.map_or((point.time, 0), |sync| (sync.earliest, sync.earliest.saturating_sub(sync.decoded)))
    }

    /// Returns `None` if there is a cut point at `time`, within the tolerance. Otherwise returns a
    /// time up to which there is none, and up to which the track lasts.
    pub(crate) fn far_until(&mut self, time: Time) -> Option<Time> {
        let (from, until) = around(time, self.track.timescale);
        let next = self.at_or_after(from).map(|point| point.time);
        if next.is_some_and(|next| next <= until) {
            return None;
        }
        let next = next.map_or(self.track.end, |next| next.min(self.track.end));
        // Rounding moves times by less than two ticks.
        let tolerance = (until - from) / 2;
        Some(Time::new(next.saturating_sub(tolerance + 2), self.track.timescale))
    }

    /// Returns the cut point for a boundary at `time`, or `None` if the track has none left.
    pub(crate) fn boundary(&mut self, time: Time) -> Option<CutPoint> {
        let Samples::Fragments(table) = &self.track.samples else {
            return self.at_or_after(self.earliest_for(time));
        };
        let exact = time.in_scale(self.track.timescale, Round::Up);
        // Fragments cannot be cut, so the nearest start is used; of two equally near, the earlier.
        let after = self.at_or_after(exact);
        let end = after.map_or(table.len(), |point| point.index);
        let before = match self.track.kind {
            TrackKind::Video => table.sync_before(end),
            _ => end.checked_sub(1),
        };
        let before = before.and_then(|index| Some(CutPoint { index, time: table.sync_time(index)? }));
        match (before, after) {
            (Some(before), Some(after)) if exact - before.time <= after.time - exact => Some(before),
            (Some(before), None) if exact - before.time <= table.end() - exact => Some(before),
            _ => after,
        }
    }

    /// Returns the last of the boundaries from `first` on for which [`Self::boundary`] returns
    /// `point`, as it does for `first`. Costs as little as one comparison if there is no other, and
    /// no more than O(log n): a track with few samples may pass a hundred thousand boundaries.
    pub(crate) fn last_boundary_at(&self, point: CutPoint, boundaries: &[Time], first: usize) -> usize {
        let is_same = |&boundary: &Time| match &self.track.samples {
            Samples::Fragments(_) => self.clone().boundary(boundary) == Some(point),
            // Of points at or after a time, this one is the first.
            Samples::Table(_) => self.earliest_for(boundary) <= point.time,
        };
        let mut last = first;
        let mut step = 1;
        while boundaries.get(last + step).is_some_and(is_same) {
            last += step;
            step *= 2;
        }
        let rest = boundaries.get(last + 1..).unwrap_or_default();
        last + rest.get(..(step - 1).min(rest.len())).unwrap_or_default().partition_point(is_same)
    }

    /// Returns the earliest time, in ticks, of a cut point in a table for a boundary.
    fn earliest_for(&self, boundary: Time) -> i64 {
        if self.track.kind == TrackKind::Video {
            around(boundary, self.track.timescale).0
        } else {
            boundary.in_scale(self.track.timescale, Round::Up)
        }
    }
}

/// Returns the earliest and the latest time, in ticks, of a cut point that counts as at `time`.
pub(crate) fn around(time: Time, scale: Timescale) -> (i64, i64) {
    let tolerance = Time::new(TOLERANCE_MILLIS, Timescale::MILLIS).in_scale(scale, Round::Down);
    let exact = time.in_scale(scale, Round::Nearest);
    (exact - tolerance, exact + tolerance)
}
