//! Clips: a title from one time to another.
//!
//! A clip begins at a sync sample at or before the requested time, and ends at one at or after it,
//! so that it holds everything requested. If such a sample lies inside a segment of the grid, the
//! clip's first or last segment is a part of that segment. All other segments are those of the
//! whole title, with their numbers and times.
//!
//! The lead track decides where the clip is cut: the first video that has not ended, else the first
//! audio. It is cut at a sync sample that all video shares, or at the boundary of a segment. Audio
//! and text are cut at their first sample from that time on, as at every boundary.

use crate::{
    grid::cut_points::around,
    media::{Samples, Track, TrackKind},
    table::samples::SampleTable,
    title::{Title, TitleTrack},
};
use latemux_isobmff::{Time, time::Round};
use std::{iter, ops::Range};

/// Largest number of sync samples examined for one cut. Only hostile files have more.
const MAX_STEPS: usize = 4096;

/// Largest number of cut points of the lead track that are compared with those of all other video.
const MAX_SHARED_STEPS: usize = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClipEdge {
    /// A boundary of the grid, as the index of the segment that starts there. One past the last
    /// segment means the end of the title.
    Grid(u32),
    /// A cut point inside a segment of the grid, by its time.
    Inside(Time),
}

struct LeadSegment<'a> {
    points: SegmentCutPoints<'a>,
    /// The grid segments that it lasts for.
    grid: Range<u32>,
}

struct TrackCut {
    /// Index of the first sample (or fragment) after the cut.
    sample: u32,
    /// Presentation time in track ticks.
    time: i64,
    /// Position in the track's lists of the segment that the cut is in, or begins.
    segment: usize,
}

impl Title {
    /// Returns the title from `begin` (or its start) to `end` (or its end), in presentation time;
    /// `begin` must be before `end`. Tracks without samples there have no segments. Returns `None`
    /// if the title ends at or before `begin`, or begins at or after `end`. O(segments).
    pub fn clipped(&self, begin: Option<Time>, end: Option<Time>) -> Option<Self> {
        if !self.is_in_title(begin, end) {
            return None;
        }
        let from = begin.map_or(ClipEdge::Grid(0), |time| self.begin_edge(time));
        let until = end.map_or(ClipEdge::Grid(self.segments_of_grid()), |time| self.end_edge(time));
        let tracks: Vec<_> = self.tracks.iter().map(|track| self.clip_track(track, from, until)).collect();
        let starts =
            tracks.iter().filter_map(|t| Some(Time::new(*t.times.first()?, self.track(t).timescale)));
        let start = starts.min().unwrap_or(self.start);
        Some(self.selected(tracks, self.unlisted.clone(), start))
    }

    /// Returns the times at which a clip is cut: at or before `begin`, and at or after `end`.
    /// `None` stands for the start and the end of the title. Clips between the returned times and
    /// the requested ones are equal. Returns `None` if [`Self::clipped`] does.
    pub fn clip_cuts(&self, begin: Option<Time>, end: Option<Time>) -> Option<(Option<Time>, Option<Time>)> {
        if !self.is_in_title(begin, end) {
            return None;
        }
        let time = |edge| match edge {
            ClipEdge::Inside(time) => Some(time),
            ClipEdge::Grid(segment) => self.grid.starts.get(segment as usize).copied(),
        };
        let begin = begin.map(|time| self.begin_edge(time)).filter(|edge| *edge != ClipEdge::Grid(0));
        Some((begin.and_then(time), end.and_then(|end| time(self.end_edge(end)))))
    }

    /// Returns true if a clip has any time in common with the title.
    fn is_in_title(&self, begin: Option<Time>, end: Option<Time>) -> bool {
        let Some(&start) = self.grid.starts.first() else { return false };
        begin.is_none_or(|begin| begin < self.grid.end) && end.is_none_or(|end| end > start)
    }

    fn segments_of_grid(&self) -> u32 {
        u32::try_from(self.grid.starts.len()).unwrap_or(u32::MAX)
    }

    /// Returns the last segment of the grid that starts at or before a time.
    fn grid_at(&self, time: Time) -> u32 {
        let after = self.grid.starts.partition_point(|start| *start <= time);
        u32::try_from(after.saturating_sub(1)).unwrap_or(u32::MAX)
    }

    fn begin_edge(&self, time: Time) -> ClipEdge {
        let grid = self.grid_at(time);
        let Some(lead) = self.lead_segment(grid, time) else { return ClipEdge::Grid(grid) };
        let points = &lead.points;
        let first = points.last_until(time.in_scale(points.track.timescale, Round::Down));
        let inside = self.shared_point(points, first, |point| points.before(point));
        inside.map_or(ClipEdge::Grid(lead.grid.start), ClipEdge::Inside)
    }

    fn end_edge(&self, time: Time) -> ClipEdge {
        if time >= self.grid.end {
            return ClipEdge::Grid(self.segments_of_grid());
        }
        let grid = self.grid_at(time);
        let is_boundary = self.grid.starts.get(grid as usize) == Some(&time);
        let lead = self.lead_segment(grid, time);
        if is_boundary && lead.as_ref().is_none_or(|lead| lead.grid.start == grid) {
            return ClipEdge::Grid(grid);
        }
        let Some(lead) = lead else { return ClipEdge::Grid(grid + 1) };
        let points = &lead.points;
        let first = points.first_from(time.in_scale(points.track.timescale, Round::Up));
        let inside = self.shared_point(points, first, |point| points.after(point));
        inside.map_or(ClipEdge::Grid(lead.grid.end), ClipEdge::Inside)
    }

    /// Returns the time of the first point from `first` on at which all video can be cut.
    fn shared_point(
        &self,
        points: &SegmentCutPoints<'_>,
        first: Option<u32>,
        step: impl Fn(u32) -> Option<u32>,
    ) -> Option<Time> {
        let times = iter::successors(first, |&point| step(point)).take(MAX_SHARED_STEPS);
        let mut times = times.map_while(|point| Some(Time::new(points.time(point)?, points.track.timescale)));
        times.find(|&time| self.all_video_at(time))
    }

    /// Returns the segment that decides where a clip is cut at a time within a grid segment: that
    /// of the first video track that has not ended, or else of the first track. `None` if there is
    /// no such segment.
    fn lead_segment(&self, grid: u32, time: Time) -> Option<LeadSegment<'_>> {
        let first = self.tracks.iter().take(1);
        let more = self.tracks.iter().skip(1).take_while(|t| self.track(t).kind == TrackKind::Video);
        first.chain(more).find_map(|lead| {
            let track = self.track(lead);
            let position = lead.grid_segments.partition_point(|&g| g <= grid).checked_sub(1)?;
            let start = *lead.grid_segments.get(position)?;
            let end = Time::new(*lead.times.get(position + 1)?, track.timescale);
            if start < grid && end <= time {
                return None;
            }
            let next = lead.grid_segments.get(position + 1).copied();
            let until = || self.grid.starts.partition_point(|start| *start < end);
            Some(LeadSegment {
                points: SegmentCutPoints {
                    track,
                    cut: *lead.cuts.get(position)?..*lead.cuts.get(position + 1)?,
                },
                // Of a still picture, the last segment may last for several grid segments.
                grid: start..next.unwrap_or_else(|| u32::try_from(until()).unwrap_or(u32::MAX)),
            })
        })
    }

    /// Returns true if every video track that has not ended has a cut point in a segment at a time.
    fn all_video_at(&self, time: Time) -> bool {
        self.tracks.iter().all(|title_track| {
            let track = self.track(title_track);
            let ended = Time::new(track.end, track.timescale) <= time;
            track.kind != TrackKind::Video || ended || inside(track, title_track, time).is_some()
        })
    }

    fn clip_track(&self, title_track: &TitleTrack, from: ClipEdge, until: ClipEdge) -> TitleTrack {
        let track = self.track(title_track);
        let nothing = || TitleTrack {
            cuts: Vec::new(),
            times: Vec::new(),
            grid_segments: Vec::new(),
            name: title_track.name.clone(),
            ..*title_track
        };
        let (Some(from), Some(until)) = (cut(track, title_track, from), cut(track, title_track, until))
        else {
            return nothing();
        };
        if from.sample >= until.sample || from.time >= until.time {
            return nothing();
        }
        let mut cuts = vec![from.sample];
        let mut times = vec![from.time];
        let mut grid_segments: Vec<u32> =
            title_track.grid_segments.get(from.segment).copied().into_iter().collect();
        let rest = title_track.cuts.iter().zip(&title_track.times).zip(&title_track.grid_segments);
        for ((&sample, &time), &grid) in rest.skip(from.segment + 1) {
            if sample >= until.sample || time >= until.time {
                break;
            }
            cuts.push(sample);
            times.push(time);
            grid_segments.push(grid);
        }
        cuts.push(until.sample);
        times.push(until.time);
        let skipped = u32::try_from(from.segment).unwrap_or(0);
        TitleTrack {
            name: title_track.name.clone(),
            first: title_track.first + skipped,
            cuts,
            times,
            grid_segments,
            leading: None,
            ..*title_track
        }
    }
}

fn cut(track: &Track, title_track: &TitleTrack, edge: ClipEdge) -> Option<TrackCut> {
    let at = |segment: usize| {
        let (&sample, &time) = (title_track.cuts.get(segment)?, title_track.times.get(segment)?);
        Some(TrackCut { sample, time, segment })
    };
    match edge {
        ClipEdge::Grid(grid) => at(title_track.grid_segments.partition_point(|&g| g < grid)),
        ClipEdge::Inside(time) => {
            let Some(sample) = inside(track, title_track, time) else {
                // Without a point inside a segment, the track is cut at the first segment that
                // starts at or after the time.
                let ticks = time.in_scale(track.timescale, Round::Up);
                let segments = title_track.grid_segments.len();
                return at(title_track.times.partition_point(|&t| t < ticks).min(segments));
            };
            let segment = title_track.cuts.partition_point(|&cut| cut <= sample).checked_sub(1)?;
            if title_track.cuts.get(segment) == Some(&sample) {
                return at(segment);
            }
            Some(TrackCut { sample, time: earliest(track, sample)?, segment })
        }
    }
}

/// Returns the sample (or fragment) at which a track is cut for a time inside a segment of the
/// grid. For video it is a sync sample at that time, within the tolerance; for other tracks the
/// first sample from that time on. Returns `None` if there is none, or if its time is outside its
/// segment.
fn inside(track: &Track, title_track: &TitleTrack, time: Time) -> Option<u32> {
    let scale = track.timescale;
    let exact = time.in_scale(scale, Round::Up);
    let sample = match (&track.samples, track.kind) {
        (Samples::Table(table), TrackKind::Video) => {
            let (from, until) = around(time, scale);
            sync_from_time(track, table, from)
                .filter(|&s| presented(track, table, s).is_some_and(|t| t <= until))?
        }
        (Samples::Table(table), _) => sync_from_time(track, table, exact)?,
        (Samples::Fragments(table), TrackKind::Video) => {
            let (from, until) = around(time, scale);
            let found = table.sync_from(table.starting_from(from))?;
            table.start(found).filter(|&t| t <= until).map(|_| found)?
        }
        (Samples::Fragments(table), _) => {
            // Fragments cannot be cut, so the nearest start is used; of two equally near, the
            // earlier.
            let after = table.starting_from(exact);
            let before = after.checked_sub(1);
            let far = |index: u32| table.start(index).map(|t| (t - exact).abs());
            match (before.and_then(far), far(after)) {
                (Some(b), Some(a)) if b <= a => before?,
                (Some(b), None) if b <= table.end() - exact => before?,
                _ => Some(after).filter(|&after| after < table.len())?,
            }
        }
    };
    let segment = title_track.cuts.partition_point(|&cut| cut <= sample).checked_sub(1)?;
    if title_track.cuts.get(segment) == Some(&sample) {
        return Some(sample);
    }
    let start = title_track.times.get(segment)?;
    let end = title_track.times.get(segment + 1)?;
    earliest(track, sample).filter(|time| time > start && time < end).map(|_| sample)
}

/// Returns the presentation time of a sample, in track ticks.
fn presented(track: &Track, table: &SampleTable, sample: u32) -> Option<i64> {
    Some(table.composition_time(sample)? - track.presentation.media_time)
}

/// Returns the first sync sample presented at or after a time in track ticks.
fn sync_from_time(track: &Track, table: &SampleTable, time: i64) -> Option<u32> {
    // Samples are presented at most this long after they are decoded: earlier ones do not qualify.
    let latest = i64::from(table.composition_bounds().1);
    let decoded = time + track.presentation.media_time - latest - 1;
    let mut sample = table.sync_from(table.decoded_until(decoded))?;
    for _ in 0..MAX_STEPS {
        if presented(track, table, sample)? >= time {
            return Some(sample);
        }
        sample = table.sync_from(sample.checked_add(1)?)?;
    }
    None
}

/// Returns the earliest presentation time of the samples from a cut point to the next one, in track
/// ticks. Leading pictures of an open GOP are presented before the cut point.
fn earliest(track: &Track, point: u32) -> Option<i64> {
    let table = match &track.samples {
        Samples::Fragments(table) => return table.start(point),
        Samples::Table(table) => table,
    };
    let own = presented(track, table, point)?;
    if table.composition_bounds() == (0, 0) {
        return Some(own);
    }
    let next = table.sync_from(point.checked_add(1)?).unwrap_or(table.len());
    let count = (next - point) as usize;
    let times =
        table.timing(point).take(count).map(|(decode, _, offset)| track.presentation.time(decode, offset));
    Some(times.min().unwrap_or(own).min(own))
}

/// Cut points inside one segment of a track, except the one that the segment starts with.
struct SegmentCutPoints<'a> {
    track: &'a Track,
    /// Samples or fragments of the segment.
    cut: Range<u32>,
}

impl SegmentCutPoints<'_> {
    fn within(&self, point: u32) -> Option<u32> {
        (point > self.cut.start && point < self.cut.end).then_some(point)
    }

    fn time(&self, point: u32) -> Option<i64> {
        match &self.track.samples {
            Samples::Table(table) => presented(self.track, table, point),
            Samples::Fragments(table) => table.start(point),
        }
    }

    /// Returns the last cut point presented at or before a time in track ticks.
    fn last_until(&self, time: i64) -> Option<u32> {
        match &self.track.samples {
            Samples::Table(table) => {
                // Samples presented by then have been decoded by then, but for negative offsets.
                let earliest = i64::from(table.composition_bounds().0.min(0));
                let composed = time + self.track.presentation.media_time;
                let decoded = table.decoded_until(composed - earliest);
                let mut point = table.sync_until(decoded.checked_sub(1)?)?;
                for _ in 0..MAX_STEPS {
                    if self.time(self.within(point)?)? <= time {
                        return Some(point);
                    }
                    point = table.sync_until(point.checked_sub(1)?)?;
                }
                None
            }
            Samples::Fragments(table) => {
                let end = table.starting_from(time + 1);
                let point = match self.track.kind {
                    TrackKind::Video => table.sync_before(end)?,
                    _ => end.checked_sub(1)?,
                };
                self.within(point)
            }
        }
    }

    /// Returns the first cut point presented at or after a time in track ticks.
    fn first_from(&self, time: i64) -> Option<u32> {
        match &self.track.samples {
            Samples::Table(table) => self.within(sync_from_time(self.track, table, time)?),
            Samples::Fragments(table) => {
                let point = table.starting_from(time);
                let point = if self.track.kind == TrackKind::Video { table.sync_from(point)? } else { point };
                self.within(point)
            }
        }
    }

    fn before(&self, point: u32) -> Option<u32> {
        let before = match &self.track.samples {
            Samples::Table(table) => table.sync_until(point.checked_sub(1)?)?,
            Samples::Fragments(table) if self.track.kind == TrackKind::Video => table.sync_before(point)?,
            Samples::Fragments(_) => point.checked_sub(1)?,
        };
        self.within(before)
    }

    fn after(&self, point: u32) -> Option<u32> {
        let next = point.checked_add(1)?;
        let after = match &self.track.samples {
            Samples::Table(table) => table.sync_from(next)?,
            Samples::Fragments(table) if self.track.kind == TrackKind::Video => table.sync_from(next)?,
            Samples::Fragments(_) => next,
        };
        self.within(after)
    }
}

#[cfg(test)]
#[path = "clip_tests.rs"]
mod tests;
