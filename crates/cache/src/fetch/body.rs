//! A reader's way through a range. Units are looked up as it gets to them, so a slow reader holds one at most.

use crate::{
    ReadObserver,
    fetch::plan::{Found, Known, Source, look, plan},
    memory::{
        fill::Interest,
        gauge::{narrow, wide},
        object::Object,
        pending::Cell,
    },
    store::Core,
};
use bytes::Bytes;
use latemux_storage::{Storage, StorageError};
use std::{ops::Range, sync::Arc};

/// No more than the range itself.
const NO_REACH: Range<u64> = 0..0;

pub(crate) struct Body {
    core: Arc<Core>,
    source: Arc<dyn Storage>,
    object: Arc<Object>,
    /// The next byte to give.
    at: u64,
    end: u64,
    /// Up to here everything was here, under way or asked for when last looked at.
    planned: u64,
    /// Fetches that bring what lies ahead.
    interests: Vec<Interest>,
    /// The unit it waits in.
    cell: Option<Arc<Cell>>,
    /// What it found last, not passed on yet.
    ready: Option<(Bytes, Source)>,
    /// The first frame, which comes with the answer.
    first: Option<Bytes>,
    observer: Option<Arc<dyn ReadObserver>>,
}

impl Body {
    /// Of a range that is not empty; the fetches it needs are under way.
    pub(crate) fn new(
        core: Arc<Core>,
        source: Arc<dyn Storage>,
        object: Arc<Object>,
        range: Range<u64>,
        reach: &Range<u64>,
        observer: Option<Arc<dyn ReadObserver>>,
    ) -> (Self, Found) {
        let (at, end) = (range.start, range.end);
        let mut body = Self {
            core,
            source,
            object,
            at,
            end,
            planned: at,
            interests: Vec::new(),
            cell: None,
            ready: None,
            first: None,
            observer,
        };
        let found = body.plan(at, reach);
        (body, found)
    }

    /// Waits for the first bytes, or for why there are none.
    pub(crate) async fn open(&mut self) -> Result<(), StorageError> {
        self.first = Some(self.frame().await?);
        Ok(())
    }

    /// The next bytes; `None` at the end.
    pub(crate) async fn next(mut self) -> Result<Option<(Bytes, Self)>, StorageError> {
        let frame = match self.first.take() {
            Some(frame) => frame,
            None if self.at >= self.end => return Ok(None),
            None => self.frame().await?,
        };
        Ok(Some((frame, self)))
    }

    /// Asks for what is missing from `from` on, as far as the reader may be ahead of itself.
    fn plan(&mut self, from: u64, reach: &Range<u64>) -> Found {
        let window = self.core.config.window;
        let range = from..self.end.min(self.at.saturating_add(window));
        let holds = reach.start <= range.start && range.end <= reach.end;
        let sound = reach.end <= self.object.version.size && reach.end.saturating_sub(reach.start) <= window;
        let reach = if holds && sound { reach.clone() } else { range.clone() };
        let (to, found, cell) = plan(
            &self.core,
            &self.source,
            &self.object,
            range,
            reach,
            &mut self.interests,
            self.observer.as_ref(),
        );
        if from == self.at {
            self.cell = cell;
        }
        self.planned = self.planned.max(to);
        found
    }

    async fn frame(&mut self) -> Result<Bytes, StorageError> {
        loop {
            if let Some((bytes, from)) = self.ready.take() {
                let counters = &self.core.counters;
                let counter = match from {
                    Source::Memory => &counters.bytes_memory,
                    Source::Disk => &counters.bytes_disk,
                    Source::Storage => &counters.bytes_storage,
                };
                counter.add(wide(bytes.len()));
                self.at += wide(bytes.len());
                self.pass();
                return Ok(bytes);
            }
            match self.cell.take() {
                Some(cell) => {
                    let mut bytes = cell.bytes(self.at).await?;
                    let left = narrow(self.end - self.at);
                    bytes.truncate(left);
                    self.ready = Some((bytes.clone(), Source::fill(&cell.fill)));
                    if self.at + wide(bytes.len()) < cell.range.end.min(self.end) {
                        self.cell = Some(cell);
                    }
                }
                None => self.look()?,
            }
        }
    }

    /// What is known of the next byte; asks for it, and for more once half of what was asked for is behind.
    fn look(&mut self) -> Result<(), StorageError> {
        let window = self.core.config.window;
        let runs_ahead = window > self.core.config.unit;
        if runs_ahead && self.planned < self.end && self.planned.saturating_sub(self.at) <= window / 2 {
            self.plan(self.planned.max(self.at), &NO_REACH);
            if self.cell.is_some() {
                return Ok(());
            }
        }
        match look(&self.object, self.at, self.end, &mut self.interests) {
            Some(Known::Here(bytes, from)) => self.ready = Some((bytes, from)),
            Some(Known::UnderWay(cell)) => self.cell = Some(cell),
            None => {
                // A fetch that failed left a gap: it failed for its readers, too.
                let ours = self.interests.iter().filter(|interest| interest.0.range.contains(&self.at));
                if let Some(error) = ours.filter_map(|interest| interest.0.failure()).next() {
                    return Err(error.clone());
                }
                self.plan(self.at, &NO_REACH);
            }
        }
        Ok(())
    }

    /// What lies behind is no longer of interest.
    fn pass(&mut self) {
        let at = self.at;
        self.interests.retain(|interest| interest.0.range.end > at);
    }
}
