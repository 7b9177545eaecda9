//! Where a track can be cut: sync samples, or starts of fragments.

use crate::media::{Samples, Track, TrackKind};
use latemux_isobmff::{Time, time::Round};

/// How far apart sync points of different renditions may lie and still be the same: time scales round.
pub(crate) const TOLERANCE_MILLIS: i64 = 10;

/// A point where a track can be cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CutPoint {
    /// Index of the sample or fragment that starts there.
    pub(crate) index: u32,
    /// Its presentation time in track ticks.
    pub(crate) time: i64,
}

/// A track's cut points, asked for in ascending order of time.
#[derive(Debug, Clone)]
pub(crate) struct CutPoints<'a> {
    pub(crate) track: &'a Track,
    /// No cut point before this index is at or after any time still asked for.
    from: u32,
}

impl<'a> CutPoints<'a> {
    pub(crate) fn new(track: &'a Track) -> Self {
        Self { track, from: 0 }
    }

    /// The first cut point at or after `time` in track ticks. Times asked for ascend.
    pub(crate) fn at_or_after(&mut self, time: i64) -> Option<CutPoint> {
        let point = match &self.track.samples {
            Samples::Table(table) => {
                // Composition time ≤ decode time + the largest offset: what is decoded before this cannot qualify.
                let presentation = &self.track.presentation;
                let (_, largest) = table.composition_bounds();
                let earliest = time.saturating_add(presentation.media_time).saturating_sub(largest.into());
                let index = table.decoded_until(earliest.saturating_sub(1));
                let mut index = table.sync_from(index.max(self.from))?;
                loop {
                    let time_here = table.composition_time(index)?.saturating_sub(presentation.media_time);
                    if time_here >= time {
                        break CutPoint { index, time: time_here };
                    }
                    index = table.sync_from(index + 1)?;
                    self.from = index;
                }
            }
            Samples::Fragments(table) => {
                let mut index = table.starting_from(time).max(self.from);
                if self.track.kind == TrackKind::Video {
                    index = table.sync_from(index)?;
                }
                CutPoint { index, time: table.start(index)? }
            }
        };
        self.from = point.index;
        Some(point)
    }

    /// The cut point at `time`, give or take the tolerance.
    pub(crate) fn near(&mut self, time: Time) -> Option<CutPoint> {
        let (from, until) = self.around(time);
        self.at_or_after(from).filter(|point| point.time <= until)
    }

    /// Where to cut for a boundary of the grid at `time`; `None` where nothing of the track comes at or after it.
    pub(crate) fn boundary(&mut self, time: Time) -> Option<CutPoint> {
        let exact = time.in_scale(self.track.timescale, Round::Up);
        let Samples::Fragments(table) = &self.track.samples else {
            return if self.track.kind == TrackKind::Video {
                let (from, _) = self.around(time);
                self.at_or_after(from)
            } else {
                self.at_or_after(exact)
            };
        };
        // Fragments cannot be cut: the nearest start, the earlier of two.
        let after = self.at_or_after(exact);
        let end = after.map_or(table.len(), |point| point.index);
        let before = match self.track.kind {
            TrackKind::Video => table.sync_before(end),
            _ => end.checked_sub(1),
        };
        let before = before.and_then(|index| Some(CutPoint { index, time: table.start(index)? }));
        match (before, after) {
            (Some(before), Some(after)) if exact - before.time <= after.time - exact => Some(before),
            (Some(before), None) if exact - before.time <= table.end() - exact => Some(before),
            _ => after,
        }
    }

    fn around(&self, time: Time) -> (i64, i64) {
        let scale = self.track.timescale;
        let tolerance =
            Time::new(TOLERANCE_MILLIS, latemux_isobmff::Timescale::MILLIS).in_scale(scale, Round::Down);
        let exact = time.in_scale(scale, Round::Nearest);
        (exact.saturating_sub(tolerance), exact.saturating_add(tolerance))
    }

    /// Earliest presentation time of the samples or fragments from `point` on, in track ticks: leading pictures of an open GOP
    /// are decoded after the sync sample and presented before it.
    pub(crate) fn earliest(&self, point: CutPoint) -> i64 {
        let Samples::Table(table) = &self.track.samples else { return point.time };
        let (least, _) = table.composition_bounds();
        let presentation = &self.track.presentation;
        let mut earliest = point.time;
        for (decode_time, _, offset) in table.timing(point.index) {
            if presentation.time(decode_time, least) >= earliest {
                break;
            }
            earliest = earliest.min(presentation.time(decode_time, offset));
        }
        earliest
    }
}
