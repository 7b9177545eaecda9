//! The sample table of a track.

use crate::table::{
    chunk_block::OneByOne,
    column::{Column, Values, unpacked::UnpackedValues},
    interleaving::interleave,
    layout::{ChunkPositions, Layout, SamplePositionsIter},
    presentation::Presentation,
    rice::BLOCK,
};
use std::{ops::Range, sync::Arc};

/// Largest number of samples of a track: 24 hours of 2.5 ms Opus packets, nearly twice over.
pub(crate) const MAX_SAMPLES: u32 = 1 << 26;

/// One sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Offset in bytes from the start of its object.
    pub offset: u64,
    /// Size in bytes.
    pub size: u32,
    /// Decode time in track ticks on the *output* media timeline, see [`Presentation`].
    pub decode_time: i64,
    /// Duration in track ticks: up to the next sample's decode time if that is known.
    pub duration: u32,
    /// Composition time minus decode time, in track ticks.
    pub composition_offset: i32,
    /// True for a sync sample, where decoding can start.
    pub sync: bool,
}

/// All samples of a track that play, packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SampleTable {
    /// The samples that play, as 0-based numbers of samples in the columns.
    pub(crate) window: Range<u32>,
    /// Decode time of the columns' first sample on the output timeline.
    pub(crate) first_decode_time: i64,
    pub(crate) durations: Column,
    /// Zigzag-coded composition offsets. `None` if all are 0.
    pub(crate) compositions: Option<Column>,
    pub(crate) composition_bounds: (i32, i32),
    /// Ticks added to every composition offset of the column, see
    /// [`SampleTable::lift_compositions`].
    pub(crate) composition_lift: i32,
    /// Positions of the samples of this track, and of other tracks if they are interleaved.
    pub(crate) layout: Arc<Layout>,
    pub(crate) track: usize,
    /// Number of the first sync sample, then the distances from one to the next. `None` if every
    /// sample is a sync sample.
    pub(crate) sync: Option<Column>,
}

impl SampleTable {
    /// Returns the number of samples that play.
    pub fn len(&self) -> u32 {
        self.window.end - self.window.start
    }

    /// Returns true if no samples play.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the samples of a range of indexes (0-based, decode order), clamped to the table.
    /// Seeking costs O(log n).
    pub fn range(&self, range: Range<u32>) -> impl Iterator<Item = Sample> + '_ {
        let range = self.in_columns(&range);
        let first = range.start;
        let (since, durations) = self.durations.seek(first);
        SamplesIter {
            number: first,
            end: range.end,
            decode_time: self.time_after(since),
            durations,
            compositions: self.compositions.as_ref().map(|c| c.iter_from(first)),
            composition_lift: self.composition_lift,
            positions: self.layout.positions_from(self.track, first),
            sync: self.sync_from_in_columns(first),
        }
    }

    /// Returns one sample by its index. O(log n).
    pub fn get(&self, index: u32) -> Option<Sample> {
        self.range(index..u32::MAX).next()
    }

    /// Returns this track's number in the layout, and the range of samples as the layout numbers
    /// them. `None` if the table does not have all of them.
    pub(crate) fn in_layout(&self, cut: Range<u32>) -> Option<(usize, Range<u32>)> {
        let number = |index: u32| self.window.start.checked_add(index).filter(|at| *at <= self.window.end);
        Some((self.track, number(cut.start)?..number(cut.end)?))
    }

    /// Returns the media bytes in a range of samples. O(log n).
    pub fn bytes_in(&self, range: Range<u32>) -> u64 {
        let range = self.in_columns(&range);
        let sum = |end| self.layout.track(self.track).map_or(0, |laid| laid.sizes.sum_before(end));
        // Sums of a damaged column may not ascend.
        sum(range.end).saturating_sub(sum(range.start))
    }

    /// Returns the decode time of a sample on the output timeline in track ticks, or the end of the
    /// last one if the index is beyond the end.
    pub fn decode_time(&self, index: u32) -> i64 {
        self.decode_time_in_columns(self.in_columns(&(index..index)).start)
    }

    /// Returns the composition time of a sample on the output timeline, in track ticks.
    pub fn composition_time(&self, index: u32) -> Option<i64> {
        let number = self.window.start.checked_add(index).filter(|number| *number < self.window.end)?;
        Some(self.decode_time_in_columns(number) + i64::from(self.composition_in_columns(number)))
    }

    /// Returns the first sync sample at or after `index`.
    pub fn sync_from(&self, index: u32) -> Option<u32> {
        let number = self.window.start.checked_add(index).filter(|number| *number < self.window.end)?;
        let found = match &self.sync {
            None => number,
            // Count the sync samples before `number`, then take the next one.
            Some(gaps) => {
                let passed = number.checked_sub(1).map_or(0, |before| gaps.find(before.into()));
                if passed >= gaps.len() {
                    return None;
                }
                u32::try_from(gaps.sum_before(passed + 1)).ok()?
            }
        };
        found.checked_sub(self.window.start).filter(|_| found < self.window.end)
    }

    /// Returns the last sync sample at or before `index`.
    pub fn sync_until(&self, index: u32) -> Option<u32> {
        let number = self.in_columns(&(index..index)).start.min(self.window.end.checked_sub(1)?);
        let found = match &self.sync {
            None => number,
            Some(gaps) => {
                let passed = gaps.find(number.into());
                if passed == 0 {
                    return None;
                }
                u32::try_from(gaps.sum_before(passed)).ok()?
            }
        };
        found.checked_sub(self.window.start)
    }

    /// Returns the number of sync samples before a sample.
    pub(crate) fn syncs_before(&self, index: u32) -> u32 {
        let number = self.in_columns(&(index..index)).start;
        number_of_syncs(self.sync.as_ref(), number).saturating_sub(self.hidden_syncs())
    }

    /// Returns the sync sample that `count` others precede.
    pub(crate) fn nth_sync(&self, count: u32) -> Option<u32> {
        let count = self.hidden_syncs().checked_add(count)?;
        let number = match &self.sync {
            None => count,
            Some(gaps) if count >= gaps.len() => return None,
            Some(gaps) => u32::try_from(gaps.sum_before(count + 1)).ok()?,
        };
        number.checked_sub(self.window.start).filter(|_| number < self.window.end)
    }

    /// Returns the number of sync samples in the columns before the first sample that plays.
    fn hidden_syncs(&self) -> u32 {
        number_of_syncs(self.sync.as_ref(), self.window.start)
    }

    /// Returns the number of samples whose decode time is at or before `time`, on the output
    /// timeline.
    pub fn decoded_until(&self, time: i64) -> u32 {
        let Ok(into) = u64::try_from(time - self.first_decode_time) else { return 0 };
        // `find` returns the last sample that starts by then, or the end of the table.
        let number = (self.durations.find(into) + 1).min(self.durations.len());
        number.clamp(self.window.start, self.window.end) - self.window.start
    }

    /// Returns the smallest and largest composition offset, in track ticks.
    pub fn composition_bounds(&self) -> (i32, i32) {
        self.composition_bounds
    }

    /// Returns the duration of each sample of a range in track ticks, if it is the same for all.
    pub fn constant_duration(&self, range: Range<u32>) -> Option<u32> {
        self.durations.constant_in(self.in_columns(&range))
    }

    /// Returns a number that the sync samples do not exceed.
    pub(crate) fn sync_count(&self) -> u32 {
        self.sync.as_ref().map_or(self.len(), |gaps| gaps.len().min(self.len()))
    }

    /// Returns true if every sample is a sync sample.
    pub fn all_sync(&self) -> bool {
        self.sync.is_none()
    }

    /// Returns true if samples may have the same bytes as others, as repetitions of a frame do.
    pub(crate) fn may_repeat(&self) -> bool {
        self.all_sync() && self.layout.is_unordered_alone()
    }

    /// Returns the number of bytes of memory this table holds.
    pub fn heap_bytes(&self) -> usize {
        let columns = [Some(&self.durations), self.compositions.as_ref(), self.sync.as_ref()];
        let columns: usize = columns.into_iter().flatten().map(Column::heap_bytes).sum();
        columns + self.layout.heap_bytes(self.track)
    }

    /// Sets the number of samples in each chunk, and the positions of the chunks.
    pub(crate) fn set_chunks(&mut self, chunk_samples: Column, chunks: ChunkPositions) {
        let track = self.track;
        if let Some(laid) = Arc::make_mut(&mut self.layout).tracks.get_mut(track) {
            (laid.chunk_samples, laid.chunks) = (chunk_samples, chunks);
        }
    }

    /// Keeps the values of the columns of sizes and composition offsets, as far as they are known.
    pub(crate) fn keep_values(
        &mut self,
        sizes: Vec<u32>,
        compositions: Vec<u32>,
        unpacked: &mut UnpackedValues,
    ) {
        if let Some(laid) = Arc::make_mut(&mut self.layout).tracks.get_mut(self.track) {
            unpacked.keep(&mut laid.sizes, sizes);
        }
        if let Some(column) = &mut self.compositions {
            unpacked.keep(column, compositions);
        }
    }

    /// Describes the positions of the samples of several tracks of an object relative to each
    /// other, if that is smaller.
    pub(crate) fn interleave(tables: &mut [&mut Self]) {
        let chunks = tables.iter().map(|table| table.layout.track(table.track)?.ascending_chunks());
        let chunks: Option<Vec<_>> = chunks.map(|chunks| chunks.map(OneByOne)).collect();
        let Some(positions) = chunks.and_then(interleave) else { return };
        for (table, chunks) in tables.iter_mut().zip(positions) {
            let track = table.track;
            if let Some(laid) = Arc::make_mut(&mut table.layout).tracks.get_mut(track) {
                laid.chunks = chunks;
            }
        }
        Self::share_layout(tables);
    }

    /// Joins the layouts of the tracks of an object, each of which has its own so far.
    pub(crate) fn share_layout(tables: &mut [&mut Self]) {
        let mut tracks = Vec::with_capacity(tables.len());
        for table in tables.iter_mut() {
            let alone = std::mem::take(&mut table.layout);
            let laid = match Arc::try_unwrap(alone) {
                Ok(mut layout) => layout.tracks.pop(),
                Err(layout) => layout.track(table.track).cloned(),
            };
            table.track = tracks.len();
            tracks.extend(laid);
        }
        let layout = Arc::new(Layout { tracks });
        tables.iter_mut().for_each(|table| table.layout = Arc::clone(&layout));
    }

    /// Keeps only a range of samples playing. Columns stay, since an edit list rarely hides much.
    pub(crate) fn keep(&mut self, range: Range<u32>) {
        self.window = self.in_columns(&range);
    }

    /// Moves all decode times by a number of track ticks.
    pub(crate) fn shift(&mut self, by: i64) {
        self.first_decode_time += by;
    }

    /// Raises all composition offsets by the smallest amount that leaves none negative, and returns
    /// that amount in track ticks. Every sample is then decoded no later than it is presented,
    /// which every container except MP4 requires.
    pub(crate) fn lift_compositions(&mut self) -> i32 {
        let (least, largest) = self.composition_bounds;
        // Offsets that differ by 2^31 or more stay as they are.
        let Some(lift) = least.min(0).checked_neg() else { return 0 };
        let Some(highest) = largest.checked_add(lift) else { return 0 };
        self.composition_bounds = (least + lift, highest);
        self.composition_lift = lift;
        lift
    }

    /// Returns decode time on the output timeline, duration and composition offset of the samples
    /// from `index` on, in track ticks.
    pub fn timing(&self, index: u32) -> impl Iterator<Item = (i64, u32, i32)> + '_ {
        let range = self.in_columns(&(index..u32::MAX));
        let mut decode_time = self.decode_time_in_columns(range.start);
        let mut durations = self.durations.iter_from(range.start);
        let mut compositions = self.compositions.as_ref().map(|c| c.bulk_from(range.start));
        let mut duration_block = [0; BLOCK];
        let mut composition_block = [0; BLOCK];
        let mut at = BLOCK;
        range.map(move |_| {
            if at == BLOCK {
                durations.fill(&mut duration_block);
                compositions.iter_mut().for_each(|values| _ = values.fill(&mut composition_block));
                at = 0;
            }
            let duration = duration_block.get(at).copied().unwrap_or(0);
            let packed = composition_block.get(at).copied().unwrap_or(0);
            at += 1;
            let timing = (decode_time, duration, composition(packed, self.composition_lift));
            decode_time += i64::from(duration);
            timing
        })
    }

    /// Returns the earliest start and the latest end of any sample that plays, in track ticks.
    pub(crate) fn presented(&self, presentation: &Presentation) -> Option<(i64, i64)> {
        if self.compositions.is_none() {
            let time = |index| presentation.time(self.decode_time(index), self.composition_lift);
            return (!self.is_empty()).then(|| (time(0), time(self.len())));
        }
        // Offsets are within bounds, so only samples near both ends can be the first and the last.
        let (least, largest) = self.composition_bounds;
        let spread = i64::from(largest) - i64::from(least);
        let time = |(decode_time, _, offset): (i64, u32, i32)| presentation.time(decode_time, offset);
        let first_decode_time = self.decode_time(0);
        let near_start = self.timing(0).take_while(|sample| sample.0 <= first_decode_time + spread);
        let start = near_start.map(time).min()?;
        let near_end = self.decoded_until(self.decode_time(u32::MAX) - spread).saturating_sub(1);
        let ends = self.timing(near_end).map(|sample| time(sample) + i64::from(sample.1));
        Some((start, ends.max()?))
    }

    pub(crate) fn in_columns(&self, range: &Range<u32>) -> Range<u32> {
        in_window(&self.window, range)
    }

    /// Returns the number of the next sync sample from `first` on, and the distances after it.
    /// `None` if every sample is a sync sample.
    pub(crate) fn sync_from_in_columns(&self, first: u32) -> Option<(Option<u64>, Values<'_>)> {
        let gaps = self.sync.as_ref()?;
        let passed = gaps.find(first.into());
        let last = gaps.sum_before(passed);
        // A sync sample at `first` itself is among those passed.
        let at_first = passed > 0 && last == u64::from(first);
        let mut gaps = gaps.iter_from(passed);
        let next = if at_first { Some(last) } else { gaps.next().map(|gap| last + u64::from(gap)) };
        Some((next, gaps))
    }

    pub(crate) fn decode_time_in_columns(&self, number: u32) -> i64 {
        self.time_after(self.durations.sum_before(number))
    }

    /// Returns the decode time that is `ticks` after that of the columns' first sample.
    pub(crate) fn time_after(&self, ticks: u64) -> i64 {
        self.first_decode_time + ticks.cast_signed()
    }

    fn composition_in_columns(&self, number: u32) -> i32 {
        let packed = self.compositions.as_ref().and_then(|c| c.get(number)).unwrap_or(0);
        composition(packed, self.composition_lift)
    }
}

/// Returns the number of sync samples before a number in the columns.
fn number_of_syncs(gaps: Option<&Column>, number: u32) -> u32 {
    match gaps {
        None => number,
        Some(gaps) => number.checked_sub(1).map_or(0, |before| gaps.find(before.into())),
    }
}

/// Returns a range of indexes of samples that play as numbers in the columns, clamped to `window`.
pub(crate) fn in_window(window: &Range<u32>, range: &Range<u32>) -> Range<u32> {
    let clamp = |index: u32| window.start.saturating_add(index).min(window.end);
    let start = clamp(range.start);
    start..clamp(range.end).max(start)
}

/// Decodes a composition offset from its form in the column, and adds the table's lift.
pub(crate) fn composition(packed: u32, lift: i32) -> i32 {
    // Equal to `unzigzag`, but in 32 bits, so that it is vectorised.
    let offset = (packed >> 1).cast_signed() ^ (packed & 1).cast_signed().wrapping_neg();
    // The sum only overflows in a damaged persisted table.
    offset.saturating_add(lift)
}

struct SamplesIter<'a> {
    number: u32,
    end: u32,
    decode_time: i64,
    durations: Values<'a>,
    compositions: Option<Values<'a>>,
    composition_lift: i32,
    positions: Option<SamplePositionsIter<'a>>,
    /// Number of the next sync sample, and the distances after it.
    sync: Option<(Option<u64>, Values<'a>)>,
}

impl Iterator for SamplesIter<'_> {
    type Item = Sample;

    fn next(&mut self) -> Option<Sample> {
        if self.number >= self.end {
            return None;
        }
        let (offset, size) = self.positions.as_mut()?.next()?;
        let duration = self.durations.next()?;
        let sync = match &mut self.sync {
            None => true,
            Some((next, gaps)) if *next == Some(self.number.into()) => {
                *next = gaps.next().map(|gap| u64::from(self.number) + u64::from(gap));
                true
            }
            Some(_) => false,
        };
        let packed = self.compositions.as_mut().and_then(Iterator::next).unwrap_or(0);
        let sample = Sample {
            offset,
            size,
            decode_time: self.decode_time,
            duration,
            composition_offset: composition(packed, self.composition_lift),
            sync,
        };
        self.number += 1;
        self.decode_time += i64::from(duration);
        Some(sample)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.end - self.number) as usize;
        (left, Some(left))
    }
}

#[cfg(test)]
#[path = "samples_tests.rs"]
pub(crate) mod tests;
