//! The body of a read through the cache. It looks up one unit at a time and holds at most one.

use crate::{
    Outcome, ReadObserver,
    fetch::plan::{ByteSource, Lookup, look_up, plan},
    memory::{
        fill::Interest,
        gauge::{to_u64, to_usize},
        object::Object,
        pending::PendingUnit,
    },
    store::Store,
};
use bytes::Bytes;
use latemux_storage::{
    Storage, StorageError,
    client::{call_on_behalf_of, current_client},
};
use std::{ops::Range, sync::Arc};

pub(crate) struct RangeBody {
    store: Arc<Store>,
    source: Arc<dyn Storage>,
    object: Arc<Object>,
    /// Position of the next byte that the reader gets.
    position: u64,
    end: u64,
    /// Up to this position, all bytes were cached, in flight or requested when the range was last
    /// planned.
    planned: u64,
    /// The reader's interest in fetches that bring bytes from `position` on.
    interests: Vec<Interest>,
    /// The unit whose bytes the reader waits for.
    pending: Option<Arc<PendingUnit>>,
    /// Bytes that were found but not passed on yet.
    ready: Option<(Bytes, ByteSource)>,
    /// The first frame, which is waited for before the response is returned.
    first: Option<Bytes>,
    observer: Option<Arc<dyn ReadObserver>>,
    /// The client whose turn it is when a fetch waits to be sent.
    client: u64,
}

impl RangeBody {
    /// Creates the body of a range that is not empty, and starts the fetches it needs.
    pub(crate) fn new(
        store: &Arc<Store>,
        source: &Arc<dyn Storage>,
        object: Arc<Object>,
        range: Range<u64>,
        reach: Option<Range<u64>>,
        observer: Option<Arc<dyn ReadObserver>>,
    ) -> (Self, Outcome) {
        let mut body = Self {
            store: store.clone(),
            source: source.clone(),
            object,
            position: range.start,
            end: range.end,
            planned: range.start,
            interests: Vec::new(),
            pending: None,
            ready: None,
            first: None,
            observer,
            client: current_client(),
        };
        let outcome = body.plan(range.start, reach);
        (body, outcome)
    }

    /// Waits for the first bytes, or for the error that prevents them.
    pub(crate) async fn open(&mut self) -> Result<(), StorageError> {
        self.first = Some(self.frame().await?);
        Ok(())
    }

    /// Returns the next bytes, or `None` at the end.
    pub(crate) async fn next(mut self) -> Result<Option<(Bytes, Self)>, StorageError> {
        let frame = match self.first.take() {
            Some(frame) => frame,
            None if self.position >= self.end => return Ok(None),
            None => self.frame().await?,
        };
        Ok(Some((frame, self)))
    }

    /// Starts fetches for bytes that are missing from `from` on, as far as the window allows.
    fn plan(&mut self, from: u64, reach: Option<Range<u64>>) -> Outcome {
        let window = self.store.config.window;
        let range = from..self.end.min(self.position.saturating_add(window));
        let size = self.object.version.size;
        let is_usable = |reach: &Range<u64>| {
            let contains = reach.start <= range.start && range.end <= reach.end;
            contains && reach.end <= size && reach.end - reach.start <= window
        };
        let reach = reach.filter(is_usable).unwrap_or_else(|| range.clone());
        let store = &self.store;
        let source = &self.source;
        let object = &self.object;
        let interests = &mut self.interests;
        let observer = self.observer.as_ref();
        let (to, outcome, pending) =
            call_on_behalf_of(self.client, || plan(store, source, object, range, reach, interests, observer));
        if from == self.position {
            self.pending = pending;
        }
        self.planned = self.planned.max(to);
        outcome
    }

    async fn frame(&mut self) -> Result<Bytes, StorageError> {
        loop {
            if let Some((bytes, from)) = self.ready.take() {
                let counters = &self.store.counters;
                let counter = match from {
                    ByteSource::Memory => &counters.bytes_memory,
                    ByteSource::Disk => &counters.bytes_disk,
                    ByteSource::Storage => &counters.bytes_storage,
                };
                counter.add(to_u64(bytes.len()));
                self.position += to_u64(bytes.len());
                self.drop_passed();
                return Ok(bytes);
            }
            match self.pending.take() {
                Some(pending) => {
                    let mut bytes = pending.bytes(self.position).await?;
                    let left = to_usize(self.end - self.position);
                    bytes.truncate(left);
                    self.ready = Some((bytes.clone(), ByteSource::fill(&pending.fill)));
                    if self.position + to_u64(bytes.len()) < pending.range.end.min(self.end) {
                        self.pending = Some(pending);
                    }
                }
                None => self.look_up_next()?,
            }
        }
    }

    /// Looks up the next byte and starts its fetch if it is missing. Once half of the planned bytes
    /// have been passed on, more are planned.
    fn look_up_next(&mut self) -> Result<(), StorageError> {
        let window = self.store.config.window;
        let runs_ahead = window > self.store.config.unit;
        if runs_ahead && self.planned < self.end && self.planned.saturating_sub(self.position) <= window / 2 {
            self.plan(self.planned.max(self.position), None);
            if self.pending.is_some() {
                return Ok(());
            }
        }
        match look_up(&self.object, self.position, self.end, &mut self.interests) {
            Some(Lookup::Ready(bytes, from)) => self.ready = Some((bytes, from)),
            Some(Lookup::Pending(pending)) => self.pending = Some(pending),
            None => {
                // The fetch that should have filled this gap failed.
                let ours = self.interests.iter().filter(|interest| interest.0.range.contains(&self.position));
                if let Some(error) = ours.filter_map(|interest| interest.0.failure()).next() {
                    return Err(error.clone());
                }
                self.plan(self.position, None);
            }
        }
        Ok(())
    }

    /// Drops the interest in fetches that end before the current position.
    fn drop_passed(&mut self) {
        let position = self.position;
        self.interests.retain(|interest| interest.0.range.end > position);
    }
}
