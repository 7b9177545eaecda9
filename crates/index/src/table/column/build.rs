//! Building a column in its smallest encoding.

use crate::table::{
    column::{BLOCK_LEN, Column, ColumnEncoding, DirectoryEntry, Packed, Run, Runs, STRIDE},
    rice::{BLOCK, BitWriter, BlockState},
};

/// Builds a [`Column`] value by value, holding little more than the result.
#[derive(Debug)]
pub(crate) struct ColumnBuilder {
    /// Number of values, without those in `block`.
    len: u32,
    /// Sum of these values, up to date as long as there are runs.
    total: u64,
    /// Runs so far. Empty once packing has turned out to be much smaller.
    runs: Vec<Run>,
    packer: Option<Box<Packer>>,
    /// Values to be taken together, which is faster than one by one.
    block: [u32; BLOCK],
    filled: usize,
}

#[derive(Debug)]
struct Packer {
    runs_given_up: bool,
    /// Values that are not in the stream yet.
    block: [u32; BLOCK],
    filled: usize,
    /// Number of values in the stream, and their sum.
    count: u32,
    total: u64,
    state: BlockState,
    directory: Vec<DirectoryEntry>,
    stream: BitWriter,
}

impl Default for ColumnBuilder {
    fn default() -> Self {
        Self { len: 0, total: 0, runs: Vec::new(), packer: None, block: [0; BLOCK], filled: 0 }
    }
}

impl ColumnBuilder {
    /// Up to this number of runs, nothing is packed: runs are smaller, and cheaper to read.
    const FEW_RUNS: usize = 8;

    /// Appends a value. A column holds at most `u32::MAX` values; further ones are ignored.
    #[inline]
    pub(crate) fn push(&mut self, value: u32) {
        if let Some(place) = self.block.get_mut(self.filled) {
            *place = value;
            self.filled += 1;
        }
        if self.filled == BLOCK {
            self.flush();
        }
    }

    /// Appends values, at most as many as [`Self::push`] takes.
    pub(crate) fn extend(&mut self, values: &[u32]) {
        self.flush();
        self.take(values);
    }

    /// Appends `count` equal values. With few runs, this costs little more than one value.
    pub(crate) fn push_run(&mut self, value: u32, count: u32) {
        if count < STRIDE {
            return (0..count).for_each(|_| self.push(value));
        }
        self.flush();
        self.put_run(value, count);
    }

    fn flush(&mut self) {
        let block = self.block;
        let filled = std::mem::take(&mut self.filled);
        self.take(block.get(..filled).unwrap_or_default());
    }

    fn take(&mut self, mut values: &[u32]) {
        while self.packer.as_ref().is_none_or(|packer| !packer.runs_given_up) {
            let Some(&value) = values.first() else { return };
            let count = run_length(values);
            self.put_run(value, u32::try_from(count).unwrap_or(u32::MAX));
            values = values.get(count..).unwrap_or_default();
        }
        let values = values.get(..(u32::MAX - self.len) as usize).unwrap_or(values);
        self.len += u32::try_from(values.len()).unwrap_or(0);
        // From here on, the packer sums the values.
        if let Some(packer) = &mut self.packer {
            packer.extend(values);
        }
    }

    fn put_run(&mut self, value: u32, count: u32) {
        let count = count.min(u32::MAX - self.len);
        let is_same = count == 0 || self.runs.last().is_some_and(|last| last.value == value);
        match &mut self.packer {
            None if is_same => {}
            Some(packer) if packer.runs_given_up || is_same => packer.push_run(value, count),
            _ => self.start_run(value, count),
        }
        self.len += count;
        // At most 2^32 - 1 values of at most 2^32 - 1.
        self.total += u64::from(value) * u64::from(count);
    }

    /// Appends a run whose value differs from the one before.
    fn start_run(&mut self, value: u32, count: u32) {
        let Some(packer) = &mut self.packer else {
            if self.runs.len() == Self::FEW_RUNS {
                let mut packer = Packer::of(&self.runs, self.len);
                packer.push_run(value, count);
                self.packer = Some(Box::new(packer));
            }
            return self.runs.push(Run { start: self.len, value, before: self.total });
        };
        self.runs.push(Run { start: self.len, value, before: self.total });
        packer.push_run(value, count);
        if size_of_val::<[Run]>(&self.runs) > 4096 + 4 * packer.bytes() {
            packer.runs_given_up = true;
            self.runs = Vec::new();
        }
    }

    pub(crate) fn len(&self) -> u32 {
        self.len.saturating_add(u32::try_from(self.filled).unwrap_or(0))
    }

    /// Returns the column in its smallest encoding.
    pub(crate) fn finish(mut self) -> Column {
        self.flush();
        let Self { len, runs, packer, .. } = self;
        let form = match packer {
            Some(packer) if packer.runs_given_up || packer.bytes() < size_of_val::<[Run]>(&runs) => {
                packer.finish(len)
            }
            _ => match runs.as_slice() {
                [] => ColumnEncoding::Constant { len, value: 0 },
                [only] => ColumnEncoding::Constant { len, value: only.value },
                _ => ColumnEncoding::Runs(Box::new(Runs { len, runs: runs.into_boxed_slice() })),
            },
        };
        Column(form)
    }
}

/// Returns the number of values at the start of a slice that equal the first one.
fn run_length(values: &[u32]) -> usize {
    let Some((&first, rest)) = values.split_first() else { return 0 };
    // Often all values are equal, which takes no branch for each value to find out.
    if rest.first() == Some(&first) && rest.iter().fold(0, |all, value| all | (value ^ first)) == 0 {
        return values.len();
    }
    1 + rest.iter().take_while(|value| **value == first).count()
}

impl Packer {
    /// Packs the values of some runs, `len` values in all.
    fn of(runs: &[Run], len: u32) -> Self {
        let mut packer = Self {
            runs_given_up: false,
            block: [0; BLOCK],
            filled: 0,
            count: 0,
            total: 0,
            state: BlockState::default(),
            directory: Vec::new(),
            stream: BitWriter::default(),
        };
        let ends = runs.iter().skip(1).map(|run| run.start).chain([len]);
        runs.iter().zip(ends).for_each(|(run, end)| packer.push_run(run.value, end - run.start));
        packer
    }

    fn push_run(&mut self, value: u32, mut count: u32) {
        let run = [value; BLOCK];
        while count > 0 {
            let some = count.min(BLOCK_LEN);
            self.extend(run.get(..some as usize).unwrap_or_default());
            count -= some;
        }
    }

    fn extend(&mut self, mut values: &[u32]) {
        while !values.is_empty() {
            if self.filled == 0
                && let Some((block, later)) = values.split_first_chunk::<BLOCK>()
            {
                self.put_block(block);
                values = later;
                continue;
            }
            let free = self.block.get_mut(self.filled..).unwrap_or_default();
            let (now, later) = values.split_at(values.len().min(free.len()));
            for (place, value) in free.iter_mut().zip(now) {
                *place = *value;
            }
            self.filled += now.len();
            values = later;
            if self.filled == BLOCK {
                self.flush();
            }
        }
    }

    fn flush(&mut self) {
        let block = self.block;
        let filled = std::mem::take(&mut self.filled);
        self.put_block(block.get(..filled).unwrap_or_default());
    }

    fn put_block(&mut self, block: &[u32]) {
        if self.count.is_multiple_of(STRIDE) {
            let byte = u32::try_from(self.stream.align()).unwrap_or(u32::MAX);
            let halves = [self.total >> 32, self.total & 0xffff_ffff];
            let before = halves.map(|half| u32::try_from(half).unwrap_or(u32::MAX));
            self.directory.push(DirectoryEntry { before, byte });
            self.state = BlockState::default();
        }
        self.total += self.stream.put_block(block, &mut self.state);
        self.count += u32::try_from(block.len()).unwrap_or(0);
    }

    /// Returns the approximate size of the packed column in bytes.
    fn bytes(&self) -> usize {
        size_of_val::<[DirectoryEntry]>(&self.directory) + self.stream.len() + self.filled * 2
    }

    fn finish(mut self, len: u32) -> ColumnEncoding {
        if self.filled > 0 {
            self.flush();
        }
        let directory = self.directory.into_boxed_slice();
        let stream = self.stream.finish();
        ColumnEncoding::Packed(Box::new(Packed { len, directory, stream, total: self.total }))
    }
}
