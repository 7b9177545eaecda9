//! Memory cache of immutable values, bounded in bytes.

use crate::{
    observe::metrics::{CacheSnapshot, CacheWatch},
    observe::trace::record_outcome,
};
use latemux_storage::{Outcome, Tier};
use quick_cache::{
    DefaultHashBuilder, Equivalent, Lifecycle, OptionsBuilder, Weighter,
    sync::{Cache, DefaultLifecycle},
};
use std::{
    hash::Hash,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// Cache of values by key, bounded in bytes. Clones share the values.
pub(crate) struct MemoryCache<K, V> {
    inner: Arc<Inner<K, V>>,
}

impl<K, V> Clone for MemoryCache<K, V> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

struct Inner<K, V> {
    cache: Cache<K, V, Weigh<K, V>, DefaultHashBuilder, CountingLifecycle<K, V>>,
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: Arc<AtomicU64>,
}

/// The library's default lifecycle, which also counts evictions here.
struct CountingLifecycle<K, V> {
    evictions: Arc<AtomicU64>,
    inner: DefaultLifecycle<K, V>,
}

impl<K, V> Clone for CountingLifecycle<K, V> {
    fn clone(&self) -> Self {
        Self { evictions: self.evictions.clone(), inner: self.inner.clone() }
    }
}

impl<K, V> Lifecycle<K, V> for CountingLifecycle<K, V> {
    type RequestState = <DefaultLifecycle<K, V> as Lifecycle<K, V>>::RequestState;

    fn on_evict(&self, state: &mut Self::RequestState, key: K, value: V) {
        self.evictions.fetch_add(1, Relaxed);
        self.inner.on_evict(state, key, value);
    }
}

/// Weighs an entry in bytes.
struct Weigh<K, V>(fn(&K, &V) -> usize);

impl<K, V> Clone for Weigh<K, V> {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

impl<K, V> Weighter<K, V> for Weigh<K, V> {
    fn weight(&self, key: &K, value: &V) -> u64 {
        // Overhead of the library's table per entry. It also limits the number of small entries.
        const ENTRY: usize = 96;
        ((self.0)(key, value) + ENTRY) as u64
    }
}

impl<K: Hash + Eq + Clone, V: Clone> MemoryCache<K, V> {
    /// Returns the keys that meet a condition. It walks all entries.
    pub(crate) fn keys_where(&self, condition: impl Fn(&K) -> bool) -> Vec<K> {
        self.inner.cache.iter().map(|(key, _)| key).filter(condition).collect()
    }
}

impl<K: Hash + Eq, V: Clone> MemoryCache<K, V> {
    /// Creates a cache of at most `capacity` bytes, as `weigh` counts them. A value larger than
    /// that is not kept.
    pub(crate) fn new(capacity: u64, weigh: fn(&K, &V) -> usize) -> Self {
        let options = OptionsBuilder::new()
            // A value must fit into the share of its shard. Values may be large, hence one shard.
            .shards(1)
            .estimated_items_capacity(1024)
            .weight_capacity(capacity)
            .build()
            .unwrap_or_else(|_| unreachable!("both capacities are set"));
        let evictions = Arc::<AtomicU64>::default();
        let cache = Cache::with_options(
            options,
            Weigh(weigh),
            DefaultHashBuilder::default(),
            CountingLifecycle { evictions: evictions.clone(), inner: DefaultLifecycle::default() },
        );
        let inner = Inner { cache, hits: AtomicU64::new(0), misses: AtomicU64::new(0), evictions };
        Self { inner: Arc::new(inner) }
    }

    /// Returns a value, counts a hit or a miss, and records a hit for the current request.
    pub(crate) fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        let found = self.inner.cache.get(key);
        if found.is_some() {
            self.inner.hits.fetch_add(1, Relaxed);
            record_outcome(Outcome::Hit(Tier::Memory));
        } else {
            self.inner.misses.fetch_add(1, Relaxed);
        }
        found
    }

    /// Returns a value without counting a hit or a miss.
    pub(crate) fn peek<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        self.inner.cache.peek(key)
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        self.inner.cache.insert(key, value);
    }

    /// Removes a value. Returns true if there was one.
    pub(crate) fn remove<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> bool {
        self.inner.cache.remove(key).is_some()
    }

    /// Removes all entries whose keys meet a condition, and returns their number. It walks all
    /// entries.
    pub(crate) fn remove_where(&self, condition: impl Fn(&K) -> bool) -> u64 {
        let removed = AtomicU64::new(0);
        self.inner.cache.retain(|key, _| {
            let remove = condition(key);
            removed.fetch_add(u64::from(remove), Relaxed);
            !remove
        });
        removed.into_inner()
    }
}

impl<K, V> MemoryCache<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Returns what metrics show of this cache. `joins` counts requests that waited for a value
    /// which another request was making.
    pub(crate) fn watch(&self, name: &'static str, joins: Arc<AtomicU64>) -> CacheWatch {
        let inner = self.inner.clone();
        CacheWatch::new(move || CacheSnapshot {
            cache: name,
            tier: "memory",
            bytes: inner.cache.weight(),
            limit: inner.cache.capacity(),
            entries: inner.cache.len() as u64,
            hits: inner.hits.load(Relaxed),
            misses: inner.misses.load(Relaxed),
            joins: joins.load(Relaxed),
            evictions: inner.evictions.load(Relaxed),
        })
    }
}

impl<K, V> std::fmt::Debug for MemoryCache<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryCache").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cache_never_exceeds_its_capacity() {
        let cache = MemoryCache::new(10_000, |_: &u32, value: &Vec<u8>| value.len());
        for key in 0..1000 {
            cache.insert(key, vec![0; 900]);
        }
        let kept = cache.inner.cache.len();
        assert!(cache.inner.cache.weight() <= 10_000);
        assert!(kept > 5);
        assert_eq!(cache.inner.evictions.load(Relaxed), 1000 - kept as u64);
        cache.insert(5000, vec![0; 20_000]);
        assert!(cache.get(&5000).is_none(), "a value larger than the capacity is not kept");
        assert!(cache.inner.cache.len() > 5, "a value that is not kept evicts no others");
    }
}
