//! `ctts`: Composition offsets, run by run; version 0 and 1 (ISO/IEC 14496-12 §8.6.1.3).

use bytes::Bytes;

/// Composition offsets, run by run; version 0 and 1; a view of the box's entries.
#[derive(Debug, Clone, Default)]
pub struct CompositionOffsets {
    entries: Bytes,
}

/// A run of samples of one composition offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Samples in the run.
    pub count: u32,
    /// Composition time minus decode time, in track ticks. Version 0 values are read as signed too, as all
    /// players do: writers put negative offsets there.
    pub offset: i32,
}

impl CompositionOffsets {
    /// The runs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Run> + Clone + '_ {
        self.entries.chunks_exact(8).map(|_| todo!())
    }
}
