//! The sample table of a track.

use std::ops::Range;

/// One sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Bytes from the start of its object.
    pub offset: u64,
    /// Bytes.
    pub size: u32,
    /// Decode time in track ticks on the *output* media timeline, see [`crate::presentation::Presentation`].
    pub decode_time: i64,
    /// Duration in track ticks.
    pub duration: u32,
    /// Composition time minus decode time, in track ticks.
    pub composition_offset: i32,
    /// A sync sample: decoding can start here.
    pub sync: bool,
}

/// All samples of a track that play, packed.
#[derive(Debug, Clone)]
pub struct SampleTable {
    len: u32,
}

impl SampleTable {
    /// Number of samples that play.
    #[must_use]
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Samples of a range of indexes (0-based, decode order), clamped to the table. Seeking costs O(log n).
    pub fn range(&self, range: Range<u32>) -> impl Iterator<Item = Sample> + '_ {
        range.map(|_| todo!())
    }

    /// Media bytes in a range of samples. O(log n).
    #[must_use]
    pub fn bytes_in(&self, range: Range<u32>) -> u64 {
        let _ = range;
        todo!()
    }

    /// Bytes of memory this table holds.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        todo!()
    }
}
