//! Tracks of fragmented files that `sidx` or `mfra` index: fragments are known, their samples only once the
//! fragment's `moof` has been read, in the same request as its media.

use crate::{IndexError, media::MediaIndex, samples::Sample};
use bytes::Bytes;
use std::{ops::Range, sync::Arc};

/// One fragment (or `sidx` subsegment, which may hold several `moof`s) of a track.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Bytes from the start of the object: from its first `moof` to the end of its media.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    /// Earliest presentation time in track ticks, after the edit list.
    pub start: i64,
    /// End of presentation in track ticks; the next one's start where there is one.
    pub end: i64,
    /// Starts with a sync sample.
    pub sync: bool,
}

impl Fragment {
    /// Where it lies in its object.
    #[must_use]
    pub fn bytes(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.size)
    }
}

pub use crate::fragment_table::FragmentTable;

/// The samples of one fragment, of every track in it. Immutable; remembered by (object version, fragment).
#[derive(Debug, Clone)]
pub struct FragmentSamples {
    /// Per track of the object (same order and length as [`MediaIndex::tracks`]), in decode order.
    pub tracks: Vec<Box<[Sample]>>,
}

impl FragmentSamples {
    /// Bytes of memory this holds.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.tracks.iter().map(|t| size_of_val::<[Sample]>(t)).sum()
    }
}

/// Reads a fragment's `moof`s as its bytes arrive.
#[derive(Debug)]
pub struct FragmentReader {
    index: Arc<MediaIndex>,
    range: Range<u64>,
}

/// What a [`FragmentReader`] wants.
#[derive(Debug)]
pub enum FragmentStep {
    /// All `moof`s seen: the fragment's samples.
    Done(FragmentSamples),
    /// Give the bytes `from` this offset in the object on, at least `len` of them (bytes before are not needed again).
    Need {
        /// Bytes from the start of the object.
        from: u64,
        /// At least this many bytes.
        len: u64,
    },
}

impl FragmentReader {
    /// A reader for the fragment that lies at `range` of the object.
    #[must_use]
    pub fn new(index: Arc<MediaIndex>, range: Range<u64>) -> Self {
        Self { index, range }
    }

    /// Takes contiguous bytes that start at `offset` of the object and says what next. The first call may pass
    /// no bytes. Media bytes need not be given: a `Need` skips over `mdat`.
    ///
    /// # Errors
    /// Where a `moof` is malformed, or sizes lead out of the range.
    pub fn feed(&mut self, offset: u64, bytes: &Bytes) -> Result<FragmentStep, IndexError> {
        let _ = (offset, bytes, &self.index, &self.range);
        todo!()
    }
}

/// Fragments whose samples are known already.
pub trait KnownFragments {
    /// The samples of the fragment that starts at `offset` of object number `object` of the title.
    fn get(&self, object: usize, offset: u64) -> Option<Arc<FragmentSamples>>;
}

/// Knows none: enough where all objects have sample tables.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFragments;

impl KnownFragments for NoFragments {
    fn get(&self, _object: usize, _offset: u64) -> Option<Arc<FragmentSamples>> {
        None
    }
}
