//! Building a column in its smallest encoding.

use crate::table::{
    column::{
        BLOCK_LEN, Column, ColumnEncoding, DirectoryEntry, Packed, Run, Runs, STRIDE, unpacked::UnpackedLink,
    },
    rice::{BLOCK, BitWriter, BlockState, padded},
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
    /// Number of values with which a block of the packed column is full.
    room: usize,
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
        Self { len: 0, total: 0, runs: Vec::new(), packer: None, block: [0; BLOCK], filled: 0, room: BLOCK }
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
        if self.filled == self.room {
            self.flush();
        }
    }

    /// Appends values, at most as many as [`Self::push`] takes.
    pub(crate) fn extend(&mut self, values: &[u32]) {
        self.flush();
        let mut left = values;
        while !left.is_empty() {
            // Looking for runs may read all that is given, once for each run.
            let some = if self.keeps_runs() { left.len().min(self.room) } else { left.len() };
            let (now, later) = left.split_at(some);
            self.take(now);
            self.set_room();
            left = later;
        }
    }

    fn keeps_runs(&self) -> bool {
        self.packer.as_ref().is_none_or(|packer| !packer.runs_given_up)
    }

    /// Appends `count` equal values. With few runs, this costs little more than one value.
    #[inline]
    pub(crate) fn push_run(&mut self, value: u32, count: u32) {
        if count >= STRIDE {
            return self.push_long_run(value, count);
        }
        let mut left = count as usize;
        while left > 0 {
            let free = self.block.get_mut(self.filled..self.room).unwrap_or_default();
            let some = left.min(free.len());
            free.iter_mut().take(some).for_each(|place| *place = value);
            self.filled += some;
            left -= some;
            if self.filled == self.room {
                self.flush();
            }
        }
    }

    fn push_long_run(&mut self, value: u32, count: u32) {
        self.flush();
        self.put_run(value, count);
        self.set_room();
    }

    fn flush(&mut self) {
        if self.filled > 0 {
            let block = self.block;
            let filled = std::mem::take(&mut self.filled);
            self.take(block.get(..filled).unwrap_or_default());
            self.set_room();
        }
    }

    fn set_room(&mut self) {
        self.room = BLOCK - self.len as usize % BLOCK;
    }

    fn take(&mut self, values: &[u32]) {
        let mut left = values.get(..(u32::MAX - self.len) as usize).unwrap_or(values);
        while self.packer.is_none() {
            let Some(&value) = left.first() else { return };
            let count = run_length(left);
            self.put_run(value, u32::try_from(count).unwrap_or(u32::MAX));
            left = left.get(count..).unwrap_or_default();
        }
        let mut start = self.len;
        self.len += u32::try_from(left.len()).unwrap_or(0);
        if let Some(packer) = &mut self.packer {
            packer.extend(left);
        }
        while self.keeps_runs()
            && let Some(&value) = left.first()
        {
            let count = run_length(left);
            start += self.note_run(start, value, u32::try_from(count).unwrap_or(u32::MAX));
            left = left.get(count..).unwrap_or_default();
        }
        self.give_up_large_runs();
    }

    fn put_run(&mut self, value: u32, count: u32) {
        let count = count.min(u32::MAX - self.len);
        if self.keeps_runs() {
            self.note_run(self.len, value, count);
        }
        self.len += count;
        match &mut self.packer {
            Some(packer) => packer.push_run(value, count),
            None if self.runs.len() > Self::FEW_RUNS => {
                self.packer = Some(Box::new(Packer::of(&self.runs, self.len)));
            }
            None => {}
        }
        self.give_up_large_runs();
    }

    /// Appends values to the runs, and returns their number.
    fn note_run(&mut self, start: u32, value: u32, count: u32) -> u32 {
        if count > 0 && self.runs.last().is_none_or(|last| last.value != value) {
            self.runs.push(Run { start, value, before: self.total });
        }
        // At most 2^32 - 1 values of at most 2^32 - 1.
        self.total += u64::from(value) * u64::from(count);
        count
    }

    fn give_up_large_runs(&mut self) {
        if let Some(packer) = &mut self.packer
            && size_of_val::<[Run]>(&self.runs) > 4096 + 4 * packer.bytes()
        {
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
                self.put_block(block, BLOCK);
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
        let filled = std::mem::take(&mut self.filled);
        let block = padded(self.block.get(..filled).unwrap_or_default());
        self.put_block(&block, filled);
    }

    /// Writes a block of `len` values, see [`BitWriter::put_block`].
    fn put_block(&mut self, block: &[u32; BLOCK], len: usize) {
        if self.count.is_multiple_of(STRIDE) {
            let byte = u32::try_from(self.stream.align()).unwrap_or(u32::MAX);
            let halves = [self.total >> 32, self.total & 0xffff_ffff];
            let before = halves.map(|half| u32::try_from(half).unwrap_or(u32::MAX));
            self.directory.push(DirectoryEntry { before, byte });
            self.state = BlockState::default();
        }
        self.total += self.stream.put_block(block, len, &mut self.state);
        self.count += u32::try_from(len).unwrap_or(0);
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
        ColumnEncoding::Packed(Box::new(Packed {
            len,
            directory,
            stream,
            total: self.total,
            unpacked: UnpackedLink::default(),
        }))
    }
}
