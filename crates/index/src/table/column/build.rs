//! Building a column in its smallest encoding.

use crate::table::{
    column::{Column, ColumnEncoding, DirectoryEntry, Packed, Run, Runs, STRIDE},
    rice::{BLOCK, BitWriter, BlockState},
};

/// Builds a [`Column`] value by value, holding little more than the result.
#[derive(Debug, Default)]
pub(crate) struct ColumnBuilder {
    len: u32,
    total: u64,
    /// Runs so far. Empty once packing has turned out to be much smaller.
    runs: Vec<Run>,
    packer: Option<Packer>,
}

#[derive(Debug, Default)]
struct Packer {
    runs_given_up: bool,
    block: Vec<u32>,
    count: u32,
    total: u64,
    state: BlockState,
    directory: Vec<DirectoryEntry>,
    stream: BitWriter,
}

impl ColumnBuilder {
    /// Up to this number of runs, nothing is packed: runs are smaller, and cheaper to read.
    const FEW_RUNS: usize = 8;

    /// Appends a value. A column holds at most `u32::MAX` values; further ones are ignored.
    pub(crate) fn push(&mut self, value: u32) {
        self.push_run(value, 1);
    }

    /// Appends `count` equal values. With few runs, this costs no more than one value.
    pub(crate) fn push_run(&mut self, value: u32, count: u32) {
        let count = count.min(u32::MAX - self.len);
        if count == 0 {
            return;
        }
        let run = Run { start: self.len, value, before: self.total };
        self.len += count;
        self.total += u64::from(value) * u64::from(count);
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

    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    /// Returns the column in its smallest encoding.
    pub(crate) fn finish(self) -> Column {
        let Self { len, total, runs, packer } = self;
        let form = match packer {
            Some(packer) if packer.runs_given_up || packer.bytes() < size_of_val::<[Run]>(&runs) => {
                packer.finish(len, total)
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

impl Packer {
    fn push_run(&mut self, value: u32, count: u32) {
        for _ in 0..count {
            if self.count.is_multiple_of(STRIDE) {
                let byte = u32::try_from(self.stream.align()).unwrap_or(u32::MAX);
                let halves = [self.total >> 32, self.total & 0xffff_ffff];
                let before = halves.map(|half| u32::try_from(half).unwrap_or(u32::MAX));
                self.directory.push(DirectoryEntry { before, byte });
                self.state = BlockState::default();
            }
            self.count += 1;
            self.total += u64::from(value);
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

    /// Returns the approximate size of the packed column in bytes.
    fn bytes(&self) -> usize {
        size_of_val::<[DirectoryEntry]>(&self.directory)
            + self.stream.len()
            + size_of_val::<[u32]>(&self.block) / 2
    }

    fn finish(mut self, len: u32, total: u64) -> ColumnEncoding {
        self.flush();
        let directory = self.directory.into_boxed_slice();
        let stream = self.stream.finish();
        ColumnEncoding::Packed(Box::new(Packed { len, directory, stream, total }))
    }
}
