//! Builds the sample table of a track.

use crate::table::{
    column::ColumnBuilder,
    layout::{ChunkPositions, Layout, TrackLayout},
    positions::PositionsBuilder,
    rice::{BLOCK, zigzag},
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
        // Most runs of usual video have one sample. These are taken together.
        let mut block = [0; BLOCK];
        let mut filled = 0;
        let (mut least, mut largest) = self.composition_bounds.unwrap_or((i32::MAX, i32::MIN));
        for (offset, count) in runs.chain([(0, u32::MAX)]) {
            let count = count.min(left);
            if count == 0 {
                continue;
            }
            left -= count;
            (least, largest) = (least.min(offset), largest.max(offset));
            // Equal to `zigzag`, but in 32 bits.
            let packed = (offset.cast_unsigned() << 1) ^ (offset >> 31).cast_unsigned();
            if count == 1
                && let Some(place) = block.get_mut(filled)
            {
                *place = packed;
                filled += 1;
                continue;
            }
            self.compositions.extend(block.get(..filled).unwrap_or_default());
            filled = 0;
            self.compositions.push_run(packed, count);
        }
        self.compositions.extend(block.get(..filled).unwrap_or_default());
        self.composition_bounds = (least <= largest).then_some((least, largest));
    }

    pub(crate) fn push_compositions(&mut self, offset: i32, count: u32) {
        if count == 0 {
            return;
        }
        let (min, max) = self.composition_bounds.unwrap_or((offset, offset));
        self.composition_bounds = Some((min.min(offset), max.max(offset)));
        let packed = u32::try_from(zigzag(offset.into())).unwrap_or(0);
        match count {
            1 => self.compositions.push(packed),
            _ => self.compositions.push_run(packed, count),
        }
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
