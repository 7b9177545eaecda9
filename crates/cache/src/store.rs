//! State that all reads share: the units in memory with their budget, the disk, and the counters.

use crate::{
    Config,
    counters::Counters,
    disk::Disk,
    memory::{
        extents::Unit,
        fill::FetchCount,
        gauge::{Gauge, Reserved, to_u64},
        lock::lock,
        object::{Object, Table},
        pending::PendingUnit,
        room::FillRoom,
        s3fifo::{Evictable, HitCount, S3Fifo},
    },
};
use bytes::Bytes;
use latemux_storage::turns::Turns;
use std::sync::{Arc, Mutex};

/// Memory that a unit takes besides its bytes, measured with the allocator and rounded up.
const UNIT: u64 = 512;

#[derive(Debug)]
pub(crate) struct CompleteUnit {
    pub(crate) start: u64,
    pub(crate) unit: Arc<Unit>,
    /// Bytes to be written to disk.
    pub(crate) bytes: Option<Bytes>,
}

#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) config: Config,
    pub(crate) table: Arc<Table>,
    policy: Mutex<S3Fifo<KeptUnit>>,
    pub(crate) gauge: Arc<Gauge>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) room: FillRoom,
    pub(crate) fetches: FetchCount,
    /// Turns of the tasks that fetch units.
    pub(crate) turns: Arc<Turns>,
    pub(crate) disk: Option<Disk>,
}

/// A unit in memory, as the eviction policy sees it.
#[derive(Debug)]
struct KeptUnit {
    object: Arc<Object>,
    start: u64,
    len: u64,
    unit: Arc<Unit>,
}

impl Evictable for KeptUnit {
    fn weight(&self) -> u64 {
        self.len + UNIT
    }

    fn fingerprint(&self) -> u64 {
        #[expect(clippy::cast_possible_truncation, reason = "any bits of a hash will do")]
        let id = self.object.id as u64;
        id ^ self.start.wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    fn hits(&self) -> &HitCount {
        &self.unit.hits
    }

    fn is_awaited(&self) -> bool {
        self.unit.fill.is_awaited()
    }
}

impl Store {
    pub(crate) fn new(
        config: Config,
        gauge: Arc<Gauge>,
        counters: Arc<Counters>,
        disk: Option<Disk>,
    ) -> Self {
        let config = config.fitted();
        Self {
            table: Table::new(gauge.clone()),
            policy: Mutex::new(S3Fifo::new()),
            room: FillRoom::new(config.filling()),
            fetches: FetchCount::default(),
            turns: Arc::default(),
            config,
            gauge,
            counters,
            disk,
        }
    }

    /// Returns the number of units in memory, and their bytes.
    pub(crate) fn cached(&self) -> (u64, u64) {
        let policy = lock(&self.policy);
        let units = to_u64(policy.len());
        (units, policy.bytes() - units * UNIT)
    }

    /// Keeps a unit if it fits, in the room that was reserved, and passes it to its readers.
    pub(crate) fn keep(&self, object: &Arc<Object>, pending: &Arc<PendingUnit>, bytes: &Bytes) -> Arc<Unit> {
        let unit = Arc::new(Unit { hits: HitCount::default(), fill: pending.fill.clone() });
        let kept = KeptUnit {
            object: object.clone(),
            start: pending.range.start,
            len: pending.len(),
            unit: unit.clone(),
        };
        let fits = kept.weight() <= self.config.memory;
        let is_new = object.extents().arrived(pending, fits.then(|| (bytes.clone(), unit.clone())));
        pending.finish(Ok(bytes.clone()));
        if fits && is_new {
            self.gauge.table_grew(UNIT);
            lock(&self.policy).insert(kept);
        }
        unit
    }

    pub(crate) fn reserve(&self, bytes: u64) -> Reserved {
        let reserved = self.gauge.reserve(bytes);
        self.make_room();
        reserved
    }

    /// Evicts units until everything fits into the budget. Evicting does not free the bytes that
    /// readers hold, so at most [`Config::pinnable`] bytes are evicted to make up for those.
    fn make_room(&self) {
        let budget = self.config.budget();
        while self.gauge.total() > budget {
            let kept = {
                let mut policy = lock(&self.policy);
                if policy.bytes() + self.gauge.reserved() <= budget - self.config.pinnable() {
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

    pub(crate) fn forget(&self, object: &Arc<Object>, units: &[CompleteUnit]) {
        for done in units {
            let bytes = object.extents().forget(done.start, &done.unit);
            drop(bytes);
        }
        self.forget_kept(|kept| units.iter().any(|done| Arc::ptr_eq(&done.unit, &kept.unit)));
    }

    pub(crate) fn purge(&self, object: &Arc<Object>) {
        if self.forget_object(object) > 0 {
            self.counters.purged.add(1);
        }
    }

    /// Removes all units of an object and returns their number.
    pub(crate) fn forget_object(&self, object: &Arc<Object>) -> u64 {
        let bytes = object.extents().forget_ready();
        let on_disk = self.disk.as_ref().map_or(0, |disk| disk.forget(object.id));
        let in_memory = to_u64(bytes.len());
        drop(bytes);
        self.forget_kept(|kept| Arc::ptr_eq(&kept.object, object));
        in_memory + on_disk
    }

    fn forget_kept(&self, gone: impl Fn(&KeptUnit) -> bool) {
        let mut policy = lock(&self.policy);
        let before = policy.len();
        policy.retain(|kept| !gone(kept));
        self.gauge.table_shrank(to_u64(before - policy.len()) * UNIT);
    }
}
