//! A cache of immutable values, bounded in bytes.

use quick_cache::{DefaultHashBuilder, Equivalent, OptionsBuilder, Weighter, sync::Cache};
use std::hash::Hash;

/// Values by key, at most so many bytes of them.
pub(crate) struct Memo<K, V> {
    cache: Cache<K, V, Weigh<K, V>>,
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
        let cache = Cache::with_options(
            options,
            Weigh(weigh),
            DefaultHashBuilder::default(),
            quick_cache::sync::DefaultLifecycle::default(),
        );
        Self { cache }
    }

    pub(crate) fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        self.cache.get(key)
    }

    pub(crate) fn insert(&self, key: K, value: V) {
        self.cache.insert(key, value);
    }

    pub(crate) fn remove(&self, key: &K) {
        self.cache.remove(key);
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
        assert!(memo.cache.weight() <= 10_000);
        assert!(memo.cache.len() > 5);
        memo.insert(5000, vec![0; 20_000]);
        assert!(memo.get(&5000).is_none(), "larger than all of it");
        assert!(memo.cache.len() > 5, "and it does not drive out the others");
    }
}
