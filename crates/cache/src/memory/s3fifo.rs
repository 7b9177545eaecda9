//! Which entry to drive out next: S3-FIFO (Yang et al., "FIFO queues are all you need for cache eviction", SOSP 2023), weighed
//! in bytes.
//!
//! What is new waits in a small queue, a tenth of all; it moves to the main queue if it was hit meanwhile, else it goes, and
//! only its fingerprint is kept for a while. So a scan passes through the small queue and leaves the rest alone. A hit marks
//! the entry, and nothing is moved: hits take no lock here. Why not a library: units are found through an interval map, so a
//! library's hash map would be a second look-up for each hit and a second table to keep in step.

use std::{
    collections::{HashSet, VecDeque},
    sync::atomic::{AtomicU8, Ordering::Relaxed},
};

/// Hits that are remembered.
const MAX_HITS: u8 = 3;
/// Fingerprints kept at least.
const MIN_GHOSTS: usize = 256;

/// Hits since the entry was last looked at.
#[derive(Debug, Default)]
pub(crate) struct HitCount(AtomicU8);

impl HitCount {
    pub(crate) fn record(&self) {
        let hits = self.0.load(Relaxed);
        if hits < MAX_HITS {
            // Two hits at a time may count as one: no matter.
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
    /// Bytes, what the tables about it take included.
    fn weight(&self) -> u64;
    /// The same for the same thing when it comes again.
    fn fingerprint(&self) -> u64;
    fn hits(&self) -> &HitCount;
    /// Somebody is about to want it: it is spared once.
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

    /// Weight of all entries.
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

    /// Drives one entry out.
    pub(crate) fn evict(&mut self) -> Option<E> {
        if self.small.bytes.saturating_mul(10) >= self.bytes() {
            while let Some(entry) = self.small.pop() {
                if entry.hits().reset() || entry.is_awaited() {
                    self.main.push(entry);
                    continue;
                }
                self.add_ghost(entry.fingerprint());
                return Some(entry);
            }
        }
        // Each look spends a hit, so that this ends; and should hits come as fast as they are spent, it ends anyhow.
        let mut looks = self.main.entries.len().saturating_mul(usize::from(MAX_HITS) + 1);
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

    /// Keeps only entries that `keep` says.
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

    /// Inserts, and drives out what is more than `room` entries.
    fn put(queues: &mut S3Fifo<Thing>, one: Thing, room: usize) -> Vec<u64> {
        queues.insert(one);
        let mut gone = Vec::new();
        while queues.len() > room {
            gone.push(queues.evict().unwrap().0);
        }
        gone
    }

    #[test]
    fn a_scan_leaves_what_is_hit_alone() {
        let mut queues = S3Fifo::new();
        let hot: Vec<Thing> = (0..50).map(thing).collect();
        for one in &hot {
            put(&mut queues, one.clone(), 100);
            one.1.record();
        }
        for n in 1000..100_000 {
            for gone in put(&mut queues, thing(n), 100) {
                assert!(gone >= 1000, "{gone} was hit, and went at {n}");
            }
        }
        assert_eq!((queues.len(), queues.bytes()), (100, 1000));
        assert!(queues.ghosts.len() <= MIN_GHOSTS);
    }

    #[test]
    fn what_comes_back_soon_stays_and_what_is_awaited_is_spared_once() {
        let mut queues = S3Fifo::new();
        put(&mut queues, thing(1), 10);
        put(&mut queues, thing(77), 10);
        let mut gone = Vec::new();
        for n in 100..120 {
            gone.extend(put(&mut queues, thing(n), 10));
        }
        assert_eq!(gone[0], 1);
        assert!(!gone.contains(&77));
        // Its fingerprint is still known: to the main queue at once.
        queues.insert(thing(1));
        assert!(queues.main.entries.iter().any(|e| e.0 == 1));
    }

    #[test]
    fn everything_goes_in_the_end() {
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
