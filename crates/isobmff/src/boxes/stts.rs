//! `stts`: Decoding durations of samples, run by run (ISO/IEC 14496-12 §8.6.1.2).

use bytes::Bytes;

/// Decoding durations of samples, run by run; a view of the box's entries.
#[derive(Debug, Clone, Default)]
pub struct TimeToSamples {
    entries: Bytes,
}

/// A run of samples of one duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Samples in the run.
    pub count: u32,
    /// Duration of each, in track ticks.
    pub delta: u32,
}

impl TimeToSamples {
    /// The runs in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Run> + Clone + '_ {
        self.entries.chunks_exact(8).map(|_| todo!())
    }
}
