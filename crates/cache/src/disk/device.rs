//! Storage of log files: a folder, or a replacement made by a test.

use super::private;
use std::{
    fmt::Debug,
    fs::{File, TryLockError},
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

/// The folder of a cache cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{dir}: {error}")]
pub struct OpenError {
    /// Path of the folder.
    pub dir: String,
    /// Cause of the failure.
    pub error: std::io::Error,
}

pub(crate) trait Device: Send + Sync + Debug {
    /// Returns the numbers of all log files, in any order.
    fn numbers(&self) -> io::Result<Vec<u64>>;
    fn create(&self, number: u64) -> io::Result<Arc<dyn Log>>;
    fn open(&self, number: u64) -> io::Result<Arc<dyn Log>>;
    fn remove(&self, number: u64) -> io::Result<()>;
}

pub(crate) trait Log: Send + Sync + Debug {
    fn len(&self) -> io::Result<u64>;
    /// Fills the buffer or fails.
    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()>;
    /// Writes all bytes or fails. After a failure, some of them may be written.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()>;
    fn truncate(&self, len: u64) -> io::Result<()>;
}

#[derive(Debug)]
pub(crate) struct Folder {
    path: PathBuf,
    /// Locked while it is open. The kernel releases the lock however the process ends.
    _lock: File,
}

const LOCK: &str = "lock";
const SUFFIX: &str = ".units";

impl Folder {
    /// Opens the folder, and creates it if it does not exist.
    pub(crate) fn open(path: &Path) -> Result<Self, OpenError> {
        Ok(Self { path: path.to_owned(), _lock: hold(path)? })
    }

    fn file(&self, number: u64) -> PathBuf {
        self.path.join(format!("{number:016x}{SUFFIX}"))
    }
}

/// Creates the folder if it does not exist, and locks it for as long as the returned file is open.
pub(crate) fn hold(path: &Path) -> Result<File, OpenError> {
    let locked = private::create_folder(path).and_then(|()| {
        let lock = private::file_options().create(true).truncate(false).write(true).open(path.join(LOCK))?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                io::Error::new(io::ErrorKind::ResourceBusy, "another process uses this cache folder")
            }
            TryLockError::Error(error) => error,
        })?;
        Ok(lock)
    });
    locked.map_err(|error| OpenError::new(path, error))
}

impl OpenError {
    pub(crate) fn new(dir: &Path, error: io::Error) -> Self {
        Self { dir: dir.display().to_string(), error }
    }
}

impl Device for Folder {
    fn numbers(&self) -> io::Result<Vec<u64>> {
        let mut numbers = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            numbers.extend(number.and_then(|number| u64::from_str_radix(number, 16).ok()));
        }
        Ok(numbers)
    }

    fn create(&self, number: u64) -> io::Result<Arc<dyn Log>> {
        let file = private::file_options().create_new(true).read(true).write(true).open(self.file(number))?;
        Ok(Arc::new(file))
    }

    fn open(&self, number: u64) -> io::Result<Arc<dyn Log>> {
        let file = private::file_options().read(true).write(true).open(self.file(number))?;
        private::restrict(&file)?;
        Ok(Arc::new(file))
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        std::fs::remove_file(self.file(number))
    }
}

impl Log for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        self.read_exact_at(buffer, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        self.write_all_at(bytes, at)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.set_len(len)
    }
}
