//! Numbers that outlive requests: plain atomics, written where something happens without a lock or a lookup, read when
//! somebody scrapes `/metrics`.
//!
//! - `responses`: answers by protocol, class and status, with their bytes and times
//! - `background`: results of background work
//! - `reasons`: refusals by their stable word
//! - `meter`: what is asked of storage, by kind
//! - `exposition`: all of it as OpenMetrics text
//! - `process`: what the kernel knows of this process

mod background;
mod exposition;
mod meter;
mod process;
mod reasons;
mod responses;

pub(crate) use background::{Prefetched, Written};
pub(crate) use exposition::{CONTENT_TYPE, expose};
pub(crate) use meter::{Read, StorageMeter};
pub(crate) use responses::{Class, Kind, Responses, Series, Which};

use crate::observe::trace::Outcome;
use latemux_cache::Cache;
use latemux_storage::Registry;
use meter::StorageTotals;
use reasons::Reasons;
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// All numbers of one origin.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) responses: Responses,
    /// Answers that are errors.
    pub(crate) refusals: Reasons,
    /// Answers that broke off after their head, or before it because the client left.
    pub(crate) broken_off: Reasons,
    /// By class and costliest outcome.
    outcomes: [[AtomicU64; Outcome::WORDS.len()]; Class::ALL.len()],
    storage: Arc<StorageTotals>,
    /// Bytes of sources that went into answers.
    pub(crate) media_used: AtomicU64,
    /// Index MP4s that could be written.
    pub(crate) index_files: Arc<IndexFiles>,
    pub(crate) prefetches: Arc<Prefetches>,
    in_flight: AtomicU64,
    connections: AtomicU64,
    connections_open: AtomicU64,
    connections_limit: AtomicU64,
    caches: Mutex<Vec<CacheWatch>>,
    /// A range cache with a disk.
    disk: OnceLock<Cache>,
    back_ends: OnceLock<Registry>,
}

/// What became of index MP4s.
pub(crate) type IndexFiles = Ends<{ Written::ALL.len() }>;
/// What became of segments that were to be read ahead.
pub(crate) type Prefetches = Ends<{ Prefetched::ALL.len() }>;

/// How often something ended in each of some ways.
#[derive(Debug)]
pub(crate) struct Ends<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for Ends<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl<const N: usize> Ends<N> {
    fn add(&self, end: usize) {
        if let Some(count) = self.0.get(end) {
            count.fetch_add(1, Relaxed);
        }
    }
}

impl IndexFiles {
    pub(crate) fn count(&self, written: Written) {
        self.add(written as usize);
    }
}

impl Prefetches {
    pub(crate) fn count(&self, prefetched: Prefetched) {
        self.add(prefetched as usize);
    }
}

/// A cache as metrics show it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CacheSnapshot {
    /// Its name in metrics.
    pub(crate) cache: &'static str,
    /// `memory` or `disk`.
    pub(crate) tier: &'static str,
    /// Bytes it holds now, as it counts them.
    pub(crate) bytes: u64,
    /// The most it may hold, in bytes.
    pub(crate) limit: u64,
    /// Entries it holds now.
    pub(crate) entries: u64,
    /// Look-ups that found something.
    pub(crate) hits: u64,
    /// Look-ups that did not.
    pub(crate) misses: u64,
    /// Waits for what another request was already getting.
    pub(crate) joins: u64,
    /// Entries dropped to make room, replaced, or refused as too large.
    pub(crate) evictions: u64,
}

/// Looks at a cache; called at each scrape.
pub(crate) struct CacheWatch(Box<dyn Fn() -> CacheSnapshot + Send + Sync>);

impl CacheWatch {
    pub(crate) fn new(look: impl Fn() -> CacheSnapshot + Send + Sync + 'static) -> Self {
        Self(Box::new(look))
    }
}

impl std::fmt::Debug for CacheWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0().fmt(f)
    }
}

impl Metrics {
    /// Counts what is asked of storages.
    pub(crate) fn storage_meter(&self) -> StorageMeter {
        StorageMeter::new(self.storage.clone())
    }

    /// Shows what became of requests to back ends. Those that were set first stay.
    pub(crate) fn show_back_ends(&self, registry: Registry) {
        let _ = self.back_ends.set(registry);
    }

    /// Shows what a range cache did not write to its disk. The one that was set first stays.
    pub(crate) fn show_disk(&self, cache: Cache) {
        let _ = self.disk.set(cache);
    }

    /// Shows a cache from now on.
    pub(crate) fn watch(&self, cache: CacheWatch) {
        self.watched().push(cache);
    }

    fn watched(&self) -> MutexGuard<'_, Vec<CacheWatch>> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An answer has ended; `outcome` is an index of [`Outcome::WORDS`].
    pub(crate) fn count_outcome(&self, class: Class, outcome: usize) {
        if let Some(count) = self.outcomes.get(class as usize).and_then(|class| class.get(outcome)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// A request is in flight from now until this is called with `false`.
    pub(crate) fn in_flight(&self, begins: bool) {
        if begins {
            self.in_flight.fetch_add(1, Relaxed);
        } else {
            self.in_flight.fetch_sub(1, Relaxed);
        }
    }

    /// So many connections may be open.
    pub(crate) fn limit_connections(&self, most: usize) {
        self.connections_limit.store(u64::try_from(most).unwrap_or(u64::MAX), Relaxed);
    }

    /// A connection is open for as long as the guard lives.
    pub(crate) fn connection(self: &Arc<Self>) -> OpenConnection {
        self.connections.fetch_add(1, Relaxed);
        self.connections_open.fetch_add(1, Relaxed);
        OpenConnection(self.clone())
    }
}

/// See [`Metrics::connection`].
#[derive(Debug)]
pub(crate) struct OpenConnection(Arc<Metrics>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections_open.fetch_sub(1, Relaxed);
    }
}
