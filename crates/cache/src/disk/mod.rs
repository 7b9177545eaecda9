//! The disk tier: units in log files, written by one thread and found through a table in memory. If
//! it fails in any way, readers get their bytes from storage.

mod backlog;
#[cfg(test)]
mod backlog_tests;
pub(crate) mod device;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod failing;
#[cfg(test)]
mod forget_tests;
pub(crate) mod health;
mod index;
pub(crate) mod private;
pub(crate) mod reader;
mod record;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use index::DiskRange;

use crate::{
    DiskConfig,
    counters::Counters,
    memory::{
        extents::Unit,
        gauge::{Buffer, Gauge, to_u64, to_usize},
        object::Object,
    },
};
use backlog::Backlog;
use bytes::Bytes;
use device::{Device, Folder, Log, OpenError};
use health::Health;
use index::{Index, Location};
use reader::DiskReader;
use record::RecordHead;
use std::{
    collections::BTreeMap,
    io,
    ops::Range,
    sync::{
        Arc, OnceLock, PoisonError, RwLock, Weak,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    time::{Duration, Instant},
};
use tokio::sync::watch;
use writer::{Job, Writer};

/// Memory that a queued unit takes besides its bytes, rounded up generously. Without it, the queue
/// would accept any number of tiny units.
const ENTRY_OVERHEAD: u64 = 256;

/// Returns the memory that a unit of these bytes takes while it is queued.
fn waiting(bytes: &Bytes) -> u64 {
    to_u64(bytes.len()) + ENTRY_OVERHEAD
}

/// Additional time that `close` waits for a writer that hangs.
const HANG_WAIT: Duration = Duration::from_secs(1);

/// State shared by readers and the writer.
#[derive(Debug)]
struct Shared {
    config: DiskConfig,
    index: Index,
    /// Log files by number, the oldest first.
    logs: RwLock<BTreeMap<u64, Arc<dyn Log>>>,
    /// Bytes of memory taken by queued units.
    queued: AtomicU64,
    /// Units that found no room in the queue and may still be in memory.
    backlog: Backlog,
    /// Nothing is written after this time.
    deadline: OnceLock<Instant>,
    /// Bytes of all log files.
    bytes: AtomicU64,
    reader: DiskReader,
    writing: Health,
    counters: Arc<Counters>,
    gauge: Arc<Gauge>,
}

#[derive(Debug)]
pub(crate) struct Disk {
    shared: Arc<Shared>,
    jobs: mpsc::Sender<Job>,
    recovered: watch::Receiver<bool>,
}

impl Disk {
    /// Opens the folder. Its contents are recovered in the background.
    pub(crate) fn open(
        config: DiskConfig,
        gauge: Arc<Gauge>,
        counters: Arc<Counters>,
    ) -> Result<Self, OpenError> {
        let device = Folder::open(&config.dir)?;
        Self::on(Box::new(device), config, gauge, counters)
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn failing(
        config: DiskConfig,
        faults: failing::DiskFaults,
        gauge: Arc<Gauge>,
        counters: Arc<Counters>,
    ) -> Result<Self, OpenError> {
        let folder = Folder::open(&config.dir)?;
        Self::on(Box::new(failing::Failing::new(folder, faults)), config, gauge, counters)
    }

    fn on(
        device: Box<dyn Device>,
        config: DiskConfig,
        gauge: Arc<Gauge>,
        counters: Arc<Counters>,
    ) -> Result<Self, OpenError> {
        let dir = config.dir.clone();
        let shared = Arc::new(Shared {
            index: Index::new(gauge.clone()),
            logs: RwLock::default(),
            queued: AtomicU64::new(0),
            backlog: Backlog::new(gauge.clone()),
            deadline: OnceLock::new(),
            bytes: AtomicU64::new(0),
            reader: DiskReader::new("reading", &config),
            writing: Health::new("writing", config.retry, 1),
            counters,
            gauge,
            config,
        });
        let (jobs, queue) = mpsc::channel();
        let (done, recovered) = watch::channel(false);
        let writer = Writer::new(device, shared.clone());
        std::thread::Builder::new()
            .name("latemux-cache-disk".to_owned())
            .spawn(move || writer.run(&queue, &done))
            .map_err(|error| OpenError::new(&dir, error))?;
        Ok(Self { shared, jobs, recovered })
    }

    /// Waits until the contents of the folder have been recovered.
    pub(crate) async fn recovered(&self) {
        // If the writer has ended, there is nothing left to wait for.
        let _ = self.recovered.clone().wait_for(|done| *done).await;
    }

    /// Returns the number of units on disk, and the bytes of the log files.
    pub(crate) fn holds(&self) -> (u64, u64) {
        (self.shared.index.len(), self.shared.bytes.load(Relaxed))
    }

    /// Splits a range into the parts that can be read from disk and those that cannot.
    pub(crate) fn find(
        &self,
        id: u128,
        range: Range<u64>,
        disk_ranges: &mut Vec<DiskRange>,
        holes: &mut Vec<Range<u64>>,
    ) {
        if self.shared.reader.health.is_resting() {
            return holes.push(range);
        }
        self.shared.index.find(id, range, disk_ranges, holes);
    }

    /// Returns the bytes of a disk range, or `None` if the disk cannot provide them.
    pub(crate) async fn read(&self, object: &Arc<Object>, disk_range: &DiskRange) -> Option<Bytes> {
        let shared = self.shared.clone();
        if shared.reader.health.is_resting() {
            return None;
        }
        let object = object.clone();
        let disk_range = disk_range.clone();
        let read = self.shared.reader.run(move || shared.read(&object, &disk_range)).await;
        if read.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::TimedOut) {
            self.shared.counters.disk_timeouts.add(1);
        }
        read.ok().flatten()
    }

    /// Queues a unit to be written, and returns at once. If the queue has no room, the unit is
    /// written later, provided memory still holds it then.
    pub(crate) fn write(&self, object: &Arc<Object>, start: u64, bytes: Bytes, unit: &Weak<Unit>) {
        let shared = &self.shared;
        let len = to_u64(bytes.len());
        if shared.index.covers(object.id, &(start..start + len)) {
            return;
        }
        if shared.writing.is_resting() {
            return shared.counters.disk_dropped_failed.add(1);
        }
        let takes = waiting(&bytes);
        let queued = shared.queued.fetch_add(takes, Relaxed);
        if queued + takes > shared.config.queue {
            shared.queued.fetch_sub(takes, Relaxed);
            let (first, lost) = shared.backlog.push(object, start, unit);
            shared.counters.disk_dropped_full.add(lost);
            if first {
                // The queue may be empty by now, and its reader asleep.
                let _ = self.jobs.send(Job::CheckBacklog);
            }
            return;
        }
        if self.jobs.send(Job::Write { object: object.clone(), start, bytes }).is_err() {
            shared.queued.fetch_sub(takes, Relaxed);
            shared.counters.disk_dropped_closed.add(1);
        }
    }

    /// Removes an object from the table and returns the number of its units. The log still contains
    /// them, so the next process to open the folder would find them again.
    pub(crate) fn forget(&self, id: u128) -> u64 {
        self.shared.index.forget_object(id)
    }

    /// Queues a record of the purge in the log, behind all queued units of the object.
    pub(crate) fn record_purge(&self, object: &Arc<Object>) {
        let _ = self.jobs.send(Job::Purge(object.clone()));
    }

    /// Returns true if the log records all purges so far. Waits no longer than for a read.
    pub(crate) async fn purges_recorded(&self) -> bool {
        self.job_done(Job::ConfirmPurges, Some(self.shared.config.read_timeout)).await
    }

    pub(crate) async fn flush(&self) {
        self.job_done(Job::Flush, None).await;
    }

    /// Writes all queued units, seals the log and releases the folder. Units that are not written
    /// `within` this time are dropped. Waits at most one more second for a disk that hangs.
    pub(crate) async fn close(&self, within: Option<Duration>) {
        let ends = within.and_then(|within| Instant::now().checked_add(within));
        if let Some(ends) = ends {
            let _ = self.shared.deadline.set(ends);
        }
        self.job_done(Job::Close, within.map(|within| within.saturating_add(HANG_WAIT))).await;
    }

    /// Queues a job and returns true if the writer finishes it, and all before it, in time.
    async fn job_done(
        &self,
        job: impl FnOnce(mpsc::SyncSender<()>) -> Job,
        within: Option<Duration>,
    ) -> bool {
        let (tell, told) = mpsc::sync_channel(1);
        if self.jobs.send(job(tell)).is_err() {
            return false;
        }
        // Not a timeout of the runtime, which would end at once with a test's paused clock.
        let wait = move || match within {
            Some(within) => told.recv_timeout(within).is_ok(),
            None => told.recv().is_ok(),
        };
        tokio::task::spawn_blocking(wait).await.unwrap_or(false)
    }
}

impl Shared {
    /// Reads a unit. This blocks, so it runs on a thread that may block.
    fn read(&self, object: &Object, disk_range: &DiskRange) -> Option<Bytes> {
        let Location { log: number, entry } = disk_range.location;
        let log = self.logs.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()?;
        let read = || -> io::Result<Option<Buffer>> {
            let end = entry.at.saturating_add(entry.record_len());
            let Some(head) = RecordHead::read(&*log, entry.at, end)? else { return Ok(None) };
            if head.entry != entry || *head.names != *object.names {
                return Ok(None);
            }
            head.data(&*log, &self.gauge)
        };
        let data = match read() {
            Ok(Some(data)) => data,
            failed => {
                self.index.forget(&disk_range.location);
                match failed {
                    Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => {
                        self.counters.disk_errors.add(1);
                        self.reader.health.failed(&error);
                    }
                    // The record is damaged, or the log file is shorter than it was.
                    _ => self.counters.disk_corrupt.add(1),
                }
                return None;
            }
        };
        self.reader.health.succeeded();
        let skip = to_usize(disk_range.range.start - entry.offset);
        let len = to_usize(disk_range.range.end - disk_range.range.start);
        if len == data.len() {
            return Some(self.gauge.unit(data));
        }
        let part = data.get(skip..)?.get(..len)?;
        let mut copy = self.gauge.buffer(part.len());
        copy.copy_from_slice(part);
        Some(self.gauge.unit(copy))
    }
}
