//! A bounded reader over borrowed bytes.
//!
//! Every read is checked against the end of the box. An error carries the path of the box and the
//! byte offset in the file where it happened. No bytes are copied: [`Cursor::take`] returns a view.

use crate::{
    Error, FourCc, Timescale,
    error::BoxPath,
    header::{BoxRef, Boxes},
};
use bytes::Bytes;

/// A read position in the payload of one box, and the end that reads must not pass.
///
/// A read of more bytes than are left returns [`Error::Truncated`] and leaves the position
/// unchanged.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    bytes: &'a Bytes,
    /// The next byte and the end, as positions in `bytes`; `at <= end <= bytes.len()`.
    at: usize,
    end: usize,
    /// Offset of `bytes` from the start of the file.
    base: u64,
    path: BoxPath,
}

impl<'a> Cursor<'a> {
    /// Starts at the beginning of `bytes`, which lie `offset` bytes from the start of the file. The
    /// path is empty and prints as "file".
    pub fn new(bytes: &'a Bytes, offset: u64) -> Self {
        Self { bytes, at: 0, end: bytes.len(), base: offset, path: BoxPath::default() }
    }

    /// Returns the number of bytes left before the end of the box.
    pub const fn remaining(&self) -> usize {
        self.end - self.at
    }

    /// Returns the offset of the next byte from the start of the file.
    pub const fn offset(&self) -> u64 {
        self.base.saturating_add(self.at as u64)
    }

    /// Returns the path of the box that is read.
    pub const fn path(&self) -> BoxPath {
        self.path
    }

    /// Returns the bytes that are left, without moving.
    pub fn peek(&self) -> &'a [u8] {
        self.bytes.get(self.at..self.end).unwrap_or_default()
    }

    /// Returns a cursor over the next `len` bytes as the box `kind`, and moves past them.
    pub fn sub(&mut self, kind: FourCc, len: usize) -> Result<Self, Error> {
        let start = self.advance(len)?;
        Ok(Self { at: start, end: self.at, path: self.path.join(kind), ..*self })
    }

    /// Returns the next `len` bytes as a view, without copying.
    pub fn take(&mut self, len: usize) -> Result<Bytes, Error> {
        let start = self.advance(len)?;
        Ok(self.bytes.slice(start..self.at))
    }

    /// Returns all bytes that are left as a view, without copying.
    pub fn rest(&mut self) -> Bytes {
        let start = std::mem::replace(&mut self.at, self.end);
        self.bytes.slice(start..self.end)
    }

    /// Returns `count` table entries of `entry_len` bytes each as a view. Bytes after them are not
    /// read.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the box is too short for them.
    pub fn table(&mut self, what: &'static str, count: u32, entry_len: usize) -> Result<Bytes, Error> {
        let len = self.check_count(what, u64::from(count), entry_len)?;
        self.take(len)
    }

    /// Reads the payload of a table box: version and flags, the number of entries, and a view of
    /// the entries, which have `entry_len` bytes each.
    ///
    /// # Errors
    /// [`Error::Truncated`] if fields are missing; [`Error::TooLarge`] if the box is too short for
    /// the entries.
    pub(crate) fn counted_table(&mut self, entry_len: usize) -> Result<Bytes, Error> {
        self.version_and_flags()?;
        let count = self.u32()?;
        self.table("entry_count", count, entry_len)
    }

    /// Checks a number against a limit of this crate.
    pub(crate) fn check_limit(&self, what: &'static str, value: u64, limit: u64) -> Result<(), Error> {
        if value <= limit {
            return Ok(());
        }
        Err(Error::OverLimit { path: self.path, offset: self.offset(), what, value, limit })
    }

    /// Returns the number of bytes that `count` entries of at least `entry_len` (not 0) bytes need.
    ///
    /// # Errors
    /// [`Error::TooLarge`] if the box is too short for them.
    pub fn check_count(&self, what: &'static str, count: u64, entry_len: usize) -> Result<usize, Error> {
        let len = usize::try_from(count).ok().and_then(|count| count.checked_mul(entry_len));
        match len {
            Some(len) if len <= self.remaining() => Ok(len),
            _ => Err(self.too_large(what, count, (self.remaining() / entry_len.max(1)) as u64)),
        }
    }

    /// Moves past `len` bytes.
    pub fn skip(&mut self, len: usize) -> Result<(), Error> {
        self.advance(len).map(|_| ())
    }

    /// Reads the next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let bytes = *self.peek().first_chunk::<N>().ok_or_else(|| self.truncated())?;
        self.at += N;
        Ok(bytes)
    }

    /// Reads one byte.
    pub fn u8(&mut self) -> Result<u8, Error> {
        self.array().map(u8::from_be_bytes)
    }

    /// Reads a big-endian number of 16 bits.
    pub fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_be_bytes)
    }

    /// Reads a big-endian number of 24 bits.
    pub fn u24(&mut self) -> Result<u32, Error> {
        self.array().map(|[a, b, c]| u32::from_be_bytes([0, a, b, c]))
    }

    /// Reads a big-endian number of 32 bits.
    pub fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_be_bytes)
    }

    /// Reads a big-endian number of 64 bits.
    pub fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_be_bytes)
    }

    /// Reads a signed big-endian number of 32 bits.
    pub fn i32(&mut self) -> Result<i32, Error> {
        self.array().map(i32::from_be_bytes)
    }

    /// Reads a time or duration of a box that has 32 bits for it in version 0 and 64 in version 1.
    pub fn u32_or_u64(&mut self, version: u8) -> Result<u64, Error> {
        if version == 0 { self.u32().map(u64::from) } else { self.u64() }
    }

    /// Reads a duration like [`Self::u32_or_u64`]. All ones mean "unknown" in both versions
    /// (ISO/IEC 14496-12 §8.2.2.3) and become `u64::MAX`.
    pub(crate) fn duration(&mut self, version: u8) -> Result<u64, Error> {
        let duration = self.u32_or_u64(version)?;
        Ok(if version == 0 && duration == u64::from(u32::MAX) { u64::MAX } else { duration })
    }

    /// Reads the start of `mvhd` and `mdhd` (ISO/IEC 14496-12 §8.2.2, §8.4.2): version, times that
    /// are skipped, timescale, and duration as [`Self::duration`] returns it.
    pub(crate) fn scale_and_duration(&mut self) -> Result<(Timescale, u64), Error> {
        let (version, _) = self.version_up_to(1)?;
        self.skip(if version == 0 { 8 } else { 16 })?;
        let zero = self.bad("timescale is 0");
        let timescale = Timescale::new(self.u32()?).ok_or(zero)?;
        Ok((timescale, self.duration(version)?))
    }

    /// Reads a four-character code.
    pub fn fourcc(&mut self) -> Result<FourCc, Error> {
        self.array().map(FourCc)
    }

    /// Reads version and flags of a full box (ISO/IEC 14496-12 §4.2.2).
    pub fn version_and_flags(&mut self) -> Result<(u8, u32), Error> {
        let version = self.u8()?;
        Ok((version, self.u24()?))
    }

    /// Reads version and flags of a full box, and refuses versions above `newest`, whose layout is
    /// unknown.
    ///
    /// # Errors
    /// [`Error::Truncated`] if fewer bytes are left; [`Error::Unsupported`] for a newer version.
    pub fn version_up_to(&mut self, newest: u8) -> Result<(u8, u32), Error> {
        let unsupported = self.unsupported("version");
        let (version, flags) = self.version_and_flags()?;
        if version > newest { Err(unsupported) } else { Ok((version, flags)) }
    }

    /// Walks the boxes in the bytes that are left.
    pub fn boxes(&self) -> Boxes<'a> {
        Boxes::new(self.clone())
    }

    /// Returns the first box of the given type in the bytes that are left.
    ///
    /// # Errors
    /// The error of the first box that cannot be read, up to and including the one sought;
    /// [`Error::Missing`] if there is no such box.
    pub fn find(&self, kind: &'static [u8; 4]) -> Result<BoxRef<'a>, Error> {
        for child in self.boxes() {
            let child = child?;
            if child.kind() == kind {
                return Ok(child);
            }
        }
        Err(self.missing(kind))
    }

    /// Returns [`Error::Truncated`] for this position.
    pub const fn truncated(&self) -> Error {
        Error::Truncated { path: self.path, offset: self.offset() }
    }

    /// Returns [`Error::BadValue`] for this position.
    pub const fn bad(&self, what: &'static str) -> Error {
        Error::BadValue { path: self.path, offset: self.offset(), what }
    }

    /// Returns [`Error::TooLarge`] for this position.
    pub const fn too_large(&self, what: &'static str, value: u64, limit: u64) -> Error {
        Error::TooLarge { path: self.path, offset: self.offset(), what, value, limit }
    }

    /// Returns [`Error::Unsupported`] for this position.
    pub const fn unsupported(&self, what: &'static str) -> Error {
        Error::Unsupported { path: self.path, offset: self.offset(), what }
    }

    /// Returns [`Error::Missing`] for a child box of this one.
    pub const fn missing(&self, kind: &[u8; 4]) -> Error {
        Error::Missing { path: self.path, missing: FourCc(*kind) }
    }

    /// Moves past `len` bytes and returns the position in `bytes` where they start.
    fn advance(&mut self, len: usize) -> Result<usize, Error> {
        if len > self.remaining() {
            return Err(self.truncated());
        }
        let start = self.at;
        self.at += len;
        Ok(start)
    }
}

/// Returns the 32-bit number at byte `at` of a table entry. Returns 0 if `at` is beyond the end,
/// which does not happen with entries of the right length.
pub(crate) fn u32_at(entry: &[u8], at: usize) -> u32 {
    entry.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |&bytes| u32::from_be_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_up_to_the_end_of_the_box() {
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
    fn a_table_count_is_checked_before_entries_are_taken() {
        let bytes = Bytes::from_static(&[0; 24]);
        let mut cursor = Cursor::new(&bytes, 0);
        let error = cursor.table("entry_count", u32::MAX, 8).unwrap_err();
        assert!(matches!(error, Error::TooLarge { value: 0xffff_ffff, limit: 3, .. }), "{error}");
        assert_eq!(cursor.table("entry_count", 3, 8).unwrap().len(), 24);
    }
}
