//! Table of the values on disk: their size, and the order of their last use.

use crate::memory::gauge::to_u64;
use std::collections::{BTreeMap, HashMap};

#[derive(Debug, Default)]
pub(super) struct Table {
    values: HashMap<u128, Slot>,
    /// Identifiers by the number of their last use.
    order: BTreeMap<u64, u128>,
    /// Number of the next use.
    next: u64,
    bytes: u64,
}

#[derive(Debug, Clone, Copy)]
struct Slot {
    cost: u64,
    used: u64,
}

impl Table {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn len(&self) -> u64 {
        to_u64(self.values.len())
    }

    pub(super) fn holds(&self, id: u128) -> bool {
        self.values.contains_key(&id)
    }

    /// Returns the bytes of a value, or 0 if it is unknown.
    pub(super) fn cost(&self, id: u128) -> u64 {
        self.values.get(&id).map_or(0, |slot| slot.cost)
    }

    /// Adds a value, just used.
    pub(super) fn insert(&mut self, id: u128, cost: u64) {
        self.remove(id);
        let used = self.next;
        self.next += 1;
        self.values.insert(id, Slot { cost, used });
        self.order.insert(used, id);
        self.bytes += cost;
    }

    pub(super) fn used(&mut self, id: u128) {
        if let Some(Slot { cost, .. }) = self.values.get(&id).copied() {
            self.insert(id, cost);
        }
    }

    /// Removes a value. Returns true if it was known.
    pub(super) fn remove(&mut self, id: u128) -> bool {
        let Some(slot) = self.values.remove(&id) else { return false };
        self.order.remove(&slot.used);
        self.bytes -= slot.cost;
        true
    }

    /// Returns the least recently used value, except `but`.
    pub(super) fn oldest(&self, but: Option<u128>) -> Option<u128> {
        self.order.values().copied().find(|id| Some(*id) != but)
    }
}
