//! Units that found no room in the queue to the disk: what memory holds of them is written when the disk has time, or at the end.

use crate::memory::{
    extents::Unit,
    gauge::{Gauge, to_u64},
    object::Object,
};
use bytes::Bytes;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

/// What one of them takes in memory at most besides the unit: what is left of that, and of an object of its own, when both are gone.
const ENTRY_OVERHEAD: u64 = 512;
/// So many wait before those are looked for that memory has lost.
const FIRST_SCAN: usize = 32;

/// In the order they came. None of them is kept in memory for the sake of this.
#[derive(Debug)]
pub(super) struct Backlog {
    state: Mutex<State>,
    gauge: Arc<Gauge>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<BacklogEntry>,
    /// Lost ones are looked for when there are so many: twice as many as were left the last time, so that each is looked at
    /// but a few times.
    scan_at: usize,
}

#[derive(Debug)]
struct BacklogEntry {
    object: Weak<Object>,
    start: u64,
    unit: Weak<Unit>,
}

/// A unit that memory still holds.
#[derive(Debug)]
pub(super) struct BacklogUnit {
    pub(super) object: Arc<Object>,
    pub(super) start: u64,
    pub(super) bytes: Bytes,
}

/// What became of the next one.
#[derive(Debug)]
pub(super) enum NextUnit {
    Unit(BacklogUnit),
    /// Memory has lost it.
    Lost,
    Empty,
}

impl Backlog {
    pub(super) fn new(gauge: Arc<Gauge>) -> Self {
        Self { state: Mutex::default(), gauge }
    }

    /// Takes note of a unit; whether it is the only one, and how many turned out to be lost.
    pub(super) fn push(&self, object: &Arc<Object>, start: u64, unit: &Weak<Unit>) -> (bool, u64) {
        let mut state = self.state();
        let mut lost = 0;
        if state.waiting.len() >= state.scan_at.max(FIRST_SCAN) {
            let before = state.waiting.len();
            state.waiting.retain(|waiting| waiting.unit.strong_count() > 0);
            lost = before - state.waiting.len();
            state.scan_at = state.waiting.len() * 2;
        }
        let first = state.waiting.is_empty();
        state.waiting.push_back(BacklogEntry { object: Arc::downgrade(object), start, unit: unit.clone() });
        drop(state);
        self.gauge.table_grew(ENTRY_OVERHEAD);
        self.gauge.table_shrank(to_u64(lost).saturating_mul(ENTRY_OVERHEAD));
        (first, to_u64(lost))
    }

    /// The one that waited longest.
    pub(super) fn pop(&self) -> NextUnit {
        let Some(BacklogEntry { object, start, unit }) = self.state().waiting.pop_front() else {
            return NextUnit::Empty;
        };
        self.gauge.table_shrank(ENTRY_OVERHEAD);
        let found = || {
            let (object, unit) = (object.upgrade()?, unit.upgrade()?);
            let bytes = object.extents().ready(start, &unit)?;
            Some(BacklogUnit { object, start, bytes })
        };
        found().map_or(NextUnit::Lost, NextUnit::Unit)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
