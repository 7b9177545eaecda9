//! Limits of the cache: the `[cache]` section of a configuration file.

use latemux_quantity::ByteSize;
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, time::Duration};

/// The range cache, which keeps source bytes for every protocol alike, and a store of indexes
/// beside it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Memory for everything that the range cache holds: source bytes, fetches in flight and
    /// tables. An eighth is reserved for the holes that the allocator leaves between them. With 0,
    /// no source bytes are kept in memory. If there is no `dir` either, there is no range cache.
    #[serde(with = "ByteSize")]
    pub memory: u64,
    /// Folder for source bytes and indexes that outlive the process. Only one process at a time may
    /// use it.
    pub dir: Option<PathBuf>,
    /// Most source bytes in `dir`.
    #[serde(with = "ByteSize")]
    pub disk: u64,
    /// Most bytes of indexes, and of cuts of encrypted video, in the folder `indexes` inside `dir`.
    /// 0 keeps none on disk.
    #[serde(with = "ByteSize")]
    pub index_disk: u64,
    /// Largest piece of source bytes that the range cache keeps or evicts as one, called a unit.
    /// Longer ranges are split into units of this size and a shorter last one. The limit is lowered
    /// if it would exceed a sixteenth of the memory.
    #[serde(with = "ByteSize")]
    pub unit: u64,
    /// Largest run of cached bytes that is read again because that merges two requests to storage.
    #[serde(skip)]
    pub bridge: u64,
    /// Distance in bytes by which fills may run ahead of a reader. The range of one request should
    /// fit, or it becomes several requests to storage. The limit is lowered if it would exceed a
    /// quarter of the memory.
    #[serde(skip)]
    pub window: u64,
    /// Most requests to storage that one reader starts at a time.
    #[serde(skip)]
    pub parallel: usize,
    /// Longest wait for storage to respond, or to send more. This is a last resort: storage has
    /// timeouts of its own, and may have a queue.
    #[serde(skip)]
    pub storage_timeout: Duration,
    /// Most bytes that wait to be written to disk. What arrives while the queue is full is not
    /// written. The queue counts as memory.
    #[serde(skip)]
    pub disk_queue: u64,
    /// Time for which the disk is not used after it failed.
    #[serde(skip)]
    pub disk_retry: Duration,
}

impl Default for Config {
    fn default() -> Self {
        let disk = DiskConfig::new("", 50 << 30);
        Self {
            memory: 1 << 30,
            dir: None,
            disk: disk.bytes,
            index_disk: 1 << 30,
            unit: 512 << 10,
            bridge: 16 << 10,
            window: 16 << 20,
            parallel: 4,
            storage_timeout: Duration::from_secs(60),
            disk_queue: disk.queue,
            disk_retry: disk.retry,
        }
    }
}

/// Limits of what one folder holds.
#[derive(Debug, Clone)]
pub struct DiskConfig {
    /// Folder that nothing else uses. Only one process at a time may use it.
    pub dir: PathBuf,
    /// Most bytes on disk.
    pub bytes: u64,
    /// Most bytes that wait to be written. What arrives while the queue is full is not written.
    pub queue: u64,
    /// Most reads at the same time.
    pub readers: usize,
    /// Longest wait for a read. A read that takes longer is given up.
    pub read_timeout: Duration,
    /// Time for which the disk is not used after it failed.
    pub retry: Duration,
}

impl DiskConfig {
    /// Allows `bytes` in the folder `dir`, with the default for every other limit.
    pub fn new(dir: impl Into<PathBuf>, bytes: u64) -> Self {
        Self {
            dir: dir.into(),
            bytes,
            queue: 64 << 20,
            readers: 16,
            read_timeout: Duration::from_secs(2),
            retry: Duration::from_secs(30),
        }
    }

    /// Returns the size in bytes of one log file. Units on disk are evicted a file at a time.
    pub(crate) fn file_bytes(&self) -> u64 {
        (self.bytes / 128).clamp(64 << 10, 256 << 20)
    }
}

impl Config {
    /// Returns the limits of the disk tier, if there is one.
    pub(crate) fn disk_tier(&self) -> Option<DiskConfig> {
        let dir = self.dir.clone()?;
        Some(DiskConfig { queue: self.disk_queue, retry: self.disk_retry, ..DiskConfig::new(dir, self.disk) })
    }

    /// Returns the limits of the indexes on disk, if any are kept there.
    pub fn index_store(&self) -> Option<DiskConfig> {
        let dir = self.dir.as_ref().filter(|_| self.index_disk > 0)?;
        Some(DiskConfig { readers: 8, ..DiskConfig::new(dir.join("indexes"), self.index_disk) })
    }

    /// Returns the limits, adjusted to each other.
    pub(crate) fn fitted(mut self) -> Self {
        if self.memory > 0 {
            self.unit = self.unit.min(self.memory / 16);
            self.window = self.window.min(self.memory / 4);
        } else {
            self.window = self.unit;
        }
        if let Some(disk) = self.disk_tier() {
            // Several records must fit into one file.
            self.unit = self.unit.min(disk.file_bytes() / 4);
        }
        // A record on disk holds the end of its unit in 32 bits.
        self.unit = self.unit.clamp(1, 16 << 20);
        self.window = self.window.max(self.unit);
        self.parallel = self.parallel.max(1);
        self
    }

    /// Returns the bytes of memory for idle buffers that will be used again.
    pub(crate) fn spare(&self) -> u64 {
        (self.memory / 32).min(16 << 20)
    }

    /// Returns the bytes of memory left to the allocator. Units live long and have any length.
    /// Among the short-lived frames of every read they leave unusable holes of a tenth of their
    /// size and more.
    pub(crate) fn holes(&self) -> u64 {
        self.memory / 8
    }

    /// Returns the bytes of memory for units, fills and tables.
    pub(crate) fn budget(&self) -> u64 {
        self.memory - self.spare() - self.holes()
    }

    /// Returns the number of bytes of evicted units that readers may hold within the budget. Up to
    /// this limit, the cache evicts more units to make up for the memory that they take.
    pub fn pinnable(&self) -> u64 {
        self.budget() / 2
    }

    /// Returns the most bytes that all fills together may hold. A fill takes twice the size of its
    /// units, because each unit is copied once.
    pub(crate) fn filling(&self) -> u64 {
        let least = self.unit.saturating_mul(4);
        if self.memory == 0 { least.max(256 << 20) } else { (self.memory / 4).max(least) }
    }
}
