//! Fetch tasks. They run at the pace of storage, and end when no reader waits for more.

use crate::{
    Outcome, ReadObserver,
    disk::DiskRange,
    fetch::ranges::group,
    memory::{
        fill::Fill,
        gauge::{to_u64, to_usize},
        object::Object,
        pending::PendingUnit,
    },
    store::{CompleteUnit, Store},
};
use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};
use latemux_storage::{ReadRequest, Storage, StorageError};
use std::{collections::VecDeque, ops::Range, sync::Arc, time::Duration};
use tokio::time::timeout;

/// The task of one fill. However it ends, even by a panic, no reader is left waiting.
pub(crate) struct Filler {
    store: Arc<Store>,
    source: Arc<dyn Storage>,
    object: Arc<Object>,
    fill: Arc<Fill>,
    /// Units still to come, in order.
    remaining: VecDeque<Arc<PendingUnit>>,
    /// Units that the current response has completed so far.
    done: Vec<CompleteUnit>,
    /// The observer of the read that started the fetch. It has been told of the planned request.
    observer: Option<Arc<dyn ReadObserver>>,
}

impl Filler {
    pub(crate) fn new(
        store: Arc<Store>,
        source: Arc<dyn Storage>,
        object: Arc<Object>,
        fill: Arc<Fill>,
        pending_units: Vec<Arc<PendingUnit>>,
        observer: Option<Arc<dyn ReadObserver>>,
    ) -> Self {
        store.fetches.begin();
        Self { store, source, object, fill, remaining: pending_units.into(), done: Vec::new(), observer }
    }

    /// Reads the units that `disk_ranges` cover from disk, in this order. Then reads the rest from
    /// storage, including units that the disk failed to provide.
    pub(crate) async fn run(mut self, disk_ranges: Vec<DiskRange>) {
        self.fill_from_disk(disk_ranges).await;
        self.done.clear();
        while !self.remaining.is_empty() && !self.give_up_unless_awaited() {
            let response = self.fill_from_storage().await;
            if let Err(error) = response {
                self.store.counters.storage_errors.add(1);
                self.fail(&error);
            }
            // A unit is written to disk only if its response was correct as a whole or broke off.
            for done in std::mem::take(&mut self.done) {
                if let (Some(disk), Some(bytes)) = (&self.store.disk, done.bytes) {
                    disk.write(&self.object, done.start, bytes, &Arc::downgrade(&done.unit));
                }
            }
        }
    }

    async fn fill_from_disk(&mut self, disk_ranges: Vec<DiskRange>) {
        for disk_range in disk_ranges {
            let Some(pending) = self.remaining.front().cloned() else { return };
            if self.give_up_unless_awaited() {
                return;
            }
            let _reserved = self.store.reserve(pending.len());
            let disk = self.store.disk.as_ref().filter(|_| disk_range.range == pending.range);
            let Some(disk) = disk else { return };
            let Some(bytes) = disk.read(&self.object, &disk_range).await else { return };
            self.complete(&pending, bytes);
        }
    }

    /// Fetches the next units that fit into one request. An error concerns all units that are left.
    async fn fill_from_storage(&mut self) -> Result<(), StorageError> {
        let ranges = self.remaining.iter().map(|pending| pending.range.clone()).collect();
        let Some(run) = group(ranges, self.store.config.bridge).into_iter().next() else { return Ok(()) };
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(()) };
        let whole = first.start..last.end;
        // Clones, because `self` changes while they are in use.
        let store = self.store.clone();
        let object = self.object.clone();
        let body = self.request(&whole).await?;

        // Room is acquired only now that storage sends. A fetch that holds room therefore makes
        // progress, and fetches that wait for room get it. While a unit's frames are joined, the
        // unit exists twice; units to be written to disk are held until the end.
        let room = run.iter().map(|range| range.end - range.start).max().unwrap_or(0) * 2;
        let held = if store.disk.is_some() { whole.end - whole.start } else { 0 };
        let limit = store.config.storage_timeout;
        let key = object.key.as_str();
        let filling = timed(limit, key, store.room.acquire(room + held)).await?;

        let observer = self.observer.clone();
        let mut frames =
            SourceBody { store: &store, observer, key, body, at: whole.start, rest: Bytes::new() };
        for _ in run {
            let Some(pending) = self.remaining.front().cloned() else { break };
            let reserved = store.reserve(room);
            // The buffer is taken right after room was made, so that the freed buffer is reused.
            let buffer = store.gauge.buffer(to_usize(pending.len()));
            match frames.fill(&pending).await {
                Ok(()) => {}
                Err(Broken::Storage(StorageError::BadResponse { detail, .. })) => {
                    return Err(self.discard_response(detail));
                }
                Err(Broken::Storage(error)) => return Err(error),
                Err(Broken::Short) => {
                    return Err(self.discard_response(format!("{whole:?} ended at {}", frames.at)));
                }
            }
            let bytes = store.gauge.unit(pending.whole(buffer));
            drop(reserved);
            self.complete(&pending, bytes);
            if !self.remaining.is_empty() && self.give_up_unless_awaited() {
                return Ok(());
            }
        }
        drop(filling);
        // Reading to the end lets the connection be reused. A response that is too long was not the
        // right one. Other errors do not matter here, because all bytes have arrived.
        if matches!(frames.end().await, Ok(false)) {
            return Err(self.discard_response(format!("more bytes than {whole:?}")));
        }
        Ok(())
    }

    async fn request(
        &self,
        whole: &Range<u64>,
    ) -> Result<BoxStream<'static, Result<Bytes, StorageError>>, StorageError> {
        let object = &self.object;
        let key = object.key.as_str();
        self.store.counters.storage_requests.add(1);
        if let Some(observer) = self.observer.as_ref().filter(|_| self.fill.from_disk) {
            observer.on_outcome(Outcome::Filled);
            observer.on_storage_request();
        }
        let read = self.source.read(ReadRequest::range(&object.key, whole.clone()).pinned(&object.version));
        let read = timed(self.store.config.storage_timeout, key, read).await??;
        if read.range != *whole {
            return Err(bad_answer(key, format!("requested {whole:?}, got {:?}", read.range)));
        }
        if read.object.version != object.version {
            return Err(bad_answer(key, format!("got version {:?}", read.object.version)));
        }
        Ok(read.body)
    }

    fn complete(&mut self, pending: &Arc<PendingUnit>, bytes: Bytes) {
        self.remaining.pop_front();
        let unit = self.store.keep(&self.object, pending, &bytes);
        let bytes = self.store.disk.is_some().then_some(bytes);
        self.done.push(CompleteUnit { start: pending.range.start, unit, bytes });
    }

    /// Returns true if no reader waits. All units that are left are then given up, and a later
    /// reader finds gaps and fetches them anew.
    fn give_up_unless_awaited(&mut self) -> bool {
        let mut extents = self.object.extents();
        if self.fill.should_continue() {
            return false;
        }
        for pending in &self.remaining {
            extents.arrived(pending, None);
        }
        drop(extents);
        if !self.remaining.is_empty() {
            self.store.counters.abandoned.add(1);
        }
        // A reader may have got hold of a unit in the meantime, and must not wait for ever.
        for pending in std::mem::take(&mut self.remaining) {
            pending.finish(Err(unavailable(&self.object, "the fetch was given up because no reader waited")));
        }
        true
    }

    /// Removes the units that an incorrect response brought.
    fn discard_response(&mut self, detail: String) -> StorageError {
        self.store.forget(&self.object, &std::mem::take(&mut self.done));
        bad_answer(self.object.key.as_str(), detail)
    }

    fn fail(&mut self, error: &StorageError) {
        if matches!(error, StorageError::Changed(_)) {
            self.done.clear();
            self.store.purge(&self.object);
        }
        // Set before the units are removed, so that a reader who finds a gap finds the error.
        self.fill.fail(error);
        let mut extents = self.object.extents();
        for pending in &self.remaining {
            extents.arrived(pending, None);
        }
        drop(extents);
        for pending in std::mem::take(&mut self.remaining) {
            pending.finish(Err(error.clone()));
        }
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.store.fetches.end();
        if !self.remaining.is_empty() {
            self.fail(&unavailable(&self.object, "the fetch ended unexpectedly"));
        }
    }
}

/// A body from storage, cut where units end.
struct SourceBody<'a> {
    store: &'a Store,
    observer: Option<Arc<dyn ReadObserver>>,
    key: &'a str,
    body: BoxStream<'static, Result<Bytes, StorageError>>,
    /// Position of the next byte in the object.
    at: u64,
    /// The unread rest of the last frame.
    rest: Bytes,
}

enum Broken {
    Storage(StorageError),
    /// The body ended early, without an error.
    Short,
}

impl SourceBody<'_> {
    /// Passes the bytes of a unit on as they arrive. Cached bytes before it are skipped.
    async fn fill(&mut self, pending: &PendingUnit) -> Result<(), Broken> {
        while self.at < pending.range.end {
            let before = self.at < pending.range.start;
            let (at, frame) = self.next(if before { pending.range.start } else { pending.range.end }).await?;
            if before {
                self.store.counters.reread_bytes.add(to_u64(frame.len()));
            } else {
                pending.push(at, frame);
            }
        }
        Ok(())
    }

    /// Returns the next bytes, up to `until`, and their position.
    async fn next(&mut self, until: u64) -> Result<(u64, Bytes), Broken> {
        while self.rest.is_empty() {
            let next = timed(self.store.config.storage_timeout, self.key, self.body.next()).await;
            self.rest = next.map_err(Broken::Storage)?.ok_or(Broken::Short)?.map_err(Broken::Storage)?;
            let bytes = to_u64(self.rest.len());
            self.store.counters.storage_bytes.add(bytes);
            if let Some(observer) = &self.observer {
                observer.on_storage_bytes(bytes);
            }
        }
        let len = to_usize(until - self.at).min(self.rest.len());
        let start = self.at;
        let frame = self.rest.split_to(len);
        self.at += to_u64(len);
        Ok((start, frame))
    }

    /// Returns true if the body has ended.
    async fn end(&mut self) -> Result<bool, StorageError> {
        while self.rest.is_empty() {
            match timed(self.store.config.storage_timeout, self.key, self.body.next()).await? {
                None => return Ok(true),
                Some(frame) => self.rest = frame?,
            }
        }
        Ok(false)
    }
}

async fn timed<T>(limit: Duration, key: &str, wait: impl Future<Output = T>) -> Result<T, StorageError> {
    let timed_out = |_| StorageError::TimedOut { key: key.to_owned(), after: limit };
    timeout(limit, wait).await.map_err(timed_out)
}

fn bad_answer(key: &str, detail: String) -> StorageError {
    StorageError::BadResponse { key: key.to_owned(), detail }
}

fn unavailable(object: &Object, detail: &str) -> StorageError {
    StorageError::Unavailable { key: object.key.to_string(), detail: detail.to_owned() }
}
