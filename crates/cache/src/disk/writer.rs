//! The writer's thread: appends records, seals full logs, evicts the oldest, recovers at start.

use super::{
    Shared,
    backlog::{BacklogUnit, NextUnit},
    device::{Device, Log},
    index::Location,
    record::{
        self, Contents, ENTRY, FILE_HEAD, RecordEntry, RecordHead, TRAILER, encode_head, file_head, footer,
        read_contents,
    },
    waiting,
};
use crate::{
    counters::{Counter, Counters},
    memory::{gauge::to_u64, object::Object},
};
use bytes::Bytes;
use std::{
    io,
    sync::{Arc, PoisonError, atomic::Ordering::Relaxed, mpsc},
    time::Instant,
};
use tokio::sync::watch;

/// Bytes of a log file for each unit it may hold, which bounds the table of small units.
const PER_UNIT: u64 = 16 << 10;
/// Maximum number of purges remembered while the disk fails, more than are made in 30 seconds.
const MAX_UNWRITTEN_PURGES: usize = 4096;

#[derive(Debug)]
pub(super) enum Job {
    Write {
        object: Arc<Object>,
        start: u64,
        bytes: Bytes,
    },
    /// Purges all earlier units of an object.
    Purge(Arc<Object>),
    /// Responds once the log records all purges.
    ConfirmPurges(mpsc::SyncSender<()>),
    /// The backlog has an entry.
    CheckBacklog,
    /// Responds once all earlier jobs and the backlog are done.
    Flush(mpsc::SyncSender<()>),
    Close(mpsc::SyncSender<()>),
}

#[derive(Debug)]
pub(super) struct Writer {
    device: Box<dyn Device>,
    shared: Arc<Shared>,
    /// The log that new records are appended to.
    active: Option<Active>,
    next_number: u64,
    /// Maximum length of a log file in bytes.
    file_bytes: u64,
    /// Purged objects that no log records yet.
    unwritten_purges: Vec<Arc<Object>>,
    /// True if there were too many such objects: some purges will not be recorded.
    has_lost_purges: bool,
}

#[derive(Debug)]
struct Active {
    number: u64,
    log: Arc<dyn Log>,
    entries: Vec<RecordEntry>,
    end: u64,
}

impl Active {
    /// Returns the length the log would have with a footer for one more unit.
    fn sealed_len(&self) -> u64 {
        self.end + (to_u64(self.entries.len()) + 1) * ENTRY + TRAILER
    }
}

impl Writer {
    pub(super) fn new(device: Box<dyn Device>, shared: Arc<Shared>) -> Self {
        let file_bytes = shared.config.file_bytes();
        Self {
            device,
            shared,
            active: None,
            next_number: 1,
            file_bytes,
            unwritten_purges: Vec::new(),
            has_lost_purges: false,
        }
    }

    /// Runs until all senders are dropped or the writer is closed.
    pub(super) fn run(mut self, queue: &mpsc::Receiver<Job>, recovered: &watch::Sender<bool>) {
        if let Err(error) = self.recover() {
            self.note_error(&error);
        }
        let _ = recovered.send_replace(true);
        let mut closed = None;
        loop {
            let job = match queue.try_recv() {
                Err(mpsc::TryRecvError::Empty) if self.write_waiting() => continue,
                Err(mpsc::TryRecvError::Empty) => queue.recv().ok(),
                other => other.ok(),
            };
            match job {
                Some(Job::Write { object, start, bytes }) => {
                    self.write(&object, start, &bytes);
                    self.shared.queued.fetch_sub(waiting(&bytes), Relaxed);
                }
                Some(Job::Purge(object)) => self.purge(object),
                // Dropping the sender without a response reports that the purges are not recorded.
                Some(Job::ConfirmPurges(tell)) if self.write_purges() && !self.has_lost_purges => {
                    let _ = tell.send(());
                }
                Some(Job::ConfirmPurges(_) | Job::CheckBacklog) => {}
                Some(Job::Flush(tell)) => {
                    while self.write_waiting() {}
                    let _ = tell.send(());
                }
                Some(Job::Close(tell)) => {
                    closed = Some(tell);
                    break;
                }
                None => break,
            }
        }
        while self.write_waiting() {}
        self.write_purges();
        self.seal();
        // Releases the folder before the caller is told.
        drop(self);
        closed.map(|tell| tell.send(()));
    }

    /// Writes the next unit of the backlog. Returns false if there is none.
    fn write_waiting(&mut self) -> bool {
        // A disk that failed may recover before memory evicts these units.
        if self.shared.writing.is_resting() {
            return false;
        }
        match self.shared.backlog.pop() {
            NextUnit::Unit(BacklogUnit { object, start, bytes }) => self.write(&object, start, &bytes),
            NextUnit::Lost => self.shared.counters.disk_dropped_full.add(1),
            NextUnit::Empty => return false,
        }
        true
    }

    /// Purges an object from the table and from the log.
    fn purge(&mut self, object: Arc<Object>) {
        // This also covers units that were queued when the purge was requested, or were being moved
        // to another log.
        self.shared.index.forget_object(object.id);
        if self.unwritten_purges.len() < MAX_UNWRITTEN_PURGES {
            self.unwritten_purges.push(object);
        } else {
            self.has_lost_purges = true;
        }
        self.write_purges();
    }

    /// Records pending purges in the log. Returns true if all of them are recorded.
    fn write_purges(&mut self) -> bool {
        while let Some(object) = self.unwritten_purges.last() {
            if self.shared.writing.is_resting() {
                return false;
            }
            // A record without data purges its object.
            let Some(head) = encode_head(object.id, &object.names, 0, &[]) else {
                self.unwritten_purges.pop();
                continue;
            };
            let entry = RecordEntry { id: object.id, offset: 0, len: 0, names_len: 0, at: 0 };
            match self.make_room(to_u64(head.len())).and_then(|()| self.append(entry, &head, &[])) {
                Ok(()) => drop(self.unwritten_purges.pop()),
                Err(error) => {
                    self.note_failed_write(&error);
                    return false;
                }
            }
        }
        true
    }

    /// Handles a failed write.
    fn note_failed_write(&mut self, error: &io::Error) {
        self.note_error(error);
        if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            // Other programs fill the disk: evict a log, then try again later.
            self.evict_oldest();
        }
    }

    fn note_error(&self, error: &io::Error) {
        self.shared.counters.disk_errors.add(1);
        self.shared.writing.failed(error);
    }

    fn write(&mut self, object: &Object, start: u64, bytes: &Bytes) {
        let drop = |why: fn(&Counters) -> &Counter| why(&self.shared.counters).add(1);
        if self.shared.index.covers(object.id, &(start..start + to_u64(bytes.len()))) {
            return;
        }
        if self.shared.deadline.get().is_some_and(|ends| *ends <= Instant::now()) {
            return drop(|counters| &counters.disk_dropped_closed);
        }
        if self.shared.writing.is_resting() {
            return drop(|counters| &counters.disk_dropped_failed);
        }
        // A purge must precede all later records of its object.
        self.write_purges();
        let Some(head) = encode_head(object.id, &object.names, start, bytes) else {
            return self.shared.counters.disk_dropped_failed.add(1);
        };
        let entry = RecordEntry { id: object.id, offset: start, len: 0, names_len: 0, at: 0 };
        match self.make_room(to_u64(head.len() + bytes.len())).and_then(|()| self.append(entry, &head, bytes))
        {
            Ok(()) => {
                self.shared.writing.succeeded();
                self.shared.counters.disk_written.add(1);
                self.shared.counters.disk_written_bytes.add(to_u64(head.len() + bytes.len()));
            }
            Err(error) => {
                self.shared.counters.disk_dropped_failed.add(1);
                self.note_failed_write(&error);
            }
        }
    }

    fn append(&mut self, entry: RecordEntry, head: &[u8], data: &[u8]) -> io::Result<()> {
        let active = self.active.as_mut().ok_or(io::ErrorKind::NotFound)?;
        let at = active.end;
        let written =
            active.log.write_at(head, at).and_then(|()| active.log.write_at(data, at + to_u64(head.len())));
        if let Err(error) = written {
            // A part of the record may be written. A later walk must not continue behind it,
            // because media can look like records. If the part cannot be cut off, this log takes no
            // more records.
            if active.log.truncate(at).is_err() {
                self.active = None;
            }
            return Err(error);
        }
        let len = |len: u64| u32::try_from(len).map_err(|_| io::ErrorKind::FileTooLarge);
        let names_len = len(to_u64(head.len()) - record::RECORD_HEAD)?;
        let entry = RecordEntry { len: len(to_u64(data.len()))?, names_len, at, ..entry };
        active.end = at + entry.record_len();
        active.entries.push(entry);
        self.shared.bytes.fetch_add(entry.record_len(), Relaxed);
        if entry.len > 0 {
            self.shared.index.insert(Location { log: active.number, entry });
        }
        Ok(())
    }

    /// Makes sure that there is an active log with room for a record.
    fn make_room(&mut self, record: u64) -> io::Result<()> {
        if let Some(active) = &self.active {
            let fits = active.sealed_len() + record <= self.file_bytes
                && to_u64(active.entries.len()) < self.file_bytes / PER_UNIT;
            if fits || active.entries.is_empty() {
                return Ok(());
            }
        }
        self.seal();
        let number = self.next_number;
        let log = self.device.create(number)?;
        self.next_number += 1;
        if let Err(error) = log.write_at(&file_head(), 0) {
            // A log without a head is useless. Its number is not used again.
            let _ = self.device.remove(number);
            return Err(error);
        }
        self.shared.bytes.fetch_add(FILE_HEAD, Relaxed);
        self.logs(|logs| drop(logs.insert(number, log.clone())));
        self.active = Some(Active { number, log, entries: Vec::new(), end: FILE_HEAD });
        self.evict_to_limit();
        Ok(())
    }

    /// Evicts the oldest logs until the active one may grow to its full size.
    fn evict_to_limit(&mut self) {
        // Units that were hit are rewritten before their log is removed: half a file may exist
        // twice.
        let most = self.shared.config.bytes.saturating_sub(self.file_bytes + self.file_bytes / 2);
        while self.shared.bytes.load(Relaxed) > most && self.evict_oldest() {}
    }

    /// Evicts the oldest log except the active one. Units in it that were hit are written again, up
    /// to half a log. Returns false if there is no such log.
    fn evict_oldest(&mut self) -> bool {
        let active = self.active.as_ref().map(|active| active.number);
        let mut oldest = None;
        self.logs(|logs| {
            oldest =
                logs.iter().find(|(number, _)| Some(**number) != active).map(|(n, log)| (*n, log.clone()));
        });
        let Some((number, log)) = oldest else { return false };
        let units = self.shared.index.forget_log(number);
        let all = units.len();
        let mut survivors = 0;
        for (location, hit) in units {
            let room = self.active.as_ref().is_some_and(|active| {
                active.sealed_len() + location.entry.record_len() <= self.file_bytes / 2
                    && to_u64(active.entries.len()) < self.file_bytes / PER_UNIT / 2
            });
            if hit && room && self.reinsert(&*log, location.entry).is_ok_and(|done| done) {
                survivors += 1;
            }
        }
        self.shared.counters.disk_reinserted.add(survivors);
        self.shared.counters.disk_evictions.add(to_u64(all) - survivors);
        self.logs(|logs| drop(logs.remove(&number)));
        let len = log.len().unwrap_or(0);
        let _ = self.shared.bytes.fetch_update(Relaxed, Relaxed, |bytes| Some(bytes.saturating_sub(len)));
        if let Err(error) = self.device.remove(number)
            && error.kind() != io::ErrorKind::NotFound
        {
            self.note_error(&error);
        }
        true
    }

    fn reinsert(&mut self, log: &dyn Log, entry: RecordEntry) -> io::Result<bool> {
        let end = entry.at.saturating_add(entry.record_len());
        let Some(head) = RecordHead::read(log, entry.at, end)?.filter(|head| head.entry == entry) else {
            return Ok(false);
        };
        let Some(data) = head.data(log, &self.shared.gauge)? else { return Ok(false) };
        let Some(bytes) = encode_head(entry.id, &head.names, entry.offset, &data) else { return Ok(false) };
        self.append(entry, &bytes, &data)?;
        Ok(true)
    }

    /// Ends the active log with a footer. Without it, the next start walks the records.
    fn seal(&mut self) {
        let Some(active) = self.active.take() else { return };
        let footer = footer(&active.entries, active.end);
        let sealed = active
            .log
            .write_at(&footer, active.end)
            .and_then(|()| active.log.truncate(active.end + to_u64(footer.len())));
        match sealed {
            Ok(()) => drop(self.shared.bytes.fetch_add(to_u64(footer.len()), Relaxed)),
            Err(error) => self.note_error(&error),
        }
    }

    fn recover(&mut self) -> io::Result<()> {
        let mut numbers = self.device.numbers()?;
        numbers.sort_unstable();
        let newest = numbers.last().copied();
        // New logs get higher numbers than all existing ones, even unreadable ones.
        self.next_number = newest.map_or(1, |newest| newest.saturating_add(1));
        for number in numbers {
            let opened =
                self.device.open(number).and_then(|log| Ok((read_contents(&*log)?, log.len()?, log)));
            let (found, len, log) = match opened {
                Ok((Some(found), len, log)) => (found, len, log),
                Ok((None, ..)) => {
                    self.shared.counters.disk_discarded.add(1);
                    if let Err(error) = self.device.remove(number) {
                        self.note_error(&error);
                    }
                    continue;
                }
                // A file that cannot be read now may be readable at the next start.
                Err(error) => {
                    self.shared.counters.disk_errors.add(1);
                    tracing::warn!(%error, number, "cache disk: a log cannot be read");
                    continue;
                }
            };
            self.shared.bytes.fetch_add(len, Relaxed);
            self.logs(|logs| drop(logs.insert(number, log.clone())));
            for entry in &found.entries {
                let within = entry.at >= FILE_HEAD
                    && entry.at.checked_add(entry.record_len()).is_some_and(|end| end <= found.end)
                    && entry.offset.checked_add(entry.len.into()).is_some();
                match entry.len {
                    _ if !within => {}
                    // This record purges all earlier units of the object.
                    0 => drop(self.shared.index.forget_object(entry.id)),
                    _ => self.shared.index.insert(Location { log: number, entry: *entry }),
                }
            }
            if Some(number) == newest {
                self.continue_log(number, log, found, len);
            }
        }
        self.evict_to_limit();
        Ok(())
    }

    /// Continues the newest log if it has room, so that many restarts do not create many files.
    fn continue_log(&mut self, number: u64, log: Arc<dyn Log>, found: Contents, len: u64) {
        if found.end >= self.file_bytes / 2 || log.truncate(found.end).is_err() {
            return;
        }
        self.shared.bytes.fetch_sub(len - found.end, Relaxed);
        self.active = Some(Active { number, log, entries: found.entries, end: found.end });
    }

    fn logs(&self, change: impl FnOnce(&mut std::collections::BTreeMap<u64, Arc<dyn Log>>)) {
        change(&mut self.shared.logs.write().unwrap_or_else(PoisonError::into_inner));
    }
}
