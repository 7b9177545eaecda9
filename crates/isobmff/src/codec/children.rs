//! The boxes inside a sample entry: a bounded walk that stops at the first box that does not fit.

use crate::bits::BitReader;
use crate::{Error, FourCc, error::BoxPath, header::BoxHeader};
use bytes::Bytes;

/// Position of a box, for error messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct Position {
    pub(super) path: BoxPath,
    /// Offset from the start of the sample entry, in bytes.
    pub(super) offset: u64,
}

impl Position {
    pub(super) fn join(self, code: FourCc) -> Self {
        Self { path: self.path.join(code), ..self }
    }

    pub(super) fn truncated(self) -> Error {
        Error::Truncated { path: self.path, offset: self.offset }
    }

    pub(super) fn bad(self, what: &'static str) -> Error {
        Error::BadValue { path: self.path, offset: self.offset, what }
    }

    pub(super) fn unsupported(self, what: &'static str) -> Error {
        Error::Unsupported { path: self.path, offset: self.offset, what }
    }

    pub(super) fn missing(self, missing: &[u8; 4]) -> Error {
        Error::Missing { path: self.path, missing: FourCc(*missing) }
    }
}

/// One child box.
#[derive(Debug, Clone)]
pub(super) struct Child {
    pub(super) kind: FourCc,
    /// Payload without the header. A `uuid` box keeps its 16 bytes of extended type in this field.
    pub(super) body: Bytes,
    /// Position of the box.
    pub(super) at: Position,
}

impl Child {
    /// Returns a reader over the payload.
    pub(super) fn bits(&self) -> BitReader<'_> {
        BitReader::new(&self.body)
    }

    /// Returns the version of a FullBox and a reader over the payload after its flags.
    pub(super) fn full_box(&self) -> Result<(u8, BitReader<'_>), Error> {
        let mut bits = self.bits();
        let version = bits.u8(8).ok_or(self.at.truncated())?;
        bits.skip(24).ok_or(self.at.truncated())?;
        Ok((version, bits))
    }

    /// Walks the boxes in the payload after `skip` bytes.
    pub(super) fn children(&self, skip: usize) -> Children {
        Children::new(&self.body, skip, self.at)
    }
}

/// An iterator over the boxes of a payload, in order.
#[derive(Debug, Clone)]
pub(super) struct Children {
    rest: Bytes,
    at: Position,
    /// False once a box did not fit.
    is_complete: bool,
}

impl Children {
    /// Walks the boxes of `bytes` from `start` on.
    pub(super) fn new(bytes: &Bytes, start: usize, at: Position) -> Self {
        let start = start.min(bytes.len());
        Self {
            rest: bytes.slice(start..),
            at: Position { offset: at.offset + start as u64, ..at },
            is_complete: true,
        }
    }

    /// Returns the first box of the given type.
    pub(super) fn first(&self, kind: &[u8; 4]) -> Option<Child> {
        self.clone().find(|child| child.kind == kind)
    }

    /// Returns the first box of the given type, in the entry or in QuickTime's `wave` in it.
    pub(super) fn first_or_in_wave(&self, kind: &[u8; 4]) -> Option<Child> {
        self.first(kind).or_else(|| self.first(b"wave")?.children(0).first(kind))
    }

    /// Returns the first box of the given type.
    ///
    /// # Errors
    /// [`Error::Missing`] if there is none, but [`Error::Truncated`] if the walk ended before the
    /// bytes did, since the box may be in the rest.
    pub(super) fn require(&self, kind: &[u8; 4]) -> Result<Child, Error> {
        let error = || if self.is_well_formed() { self.at.missing(kind) } else { self.at.truncated() };
        self.first(kind).ok_or_else(error)
    }

    /// Like [`Self::require`], in the entry or in QuickTime's `wave` in it.
    pub(super) fn require_in_entry_or_wave(&self, kind: &[u8; 4]) -> Result<Child, Error> {
        self.first_or_in_wave(kind).map_or_else(|| self.require(kind), Ok)
    }

    /// Returns true if every box fits into the payload and has a printable type.
    pub(super) fn is_well_formed(&self) -> bool {
        let mut walk = self.clone();
        walk.by_ref().all(|child| child.kind.0.iter().all(|b| (0x20..0x7f).contains(b) || *b == 0xa9))
            && walk.is_complete
    }

    /// Returns the position of the first box.
    pub(super) fn at(&self) -> Position {
        self.at
    }

    /// Ends the walk at a box that does not fit.
    fn stop(&mut self) -> Option<Child> {
        self.is_complete = false;
        self.rest = Bytes::new();
        None
    }
}

impl Iterator for Children {
    type Item = Child;

    fn next(&mut self) -> Option<Child> {
        let header = match BoxHeader::read(&self.rest, 0) {
            Ok(Some(header)) => header,
            // Fewer than eight bytes are padding.
            Ok(None) if self.rest.len() < 8 => return None,
            Ok(None) | Err(_) => return self.stop(),
        };
        // QuickTime ends a list of boxes with four zero bytes.
        let size = header.size?;
        let Some(size) = usize::try_from(size).ok().filter(|&size| size <= self.rest.len()) else {
            return self.stop();
        };
        let whole = self.rest.split_to(size);
        let body = whole.slice(usize::from(header.header_len)..);
        let child = Child { kind: header.kind, body, at: self.at.join(header.kind) };
        self.at.offset += size as u64;
        Some(child)
    }
}

#[cfg(test)]
mod tests {
    use super::{Children, Position};
    use crate::{Error, error::BoxPath};
    use bytes::Bytes;

    fn walk(bytes: &'static [u8]) -> Children {
        Children::new(&Bytes::from_static(bytes), 0, Position { path: BoxPath::default(), offset: 0 })
    }

    #[test]
    fn a_list_ends_at_its_terminator_or_at_padding() {
        let boxes = walk(b"\0\0\0\x09pasp1\0\0\0\x01btrt\0\0\0\0\0\0\0\x12ab\0\0\0\0");
        assert!(boxes.is_well_formed());
        let found: Vec<_> = boxes.clone().map(|c| (c.kind.to_string(), c.body.len(), c.at.offset)).collect();
        assert_eq!(found, [("pasp".into(), 1, 0), ("btrt".into(), 2, 9)]);
        assert!(matches!(boxes.require(b"avcC"), Err(Error::Missing { .. })));
    }

    #[test]
    fn a_box_that_does_not_fit_ends_the_walk() {
        for bytes in [
            &b"\0\0\0\x09pasp1\0\0\0\x09btrt"[..],
            b"\0\0\0\x07pasp",
            b"\0\0\0\x01pasp\xff\xff\xff\xff\0\0\0\0",
        ] {
            let boxes = walk(bytes);
            assert!(!boxes.is_well_formed(), "{bytes:?}");
            assert!(matches!(boxes.require(b"btrt"), Err(Error::Truncated { .. })), "{bytes:?}");
        }
    }
}
