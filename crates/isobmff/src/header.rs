//! Box headers (ISO/IEC 14496-12 §4.2.2) and walking from box to box.

use crate::{Error, FourCc, cursor::Cursor, error::BoxPath};
use bytes::Bytes;

/// The header of a box: its type and its size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BoxHeader {
    /// The box's type.
    pub kind: FourCc,
    /// Size of the header itself in bytes: 8, or 16 with a 64-bit size. The extended type of a
    /// `uuid` box counts as payload.
    pub header_len: u8,
    /// Size of the whole box in bytes, header included; `None` if the box reaches to the end of the
    /// file (size 0).
    pub size: Option<u64>,
}

impl BoxHeader {
    /// Maximum size of a header in bytes.
    pub const MAX_LEN: usize = 16;

    /// Reads a header from the start of `bytes`, which lies at `offset` in the file. Returns
    /// `Ok(None)` if the header is longer than `bytes`.
    ///
    /// # Errors
    /// [`Error::BadValue`] if the size is smaller than the header.
    pub fn read(bytes: &[u8], offset: u64) -> Result<Option<Self>, Error> {
        Self::read_in(bytes, offset, BoxPath::default())
    }

    fn read_in(bytes: &[u8], offset: u64, path: BoxPath) -> Result<Option<Self>, Error> {
        let Some(&[a, b, c, d, k0, k1, k2, k3]) = bytes.first_chunk::<8>() else { return Ok(None) };
        let kind = FourCc([k0, k1, k2, k3]);
        let (header_len, size) = match u32::from_be_bytes([a, b, c, d]) {
            0 => (8, None),
            1 => match bytes.get(8..).and_then(|rest| rest.first_chunk::<8>()) {
                Some(&large) => (16, Some(u64::from_be_bytes(large))),
                None => return Ok(None),
            },
            size => (8, Some(u64::from(size))),
        };
        if size.is_some_and(|size| size < u64::from(header_len)) {
            let path = path.join(kind);
            return Err(Error::BadValue { path, offset, what: "size smaller than the header" });
        }
        Ok(Some(Self { kind, header_len, size }))
    }
}

/// One box within bytes in memory.
#[derive(Clone, Debug)]
pub struct BoxRef<'a> {
    /// Type and size.
    pub header: BoxHeader,
    /// The bytes after the header.
    pub payload: Cursor<'a>,
    /// Offset of the header from the start of the file, in bytes.
    pub offset: u64,
    raw: Cursor<'a>,
}

impl BoxRef<'_> {
    /// Returns the box's type.
    pub const fn kind(&self) -> FourCc {
        self.header.kind
    }

    /// Returns the whole box, header included, as a view.
    pub fn raw(&self) -> Bytes {
        self.raw.clone().rest()
    }

    /// Returns the extended type, if this is a `uuid` box that is long enough to have one (§4.2.2).
    pub fn usertype(&self) -> Option<[u8; 16]> {
        if self.kind() == b"uuid" { self.payload.peek().first_chunk().copied() } else { None }
    }
}

/// An iterator over the boxes in a payload. It ends after the first error.
#[derive(Clone, Debug)]
pub struct Boxes<'a> {
    rest: Option<Cursor<'a>>,
}

impl<'a> Boxes<'a> {
    pub(crate) const fn new(payload: Cursor<'a>) -> Self {
        Self { rest: Some(payload) }
    }

    fn read(rest: &mut Cursor<'a>) -> Result<Option<BoxRef<'a>>, Error> {
        let bytes = rest.peek();
        let offset = rest.offset();
        let Some(header) = BoxHeader::read_in(bytes, offset, rest.path())? else {
            // QuickTime ends some containers with a 32-bit zero, and some writers add more zeros.
            return if bytes.iter().all(|&b| b == 0) { Ok(None) } else { Err(rest.truncated()) };
        };
        let len = match header.size {
            None => rest.remaining(),
            Some(size) => usize::try_from(size).unwrap_or(usize::MAX),
        };
        if len > rest.remaining() {
            return Err(Error::Truncated { path: rest.path().join(header.kind), offset });
        }
        let raw = rest.sub(header.kind, len)?;
        let mut payload = raw.clone();
        payload.skip(usize::from(header.header_len))?;
        Ok(Some(BoxRef { header, payload, offset, raw }))
    }
}

impl<'a> Iterator for Boxes<'a> {
    type Item = Result<BoxRef<'a>, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut rest = self.rest.take()?;
        let item = Self::read(&mut rest).transpose()?;
        if item.is_ok() {
            self.rest = Some(rest);
        }
        Some(item)
    }
}

/// Reads the box at the start of `bytes`, which lie `offset` bytes from the start of the file. The
/// box must be of type `kind`. Bytes after it are ignored.
pub(crate) fn expect<'a>(bytes: &'a Bytes, offset: u64, kind: &'static [u8; 4]) -> Result<BoxRef<'a>, Error> {
    let file = Cursor::new(bytes, offset);
    match file.boxes().next().transpose()? {
        Some(found) if found.kind() == kind => Ok(found),
        Some(_) | None => Err(file.missing(kind)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(bytes: &'static [u8]) -> Vec<Result<(String, usize), String>> {
        let bytes = Bytes::from_static(bytes);
        Cursor::new(&bytes, 0)
            .boxes()
            .map(|b| b.map(|b| (b.kind().to_string(), b.payload.remaining())).map_err(|e| e.to_string()))
            .collect()
    }

    #[test]
    fn headers_of_all_sizes_are_read() {
        let small = BoxHeader::read(b"\0\0\0\x08free", 0).unwrap().unwrap();
        assert_eq!(small, BoxHeader { kind: FourCc(*b"free"), header_len: 8, size: Some(8) });
        let large = BoxHeader::read(b"\0\0\0\x01mdat\0\0\0\x02\0\0\0\0", 0).unwrap().unwrap();
        assert_eq!(large, BoxHeader { kind: FourCc(*b"mdat"), header_len: 16, size: Some(2 << 32) });
        let open = BoxHeader::read(b"\0\0\0\0mdat", 0).unwrap().unwrap();
        assert_eq!(open.size, None);
        assert_eq!(BoxHeader::read(b"\0\0\0\x08fre", 0).unwrap(), None);
        assert_eq!(BoxHeader::read(b"\0\0\0\x01mdat\0\0\0\0\0\0\0", 0).unwrap(), None);
        assert!(BoxHeader::read(b"\0\0\0\x07free", 0).is_err());
        assert!(BoxHeader::read(b"\0\0\0\x01mdat\0\0\0\0\0\0\0\x0f", 0).is_err());
    }

    #[test]
    fn boxes_of_all_sizes_are_walked() {
        let walked = kinds(b"\0\0\0\x09free.\0\0\0\x01wide\0\0\0\0\0\0\0\x11!\0\0\0\0mdat...");
        let expected = [("free", 1), ("wide", 1), ("mdat", 3)];
        assert_eq!(walked, expected.map(|(kind, len)| Ok((kind.to_owned(), len))));
    }

    #[test]
    fn a_container_may_end_in_zeros_but_not_in_other_bytes() {
        assert_eq!(kinds(b"\0\0\0\x08free\0\0\0\0").len(), 1);
        assert_eq!(
            kinds(b"\0\0\0\x08free\0\0\0\x01").last().unwrap(),
            &Err("file at byte 8: truncated".into())
        );
    }

    #[test]
    fn a_box_longer_than_its_parent_ends_the_walk() {
        let walked = kinds(b"\0\0\0\x10free\0\0\0\x08free");
        assert_eq!(walked.len(), 1, "the inner box is payload");
        assert_eq!(kinds(b"\0\0\0\x11free\0\0\0\x08free"), [Err("free at byte 0: truncated".to_owned())]);
        let huge = kinds(b"\0\0\0\x01mdat\xff\xff\xff\xff\xff\xff\xff\xff");
        assert_eq!(huge, [Err("mdat at byte 0: truncated".to_owned())]);
    }
}
