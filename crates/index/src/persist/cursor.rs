//! Reading and writing numbers, bytes and lists of them, little endian.

use crate::persist::error::PersistError;
use std::ops::RangeInclusive;

/// Appends values to bytes.
#[derive(Debug, Default)]
pub(super) struct ByteWriter(pub(super) Vec<u8>);

/// Takes values from the front of bytes.
#[derive(Debug)]
pub(super) struct ByteReader<'a>(pub(super) &'a [u8]);

const SHORT: PersistError = PersistError::Damaged("it ends too early");

macro_rules! numbers {
    ($($name:ident: $number:ty),*) => {
        impl ByteWriter {
            $(pub(super) fn $name(&mut self, value: $number) {
                self.0.extend_from_slice(&value.to_le_bytes());
            })*
        }
        impl ByteReader<'_> {
            $(pub(super) fn $name(&mut self) -> Result<$number, PersistError> {
                let (value, rest) = self.0.split_first_chunk().ok_or(SHORT)?;
                self.0 = rest;
                Ok(<$number>::from_le_bytes(*value))
            })*
        }
    };
}

numbers!(u8: u8, u16: u16, u32: u32, u64: u64, u128: u128, i32: i32, i64: i64);

impl ByteWriter {
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    pub(super) fn bool(&mut self, value: bool) {
        self.u8(value.into());
    }

    /// Writes the length, then the bytes.
    pub(super) fn blob(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.bytes(bytes);
    }

    pub(super) fn text(&mut self, text: &str) {
        self.blob(text.as_bytes());
    }

    /// Writes the number of items that follow. More than 2^32 items do not fit in the memory of an
    /// index; the count would then be wrong, and the bytes damaged.
    pub(super) fn count(&mut self, count: usize) {
        self.u32(u32::try_from(count).unwrap_or(u32::MAX));
    }

    pub(super) fn option<T>(&mut self, value: Option<T>, put: impl FnOnce(&mut Self, T)) {
        self.bool(value.is_some());
        if let Some(value) = value {
            put(self, value);
        }
    }

    pub(super) fn list<T>(&mut self, items: &[T], mut put: impl FnMut(&mut Self, &T)) {
        self.count(items.len());
        items.iter().for_each(|item| put(self, item));
    }
}

impl<'a> ByteReader<'a> {
    pub(super) fn bytes(&mut self, count: usize) -> Result<&'a [u8], PersistError> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(SHORT)?;
        self.0 = rest;
        Ok(bytes)
    }

    /// Reads a time or an offset to which others can be added.
    pub(super) fn within(&mut self, range: RangeInclusive<i64>) -> Result<i64, PersistError> {
        let number = self.i64()?;
        range.contains(&number).then_some(number).ok_or(PersistError::Damaged("a number that is too large"))
    }

    pub(super) fn bool(&mut self) -> Result<bool, PersistError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(PersistError::Damaged("a flag that is neither 0 nor 1")),
        }
    }

    pub(super) fn blob(&mut self) -> Result<&'a [u8], PersistError> {
        let count = self.count(1)?;
        self.bytes(count)
    }

    pub(super) fn text(&mut self) -> Result<&'a str, PersistError> {
        std::str::from_utf8(self.blob()?).map_err(|_| PersistError::Damaged("text that is not UTF-8"))
    }

    /// Reads the number of items that follow, each of at least `size` bytes, if they fit.
    pub(super) fn count(&mut self, size: usize) -> Result<usize, PersistError> {
        let count = self.u32()? as usize;
        if count > self.0.len() / size { Err(SHORT) } else { Ok(count) }
    }

    pub(super) fn option<T>(
        &mut self,
        take: impl FnOnce(&mut Self) -> Result<T, PersistError>,
    ) -> Result<Option<T>, PersistError> {
        self.bool()?.then(|| take(self)).transpose()
    }

    /// Reads a list of items of at least `size` bytes each.
    pub(super) fn list<T>(
        &mut self,
        size: usize,
        mut take: impl FnMut(&mut Self) -> Result<T, PersistError>,
    ) -> Result<Vec<T>, PersistError> {
        (0..self.count(size)?).map(|_| take(self)).collect()
    }
}
