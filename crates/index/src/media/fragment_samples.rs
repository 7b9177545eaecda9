//! The samples of fragments, known once their `moof`s have been read.

use crate::table::samples::Sample;
use std::sync::Arc;

/// The samples of one fragment, of every track in it. Immutable; remembered by (object version, fragment).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FragmentSamples {
    /// Per track of the object (same order and length as [`crate::media::MediaIndex::tracks`]), in decode order.
    pub tracks: Vec<Box<[Sample]>>,
}

impl FragmentSamples {
    /// Bytes of memory this holds.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.tracks.iter().map(|t| size_of_val::<[Sample]>(t)).sum()
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
