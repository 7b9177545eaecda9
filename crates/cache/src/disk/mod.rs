//! The disk tier: units in log files, written by one thread, found through a table in memory. It may fail in any way it
//! likes: readers then get their bytes from storage.

pub(crate) mod device;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod failing;
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
    gauge::{Buffer, Gauge, narrow, wide},
    object::Object,
};
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
        Arc, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc,
    },
};
use tokio::sync::{Semaphore, oneshot, watch};
use writer::{Job, Writer};

/// What a unit in the queue takes in memory besides its bytes, generously: else any number of tiny ones would fit.
const WAITING: u64 = 256;

/// Memory a unit of so many bytes takes while it waits to be written.
fn waiting(bytes: &Bytes) -> u64 {
    wide(bytes.len()).saturating_add(WAITING)
}

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
        let patience = self.shared.config.patience;
        if let Ok(bytes) = tokio::time::timeout(patience, read).await {
            return bytes;
        }
        self.shared.counters.disk_timeouts.add(1);
        self.shared.reading.failed(&io::Error::new(
            io::ErrorKind::TimedOut,
            format!("no answer from the disk within {patience:?}"),
        ));
        None
    }

    /// Has a unit written, if there is room in the queue. Returns at once.
    pub(crate) fn write(&self, object: &Arc<Object>, start: u64, bytes: Bytes) {
        let (shared, len) = (&self.shared, wide(bytes.len()));
        if shared.index.covers(object.id, &(start..start.saturating_add(len))) {
            return;
        }
        let takes = waiting(&bytes);
        let queued = shared.queued.fetch_add(takes, Relaxed);
        let full = queued.saturating_add(takes) > shared.config.queue;
        let job = Job::Write { object: object.clone(), start, bytes };
        if full || shared.writing.is_resting() || self.jobs.send(job).is_err() {
            shared.queued.fetch_sub(takes, Relaxed);
            shared.counters.disk_dropped.add(1);
        }
    }

    /// Forgets an object; how many units.
    pub(crate) fn forget(&self, id: u128) -> u64 {
        self.shared.index.forget_object(id)
    }

    /// Waits until what is in the queue has been written.
    pub(crate) async fn flush(&self) {
        self.done(Job::Flush).await;
    }

    /// Writes what is in the queue, seals the log and lets go of the folder.
    pub(crate) async fn close(&self) {
        self.done(Job::Close).await;
    }

    async fn done(&self, job: impl FnOnce(oneshot::Sender<()>) -> Job) {
        let (tell, told) = oneshot::channel();
        if self.jobs.send(job(tell)).is_ok() {
            let _ = told.await;
        }
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
