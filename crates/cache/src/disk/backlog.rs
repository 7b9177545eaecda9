//! Units that found no room in the queue to the disk. Those that are still in memory are written
//! when the disk is idle, or when the cache closes.

use crate::memory::{
    extents::Unit,
    gauge::{Gauge, to_u64},
    lock::lock,
    object::Object,
};
use bytes::Bytes;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, Weak},
};

/// Upper bound of the memory that one entry takes besides its unit: its own fields, and what weak
/// references keep allocated after the unit and its object are gone.
const ENTRY_OVERHEAD: u64 = 512;
/// Number of entries at which evicted units are first removed from the backlog.
const FIRST_SCAN: usize = 32;

/// Entries in the order they arrived. The backlog keeps no unit in memory.
#[derive(Debug)]
pub(super) struct Backlog {
    state: Mutex<State>,
    gauge: Arc<Gauge>,
}

#[derive(Debug, Default)]
struct State {
    waiting: VecDeque<BacklogEntry>,
    /// Number of entries at which evicted units are removed next. It is twice the number left over
    /// by the last scan, so each entry is scanned only a few times.
    scan_at: usize,
}

#[derive(Debug)]
struct BacklogEntry {
    object: Weak<Object>,
    start: u64,
    unit: Weak<Unit>,
}

/// A unit that is still in memory.
#[derive(Debug)]
pub(super) struct BacklogUnit {
    pub(super) object: Arc<Object>,
    pub(super) start: u64,
    pub(super) bytes: Bytes,
}

/// The next entry of the backlog.
#[derive(Debug)]
pub(super) enum NextUnit {
    Unit(BacklogUnit),
    /// The unit has been evicted from memory.
    Lost,
    Empty,
}

impl Backlog {
    pub(super) fn new(gauge: Arc<Gauge>) -> Self {
        Self { state: Mutex::default(), gauge }
    }

    /// Adds a unit. Returns whether the backlog was empty, and the number of removed entries.
    pub(super) fn push(&self, object: &Arc<Object>, start: u64, unit: &Weak<Unit>) -> (bool, u64) {
        let mut state = lock(&self.state);
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
        self.gauge.table_shrank(to_u64(lost) * ENTRY_OVERHEAD);
        (first, to_u64(lost))
    }

    /// Removes the entry that waited longest.
    pub(super) fn pop(&self) -> NextUnit {
        let Some(BacklogEntry { object, start, unit }) = lock(&self.state).waiting.pop_front() else {
            return NextUnit::Empty;
        };
        self.gauge.table_shrank(ENTRY_OVERHEAD);
        let found = || {
            let object = object.upgrade()?;
            let unit = unit.upgrade()?;
            let bytes = object.extents().ready(start, &unit)?;
            Some(BacklogUnit { object, start, bytes })
        };
        found().map_or(NextUnit::Lost, NextUnit::Unit)
    }
}
