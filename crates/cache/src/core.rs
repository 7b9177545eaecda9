//! What all reads share: the units in memory and their budget, the disk, the counters.

use crate::{
    Config, Figures, RangeCache,
    cell::Cell,
    counters::Counters,
    disk::{Disk, Piece},
    extents::Unit,
    fill::Done,
    gauge::{Gauge, Reserved, wide},
    object::{Names, Object, Table},
    s3fifo::{Entry, Mark, S3Fifo},
};
use bytes::Bytes;
use latemux_storage::{Key, Storage, Version};
use std::{
    ops::Range,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};
use tokio::{
    sync::{Semaphore, SemaphorePermit, watch},
    time::timeout,
};

/// What a unit takes in memory besides its bytes: measured with the allocator, rounded up.
const UNIT: u64 = 512;

/// The cache's folder cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{dir}: {error}")]
pub struct OpenError {
    /// The folder.
    pub dir: String,
    /// Why.
    #[source]
    pub error: std::io::Error,
}

/// Units of any number of storages, under one set of limits.
#[derive(Debug, Clone)]
pub struct Cache {
    core: Arc<Core>,
}

impl Cache {
    /// An empty cache; with a disk, what its folder holds is found in the background. Touches the disk: call it at start,
    /// not while serving.
    ///
    /// # Errors
    /// Where the folder cannot be made or is used by another process. What goes wrong with the disk later is no error of the
    /// cache's: it asks storage instead.
    pub fn open(config: Config) -> Result<Self, OpenError> {
        let config = config.fitted();
        let (gauge, counters) = (Gauge::with_spares(config.unit, config.spare()), Arc::<Counters>::default());
        let disk = match config.disk_tier() {
            Some(disk) => Some(Disk::open(disk, gauge.clone(), counters.clone())?),
            None => None,
        };
        Ok(Self::new(config, gauge, counters, disk))
    }

    /// As [`Self::open`], with a disk that fails as told.
    ///
    /// # Errors
    /// As [`Self::open`].
    #[cfg(any(test, feature = "testing"))]
    pub fn open_failing(config: Config, faults: crate::DiskFaults) -> Result<Self, OpenError> {
        let config = config.fitted();
        let (gauge, counters) = (Gauge::with_spares(config.unit, config.spare()), Arc::<Counters>::default());
        let disk = match config.disk_tier() {
            Some(disk) => Some(Disk::failing(disk, faults, gauge.clone(), counters.clone())?),
            None => None,
        };
        Ok(Self::new(config, gauge, counters, disk))
    }

    pub(crate) fn new(
        config: Config,
        gauge: Arc<Gauge>,
        counters: Arc<Counters>,
        disk: Option<Disk>,
    ) -> Self {
        let config = config.fitted();
        let filling = Filling::new(config.filling());
        let (table, policy) = (Table::new(gauge.clone()), Mutex::new(S3Fifo::new()));
        let fetches = Fetches::default();
        Self { core: Arc::new(Core { config, table, policy, gauge, counters, filling, fetches, disk }) }
    }

    /// A storage that remembers what `source` sends. `name` tells this storage from others for as long as the disk keeps
    /// anything of it: a different bucket, host or folder needs a different name.
    #[must_use]
    pub fn around(&self, source: Arc<dyn Storage>, name: &str) -> RangeCache {
        RangeCache::new(self.core.clone(), source, name)
    }

    /// Forgets all that is kept of a version of an object in the storage of that name; how many units. What is being fetched now
    /// may come to be kept yet. The next process will not find it on disk either, once [`Self::forgotten`] says so.
    pub fn forget(&self, storage: &str, key: &Key, version: &Version) -> u64 {
        let names = Names { storage, key, version };
        let Some(object) = self.core.table.get(&storage.into(), &names) else { return 0 };
        let units = self.core.forget_object(&object);
        if let Some(disk) = &self.core.disk {
            disk.forget_for_good(&object);
        }
        units
    }

    /// Waits until the disk's log says what was forgotten so far, no longer than for a read; whether it does. If it does not, it
    /// will when the disk can be written again.
    pub async fn forgotten(&self) -> bool {
        match &self.core.disk {
            Some(disk) => disk.forgotten().await,
            None => true,
        }
    }

    /// Its limits, as they were fitted to each other.
    #[must_use]
    pub fn limits(&self) -> &Config {
        &self.core.config
    }

    /// What it did and holds.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let (units, bytes) = {
            let policy = self.core.policy();
            (wide(policy.len()), policy.bytes())
        };
        let (disk_units, disk_bytes) = self.core.disk.as_ref().map(Disk::holds).unwrap_or_default();
        Figures {
            memory_bytes: self.core.gauge.total() + self.core.gauge.spares(),
            unit_bytes: self.core.gauge.units(),
            reserved_bytes: self.core.gauge.reserved(),
            room_bytes: self.core.filling.given(),
            fetches: self.core.fetches.count(),
            cached_bytes: bytes.saturating_sub(units.saturating_mul(UNIT)),
            cached_units: units,
            disk_bytes,
            disk_units,
            ..self.core.counters.figures()
        }
    }

    /// Waits until all that the disk held at start has been found.
    pub async fn recovered(&self) {
        if let Some(disk) = &self.core.disk {
            disk.recovered().await;
        }
    }

    /// Waits until what is to be written to disk has been.
    pub async fn flush(&self) {
        if let Some(disk) = &self.core.disk {
            disk.flush().await;
        }
    }

    /// Writes what is to be written and lets go of the folder. Reads go on, from memory and storage.
    pub async fn close(&self) {
        if let Some(disk) = &self.core.disk {
            disk.close(None).await;
        }
    }

    /// The same at the end of the process: fetches that go on are waited for, and what they brought is written too, as far as
    /// that is done `within` so long; a disk that hangs is waited for a second longer.
    pub async fn close_within(&self, within: Duration) {
        let Some(disk) = &self.core.disk else { return };
        let begun = Instant::now();
        // Half of it is the disk's, whatever storage does.
        let _ = timeout(within / 2, self.core.fetches.rest()).await;
        disk.close(Some(within.saturating_sub(begun.elapsed()))).await;
    }
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) table: Arc<Table>,
    policy: Mutex<S3Fifo<Kept>>,
    pub(crate) gauge: Arc<Gauge>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) filling: Filling,
    /// Under way.
    pub(crate) fetches: Fetches,
    pub(crate) disk: Option<Disk>,
}

/// A unit in memory, as eviction sees it.
#[derive(Debug)]
struct Kept {
    object: Arc<Object>,
    start: u64,
    len: u64,
    unit: Arc<Unit>,
}

impl Entry for Kept {
    fn weight(&self) -> u64 {
        self.len.saturating_add(UNIT)
    }

    fn fingerprint(&self) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
        let id = self.object.id as u64;
        id ^ self.start.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn mark(&self) -> &Mark {
        &self.unit.mark
    }

    fn awaited(&self) -> bool {
        self.unit.fill.is_awaited()
    }
}

impl Core {
    /// A unit has arrived: keeps it if it fits, and gives it to those who wait. Room for it was made when it was reserved.
    pub(crate) fn keep(&self, object: &Arc<Object>, cell: &Arc<Cell>, bytes: &Bytes) -> Arc<Unit> {
        let unit = Arc::new(Unit { mark: Mark::default(), fill: cell.fill.clone() });
        let kept =
            Kept { object: object.clone(), start: cell.range.start, len: cell.len(), unit: unit.clone() };
        let fits = kept.weight() <= self.config.memory;
        let is_new = object.extents().arrived(cell, fits.then(|| (bytes.clone(), unit.clone())));
        cell.finish(Ok(bytes.clone()));
        if fits && is_new {
            self.gauge.table_grew(UNIT);
            self.policy().insert(kept);
        }
        unit
    }

    /// Sets memory aside, and makes room for it.
    pub(crate) fn reserve(&self, bytes: u64) -> Reserved {
        let reserved = self.gauge.reserve(bytes);
        self.make_room();
        reserved
    }

    /// Drives units out until everything fits into the budget. What readers hold is not freed by driving it out: for their
    /// sake at most half of the budget is given up.
    fn make_room(&self) {
        let taken = self.config.spare().saturating_add(self.config.holes());
        let budget = self.config.memory.saturating_sub(taken);
        while self.gauge.total() > budget {
            let kept = {
                let mut policy = self.policy();
                if policy.bytes().saturating_add(self.gauge.reserved()) <= budget / 2 {
                    return;
                }
                policy.evict()
            };
            let Some(kept) = kept else { return };
            self.gauge.table_shrank(UNIT);
            let bytes = kept.object.extents().forget(kept.start, &kept.unit);
            if bytes.is_some() {
                self.counters.evictions.add(1);
                self.counters.evicted_bytes.add(kept.len);
            }
        }
    }

    /// Forgets units that should not have been kept.
    pub(crate) fn forget(&self, object: &Arc<Object>, units: &[Done]) {
        for done in units {
            let bytes = object.extents().forget(done.start, &done.unit);
            drop(bytes);
        }
        self.forget_kept(|kept| units.iter().any(|done| Arc::ptr_eq(&done.unit, &kept.unit)));
    }

    /// Forgets all of an object that is no longer what it was.
    pub(crate) fn purge(&self, object: &Arc<Object>) {
        if self.forget_object(object) > 0 {
            self.counters.purged.add(1);
        }
    }

    /// Forgets all of an object; how many units.
    fn forget_object(&self, object: &Arc<Object>) -> u64 {
        let bytes = object.extents().forget_ready();
        let on_disk = self.disk.as_ref().map_or(0, |disk| disk.forget(object.id));
        let in_memory = wide(bytes.len());
        drop(bytes);
        self.forget_kept(|kept| Arc::ptr_eq(&kept.object, object));
        in_memory + on_disk
    }

    fn forget_kept(&self, gone: impl Fn(&Kept) -> bool) {
        let mut policy = self.policy();
        let before = policy.len();
        policy.retain(|kept| !gone(kept));
        self.gauge.table_shrank(wide(before - policy.len()).saturating_mul(UNIT));
    }

    /// The bytes of a piece, exactly those of `range`; `None` where the disk does not have them after all.
    pub(crate) async fn read_from_disk(
        &self,
        object: &Arc<Object>,
        piece: &Piece,
        range: &Range<u64>,
    ) -> Option<Bytes> {
        let disk = self.disk.as_ref().filter(|_| piece.range == *range)?;
        disk.read(object, piece).await
    }

    pub(crate) fn write_to_disk(&self, object: &Arc<Object>, done: Done) {
        if let (Some(disk), Some(bytes)) = (&self.disk, done.bytes) {
            disk.write(object, done.start, bytes, &Arc::downgrade(&done.unit));
        }
    }

    fn policy(&self) -> MutexGuard<'_, S3Fifo<Kept>> {
        self.policy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many fetches are under way.
#[derive(Debug, Default)]
pub(crate) struct Fetches(watch::Sender<u64>);

impl Fetches {
    pub(crate) fn begun(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    pub(crate) fn ended(&self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }

    fn count(&self) -> u64 {
        *self.0.borrow()
    }

    /// Waits until none is.
    async fn rest(&self) {
        // It is never closed, for it is here.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}

/// Room for units being fetched, given out in turn.
#[derive(Debug)]
pub(crate) struct Filling {
    room: Semaphore,
    total: u32,
}

impl Filling {
    const STEP: u64 = 4096;

    fn new(bytes: u64) -> Self {
        let total = u32::try_from(bytes / Self::STEP).unwrap_or(u32::MAX).clamp(1, u32::MAX >> 4);
        Self { room: Semaphore::new(usize::try_from(total).unwrap_or(Semaphore::MAX_PERMITS)), total }
    }

    /// Bytes of room that are given out.
    fn given(&self) -> u64 {
        u64::from(self.total).saturating_sub(wide(self.room.available_permits())).saturating_mul(Self::STEP)
    }

    /// Room for so many bytes, or all there is.
    pub(crate) async fn acquire(&self, bytes: u64) -> Option<SemaphorePermit<'_>> {
        let wanted = u32::try_from(bytes.div_ceil(Self::STEP)).unwrap_or(u32::MAX).clamp(1, self.total);
        // It is never closed.
        self.room.acquire_many(wanted).await.ok()
    }
}
