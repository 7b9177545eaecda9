//! Fetches: tasks that belong to no reader. They go on at the pace of storage, whatever pace readers have, and end when
//! nobody waits for more.

use crate::{
    Outcome, Witness,
    cell::Cell,
    core::Core,
    disk::Piece,
    extents::{Unit, group},
    gauge::{narrow, wide},
    object::Object,
};
use bytes::Bytes;
use futures_util::{StreamExt, stream::BoxStream};
use latemux_storage::{Storage, StorageError, Want};
use std::{
    collections::VecDeque,
    ops::Range,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::time::timeout;

/// What readers know of a fetch.
#[derive(Debug)]
pub(crate) struct Fill {
    /// From the first to the last byte it brings.
    pub(crate) range: Range<u64>,
    pub(crate) from_disk: bool,
    /// It brings more than its first reader wants, for those to come: it goes on without any.
    for_others: bool,
    /// Readers that still want something of it.
    readers: AtomicUsize,
    failed: OnceLock<StorageError>,
}

impl Fill {
    pub(crate) fn new(range: Range<u64>, from_disk: bool, for_others: bool) -> Arc<Self> {
        let (readers, failed) = (AtomicUsize::new(0), OnceLock::new());
        Arc::new(Self { range, from_disk, for_others, readers, failed })
    }

    pub(crate) fn is_awaited(&self) -> bool {
        self.readers.load(SeqCst) > 0
    }

    /// Why it ended before it was complete.
    pub(crate) fn failure(&self) -> Option<&StorageError> {
        self.failed.get()
    }
}

/// A reader's interest in a fetch. Taken with the object's extents locked, so that a fetch about to give up sees it.
#[derive(Debug)]
pub(crate) struct Interest(pub(crate) Arc<Fill>);

impl Interest {
    pub(crate) fn new(fill: Arc<Fill>) -> Self {
        fill.readers.fetch_add(1, SeqCst);
        Self(fill)
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, SeqCst);
    }
}

/// The task. However it ends (a panic, a runtime that shuts down), nobody is left waiting.
pub(crate) struct Filler {
    core: Arc<Core>,
    source: Arc<dyn Storage>,
    object: Arc<Object>,
    fill: Arc<Fill>,
    /// Units to come, in order.
    left: VecDeque<Arc<Cell>>,
    /// What the answer at hand brought so far.
    done: Vec<Done>,
    /// The reader it was begun for, which knows already of a request that was planned.
    witness: Option<Arc<dyn Witness>>,
}

/// A unit that is complete.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) start: u64,
    pub(crate) unit: Arc<Unit>,
    /// To be written to disk.
    pub(crate) bytes: Option<Bytes>,
}

impl Filler {
    pub(crate) fn new(
        core: Arc<Core>,
        source: Arc<dyn Storage>,
        object: Arc<Object>,
        fill: Arc<Fill>,
        cells: Vec<Arc<Cell>>,
        witness: Option<Arc<dyn Witness>>,
    ) -> Self {
        core.fetches.begun();
        Self { core, source, object, fill, left: cells.into(), done: Vec::new(), witness }
    }

    /// Reads the units that `pieces` of the disk hold, in this order; then, and where the disk fails, from storage.
    pub(crate) async fn run(mut self, pieces: Vec<Piece>) {
        self.fill_from_disk(pieces).await;
        self.done.clear();
        while !self.left.is_empty() && !self.given_up() {
            let answer = self.fill_from_storage().await;
            if let Err(error) = answer {
                self.core.counters.storage_errors.add(1);
                self.fail(&error);
            }
            // Only what came in an answer that was right as a whole, or broke off, is written.
            for done in std::mem::take(&mut self.done) {
                self.core.write_to_disk(&self.object, done);
            }
        }
    }

    async fn fill_from_disk(&mut self, pieces: Vec<Piece>) {
        for piece in pieces {
            let Some(cell) = self.left.front().cloned() else { return };
            if self.given_up() {
                return;
            }
            let _reserved = self.core.reserve(cell.len());
            let Some(bytes) = self.core.read_from_disk(&self.object, &piece, &cell.range).await else {
                return;
            };
            self.complete(&cell, bytes);
        }
    }

    /// Fetches the next units that can be had in one request. An error concerns all that is left.
    async fn fill_from_storage(&mut self) -> Result<(), StorageError> {
        let ranges = self.left.iter().map(|cell| cell.range.clone()).collect();
        let Some(run) = group(ranges, self.core.config.bridge).into_iter().next() else { return Ok(()) };
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return Ok(()) };
        let whole = first.start..last.end;
        // Its own, for `self` changes while they are in use.
        let (core, object) = (self.core.clone(), self.object.clone());
        let body = self.ask(&whole).await?;

        // Only now that storage sends: who holds room goes on, so that who waits for room gets some.
        // A unit is there twice for a moment, while its frames are put together; what is to be written stays to the end.
        let room = run.iter().map(|range| range.end - range.start).max().unwrap_or(0).saturating_mul(2);
        let held = if core.disk.is_some() { whole.end - whole.start } else { 0 };
        let (limit, key) = (core.config.storage_timeout, object.key.as_str());
        let filling = within(limit, key, core.filling.acquire(room.saturating_add(held))).await?;

        let witness = self.witness.clone();
        let mut frames = Frames { core: &core, witness, key, body, at: whole.start, over: Bytes::new() };
        for _ in run {
            let Some(cell) = self.left.front().cloned() else { break };
            let reserved = core.reserve(room);
            // What made room is used at once: later others' buffers would have come and gone.
            let buffer = core.gauge.buffer(narrow(cell.len()));
            match frames.fill(&cell).await {
                Ok(()) => {}
                Err(Broken::Storage(error)) => return Err(error),
                Err(Broken::Short) => return Err(self.take_back(format!("{whole:?} ended at {}", frames.at))),
            }
            let bytes = core.gauge.unit(cell.whole(buffer));
            drop(reserved);
            self.complete(&cell, bytes);
            if !self.left.is_empty() && self.given_up() {
                return Ok(());
            }
        }
        drop(filling);
        // Seeing the end lets the connection be used again. An answer that is too long was not the right one; what else
        // becomes of it is no matter, for the bytes are all here.
        if matches!(frames.end().await, Ok(false)) {
            return Err(self.take_back(format!("more bytes than {whole:?}")));
        }
        Ok(())
    }

    async fn ask(
        &self,
        whole: &Range<u64>,
    ) -> Result<BoxStream<'static, Result<Bytes, StorageError>>, StorageError> {
        let (object, key) = (&self.object, self.object.key.as_str());
        self.core.counters.storage_requests.add(1);
        if let Some(witness) = self.witness.as_ref().filter(|_| self.fill.from_disk) {
            witness.found(Outcome::Filled);
            witness.asks_storage();
        }
        let read = self.source.read(&object.key, Want::Range(whole.clone()), Some(&object.version));
        let read = within(self.core.config.storage_timeout, key, read).await??;
        if read.range != *whole {
            return Err(bad_answer(key, format!("{whole:?} was asked for, {:?} answered", read.range)));
        }
        if read.object.version != object.version {
            return Err(bad_answer(key, format!("{:?} was answered", read.object.version)));
        }
        Ok(read.body)
    }

    fn complete(&mut self, cell: &Arc<Cell>, bytes: Bytes) {
        self.left.pop_front();
        let unit = self.core.keep(&self.object, cell, &bytes);
        let bytes = self.core.disk.is_some().then_some(bytes);
        self.done.push(Done { start: cell.range.start, unit, bytes });
    }

    /// Whether nobody waits; if so, nothing is left to do. A reader that comes later finds gaps and fetches anew.
    fn given_up(&mut self) -> bool {
        let mut extents = self.object.extents();
        if self.fill.is_awaited() || self.fill.for_others {
            return false;
        }
        for cell in &self.left {
            extents.arrived(cell, None);
        }
        drop(extents);
        if !self.left.is_empty() {
            self.core.counters.abandoned.add(1);
        }
        // Nobody reads these; yet who got hold of one in the meantime must not wait for ever.
        for cell in std::mem::take(&mut self.left) {
            cell.finish(Err(unavailable(&self.object, "the read was given up")));
        }
        true
    }

    /// Forgets what an answer brought that turned out to be none.
    fn take_back(&mut self, detail: String) -> StorageError {
        self.core.forget(&self.object, &std::mem::take(&mut self.done));
        bad_answer(self.object.key.as_str(), detail)
    }

    fn fail(&mut self, error: &StorageError) {
        if matches!(error, StorageError::Changed(_)) {
            self.done.clear();
            self.core.purge(&self.object);
        }
        // Before the units go: who finds a gap then also finds why.
        let _ = self.fill.failed.set(error.clone());
        let mut extents = self.object.extents();
        for cell in &self.left {
            extents.arrived(cell, None);
        }
        drop(extents);
        for cell in std::mem::take(&mut self.left) {
            cell.finish(Err(error.clone()));
        }
    }
}

impl Drop for Filler {
    fn drop(&mut self) {
        self.core.fetches.ended();
        if !self.left.is_empty() {
            self.fail(&unavailable(&self.object, "the read ended before its time"));
        }
    }
}

/// A body, cut where units end.
struct Frames<'a> {
    core: &'a Core,
    witness: Option<Arc<dyn Witness>>,
    key: &'a str,
    body: BoxStream<'static, Result<Bytes, StorageError>>,
    /// Where the next byte lies in the object.
    at: u64,
    /// What of the last frame is left.
    over: Bytes,
}

enum Broken {
    Storage(StorageError),
    /// It ended without a word.
    Short,
}

impl Frames<'_> {
    /// Hands a unit's bytes on as they come; those before it are at hand already.
    async fn fill(&mut self, cell: &Cell) -> Result<(), Broken> {
        while self.at < cell.range.end {
            let before = self.at < cell.range.start;
            let (at, frame) = self.next(if before { cell.range.start } else { cell.range.end }).await?;
            if before {
                self.core.counters.reread_bytes.add(wide(frame.len()));
            } else {
                cell.push(at, frame);
            }
        }
        Ok(())
    }

    /// The next bytes and where they start, not beyond `until`.
    async fn next(&mut self, until: u64) -> Result<(u64, Bytes), Broken> {
        while self.over.is_empty() {
            let next = within(self.core.config.storage_timeout, self.key, self.body.next()).await;
            self.over = next.map_err(Broken::Storage)?.ok_or(Broken::Short)?.map_err(Broken::Storage)?;
            let bytes = wide(self.over.len());
            self.core.counters.storage_bytes.add(bytes);
            if let Some(witness) = &self.witness {
                witness.storage_gave(bytes);
            }
        }
        let len = narrow(until - self.at).min(self.over.len());
        let (start, frame) = (self.at, self.over.split_to(len));
        self.at += wide(len);
        Ok((start, frame))
    }

    /// Whether this is the end of the body.
    async fn end(&mut self) -> Result<bool, StorageError> {
        while self.over.is_empty() {
            match within(self.core.config.storage_timeout, self.key, self.body.next()).await? {
                None => return Ok(true),
                Some(frame) => self.over = frame?,
            }
        }
        Ok(false)
    }
}

async fn within<T>(limit: Duration, key: &str, wait: impl Future<Output = T>) -> Result<T, StorageError> {
    let timed_out = |_| StorageError::TimedOut { key: key.to_owned(), after: limit };
    timeout(limit, wait).await.map_err(timed_out)
}

fn bad_answer(key: &str, detail: String) -> StorageError {
    StorageError::BadAnswer { key: key.to_owned(), detail }
}

fn unavailable(object: &Object, detail: &str) -> StorageError {
    StorageError::Unavailable { key: object.key.to_string(), detail: detail.to_owned() }
}
