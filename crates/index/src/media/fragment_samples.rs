//! The samples of fragments, known once their `moof`s have been read.

use crate::table::samples::Sample;
use std::sync::Arc;

/// The samples of one fragment, of every track in it. They are immutable, so that they can be
/// cached by object version and fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FragmentSamples {
    /// The samples of each track of the object in decode order. The tracks have the order and
    /// length of [`crate::media::MediaIndex::tracks`].
    pub tracks: Vec<Box<[Sample]>>,
}

impl FragmentSamples {
    /// Returns the number of bytes of memory this holds.
    pub fn heap_bytes(&self) -> usize {
        self.tracks.iter().map(|t| size_of_val::<[Sample]>(t)).sum()
    }
}

/// A source of fragments whose samples are known already.
pub trait KnownFragments {
    /// Returns the samples of the fragment that starts at `offset` of the title's object `object`.
    fn get(&self, object: usize, offset: u64) -> Option<Arc<FragmentSamples>>;
}

/// A source without any fragments. It is enough if all objects have sample tables.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFragments;

impl KnownFragments for NoFragments {
    fn get(&self, _object: usize, _offset: u64) -> Option<Arc<FragmentSamples>> {
        None
    }
}
