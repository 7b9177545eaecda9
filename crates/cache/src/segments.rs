//! Finished segments by digest, for deployments that prefer keeping a segment to making it again.

use crate::memory::{
    gauge::to_u64,
    lock::lock,
    s3fifo::{Evictable, HitCount, S3Fifo},
};
use bytes::Bytes;
use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Largest piece that a segment is kept in, in bytes.
const PIECE: usize = 1 << 20;
/// Memory that a segment takes besides its bytes.
const OVERHEAD: u64 = 256;
/// Memory that a piece takes besides its bytes.
const PER_PIECE: u64 = 64;

/// Finished segments in memory, within a budget in bytes, evicted like units.
#[derive(Debug)]
pub struct SegmentCache {
    state: Mutex<State>,
    budget: u64,
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
}

#[derive(Debug)]
struct State {
    segments: HashMap<u128, Arc<CachedSegment>>,
    policy: S3Fifo<Arc<CachedSegment>>,
    /// Segments that are being sent to clients and are to be kept afterwards.
    collecting: HashSet<u128>,
    /// Bytes of the segments being collected.
    collected: u64,
}

impl State {
    /// Evicts segments until at most `budget` bytes are left, including those being collected.
    fn shrink(&mut self, budget: u64) -> Vec<Arc<CachedSegment>> {
        let mut gone = Vec::new();
        while self.policy.bytes() + self.collected > budget {
            let Some(body) = self.policy.evict() else { break };
            self.segments.remove(&body.digest);
            gone.push(body);
        }
        gone
    }
}

/// A segment that is collected while it is sent. Slow clients could otherwise hold any number of
/// whole segments in memory: each is collected once at a time, all together in a quarter of the
/// budget.
#[derive(Debug)]
pub struct Collecting {
    cache: Arc<SegmentCache>,
    digest: u128,
    len: u64,
    frames: Vec<Bytes>,
}

impl Collecting {
    /// Adds the next bytes.
    pub fn push(&mut self, frame: Bytes) {
        self.frames.push(frame);
    }

    /// Keeps the complete segment.
    pub fn finish(mut self) {
        let frames = std::mem::take(&mut self.frames);
        self.cache.insert(self.digest, &frames);
    }
}

impl Drop for Collecting {
    fn drop(&mut self) {
        let mut state = lock(&self.cache.state);
        state.collecting.remove(&self.digest);
        state.collected -= self.len;
    }
}

#[derive(Debug)]
struct CachedSegment {
    digest: u128,
    pieces: Arc<[Bytes]>,
    weight: u64,
    hits: HitCount,
}

impl Evictable for Arc<CachedSegment> {
    fn weight(&self) -> u64 {
        self.weight
    }

    fn fingerprint(&self) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "any bits of a digest will do")]
        let fingerprint = self.digest as u64;
        fingerprint
    }

    fn hits(&self) -> &HitCount {
        &self.hits
    }

    fn is_awaited(&self) -> bool {
        false
    }
}

/// Counters and current values of a [`SegmentCache`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SegmentFigures {
    /// Lookups that found a segment.
    pub hits: u64,
    /// Lookups that found no segment.
    pub misses: u64,
    /// Segments evicted.
    pub evictions: u64,
    /// Current: bytes of memory, including tables and segments being collected.
    pub bytes: u64,
    /// Current: segments.
    pub segments: u64,
}

impl SegmentCache {
    /// Creates a cache of at most `budget` bytes of memory, including tables.
    pub fn new(budget: u64) -> Self {
        let state = Mutex::new(State {
            segments: HashMap::new(),
            policy: S3Fifo::new(),
            collecting: HashSet::new(),
            collected: 0,
        });
        Self {
            state,
            budget,
            hits: AtomicU64::default(),
            misses: AtomicU64::default(),
            evictions: AtomicU64::default(),
        }
    }

    /// Returns the segment with this digest, in pieces.
    pub fn get(&self, digest: u128) -> Option<Arc<[Bytes]>> {
        let body = lock(&self.state).segments.get(&digest).cloned();
        let counter = if body.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Relaxed);
        body.map(|body| {
            body.hits.record();
            body.pieces.clone()
        })
    }

    /// Starts to collect a segment of `len` bytes. Returns `None` if the segment is cached or being
    /// collected already, or if there is no room.
    pub fn collect(self: &Arc<Self>, digest: u128, len: u64) -> Option<Collecting> {
        let mut state = lock(&self.state);
        let room = state.collected == 0 || state.collected + len <= self.budget / 4;
        let known = state.segments.contains_key(&digest) || state.collecting.contains(&digest);
        if known || !room || len > self.budget {
            return None;
        }
        state.collecting.insert(digest);
        state.collected += len;
        let gone = state.shrink(self.budget);
        drop(state);
        self.evictions.fetch_add(to_u64(gone.len()), Relaxed);
        Some(Collecting { cache: self.clone(), digest, len, frames: Vec::new() })
    }

    /// Keeps a segment. It is copied, so that it does not keep larger buffers alive which its
    /// pieces may belong to. A segment larger than the whole budget is not kept.
    pub fn insert(&self, digest: u128, body: &[Bytes]) {
        let len = body.iter().map(Bytes::len).sum::<usize>();
        let weight = to_u64(len) + to_u64(len.div_ceil(PIECE)) * PER_PIECE + OVERHEAD;
        if weight > self.budget || lock(&self.state).segments.contains_key(&digest) {
            return;
        }
        let body =
            Arc::new(CachedSegment { digest, pieces: compact(body, len), weight, hits: HitCount::default() });
        let mut state = lock(&self.state);
        // Another thread may have inserted it meanwhile.
        if state.segments.contains_key(&digest) {
            return;
        }
        state.segments.insert(digest, body.clone());
        state.policy.insert(body);
        // The collected bytes of this segment are about to be dropped, so they do not count twice.
        let budget =
            self.budget.saturating_add(if state.collecting.contains(&digest) { to_u64(len) } else { 0 });
        let gone = state.shrink(budget);
        drop(state);
        self.evictions.fetch_add(to_u64(gone.len()), Relaxed);
    }

    /// Returns what the cache did and holds.
    pub fn figures(&self) -> SegmentFigures {
        let state = lock(&self.state);
        SegmentFigures {
            hits: self.hits.load(Relaxed),
            misses: self.misses.load(Relaxed),
            evictions: self.evictions.load(Relaxed),
            bytes: state.policy.bytes() + state.collected,
            segments: to_u64(state.segments.len()),
        }
    }
}

fn compact(body: &[Bytes], len: usize) -> Arc<[Bytes]> {
    let mut pieces = Vec::with_capacity(len.div_ceil(PIECE));
    let mut left = len;
    let mut piece = Vec::with_capacity(left.min(PIECE));
    for bytes in body {
        let mut bytes = &bytes[..];
        while !bytes.is_empty() {
            let room = PIECE - piece.len();
            let (now, later) = bytes.split_at(bytes.len().min(room));
            piece.extend_from_slice(now);
            bytes = later;
            if piece.len() == PIECE {
                left -= PIECE;
                let full = std::mem::replace(&mut piece, Vec::with_capacity(left.min(PIECE)));
                pieces.push(Bytes::from(full.into_boxed_slice()));
            }
        }
    }
    if !piece.is_empty() {
        pieces.push(Bytes::from(piece.into_boxed_slice()));
    }
    pieces.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(seed: u8, lens: &[usize]) -> Vec<Bytes> {
        lens.iter().map(|len| Bytes::from(vec![seed; *len])).collect()
    }

    #[test]
    fn segments_are_returned_unchanged() {
        let cache = SegmentCache::new(100 << 20);
        for (digest, lens) in [
            (1, &[][..]),
            (2, &[0, 0]),
            (3, &[10, 20, 0, 30]),
            (4, &[PIECE - 1, 1, 1]),
            (5, &[2 * PIECE, 5, PIECE]),
        ] {
            let whole: Vec<Bytes> = lens
                .iter()
                .enumerate()
                .flat_map(|(i, len)| body(u8::try_from(i).unwrap(), &[*len]))
                .collect();
            assert!(cache.get(digest).is_none());
            cache.insert(digest, &whole);
            cache.insert(digest, &[]);
            let kept = cache.get(digest).unwrap();
            assert_eq!(kept.concat(), whole.concat());
            assert_eq!(kept.len(), whole.concat().len().div_ceil(PIECE));
        }
        let figures = cache.figures();
        assert_eq!((figures.hits, figures.misses, figures.segments), (5, 5, 5));
    }

    #[test]
    fn the_budget_holds_and_hit_segments_stay() {
        let budget = 1 << 20;
        let cache = SegmentCache::new(budget);
        cache.insert(0, &body(0, &[50_000]));
        cache.get(0).unwrap();
        for digest in 1..1000 {
            cache.insert(digest, &body(1, &[10_000, 40_000]));
            assert!(cache.figures().bytes <= budget);
            assert!(cache.get(0).is_some(), "the hit segment was evicted at {digest}");
        }
        assert!(cache.figures().bytes > budget * 9 / 10);
        assert_eq!(cache.figures().evictions + cache.figures().segments, 1000);
        cache.insert(5000, &body(0, &[1 << 20]));
        assert!(cache.get(5000).is_none() && cache.get(0).is_some(), "larger than the whole budget");
    }

    #[test]
    fn collected_bytes_are_bounded_and_released() {
        let cache = Arc::new(SegmentCache::new(1 << 20));
        for digest in 0..20 {
            cache.insert(digest, &body(1, &[50_000]));
        }
        let mut first = cache.collect(100, 200_000).unwrap();
        assert!(cache.figures().bytes <= 1 << 20 && cache.figures().evictions > 0);
        assert!(cache.collect(100, 200_000).is_none(), "the digest is being collected");
        assert!(cache.collect(101, 100_000).is_none(), "more than a quarter");
        let second = cache.collect(102, 50_000).unwrap();
        first.push(body(2, &[200_000]).remove(0));
        first.finish();
        assert_eq!(cache.get(100).unwrap().concat(), [2; 200_000]);
        assert!(cache.collect(100, 200_000).is_none(), "the segment is cached");
        drop(second);
        assert!(cache.get(102).is_none());
        // A single segment may take the whole budget.
        let large = cache.collect(103, 1 << 20).unwrap();
        assert_eq!(cache.figures().bytes, 1 << 20);
        assert!(cache.collect(104, (1 << 20) + 1).is_none());
        drop(large);
        assert_eq!(cache.figures().bytes, 0);
    }
}
