//! Limits, all of them.

use std::{path::PathBuf, time::Duration};

/// Limits of a [`Cache`](crate::Cache).
#[derive(Debug, Clone)]
pub struct Config {
    /// Bytes of memory for everything the cache holds: units, what is being fetched, tables, and an eighth for the holes between them. 0 keeps nothing in memory;
    /// reads of the same bytes still share one fetch.
    pub memory: u64,
    /// Largest unit in bytes. What was asked for in one piece is split into equal parts no larger than this. Lowered where
    /// it would be more than a sixteenth of the memory.
    pub unit: u64,
    /// How far, in bytes, fetches run ahead of a reader. What a player asks for in one request should fit, or it becomes
    /// several requests to storage. Lowered where it would be more than a quarter of the memory.
    pub window: u64,
    /// Bytes at hand that are read again where that makes one request to storage out of two.
    pub bridge: u64,
    /// Most requests to storage that one reader starts at a time.
    pub parallel: usize,
    /// How long storage may take to response, or to send more, before the cache gives up on it. It is a last resort:
    /// storage has timeouts of its own, and may have a queue.
    pub patience: Duration,
    /// The disk tier; none by default.
    pub disk: Option<DiskConfig>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            memory: 1 << 30,
            unit: 512 << 10,
            window: 16 << 20,
            bridge: 16 << 10,
            parallel: 4,
            patience: Duration::from_secs(60),
            disk: None,
        }
    }
}

/// Limits of the disk tier.
#[derive(Debug, Clone)]
pub struct DiskConfig {
    /// A folder of its own. One process at a time may use it.
    pub dir: PathBuf,
    /// Bytes on disk.
    pub bytes: u64,
    /// Bytes waiting to be written; what comes while it is full is not written. They count as memory.
    pub queue: u64,
    /// Reads at the same time.
    pub readers: usize,
    /// A read that takes longer is given up, and storage asked instead.
    pub patience: Duration,
    /// How long the disk is left alone after it failed.
    pub retry: Duration,
}

impl DiskConfig {
    /// `bytes` in the folder `dir`, other limits as usual.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, bytes: u64) -> Self {
        Self {
            dir: dir.into(),
            bytes,
            queue: 64 << 20,
            readers: 16,
            patience: Duration::from_secs(2),
            retry: Duration::from_secs(30),
        }
    }

    /// Bytes of one log file: what is evicted at a time.
    pub(crate) fn file_bytes(&self) -> u64 {
        (self.bytes / 128).clamp(64 << 10, 256 << 20)
    }
}

impl Config {
    /// The same, with limits that fit together.
    pub(crate) fn fitted(mut self) -> Self {
        if self.memory > 0 {
            self.unit = self.unit.min(self.memory / 16);
            self.window = self.window.min(self.memory / 4);
        } else {
            self.window = self.unit;
        }
        if let Some(disk) = &self.disk {
            // A record must fit into a file, with others.
            self.unit = self.unit.min(disk.file_bytes() / 4);
        }
        // The end of a unit is kept in 32 bits on disk.
        self.unit = self.unit.clamp(1, 16 << 20);
        self.window = self.window.max(self.unit);
        self.parallel = self.parallel.max(1);
        self
    }

    /// Bytes of memory for buffers that wait to be used again.
    pub(crate) fn spare(&self) -> u64 {
        (self.memory / 32).min(16 << 20)
    }

    /// Bytes of memory that are left to the allocator. Units live long and are of any length: among the frames that come and go with every
    /// read they leave holes that nothing fits into, a tenth of what they take and more.
    pub(crate) fn holes(&self) -> u64 {
        self.memory / 8
    }

    /// Bytes that may be held for units being fetched, all together: twice their size, for they are copied once.
    pub(crate) fn filling(&self) -> u64 {
        let least = self.unit.saturating_mul(4);
        if self.memory == 0 { least.max(256 << 20) } else { (self.memory / 4).max(least) }
    }
}
