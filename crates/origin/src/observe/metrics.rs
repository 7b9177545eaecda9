//! Counters that outlive requests. They are plain atomics, incremented without a lock or a look-up,
//! and read when `/metrics` is scraped.
//!
//! - `responses`: responses by protocol, class and status, with their bytes and times
//! - `reasons`: errors by their stable word
//! - `storage`: requests to storage by purpose
//! - `exposition`: writes all counters as OpenMetrics text
//! - `process`: figures of this process

/// Defines an enum of labels, and `ALL`: the labels in order, each with its word in metrics.
macro_rules! labels {
    ($(#[$meta:meta])* pub(crate) enum $name:ident {
        $($(#[$doc:meta])* $label:ident = $word:literal,)*
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum $name { $($(#[$doc])* $label,)* }

        impl $name {
            pub(crate) const ALL: [(Self, &'static str); [$($word),*].len()] =
                [$((Self::$label, $word)),*];
        }
    };
}

mod exposition;
mod process;
mod reasons;
mod responses;
mod storage;

pub(crate) use exposition::{CONTENT_TYPE, expose};
pub(crate) use responses::{ClassLabel, RequestLabels, ResponseSeries, Responses, SeriesId};
pub(crate) use storage::{ReadPurpose, StorageTotals};

use crate::observe::log_sampler::LogSampler;
use latemux_cache::Cache;
use latemux_storage::{Outcome, Registry};
use reasons::Reasons;
use std::sync::{
    Arc, Mutex, MutexGuard, OnceLock, PoisonError,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// All counters of one origin.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub(crate) responses: Responses,
    /// Responses that are errors.
    pub(crate) refusals: Reasons,
    /// Responses that ended early after their head, or before it because the client left.
    pub(crate) broken_off: Reasons,
    /// Samples the log lines of both.
    pub(crate) error_lines: LogSampler,
    /// Responses by class, then by most expensive outcome. Position 0 counts those without one.
    outcomes: [[AtomicU64; 1 + Outcome::NAMES.len()]; ClassLabel::ALL.len()],
    pub(crate) storage: Arc<StorageTotals>,
    /// Source bytes that went into responses.
    pub(crate) media_used: AtomicU64,
    /// Manifests of titles that storage did not confirm.
    pub(crate) stale_manifests: AtomicU64,
    /// Results of writing index MP4s.
    pub(crate) index_files: Arc<IndexFiles>,
    pub(crate) prefetches: Arc<Prefetches>,
    /// Segments whose cuts were looked up in an index MP4.
    pub(crate) stated_cuts: Arc<StatedCuts>,
    pub(crate) reloads: Reloads,
    in_flight: AtomicU64,
    pub(crate) connections: AtomicU64,
    connections_open: AtomicU64,
    pub(crate) connections_limit: AtomicU64,
    caches: Mutex<Vec<CacheWatch>>,
    /// The range cache, if it has a disk.
    pub(crate) disk: OnceLock<Cache>,
    pub(crate) back_ends: OnceLock<Registry>,
    pub(crate) clients: OnceLock<ClientWatch>,
}

/// Figures of what clients hold, at one moment.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ClientFigures {
    /// Bytes reserved for responses.
    pub(crate) response_bytes: u64,
    /// Most bytes that may be.
    pub(crate) response_limit: u64,
    /// Responses paused because their clients were slow.
    pub(crate) pauses: u64,
    /// Idle connections closed for others.
    pub(crate) evicted: u64,
    /// Connections closed at once because of the limits for one address.
    pub(crate) refused: u64,
}

/// A function that reads what clients hold. Each scrape calls it.
pub(crate) struct ClientWatch(pub(crate) Box<dyn Fn() -> ClientFigures + Send + Sync>);

impl std::fmt::Debug for ClientWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0().fmt(f)
    }
}

labels! {
    /// Result of an attempt to write an index MP4.
    pub(crate) enum Written {
        /// The index MP4 is the first for its media.
        Created = "new",
        /// The index MP4 replaces one that described another version of the media.
        Replaced = "anew",
        /// An index MP4 exists already, written by this program or another.
        Present = "present",
        /// Another writer was faster.
        LostRace = "taken",
        /// The name of the index MP4 would also stand for another media file.
        Ambiguous = "ambiguous",
        /// The index MP4 could not be made or written.
        Failed = "failed",
    }
}

labels! {
    /// Result of an attempt to prefetch a segment.
    pub(crate) enum Prefetched {
        /// The whole segment is in the cache. It may have been there before.
        Read = "read",
        /// The limit of segments read at one time was reached.
        NoRoom = "no_room",
        /// The client of the preceding segment left.
        Abandoned = "abandoned",
        /// Storage or the source failed. A request for the segment will report the error.
        Failed = "failed",
    }
}

labels! {
    /// Result of a reload of the configuration.
    pub(crate) enum Reloaded {
        /// The new configuration is in use.
        Reloaded = "reloaded",
        /// It had a mistake. The earlier one goes on.
        Refused = "refused",
    }
}

labels! {
    /// Result of looking up the cuts of a segment in an index MP4.
    pub(crate) enum LookedUp {
        /// They were found. The response compares them with the media.
        Used = "used",
        /// The box does not state those of all samples, or is damaged.
        Missing = "missing",
        /// Cuts of the same index MP4 were not those of the media.
        Differs = "differs",
        /// The index MP4 could not be read.
        Failed = "failed",
    }
}

/// Counts of segments by the result of looking up their cuts in an index MP4.
pub(crate) type StatedCuts = ResultCounts<{ LookedUp::ALL.len() }>;
/// Counts of reloads of the configuration, by their result.
pub(crate) type Reloads = ResultCounts<{ Reloaded::ALL.len() }>;
/// Counts of index MP4s by the result of writing them.
pub(crate) type IndexFiles = ResultCounts<{ Written::ALL.len() }>;
/// Counts of segments by the result of prefetching them.
pub(crate) type Prefetches = ResultCounts<{ Prefetched::ALL.len() }>;

/// Counts by one of `N` results.
#[derive(Debug)]
pub(crate) struct ResultCounts<const N: usize>([AtomicU64; N]);

impl<const N: usize> Default for ResultCounts<N> {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl<const N: usize> ResultCounts<N> {
    fn add(&self, result: usize) {
        if let Some(count) = self.0.get(result) {
            count.fetch_add(1, Relaxed);
        }
    }
}

impl IndexFiles {
    pub(crate) fn count(&self, written: Written) {
        self.add(written as usize);
    }
}

impl StatedCuts {
    pub(crate) fn count_look_up(&self, looked_up: LookedUp) {
        self.add(looked_up as usize);
    }
}

impl Reloads {
    pub(crate) fn count(&self, result: Reloaded) {
        self.add(result as usize);
    }
}

impl Prefetches {
    pub(crate) fn count(&self, prefetched: Prefetched) {
        self.add(prefetched as usize);
    }
}

/// Figures of a cache at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CacheSnapshot {
    pub(crate) cache: &'static str,
    /// Tier of the cache: `memory` or `disk`.
    pub(crate) tier: &'static str,
    /// Bytes in the cache, as the cache counts them.
    pub(crate) bytes: u64,
    /// Most bytes that the cache may hold.
    pub(crate) limit: u64,
    pub(crate) entries: u64,
    /// Look-ups that found an entry.
    pub(crate) hits: u64,
    /// Look-ups that found none.
    pub(crate) misses: u64,
    /// Waits for work that another request had started.
    pub(crate) joins: u64,
    /// Entries evicted, replaced, or refused as too large.
    pub(crate) evictions: u64,
}

/// A function that reads the figures of a cache. Each scrape calls it.
pub(crate) struct CacheWatch(Box<dyn Fn() -> CacheSnapshot + Send + Sync>);

impl CacheWatch {
    pub(crate) fn new(snapshot: impl Fn() -> CacheSnapshot + Send + Sync + 'static) -> Self {
        Self(Box::new(snapshot))
    }
}

impl std::fmt::Debug for CacheWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0().fmt(f)
    }
}

impl Metrics {
    /// Shows these caches from now on, in place of others.
    pub(crate) fn watch(&self, caches: Vec<CacheWatch>) {
        *self.watched() = caches;
    }

    fn watched(&self) -> MutexGuard<'_, Vec<CacheWatch>> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a response that has ended, by the [`Outcome::rank`] of its most expensive outcome.
    pub(crate) fn count_outcome(&self, class: ClassLabel, rank: Option<usize>) {
        let outcome = rank.map_or(0, |rank| rank + 1);
        if let Some(count) = self.outcomes.get(class as usize).and_then(|class| class.get(outcome)) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Counts a request that begins, or that ends if `begins` is false.
    pub(crate) fn in_flight(&self, begins: bool) {
        if begins {
            self.in_flight.fetch_add(1, Relaxed);
        } else {
            self.in_flight.fetch_sub(1, Relaxed);
        }
    }

    /// Returns true if requests to storage wait for a permit.
    pub(crate) fn is_storage_queued(&self) -> bool {
        let all = self.back_ends.get().map(Registry::all).unwrap_or_default();
        all.iter().any(|(_, counters)| counters.figures().queued > 0)
    }

    /// Counts a connection, which is open for as long as the guard lives.
    pub(crate) fn connection(self: &Arc<Self>) -> OpenConnection {
        self.connections.fetch_add(1, Relaxed);
        self.connections_open.fetch_add(1, Relaxed);
        OpenConnection(self.clone())
    }
}

/// An open connection, counted by [`Metrics::connection`].
#[derive(Debug)]
pub(crate) struct OpenConnection(Arc<Metrics>);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.connections_open.fetch_sub(1, Relaxed);
    }
}
