//! The fragments of a track, packed.

use crate::table::{
    column::{Column, ColumnBuilder},
    positions::{Positions, PositionsBuilder},
};
use std::ops::Range;

/// One fragment (or `sidx` subsegment, which may hold several `moof`s) of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Bytes from the start of the object: from its first `moof` to the end of its media.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Earliest presentation time in track ticks, after the edit list.
    pub start: i64,
    /// End of presentation in track ticks; the next one's start where there is one.
    pub end: i64,
    /// Starts with a sync sample.
    pub sync: bool,
}

impl Fragment {
    /// Where it lies in its object.
    #[must_use]
    pub fn bytes(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.size)
    }
}

/// A track's fragments in order, packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FragmentTable {
    pub(crate) first_start: i64,
    /// End of the last one.
    pub(crate) end: i64,
    /// See [`Self::reorder`].
    pub(crate) reorder: u32,
    /// See [`Self::first_offset`].
    pub(crate) first_offset: i32,
    /// From each start to the next one, in track ticks.
    pub(crate) steps: Column,
    /// From each start to when its sync sample is presented, in track ticks; `None` where that is no time at all.
    pub(crate) leads: Option<Column>,
    pub(crate) sizes: Column,
    pub(crate) positions: Positions,
    /// 1 where a fragment starts with a sync sample.
    pub(crate) sync: Column,
}

impl FragmentTable {
    /// Number of fragments.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.sizes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// The fragment at an index (0-based).
    #[must_use]
    pub fn get(&self, index: u32) -> Option<Fragment> {
        let size = self.sizes.get(index)?;
        let start = self.start(index)?;
        Some(Fragment {
            offset: self.positions.get(index, self.sizes.sum_before(index)),
            size: size.into(),
            start,
            end: self.start(index + 1).unwrap_or(self.end),
            sync: self.sync.get(index) == Some(1),
        })
    }

    /// Where a fragment's presentation starts, in track ticks.
    #[must_use]
    pub fn start(&self, index: u32) -> Option<i64> {
        let since = i64::try_from(self.steps.sum_before(index)).unwrap_or(i64::MAX);
        (index < self.len()).then(|| self.first_start.saturating_add(since))
    }

    /// When the sync sample a fragment starts with is presented, in track ticks: where pictures that are decoded after it are presented before
    /// it, later than the start.
    #[must_use]
    pub fn sync_time(&self, index: u32) -> Option<i64> {
        let lead = self.leads.as_ref().and_then(|leads| leads.get(index)).unwrap_or(0);
        Some(self.start(index)?.saturating_add(lead.into()))
    }

    /// The first fragment whose sync sample is presented at or after `time` (track ticks); [`Self::len`] where none is.
    #[must_use]
    pub fn synced_from(&self, time: i64) -> u32 {
        let mut index = self.starting_from(time);
        while let Some(before) =
            index.checked_sub(1).filter(|&i| self.sync_time(i).is_some_and(|t| t >= time))
        {
            index = before;
        }
        index
    }

    /// The first fragment that starts at or after `time` (track ticks); [`Self::len`] where none does.
    #[must_use]
    pub fn starting_from(&self, time: i64) -> u32 {
        let Some(before) = time.checked_sub(1).and_then(|t| t.checked_sub(self.first_start)) else {
            return 0;
        };
        // `find` gives the last one that starts before `time`.
        u64::try_from(before).map_or(0, |into| self.steps.find(into).saturating_add(1).min(self.len()))
    }

    /// The fragment whose first byte is at `offset` of the object. O(log n) where fragments lie in order, as they do.
    #[must_use]
    pub fn at(&self, offset: u64) -> Option<u32> {
        let position = |index: u32| self.positions.get(index, self.sizes.sum_before(index));
        let (mut low, mut high) = (0, self.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if position(middle) < offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        (low < self.len() && position(low) == offset).then_some(low)
    }

    /// The first fragment at or after `index` that starts with a sync sample.
    #[must_use]
    pub fn sync_from(&self, index: u32) -> Option<u32> {
        // The sum counts sync fragments: `find` gives the last index before which there are no more of them.
        let found = self.sync.find(self.sync.sum_before(index));
        (found < self.len()).then_some(found)
    }

    /// The last fragment before `index` that starts with a sync sample.
    #[must_use]
    pub fn sync_before(&self, index: u32) -> Option<u32> {
        let count = self.sync.sum_before(index).checked_sub(1)?;
        Some(self.sync.find(count))
    }

    /// End of the last fragment's presentation, in track ticks.
    #[must_use]
    pub fn end(&self) -> i64 {
        self.end
    }

    /// How long before its presentation the first sample of a fragment must be decoded, so that none is decoded after it is presented,
    /// in track ticks: the longest of the fragments that were looked into to find the index.
    #[must_use]
    pub fn reorder(&self) -> u32 {
        self.reorder
    }

    /// Composition offset of the first sample in decode order, in track ticks.
    #[must_use]
    pub fn first_offset(&self) -> i32 {
        self.first_offset
    }

    /// Bytes of all fragments.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.sizes.total()
    }

    /// Bytes of memory this table holds.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.steps.heap_bytes()
            + self.leads.as_ref().map_or(0, Column::heap_bytes)
            + self.sizes.heap_bytes()
            + self.sync.heap_bytes()
            + self.positions.heap_bytes()
    }
}

/// Builds a [`FragmentTable`] fragment by fragment.
#[derive(Debug)]
pub(crate) struct FragmentTableBuilder {
    first_start: i64,
    last_start: Option<i64>,
    first_offset: i32,
    steps: ColumnBuilder,
    leads: ColumnBuilder,
    any_leads: bool,
    sizes: ColumnBuilder,
    positions: PositionsBuilder,
    sync: ColumnBuilder,
}

impl FragmentTableBuilder {
    pub(crate) fn new() -> Self {
        Self {
            first_start: 0,
            last_start: None,
            first_offset: 0,
            steps: ColumnBuilder::default(),
            leads: ColumnBuilder::default(),
            any_leads: false,
            sizes: ColumnBuilder::default(),
            positions: PositionsBuilder::new(),
            sync: ColumnBuilder::default(),
        }
    }

    /// Appends a fragment. False, and nothing is appended, where it is larger than 4 GiB, or does not start after the one before.
    #[must_use]
    pub(crate) fn push(&mut self, offset: u64, size: u64, start: i64, lead: i64, sync: bool) -> bool {
        let Ok(size) = u32::try_from(size) else { return false };
        match self.last_start {
            None => self.first_start = start,
            Some(last) => {
                let step = start.checked_sub(last).and_then(|step| u32::try_from(step).ok());
                match step {
                    Some(step) if step > 0 => self.steps.push(step),
                    _ => return false,
                }
            }
        }
        self.last_start = Some(start);
        let lead = u32::try_from(lead).unwrap_or(0);
        self.leads.push(lead);
        self.any_leads |= lead > 0;
        self.sizes.push(size);
        self.positions.push(offset, size.into());
        self.sync.push(sync.into());
        true
    }

    /// Notes [`FragmentTable::first_offset`].
    pub(crate) fn first_offset(self, first_offset: i32) -> Self {
        Self { first_offset, ..self }
    }

    /// The table; `end` and `reorder` in track ticks.
    pub(crate) fn finish(mut self, end: i64, reorder: u32) -> FragmentTable {
        let last = self.last_start.unwrap_or(self.first_start);
        // One step more than starts, so that the last fragment is found like the others.
        self.steps.push(u32::try_from(end.saturating_sub(last)).unwrap_or(0).max(1));
        FragmentTable {
            first_start: self.first_start,
            end: end.max(last),
            reorder,
            first_offset: self.first_offset,
            steps: self.steps.finish(),
            leads: self.any_leads.then(|| self.leads.finish()),
            sizes: self.sizes.finish(),
            positions: self.positions.finish(),
            sync: self.sync.finish(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_like_a_vector(
            rows in prop::collection::vec((0..3_000_u64, 1..500_000_u64, 1..200_000_i64, any::<bool>()), 1..400),
            lead in 0..200_000_i64,
            first in -90_000..90_000_i64,
            at in any::<prop::sample::Index>(),
        ) {
            let (mut offset, mut start) = (0, first);
            let mut fragments: Vec<Fragment> = rows.iter().map(|&(gap, size, duration, sync)| {
                let fragment = Fragment { offset: offset + gap, size, start, end: start + duration, sync };
                (offset, start) = (offset + gap + size, fragment.end);
                fragment
            }).collect();
            let mut builder = FragmentTableBuilder::new();
            let lead_of = |f: &Fragment| lead.min(f.end - f.start - 1);
            for f in &fragments {
                prop_assert!(builder.push(f.offset, f.size, f.start, lead_of(f), f.sync));
            }
            prop_assert!(!builder.push(offset, 1, fragments.last().unwrap().start, 0, true));
            let table = builder.finish(start, 0);
            let all: Vec<Fragment> = (0..table.len()).map(|i| table.get(i).unwrap()).collect();
            prop_assert_eq!(&all, &fragments);
            prop_assert_eq!(table.get(table.len()), None);

            let i = at.index(fragments.len());
            let index = u32::try_from(i).unwrap();
            for time in [fragments[i].start - 1, fragments[i].start, fragments[i].start + 1] {
                let model = fragments.partition_point(|f| f.start < time);
                prop_assert_eq!(table.starting_from(time) as usize, model);
                let model = fragments.partition_point(|f| f.start + lead_of(f) < time);
                prop_assert_eq!(table.synced_from(time) as usize, model);
            }
            let next = fragments[i..].iter().position(|f| f.sync).map(|n| n + i);
            prop_assert_eq!(table.sync_from(index).map(|n| n as usize), next);
            prop_assert_eq!(table.at(fragments[i].offset), Some(index));
            fragments.truncate(i);
            let before = fragments.iter().rposition(|f| f.sync);
            prop_assert_eq!(table.sync_before(index).map(|n| n as usize), before);
        }
    }
}
