//! The points of a track from which decoding can start, counted.

use super::{Samples, Track};
use std::ops::Range;

impl Track {
    /// Returns the number of sync samples, or of fragments that start with one, before a sample or
    /// fragment. O(log n).
    pub fn syncs_before(&self, index: u32) -> u32 {
        match &self.samples {
            Samples::Table(table) => table.syncs_before(index),
            Samples::Fragments(table) => table.syncs_before(index),
        }
    }

    /// Returns the sync sample, or the fragment that starts with one, that `count` others precede.
    /// O(log n).
    pub fn nth_sync(&self, count: u32) -> Option<u32> {
        match &self.samples {
            Samples::Table(table) => table.nth_sync(count),
            Samples::Fragments(table) => table.nth_sync(count),
        }
    }

    /// Iterates over the sync samples, or fragments that start with one, of a range of samples or
    /// fragments, with the presentation time of each in track ticks. Tables are read by columns:
    /// this costs as much as reading the durations and composition offsets of the range once.
    pub fn timed_syncs(&self, range: Range<u32>) -> Box<dyn Iterator<Item = (u32, i64)> + '_> {
        match &self.samples {
            Samples::Table(table) => {
                let media_time = self.presentation.media_time;
                Box::new(table.composed_syncs(range).map(move |(index, time)| (index, time - media_time)))
            }
            Samples::Fragments(table) => Box::new(table.timed_syncs(range)),
        }
    }

    /// Returns the presentation time in track ticks of a sync sample, or of the one that a fragment
    /// starts with.
    pub fn sync_time(&self, index: u32) -> Option<i64> {
        match &self.samples {
            Samples::Table(table) => Some(table.composition_time(index)? - self.presentation.media_time),
            Samples::Fragments(table) => table.sync_time(index),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::table::column::Column;

    #[test]
    fn counts_of_columns_agree_with_a_walk() {
        // Flags of fragments: 1 for each that starts with a sync sample.
        let flags: Column = [1_u32, 0, 0, 1, 1, 0, 1, 0].into_iter().collect();
        assert_eq!((0..=8).map(|i| flags.sum_before(i)).collect::<Vec<_>>(), [0, 1, 1, 1, 2, 3, 3, 4, 4]);
        assert_eq!((0..5).map(|sum| flags.find(sum)).collect::<Vec<_>>(), [0, 3, 4, 6, 8]);
    }
}
