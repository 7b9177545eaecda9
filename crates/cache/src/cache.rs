//! The range cache as its owner sees it: opened once, put around any number of storages.

use crate::{
    CacheFigures, Config, DiskConfig, OpenError, RangeCache,
    counters::Counters,
    disk::Disk,
    memory::{gauge::Gauge, object::Names},
    store::Store,
};
use latemux_storage::{Key, Storage, Version};
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::time::timeout;

/// Units of any number of storages, under one set of limits.
#[derive(Debug, Clone)]
pub struct Cache {
    store: Arc<Store>,
}

impl Cache {
    /// An empty cache; with a disk, what its folder holds is found in the background. Touches the disk: call it at start,
    /// not while serving.
    ///
    /// # Errors
    /// Where the folder cannot be made or is used by another process. What goes wrong with the disk later is no error of the
    /// cache's: it asks storage instead.
    pub fn open(config: Config) -> Result<Self, OpenError> {
        Self::open_with(config, Disk::open)
    }

    /// Opens a cache whose disk fails as a test tells it to.
    ///
    /// # Errors
    /// The same as for [`Self::open`].
    #[cfg(any(test, feature = "testing"))]
    pub fn open_failing(config: Config, faults: crate::DiskFaults) -> Result<Self, OpenError> {
        Self::open_with(config, |disk, gauge, counters| Disk::failing(disk, faults, gauge, counters))
    }

    fn open_with(
        config: Config,
        open_disk: impl FnOnce(DiskConfig, Arc<Gauge>, Arc<Counters>) -> Result<Disk, OpenError>,
    ) -> Result<Self, OpenError> {
        let config = config.fitted();
        let gauge = Gauge::with_spares(config.unit, config.spare());
        let counters = Arc::<Counters>::default();
        let disk = config.disk.clone().map(|disk| open_disk(disk, gauge.clone(), counters.clone()));
        Ok(Self::new(config, gauge, counters, disk.transpose()?))
    }

    pub(crate) fn new(
        config: Config,
        gauge: Arc<Gauge>,
        counters: Arc<Counters>,
        disk: Option<Disk>,
    ) -> Self {
        Self { store: Arc::new(Store::new(config, gauge, counters, disk)) }
    }

    /// A storage that remembers what `source` sends. `name` tells this storage from others for as long as the disk keeps
    /// anything of it: a different bucket, host or folder needs a different name.
    #[must_use]
    pub fn around(&self, source: Arc<dyn Storage>, name: &str) -> RangeCache {
        RangeCache::new(self.store.clone(), source, name)
    }

    /// Forgets all that is kept of a version of an object in the storage of that name; how many units. What is being fetched now
    /// may come to be kept yet. The next process will not find it on disk either, once [`Self::forgotten`] says so.
    pub fn forget(&self, storage: &str, key: &Key, version: &Version) -> u64 {
        let names = Names { storage, key, version };
        let Some(object) = self.store.table.get(&storage.into(), &names) else { return 0 };
        let units = self.store.forget_object(&object);
        if let Some(disk) = &self.store.disk {
            disk.forget_on_disk(&object);
        }
        units
    }

    /// Waits until the disk's log says what was forgotten so far, no longer than for a read; whether it does. If it does not, it
    /// will when the disk can be written again.
    pub async fn forgotten(&self) -> bool {
        match &self.store.disk {
            Some(disk) => disk.forgotten().await,
            None => true,
        }
    }

    /// Its limits, as they were fitted to each other.
    #[must_use]
    pub fn limits(&self) -> &Config {
        &self.store.config
    }

    /// What it did and holds.
    #[must_use]
    pub fn figures(&self) -> CacheFigures {
        let (cached_units, cached_bytes) = self.store.cached();
        let (disk_units, disk_bytes) = self.store.disk.as_ref().map(Disk::holds).unwrap_or_default();
        CacheFigures {
            memory_bytes: self.store.gauge.total() + self.store.gauge.spares(),
            unit_bytes: self.store.gauge.units(),
            reserved_bytes: self.store.gauge.reserved(),
            room_bytes: self.store.room.given_out(),
            fetches: self.store.fetches.get(),
            cached_bytes,
            cached_units,
            disk_bytes,
            disk_units,
            ..self.store.counters.figures()
        }
    }

    /// Waits until all that the disk held at start has been found.
    pub async fn recovered(&self) {
        if let Some(disk) = &self.store.disk {
            disk.recovered().await;
        }
    }

    /// Waits until what is to be written to disk has been.
    pub async fn flush(&self) {
        if let Some(disk) = &self.store.disk {
            disk.flush().await;
        }
    }

    /// Writes what is to be written and lets go of the folder. Reads go on, from memory and storage.
    pub async fn close(&self) {
        if let Some(disk) = &self.store.disk {
            disk.close(None).await;
        }
    }

    /// The same at the end of the process: fetches that go on are waited for, and what they brought is written too, as far as
    /// that is done `within` so long; a disk that hangs is waited for a second longer.
    pub async fn close_within(&self, within: Duration) {
        let Some(disk) = &self.store.disk else { return };
        let begun = Instant::now();
        // Half of it is the disk's, whatever storage does.
        let _ = timeout(within / 2, self.store.fetches.all_ended()).await;
        disk.close(Some(within.saturating_sub(begun.elapsed()))).await;
    }
}
