//! A disk that fails as a test tells it to: the folder it is given, with faults before each call.

use super::device::{Device, Folder, Log};
use std::{
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
};

/// What befalls calls to the disk from now on. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct DiskFaults(Arc<Switches>);

#[derive(Debug, Default)]
struct Switches {
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Now {
    writes_fail: Option<io::ErrorKind>,
    reads_fail: Option<io::ErrorKind>,
    writes_hang: bool,
    reads_hang: bool,
}

impl DiskFaults {
    /// Nothing fails yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Everything that changes the disk fails so: a disk that is full, or read-only.
    pub fn fail_writes(&self, kind: io::ErrorKind) {
        self.change(|now| now.writes_fail = Some(kind));
    }

    /// Everything that reads it fails so.
    pub fn fail_reads(&self, kind: io::ErrorKind) {
        self.change(|now| now.reads_fail = Some(kind));
    }

    /// Calls do not return until [`Self::heal`].
    pub fn hang(&self, reads: bool, writes: bool) {
        self.change(|now| (now.reads_hang, now.writes_hang) = (reads, writes));
    }

    /// All is well again.
    pub fn heal(&self) {
        self.change(|now| *now = Now::default());
    }

    fn change(&self, change: impl FnOnce(&mut Now)) {
        change(&mut self.lock());
        self.0.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Now> {
        self.0.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn before_write(&self) -> io::Result<()> {
        let waits = self.0.changed.wait_while(self.lock(), |now| now.writes_hang);
        waits.unwrap_or_else(PoisonError::into_inner).writes_fail.map_or(Ok(()), |kind| Err(kind.into()))
    }

    fn before_read(&self) -> io::Result<()> {
        let waits = self.0.changed.wait_while(self.lock(), |now| now.reads_hang);
        waits.unwrap_or_else(PoisonError::into_inner).reads_fail.map_or(Ok(()), |kind| Err(kind.into()))
    }
}

/// A folder with faults.
#[derive(Debug)]
pub(crate) struct Failing {
    folder: Folder,
    faults: DiskFaults,
}

#[derive(Debug)]
struct FailingLog {
    log: Arc<dyn Log>,
    faults: DiskFaults,
}

impl Failing {
    pub(crate) fn new(folder: Folder, faults: DiskFaults) -> Self {
        Self { folder, faults }
    }

    fn over(&self, log: Arc<dyn Log>) -> Arc<dyn Log> {
        Arc::new(FailingLog { log, faults: self.faults.clone() })
    }
}

impl Device for Failing {
    fn numbers(&self) -> io::Result<Vec<u64>> {
        self.faults.before_read()?;
        self.folder.numbers()
    }

    fn create(&self, number: u64) -> io::Result<Arc<dyn Log>> {
        self.faults.before_write()?;
        Ok(self.over(self.folder.create(number)?))
    }

    fn open(&self, number: u64) -> io::Result<Arc<dyn Log>> {
        self.faults.before_read()?;
        Ok(self.over(self.folder.open(number)?))
    }

    fn remove(&self, number: u64) -> io::Result<()> {
        self.faults.before_write()?;
        self.folder.remove(number)
    }
}

impl Log for FailingLog {
    fn len(&self) -> io::Result<u64> {
        self.log.len()
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> io::Result<()> {
        self.faults.before_read()?;
        self.log.read_at(buffer, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        if let Err(error) = self.faults.before_write() {
            // As a disk that fills up does: a part of it is there.
            let part = bytes.get(..bytes.len() / 2).unwrap_or_default();
            let _ = self.log.write_at(part, at);
            return Err(error);
        }
        self.log.write_at(bytes, at)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.faults.before_write()?;
        self.log.truncate(len)
    }
}
