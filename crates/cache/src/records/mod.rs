//! Named values on disk that outlive the process. Each is one file with a checksum, and the least
//! recently used values are evicted first.
//!
//! Values can always be recreated: if anything goes wrong with the disk, the value is missing, and
//! the log reports this once.

mod file;
mod table;
#[cfg(test)]
mod tests;

use crate::{
    DiskConfig,
    disk::{
        device::{OpenError, hold},
        health::Health,
        private,
        reader::DiskReader,
    },
    memory::{gauge::to_u64, lock::lock},
};
use bytes::Bytes;
use file::Damaged;
use std::{
    fs::{self, File},
    io::{self, Read},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    time::SystemTime,
};
use table::Table;
use tokio::sync::{oneshot, watch};

/// File sizes are counted in whole blocks of this many bytes, the block size of most file systems.
const BLOCK: u64 = 4096;
const SUFFIX: &str = "value";
/// Suffix of files that are being written.
const PART: &str = "part";

/// Counters since the start, and current values, of [`Records`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordFigures {
    /// Current: bytes on disk, in whole blocks.
    pub bytes: u64,
    /// Current: values on disk.
    pub values: u64,
    /// Lookups that found a value.
    pub hits: u64,
    /// Lookups that found no value.
    pub misses: u64,
    /// Values evicted to make room.
    pub evictions: u64,
    /// Values not written: too large, the queue was full, or the disk failed.
    pub dropped: u64,
    /// Files that did not contain what had been written, or contained another version.
    pub discarded: u64,
}

/// Values by name. Clones share them.
#[derive(Debug, Clone)]
pub struct Records(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    shared: Arc<Shared>,
    jobs: mpsc::Sender<Job>,
    recovered: watch::Receiver<bool>,
}

/// State shared by readers and the writer.
#[derive(Debug)]
struct Shared {
    config: DiskConfig,
    table: Mutex<Table>,
    /// Weight of the values waiting to be written.
    queued: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    evictions: AtomicU64,
    dropped: AtomicU64,
    discarded: AtomicU64,
    reader: DiskReader,
    writing: Health,
}

/// Makes the bytes of a value, which may take some time.
type Make = Box<dyn FnOnce() -> Vec<u8> + Send>;

enum Job {
    Write { name: Vec<u8>, weight: u64, make: Make },
    Remove(u128),
    Flush(oneshot::Sender<()>),
    Close(oneshot::Sender<()>),
}

impl Records {
    /// Opens the folder. Its values can be read at once; they are counted in the background.
    /// Opening blocks on the disk, so do it at start and not while serving.
    ///
    /// # Errors
    /// [`OpenError`] if the folder cannot be created or another process uses it.
    pub fn open(config: DiskConfig) -> Result<Self, OpenError> {
        let dir = config.dir.clone();
        let lock = hold(&dir)?;
        let shared = Arc::new(Shared {
            reader: DiskReader::new("reading values", &config),
            writing: Health::new("writing values", config.retry, 1),
            config,
            table: Mutex::default(),
            queued: AtomicU64::new(0),
            hits: AtomicU64::default(),
            misses: AtomicU64::default(),
            evictions: AtomicU64::default(),
            dropped: AtomicU64::default(),
            discarded: AtomicU64::default(),
        });
        let (jobs, queue) = mpsc::channel();
        let (done, recovered) = watch::channel(false);
        let writer = shared.clone();
        std::thread::Builder::new()
            .name("latemux-values".to_owned())
            .spawn(move || run(&writer, lock, &queue, &done))
            .map_err(|error| OpenError::new(&dir, error))?;
        Ok(Self(Arc::new(Inner { shared, jobs, recovered })))
    }

    /// Returns the value of a name as it was written, or `None` if no trusted one exists.
    pub async fn get(&self, name: &[u8]) -> Option<Bytes> {
        let found = self.find(name).await;
        let count = if found.is_some() { &self.0.shared.hits } else { &self.0.shared.misses };
        count.fetch_add(1, Relaxed);
        found
    }

    /// Returns a value as [`Self::get`] does, without counting a hit or a miss.
    pub async fn find(&self, name: &[u8]) -> Option<Bytes> {
        let shared = self.0.shared.clone();
        let id = file::id(name);
        let unknown = *self.0.recovered.borrow() && !shared.table().holds(id);
        if unknown || shared.reader.health.is_resting() {
            return None;
        }
        let name = name.to_vec();
        match self.0.shared.reader.run(move || shared.read(id, &name)).await {
            Ok(Ok(value)) => value,
            Ok(Err(Damaged)) => {
                self.discard_id(id);
                None
            }
            Err(_) => None,
        }
    }

    /// Returns the names of all values on disk that meet a condition. It reads the beginning of
    /// each file, so it takes long if there are many.
    pub async fn names(&self, condition: impl Fn(&[u8]) -> bool + Send + 'static) -> Vec<Vec<u8>> {
        let shared = self.0.shared.clone();
        let named = tokio::task::spawn_blocking(move || shared.names(&condition).unwrap_or_default());
        named.await.unwrap_or_default()
    }

    /// Queues a value that replaces the one of that name, and returns at once. The writer's thread
    /// calls `make` if its queue has room for `weight` bytes.
    pub fn put(&self, name: Vec<u8>, weight: u64, make: impl FnOnce() -> Vec<u8> + Send + 'static) {
        let shared = &self.0.shared;
        let queued = shared.queued.fetch_add(weight, Relaxed);
        let full = queued + weight > shared.config.queue;
        let job = Job::Write { name, weight, make: Box::new(make) };
        if full || shared.writing.is_resting() || self.0.jobs.send(job).is_err() {
            shared.queued.fetch_sub(weight, Relaxed);
            shared.dropped.fetch_add(1, Relaxed);
        }
    }

    /// Removes the value of a name, even if it is still queued. Returns true if a value was known.
    pub fn forget(&self, name: &[u8]) -> bool {
        self.remove(file::id(name))
    }

    /// Removes a value whose version this program cannot read, and counts it as discarded.
    pub fn discard(&self, name: &[u8]) {
        self.discard_id(file::id(name));
    }

    fn discard_id(&self, id: u128) {
        self.0.shared.discarded.fetch_add(1, Relaxed);
        self.remove(id);
    }

    fn remove(&self, id: u128) -> bool {
        let known = self.0.shared.table().remove(id);
        // The job is queued behind all writes of that name. The writer outlives every caller.
        let _ = self.0.jobs.send(Job::Remove(id));
        known
    }

    /// Returns the maximum number of bytes on disk.
    pub fn limit(&self) -> u64 {
        self.0.shared.config.bytes
    }

    /// Returns what happened since the start and what there is now.
    pub fn figures(&self) -> RecordFigures {
        let shared = &self.0.shared;
        let (bytes, values) = {
            let table = shared.table();
            (table.bytes(), table.len())
        };
        RecordFigures {
            bytes,
            values,
            hits: shared.hits.load(Relaxed),
            misses: shared.misses.load(Relaxed),
            evictions: shared.evictions.load(Relaxed),
            dropped: shared.dropped.load(Relaxed),
            discarded: shared.discarded.load(Relaxed),
        }
    }

    /// Waits until the values in the folder have been counted.
    pub async fn recovered(&self) {
        // If the writer has ended, there is nothing left to wait for.
        let _ = self.0.recovered.clone().wait_for(|done| *done).await;
    }

    /// Waits until all jobs so far are done.
    pub async fn flush(&self) {
        self.job_done(Job::Flush).await;
    }

    /// Waits until all jobs so far are done, and releases the folder: nothing is written any more.
    pub async fn close(&self) {
        self.job_done(Job::Close).await;
    }

    async fn job_done(&self, job: impl FnOnce(oneshot::Sender<()>) -> Job) {
        let (tell, told) = oneshot::channel();
        if self.0.jobs.send(job(tell)).is_ok() {
            let _ = told.await;
        }
    }
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    fn path(&self, id: u128, suffix: &str) -> PathBuf {
        self.config.dir.join(format!("{id:032x}.{suffix}"))
    }

    /// Reads the names of all values that meet a condition. This blocks.
    fn names(&self, condition: &dyn Fn(&[u8]) -> bool) -> io::Result<Vec<Vec<u8>>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.config.dir)? {
            let path = entry?.path();
            let stem = path.file_stem().and_then(|stem| stem.to_str());
            let id = stem.and_then(|stem| u128::from_str_radix(stem, 16).ok());
            let (Some(id), Some(SUFFIX)) = (id, path.extension().and_then(|suffix| suffix.to_str())) else {
                continue;
            };
            // A file that cannot be read is not found by a look-up either.
            let Ok(Some(name)) = File::open(&path).and_then(file::read_name) else { continue };
            if file::id(&name) == id && condition(&name) {
                names.push(name);
            }
        }
        Ok(names)
    }

    /// Reads a value. This blocks, so it runs on a thread that may block.
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
                self.reader.health.succeeded();
                let value = file::value(bytes, name)?;
                self.table().used(id);
                // The time orders values after a restart; a failure only changes the order.
                #[expect(clippy::disallowed_methods, reason = "a clock that jumps only changes the order")]
                let _ = file.set_modified(SystemTime::now());
                Ok(Some(value))
            }
            Ok(None) => Err(Damaged),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.table().remove(id);
                Ok(None)
            }
            Err(error) => {
                self.reader.health.failed(&error);
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
        let id = file::id(name);
        let cost = cost(to_u64(bytes.len()));
        if cost > self.config.bytes {
            return dropped();
        }
        // Room is made before the write, so the limit is never exceeded.
        self.evict_to(self.config.bytes - cost, Some(id));
        match self.replace(id, &bytes) {
            Ok(()) => {
                self.writing.succeeded();
                self.table().insert(id, cost);
            }
            Err(error) => {
                dropped();
                if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
                    // Other programs fill the disk: evict half of the values, then try again later.
                    self.evict_to(self.table().bytes() / 2, None);
                }
                self.writing.failed(&error);
            }
        }
    }

    /// Writes a temporary file and renames it when it is complete. Nothing is synced, because the
    /// checksum detects what the system lost.
    fn replace(&self, id: u128, bytes: &[u8]) -> io::Result<()> {
        let part = self.path(id, PART);
        let written = private::write(&part, bytes).or_else(|error| {
            if error.kind() != io::ErrorKind::NotFound {
                return Err(error);
            }
            // The folder was removed.
            private::create_folder(&self.config.dir)?;
            private::write(&part, bytes)
        });
        let replaced = written.and_then(|()| fs::rename(&part, self.path(id, SUFFIX)));
        replaced.inspect_err(|_| drop(fs::remove_file(&part)))
    }

    /// Evicts the least recently used values until `most` bytes are left, not counting `but`.
    fn evict_to(&self, most: u64, but: Option<u128>) {
        loop {
            let id = {
                let mut table = self.table();
                let own = but.map_or(0, |id| table.cost(id));
                if table.bytes() - own <= most {
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

    /// Counts the values in the folder, in the order of their last use.
    fn recover(&self) -> io::Result<()> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.config.dir)? {
            let path = entry?.path();
            let name =
                |part: Option<&std::ffi::OsStr>| part.and_then(|part| part.to_str().map(str::to_owned));
            let stem = name(path.file_stem());
            let suffix = name(path.extension());
            let Some(id) =
                stem.filter(|stem| stem.len() == 32).and_then(|s| u128::from_str_radix(&s, 16).ok())
            else {
                continue;
            };
            match suffix.as_deref() {
                Some(PART) => self.unlink(&path),
                Some(SUFFIX) => {
                    let Ok(meta) = fs::metadata(&path) else { continue };
                    let _ = private::restrict_at(&path, &meta);
                    found.push((meta.modified().unwrap_or(SystemTime::UNIX_EPOCH), id, cost(meta.len())));
                }
                _ => {}
            }
        }
        found.sort_unstable();
        for (_, id, cost) in found {
            self.table().insert(id, cost);
        }
        self.evict_to(self.config.bytes, None);
        Ok(())
    }
}

/// Runs until all senders are dropped or the writer is closed.
fn run(shared: &Shared, lock: File, queue: &mpsc::Receiver<Job>, recovered: &watch::Sender<bool>) {
    if let Err(error) = shared.recover() {
        shared.reader.health.failed(&error);
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
    // Releases the folder before the caller is told.
    drop(lock);
    closed.map(|tell| tell.send(()));
}

/// Returns the bytes that a file of this length takes on disk.
fn cost(len: u64) -> u64 {
    len.div_ceil(BLOCK).max(1) * BLOCK
}
