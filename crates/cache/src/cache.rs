//! The range cache as its owner sees it: opened once, then put around any number of storages.

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

/// Keeps units of any number of storages under one set of limits. Clones share the cache.
#[derive(Debug, Clone)]
pub struct Cache {
    store: Arc<Store>,
}

impl Cache {
    /// Opens a cache. If it has a disk, the contents of the disk's folder are recovered in the
    /// background. Opening blocks on the disk, so do it at start and not while serving.
    ///
    /// # Errors
    /// [`OpenError`] if the folder cannot be created or another process uses it. Later failures of
    /// the disk are not errors: the cache then reads from storage.
    pub fn open(config: Config) -> Result<Self, OpenError> {
        Self::open_with(config, Disk::open)
    }

    /// Opens a cache whose disk has the faults that a test sets.
    ///
    /// # Errors
    /// [`OpenError`] for the same causes as [`Self::open`].
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
        let disk = config.disk_tier().map(|disk| open_disk(disk, gauge.clone(), counters.clone()));
        Ok(Self::over(Store::new(config, gauge, counters, disk.transpose()?)))
    }

    pub(crate) fn over(store: Store) -> Self {
        Self { store: Arc::new(store) }
    }

    /// Returns a storage that caches the bytes of `source`. `name` identifies the source for as
    /// long as the disk keeps its bytes: a different bucket, host or folder needs another one.
    pub fn around(&self, source: Arc<dyn Storage>, name: &str) -> RangeCache {
        RangeCache::new(self.store.clone(), source, name)
    }

    /// Purges a version of an object from memory and disk, and returns the number of purged units.
    /// Bytes that are being fetched at this moment may still be kept. The units stay purged after a
    /// restart once [`Self::purges_recorded`] returned true.
    pub fn purge(&self, storage: &str, key: &Key, version: &Version) -> u64 {
        let names = Names { storage, key, version };
        let Some(object) = self.store.table.get(&storage.into(), &names) else { return 0 };
        let units = self.store.forget_object(&object);
        if let Some(disk) = &self.store.disk {
            disk.record_purge(&object);
        }
        units
    }

    /// Waits until the disk's log records all purges so far, but no longer than for one read.
    /// Returns false if it does not record them yet: this happens once the disk works again.
    pub async fn purges_recorded(&self) -> bool {
        match &self.store.disk {
            Some(disk) => disk.purges_recorded().await,
            None => true,
        }
    }

    /// Returns the limits after they were fitted to each other.
    pub fn limits(&self) -> &Config {
        &self.store.config
    }

    /// Returns what the cache did since it was opened and what it holds now.
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

    /// Waits until the disk's contents have been recovered.
    pub async fn recovered(&self) {
        if let Some(disk) = &self.store.disk {
            disk.recovered().await;
        }
    }

    /// Waits until all queued units are written to disk.
    pub async fn flush(&self) {
        if let Some(disk) = &self.store.disk {
            disk.flush().await;
        }
    }

    /// Writes all queued units and releases the folder. Reads continue from memory and storage.
    pub async fn close(&self) {
        if let Some(disk) = &self.store.disk {
            disk.close(None).await;
        }
    }

    /// Closes the cache at the end of the process: waits for running fetches and writes what they
    /// brought, as far as that is possible `within` this time. A disk that hangs gets one more
    /// second.
    pub async fn close_within(&self, within: Duration) {
        let Some(disk) = &self.store.disk else { return };
        let begun = Instant::now();
        // Half of the time is reserved for the disk, even if storage is slow.
        let _ = timeout(within / 2, self.store.fetches.all_ended()).await;
        disk.close(Some(within.saturating_sub(begun.elapsed()))).await;
    }
}
