//! Storages as an origin uses them: reads are counted, and media is read through the range cache.

use crate::{
    observe::meter::StorageMeter,
    observe::metrics::ReadPurpose,
    observe::trace::{Trace, note},
};
use futures_util::future::BoxFuture;
use latemux_cache::{Cache, RangeCache};
use latemux_storage::{Key, Listing, Options, Outcome, Read, ReadRequest, Storage, StorageError, Version};
use std::sync::Arc;

/// Reason, in metrics and log, why media is not cached: there is no range cache.
const NO_CACHE: &str = "off";

/// Wraps storages for counted and cached reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Storages {
    meter: StorageMeter,
    cache: Option<Cache>,
    /// Options for opening the storages that files refer to.
    options: Options,
}

impl Storages {
    pub(crate) fn new(meter: StorageMeter, cache: Option<Cache>, options: Options) -> Self {
        Self { meter, cache, options }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Returns a storage whose reads are counted under `purpose`.
    pub(crate) fn counted(&self, storage: Arc<dyn Storage>, purpose: ReadPurpose) -> Arc<dyn Storage> {
        self.meter.over(storage, purpose)
    }

    /// Returns a storage for media. It reads through the range cache if there is one.
    pub(crate) fn media(&self, storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
        let name = storage.describe();
        let counted = self.counted(storage, ReadPurpose::Media);
        match &self.cache {
            Some(cache) => Arc::new(CachedMedia(cache.around(counted, &name))),
            None => Arc::new(UncachedMedia(counted)),
        }
    }

    /// Removes a version of an object from the range cache. Returns the number of units removed.
    pub(crate) fn purge(&self, storage: &dyn Storage, key: &Key, version: &Version) -> u64 {
        self.cache.as_ref().map_or(0, |cache| cache.purge(&storage.describe(), key, version))
    }

    /// Waits until purges so far are recorded on the cache's disk. It logs a warning if they are
    /// not: a later process may find the purged media again.
    pub(crate) async fn purges_recorded(&self) {
        let Some(cache) = &self.cache else { return };
        if !cache.purges_recorded().await {
            tracing::warn!(
                reason = "purge_not_on_disk",
                "the cache's disk cannot be written or is slow: a later process may find purged media"
            );
        }
    }
}

/// Media read through the range cache. The current request observes each read.
#[derive(Debug)]
struct CachedMedia(RangeCache);

impl Storage for CachedMedia {
    fn read<'a>(&'a self, mut request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        request.observer = Trace::current().map(Trace::observer);
        self.0.read(request)
    }

    fn list<'a>(&'a self, folder: &'a Key) -> BoxFuture<'a, Result<Listing, StorageError>> {
        self.0.list(folder)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

/// Media read from storage each time.
#[derive(Debug)]
struct UncachedMedia(Arc<dyn Storage>);

impl Storage for UncachedMedia {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        note(Outcome::Bypassed(NO_CACHE));
        self.0.read(request)
    }

    fn list<'a>(&'a self, folder: &'a Key) -> BoxFuture<'a, Result<Listing, StorageError>> {
        self.0.list(folder)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}
