//! What of an object belongs to a stretch of the grid: the bytes that all its tracks bring to it.
//!
//! A cache that reads whole stretches reads no byte twice whichever track or protocol asks first: in an interleaved file
//! the audio of a segment lies between its video, and some of it just before or after.

use crate::{
    media::Samples,
    title::{Title, TitleTrack},
};
use std::{ops::Range, ptr, sync::Arc};

impl Title {
    /// Bytes, from the start of the object of track number `track` (an index into [`Self::tracks`]), that hold the samples or
    /// fragments `cut` of it, and all that the title's tracks in that object bring to the same part of the grid. A hint for
    /// reading ahead: in a file whose samples do not lie in the order of time it may say too little or too much. `None` for an
    /// empty cut or one that is not there. O(log n) for each track.
    #[must_use]
    pub fn reach(&self, track: usize, cut: &Range<u32>) -> Option<Range<u64>> {
        self.reach_of(self.tracks.get(track)?.object, &self.grid_range(track, cut)?)
    }

    /// The part of the grid that holds samples or fragments of a track: what [`Self::reach_of`] is the same for in all tracks of an object.
    #[must_use]
    pub fn grid_range(&self, track: usize, cut: &Range<u32>) -> Option<Range<u32>> {
        let asked = self.tracks.get(track)?;
        if cut.is_empty() || asked.cuts.last().is_none_or(|&end| cut.end > end) {
            return None;
        }
        asked.grid_range(cut)
    }

    /// [`Self::reach`] of a part of the grid.
    #[must_use]
    pub fn reach_of(&self, object: usize, grid: &Range<u32>) -> Option<Range<u64>> {
        let together = || self.tracks.iter().filter(|track| track.object == object);
        let extents = together().filter_map(|track| match &self.track(track).samples {
            Samples::Table(table) => {
                // Tracks that lie between each other are looked up together, with the first of them.
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
                let (first, last) = (table.get(cut.start)?.bytes(), table.get(last)?.bytes());
                Some(first.start.min(last.start)..first.end.max(last.end))
            }
        });
        extents.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end))
    }
}

impl TitleTrack {
    /// Which segments of the grid samples or fragments of this track lie in.
    fn grid_range(&self, cut: &Range<u32>) -> Option<Range<u32>> {
        let first = self.cuts.partition_point(|&c| c <= cut.start).checked_sub(1)?;
        let end = self.cuts.partition_point(|&c| c < cut.end);
        let start = *self.grid_segments.get(first)?;
        Some(start..self.grid_segments.get(end).copied().unwrap_or(u32::MAX))
    }

    /// Samples or fragments of this track in segments of the grid; `None` where there are none.
    fn cut_of_grid(&self, grid: &Range<u32>) -> Option<Range<u32>> {
        let first = self.grid_segments.partition_point(|&g| g < grid.start);
        let end = self.grid_segments.partition_point(|&g| g < grid.end);
        (first < end).then_some(())?;
        Some(*self.cuts.get(first)?..*self.cuts.get(end)?)
    }
}
