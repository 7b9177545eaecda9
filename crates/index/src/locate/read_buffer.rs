//! The bytes of an object that have been read so far.

use bytes::{Bytes, BytesMut};
use std::ops::Range;

/// Bytes of an object that were read.
#[derive(Debug, Clone)]
pub struct ObjectBytes {
    /// Offset of the first byte in the object.
    pub offset: u64,
    /// The bytes.
    pub bytes: Bytes,
}

/// All bytes read of an object, ascending by offset. They may overlap.
#[derive(Debug, Default)]
pub(crate) struct ReadBuffer(Vec<ObjectBytes>);

fn end(piece: &ObjectBytes) -> u64 {
    piece.offset + piece.bytes.len() as u64
}

impl ReadBuffer {
    pub(crate) fn insert(&mut self, piece: ObjectBytes) {
        if !piece.bytes.is_empty() {
            let at = self.0.partition_point(|p| p.offset <= piece.offset);
            self.0.insert(at, piece);
        }
    }

    /// Returns the bytes of a range, if all are there: a view if one read holds it, else a copy.
    pub(crate) fn get(&self, range: &Range<u64>) -> Option<Bytes> {
        if range.is_empty() {
            return Some(Bytes::new());
        }
        if let Some(found) = self.0.iter().find_map(|piece| view(piece, range)) {
            return Some(found);
        }
        if self.missing(range).next().is_some() {
            return None;
        }
        let mut joined = BytesMut::with_capacity(usize::try_from(range.end - range.start).ok()?);
        let mut at = range.start;
        while at < range.end {
            let piece = self.0.iter().filter(|p| p.offset <= at && end(p) > at).max_by_key(|p| end(p))?;
            let part = view(piece, &(at..end(piece).min(range.end)))?;
            at += part.len() as u64;
            joined.extend_from_slice(&part);
        }
        Some(joined.freeze())
    }

    /// Returns the parts of a range that have not been read.
    pub(crate) fn missing(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let mut gaps = Vec::new();
        let mut at = range.start;
        for piece in &self.0 {
            if piece.offset >= range.end {
                break;
            }
            if piece.offset > at {
                gaps.push(at..piece.offset);
            }
            at = at.max(end(piece));
        }
        if at < range.end {
            gaps.push(at..range.end);
        }
        gaps.into_iter()
    }

    /// Drops reads that end at or before `offset`.
    pub(crate) fn forget_before(&mut self, offset: u64) {
        self.0.retain(|piece| end(piece) > offset);
    }
}

fn view(piece: &ObjectBytes, range: &Range<u64>) -> Option<Bytes> {
    let from = usize::try_from(range.start.checked_sub(piece.offset)?).ok()?;
    let to = usize::try_from(range.end.checked_sub(piece.offset)?).ok()?;
    (to <= piece.bytes.len()).then(|| piece.bytes.slice(from..to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn returns_exactly_the_bytes_read(
            pieces in prop::collection::vec((0..200_u64, 0..60_u64), 0..8),
            range in (0..220_u64, 0..80_u64),
        ) {
            let object: Vec<u8> = (0..=255).collect();
            let slice = |range: Range<u64>| object[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()].to_vec();
            let mut read = ReadBuffer::default();
            let mut known = [false; 300];
            for (offset, len) in pieces {
                let len = len.min(256 - offset);
                read.insert(ObjectBytes { offset, bytes: slice(offset..offset + len).into() });
                known[usize::try_from(offset).unwrap()..][..usize::try_from(len).unwrap()].fill(true);
            }
            let range = range.0..range.0 + range.1;
            let at = |i: u64| known[usize::try_from(i).unwrap()];
            let whole = range.clone().all(at);
            prop_assert_eq!(read.get(&range), whole.then(|| slice(range.clone()).into()));
            let missing: Vec<u64> = read.missing(&range).flatten().collect();
            prop_assert_eq!(missing, range.filter(|&i| !at(i)).collect::<Vec<_>>());
        }
    }
}
