//! Reading a column from any index on: value by value, block by block, or as a sum.

use crate::table::{
    column::{BLOCK_LEN, DirectoryEntry, Run, STRIDE},
    rice::{BLOCK, BlockReader},
};
use std::{ops::Range, slice, sync::Arc};

/// Reads a column in order.
#[derive(Debug, Clone)]
pub(crate) struct Values<'a> {
    pub(super) left: u32,
    pub(super) state: ValuesState<'a>,
    /// Values read in advance. A block at a time is three times as fast as single values.
    pub(super) block: Block,
}

#[derive(Debug, Clone)]
pub(super) struct Block {
    values: [u32; BLOCK],
    /// The positions of values that have not been returned yet.
    pub(super) unread: Range<usize>,
}

impl Default for Block {
    fn default() -> Self {
        Self { values: [0; BLOCK], unread: 0..0 }
    }
}

#[derive(Debug, Clone)]
pub(super) enum ValuesState<'a> {
    Run {
        value: u32,
        /// Number of values left in this run.
        count: u32,
        next: slice::Iter<'a, Run>,
        len: u32,
    },
    Blocks {
        blocks: BlockReader<'a>,
        stream: &'a [u8],
        directory: &'a [DirectoryEntry],
        /// Index of the next value that has not been decoded, the first of a block.
        index: u32,
    },
    /// Values that need no decoding.
    Unpacked {
        values: Arc<Box<[u32]>>,
        /// Index of the next value that has not been read.
        index: usize,
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
            ValuesState::Run { value, count, next, len } => {
                while *count == 0 {
                    let run = next.next()?;
                    *value = run.value;
                    *count = next.as_slice().first().map_or(*len, |run| run.start) - run.start;
                }
                *count -= 1;
                *value
            }
            ValuesState::Blocks { .. } | ValuesState::Unpacked { .. } => {
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
    /// Reads the next block. All values of the block before must have been returned.
    fn read_block(&mut self) -> Option<()> {
        let count = self.left.min(BLOCK_LEN);
        let out = self.block.values.get_mut(..count as usize)?;
        match &mut self.state {
            ValuesState::Run { .. } => return None,
            ValuesState::Blocks { blocks, stream, directory, index } => {
                if index.is_multiple_of(STRIDE) {
                    // Blocks are coded relative to the one before only up to here.
                    let entry = directory.get((*index / STRIDE) as usize)?;
                    *blocks = BlockReader::new(stream, entry.byte as usize);
                }
                blocks.fill(out);
                *index += count;
            }
            ValuesState::Unpacked { values, index } => {
                out.copy_from_slice(values.get(*index..*index + out.len())?);
                *index += out.len();
            }
        }
        self.block.unread = 0..out.len();
        Some(())
    }

    /// Skips values up to the one with which the sum exceeds `sum`, and returns the sum before that
    /// value. `before` is the sum so far. No value of the blocks must have been read.
    pub(super) fn skip_until(&mut self, mut before: u64, sum: u64) -> u64 {
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

    /// Skips the first values of a block and returns their sum.
    pub(super) fn skip_in_block(&mut self, count: u32) -> u64 {
        if count == 0 || self.read_block().is_none() {
            return 0;
        }
        self.block.unread.start = count as usize;
        self.left -= count;
        let skipped = self.block.values.get(..count as usize).unwrap_or_default();
        skipped.iter().map(|&value| u64::from(value)).sum()
    }

    /// Skips the next `count` values, or all that are left.
    pub(crate) fn skip_next(&mut self, count: u32) {
        if let ValuesState::Unpacked { index, .. } = &mut self.state {
            let from_block = count.min(u32::try_from(self.block.unread.len()).unwrap_or(count));
            self.block.unread.start += from_block as usize;
            let count = count.min(self.left);
            *index += (count - from_block) as usize;
            self.left -= count;
        } else {
            self.sum_next(count);
        }
    }

    /// Returns the sum of the next `count` values, or of all that are left.
    pub(crate) fn sum_next(&mut self, count: u32) -> u64 {
        let mut wanted = count.min(self.left);
        let mut sum = 0_u64;
        while wanted > 0 {
            let unread = self.block.values.get(self.block.unread.clone()).unwrap_or_default();
            let some = if unread.is_empty() {
                match &mut self.state {
                    ValuesState::Run { value, count, next, len } => {
                        while *count == 0 {
                            let Some(run) = next.next() else { return sum };
                            *value = run.value;
                            *count = next.as_slice().first().map_or(*len, |run| run.start) - run.start;
                        }
                        let some = wanted.min(*count);
                        sum += u64::from(*value) * u64::from(some);
                        *count -= some;
                        some
                    }
                    ValuesState::Blocks { .. } | ValuesState::Unpacked { .. } => match self.read_block() {
                        Some(()) => continue,
                        None => return sum,
                    },
                }
            } else {
                let unread = unread.get(..wanted as usize).unwrap_or(unread);
                sum += unread.iter().map(|&value| u64::from(value)).sum::<u64>();
                self.block.unread.start += unread.len();
                u32::try_from(unread.len()).unwrap_or(wanted)
            };
            wanted -= some;
            self.left -= some;
        }
        sum
    }

    /// Reads the next values into `out`, and returns how many there were.
    pub(crate) fn fill(&mut self, out: &mut [u32]) -> usize {
        let count = out.len().min(self.left as usize);
        let mut at = 0;
        while let Some(rest) = out.get_mut(at..count).filter(|rest| !rest.is_empty()) {
            let unread = self.block.values.get(self.block.unread.clone()).unwrap_or_default();
            let some = if unread.is_empty() {
                match &mut self.state {
                    ValuesState::Run { value, count, next, len } => {
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
                    ValuesState::Blocks { .. } => match self.read_block() {
                        Some(()) => continue,
                        None => return at,
                    },
                    ValuesState::Unpacked { values, index } => {
                        let Some(values) = values.get(*index..*index + rest.len()) else { return at };
                        rest.copy_from_slice(values);
                        *index += rest.len();
                        rest.len()
                    }
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
