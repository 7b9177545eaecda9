//! Named values on disk that outlive the process: one file each, all of it under a checksum, the least lately used go first.
//!
//! Values are what can be made anew: whatever goes wrong with the disk, there is no value, and the log says so once.

mod file;
mod table;
#[cfg(test)]
mod tests;

use crate::{
    DiskConfig, OpenError,
    disk::{device::hold, health::Health},
    gauge::wide,
};
use bytes::Bytes;
use file::Damaged;
use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    time::SystemTime,
};
use table::Table;
use tokio::sync::{Semaphore, oneshot, watch};

/// Bytes a file takes at least, and in steps of which it grows: a block of most file systems.
const BLOCK: u64 = 4096;
/// Reads in a row that may fail before the disk is left alone.
const BAD_SECTORS: u32 = 3;
const SUFFIX: &str = "value";
/// Of files that are being written.
const PART: &str = "part";

/// What became of values since the start, and what there is now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Figures {
    /// Now: bytes on disk, in whole blocks.
    pub bytes: u64,
    /// Now: values on disk.
    pub values: u64,
    /// Look-ups that found one.
    pub hits: u64,
    /// Look-ups that did not.
    pub misses: u64,
    /// Values driven out to make room.
    pub evictions: u64,
    /// Values not written: too large, the queue was full, or the disk fails.
    pub dropped: u64,
    /// Files that did not hold what had been written, or something of another version.
    pub discarded: u64,
}

/// Values by name. Clones share them.
#[derive(Debug, Clone)]
pub struct Records(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    jobs: mpsc::Sender<Job>,
    readers: Arc<Semaphore>,
    recovered: watch::Receiver<bool>,
}

/// What readers and the writer share.
#[derive(Debug)]
struct Shared {
    config: DiskConfig,
    table: Mutex<Table>,
    /// Weight of what waits to be written.
    queued: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
    dropped: AtomicU64,
    discarded: AtomicU64,
    reading: Health,
    writing: Health,
}

/// Makes the bytes of a value, where that may take its time.
type Make = Box<dyn FnOnce() -> Vec<u8> + Send>;

/// What the writer is asked to do.
enum Job {
    Write { name: Vec<u8>, weight: u64, make: Make },
    Remove(u128),
    Flush(oneshot::Sender<()>),
    Close(oneshot::Sender<()>),
}

impl Records {
    /// Opens the folder. What it holds is counted in the background, and found at once. Touches the disk: call it at start, not
    /// while serving.
    ///
    /// # Errors
    /// Where the folder cannot be made or is used by another process.
    pub fn open(config: DiskConfig) -> Result<Self, OpenError> {
        let dir = config.dir.display().to_string();
        let failed = |error| OpenError { dir: dir.clone(), error };
        let lock = hold(&config.dir).map_err(failed)?;
        let readers = Arc::new(Semaphore::new(config.readers.max(1)));
        let shared = Arc::new(Shared {
            reading: Health::new("reading values", config.retry, BAD_SECTORS),
            writing: Health::new("writing values", config.retry, 1),
            config,
            table: Mutex::default(),
            queued: AtomicU64::new(0),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            evictions: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            discarded: AtomicU64::new(0),
        });
        let (jobs, queue) = mpsc::channel();
        let (done, recovered) = watch::channel(false);
        let writer = shared.clone();
        std::thread::Builder::new()
            .name("latemux-values".to_owned())
            .spawn(move || run(&writer, lock, &queue, &done))
            .map_err(failed)?;
        Ok(Self(Arc::new(Inner { shared, jobs, readers, recovered })))
    }

    /// The value of a name, as it was written; `None` where there is none that can be trusted.
    pub async fn get(&self, name: &[u8]) -> Option<Bytes> {
        let found = self.find(name).await;
        let count = if found.is_some() { &self.0.shared.hits } else { &self.0.shared.misses };
        count.fetch_add(1, Relaxed);
        found
    }

    async fn find(&self, name: &[u8]) -> Option<Bytes> {
        let (shared, id) = (self.0.shared.clone(), file::id(name));
        let unknown = *self.0.recovered.borrow() && !shared.table().holds(id);
        if unknown || shared.reading.is_resting() {
            return None;
        }
        let (readers, name) = (self.0.readers.clone(), name.to_vec());
        let read = async move {
            let permit = readers.acquire_owned().await.ok()?;
            let job = move || {
                // It stays with the job when its reader gives up: a disk that hangs is not asked more and more.
                let _permit = permit;
                shared.read(id, &name)
            };
            tokio::task::spawn_blocking(job).await.ok()
        };
        let limit = self.0.shared.config.read_timeout;
        match tokio::time::timeout(limit, read).await {
            Ok(Some(Ok(value))) => value,
            Ok(Some(Err(Damaged))) => {
                self.discard_id(id);
                None
            }
            Ok(None) => None,
            Err(_) => {
                let error = format!("no answer from the disk within {limit:?}");
                self.0.shared.reading.failed(&io::Error::new(io::ErrorKind::TimedOut, error));
                None
            }
        }
    }

    /// Has a value written in place of the one of that name. Returns at once: `make` is called by the thread that writes, if there is
    /// room for `weight` bytes in its queue.
    pub fn put(&self, name: Vec<u8>, weight: u64, make: impl FnOnce() -> Vec<u8> + Send + 'static) {
        let shared = &self.0.shared;
        let queued = shared.queued.fetch_add(weight, Relaxed);
        let full = queued.saturating_add(weight) > shared.config.queue;
        let job = Job::Write { name, weight, make: Box::new(make) };
        if full || shared.writing.is_resting() || self.0.jobs.send(job).is_err() {
            shared.queued.fetch_sub(weight, Relaxed);
            shared.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Forgets the value of a name, also where it is still to be written; whether one was known.
    pub fn forget(&self, name: &[u8]) -> bool {
        self.remove(file::id(name))
    }

    /// The same for a value that is of no use: of another version than is read here.
    pub fn discard(&self, name: &[u8]) {
        self.discard_id(file::id(name));
    }

    fn discard_id(&self, id: u128) {
        self.0.shared.discarded.fetch_add(1, Relaxed);
        self.remove(id);
    }

    fn remove(&self, id: u128) -> bool {
        let known = self.0.shared.table().remove(id);
        // Behind what is to be written of that name. The writer outlives whoever can ask.
        let _ = self.0.jobs.send(Job::Remove(id));
        known
    }

    /// The most bytes there may be on disk.
    #[must_use]
    pub fn limit(&self) -> u64 {
        self.0.shared.config.bytes
    }

    /// What it did and holds.
    #[must_use]
    pub fn figures(&self) -> Figures {
        let shared = &self.0.shared;
        let (bytes, values) = {
            let table = shared.table();
            (table.bytes(), table.len())
        };
        Figures {
            bytes,
            values,
            hits: shared.hits.load(Relaxed),
            misses: shared.misses.load(Relaxed),
            evictions: shared.evictions.load(Relaxed),
            dropped: shared.dropped.load(Relaxed),
            discarded: shared.discarded.load(Relaxed),
        }
    }

    /// Waits until all that the folder held at start has been counted.
    pub async fn recovered(&self) {
        // The writer's end is an end of the waiting, too.
        let _ = self.0.recovered.clone().wait_for(|done| *done).await;
    }

    /// Waits until all that was asked for has been done.
    pub async fn flush(&self) {
        self.done(Job::Flush).await;
    }

    /// The same, and lets go of the folder: nothing is written any more.
    pub async fn close(&self) {
        self.done(Job::Close).await;
    }

    async fn done(&self, job: impl FnOnce(oneshot::Sender<()>) -> Job) {
        let (tell, told) = oneshot::channel();
        if self.0.jobs.send(job(tell)).is_ok() {
            let _ = told.await;
        }
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn path(&self, id: u128, suffix: &str) -> PathBuf {
        self.config.dir.join(format!("{id:032x}.{suffix}"))
    }

    /// On a thread that may block.
    fn read(&self, id: u128, name: &[u8]) -> Result<Option<Bytes>, Damaged> {
        let read = || -> io::Result<Option<(File, Vec<u8>)>> {
            let mut file = File::open(self.path(id, SUFFIX))?;
            let len = file.metadata()?.len();
            if len > self.config.bytes {
                return Ok(None);
            }
            let mut bytes = Vec::with_capacity(usize::try_from(len).unwrap_or(0));
            (&mut file).take(len).read_to_end(&mut bytes)?;
            Ok(Some((file, bytes)))
        };
        match read() {
            Ok(Some((file, bytes))) => {
                self.reading.succeeded();
                let value = file::value(bytes, name)?;
                self.table().used(id);
                // For the order after a restart. Where it cannot be noted, the order is another one.
                #[expect(
                    clippy::disallowed_methods,
                    reason = "a clock that jumps changes the order, and no more"
                )]
                let _ = file.set_modified(SystemTime::now());
                Ok(Some(value))
            }
            Ok(None) => Err(Damaged),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.table().remove(id);
                Ok(None)
            }
            Err(error) => {
                self.reading.failed(&error);
                Ok(None)
            }
        }
    }

    fn write(&self, name: &[u8], make: Make) {
        let dropped = || _ = self.dropped.fetch_add(1, Relaxed);
        if self.writing.is_resting() {
            return dropped();
        }
        let Some(bytes) = file::bytes(name, &make()) else { return dropped() };
        let (id, cost) = (file::id(name), cost(wide(bytes.len())));
        if cost > self.config.bytes {
            return dropped();
        }
        // Before it is written: there is never more than there may be.
        self.fit(self.config.bytes - cost, Some(id));
        match self.replace(id, &bytes) {
            Ok(()) => {
                self.writing.succeeded();
                self.table().insert(id, cost);
            }
            Err(error) => {
                dropped();
                if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
                    // Others fill the disk: give some back, then try again.
                    self.fit(self.table().bytes() / 2, None);
                }
                self.writing.failed(&error);
            }
        }
    }

    /// Under its name when all of it is written; nothing is synced, as checksums find what the system lost.
    fn replace(&self, id: u128, bytes: &[u8]) -> io::Result<()> {
        let part = self.path(id, PART);
        let written = fs::write(&part, bytes).or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                return Err(error);
            }
            // The folder was removed.
            fs::create_dir_all(&self.config.dir)?;
            fs::write(&part, bytes)
        });
        let replaced = written.and_then(|()| fs::rename(&part, self.path(id, SUFFIX)));
        replaced.inspect_err(|_| drop(fs::remove_file(&part)))
    }

    /// Drives out what was not used for the longest time until there are at most so many bytes, `but` not counted.
    fn fit(&self, most: u64, but: Option<u128>) {
        loop {
            let id = {
                let mut table = self.table();
                let own = but.map_or(0, |id| table.cost(id));
                if table.bytes().saturating_sub(own) <= most {
                    return;
                }
                let Some(id) = table.oldest(but) else { return };
                table.remove(id);
                id
            };
            self.evictions.fetch_add(1, Relaxed);
            self.unlink(&self.path(id, SUFFIX));
        }
    }

    fn unlink(&self, path: &Path) {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => self.writing.failed(&error),
            _ => {}
        }
    }

    /// Counts what the folder holds, in the order of its last use.
    fn recover(&self) -> io::Result<()> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.config.dir)? {
            let path = entry?.path();
            let name =
                |part: Option<&std::ffi::OsStr>| part.and_then(|part| part.to_str().map(str::to_owned));
            let (stem, suffix) = (name(path.file_stem()), name(path.extension()));
            let Some(id) =
                stem.filter(|stem| stem.len() == 32).and_then(|s| u128::from_str_radix(&s, 16).ok())
            else {
                continue;
            };
            match suffix.as_deref() {
                Some(PART) => self.unlink(&path),
                Some(SUFFIX) => {
                    let Ok(meta) = fs::metadata(&path) else { continue };
                    found.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), id, cost(meta.len())));
                }
                _ => {}
            }
        }
        found.sort_unstable();
        for (_, id, cost) in found {
            self.table().insert(id, cost);
        }
        self.fit(self.config.bytes, None);
        Ok(())
    }
}

/// Until the last sender is gone, or one says so.
fn run(shared: &Shared, lock: File, queue: &mpsc::Receiver<Job>, recovered: &watch::Sender<bool>) {
    if let Err(error) = shared.recover() {
        shared.reading.failed(&error);
    }
    let _ = recovered.send_replace(true);
    let mut closed = None;
    for job in queue {
        match job {
            Job::Write { name, weight, make } => {
                shared.write(&name, make);
                shared.queued.fetch_sub(weight, Relaxed);
            }
            Job::Remove(id) => {
                shared.table().remove(id);
                shared.unlink(&shared.path(id, SUFFIX));
            }
            Job::Flush(tell) => drop(tell.send(())),
            Job::Close(tell) => {
                closed = Some(tell);
                break;
            }
        }
    }
    // The folder is let go of before anyone is told.
    drop(lock);
    closed.map(|tell| tell.send(()));
}

/// What a file of so many bytes takes.
fn cost(len: u64) -> u64 {
    len.div_ceil(BLOCK).max(1).saturating_mul(BLOCK)
}
