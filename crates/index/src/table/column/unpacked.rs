//! Unpacked copies of columns, for the first requests of a title.
//!
//! A manifest reads most columns of a title. Right after a title has been indexed, that takes less
//! time if the values need no decoding. Unpacked copies take several times as much memory as the
//! packed columns, though. So columns only point to their copies, and are decoded once the owner of
//! the copies has dropped them.

use crate::table::column::{Column, ColumnEncoding};
use std::sync::{Arc, Weak};

type Owned = Arc<Box<[u32]>>;

/// Owns the unpacked copies of columns. Whether it still exists changes no result.
#[derive(Debug, Clone, Default)]
pub struct UnpackedValues {
    columns: Vec<Owned>,
}

impl UnpackedValues {
    /// Keeps the values of a column as its unpacked copy, unless the column is so small that this
    /// would not help.
    pub(crate) fn keep(&mut self, column: &mut Column, values: Vec<u32>) {
        if let ColumnEncoding::Packed(packed) = &mut column.0
            && packed.len as usize == values.len()
        {
            let values = Arc::new(values.into_boxed_slice());
            packed.unpacked = UnpackedLink(Arc::downgrade(&values));
            self.columns.push(values);
        }
    }

    /// Returns true if there are no copies.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// Returns the number of bytes of memory that the copies take.
    pub fn heap_bytes(&self) -> usize {
        self.columns.iter().map(|values| size_of_val::<[u32]>(values)).sum()
    }
}

/// All owners are equal, because they change no result.
impl PartialEq for UnpackedValues {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for UnpackedValues {}

/// Points from a packed column to its unpacked copy.
#[derive(Debug, Clone, Default)]
pub(crate) struct UnpackedLink(Weak<Box<[u32]>>);

impl UnpackedLink {
    /// Returns the copy, if its owner still exists.
    pub(super) fn get(&self) -> Option<Owned> {
        self.0.upgrade()
    }

    /// Returns the number of bytes of memory that are left when the owner is gone.
    pub(super) fn heap_bytes(&self) -> usize {
        // Both counts of references, and the pointer to the values.
        if self.0.ptr_eq(&Weak::new()) { 0 } else { 4 * size_of::<usize>() }
    }
}

/// All links are equal, because they change no result.
impl PartialEq for UnpackedLink {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for UnpackedLink {}
