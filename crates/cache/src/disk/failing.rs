//! A disk whose failures a test controls: a folder with faults before each call.

use super::device::{Device, Folder, Log};
use crate::memory::lock::lock;
use std::{
    io,
    sync::{Arc, Condvar, Mutex, PoisonError},
};

/// The faults of all following calls to a disk. Clones share them.
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
    /// Returns faults that let every call succeed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes every call that changes the disk fail, as on a full or read-only disk.
    pub fn fail_writes(&self, kind: io::ErrorKind) {
        self.change(|now| now.writes_fail = Some(kind));
    }

    /// Makes every call that reads the disk fail.
    pub fn fail_reads(&self, kind: io::ErrorKind) {
        self.change(|now| now.reads_fail = Some(kind));
    }

    /// Makes calls wait until [`Self::heal`].
    pub fn hang(&self, reads: bool, writes: bool) {
        self.change(|now| (now.reads_hang, now.writes_hang) = (reads, writes));
    }

    /// Makes all calls succeed again.
    pub fn heal(&self) {
        self.change(|now| *now = Now::default());
    }

    fn change(&self, change: impl FnOnce(&mut Now)) {
        change(&mut lock(&self.0.now));
        self.0.changed.notify_all();
    }

    fn before_write(&self) -> io::Result<()> {
        let waits = self.0.changed.wait_while(lock(&self.0.now), |now| now.writes_hang);
        waits.unwrap_or_else(PoisonError::into_inner).writes_fail.map_or(Ok(()), |kind| Err(kind.into()))
    }

    fn before_read(&self) -> io::Result<()> {
        let waits = self.0.changed.wait_while(lock(&self.0.now), |now| now.reads_hang);
        waits.unwrap_or_else(PoisonError::into_inner).reads_fail.map_or(Ok(()), |kind| Err(kind.into()))
    }
}

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
            // Writes only a part of the bytes, as a disk that fills up does.
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
