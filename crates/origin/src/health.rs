//! Health of this process: the causes for which it should get no new requests.

use std::{
    sync::atomic::{
        AtomicBool, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
    time::{Duration, Instant},
};

/// State that health checks report.
#[derive(Debug)]
pub(crate) struct Health {
    began: Instant,
    is_draining: AtomicBool,
    /// True while storage has not been reached since the start.
    is_unreached: AtomicBool,
    /// Milliseconds from `began` to the first failure of storage after its last success, plus 1. 0
    /// if the last request to storage succeeded.
    failing_since: AtomicU64,
}

impl Default for Health {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            is_draining: AtomicBool::new(false),
            is_unreached: AtomicBool::new(false),
            failing_since: AtomicU64::new(0),
        }
    }
}

impl Health {
    /// Makes this process unready for good.
    pub(crate) fn drain(&self) {
        self.is_draining.store(true, Relaxed);
    }

    /// Makes this process unready for as long as storage has not been reached.
    pub(crate) fn set_storage_reached(&self, is_reached: bool) {
        self.is_unreached.store(!is_reached, Relaxed);
    }

    /// Records that storage has answered, be it with an error of its own such as "not found".
    pub(crate) fn record_answer(&self) {
        // Written only when it changes: every frame of media comes by here.
        if self.failing_since.load(Relaxed) != 0 {
            self.failing_since.store(0, Release);
        }
    }

    /// Records that storage has failed.
    pub(crate) fn record_failure(&self) {
        let now = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        let _ = self.failing_since.compare_exchange(0, now.saturating_add(1), Release, Relaxed);
    }

    /// Returns for how long storage has failed, or `None` if its last request succeeded.
    pub(crate) fn failing_for(&self) -> Option<Duration> {
        let since = Duration::from_millis(self.failing_since.load(Acquire).checked_sub(1)?);
        Some(self.began.elapsed().saturating_sub(since))
    }

    /// Returns why this process should get no new requests, or `None` if it should. `limit` is the
    /// time for which storage may fail, or zero if it may fail for ever.
    pub(crate) fn unready(&self, limit: Duration) -> Option<&'static str> {
        if self.is_draining.load(Relaxed) {
            Some("draining")
        } else if self.is_unreached.load(Relaxed) {
            Some("storage_unreached")
        } else {
            let is_too_long = !limit.is_zero() && self.failing_for().is_some_and(|time| time >= limit);
            is_too_long.then_some("storage_failing")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_failures_without_an_answer_between_them_add_up() {
        let health = Health { began: Instant::now() - Duration::from_secs(100), ..Health::default() };
        let limit = Duration::from_secs(10);
        assert_eq!(health.unready(limit), None);
        health.record_failure();
        assert_eq!(health.unready(limit), None);
        health.failing_since.store(80_001, Relaxed);
        health.record_failure();
        assert_eq!(health.unready(limit), Some("storage_failing"));
        assert_eq!(health.unready(Duration::from_secs(30)), None);
        assert_eq!(health.unready(Duration::ZERO), None);
        health.record_answer();
        assert_eq!((health.unready(limit), health.failing_for()), (None, None));
        health.drain();
        assert_eq!(health.unready(limit), Some("draining"));
    }
}
