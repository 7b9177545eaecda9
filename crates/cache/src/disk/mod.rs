//! The disk tier: units in log files, written by one thread, found through a table in memory. It may fail in any way it
//! likes: readers then get their bytes from storage.

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
mod record;
#[cfg(test)]
mod tests;
mod writer;

pub(crate) use index::Piece;

use crate::{
    DiskConfig,
    core::OpenError,
    counters::Counters,
    extents::Unit,
    gauge::{Buffer, Gauge, narrow, wide},
    object::Object,
};
use backlog::Backlog;
use bytes::Bytes;
use device::{Device, Folder, Log};
use health::Health;
use index::{Index, Place};
use record::Head;
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
use tokio::sync::{Semaphore, watch};
use writer::{Job, Writer};

/// What a unit in the queue takes in memory besides its bytes, generously: else any number of tiny ones would fit.
const WAITING: u64 = 256;

/// Memory a unit of so many bytes takes while it waits to be written.
fn waiting(bytes: &Bytes) -> u64 {
    wide(bytes.len()).saturating_add(WAITING)
}

/// How much longer than it may write the writer is waited for at the end.
const HANGING: Duration = Duration::from_secs(1);

/// Reads in a row that may fail before the disk is left alone.
const BAD_SECTORS: u32 = 3;

/// What readers and the writer share.
#[derive(Debug)]
struct Shared {
    config: DiskConfig,
    index: Index,
    /// Log files by number: the oldest first.
    logs: RwLock<BTreeMap<u64, Arc<dyn Log>>>,
    /// Bytes waiting to be written.
    queued: AtomicU64,
    /// What found no room among these, and is in memory.
    backlog: Backlog,
    /// Nothing is written after that.
    ends: OnceLock<Instant>,
    /// Bytes of all log files.
    bytes: AtomicU64,
    reading: Health,
    writing: Health,
    counters: Arc<Counters>,
    gauge: Arc<Gauge>,
}

/// The disk tier.
#[derive(Debug)]
pub(crate) struct Disk {
    shared: Arc<Shared>,
    jobs: mpsc::Sender<Job>,
    readers: Arc<Semaphore>,
    recovered: watch::Receiver<bool>,
}

impl Disk {
    /// Opens the folder. What it holds is found in the background.
    pub(crate) fn open(
        config: DiskConfig,
        gauge: Arc<Gauge>,
        counters: Arc<Counters>,
    ) -> Result<Self, OpenError> {
        let device = Folder::open(&config.dir)
            .map_err(|error| OpenError { dir: config.dir.display().to_string(), error })?;
        Self::on(Box::new(device), config, gauge, counters)
    }

    /// The same with faults.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn failing(
        config: DiskConfig,
        faults: failing::DiskFaults,
        gauge: Arc<Gauge>,
        counters: Arc<Counters>,
    ) -> Result<Self, OpenError> {
        let folder = Folder::open(&config.dir)
            .map_err(|error| OpenError { dir: config.dir.display().to_string(), error })?;
        Self::on(Box::new(failing::Failing::new(folder, faults)), config, gauge, counters)
    }

    fn on(
        device: Box<dyn Device>,
        config: DiskConfig,
        gauge: Arc<Gauge>,
        counters: Arc<Counters>,
    ) -> Result<Self, OpenError> {
        let dir = config.dir.display().to_string();
        let readers = Arc::new(Semaphore::new(config.readers.max(1)));
        let shared = Arc::new(Shared {
            index: Index::new(gauge.clone()),
            logs: RwLock::default(),
            queued: AtomicU64::new(0),
            backlog: Backlog::new(gauge.clone()),
            ends: OnceLock::new(),
            bytes: AtomicU64::new(0),
            reading: Health::new("reading", config.retry, BAD_SECTORS),
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
            .map_err(|error| OpenError { dir, error })?;
        Ok(Self { shared, jobs, readers, recovered })
    }

    /// Waits until all that was in the folder at start has been found.
    pub(crate) async fn recovered(&self) {
        // The writer's end is an end of the waiting, too.
        let _ = self.recovered.clone().wait_for(|done| *done).await;
    }

    /// Units and bytes on disk.
    pub(crate) fn holds(&self) -> (u64, u64) {
        (self.shared.index.len(), self.shared.bytes.load(Relaxed))
    }

    /// The parts of a range that can be read from here, and those that cannot.
    pub(crate) fn find(
        &self,
        id: u128,
        range: Range<u64>,
        pieces: &mut Vec<Piece>,
        holes: &mut Vec<Range<u64>>,
    ) {
        if self.shared.reading.is_resting() {
            return holes.push(range);
        }
        self.shared.index.find(id, range, pieces, holes);
    }

    /// The bytes of a piece; `None` where they cannot be had from here.
    pub(crate) async fn read(&self, object: &Arc<Object>, piece: &Piece) -> Option<Bytes> {
        let shared = self.shared.clone();
        if shared.reading.is_resting() {
            return None;
        }
        let (object, piece) = (object.clone(), piece.clone());
        let readers = self.readers.clone();
        let read = async move {
            let permit = readers.acquire_owned().await.ok()?;
            let job = move || {
                // It stays with the job when its reader gives up: a disk that hangs is not asked more and more.
                let _permit = permit;
                shared.read(&object, &piece)
            };
            tokio::task::spawn_blocking(job).await.ok().flatten()
        };
        let limit = self.shared.config.read_timeout;
        if let Ok(bytes) = tokio::time::timeout(limit, read).await {
            return bytes;
        }
        self.shared.counters.disk_timeouts.add(1);
        self.shared.reading.failed(&io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer from the disk within {limit:?}"),
        ));
        None
    }

    /// Has a unit written: soon, if there is room in the queue; else when there is time, if memory holds it then. Returns at once.
    pub(crate) fn write(&self, object: &Arc<Object>, start: u64, bytes: Bytes, unit: &Weak<Unit>) {
        let (shared, len) = (&self.shared, wide(bytes.len()));
        if shared.index.covers(object.id, &(start..start.saturating_add(len))) {
            return;
        }
        if shared.writing.is_resting() {
            return shared.counters.disk_dropped_failed.add(1);
        }
        let takes = waiting(&bytes);
        let queued = shared.queued.fetch_add(takes, Relaxed);
        if queued.saturating_add(takes) > shared.config.queue {
            shared.queued.fetch_sub(takes, Relaxed);
            let (first, lost) = shared.backlog.push(object, start, unit);
            shared.counters.disk_dropped_full.add(lost);
            if first {
                // The queue may be empty by now, and its reader asleep.
                let _ = self.jobs.send(Job::Look);
            }
            return;
        }
        if self.jobs.send(Job::Write { object: object.clone(), start, bytes }).is_err() {
            shared.queued.fetch_sub(takes, Relaxed);
            shared.counters.disk_dropped_closed.add(1);
        }
    }

    /// Forgets an object; how many units. Who opens the folder next finds them again.
    pub(crate) fn forget(&self, id: u128) -> u64 {
        self.shared.index.forget_object(id)
    }

    /// Has the log say that an object is forgotten, with all that was to be written of it so far.
    pub(crate) fn forget_for_good(&self, object: &Arc<Object>) {
        let _ = self.jobs.send(Job::Forget(object.clone()));
    }

    /// Whether the log says so of all that were forgotten; waits for it no longer than for a read.
    pub(crate) async fn forgotten(&self) -> bool {
        self.done(Job::Forgotten, Some(self.shared.config.read_timeout)).await
    }

    /// Waits until what is to be written has been.
    pub(crate) async fn flush(&self) {
        self.done(Job::Flush, None).await;
    }

    /// Writes what is to be written, seals the log and lets go of the folder. What was not written `within` so long is not; waits
    /// no more than a second longer for a disk that hangs.
    pub(crate) async fn close(&self, within: Option<Duration>) {
        let ends = within.and_then(|within| Instant::now().checked_add(within));
        if let Some(ends) = ends {
            let _ = self.shared.ends.set(ends);
        }
        self.done(Job::Close, within.map(|within| within.saturating_add(HANGING))).await;
    }

    /// Whether the writer has done a job, and all before it, in time.
    async fn done(&self, job: impl FnOnce(mpsc::SyncSender<()>) -> Job, within: Option<Duration>) -> bool {
        let (tell, told) = mpsc::sync_channel(1);
        if self.jobs.send(job(tell)).is_err() {
            return false;
        }
        // The writer is a thread: where a test's clock stands still, a timeout of the runtime's would not wait for it.
        let wait = move || match within {
            Some(within) => told.recv_timeout(within).is_ok(),
            None => told.recv().is_ok(),
        };
        tokio::task::spawn_blocking(wait).await.unwrap_or(false)
    }
}

impl Shared {
    /// On a thread that may block.
    fn read(&self, object: &Object, piece: &Piece) -> Option<Bytes> {
        let Place { log: number, entry } = piece.place;
        let log = self.logs.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()?;
        let read = || -> io::Result<Option<Buffer>> {
            let end = entry.at.saturating_add(entry.record_len());
            let Some(head) = Head::read(&*log, entry.at, end)? else { return Ok(None) };
            if head.entry != entry || *head.names != *object.names {
                return Ok(None);
            }
            head.data(&*log, &self.gauge)
        };
        match read() {
            Ok(Some(data)) => {
                self.reading.succeeded();
                let skip = narrow(piece.range.start - entry.offset);
                let len = narrow(piece.range.end - piece.range.start);
                if len == data.len() {
                    return Some(self.gauge.unit(data));
                }
                let part = data.get(skip..)?.get(..len)?;
                let mut copy = self.gauge.buffer(part.len());
                copy.copy_from_slice(part);
                Some(self.gauge.unit(copy))
            }
            Ok(None) => {
                self.counters.disk_corrupt.add(1);
                self.index.forget(&piece.place);
                None
            }
            // Shorter than it was.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                self.counters.disk_corrupt.add(1);
                self.index.forget(&piece.place);
                None
            }
            Err(error) => {
                self.counters.disk_errors.add(1);
                self.index.forget(&piece.place);
                self.reading.failed(&error);
                None
            }
        }
    }
}
