//! Packed positions of a track's chunks or fragments in the object.

use crate::table::column::{Column, ColumnBuilder, Values};

/// Byte offsets of items in order. An item is a chunk or a fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Positions(pub(crate) PositionsEncoding);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PositionsEncoding {
    /// Items ascend. Each value is the number of bytes between the end of the item before, or the
    /// start of the object, and the item. In an interleaved file these are the other tracks' bytes.
    Gaps(Column),
    /// Items are in any order. The columns hold the upper and lower halves of each offset.
    Halves(Box<[Column; 2]>),
}

impl Positions {
    /// Packs the positions of items, given as offset and size in bytes. Returns `None` at the first
    /// item that does not ascend, or is too far from the one before.
    pub(crate) fn ascending(items: impl Iterator<Item = (u64, u64)>) -> Option<Self> {
        let mut gaps = ColumnBuilder::default();
        let mut end = 0;
        for (offset, size) in items {
            gaps.push(gap(end, offset)?);
            end = offset.saturating_add(size);
        }
        Some(Self(PositionsEncoding::Gaps(gaps.finish())))
    }

    /// Returns the offset of item number `index`, in bytes from the start of the object, or 0
    /// beyond the end. `bytes_before` is the size of all items before it.
    pub(crate) fn get(&self, index: u32, bytes_before: u64) -> u64 {
        match &self.0 {
            PositionsEncoding::Gaps(gaps) => gaps.sum_before(index + 1) + bytes_before,
            PositionsEncoding::Halves(halves) => {
                let [high, low] = &**halves;
                u64::from(high.get(index).unwrap_or(0)) << 32 | u64::from(low.get(index).unwrap_or(0))
            }
        }
    }

    /// Returns the offsets from item number `index` on. Each is given the size of the item before
    /// it, see [`PositionsIter::next`].
    pub(crate) fn iter_from(&self, index: u32, bytes_before: u64) -> PositionsIter<'_> {
        match &self.0 {
            PositionsEncoding::Gaps(gaps) => {
                let (before, gaps) = gaps.seek(index);
                PositionsIter::Gaps { gaps, end: before + bytes_before }
            }
            PositionsEncoding::Halves(halves) => {
                let [high, low] = &**halves;
                PositionsIter::Halves(Box::new([high.iter_from(index), low.iter_from(index)]))
            }
        }
    }

    /// Returns true if each item starts at or after the end of the one before.
    pub(crate) fn is_ascending(&self) -> bool {
        matches!(self.0, PositionsEncoding::Gaps(_))
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        match &self.0 {
            PositionsEncoding::Gaps(gaps) => gaps.heap_bytes(),
            PositionsEncoding::Halves(halves) => {
                size_of::<[Column; 2]>() + halves.iter().map(Column::heap_bytes).sum::<usize>()
            }
        }
    }
}

#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "the large one is the usual one, and none is kept")]
pub(crate) enum PositionsIter<'a> {
    Gaps { gaps: Values<'a>, end: u64 },
    Halves(Box<[Values<'a>; 2]>),
}

impl PositionsIter<'_> {
    /// Returns the next item's offset. `size_before` is the size of the item just read, 0 at first.
    pub(crate) fn next(&mut self, size_before: u64) -> Option<u64> {
        match self {
            Self::Gaps { gaps, end } => {
                *end += size_before + u64::from(gaps.next()?);
                Some(*end)
            }
            Self::Halves(halves) => {
                let [high, low] = &mut **halves;
                Some(u64::from(high.next()?) << 32 | u64::from(low.next()?))
            }
        }
    }
}

/// Returns the gap before an item, or `None` if it goes back or is too large for a column: such
/// positions are kept in halves.
fn gap(end: u64, offset: u64) -> Option<u32> {
    u32::try_from(offset.checked_sub(end)?).ok()
}

/// Packs positions in any order.
#[derive(Debug, Default)]
pub(crate) struct PositionsBuilder {
    gaps: ColumnBuilder,
    /// True once an item starts before the end of the previous one, or too far after it for a gap.
    needs_halves: bool,
    /// End of the item before, in bytes from the start of the object.
    end: u64,
    high: ColumnBuilder,
    low: ColumnBuilder,
}

impl PositionsBuilder {
    /// Appends an item of `size` bytes at `offset`.
    pub(crate) fn push(&mut self, offset: u64, size: u64) {
        match gap(self.end, offset) {
            Some(gap) => self.gaps.push(gap),
            None => self.needs_halves = true,
        }
        self.end = offset + size;
        self.high.push(u32::try_from(offset >> 32).unwrap_or(u32::MAX));
        self.low.push(u32::try_from(offset & 0xffff_ffff).unwrap_or(u32::MAX));
    }

    pub(crate) fn finish(self) -> Positions {
        Positions(match self.needs_halves {
            false => PositionsEncoding::Gaps(self.gaps.finish()),
            true => PositionsEncoding::Halves(Box::new([self.high.finish(), self.low.finish()])),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn offsets_come_back_in_any_order(
            pieces in prop::collection::vec((prop_oneof![0..5000_u64, 0..1_u64 << 40], 0..5000_u64), 1..200),
            ascending: bool,
            from in any::<prop::sample::Index>(),
        ) {
            let mut pieces = pieces;
            if ascending {
                let mut end = 0;
                for (offset, size) in &mut pieces {
                    *offset = end + *offset % 70_000;
                    end = *offset + *size;
                }
            }
            let mut builder = PositionsBuilder::default();
            pieces.iter().for_each(|&(offset, size)| builder.push(offset, size));
            let positions = builder.finish();
            if ascending {
                prop_assert!(matches!(positions.0, PositionsEncoding::Gaps(_)));
            }
            let from = from.index(pieces.len());
            let before: u64 = pieces[..from].iter().map(|p| p.1).sum();
            let index = u32::try_from(from).unwrap();
            prop_assert_eq!(positions.get(index, before), pieces[from].0);
            let mut iter = positions.iter_from(index, before);
            let mut size_before = 0;
            for &(offset, size) in &pieces[from..] {
                prop_assert_eq!(iter.next(size_before), Some(offset));
                size_before = size;
            }
            prop_assert_eq!(iter.next(size_before), None);
        }
    }
}
