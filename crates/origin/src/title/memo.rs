//! A cache of immutable values, bounded in bytes.

use crate::{
    observe::metrics::{CacheSnapshot, CacheWatch},
    observe::trace::note,
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

/// Values by key, at most so many bytes of them. Clones share them.
pub(crate) struct Memo<K, V> {
    inner: Arc<Inner<K, V>>,
}

impl<K, V> Clone for Memo<K, V> {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

struct Inner<K, V> {
    cache: Cache<K, V, Weigh<K, V>, DefaultHashBuilder, Counting<K, V>>,
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: Arc<AtomicU64>,
}

/// As the library's own, and counts what goes.
struct Counting<K, V> {
    evictions: Arc<AtomicU64>,
    inner: DefaultLifecycle<K, V>,
}

impl<K, V> Clone for Counting<K, V> {
    fn clone(&self) -> Self {
        Self { evictions: self.evictions.clone(), inner: self.inner.clone() }
    }
}

impl<K, V> Lifecycle<K, V> for Counting<K, V> {
    type RequestState = <DefaultLifecycle<K, V> as Lifecycle<K, V>>::RequestState;

    fn on_evict(&self, state: &mut Self::RequestState, key: K, value: V) {
        self.evictions.fetch_add(1, Relaxed);
        self.inner.on_evict(state, key, value);
    }
}

/// Bytes an entry takes.
struct Weigh<K, V>(fn(&K, &V) -> usize);

impl<K, V> Clone for Weigh<K, V> {
    fn clone(&self) -> Self {
        Self(self.0)
    }
}

impl<K, V> Weighter<K, V> for Weigh<K, V> {
    fn weight(&self, key: &K, value: &V) -> u64 {
        // What the table itself takes per entry, so that many small ones are bounded too.
        const ENTRY: u64 = 96;
        u64::try_from((self.0)(key, value)).unwrap_or(u64::MAX).saturating_add(ENTRY)
    }
}

impl<K: Hash + Eq, V: Clone> Memo<K, V> {
    /// At most `capacity` bytes, as `weigh` counts them; what is larger alone is not remembered.
    pub(crate) fn new(capacity: u64, weigh: fn(&K, &V) -> usize) -> Self {
        let options = OptionsBuilder::new()
            // A shard only takes what fits into its own share: one shard, for values may be large.
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
            Counting { evictions: evictions.clone(), inner: DefaultLifecycle::default() },
        );
        let (hits, misses) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { inner: Arc::new(Inner { cache, hits, misses, evictions }) }
    }

    pub(crate) fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        let found = self.inner.cache.get(key);
        if found.is_some() {
            self.inner.hits.fetch_add(1, Relaxed);
            note(Outcome::Hit(Tier::Memory));
        } else {
            self.inner.misses.fetch_add(1, Relaxed);
        }
        found
    }

    /// The same, for who looked already or only wants to know.
    pub(crate) fn peek<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        self.inner.cache.peek(key)
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        self.inner.cache.insert(key, value);
    }

    /// Whether it was there.
    pub(crate) fn remove<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> bool {
        self.inner.cache.remove(key).is_some()
    }

    /// Forgets all entries of such keys; how many. Looks at all there are.
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

impl<K, V> Memo<K, V>
where
    K: Hash + Eq + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// Looks at it under a name; `joins` counts waits for what is being made for it.
    pub(crate) fn watch(&self, name: &'static str, joins: Arc<AtomicU64>) -> CacheWatch {
        let inner = self.inner.clone();
        CacheWatch::new(move || CacheSnapshot {
            cache: name,
            tier: "memory",
            bytes: inner.cache.weight(),
            limit: inner.cache.capacity(),
            entries: u64::try_from(inner.cache.len()).unwrap_or(u64::MAX),
            hits: inner.hits.load(Relaxed),
            misses: inner.misses.load(Relaxed),
            joins: joins.load(Relaxed),
            evictions: inner.evictions.load(Relaxed),
        })
    }
}

impl<K, V> std::fmt::Debug for Memo<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memo").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn never_holds_more_than_its_capacity() {
        let memo = Memo::new(10_000, |_: &u32, value: &Vec<u8>| value.len());
        for key in 0..1000 {
            memo.insert(key, vec![0; 900]);
        }
        let kept = memo.inner.cache.len();
        assert!(memo.inner.cache.weight() <= 10_000);
        assert!(kept > 5);
        assert_eq!(memo.inner.evictions.load(Relaxed), 1000 - u64::try_from(kept).unwrap());
        memo.insert(5000, vec![0; 20_000]);
        assert!(memo.get(&5000).is_none(), "larger than all of it");
        assert!(memo.inner.cache.len() > 5, "and it does not drive out the others");
    }
}
