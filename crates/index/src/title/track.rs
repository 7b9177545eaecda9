//! One track of a title, and its segments.

use crate::{
    grid::{
        Grid,
        cut_points::{CutPoints, CutTrack},
    },
    media::{Samples, Track},
    table::samples::Sample,
    title::TrackName,
};
use std::ops::Range;

/// One track of a title.
#[derive(Debug, Clone)]
pub struct TitleTrack {
    /// Index into [`objects`](super::Title::objects).
    pub object: usize,
    /// Index into [`MediaIndex::tracks`](crate::MediaIndex::tracks).
    pub track: usize,
    /// Its name in URLs.
    pub name: TrackName,
    /// 0-based number of its first segment in the whole title, which is not 0 in most clips.
    pub first: u32,
    /// First sample (or fragment) of each of its segments, and one past the last. Grid segments in
    /// which the track starts no sample are joined to the one before.
    pub cuts: Vec<u32>,
    /// Presentation time of each cut in track ticks, the first clamped to ≥ 0; `times.len() ==
    /// cuts.len()`.
    pub times: Vec<i64>,
    /// For each of its segments, the index in [`Grid::starts`] where it starts.
    pub grid_segments: Vec<u32>,
    /// True if a segment has samples that are presented before the sync sample it starts with, as
    /// the leading pictures of an open GOP. False for fragments, whose samples are not known, and
    /// `None` for clips.
    pub leading: Option<bool>,
    /// Longest time in track ticks from the decoding of a sample that a segment of the whole title
    /// starts with to the presentation of the segment's first one. 0 if the samples are not known.
    pub reorder: i64,
}

impl TitleTrack {
    pub(super) fn cut(object: usize, index: usize, name: TrackName, by: &CutTrack<'_>, grid: &Grid) -> Self {
        let track = by.track;
        let len = match &track.samples {
            Samples::Table(table) => table.len(),
            Samples::Fragments(table) => table.len(),
        };
        let mut cuts = vec![0];
        let mut times = vec![track.start];
        let mut grid_segments = vec![0];
        let mut reorder = 0;
        let mut points = CutPoints::new(by);
        // The first cut includes everything before the second boundary, priming too.
        let mut next = 1;
        while let Some(&boundary) = grid.starts.get(next) {
            let Some(point) = points.boundary(boundary) else { break };
            // The last of the boundaries that are cut at this point.
            let last = points.last_boundary_at(point, &grid.starts, next);
            let number = u32::try_from(next).unwrap_or(u32::MAX);
            next = last + 1;
            let (Some(&cut), Some(&time)) = (cuts.last(), times.last()) else { break };
            let (earliest, reordered) = points.earliest(point);
            if point.index > cut && earliest > time {
                reorder = reorder.max(reordered);
                cuts.push(point.index);
                times.push(earliest);
                grid_segments.push(number);
            }
            if cuts.last() == Some(&point.index)
                && matches!(track.samples, Samples::Table(_))
                && let Some(segment) = grid_segments.last_mut()
            {
                // The segment starts after these boundaries too: the grid segments before are
                // empty.
                *segment = u32::try_from(last).unwrap_or(u32::MAX);
            }
        }
        cuts.push(len);
        times.push(track.end.max(times.last().map_or(0, |&last| last + 1)));
        cuts.shrink_to_fit();
        times.shrink_to_fit();
        grid_segments.shrink_to_fit();
        let leading = Some(by.has_leading_samples(&cuts));
        Self { object, track: index, name, first: 0, cuts, times, grid_segments, leading, reorder }
    }

    /// Returns the number of bytes of memory of this track and its lists.
    pub(super) fn heap_bytes(&self) -> usize {
        let lists = size_of_val::<[u32]>(&self.cuts)
            + size_of_val::<[i64]>(&self.times)
            + size_of_val::<[u32]>(&self.grid_segments);
        size_of::<Self>() + self.name.stem.len() + lists
    }

    /// Returns the number of segments.
    pub fn segment_count(&self) -> u32 {
        u32::try_from(self.grid_segments.len()).unwrap_or(u32::MAX)
    }

    /// Returns true if the first sample of every segment is known to have a composition offset
    /// other than 0, as in tracks with reordered frames and offsets that are not negative. `track`
    /// is the indexed track of this one. O(segments).
    pub fn starts_composed(&self, track: &Track) -> bool {
        let Samples::Table(table) = &track.samples else { return false };
        let composed =
            |cut: u32| table.composition_time(cut).is_some_and(|time| time != table.decode_time(cut));
        // Without leading pictures, a segment's time is that of its first sample, except for the
        // first segment, whose time is clamped.
        let mut later = self.cuts.iter().zip(&self.times).take(self.grid_segments.len()).skip(1);
        let is_composed = |time: i64, decode_time| time + track.presentation.media_time != decode_time;
        let is_first_composed = table.composition_bounds() != (0, 0)
            && self.leading == Some(false)
            && self.cuts.first().is_some_and(|&cut| composed(cut));
        if !is_first_composed {
            return false;
        }
        // Segments of few samples: one pass is faster than a search for each.
        if table.len() < self.segment_count().saturating_mul(32) {
            let mut decoded = (0..).zip(table.timing(0));
            return later.all(|(&cut, &time)| {
                let found = decoded.by_ref().find(|(index, _)| *index == cut);
                found.is_none_or(|(_, (decode_time, ..))| is_composed(time, decode_time))
            });
        }
        later.all(|(&cut, &time)| is_composed(time, table.decode_time(cut)))
    }

    /// Returns the numbers of its segments, 0-based in the whole title.
    pub fn numbers(&self) -> Range<u32> {
        self.first..self.first + self.segment_count()
    }

    /// Returns the position of a segment in the lists of this track.
    pub fn position(&self, number: u32) -> Option<usize> {
        Some(number.checked_sub(self.first)? as usize)
    }

    /// Returns a segment by its 0-based number in the whole title.
    pub fn segment(&self, number: u32) -> Option<Segment> {
        let i = self.position(number)?;
        Some(Segment {
            number,
            start: *self.times.get(i)?,
            end: *self.times.get(i + 1)?,
            cut: *self.cuts.get(i)?..*self.cuts.get(i + 1)?,
        })
    }

    /// Returns the segment that starts exactly at `start`, in track ticks. O(log n).
    pub fn segment_at(&self, start: i64) -> Option<Segment> {
        let i = self.times.binary_search(&start).ok()?;
        self.segment(self.first + u32::try_from(i).ok()?)
    }
}

/// One segment of one track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// 0-based number in the track of the whole title.
    pub number: u32,
    /// Presentation time of its start in track ticks, ≥ 0, as in manifests and URLs.
    pub start: i64,
    /// Presentation time of its end in track ticks.
    pub end: i64,
    /// Indexes of its samples or fragments.
    pub cut: Range<u32>,
}

/// The samples of a segment, or the fragments that must be read first.
#[derive(Debug)]
pub enum SegmentSamples {
    /// The samples are known, in decode order. There is at least one.
    Known(Vec<Sample>),
    /// These fragments must be read first: byte ranges of the track's object, ascending.
    Needs(Vec<Range<u64>>),
}
