//! Boxes that hold version and flags, a number of entries, and entries of one fixed size.

use crate::{
    Error, FourCc,
    cursor::Cursor,
    write::{WriteBox, put_table},
};
use bytes::Bytes;
use std::marker::PhantomData;

/// An entry of `N` bytes in a [`Table`].
pub trait TableEntry<const N: usize>: Sized {
    /// Type of the box that holds these entries.
    const KIND: &'static [u8; 4];

    /// Reads an entry.
    fn read(entry: &[u8; N]) -> Self;

    /// Appends the `N` bytes of the entry.
    fn write(&self, out: &mut Vec<u8>);

    /// Returns the version of the box that these entries need.
    fn version(_entries: impl Iterator<Item = Self>) -> u8 {
        0
    }
}

/// A table box; a view of its entries, which have `N` bytes each.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table<E, const N: usize> {
    entries: Bytes,
    entry: PhantomData<E>,
}

impl<E: TableEntry<N>, const N: usize> Table<E, N> {
    /// Reads the payload of the box.
    pub fn parse(mut payload: Cursor<'_>) -> Result<Self, Error> {
        Ok(Self { entries: payload.counted_table(N)?, entry: PhantomData })
    }

    /// Returns the entry with this 0-based index.
    #[inline]
    pub fn get(&self, index: usize) -> Option<E> {
        self.entries.as_chunks::<N>().0.get(index).map(E::read)
    }

    /// Iterates over the entries in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = E> + Clone {
        self.entries.as_chunks::<N>().0.iter().map(E::read)
    }
}

impl<E: TableEntry<N>, const N: usize> FromIterator<E> for Table<E, N> {
    fn from_iter<I: IntoIterator<Item = E>>(entries: I) -> Self {
        let mut out = Vec::new();
        entries.into_iter().for_each(|entry| entry.write(&mut out));
        Self { entries: out.into(), entry: PhantomData }
    }
}

impl<E: TableEntry<N>, const N: usize> WriteBox for Table<E, N> {
    fn kind(&self) -> FourCc {
        FourCc(*E::KIND)
    }

    fn payload_size(&self) -> u64 {
        8 + self.entries.len() as u64
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        put_table(out, E::version(self.iter()), N, &self.entries);
    }
}
