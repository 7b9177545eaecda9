//! The fragments of a track, packed.

use crate::table::{
    column::{Column, ColumnBuilder},
    positions::{Positions, PositionsBuilder},
};
use latemux_isobmff::Timescale;
use std::ops::Range;

/// One fragment of a track, or one `sidx` subsegment, which may hold several `moof`s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Start of its first `moof`, in bytes from the start of the object.
    pub offset: u64,
    /// Size in bytes, from its first `moof` to the end of its media.
    pub size: u64,
    /// Earliest presentation time in track ticks, after the edit list.
    pub start: i64,
    /// End of presentation in track ticks: the start of the next fragment if there is one.
    pub end: i64,
    /// True if it starts with a sync sample.
    pub sync: bool,
}

impl Fragment {
    /// Returns its byte range in the object.
    pub fn bytes(&self) -> Range<u64> {
        self.offset..self.offset + self.size
    }
}

/// Rates of a track's samples in the fragments that were read to check its index: the first, the
/// second and the middle one. They depend only on the object, so they are the same on every node.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SampleRates {
    /// Highest number of samples in 1000 seconds, 0 if it is not known.
    pub samples: u32,
    /// Highest number of sync samples in 1000 seconds.
    pub sync_samples: u32,
    /// Lowest number of media bytes per second.
    pub least_bytes: u32,
    /// Highest number of media bytes per second.
    pub most_bytes: u32,
}

impl SampleRates {
    /// Returns the rates of samples that last `ticks`. `None` if they have no duration.
    pub(crate) fn of(counts: SampleCounts, ticks: u64, scale: Timescale) -> Option<Self> {
        if ticks == 0 {
            return None;
        }
        let per_second = |count: u64, factor: u64| {
            let amount = u128::from(count) * u128::from(factor) * u128::from(scale.get());
            (amount / u128::from(ticks), amount.div_ceil(u128::from(ticks)))
        };
        let saturated = |rate: u128| u32::try_from(rate).unwrap_or(u32::MAX);
        let (least_bytes, most_bytes) = per_second(counts.bytes, 1);
        Some(Self {
            samples: saturated(per_second(counts.samples, 1000).1),
            sync_samples: saturated(per_second(counts.sync_samples, 1000).1),
            least_bytes: saturated(least_bytes),
            most_bytes: saturated(most_bytes),
        })
    }

    /// Returns the rates that cover both.
    pub(crate) fn with(self, other: Self) -> Self {
        Self {
            samples: self.samples.max(other.samples),
            sync_samples: self.sync_samples.max(other.sync_samples),
            least_bytes: self.least_bytes.min(other.least_bytes),
            most_bytes: self.most_bytes.max(other.most_bytes),
        }
    }
}

/// Samples of a track, counted.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SampleCounts {
    pub(crate) samples: u64,
    pub(crate) sync_samples: u64,
    pub(crate) bytes: u64,
}

/// A track's fragments in order, packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FragmentTable {
    pub(crate) first_start: i64,
    /// End of the last fragment's presentation, in track ticks.
    pub(crate) end: i64,
    pub(crate) reorder: u32,
    pub(crate) first_offset: i32,
    pub(crate) rates: SampleRates,
    /// Distance from each start to the next one, in track ticks.
    pub(crate) steps: Column,
    /// Time from each start to the presentation of the fragment's sync sample, in track ticks.
    /// `None` if all are 0.
    pub(crate) leads: Option<Column>,
    pub(crate) sizes: Column,
    pub(crate) positions: Positions,
    /// 1 for each fragment that starts with a sync sample, else 0.
    pub(crate) sync: Column,
}

impl FragmentTable {
    /// Returns the number of fragments.
    pub fn len(&self) -> u32 {
        self.sizes.len()
    }

    /// Returns true if there are no fragments.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the fragment at a 0-based index.
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

    /// Returns the start of a fragment's presentation, in track ticks.
    pub fn start(&self, index: u32) -> Option<i64> {
        (index < self.len()).then(|| self.first_start + self.steps.sum_before(index).cast_signed())
    }

    /// Returns the presentation time of the sync sample a fragment starts with, in track ticks. It
    /// is later than the start of the fragment if frames that are decoded after the sync sample are
    /// presented before it.
    pub fn sync_time(&self, index: u32) -> Option<i64> {
        let lead = self.leads.as_ref().and_then(|leads| leads.get(index)).unwrap_or(0);
        Some(self.start(index)? + i64::from(lead))
    }

    /// Returns the first fragment whose sync sample is presented at or after `time` (track ticks),
    /// or [`Self::len`] if there is none.
    pub fn synced_from(&self, time: i64) -> u32 {
        let mut index = self.starting_from(time);
        while let Some(before) =
            index.checked_sub(1).filter(|&i| self.sync_time(i).is_some_and(|t| t >= time))
        {
            index = before;
        }
        index
    }

    /// Returns the first fragment that starts at or after `time` (track ticks), or [`Self::len`].
    pub fn starting_from(&self, time: i64) -> u32 {
        let Some(before) = time.checked_sub(1).and_then(|t| t.checked_sub(self.first_start)) else {
            return 0;
        };
        // `find` returns the last fragment that starts before `time`.
        u64::try_from(before).map_or(0, |into| (self.steps.find(into) + 1).min(self.len()))
    }

    /// Returns the fragment whose first byte is at `offset` of the object, in O(log n). It relies
    /// on fragments lying in ascending order, as they do in practice, and may miss one otherwise.
    pub fn at(&self, offset: u64) -> Option<u32> {
        let position = |index: u32| self.positions.get(index, self.sizes.sum_before(index));
        let mut low = 0;
        let mut high = self.len();
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

    /// Returns the first fragment at or after `index` that starts with a sync sample.
    pub fn sync_from(&self, index: u32) -> Option<u32> {
        // Sums of this column count sync fragments. `find` returns the last index with that count
        // before it.
        let found = self.sync.find(self.sync.sum_before(index));
        (found < self.len()).then_some(found)
    }

    /// Returns the last fragment before `index` that starts with a sync sample.
    pub fn sync_before(&self, index: u32) -> Option<u32> {
        let count = self.sync.sum_before(index).checked_sub(1)?;
        Some(self.sync.find(count))
    }

    /// Iterates over the fragments of a range that start with a sync sample, with the presentation
    /// time of each in track ticks. O(log n) each.
    pub(crate) fn timed_syncs(&self, range: Range<u32>) -> impl Iterator<Item = (u32, i64)> + '_ {
        let found = (self.syncs_before(range.start)..).map_while(|count| self.nth_sync(count));
        let inside = found.take_while(move |&index| index < range.end);
        inside.filter_map(|index| Some((index, self.sync_time(index)?)))
    }

    /// Returns the number of fragments before `index` that start with a sync sample.
    pub(crate) fn syncs_before(&self, index: u32) -> u32 {
        u32::try_from(self.sync.sum_before(index)).unwrap_or(u32::MAX)
    }

    /// Returns the fragment with a sync sample that `count` others precede.
    pub(crate) fn nth_sync(&self, count: u32) -> Option<u32> {
        Some(self.sync.find(count.into())).filter(|&index| index < self.len())
    }

    /// Returns the end of the last fragment's presentation, in track ticks.
    pub fn end(&self) -> i64 {
        self.end
    }

    /// Returns how long before its presentation the first sample of a fragment must be decoded so
    /// that no sample is decoded after it is presented, in track ticks. It is the longest such time
    /// of the fragments that were read to check the index.
    pub fn reorder(&self) -> u32 {
        self.reorder
    }

    /// Returns the composition offset of the track's first sample in decode order, in track ticks.
    pub fn first_offset(&self) -> i32 {
        self.first_offset
    }

    /// Returns the rates of the samples in some of the fragments.
    pub fn rates(&self) -> SampleRates {
        self.rates
    }

    /// Returns the total size of all fragments in bytes.
    pub fn bytes(&self) -> u64 {
        self.sizes.total()
    }

    /// Returns the number of bytes of memory this table holds.
    pub fn heap_bytes(&self) -> usize {
        self.steps.heap_bytes()
            + self.leads.as_ref().map_or(0, Column::heap_bytes)
            + self.sizes.heap_bytes()
            + self.sync.heap_bytes()
            + self.positions.heap_bytes()
    }
}

#[derive(Debug, Default)]
pub(crate) struct FragmentTableBuilder {
    first_start: i64,
    last_start: Option<i64>,
    first_offset: i32,
    rates: SampleRates,
    steps: ColumnBuilder,
    leads: ColumnBuilder,
    any_leads: bool,
    sizes: ColumnBuilder,
    positions: PositionsBuilder,
    sync: ColumnBuilder,
}

impl FragmentTableBuilder {
    /// Appends a fragment and returns true. Appends nothing and returns false if it has 4 GiB or
    /// more, or does not start after the one before.
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

    pub(crate) fn first_offset(self, first_offset: i32) -> Self {
        Self { first_offset, ..self }
    }

    pub(crate) fn rates(self, rates: SampleRates) -> Self {
        Self { rates, ..self }
    }

    /// Returns the table. `end` and `reorder` are in track ticks.
    pub(crate) fn finish(mut self, end: i64, reorder: u32) -> FragmentTable {
        let last = self.last_start.unwrap_or(self.first_start);
        // There is one step for each start, so that the last fragment is found like the others.
        self.steps.push(u32::try_from(end - last).unwrap_or(0).max(1));
        FragmentTable {
            first_start: self.first_start,
            end: end.max(last),
            reorder,
            first_offset: self.first_offset,
            rates: self.rates,
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

    #[test]
    fn rates_of_hostile_samples_are_bounded() {
        let counts = SampleCounts { samples: 3, sync_samples: 1, bytes: 1000 };
        assert_eq!(SampleRates::of(counts, 0, Timescale::MILLIS), None);
        let of = |counts, ticks| SampleRates::of(counts, ticks, Timescale::MILLIS).unwrap();
        let usual = SampleRates { samples: 1501, sync_samples: 501, least_bytes: 500, most_bytes: 501 };
        assert_eq!(of(counts, 1999), usual);
        let most = SampleCounts { samples: u64::MAX, sync_samples: u64::MAX, bytes: u64::MAX };
        let largest = of(most, 1);
        assert_eq!((largest.samples, largest.most_bytes), (u32::MAX, u32::MAX));
        assert_eq!(of(SampleCounts::default(), u64::MAX), SampleRates::default());
        assert_eq!(usual.with(largest), SampleRates { least_bytes: 500, ..largest });
    }

    proptest! {
        #[test]
        fn behaves_like_a_vector(
            rows in prop::collection::vec((0..3_000_u64, 1..500_000_u64, 1..200_000_i64, any::<bool>()), 1..400),
            lead in 0..200_000_i64,
            first in -90_000..90_000_i64,
            at in any::<prop::sample::Index>(),
        ) {
            let mut offset = 0;
            let mut start = first;
            let mut fragments: Vec<Fragment> = rows.iter().map(|&(gap, size, duration, sync)| {
                let fragment = Fragment { offset: offset + gap, size, start, end: start + duration, sync };
                (offset, start) = (offset + gap + size, fragment.end);
                fragment
            }).collect();
            let mut builder = FragmentTableBuilder::default();
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
