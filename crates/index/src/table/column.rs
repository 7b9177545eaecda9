//! Packed columns of numbers: the entries of a sample table in memory.

mod build;
mod bulk;
pub(crate) mod unpacked;
mod values;

pub(crate) use build::ColumnBuilder;
pub(crate) use bulk::BulkValues;
pub(crate) use values::Values;

use crate::table::rice::{BLOCK, BlockReader};
use std::ops::Range;
use unpacked::UnpackedLink;
use values::{Block, ValuesState};

/// [`BLOCK`] as `u32`, to count values with.
const BLOCK_LEN: u32 = 64;
const _: () = assert!(BLOCK_LEN as usize == BLOCK && STRIDE.is_multiple_of(BLOCK_LEN));

/// Number of values between two directory entries: a seek decodes at most that many.
pub(crate) const STRIDE: u32 = 256;

/// A column of `u32` values: a constant, runs, or blocks of 64 Rice-coded values, whichever is
/// smallest. Reading one value costs O(log n), and reading on from there O(1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column(pub(crate) ColumnEncoding);

/// The encodings of a column. All but constants are boxed: most columns of a short title are
/// constant, and a boxed encoding keeps a column at 16 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ColumnEncoding {
    Constant { len: u32, value: u32 },
    Runs(Box<Runs>),
    Packed(Box<Packed>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Runs {
    pub(crate) len: u32,
    /// Runs by ascending start, the first from 0 on. Neighbours have different values.
    pub(crate) runs: Box<[Run]>,
}

/// Blocks of Rice codes, with one directory entry for every [`STRIDE`] values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) len: u32,
    pub(crate) directory: Box<[DirectoryEntry]>,
    pub(crate) stream: Box<[u8]>,
    pub(crate) total: u64,
    pub(crate) unpacked: UnpackedLink,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) start: u32,
    pub(crate) value: u32,
    /// Sum of all values before it.
    pub(crate) before: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DirectoryEntry {
    /// Sum of all values before the entry, split so that an entry takes 12 bytes, not 16.
    pub(crate) before: [u32; 2],
    /// Offset in the stream of the entry's first block, in bytes.
    pub(crate) byte: u32,
}

impl DirectoryEntry {
    pub(crate) fn before(self) -> u64 {
        u64::from(self.before[0]) << 32 | u64::from(self.before[1])
    }
}

impl Column {
    pub(crate) fn len(&self) -> u32 {
        match &self.0 {
            ColumnEncoding::Constant { len, .. } => *len,
            ColumnEncoding::Runs(form) => form.len,
            ColumnEncoding::Packed(form) => form.len,
        }
    }

    pub(crate) fn get(&self, index: u32) -> Option<u32> {
        self.iter_from(index).next()
    }

    /// Returns the values from an index on, none if it is beyond the end.
    pub(crate) fn iter_from(&self, index: u32) -> Values<'_> {
        if let ColumnEncoding::Packed(form) = &self.0
            && let Some(values) = form.unpacked.get()
        {
            let left = form.len.saturating_sub(index);
            let state = ValuesState::Unpacked { values, index: index as usize };
            return Values { left, state, block: Block::default() };
        }
        self.seek(index).1
    }

    /// Returns [`Self::sum_before`] and [`Self::iter_from`] for little more than the cost of one.
    pub(crate) fn seek(&self, index: u32) -> (u64, Values<'_>) {
        let len = self.len();
        let index = index.min(len);
        let left = len - index;
        match &self.0 {
            ColumnEncoding::Constant { value, .. } => {
                let state = ValuesState::Run { value: *value, count: left, next: [].iter(), len };
                (u64::from(*value) * u64::from(index), Values { left, state, block: Block::default() })
            }
            ColumnEncoding::Runs(form) => {
                let runs = &form.runs;
                let at = runs.partition_point(|run| run.start <= index) - 1;
                let mut next = runs.get(at..).unwrap_or_default().iter();
                let run = next.next();
                let end = next.as_slice().first().map_or(len, |run| run.start);
                let value = run.map_or(0, |run| run.value);
                let before =
                    run.map_or(0, |run| run.before + u64::from(value) * u64::from(index - run.start));
                let state = ValuesState::Run { value, count: end - index, next, len };
                (before, Values { left, state, block: Block::default() })
            }
            ColumnEncoding::Packed(form) => {
                let Packed { directory, stream, total, .. } = &**form;
                let Some(entry) = directory.get((index / STRIDE) as usize).filter(|_| left > 0) else {
                    let state = ValuesState::Run { value: 0, count: 0, next: [].iter(), len };
                    return (*total, Values { left: 0, state, block: Block::default() });
                };
                let mut blocks = BlockReader::new(stream, entry.byte as usize);
                let into_block = index % BLOCK_LEN;
                let before = entry.before().wrapping_add(blocks.sum(index % STRIDE - into_block));
                let state = ValuesState::Blocks { blocks, stream, directory, index: index - into_block };
                let mut values = Values { left: left + into_block, state, block: Block::default() };
                // No sum of a damaged column is larger than the total, which has been checked.
                (before.wrapping_add(values.skip_in_block(into_block)).min(*total), values)
            }
        }
    }

    /// Returns the sum of all values before an index, or of all values if it is beyond the end.
    pub(crate) fn sum_before(&self, index: u32) -> u64 {
        let index = index.min(self.len());
        match &self.0 {
            ColumnEncoding::Constant { value, .. } => u64::from(*value) * u64::from(index),
            ColumnEncoding::Runs(form) => {
                let at = form.runs.partition_point(|run| run.start <= index) - 1;
                form.runs
                    .get(at)
                    .map_or(0, |run| run.before + u64::from(run.value) * u64::from(index - run.start))
            }
            ColumnEncoding::Packed(form) if index == form.len => form.total,
            ColumnEncoding::Packed(form) => {
                let first = index - index % STRIDE;
                let Some(entry) = form.directory.get((index / STRIDE) as usize) else { return form.total };
                let sum = BlockReader::new(&form.stream, entry.byte as usize).sum(index - first);
                entry.before().wrapping_add(sum).min(form.total)
            }
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.sum_before(self.len())
    }

    /// Returns the largest index, at most [`Self::len`], with `sum_before(index) <= sum`.
    pub(crate) fn find(&self, sum: u64) -> u32 {
        let len = self.len();
        let clamp = |index: u64| u32::try_from(index).map_or(len, |i| i.min(len));
        match &self.0 {
            ColumnEncoding::Constant { value, .. } => sum.checked_div((*value).into()).map_or(len, clamp),
            ColumnEncoding::Runs(form) => {
                let runs = &form.runs;
                let at = runs.partition_point(|run| run.before <= sum) - 1;
                let end = runs.get(at + 1).map_or(len, |run| run.start);
                runs.get(at).map_or(0, |run| {
                    let steps = (sum - run.before).checked_div(run.value.into());
                    steps.map_or(end, |s| clamp(u64::from(run.start) + s).min(end))
                })
            }
            ColumnEncoding::Packed(form) => {
                let Some((at, before)) = form.entry_of_sum(sum) else { return len };
                let Some(mut values) = form.read_entry(at) else { return len };
                values.skip_until(before, sum);
                len - values.left
            }
        }
    }

    /// Returns [`Self::find`], with [`Self::sum_before`] and [`Self::iter_from`] at that index, for
    /// little more than the cost of one of them.
    pub(crate) fn seek_sum(&self, sum: u64) -> (u32, u64, Values<'_>) {
        if let ColumnEncoding::Packed(form) = &self.0
            && let Some((at, before)) = form.entry_of_sum(sum)
            && let Some(mut values) = form.read_entry(at)
        {
            let before = values.skip_until(before, sum);
            return (self.len() - values.left, before, values);
        }
        let index = self.find(sum);
        let (before, values) = self.seek(index);
        (index, before, values)
    }

    /// Returns the value that all entries of a range share. `None` if they differ, or if the range
    /// is empty.
    pub(crate) fn constant_in(&self, range: Range<u32>) -> Option<u32> {
        let count = range.end.min(self.len()).checked_sub(range.start)?;
        match &self.0 {
            ColumnEncoding::Constant { value, .. } => (count > 0).then_some(*value),
            ColumnEncoding::Runs(form) => {
                // Neighbouring runs have different values.
                let of = |index: u32| form.runs.partition_point(|run| run.start <= index).checked_sub(1);
                let first = of(range.start)?;
                let last = of(range.start + count.checked_sub(1)?)?;
                (first == last).then(|| form.runs.get(first).map(|run| run.value))?
            }
            ColumnEncoding::Packed(_) => {
                let mut values = self.iter_from(range.start).take(count as usize);
                let first = values.next()?;
                values.all(|value| value == first).then_some(first)
            }
        }
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            ColumnEncoding::Constant { .. } => 0,
            ColumnEncoding::Runs(form) => size_of::<Runs>() + size_of_val::<[Run]>(&form.runs),
            ColumnEncoding::Packed(form) => {
                let Packed { directory, stream, unpacked, .. } = &**form;
                size_of::<Packed>()
                    + size_of_val::<[DirectoryEntry]>(directory)
                    + stream.len()
                    + unpacked.heap_bytes()
            }
        }
    }
}

impl Packed {
    /// Returns the values from a directory entry on.
    fn read_entry(&self, at: usize) -> Option<Values<'_>> {
        let Self { len, directory, stream, .. } = self;
        let index = u32::try_from(at).ok()?.checked_mul(STRIDE)?;
        let blocks = BlockReader::new(stream, directory.get(at)?.byte as usize);
        let state = ValuesState::Blocks { blocks, stream, directory, index };
        Some(Values { left: len.checked_sub(index)?, state, block: Block::default() })
    }

    /// Returns the directory entry from which to search for a sum, and the sum before it. `None`
    /// means that the end of the column is the result.
    fn entry_of_sum(&self, sum: u64) -> Option<(usize, u64)> {
        let at = self.directory.partition_point(|entry| entry.before() <= sum).checked_sub(1)?;
        Some((at, self.directory.get(at)?.before())).filter(|_| self.total > sum)
    }
}

#[cfg(test)]
mod tests;
