//! The reach of segments: all bytes of an object that its tracks contribute to a part of the grid.
//!
//! In an interleaved file, the audio of a segment lies between its video, and some of it just
//! before or after. A cache that reads all of that at once reads no byte twice, whichever track or
//! protocol is requested first.

use crate::{
    media::Samples,
    title::{Title, TitleTrack},
};
use std::{ops::Range, ptr, sync::Arc};

impl Title {
    /// Returns the bytes, from the start of its object, of the samples or fragments `cut` of a
    /// track (an index into [`Self::tracks`]), and of all samples that the title's tracks in that
    /// object contribute to the same part of the grid.
    ///
    /// The range is a hint for prefetching: it may be too small or too large if samples do not lie
    /// in order of time. `None` for an empty cut, or one beyond the track's samples. O(log n) for
    /// each track.
    pub fn reach(&self, track: usize, cut: &Range<u32>) -> Option<Range<u64>> {
        self.reach_of(self.tracks.get(track)?.object, &self.grid_range(track, cut)?)
    }

    /// Returns the part of the grid that holds samples or fragments of a track. The result of
    /// [`Self::reach_of`] for this part is the same for all tracks of an object.
    pub fn grid_range(&self, track: usize, cut: &Range<u32>) -> Option<Range<u32>> {
        let track = self.tracks.get(track)?;
        if cut.is_empty() || track.cuts.last().is_none_or(|&end| cut.end > end) {
            return None;
        }
        track.grid_range(cut)
    }

    /// Returns the reach of a part of the grid in an object.
    pub fn reach_of(&self, object: usize, grid: &Range<u32>) -> Option<Range<u64>> {
        let together = || self.tracks.iter().filter(|track| track.object == object);
        let extents = together().filter_map(|track| match &self.track(track).samples {
            // Repetitions of a frame lie far from the sound beside it.
            Samples::Table(table) if table.may_repeat() => None,
            Samples::Table(table) => {
                // Interleaved tracks are looked up together, with the first of them.
                let among = together().filter_map(|other| match &self.track(other).samples {
                    Samples::Table(table_of) if Arc::ptr_eq(&table.layout, &table_of.layout) => {
                        Some((other, table_of))
                    }
                    _ => None,
                });
                among.clone().next().filter(|(first, _)| ptr::eq(*first, track))?;
                table
                    .layout
                    .extent(among.filter_map(|(other, table)| table.in_layout(other.cut_of_grid(grid)?)))
            }
            Samples::Fragments(table) => {
                let cut = track.cut_of_grid(grid)?;
                let last = cut.end.checked_sub(1).filter(|&last| last >= cut.start)?;
                let first = table.get(cut.start)?.bytes();
                let last = table.get(last)?.bytes();
                Some(first.start.min(last.start)..first.end.max(last.end))
            }
        });
        extents.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end))
    }
}

impl TitleTrack {
    /// Returns the grid segments that hold samples or fragments of this track.
    fn grid_range(&self, cut: &Range<u32>) -> Option<Range<u32>> {
        let first = self.cuts.partition_point(|&c| c <= cut.start).checked_sub(1)?;
        let end = self.cuts.partition_point(|&c| c < cut.end);
        let start = *self.grid_segments.get(first)?;
        Some(start..self.grid_segments.get(end).copied().unwrap_or(u32::MAX))
    }

    /// Returns the samples or fragments of this track in segments of the grid, if there are any.
    fn cut_of_grid(&self, grid: &Range<u32>) -> Option<Range<u32>> {
        let first = self.grid_segments.partition_point(|&g| g < grid.start);
        let end = self.grid_segments.partition_point(|&g| g < grid.end);
        (first < end).then_some(())?;
        Some(*self.cuts.get(first)?..*self.cuts.get(end)?)
    }
}
