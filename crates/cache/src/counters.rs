//! Counters of the range cache.

use latemux_storage::{Outcome, Tier};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: Counter,)+
        }

        /// Counters since the cache was opened, and current values.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct CacheFigures {
            $($(#[doc = $doc])+ pub $name: u64,)+
            /// Current: bytes of memory that the cache accounts for: units (cached or held by
            /// readers), units being fetched, and tables.
            pub memory_bytes: u64,
            /// Current, part of `memory_bytes`: bytes of all live units, cached or not.
            pub unit_bytes: u64,
            /// Current, part of `memory_bytes`: bytes reserved for units being fetched.
            pub reserved_bytes: u64,
            /// Current: bytes of room given out to fetches.
            pub room_bytes: u64,
            /// Current: fetches in flight, from disk or storage.
            pub fetches: u64,
            /// Current: bytes of units in memory that can be hit.
            pub cached_bytes: u64,
            /// Current: units in memory.
            pub cached_units: u64,
            /// Current: bytes of the log files on disk.
            pub disk_bytes: u64,
            /// Current: units on disk.
            pub disk_units: u64,
        }

        impl Counters {
            pub(crate) fn figures(&self) -> CacheFigures {
                CacheFigures { $($name: self.$name.get(),)+ ..CacheFigures::default() }
            }
        }
    };
}

counters! {
    /// Reads that found all bytes in memory.
    hits_memory,
    /// Reads that found all bytes in memory and on disk.
    hits_disk,
    /// Reads that sent no request to storage, but waited for the fetch of another read.
    joined,
    /// Reads that sent a request to storage.
    filled,
    /// Reads that named no version.
    bypassed_unpinned,
    /// Reads of the head of an object.
    bypassed_head,
    /// Reads of an empty range, or of a range that is not inside the object.
    bypassed_range,
    /// Reads of a version that consists of a size only.
    bypassed_version,
    /// Reads of an object that has the same hash as another one.
    bypassed_collision,
    /// Bytes that readers got from memory.
    bytes_memory,
    /// Bytes that readers got from disk.
    bytes_disk,
    /// Bytes that readers got from storage, fetched for them or while they waited.
    bytes_storage,
    /// Requests to storage.
    storage_requests,
    /// Requests to storage that failed, in whole or in part.
    storage_errors,
    /// Bytes that storage sent.
    storage_bytes,
    /// Part of `storage_bytes`: cached bytes that were read again to save a request.
    reread_bytes,
    /// Fetches that ended early because no reader waited any more.
    abandoned,
    /// Units evicted from memory.
    evictions,
    /// Bytes of the units evicted from memory.
    evicted_bytes,
    /// Objects that were purged because storage reported that they changed.
    purged,
    /// Units written to disk.
    disk_written,
    /// Bytes written to disk for these units, headers included.
    disk_written_bytes,
    /// Units not written to disk because the queue was full until memory had evicted them.
    disk_dropped_full,
    /// Units not written to disk because it failed, or is left alone after a failure.
    disk_dropped_failed,
    /// Units not written to disk because the cache was closed first.
    disk_dropped_closed,
    /// Units whose bytes on disk were not the bytes that had been written.
    disk_corrupt,
    /// Calls to the disk that failed.
    disk_errors,
    /// Reads from disk that timed out.
    disk_timeouts,
    /// Units evicted from disk.
    disk_evictions,
    /// Units that had been hit and were written again when their log file was evicted.
    disk_reinserted,
    /// Log files removed at start because they have another format or are not log files.
    disk_discarded,
}

/// The stable words for the reasons why a read bypasses the cache.
pub(crate) mod bypass {
    /// The read names no version, so cached bytes could be of another one.
    pub(crate) const UNPINNED: &str = "unpinned";
    /// The read asks for the head of an object, whose size may be unknown.
    pub(crate) const HEAD: &str = "head";
    /// The range is empty or not inside the object. Storage gives the right response.
    pub(crate) const RANGE: &str = "range";
    /// The version is nothing but a size: it has neither an ETag nor a modification time.
    pub(crate) const VERSION: &str = "version";
    /// Another object has the same hash.
    pub(crate) const COLLISION: &str = "collision";
}

impl Counters {
    pub(crate) fn count(&self, outcome: Outcome) {
        let counter = match outcome {
            Outcome::Hit(Tier::Memory) => &self.hits_memory,
            Outcome::Hit(Tier::Disk) => &self.hits_disk,
            Outcome::Joined => &self.joined,
            Outcome::Filled => &self.filled,
            Outcome::Bypassed(bypass::UNPINNED) => &self.bypassed_unpinned,
            Outcome::Bypassed(bypass::HEAD) => &self.bypassed_head,
            Outcome::Bypassed(bypass::RANGE) => &self.bypassed_range,
            Outcome::Bypassed(bypass::VERSION) => &self.bypassed_version,
            Outcome::Bypassed(_) => &self.bypassed_collision,
        };
        counter.add(1);
    }
}

impl CacheFigures {
    /// Returns the number of units that were not written to disk, for any reason.
    pub fn disk_dropped(&self) -> u64 {
        self.disk_dropped_full + self.disk_dropped_failed + self.disk_dropped_closed
    }

    /// Returns the number of reads with any outcome.
    pub fn requests(&self) -> u64 {
        let bypassed = self.bypassed_unpinned
            + self.bypassed_head
            + self.bypassed_range
            + self.bypassed_version
            + self.bypassed_collision;
        self.hits_memory + self.hits_disk + self.joined + self.filled + bypassed
    }
}
