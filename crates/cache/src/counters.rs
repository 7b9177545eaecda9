//! What the cache did, and what it holds.

use latemux_storage::{Outcome, Tier};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only grows.
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

        /// What the cache did since it was opened, and what it holds now.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct CacheFigures {
            $($(#[doc = $doc])+ pub $name: u64,)+
            /// Now: bytes of memory the cache answers for: units, cached or still in a reader's hands, what is being fetched, tables.
            pub memory_bytes: u64,
            /// Now, of these: units that are alive, cached or not.
            pub unit_bytes: u64,
            /// Now, of these: set aside for units being fetched.
            pub reserved_bytes: u64,
            /// Now: room for fetches that is given out, in bytes.
            pub room_bytes: u64,
            /// Now: fetches under way, from disk or storage.
            pub fetches: u64,
            /// Now: bytes of units in memory that can be hit.
            pub cached_bytes: u64,
            /// Now: units in memory.
            pub cached_units: u64,
            /// Now: bytes of the log files on disk.
            pub disk_bytes: u64,
            /// Now: units on disk.
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
    /// Reads that asked storage for nothing, but waited for what others had asked for.
    joined,
    /// Reads that had to ask storage.
    filled,
    /// Reads that named no version.
    bypassed_unpinned,
    /// Reads of an object's head.
    bypassed_head,
    /// Reads of no bytes, or of such as are not in the object.
    bypassed_range,
    /// Reads of a version that is nothing but a size.
    bypassed_version,
    /// Reads of an object whose hash another one has.
    bypassed_collision,
    /// Bytes given to readers from memory.
    bytes_memory,
    /// Bytes given to readers that came from disk for them.
    bytes_disk,
    /// Bytes given to readers that came from storage for them or while they waited.
    bytes_storage,
    /// Requests to storage.
    storage_requests,
    /// Requests to storage that failed, in whole or in part.
    storage_errors,
    /// Bytes storage sent.
    storage_bytes,
    /// Of these, bytes that were at hand and read again to save a request.
    reread_bytes,
    /// FetchCount that ended early because nobody waited any more.
    abandoned,
    /// Units driven out of memory.
    evictions,
    /// Their bytes.
    evicted_bytes,
    /// Objects whose units were forgotten because storage said that the object changed.
    purged,
    /// Units written to disk.
    disk_written,
    /// Their bytes, headers included.
    disk_written_bytes,
    /// Units not written to disk: the queue was full, and memory had lost them when there was room.
    disk_dropped_full,
    /// Units not written to disk: it failed, or is left alone after it did.
    disk_dropped_failed,
    /// Units not written to disk: the end came first.
    disk_dropped_closed,
    /// Units whose bytes on disk were not what had been written.
    disk_corrupt,
    /// Calls to the disk that failed.
    disk_errors,
    /// Reads from disk that were given up.
    disk_timeouts,
    /// Units driven off the disk.
    disk_evictions,
    /// Units that were hit since, written again when the file they were in had to go.
    disk_reinserted,
    /// Log files thrown away at start: of another format, or not ours.
    disk_discarded,
}

/// The reason why a read bypasses the cache.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bypass {
    /// The read names no version, so cached bytes could be of another one.
    Unpinned,
    /// The read asks for the head of an object, whose size may be unknown.
    Head,
    /// The range is empty or not inside the object. Storage knows the right response.
    Range,
    /// The version is nothing but a size: it has neither an ETag nor a modification time.
    Version,
    /// Another object has the same hash.
    Collision,
}

impl Bypass {
    /// Returns the stable word of the reason.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Unpinned => "unpinned",
            Self::Head => "head",
            Self::Range => "range",
            Self::Version => "version",
            Self::Collision => "collision",
        }
    }
}

impl Counters {
    /// Counts a read that did not bypass the cache.
    pub(crate) fn count(&self, outcome: Outcome) {
        match outcome {
            Outcome::Hit(Tier::Memory) => self.hits_memory.add(1),
            Outcome::Hit(Tier::Disk) => self.hits_disk.add(1),
            Outcome::Joined => self.joined.add(1),
            Outcome::Filled => self.filled.add(1),
            Outcome::Bypassed(_) => {}
        }
    }

    /// Counts a read that bypassed the cache.
    pub(crate) fn count_bypass(&self, bypass: Bypass) {
        let counter = match bypass {
            Bypass::Unpinned => &self.bypassed_unpinned,
            Bypass::Head => &self.bypassed_head,
            Bypass::Range => &self.bypassed_range,
            Bypass::Version => &self.bypassed_version,
            Bypass::Collision => &self.bypassed_collision,
        };
        counter.add(1);
    }
}

impl CacheFigures {
    /// Units not written to disk, for whatever reason.
    #[must_use]
    pub fn disk_dropped(&self) -> u64 {
        self.disk_dropped_full + self.disk_dropped_failed + self.disk_dropped_closed
    }

    /// Reads, however they ended.
    #[must_use]
    pub fn requests(&self) -> u64 {
        let bypassed = self.bypassed_unpinned
            + self.bypassed_head
            + self.bypassed_range
            + self.bypassed_version
            + self.bypassed_collision;
        self.hits_memory + self.hits_disk + self.joined + self.filled + bypassed
    }
}
