//! A bounded reader over borrowed bytes.
//!
//! Every read is checked against the end of the box, and every error carries the path of the box and the byte
//! of the file where it happened. Nothing is copied: [`Cursor::take`] hands out a view.

use crate::{
    Error, FourCc,
    error::BoxPath,
    header::{BoxRef, Boxes},
};
use bytes::Bytes;

/// A position in the payload of one box, and the end it may not pass.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    bytes: &'a Bytes,
    /// Next byte and the end, as positions in `bytes`; `at <= end <= bytes.len()`.
    at: usize,
    end: usize,
    /// Where `bytes` starts in the file.
    base: u64,
    path: BoxPath,
}

impl<'a> Cursor<'a> {
    /// Reads all of `bytes`, which lie `offset` bytes from the start of the file. The path is empty: "file".
    #[must_use]
    pub fn new(bytes: &'a Bytes, offset: u64) -> Self {
        Self { bytes, at: 0, end: bytes.len(), base: offset, path: BoxPath::default() }
    }

    /// Bytes left before the end of the box.
    #[must_use]
    pub const fn remaining(&self) -> usize {
        self.end.saturating_sub(self.at)
    }

    /// Where the next byte lies, in bytes from the start of the file.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        self.base.saturating_add(self.at as u64)
    }

    /// The box being read.
    #[must_use]
    pub const fn path(&self) -> BoxPath {
        self.path
    }

    /// What is left, without moving.
    #[must_use]
    pub fn peek(&self) -> &'a [u8] {
        self.bytes.get(self.at..self.end).unwrap_or_default()
    }

    /// A cursor over the next `len` bytes, named `kind`; moves past them.
    ///
    /// # Errors
    /// [`Error::Truncated`] where fewer are left.
    pub fn sub(&mut self, kind: FourCc, len: usize) -> Result<Self, Error> {
        let start = self.advance(len)?;
        Ok(Self { at: start, end: self.at, path: self.path.join(kind), ..*self })
    }

    /// The next `len` bytes as a view; no copy.
    ///
    /// # Errors
    /// [`Error::Truncated`] where fewer are left.
    pub fn take(&mut self, len: usize) -> Result<Bytes, Error> {
        let start = self.advance(len)?;
        Ok(self.bytes.slice(start..self.at))
    }

    /// All that is left, as a view; no copy.
    #[must_use]
    pub fn rest(&mut self) -> Bytes {
        let start = std::mem::replace(&mut self.at, self.end);
        self.bytes.slice(start..self.end)
    }

    /// `count` table entries of `entry_len` bytes each, as a view; what lies behind them is left alone.
    ///
    /// # Errors
    /// [`Error::TooLarge`] where the box is too short for them.
    pub fn table(&mut self, what: &'static str, count: u32, entry_len: usize) -> Result<Bytes, Error> {
        let len = self.check_count(what, u64::from(count), entry_len)?;
        self.take(len)
    }

    /// The bytes that `count` entries of at least `entry_len` (not 0) bytes each need.
    ///
    /// # Errors
    /// [`Error::TooLarge`] where the box is too short for them.
    pub fn check_count(&self, what: &'static str, count: u64, entry_len: usize) -> Result<usize, Error> {
        let len = usize::try_from(count).ok().and_then(|count| count.checked_mul(entry_len));
        match len {
            Some(len) if len <= self.remaining() => Ok(len),
            _ => Err(self.too_large(what, count, (self.remaining() / entry_len.max(1)) as u64)),
        }
    }

    /// Moves past `len` bytes.
    ///
    /// # Errors
    /// [`Error::Truncated`] where fewer are left.
    pub fn skip(&mut self, len: usize) -> Result<(), Error> {
        self.advance(len).map(|_| ())
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// [`Error::Truncated`] where fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let bytes = *self.peek().first_chunk::<N>().ok_or_else(|| self.truncated())?;
        self.at += N;
        Ok(bytes)
    }

    /// One byte.
    ///
    /// # Errors
    /// [`Error::Truncated`] at the end of the box; so for all the readers below.
    pub fn u8(&mut self) -> Result<u8, Error> {
        self.array().map(u8::from_be_bytes)
    }

    /// Big-endian, 16 bits.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_be_bytes)
    }

    /// Big-endian, 24 bits.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn u24(&mut self) -> Result<u32, Error> {
        self.array().map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
    }

    /// Big-endian, 32 bits.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_be_bytes)
    }

    /// Big-endian, 64 bits.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_be_bytes)
    }

    /// Big-endian and signed, 32 bits.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn i32(&mut self) -> Result<i32, Error> {
        self.array().map(i32::from_be_bytes)
    }

    /// A time or duration of a box whose version 0 has 32 bits and whose version 1 has 64.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn u32_or_u64(&mut self, version: u8) -> Result<u64, Error> {
        if version == 0 { self.u32().map(u64::from) } else { self.u64() }
    }

    /// A four-character code.
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn fourcc(&mut self) -> Result<FourCc, Error> {
        self.array().map(FourCc)
    }

    /// Version and flags of a full box (ISO/IEC 14496-12 §4.2.2).
    ///
    /// # Errors
    /// [`Error::Truncated`].
    pub fn version_and_flags(&mut self) -> Result<(u8, u32), Error> {
        let version = self.u8()?;
        Ok((version, self.u24()?))
    }

    /// As [`Self::version_and_flags`], where versions beyond `newest` have a layout nobody knows yet.
    ///
    /// # Errors
    /// [`Error::Truncated`]; [`Error::Unsupported`] for a newer version.
    pub fn version_up_to(&mut self, newest: u8) -> Result<(u8, u32), Error> {
        let at = self.offset();
        let (version, flags) = self.version_and_flags()?;
        if version > newest {
            return Err(Error::Unsupported { path: self.path, offset: at, what: "version" });
        }
        Ok((version, flags))
    }

    /// The boxes that what is left consists of.
    #[must_use]
    pub fn boxes(&self) -> Boxes<'a> {
        Boxes::new(self.clone())
    }

    /// The first box of that type in what is left.
    ///
    /// # Errors
    /// Where a box before it, or it, does not fit; [`Error::Missing`] where there is none.
    pub fn find(&self, kind: &'static [u8; 4]) -> Result<BoxRef<'a>, Error> {
        for child in self.boxes() {
            let child = child?;
            if child.kind() == kind {
                return Ok(child);
            }
        }
        Err(self.missing(kind))
    }

    /// [`Error::Truncated`] here.
    #[must_use]
    pub const fn truncated(&self) -> Error {
        Error::Truncated { path: self.path, offset: self.offset() }
    }

    /// [`Error::BadValue`] here.
    #[must_use]
    pub const fn bad(&self, what: &'static str) -> Error {
        Error::BadValue { path: self.path, offset: self.offset(), what }
    }

    /// [`Error::TooLarge`] here.
    #[must_use]
    pub const fn too_large(&self, what: &'static str, value: u64, limit: u64) -> Error {
        Error::TooLarge { path: self.path, offset: self.offset(), what, value, limit }
    }

    /// [`Error::Unsupported`] here.
    #[must_use]
    pub const fn unsupported(&self, what: &'static str) -> Error {
        Error::Unsupported { path: self.path, offset: self.offset(), what }
    }

    /// [`Error::Missing`] of this box.
    #[must_use]
    pub const fn missing(&self, kind: &[u8; 4]) -> Error {
        Error::Missing { path: self.path, missing: FourCc(*kind) }
    }

    /// Moves past `len` bytes and returns where they start in `bytes`.
    fn advance(&mut self, len: usize) -> Result<usize, Error> {
        if len > self.remaining() {
            return Err(self.truncated());
        }
        let start = self.at;
        self.at += len;
        Ok(start)
    }
}

/// The 32-bit number at byte `at` of a table entry; 0 beyond its end, which entries cut to length never meet.
pub(crate) fn u32_at(entry: &[u8], at: usize) -> u32 {
    entry.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |&bytes| u32::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_to_the_end_and_not_beyond() {
        let bytes = Bytes::from_static(&[0, 0, 1, 2, 0xff, 0xff, 0xff, 0xfe, 9]);
        let mut cursor = Cursor::new(&bytes, 100);
        assert_eq!(cursor.u8().unwrap(), 0);
        assert_eq!(cursor.u24().unwrap(), 0x102);
        let mut sub = cursor.sub(FourCc(*b"test"), 4).unwrap();
        assert_eq!(sub.i32().unwrap(), -2);
        let error = sub.u8().unwrap_err();
        assert_eq!(error.to_string(), "test at byte 108: truncated");
        assert_eq!(cursor.take(1).unwrap(), &[9][..]);
        assert_eq!(cursor.remaining(), 0);
        assert!(cursor.take(1).is_err());
    }

    #[test]
    fn a_failed_read_does_not_move() {
        let bytes = Bytes::from_static(&[1, 2, 3]);
        let mut cursor = Cursor::new(&bytes, 0);
        assert!(cursor.u32().is_err());
        assert!(cursor.skip(usize::MAX).is_err());
        assert_eq!(cursor.rest(), &[1, 2, 3][..]);
    }

    #[test]
    fn a_table_is_measured_before_it_is_taken() {
        let bytes = Bytes::from_static(&[0; 24]);
        let mut cursor = Cursor::new(&bytes, 0);
        let error = cursor.table("entry_count", u32::MAX, 8).unwrap_err();
        assert!(matches!(error, Error::TooLarge { value: 0xffff_ffff, limit: 3, .. }), "{error}");
        assert_eq!(cursor.table("entry_count", 3, 8).unwrap().len(), 24);
    }
}
