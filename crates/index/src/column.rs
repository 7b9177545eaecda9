//! Packed columns of numbers: what a sample table's entries become in memory.

use crate::rice::{BLOCK, BitWriter, BlockReader, State};
use std::{ops::Range, slice};

/// [`BLOCK`], to count values with.
const BLOCK_LEN: u32 = 64;
const _: () = assert!(BLOCK_LEN as usize == BLOCK && STRIDE.is_multiple_of(BLOCK_LEN));

/// Values between two entries of a packed column's directory: what a seek decodes at most.
pub(crate) const STRIDE: u32 = 256;

/// A column of `u32` values: constant, runs, or blocks of 64 Rice-coded values, whichever is smallest.
/// Reading one value costs O(log n), reading on from there O(1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column(pub(crate) Form);

/// Whatever is not constant lies behind a pointer: most columns of a short title are constant, and a column takes 16 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Form {
    Constant { len: u32, value: u32 },
    Runs(Box<Runs>),
    Packed(Box<Packed>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Runs {
    pub(crate) len: u32,
    /// Ascending.
    pub(crate) runs: Box<[Run]>,
}

/// Blocks of Rice codes; one directory entry every [`STRIDE`] values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Packed {
    pub(crate) len: u32,
    pub(crate) directory: Box<[Entry]>,
    pub(crate) stream: Box<[u8]>,
    /// Sum of all values.
    pub(crate) total: u64,
}

/// A run of equal values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Run {
    /// Index of its first value.
    pub(crate) start: u32,
    pub(crate) value: u32,
    /// Sum of all values before it.
    pub(crate) before: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Sum of all values before it, 64 bits in two halves so that an entry takes 12 bytes, not 16.
    pub(crate) before: [u32; 2],
    /// Byte of the stream where its first block starts.
    pub(crate) byte: u32,
}

impl Entry {
    pub(crate) fn before(self) -> u64 {
        u64::from(self.before[0]) << 32 | u64::from(self.before[1])
    }
}

impl Column {
    /// A column of one value.
    #[must_use]
    pub fn constant(value: u32, len: u32) -> Self {
        Self(Form::Constant { len, value })
    }

    /// Number of values.
    #[must_use]
    pub fn len(&self) -> u32 {
        match &self.0 {
            Form::Constant { len, .. } => *len,
            Form::Runs(form) => form.len,
            Form::Packed(form) => form.len,
        }
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value at an index (0-based).
    #[must_use]
    pub fn get(&self, index: u32) -> Option<u32> {
        self.iter_from(index).next()
    }

    /// Values from an index on; none where it is beyond the end.
    #[must_use]
    pub fn iter_from(&self, index: u32) -> Values<'_> {
        self.seek(index).1
    }

    /// [`Self::sum_before`] and [`Self::iter_from`], for little more than one of them.
    pub(crate) fn seek(&self, index: u32) -> (u64, Values<'_>) {
        let len = self.len();
        let index = index.min(len);
        let left = len - index;
        match &self.0 {
            Form::Constant { value, .. } => {
                let state = Reading::Run { value: *value, count: left, next: [].iter(), len };
                (u64::from(*value) * u64::from(index), Values { left, state, block: Block::default() })
            }
            Form::Runs(form) => {
                let runs = &form.runs;
                let at = runs.partition_point(|run| run.start <= index).saturating_sub(1);
                let mut next = runs.get(at..).unwrap_or_default().iter();
                let run = next.next();
                let end = next.as_slice().first().map_or(len, |run| run.start);
                let value = run.map_or(0, |run| run.value);
                let before =
                    run.map_or(0, |run| run.before + u64::from(value) * u64::from(index - run.start));
                let state = Reading::Run { value, count: end - index, next, len };
                (before, Values { left, state, block: Block::default() })
            }
            Form::Packed(form) => {
                let Packed { directory, stream, total, .. } = &**form;
                let Some(entry) = directory.get((index / STRIDE) as usize).filter(|_| left > 0) else {
                    let state = Reading::Run { value: 0, count: 0, next: [].iter(), len };
                    return (*total, Values { left: 0, state, block: Block::default() });
                };
                let mut blocks = BlockReader::new(stream, entry.byte as usize);
                let into_block = index % BLOCK_LEN;
                let before = entry.before() + blocks.sum(index % STRIDE - into_block);
                let state = Reading::Blocks { blocks, stream, directory, index: index - into_block };
                let mut values = Values { left: left + into_block, state, block: Block::default() };
                (before + values.skip_in_block(into_block), values)
            }
        }
    }

    /// Sum of all values before an index; of all where it is beyond the end.
    #[must_use]
    pub fn sum_before(&self, index: u32) -> u64 {
        let index = index.min(self.len());
        match &self.0 {
            Form::Constant { value, .. } => u64::from(*value) * u64::from(index),
            Form::Runs(form) => {
                let at = form.runs.partition_point(|run| run.start <= index).saturating_sub(1);
                form.runs
                    .get(at)
                    .map_or(0, |run| run.before + u64::from(run.value) * u64::from(index - run.start))
            }
            Form::Packed(form) if index == form.len => form.total,
            Form::Packed(form) => {
                let first = index - index % STRIDE;
                let Some(entry) = form.directory.get((index / STRIDE) as usize) else { return form.total };
                entry.before() + BlockReader::new(&form.stream, entry.byte as usize).sum(index - first)
            }
        }
    }

    /// Sum of all values.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.sum_before(self.len())
    }

    /// The largest index, at most [`Self::len`], with `sum_before(index) <= sum`.
    #[must_use]
    pub fn find(&self, sum: u64) -> u32 {
        let len = self.len();
        let clamp = |index: u64| u32::try_from(index).map_or(len, |i| i.min(len));
        match &self.0 {
            Form::Constant { value, .. } => sum.checked_div((*value).into()).map_or(len, clamp),
            Form::Runs(form) => {
                let runs = &form.runs;
                let at = runs.partition_point(|run| run.before <= sum).saturating_sub(1);
                let end = runs.get(at + 1).map_or(len, |run| run.start);
                runs.get(at).map_or(0, |run| {
                    let steps = (sum - run.before).checked_div(run.value.into());
                    steps.map_or(end, |s| clamp(u64::from(run.start).saturating_add(s)).min(end))
                })
            }
            Form::Packed(form) => {
                let Some((at, before)) = form.entry_of_sum(sum) else { return len };
                let Some(mut values) = form.read_entry(at) else { return len };
                values.skip_until(before, sum);
                len - values.left
            }
        }
    }

    /// [`Self::find`], and there [`Self::sum_before`] and [`Self::iter_from`], for little more than one of them.
    pub(crate) fn seek_sum(&self, sum: u64) -> (u32, u64, Values<'_>) {
        if let Form::Packed(form) = &self.0
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

    /// The value of all entries of a range that is not empty, if they have but one.
    #[must_use]
    pub fn constant_in(&self, range: Range<u32>) -> Option<u32> {
        let count = range.end.min(self.len()).checked_sub(range.start)?;
        match &self.0 {
            Form::Constant { value, .. } => (count > 0).then_some(*value),
            Form::Runs(form) => {
                // Runs that follow one another differ.
                let of = |index: u32| form.runs.partition_point(|run| run.start <= index).checked_sub(1);
                let (first, last) = (of(range.start)?, of(range.start + count.checked_sub(1)?)?);
                (first == last).then(|| form.runs.get(first).map(|run| run.value))?
            }
            Form::Packed(_) => {
                let mut values = self.iter_from(range.start).take(count as usize);
                let first = values.next()?;
                values.all(|value| value == first).then_some(first)
            }
        }
    }

    /// Bytes of memory this holds on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        match &self.0 {
            Form::Constant { .. } => 0,
            Form::Runs(form) => size_of::<Runs>() + size_of_val::<[Run]>(&form.runs),
            Form::Packed(form) => {
                size_of::<Packed>() + size_of_val::<[Entry]>(&form.directory) + form.stream.len()
            }
        }
    }
}

impl Packed {
    /// Values from an entry of the directory on.
    fn read_entry(&self, at: usize) -> Option<Values<'_>> {
        let Self { len, directory, stream, .. } = self;
        let index = u32::try_from(at).ok()?.checked_mul(STRIDE)?;
        let blocks = BlockReader::new(stream, directory.get(at)?.byte as usize);
        let state = Reading::Blocks { blocks, stream, directory, index };
        Some(Values { left: len.checked_sub(index)?, state, block: Block::default() })
    }

    /// The entry of the directory to find a sum behind, and the sum before it; `None` for the end.
    fn entry_of_sum(&self, sum: u64) -> Option<(usize, u64)> {
        let at = self.directory.partition_point(|entry| entry.before() <= sum).checked_sub(1)?;
        Some((at, self.directory.get(at)?.before())).filter(|_| self.total > sum)
    }
}

impl FromIterator<u32> for Column {
    fn from_iter<I: IntoIterator<Item = u32>>(values: I) -> Self {
        let mut builder = ColumnBuilder::default();
        values.into_iter().for_each(|value| builder.push(value));
        builder.finish()
    }
}

/// Reads a column in order.
#[derive(Debug, Clone)]
pub struct Values<'a> {
    left: u32,
    state: Reading<'a>,
    /// Values read ahead: a block at a time is three times as fast as one by one.
    block: Block,
}

#[derive(Debug, Clone)]
struct Block {
    values: [u32; BLOCK],
    /// Those not given out yet.
    unread: Range<usize>,
}

impl Default for Block {
    fn default() -> Self {
        Self { values: [0; BLOCK], unread: 0..0 }
    }
}

#[derive(Debug, Clone)]
enum Reading<'a> {
    Run {
        value: u32,
        /// Values left in this run.
        count: u32,
        /// Runs after this one.
        next: slice::Iter<'a, Run>,
        len: u32,
    },
    Blocks {
        blocks: BlockReader<'a>,
        stream: &'a [u8],
        directory: &'a [Entry],
        /// Index of the next value that is not read yet: the first of a block.
        index: u32,
    },
}

impl Iterator for Values<'_> {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        if let Some(value) =
            self.block.values.get(self.block.unread.clone()).and_then(|unread| unread.first())
        {
            self.block.unread.start += 1;
            self.left -= 1;
            return Some(*value);
        }
        let left = self.left.checked_sub(1)?;
        let value = match &mut self.state {
            Reading::Run { value, count, next, len } => {
                while *count == 0 {
                    let run = next.next()?;
                    *value = run.value;
                    *count = next.as_slice().first().map_or(*len, |run| run.start) - run.start;
                }
                *count -= 1;
                *value
            }
            Reading::Blocks { .. } => {
                self.read_block()?;
                self.block.unread.start = 1;
                *self.block.values.first()?
            }
        };
        self.left = left;
        Some(value)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left as usize, Some(self.left as usize))
    }
}

impl ExactSizeIterator for Values<'_> {}

impl Values<'_> {
    /// Reads the next block; all of the one before was given out.
    fn read_block(&mut self) -> Option<()> {
        let Reading::Blocks { blocks, stream, directory, index } = &mut self.state else { return None };
        if index.is_multiple_of(STRIDE) {
            // Blocks are coded relative to the one before only up to here.
            let entry = directory.get((*index / STRIDE) as usize)?;
            *blocks = BlockReader::new(stream, entry.byte as usize);
        }
        let count = self.left.min(BLOCK_LEN);
        let values = self.block.values.get_mut(..count as usize)?;
        blocks.fill(values);
        *index += count;
        self.block.unread = 0..values.len();
        Some(())
    }

    /// Goes over values of blocks, of which none was read, to the one with which the sum, `before` so far, exceeds `sum`; says the sum
    /// before it.
    fn skip_until(&mut self, mut before: u64, sum: u64) -> u64 {
        while self.read_block().is_some() {
            let unread = self.block.values.get(..self.block.unread.end).unwrap_or_default();
            for (number, value) in unread.iter().enumerate() {
                let after = before + u64::from(*value);
                if after > sum {
                    self.block.unread.start = number;
                    self.left -= u32::try_from(number).unwrap_or(0);
                    return before;
                }
                before = after;
            }
            self.left -= u32::try_from(unread.len()).unwrap_or(0);
        }
        before
    }

    /// Goes over the first values of a block, and says their sum.
    fn skip_in_block(&mut self, count: u32) -> u64 {
        if count == 0 || self.read_block().is_none() {
            return 0;
        }
        self.block.unread.start = count as usize;
        self.left -= count;
        let skipped = self.block.values.get(..count as usize).unwrap_or_default();
        skipped.iter().map(|&value| u64::from(value)).sum()
    }

    /// The sum of the next values, as many as there are. Much faster than one by one.
    pub(crate) fn sum_next(&mut self, count: u32) -> u64 {
        let mut wanted = count.min(self.left);
        let mut sum = 0_u64;
        while wanted > 0 {
            let unread = self.block.values.get(self.block.unread.clone()).unwrap_or_default();
            let some = if unread.is_empty() {
                match &mut self.state {
                    Reading::Run { value, count, next, len } => {
                        while *count == 0 {
                            let Some(run) = next.next() else { return sum };
                            *value = run.value;
                            *count = next.as_slice().first().map_or(*len, |run| run.start) - run.start;
                        }
                        let some = wanted.min(*count);
                        sum = sum.saturating_add(u64::from(*value) * u64::from(some));
                        *count -= some;
                        some
                    }
                    Reading::Blocks { .. } => match self.read_block() {
                        Some(()) => continue,
                        None => return sum,
                    },
                }
            } else {
                let unread = unread.get(..wanted as usize).unwrap_or(unread);
                sum = sum.saturating_add(unread.iter().map(|&value| u64::from(value)).sum());
                self.block.unread.start += unread.len();
                u32::try_from(unread.len()).unwrap_or(wanted)
            };
            wanted -= some;
            self.left -= some;
        }
        sum
    }

    /// The next values into `out`, as many as there are, and how many. Much faster than one by one.
    pub(crate) fn fill(&mut self, out: &mut [u32]) -> usize {
        let count = out.len().min(self.left as usize);
        let mut at = 0;
        while let Some(rest) = out.get_mut(at..count).filter(|rest| !rest.is_empty()) {
            let unread = self.block.values.get(self.block.unread.clone()).unwrap_or_default();
            let some = if unread.is_empty() {
                match &mut self.state {
                    Reading::Run { value, count, next, len } => {
                        while *count == 0 {
                            let Some(run) = next.next() else { return at };
                            *value = run.value;
                            *count = next.as_slice().first().map_or(*len, |run| run.start) - run.start;
                        }
                        let some = rest.len().min(*count as usize);
                        rest.get_mut(..some).unwrap_or_default().fill(*value);
                        *count -= u32::try_from(some).unwrap_or(*count);
                        some
                    }
                    Reading::Blocks { .. } => match self.read_block() {
                        Some(()) => continue,
                        None => return at,
                    },
                }
            } else {
                let some = unread.len().min(rest.len());
                for (to, from) in rest.iter_mut().zip(unread) {
                    *to = *from;
                }
                self.block.unread.start += some;
                some
            };
            at += some;
            self.left -= u32::try_from(some).unwrap_or(self.left);
        }
        at
    }
}

/// Builds a [`Column`] value by value, holding little more than the result.
#[derive(Debug, Default)]
pub struct ColumnBuilder {
    len: u32,
    total: u64,
    /// Runs so far; given up (empty) once packing is much smaller.
    runs: Vec<Run>,
    packer: Option<Packer>,
}

#[derive(Debug, Default)]
struct Packer {
    runs_given_up: bool,
    block: Vec<u32>,
    count: u32,
    total: u64,
    state: State,
    directory: Vec<Entry>,
    stream: BitWriter,
}

impl ColumnBuilder {
    /// Below this many runs nothing is packed: runs are smaller, and cheaper to build and read.
    const FEW_RUNS: usize = 8;

    /// Appends a value. A column holds at most `u32::MAX` of them; more are ignored.
    pub fn push(&mut self, value: u32) {
        self.push_run(value, 1);
    }

    /// Appends `count` equal values. Costs no more than one while there are few runs.
    pub fn push_run(&mut self, value: u32, count: u32) {
        let count = count.min(u32::MAX - self.len);
        if count == 0 {
            return;
        }
        let run = Run { start: self.len, value, before: self.total };
        self.len += count;
        self.total = self.total.saturating_add(u64::from(value) * u64::from(count));
        if let Some(packer) = &mut self.packer {
            packer.push_run(value, count);
            if packer.runs_given_up {
                return;
            }
        }
        if self.runs.last().is_none_or(|last| last.value != value) {
            self.runs.push(run);
        }
        match &mut self.packer {
            None if self.runs.len() > Self::FEW_RUNS => {
                let mut packer = Packer::default();
                let ends = self.runs.iter().skip(1).map(|run| run.start).chain([self.len]);
                for (run, end) in self.runs.iter().zip(ends) {
                    packer.push_run(run.value, end - run.start);
                }
                self.packer = Some(packer);
            }
            Some(packer) if size_of_val::<[Run]>(&self.runs) > 4096 + 4 * packer.bytes() => {
                packer.runs_given_up = true;
                self.runs = Vec::new();
            }
            _ => {}
        }
    }

    /// Number of values so far.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Sum of the values so far.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The column, in its smallest form.
    #[must_use]
    pub fn finish(self) -> Column {
        let Self { len, total, runs, packer } = self;
        let form = match packer {
            Some(packer) if packer.runs_given_up || packer.bytes() < size_of_val::<[Run]>(&runs) => {
                packer.finish(len, total)
            }
            _ => match runs.as_slice() {
                [] => Form::Constant { len, value: 0 },
                [only] => Form::Constant { len, value: only.value },
                _ => Form::Runs(Box::new(Runs { len, runs: runs.into_boxed_slice() })),
            },
        };
        Column(form)
    }
}

impl Packer {
    fn push_run(&mut self, value: u32, count: u32) {
        for _ in 0..count {
            if self.count.is_multiple_of(STRIDE) {
                let byte = u32::try_from(self.stream.align()).unwrap_or(u32::MAX);
                let halves = [self.total >> 32, self.total & 0xffff_ffff];
                let before = halves.map(|half| u32::try_from(half).unwrap_or(u32::MAX));
                self.directory.push(Entry { before, byte });
                self.state = State::default();
            }
            self.count += 1;
            self.total = self.total.saturating_add(value.into());
            self.block.push(value);
            if self.block.len() == BLOCK {
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        self.stream.put_block(&self.block, &mut self.state);
        self.block.clear();
    }

    /// Bytes it would take, near enough.
    fn bytes(&self) -> usize {
        size_of_val::<[Entry]>(&self.directory) + self.stream.len() + size_of_val::<[u32]>(&self.block) / 2
    }

    fn finish(mut self, len: u32, total: u64) -> Form {
        self.flush();
        let (directory, stream) = (self.directory.into_boxed_slice(), self.stream.finish());
        Form::Packed(Box::new(Packed { len, directory, stream, total }))
    }
}

#[cfg(test)]
#[path = "column_tests.rs"]
mod tests;
