//! Selects the next entry to evict: S3-FIFO (Yang et al., "FIFO queues are all you need for cache
//! eviction", SOSP 2023), weighted in bytes.
//!
//! New entries wait in a small queue, a tenth of the whole. An entry that is hit there moves to the
//! main queue. Otherwise it is evicted, and only its fingerprint is kept for a while. A scan
//! therefore passes through the small queue and leaves the main queue alone. A hit only counts up
//! in the entry, so hits take no lock here.
//!
//! This is not a library because units are found through an interval map. The hash map of a library
//! would be a second lookup for each hit and a second table to keep in step.

use std::{
    collections::{HashSet, VecDeque},
    sync::atomic::{AtomicU8, Ordering::Relaxed},
};

/// Maximum number of hits that are remembered.
const MAX_HITS: u8 = 3;
/// Minimum number of fingerprints that are kept.
const MIN_GHOSTS: usize = 256;

/// Hits since the entry was last considered for eviction.
#[derive(Debug, Default)]
pub(crate) struct HitCount(AtomicU8);

impl HitCount {
    pub(crate) fn record(&self) {
        let hits = self.0.load(Relaxed);
        if hits < MAX_HITS {
            // Two concurrent hits may count as one, which does no harm.
            self.0.store(hits + 1, Relaxed);
        }
    }

    fn take_one(&self) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |hits| hits.checked_sub(1)).is_ok()
    }

    fn reset(&self) -> bool {
        self.0.swap(0, Relaxed) > 0
    }
}

pub(crate) trait Evictable {
    /// Returns the bytes of the entry, including the tables about it.
    fn weight(&self) -> u64;
    /// Returns a hash that is the same each time the same entry is inserted.
    fn fingerprint(&self) -> u64;
    fn hits(&self) -> &HitCount;
    /// Returns true if a reader is about to want the entry: it is then spared once.
    fn is_awaited(&self) -> bool;
}

#[derive(Debug)]
pub(crate) struct S3Fifo<E> {
    small: Queue<E>,
    main: Queue<E>,
    ghosts: VecDeque<u64>,
    is_ghost: HashSet<u64>,
}

#[derive(Debug)]
struct Queue<E> {
    entries: VecDeque<E>,
    bytes: u64,
}

impl<E: Evictable> Queue<E> {
    fn new() -> Self {
        Self { entries: VecDeque::new(), bytes: 0 }
    }

    fn push(&mut self, entry: E) {
        self.bytes += entry.weight();
        self.entries.push_back(entry);
    }

    fn pop(&mut self) -> Option<E> {
        let entry = self.entries.pop_front()?;
        self.bytes -= entry.weight();
        Some(entry)
    }

    fn retain(&mut self, mut keep: impl FnMut(&E) -> bool) {
        let bytes = &mut self.bytes;
        self.entries.retain(|entry| {
            let keep = keep(entry);
            if !keep {
                *bytes -= entry.weight();
            }
            keep
        });
    }
}

impl<E: Evictable> S3Fifo<E> {
    pub(crate) fn new() -> Self {
        Self { small: Queue::new(), main: Queue::new(), ghosts: VecDeque::new(), is_ghost: HashSet::new() }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.small.bytes + self.main.bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.small.entries.len() + self.main.entries.len()
    }

    pub(crate) fn insert(&mut self, entry: E) {
        if self.is_ghost.remove(&entry.fingerprint()) {
            self.main.push(entry);
        } else {
            self.small.push(entry);
        }
    }

    pub(crate) fn evict(&mut self) -> Option<E> {
        if self.small.bytes * 10 >= self.bytes() {
            while let Some(entry) = self.small.pop() {
                if entry.hits().reset() || entry.is_awaited() {
                    self.main.push(entry);
                    continue;
                }
                self.add_ghost(entry.fingerprint());
                return Some(entry);
            }
        }
        // Each look takes one hit away, so the loop ends. The bound makes it end even if new hits
        // arrive as fast as they are taken.
        let mut looks = self.main.entries.len() * (usize::from(MAX_HITS) + 1);
        while let Some(entry) = self.main.pop() {
            if looks > 0 && entry.hits().take_one() {
                looks -= 1;
                self.main.push(entry);
                continue;
            }
            return Some(entry);
        }
        self.small.pop()
    }

    pub(crate) fn retain(&mut self, mut keep: impl FnMut(&E) -> bool) {
        self.small.retain(&mut keep);
        self.main.retain(&mut keep);
    }

    fn add_ghost(&mut self, fingerprint: u64) {
        if self.is_ghost.insert(fingerprint) {
            self.ghosts.push_back(fingerprint);
        }
        while self.ghosts.len() > self.main.entries.len().max(MIN_GHOSTS) {
            if let Some(oldest) = self.ghosts.pop_front() {
                self.is_ghost.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Debug, Clone)]
    struct Thing(u64, Arc<HitCount>);

    impl Evictable for Thing {
        fn weight(&self) -> u64 {
            10
        }
        fn fingerprint(&self) -> u64 {
            self.0
        }
        fn hits(&self) -> &HitCount {
            &self.1
        }
        fn is_awaited(&self) -> bool {
            self.0 == 77
        }
    }

    fn thing(n: u64) -> Thing {
        Thing(n, Arc::default())
    }

    /// Inserts an entry, and evicts entries until there are at most `room`.
    fn put(queues: &mut S3Fifo<Thing>, one: Thing, room: usize) -> Vec<u64> {
        queues.insert(one);
        let mut gone = Vec::new();
        while queues.len() > room {
            gone.push(queues.evict().unwrap().0);
        }
        gone
    }

    #[test]
    fn a_scan_does_not_evict_hit_entries() {
        let mut queues = S3Fifo::new();
        let hot: Vec<Thing> = (0..50).map(thing).collect();
        for one in &hot {
            put(&mut queues, one.clone(), 100);
            one.1.record();
        }
        for n in 1000..100_000 {
            for gone in put(&mut queues, thing(n), 100) {
                assert!(gone >= 1000, "{gone} was hit, but evicted at {n}");
            }
        }
        assert_eq!((queues.len(), queues.bytes()), (100, 1000));
        assert!(queues.ghosts.len() <= MIN_GHOSTS);
    }

    #[test]
    fn ghosts_return_to_main_and_awaited_entries_are_spared_once() {
        let mut queues = S3Fifo::new();
        put(&mut queues, thing(1), 10);
        put(&mut queues, thing(77), 10);
        let mut gone = Vec::new();
        for n in 100..120 {
            gone.extend(put(&mut queues, thing(n), 10));
        }
        assert_eq!(gone[0], 1);
        assert!(!gone.contains(&77));
        // Its fingerprint is still known, so it goes to the main queue at once.
        queues.insert(thing(1));
        assert!(queues.main.entries.iter().any(|e| e.0 == 1));
    }

    #[test]
    fn all_entries_can_be_evicted() {
        let mut queues = S3Fifo::new();
        for n in 0..1000 {
            let one = thing(n % 100);
            (0..n % 5).for_each(|_| one.1.record());
            queues.insert(one);
        }
        queues.retain(|e| e.0 != 5);
        assert_eq!(queues.bytes(), 9900);
        while queues.evict().is_some() {}
        assert_eq!((queues.bytes(), queues.len()), (0, 0));
    }
}
