//! A circuit breaker: it remembers that a back end fails, so that requests need not find out.

use latemux_quantity::millis;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::Instant;

/// Failures in a row after which a back end counts as failing.
const FAILURES: u32 = 5;
/// Pause between two probes of a failing back end.
pub(super) const PROBE_PAUSE: Duration = Duration::from_secs(5);

/// Failures of one back end.
#[derive(Debug)]
pub(super) struct Breaker {
    clock: Instant,
    in_a_row: AtomicU32,
    is_open: AtomicBool,
    /// Time of the next probe, in ms after `clock`.
    next_probe: AtomicU64,
}

/// A change that a result caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// The back end counts as failing from now on.
    Opened,
    /// The back end works again.
    Closed,
}

impl Breaker {
    pub(super) fn new() -> Self {
        Self {
            clock: Instant::now(),
            in_a_row: AtomicU32::new(0),
            is_open: AtomicBool::new(false),
            next_probe: AtomicU64::new(0),
        }
    }

    /// Returns true while the back end counts as failing.
    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Relaxed)
    }

    /// Notes a request that did not fail.
    pub(super) fn succeed(&self) -> Option<Change> {
        // Loads are cheaper than stores, and most requests succeed.
        if self.in_a_row.load(Relaxed) > 0 {
            self.in_a_row.store(0, Relaxed);
        }
        (self.is_open() && self.is_open.swap(false, Relaxed)).then_some(Change::Closed)
    }

    /// Notes a request that failed.
    pub(super) fn fail(&self) -> Option<Change> {
        if self.in_a_row.fetch_add(1, Relaxed) + 1 < FAILURES || self.is_open.swap(true, Relaxed) {
            return None;
        }
        self.next_probe.store(self.now() + millis(PROBE_PAUSE), Relaxed);
        Some(Change::Opened)
    }

    /// Returns true if the caller should probe the failing back end now. All others get false until
    /// the next probe is due.
    pub(super) fn take_probe(&self) -> bool {
        let now = self.now();
        let due = self.next_probe.load(Relaxed);
        let next = now + millis(PROBE_PAUSE);
        self.is_open() && now >= due && self.next_probe.compare_exchange(due, next, Relaxed, Relaxed).is_ok()
    }

    fn now(&self) -> u64 {
        millis(self.clock.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::{Breaker, Change, FAILURES, PROBE_PAUSE};

    #[tokio::test(start_paused = true)]
    async fn failures_in_a_row_open_it_and_one_success_closes_it() {
        let breaker = Breaker::new();
        for _ in 0..10 {
            assert!((1..FAILURES).all(|_| breaker.fail().is_none()));
            assert_eq!(breaker.succeed(), None);
        }
        assert!((1..FAILURES).all(|_| breaker.fail().is_none()));
        assert!(!breaker.is_open());
        assert_eq!(breaker.fail(), Some(Change::Opened));
        assert_eq!(breaker.fail(), None);
        assert!(breaker.is_open() && !breaker.take_probe());
        tokio::time::advance(PROBE_PAUSE).await;
        assert!(breaker.take_probe() && !breaker.take_probe(), "one probe at a time");
        assert_eq!((breaker.succeed(), breaker.succeed()), (Some(Change::Closed), None));
        tokio::time::advance(PROBE_PAUSE).await;
        assert!(!breaker.take_probe(), "a back end that works needs no probe");
    }
}
