//! Where media is read: storages whose reads are counted and, with a range cache, remembered.

use crate::{observe::meter::StorageMeter, observe::metrics::ReadPurpose, observe::trace::Trace};
use futures_util::future::BoxFuture;
use latemux_cache::{Cache, Outcome, RangeCache};
use latemux_storage::{Key, Listing, Options, Read, ReadRequest, Storage, StorageError, Version};
use std::sync::Arc;

/// Why media is not remembered.
const NO_CACHE: &str = "off";

/// Opens storages for media.
#[derive(Debug, Clone, Default)]
pub(crate) struct Media {
    meter: StorageMeter,
    cache: Option<Cache>,
    /// How storages are opened that files name.
    options: Options,
}

impl Media {
    pub(crate) fn new(meter: StorageMeter, cache: Option<Cache>, options: Options) -> Self {
        Self { meter, cache, options }
    }

    /// What counts reads of everything else.
    pub(crate) fn meter(&self) -> &StorageMeter {
        &self.meter
    }

    /// How storages are opened that files name.
    pub(crate) fn options(&self) -> &Options {
        &self.options
    }

    /// Forgets what is remembered of a version of an object; how many pieces.
    pub(crate) fn forget(&self, storage: &dyn Storage, key: &Key, version: &Version) -> u64 {
        self.cache.as_ref().map_or(0, |cache| cache.purge(&storage.describe(), key, version))
    }

    /// Waits until the cache's disk knows what was forgotten; it says so where it does not, for a later process may find it.
    pub(crate) async fn forgotten(&self) {
        let Some(cache) = &self.cache else { return };
        if !cache.purges_recorded().await {
            tracing::warn!(
                reason = "purge_not_on_disk",
                "the cache's disk cannot be written or is slow: a process that is started now may find purged media again"
            );
        }
    }

    /// A storage where media is read.
    pub(crate) fn over(&self, storage: Arc<dyn Storage>) -> Arc<dyn Storage> {
        let name = storage.describe();
        let counted = self.meter.over(storage, ReadPurpose::Media);
        match &self.cache {
            Some(cache) => Arc::new(Remembered(cache.around(counted, &name))),
            None => Arc::new(Passed(counted)),
        }
    }
}

/// Media through the range cache.
#[derive(Debug)]
struct Remembered(RangeCache);

impl Storage for Remembered {
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

/// Media as storage sends it, each time anew.
#[derive(Debug)]
struct Passed(Arc<dyn Storage>);

impl Storage for Passed {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        crate::observe::trace::note(Outcome::Bypassed(NO_CACHE));
        self.0.read(request)
    }

    fn list<'a>(&'a self, folder: &'a Key) -> BoxFuture<'a, Result<Listing, StorageError>> {
        self.0.list(folder)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}
