//! The extents of one version of an object. Each is a unit in memory or in flight; none overlap.

use crate::memory::{fill::Fill, pending::PendingUnit, s3fifo::HitCount};
use bytes::Bytes;
use std::{collections::BTreeMap, ops::Range, sync::Arc};

#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) hits: HitCount,
    /// The fill that brought the unit. While it has readers, this unit may be wanted too.
    pub(crate) fill: Arc<Fill>,
}

#[derive(Debug)]
pub(crate) enum State {
    Ready { bytes: Bytes, unit: Arc<Unit> },
    Filling(Arc<PendingUnit>),
}

#[derive(Debug)]
struct Extent {
    end: u64,
    state: State,
}

#[derive(Debug, Default)]
pub(crate) struct Extents(BTreeMap<u64, Extent>);

impl Extents {
    /// Returns the parts of a range in order, with their state, or `None` for a gap. A part is
    /// clipped to the range; the first number is the start of the whole extent.
    pub(crate) fn parts(&self, range: Range<u64>) -> impl Iterator<Item = (u64, Range<u64>, Option<&State>)> {
        let before = self.0.range(..range.start).next_back().filter(|(_, extent)| extent.end > range.start);
        let mut extents = before.into_iter().chain(self.0.range(range.start..range.end)).peekable();
        let mut at = range.start;
        std::iter::from_fn(move || {
            if at >= range.end {
                return None;
            }
            let from = at;
            let part = match extents.peek() {
                Some((start, extent)) if **start <= at => {
                    at = extent.end.min(range.end);
                    let part = (**start, from..at, Some(&extent.state));
                    extents.next();
                    part
                }
                next => {
                    at = next.map_or(range.end, |(start, _)| **start);
                    (from, from..at, None)
                }
            };
            Some(part)
        })
    }

    /// Adds a unit in flight. Its range must be a gap.
    pub(crate) fn expect(&mut self, pending: Arc<PendingUnit>) {
        debug_assert!(
            self.parts(pending.range.clone()).all(|(_, _, state)| state.is_none()),
            "units overlap"
        );
        self.0.insert(pending.range.start, Extent { end: pending.range.end, state: State::Filling(pending) });
    }

    /// Completes a unit in flight: keeps it, or removes it. Returns false if it was not expected.
    pub(crate) fn arrived(&mut self, pending: &Arc<PendingUnit>, kept: Option<(Bytes, Arc<Unit>)>) -> bool {
        let Some(extent) = self.0.get_mut(&pending.range.start) else { return false };
        if !matches!(&extent.state, State::Filling(this) if Arc::ptr_eq(this, pending)) {
            return false;
        }
        match kept {
            Some((bytes, unit)) => extent.state = State::Ready { bytes, unit },
            None => drop(self.0.remove(&pending.range.start)),
        }
        true
    }

    /// Removes a unit and returns its bytes, which the caller drops without holding the lock.
    pub(crate) fn forget(&mut self, start: u64, unit: &Arc<Unit>) -> Option<Bytes> {
        let bytes = self.ready(start, unit)?;
        self.0.remove(&start);
        Some(bytes)
    }

    /// Returns the bytes of a unit if it is still complete in memory.
    pub(crate) fn ready(&self, start: u64, unit: &Arc<Unit>) -> Option<Bytes> {
        match &self.0.get(&start)?.state {
            State::Ready { bytes, unit: this } if Arc::ptr_eq(this, unit) => Some(bytes.clone()),
            _ => None,
        }
    }

    pub(crate) fn forget_ready(&mut self) -> Vec<Bytes> {
        self.0
            .extract_if(.., |_, extent| matches!(extent.state, State::Ready { .. }))
            .filter_map(|(_, extent)| match extent.state {
                State::Ready { bytes, .. } => Some(bytes),
                State::Filling(_) => None,
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit() -> (Bytes, Arc<Unit>) {
        (Bytes::new(), Arc::new(Unit { hits: HitCount::default(), fill: Fill::new(0..0, false, false) }))
    }

    fn put(extents: &mut Extents, range: Range<u64>) {
        let pending = Arc::new(PendingUnit::new(range.clone(), Fill::new(range, false, false)));
        extents.expect(pending.clone());
        assert!(extents.arrived(&pending, Some(unit())));
        assert!(!extents.arrived(&pending, Some(unit())), "arrives once");
    }

    fn shown(extents: &Extents, range: Range<u64>) -> Vec<(Range<u64>, bool)> {
        extents.parts(range).map(|(_, part, state)| (part, state.is_some())).collect()
    }

    #[test]
    fn parts_are_extents_and_the_gaps_between() {
        let mut extents = Extents::default();
        assert_eq!(shown(&extents, 5..9), [(5..9, false)]);
        put(&mut extents, 10..20);
        put(&mut extents, 20..30);
        put(&mut extents, 40..50);
        assert_eq!(shown(&extents, 0..10), [(0..10, false)]);
        assert_eq!(shown(&extents, 12..13), [(12..13, true)]);
        assert_eq!(shown(&extents, 15..20), [(15..20, true)]);
        assert_eq!(
            shown(&extents, 5..60),
            [
                (5..10, false),
                (10..20, true),
                (20..30, true),
                (30..40, false),
                (40..50, true),
                (50..60, false)
            ]
        );
        assert_eq!(shown(&extents, 25..45), [(25..30, true), (30..40, false), (40..45, true)]);
        assert_eq!(shown(&extents, 30..40), [(30..40, false)]);
        assert_eq!(shown(&extents, 7..7), []);
    }
}
