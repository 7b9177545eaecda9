//! Unpacked copies of the columns of indexes that have just been read. They are kept up to the
//! first manifest of a title, which is then made without decoding the columns. They take several
//! times as much memory as the index, so the oldest are dropped when there are too many.

use latemux_index::UnpackedValues;
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Unpacked copies of the columns of the objects that were indexed last.
#[derive(Debug)]
pub(crate) struct RecentValues {
    /// Most bytes that they take together.
    limit: u64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    bytes: u64,
    /// Size in bytes and unpacked copies of objects by their IDs, which ascend with time.
    values: BTreeMap<u64, (u64, UnpackedValues)>,
}

impl RecentValues {
    pub(crate) fn new(limit: u64) -> Self {
        Self { limit, kept: Mutex::default() }
    }

    /// Keeps the copies of an object, unless they alone exceed the limit.
    pub(crate) fn keep(&self, object: u64, values: UnpackedValues) {
        let bytes = values.heap_bytes() as u64;
        if values.is_empty() || bytes > self.limit {
            return;
        }
        let mut dropped = Vec::new();
        let mut kept = self.lock();
        kept.bytes += bytes;
        kept.values.insert(object, (bytes, values));
        while kept.bytes > self.limit
            && let Some((_, oldest)) = kept.values.pop_first()
        {
            kept.bytes -= oldest.0;
            dropped.push(oldest);
        }
        // Memory is given back without the lock.
        drop(kept);
    }

    /// Drops the copies of objects.
    pub(crate) fn forget(&self, objects: impl Iterator<Item = u64>) {
        let mut dropped = Vec::new();
        let mut kept = self.lock();
        if !kept.values.is_empty() {
            for object in objects {
                if let Some(found) = kept.values.remove(&object) {
                    kept.bytes -= found.0;
                    dropped.push(found);
                }
            }
        }
        drop(kept);
    }

    /// Returns the number of bytes that the copies take.
    #[cfg(test)]
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latemux_index::locate::{Locator, limits::Limits};
    use latemux_testmedia::origin::run;

    fn values() -> UnpackedValues {
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/library/lighthouse.mp4");
        let mut locator = Locator::new(Limits::default()).keeping_values();
        run(&mut locator, &std::fs::read(sample).unwrap().into()).unwrap().take_unpacked()
    }

    #[test]
    fn the_oldest_values_make_room_for_new_ones() {
        let bytes = values().heap_bytes() as u64;
        assert!(bytes > 4000, "{bytes}");
        let recent = RecentValues::new(3 * bytes);
        let kept = || recent.lock().values.keys().copied().collect::<Vec<_>>();
        (1..=4).for_each(|object| recent.keep(object, values()));
        assert_eq!((kept(), recent.bytes()), (vec![2, 3, 4], 3 * bytes));
        recent.forget([1, 3].into_iter());
        assert_eq!((kept(), recent.bytes()), (vec![2, 4], 2 * bytes));
        recent.keep(5, UnpackedValues::default());
        assert_eq!((kept(), recent.bytes()), (vec![2, 4], 2 * bytes));
        let small = RecentValues::new(bytes - 1);
        small.keep(1, values());
        assert_eq!(small.bytes(), 0);
    }
}
