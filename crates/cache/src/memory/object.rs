//! Objects with cached or requested bytes, found by the hash of their names.

use crate::memory::{
    extents::Extents,
    gauge::{Gauge, to_u64},
    lock::lock,
};
use latemux_storage::{Key, Version};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, Weak},
};
use xxhash_rust::xxh3::Xxh3;

/// Number of parts of the table, so that readers of different objects rarely contend.
const SHARDS: usize = 64;
/// Memory that an object takes besides its names.
const OVERHEAD: u64 = 400;

/// The names that identify the bytes of an object permanently.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(crate) storage: &'a str,
    pub(crate) key: &'a Key,
    pub(crate) version: &'a Version,
}

impl Names<'_> {
    /// Encodes the names to be hashed or stored. Different names give different bytes.
    fn encode(&self, put: &mut impl FnMut(&[u8])) {
        let text = |put: &mut dyn FnMut(&[u8]), text: Option<&str>| {
            // No text has the length u64::MAX.
            put(&text.map_or(u64::MAX, |text| to_u64(text.len())).to_le_bytes());
            put(text.unwrap_or_default().as_bytes());
        };
        text(put, Some(self.storage));
        text(put, Some(self.key.as_str()));
        text(put, self.version.etag.as_deref());
        put(&self.version.size.to_le_bytes());
        put(&[u8::from(self.version.modified.is_some())]);
        put(&self.version.modified.unwrap_or_default().to_le_bytes());
    }

    fn hash(&self) -> u128 {
        let mut hasher = Xxh3::new();
        self.encode(&mut |bytes| hasher.update(bytes));
        hasher.digest128()
    }
}

/// One version of one object, for as long as any of it is cached or read.
#[derive(Debug)]
pub(crate) struct Object {
    pub(crate) id: u128,
    pub(crate) key: Key,
    pub(crate) version: Version,
    /// The encoded names, as records on disk contain them.
    pub(crate) names: Box<[u8]>,
    storage: Arc<str>,
    extents: Mutex<Extents>,
    table: Arc<Table>,
}

impl Object {
    pub(crate) fn extents(&self) -> MutexGuard<'_, Extents> {
        lock(&self.extents)
    }

    fn is_named(&self, names: &Names<'_>) -> bool {
        *self.storage == *names.storage && self.key == *names.key && self.version == *names.version
    }

    fn weight(&self) -> u64 {
        OVERHEAD + to_u64(self.names.len()) * 2
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        self.table.gauge.table_shrank(self.weight());
        let mut shard = self.table.shard(self.id);
        // By now, another object may have taken its entry.
        if shard.get(&self.id).is_some_and(|object| object.strong_count() == 0) {
            shard.remove(&self.id);
        }
    }
}

/// Objects by hash. The table keeps none of them alive: units and readers do.
#[derive(Debug)]
pub(crate) struct Table {
    shards: Vec<Mutex<HashMap<u128, Weak<Object>>>>,
    gauge: Arc<Gauge>,
}

impl Table {
    pub(crate) fn new(gauge: Arc<Gauge>) -> Arc<Self> {
        Arc::new(Self { shards: (0..SHARDS).map(|_| Mutex::default()).collect(), gauge })
    }

    /// Returns the object of these names, or `None` if another object has the same hash.
    pub(crate) fn get(self: &Arc<Self>, storage: &Arc<str>, names: &Names<'_>) -> Option<Arc<Object>> {
        let id = names.hash();
        let mut shard = self.shard(id);
        if let Some(object) = shard.get(&id).and_then(Weak::upgrade) {
            // If this is the last reference to the object, dropping it takes the lock.
            drop(shard);
            return object.is_named(names).then_some(object);
        }
        let mut bytes = Vec::new();
        names.encode(&mut |part| bytes.extend_from_slice(part));
        let object = Arc::new(Object {
            id,
            key: names.key.clone(),
            version: names.version.clone(),
            names: bytes.into(),
            storage: storage.clone(),
            extents: Mutex::default(),
            table: self.clone(),
        });
        self.gauge.table_grew(object.weight());
        shard.insert(id, Arc::downgrade(&object));
        Some(object)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().unwrap().len()).sum()
    }

    fn shard(&self, id: u128) -> MutexGuard<'_, HashMap<u128, Weak<Object>>> {
        let number = id as usize % SHARDS;
        let shard = self.shards.get(number).unwrap_or_else(|| unreachable!("a remainder of their number"));
        lock(shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(etag: Option<&str>, size: u64, modified: Option<i64>) -> Version {
        Version { etag: etag.map(Into::into), size, modified }
    }

    #[test]
    fn every_name_of_an_object_changes_its_hash() {
        let a = Key::new("a").unwrap();
        let ab = Key::new("ab").unwrap();
        let b = Key::new("b").unwrap();
        let versions = [
            version(None, 1, None),
            version(None, 1, Some(0)),
            version(None, 1, Some(1)),
            version(None, 2, Some(1)),
            version(Some(""), 1, None),
            version(Some("b"), 1, None),
            version(Some("b"), 1, Some(0)),
        ];
        let mut hashes = Vec::new();
        for storage in ["", "s", "sa"] {
            for key in [&a, &ab, &b] {
                hashes.extend(versions.iter().map(|version| Names { storage, key, version }.hash()));
            }
        }
        let all = hashes.len();
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), all);
    }

    #[test]
    fn an_object_stays_in_the_table_while_it_is_held() {
        let gauge = Arc::new(Gauge::default());
        let table = Table::new(gauge.clone());
        let storage = Arc::from("s");
        let key = Key::new("a").unwrap();
        let one = version(None, 1, Some(1));
        let two = version(None, 1, Some(2));
        let get = |version| table.get(&storage, &Names { storage: "s", key: &key, version }).unwrap();
        let first = get(&one);
        assert!(Arc::ptr_eq(&first, &get(&one)));
        assert!(!Arc::ptr_eq(&first, &get(&two)));
        assert_eq!(table.len(), 1, "the other version was dropped");
        assert!(gauge.total() > OVERHEAD);
        drop(first);
        assert_eq!((table.len(), gauge.total()), (0, 0));
    }

    #[test]
    fn objects_with_the_same_hash_are_told_apart() {
        let table = Table::new(Arc::default());
        let storage = Arc::from("s");
        let key = Key::new("a").unwrap();
        let one = version(None, 1, Some(1));
        let two = version(None, 1, Some(2));
        let object = table.get(&storage, &Names { storage: "s", key: &key, version: &one }).unwrap();
        let other = Names { storage: "s", key: &key, version: &two };
        table.shard(other.hash()).insert(other.hash(), Arc::downgrade(&object));
        assert!(table.get(&storage, &other).is_none());
    }
}
