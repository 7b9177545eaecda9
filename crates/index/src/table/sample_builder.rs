//! Builds the sample table of a track.

use crate::table::{
    column::ColumnBuilder,
    layout::{ChunkPositions, Layout, TrackLayout},
    positions::PositionsBuilder,
    samples::SampleTable,
};
use std::sync::Arc;

/// Builds a [`SampleTable`] column by column. All samples play until [`SampleTable::keep`].
#[derive(Debug, Default)]
pub(crate) struct SampleTableBuilder {
    pub(crate) durations: ColumnBuilder,
    pub(crate) sizes: ColumnBuilder,
    compositions: ColumnBuilder,
    composition_bounds: Option<(i32, i32)>,
    pub(crate) chunk_samples: ColumnBuilder,
    chunks: PositionsBuilder,
    sync: ColumnBuilder,
    last_sync: u32,
    all_sync: bool,
}

impl SampleTableBuilder {
    /// Appends runs of equal composition offsets, until the column has `len` of them. Offsets that
    /// are missing are 0.
    pub(crate) fn extend_compositions(&mut self, runs: impl Iterator<Item = (i32, u32)>, len: u32) {
        let mut left = len.saturating_sub(self.compositions.len());
        let (mut least, mut largest) = self.composition_bounds.unwrap_or((i32::MAX, i32::MIN));
        for (offset, count) in runs.chain([(0, u32::MAX)]) {
            let count = count.min(left);
            if count == 0 {
                continue;
            }
            left -= count;
            (least, largest) = (least.min(offset), largest.max(offset));
            self.compositions.push_run(packed(offset), count);
        }
        self.composition_bounds = (least <= largest).then_some((least, largest));
    }

    /// Does the same for runs of few samples, as in usual video, and returns the values of the
    /// column. Taking them together is faster.
    pub(crate) fn extend_dense_compositions(
        &mut self,
        runs: impl Iterator<Item = (i32, u32)>,
        len: u32,
    ) -> Vec<u32> {
        let mut values = Vec::with_capacity(len as usize);
        let (mut least, mut largest) = (i32::MAX, i32::MIN);
        for (offset, count) in runs.chain([(0, u32::MAX)]) {
            let count = (count as usize).min(len as usize - values.len());
            if count == 1 {
                values.push(packed(offset));
            } else if count > 0 {
                values.resize(values.len() + count, packed(offset));
            } else {
                continue;
            }
            (least, largest) = (least.min(offset), largest.max(offset));
        }
        self.compositions.extend(&values);
        self.composition_bounds = (least <= largest).then_some((least, largest));
        values
    }

    pub(crate) fn push_compositions(&mut self, offset: i32, count: u32) {
        if count == 0 {
            return;
        }
        let (min, max) = self.composition_bounds.unwrap_or((offset, offset));
        self.composition_bounds = Some((min.min(offset), max.max(offset)));
        self.compositions.push_run(packed(offset), count);
    }

    /// Appends a chunk of `samples` contiguous samples from `offset` on, `bytes` bytes in total.
    pub(crate) fn push_chunk(&mut self, offset: u64, samples: u32, bytes: u64) {
        self.chunk_samples.push(samples);
        self.chunks.push(offset, bytes);
    }

    /// Marks the sample of this 0-based number as a sync sample. Numbers must ascend.
    pub(crate) fn push_sync(&mut self, number: u32) {
        self.sync.push(number - self.last_sync.min(number));
        self.last_sync = number;
    }

    pub(crate) fn set_all_sync(&mut self) {
        self.all_sync = true;
    }

    /// Returns the table. All columns must have equal lengths; `decode_time` is the first sample's.
    pub(crate) fn finish(self, decode_time: i64) -> SampleTable {
        let len = self.sizes.len();
        let composition_bounds = self.composition_bounds.unwrap_or((0, 0));
        let laid = TrackLayout {
            sizes: self.sizes.finish(),
            chunk_samples: self.chunk_samples.finish(),
            chunks: ChunkPositions::Separate(self.chunks.finish()),
        };
        SampleTable {
            window: 0..len,
            first_decode_time: decode_time,
            durations: self.durations.finish(),
            compositions: (composition_bounds != (0, 0)).then(|| self.compositions.finish()),
            composition_bounds,
            composition_lift: 0,
            layout: Arc::new(Layout { tracks: vec![laid] }),
            track: 0,
            sync: (!self.all_sync && self.sync.len() != len).then(|| self.sync.finish()),
        }
    }
}

/// Returns a composition offset in its form in the column. Equal to `zigzag`, but in 32 bits.
fn packed(offset: i32) -> u32 {
    (offset.cast_unsigned() << 1) ^ (offset >> 31).cast_unsigned()
}
