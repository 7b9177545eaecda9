//! Objects in memory, for tests and the built-in sample library.

use crate::{Key, ListRequest, Listing, ObjectMeta, Read, ReadRequest, Storage, StorageError, Version};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{PoisonError, RwLock};

/// Objects in memory. A read is one frame: a slice of the stored bytes, not a copy.
#[derive(Default)]
pub struct Memory {
    objects: RwLock<BTreeMap<Key, (Bytes, Version)>>,
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Memory")
    }
}

impl Memory {
    /// Creates a storage without objects.
    pub fn new() -> Self {
        Self::default()
    }

    /// Stores or replaces an object. Its version is a function of its bytes, so two processes with
    /// the same library report the same versions.
    pub fn put(&self, key: Key, bytes: impl Into<Bytes>) -> Version {
        let bytes = bytes.into();
        let version = version_of(&bytes);
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        objects.insert(key, (bytes, version.clone()));
        version
    }

    /// Stores an object if its current version is `over`, where `None` means that there is no
    /// object. Returns false if it is not.
    pub(crate) fn put_if(&self, key: &Key, bytes: Bytes, over: Option<&Version>) -> bool {
        let mut objects = self.objects.write().unwrap_or_else(PoisonError::into_inner);
        let is_expected = objects.get(key).map(|(_, version)| version) == over;
        if is_expected {
            let version = version_of(&bytes);
            objects.insert(key.clone(), (bytes, version));
        }
        is_expected
    }

    /// Removes an object. Returns true if there was one.
    pub fn remove(&self, key: &Key) -> bool {
        self.objects.write().unwrap_or_else(PoisonError::into_inner).remove(key).is_some()
    }

    fn get(&self, request: &ReadRequest<'_>) -> Result<Read, StorageError> {
        let key = request.key;
        let not_found = || StorageError::NotFound(key.to_string());
        let objects = self.objects.read().unwrap_or_else(PoisonError::into_inner);
        let (bytes, version) = objects.get(key).ok_or_else(not_found)?;
        if request.version.is_some_and(|pin| pin != version) {
            return Err(StorageError::Changed(key.to_string()));
        }
        let out = || StorageError::OutOfRange(key.to_string());
        let range = request.want.within(version.size).ok_or_else(out)?;
        let frame = bytes.slice(in_memory(&range).ok_or_else(out)?);
        let body = stream::iter((!frame.is_empty()).then_some(Ok(frame))).boxed();
        let object = ObjectMeta { size: version.size, version: version.clone() };
        Ok(Read { object, range, body, is_in_memory: false })
    }

    fn list_now(&self, request: ListRequest<'_>) -> Result<Listing, StorageError> {
        let folder = request.folder;
        let prefix = if folder.as_str().is_empty() { String::new() } else { format!("{folder}/") };
        let mut listing = Listing::default();
        let mut folders = BTreeSet::new();
        for (key, (bytes, _)) in self.objects.read().unwrap_or_else(PoisonError::into_inner).iter() {
            let Some(rest) = key.as_str().strip_prefix(&prefix).filter(|rest| !rest.is_empty()) else {
                continue;
            };
            match rest.split_once('/') {
                Some((name, _)) => {
                    folders.insert(name.to_owned());
                }
                None => listing.objects.push((rest.to_owned(), bytes.len() as u64)),
            }
        }
        listing.folders = folders.into_iter().collect();
        listing.cut(request)
    }
}

fn in_memory(range: &Range<u64>) -> Option<Range<usize>> {
    Some(usize::try_from(range.start).ok()?..usize::try_from(range.end).ok()?)
}

fn version_of(bytes: &Bytes) -> Version {
    let etag = format!("\"{:032x}\"", xxhash_rust::xxh3::xxh3_128(bytes));
    Version { etag: Some(etag.into()), size: bytes.len() as u64, modified: None }
}

impl Storage for Memory {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        async move { self.get(&request) }.boxed()
    }

    fn list<'a>(&'a self, request: ListRequest<'a>) -> BoxFuture<'a, Result<Listing, StorageError>> {
        async move { self.list_now(request) }.boxed()
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}
