//! Table of the units on disk and their locations.

use super::record::RecordEntry;
use crate::memory::{
    gauge::{Gauge, to_u64},
    lock::lock,
};
use std::{
    collections::{BTreeMap, HashMap},
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, atomic::AtomicU64, atomic::Ordering::Relaxed},
};

const SHARDS: usize = 16;
/// Memory that a unit on disk takes, measured with the allocator and rounded up.
const SLOT_BYTES: u64 = 128;

/// Location of a unit on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Location {
    pub(crate) log: u64,
    pub(crate) entry: RecordEntry,
}

/// A part of a unit on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DiskRange {
    /// Range of the part in its object.
    pub(crate) range: Range<u64>,
    pub(crate) location: Location,
}

#[derive(Debug)]
struct Slot {
    location: Location,
    /// True if a reader wanted the unit since it was written.
    hit: bool,
}

impl Slot {
    fn end(&self) -> u64 {
        self.location.entry.offset.saturating_add(self.location.entry.len.into())
    }
}

/// Units of each object, by their start in the object. A lookup never sees two units for one byte.
type Objects = HashMap<u128, BTreeMap<u64, Slot>>;

#[derive(Debug)]
pub(crate) struct Index {
    shards: Vec<Mutex<Objects>>,
    units: AtomicU64,
    gauge: Arc<Gauge>,
}

impl Index {
    pub(crate) fn new(gauge: Arc<Gauge>) -> Self {
        Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), units: AtomicU64::new(0), gauge }
    }

    pub(crate) fn len(&self) -> u64 {
        self.units.load(Relaxed)
    }

    /// Adds a unit. Units that lie completely inside it are removed.
    pub(crate) fn insert(&self, location: Location) {
        let slot = Slot { location, hit: false };
        let range = location.entry.offset..slot.end();
        let mut shard = self.shard(location.entry.id);
        let units = shard.entry(location.entry.id).or_default();
        let inside = units.extract_if(range.clone(), |_, old| old.end() <= range.end).count();
        // Also replaces a longer unit with the same start, which a recovered log may hold.
        let replaced = units.insert(range.start, slot).is_some();
        self.units.fetch_add(1, Relaxed);
        self.gauge.table_grew(SLOT_BYTES);
        self.note_removed(inside + usize::from(replaced));
    }

    /// Splits a range into the parts that are on disk and the holes between them, each in order.
    /// Parts found on disk count as hit.
    pub(crate) fn find(
        &self,
        id: u128,
        range: Range<u64>,
        disk_ranges: &mut Vec<DiskRange>,
        holes: &mut Vec<Range<u64>>,
    ) {
        let mut shard = self.shard(id);
        let Some(units) = shard.get_mut(&id) else { return holes.push(range) };
        let mut at = range.start;
        while at < range.end {
            let here =
                units.range_mut(..=at).next_back().map(|(_, slot)| slot).filter(|slot| slot.end() > at);
            if let Some(slot) = here {
                let end = slot.end().min(range.end);
                slot.hit = true;
                disk_ranges.push(DiskRange { range: at..end, location: slot.location });
                at = end;
            } else {
                let end = units.range(at..range.end).next().map_or(range.end, |(start, _)| *start);
                holes.push(at..end);
                at = end;
            }
        }
    }

    /// Returns true if all of a range is on disk.
    pub(crate) fn covers(&self, id: u128, range: &Range<u64>) -> bool {
        let shard = self.shard(id);
        let Some(units) = shard.get(&id) else { return false };
        let mut at = range.start;
        while at < range.end {
            match units.range(..=at).next_back().filter(|(_, slot)| slot.end() > at) {
                Some((_, slot)) => at = slot.end(),
                None => return false,
            }
        }
        true
    }

    /// Removes one unit if it still has this location.
    pub(crate) fn forget(&self, location: &Location) {
        let mut shard = self.shard(location.entry.id);
        let Some(units) = shard.get_mut(&location.entry.id) else { return };
        if units.get(&location.entry.offset).is_some_and(|slot| slot.location == *location) {
            units.remove(&location.entry.offset);
            self.note_removed(1);
        }
        if units.is_empty() {
            shard.remove(&location.entry.id);
        }
    }

    /// Removes all units of an object and returns their number.
    pub(crate) fn forget_object(&self, id: u128) -> u64 {
        let units = self.shard(id).remove(&id).map_or(0, |units| units.len());
        self.note_removed(units);
        to_u64(units)
    }

    /// Removes all units of a log file. Returns their locations, and whether each was hit.
    pub(crate) fn forget_log(&self, log: u64) -> Vec<(Location, bool)> {
        let mut removed = Vec::new();
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.retain(|_, units| {
                let gone = units.extract_if(.., |_, slot| slot.location.log == log);
                removed.extend(gone.map(|(_, slot)| (slot.location, slot.hit)));
                !units.is_empty()
            });
        }
        removed.sort_unstable_by_key(|(location, _)| location.entry.at);
        self.note_removed(removed.len());
        removed
    }

    fn note_removed(&self, units: usize) {
        self.units.fetch_sub(to_u64(units), Relaxed);
        self.gauge.table_shrank(to_u64(units) * SLOT_BYTES);
    }

    fn shard(&self, id: u128) -> MutexGuard<'_, Objects> {
        let number = id as usize % SHARDS;
        let shard = self.shards.get(number).unwrap_or_else(|| unreachable!("a remainder of their number"));
        lock(shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn location(log: u64, offset: u64, len: u32) -> Location {
        Location { log, entry: RecordEntry { id: 7, offset, len, names_len: 0, at: offset } }
    }

    fn found(index: &Index, range: Range<u64>) -> (Vec<Range<u64>>, Vec<Range<u64>>) {
        let mut disk_ranges = Vec::new();
        let mut holes = Vec::new();
        index.find(7, range, &mut disk_ranges, &mut holes);
        (disk_ranges.into_iter().map(|disk_range| disk_range.range).collect(), holes)
    }

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "lists of ranges, some with one element")]
    fn finds_parts_and_holes() {
        let gauge = Arc::new(Gauge::default());
        let index = Index::new(gauge.clone());
        assert_eq!(found(&index, 0..5), (vec![], vec![0..5]));
        for one in [location(1, 10, 10), location(1, 20, 5), location(2, 40, 10)] {
            index.insert(one);
        }
        assert_eq!(found(&index, 0..60), (vec![10..20, 20..25, 40..50], vec![0..10, 25..40, 50..60]));
        assert_eq!(found(&index, 12..22), (vec![12..20, 20..22], vec![]));
        assert_eq!(found(&index, 30..40), (vec![], vec![30..40]));
        assert!(index.covers(7, &(12..25)) && !index.covers(7, &(12..26)) && !index.covers(8, &(12..13)));
        // A unit that contains two others replaces them.
        index.insert(location(3, 8, 30));
        assert_eq!(index.len(), 2);
        assert_eq!(found(&index, 0..60), (vec![8..38, 40..50], vec![0..8, 38..40, 50..60]));
        index.forget(&location(1, 40, 10));
        assert_eq!(index.len(), 2, "the unit has another location");
        assert_eq!(index.forget_log(2), [(location(2, 40, 10), true)]);
        index.forget_object(7);
        assert_eq!((index.len(), gauge.total()), (0, 0));
    }

    #[test]
    fn a_shorter_unit_at_the_same_offset_is_counted_once() {
        let gauge = Arc::new(Gauge::default());
        let index = Index::new(gauge.clone());
        index.insert(location(1, 8, 30));
        index.insert(location(2, 8, 12));
        assert_eq!((index.len(), gauge.total()), (1, SLOT_BYTES));
        index.forget(&location(2, 8, 12));
        assert_eq!((index.len(), gauge.total()), (0, 0));
    }
}
