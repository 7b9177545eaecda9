//! The boxes inside a sample entry: a bounded walk that stops at the first one that does not fit.

use super::bits::Bits;
use crate::{Error, FourCc, error::BoxPath};
use bytes::Bytes;

/// Where something lies, for error messages.
#[derive(Debug, Clone, Copy)]
pub(super) struct At {
    pub(super) path: BoxPath,
    /// Bytes from the start of the sample entry.
    pub(super) offset: u64,
}

impl At {
    pub(super) fn join(self, code: FourCc, forward: usize) -> Self {
        let forward = u64::try_from(forward).unwrap_or(u64::MAX);
        Self { path: self.path.join(code), offset: self.offset.saturating_add(forward) }
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
    /// Payload, without the header; of a `uuid` box with its 16 bytes of extended type.
    pub(super) body: Bytes,
    /// Where the box begins.
    pub(super) at: At,
}

impl Child {
    /// A reader over the payload.
    pub(super) fn bits(&self) -> Bits<'_> {
        Bits::new(&self.body)
    }

    /// A reader over the payload of a FullBox, with its version; flags are passed over.
    pub(super) fn full_box(&self) -> Result<(u8, Bits<'_>), Error> {
        let mut bits = self.bits();
        let version = bits.u8(8).ok_or(self.at.truncated())?;
        bits.skip(24).ok_or(self.at.truncated())?;
        Ok((version, bits))
    }

    /// The boxes in the payload after `skip` bytes.
    pub(super) fn children(&self, skip: usize) -> Children {
        Children::new(&self.body, skip, self.at)
    }
}

/// The boxes of a payload, in order.
#[derive(Debug, Clone)]
pub(super) struct Children {
    rest: Bytes,
    at: At,
    sound: bool,
}

impl Children {
    /// The boxes of `bytes` from `start` on.
    pub(super) fn new(bytes: &Bytes, start: usize, at: At) -> Self {
        let start = start.min(bytes.len());
        let offset = at.offset.saturating_add(u64::try_from(start).unwrap_or(u64::MAX));
        Self { rest: bytes.slice(start..), at: At { offset, ..at }, sound: true }
    }

    /// The first box of that type.
    pub(super) fn first(&self, kind: &[u8; 4]) -> Option<Child> {
        self.clone().find(|child| child.kind == kind)
    }

    /// The first box of that type.
    ///
    /// # Errors
    /// [`Error::Truncated`] where the walk ended before the bytes did, so that the box may be there,
    /// else [`Error::Missing`].
    pub(super) fn require(&self, kind: &[u8; 4]) -> Result<Child, Error> {
        self.first(kind).ok_or_else(|| if self.sound() { self.at.missing(kind) } else { self.at.truncated() })
    }

    /// Every box fits into the one that holds it, and its type is printable.
    pub(super) fn sound(&self) -> bool {
        let mut walk = self.clone();
        walk.by_ref().all(|child| child.kind.0.iter().all(|b| (0x20..0x7f).contains(b) || *b == 0xa9))
            && walk.sound
    }

    /// Where the first box begins.
    pub(super) fn at(&self) -> At {
        self.at
    }
}

impl Iterator for Children {
    type Item = Child;

    fn next(&mut self) -> Option<Child> {
        let mut head = Bits::new(&self.rest);
        // QuickTime ends a list of boxes with four zero bytes; fewer than eight bytes are padding.
        let size = head.bits(32).filter(|&size| size != 0)?;
        let kind = FourCc(<[u8; 4]>::try_from(head.bytes(4)?).ok()?);
        let (header, size) = if size == 1 {
            self.sound = false;
            let high = head.bits(32)?;
            let low = head.bits(32)?;
            self.sound = true;
            (16, usize::try_from(u64::from(high) << 32 | u64::from(low)).unwrap_or(usize::MAX))
        } else {
            (8, usize::try_from(size).unwrap_or(usize::MAX))
        };
        if size < header || size > self.rest.len() {
            self.sound = false;
            self.rest = Bytes::new();
            return None;
        }
        let whole = self.rest.split_to(size);
        let child = Child { kind, body: whole.slice(header..), at: self.at.join(kind, 0) };
        self.at.offset = self.at.offset.saturating_add(u64::try_from(size).unwrap_or(u64::MAX));
        Some(child)
    }
}

#[cfg(test)]
mod tests {
    use super::{At, Children};
    use crate::{Error, error::BoxPath};
    use bytes::Bytes;

    fn walk(bytes: &'static [u8]) -> Children {
        Children::new(&Bytes::from_static(bytes), 0, At { path: BoxPath::default(), offset: 0 })
    }

    #[test]
    fn a_list_ends_at_its_terminator_or_at_padding() {
        let boxes = walk(b"\0\0\0\x09pasp1\0\0\0\x01btrt\0\0\0\0\0\0\0\x12ab\0\0\0\0");
        assert!(boxes.sound());
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
            assert!(!boxes.sound(), "{bytes:?}");
            assert!(matches!(boxes.require(b"btrt"), Err(Error::Truncated { .. })), "{bytes:?}");
        }
    }
}
