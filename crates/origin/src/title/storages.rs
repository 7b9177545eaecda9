//! Storages as an origin uses them: reads are counted, and media is read through the range cache.

use crate::{
    observe::meter::StorageMeter,
    observe::metrics::ReadPurpose,
    observe::trace::{Trace, record_outcome},
};
use futures_util::future::BoxFuture;
use latemux_cache::Cache;
use latemux_storage::{
    Key, ListRequest, Listing, Options, Outcome, Read, ReadRequest, Storage, StorageError, Version,
};
use std::sync::Arc;

/// Reason of a bypass, in metrics and log, if there is no range cache.
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
        let inner: Arc<dyn Storage> = match &self.cache {
            Some(cache) => Arc::new(cache.around(counted, &name)),
            None => counted,
        };
        Arc::new(MediaStorage { inner, is_cached: self.cache.is_some() })
    }

    /// Removes a version of an object from the range cache. Returns the number of units removed.
    pub(crate) fn purge(&self, storage: &dyn Storage, key: &Key, version: &Version) -> u64 {
        self.cache.as_ref().map_or(0, |cache| cache.purge(&storage.describe(), key, version))
    }

    /// Waits until the purges so far are recorded on the cache's disk. If that fails, a later
    /// process may find purged media again, so a warning is logged.
    pub(crate) async fn record_purges(&self) {
        let Some(cache) = &self.cache else { return };
        if !cache.purges_recorded().await {
            tracing::warn!(
                reason = "purge_not_on_disk",
                "the cache's disk cannot be written or is slow: a later process may find purged media"
            );
        }
    }
}

/// A storage for media.
#[derive(Debug)]
struct MediaStorage {
    inner: Arc<dyn Storage>,
    /// True if `inner` is a range cache, to which each read names its observer.
    is_cached: bool,
}

impl Storage for MediaStorage {
    fn read<'a>(&'a self, mut request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        if self.is_cached {
            request.observer = Trace::current().map(Trace::observer);
        } else {
            record_outcome(Outcome::Bypassed(NO_CACHE));
        }
        self.inner.read(request)
    }

    fn list<'a>(&'a self, request: ListRequest<'a>) -> BoxFuture<'a, Result<Listing, StorageError>> {
        self.inner.list(request)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
