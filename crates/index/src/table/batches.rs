//! Reading a whole sample table in batches, column by column. This is many times faster than sample
//! by sample for sums of sizes and durations. It leaves out the positions of samples.

use crate::table::{
    column::{BulkValues, Values},
    samples::{SampleTable, composition, in_window},
};
use std::ops::Range;

/// Consecutive samples, column by column. All slices that are present have the same length.
#[derive(Debug, Clone, Copy)]
pub struct SampleBatch<'a> {
    /// Decode time of the first sample on the output timeline, in track ticks.
    pub decode_time: i64,
    /// Sizes in bytes.
    pub sizes: &'a [u32],
    /// Durations in track ticks.
    pub durations: &'a [u32],
    /// Composition times minus decode times, in track ticks. Empty after
    /// [`SampleBatches::without_compositions`].
    pub composition_offsets: &'a [i32],
    /// True for each sync sample.
    pub sync: &'a [bool],
}

impl SampleBatch<'_> {
    /// Returns a reader of single samples, from the first one on.
    pub fn one_by_one(&self) -> OneByOne<'_> {
        OneByOne { batch: self, index: 0, decode_time: self.decode_time }
    }
}

/// Reads single samples of a batch in order. In all, it adds each duration at most once, however
/// many samples are read.
#[derive(Debug)]
pub struct OneByOne<'a> {
    batch: &'a SampleBatch<'a>,
    /// The sample whose decode time is `decode_time`.
    index: usize,
    decode_time: i64,
}

impl<'a> OneByOne<'a> {
    /// Returns the sample at a 0-based index alone, or an empty batch if there is none. The index
    /// must not be below that of the call before.
    pub fn get(&mut self, index: usize) -> SampleBatch<'a> {
        debug_assert!(index >= self.index, "samples are read in order");
        let between = self.batch.durations.get(self.index..index).unwrap_or_default();
        self.decode_time += between.iter().map(|&duration| i64::from(duration)).sum::<i64>();
        self.index = index;
        SampleBatch {
            decode_time: self.decode_time,
            sizes: one_of(self.batch.sizes, index),
            durations: one_of(self.batch.durations, index),
            composition_offsets: one_of(self.batch.composition_offsets, index),
            sync: one_of(self.batch.sync, index),
        }
    }
}

fn one_of<T>(values: &[T], index: usize) -> &[T] {
    values.get(index..=index).unwrap_or_default()
}

/// Reads the batches between cuts in order.
#[derive(Debug)]
pub struct SampleBatches<'a> {
    /// The remaining cuts, as indexes of samples that play.
    cuts: &'a [u32],
    window: Range<u32>,
    decode_time: i64,
    durations: Values<'a>,
    sizes: Option<BulkValues<'a>>,
    compositions: Option<BulkValues<'a>>,
    composition_lift: i32,
    with_compositions: bool,
    /// Number of the next sync sample in the columns, and the distances from each to the next one.
    /// `None` if every sample is a sync sample.
    sync: Option<(Option<u64>, Values<'a>)>,
    read: BatchBuffers,
}

/// Number of samples up to which the samples of several batches are read together, which is faster
/// for batches of few samples.
const TOGETHER: u32 = 1024;

/// The values of one batch or of several in a row.
#[derive(Debug, Default)]
struct BatchBuffers {
    /// Numbers in the columns of the samples that have been read. They end at a cut.
    numbers: Range<u32>,
    sizes: Vec<u32>,
    durations: Vec<u32>,
    packed: Vec<u32>,
    composition_offsets: Vec<i32>,
    sync: Vec<bool>,
}

impl SampleTable {
    /// Returns the samples from each of `cuts` (0-based indexes, ascending) to the next cut. A
    /// batch is clamped to the table.
    pub fn batches<'a>(&'a self, cuts: &'a [u32]) -> SampleBatches<'a> {
        let first = in_window(&self.window, &(cuts.first().copied().unwrap_or(0)..u32::MAX)).start;
        SampleBatches {
            cuts,
            window: self.window.clone(),
            decode_time: self.decode_time_in_columns(first),
            durations: self.durations.iter_from(first),
            sizes: self.layout.track(self.track).map(|laid| laid.sizes.bulk_from(first)),
            compositions: self.compositions.as_ref().map(|column| column.bulk_from(first)),
            composition_lift: self.composition_lift,
            with_compositions: true,
            sync: self.sync_from_in_columns(first),
            read: BatchBuffers::default(),
        }
    }
}

/// Reads single samples in order, each as a batch.
#[derive(Debug)]
pub struct SingleSamples<'a> {
    window_start: u32,
    /// Number in the columns of the first sample that has not been read, and its decode time.
    number: u32,
    decode_time: i64,
    end: u32,
    durations: Values<'a>,
    sizes: Values<'a>,
    compositions: Option<Values<'a>>,
    composition_lift: i32,
    /// Like that of [`SampleBatches`].
    sync: Option<(Option<u64>, Values<'a>)>,
    size: [u32; 1],
    duration: [u32; 1],
    composition_offset: [i32; 1],
    is_sync: [bool; 1],
}

impl SampleTable {
    /// Returns a reader of single samples from an index on. This costs as much as reading the
    /// columns up to the last of them once. `None` for a table without sizes.
    pub fn singles_from(&self, index: u32) -> Option<SingleSamples<'_>> {
        let Range { start, end } = in_window(&self.window, &(index..u32::MAX));
        Some(SingleSamples {
            window_start: self.window.start,
            number: start,
            decode_time: self.decode_time_in_columns(start),
            end,
            durations: self.durations.iter_from(start),
            sizes: self.layout.track(self.track)?.sizes.iter_from(start),
            compositions: self.compositions.as_ref().map(|column| column.iter_from(start)),
            composition_lift: self.composition_lift,
            sync: self.sync_from_in_columns(start),
            size: [0],
            duration: [0],
            composition_offset: [0],
            is_sync: [true],
        })
    }
}

impl SingleSamples<'_> {
    /// Returns the sample with an index. `None` beyond the end, and for samples before the last one
    /// that was read.
    pub fn get(&mut self, index: u32) -> Option<SampleBatch<'_>> {
        let number = self.window_start.checked_add(index).filter(|number| *number < self.end)?;
        let skipped = number.checked_sub(self.number)?;
        self.sizes.skip_next(skipped);
        self.size = [self.sizes.next().unwrap_or(0)];
        let mut packed = 0;
        if let Some(compositions) = &mut self.compositions {
            compositions.skip_next(skipped);
            packed = compositions.next().unwrap_or(0);
        }
        self.composition_offset = [composition(packed, self.composition_lift)];
        let decode_time = self.decode_time + self.durations.sum_next(skipped).cast_signed();
        self.duration = [self.durations.next().unwrap_or(0)];
        if let Some((next, gaps)) = &mut self.sync {
            while let Some(before) = next.filter(|&next| next < u64::from(number)) {
                *next = gaps.next().map(|gap| before + u64::from(gap));
            }
            self.is_sync = [*next == Some(number.into())];
        }
        let [duration] = self.duration;
        self.decode_time = decode_time + i64::from(duration);
        self.number = number + 1;
        Some(SampleBatch {
            decode_time,
            sizes: &self.size,
            durations: &self.duration,
            composition_offsets: &self.composition_offset,
            sync: &self.is_sync,
        })
    }
}

impl SampleBatches<'_> {
    /// Leaves composition offsets out, which saves half of the work.
    #[must_use]
    pub fn without_compositions(mut self) -> Self {
        self.with_compositions = false;
        self
    }

    /// Returns the next batch, or `None` after the last cut.
    pub fn next_batch(&mut self) -> Option<SampleBatch<'_>> {
        let (&[start, end], rest) = (self.cuts.first_chunk()?, self.cuts.get(1..)?);
        self.cuts = rest;
        let Range { start, end } = in_window(&self.window, &(start..end));
        if end > self.read.numbers.end {
            self.read_from(start, end);
        }
        let at = start.saturating_sub(self.read.numbers.start) as usize;
        let batch = self.read.part(at..at + (end - start) as usize);
        let decode_time = self.decode_time;
        let duration: u64 = batch.durations.iter().map(|&duration| u64::from(duration)).sum();
        self.decode_time = decode_time + duration.cast_signed();
        Some(SampleBatch { decode_time, ..batch })
    }

    /// Reads the samples up to `end`, a number in the columns, and those of further batches.
    fn read_from(&mut self, start: u32, end: u32) {
        let cuts = self.cuts.iter().map(|&cut| in_window(&self.window, &(cut..cut)).start);
        let together = cuts.take_while(|cut| cut.saturating_sub(start) <= TOGETHER).last();
        let end = together.map_or(end, |cut| cut.max(end));
        let len = (end - start) as usize;
        let BatchBuffers { numbers, sizes, durations, packed, composition_offsets, sync } = &mut self.read;
        *numbers = start..end;

        let fill = |values: &mut BulkValues<'_>, buffer: &mut Vec<u32>| {
            buffer.resize(len, 0);
            let filled = values.fill(buffer);
            buffer.get_mut(filled..).unwrap_or_default().fill(0);
        };
        durations.resize(len, 0);
        let filled = self.durations.fill(durations);
        durations.get_mut(filled..).unwrap_or_default().fill(0);
        sizes.clear();
        match &mut self.sizes {
            Some(values) => fill(values, sizes),
            None => sizes.resize(len, 0),
        }
        composition_offsets.clear();
        match &mut self.compositions {
            _ if !self.with_compositions => {}
            Some(values) => {
                fill(values, packed);
                let offset = |&packed: &u32| composition(packed, self.composition_lift);
                composition_offsets.extend(packed.iter().map(offset));
            }
            None => composition_offsets.resize(len, self.composition_lift),
        }
        sync.clear();
        sync.resize(len, self.sync.is_none());
        if let Some((next, gaps)) = &mut self.sync {
            while let Some(number) = next.filter(|&number| number < u64::from(end)) {
                let at = number.checked_sub(start.into()).and_then(|at| usize::try_from(at).ok());
                if let Some(sync) = at.and_then(|at| sync.get_mut(at)) {
                    *sync = true;
                }
                *next = gaps.next().map(|gap| number + u64::from(gap));
            }
        }
    }
}

impl BatchBuffers {
    /// Returns the values at some positions. The decode time is left out.
    fn part(&self, range: Range<usize>) -> SampleBatch<'_> {
        SampleBatch {
            decode_time: 0,
            sizes: self.sizes.get(range.clone()).unwrap_or_default(),
            durations: self.durations.get(range.clone()).unwrap_or_default(),
            composition_offsets: self.composition_offsets.get(range.clone()).unwrap_or_default(),
            sync: self.sync.get(range).unwrap_or_default(),
        }
    }
}
