//! Counters of each back end: atomics that a metrics page reads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

/// The counters of one back end. They only grow, except `in_flight` and `queued`.
#[derive(Debug, Default)]
pub struct Counters {
    pub(crate) requests: AtomicU64,
    pub(crate) bytes: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) retries_refused: AtomicU64,
    pub(crate) hedges: AtomicU64,
    pub(crate) hedges_won: AtomicU64,
    pub(crate) timeouts: AtomicU64,
    pub(crate) throttled: AtomicU64,
    pub(crate) resumed: AtomicU64,
    pub(crate) failed: AtomicU64,
    busy: AtomicU64,
    in_flight: AtomicU64,
    queued: AtomicU64,
    waited: AtomicU64,
    waited_micros: AtomicU64,
}

/// The counters of a back end at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StorageFigures {
    /// Reads and listings. The back end also gets [`Self::retries`] and [`Self::hedges`].
    pub requests: u64,
    /// Bytes of bodies, as they were passed on.
    pub bytes: u64,
    /// Retries after a failed request, including requests for the rest of a body.
    pub retries: u64,
    /// Retries that were not made because the budget of the back end was used up.
    pub retries_refused: u64,
    /// Bodies that broke off and were requested from that byte on; also counted in `retries`.
    pub resumed: u64,
    /// Second requests beside a slow one.
    pub hedges: u64,
    /// Second requests that responded first.
    pub hedges_won: u64,
    /// Connections, responses and bodies that timed out.
    pub timeouts: u64,
    /// Responses that asked us to slow down.
    pub throttled: u64,
    /// Reads and listings that failed because of the back end. A missing object is not a failure.
    pub failed: u64,
    /// Reads and listings that got no permit in time.
    pub busy: u64,
    /// Current: requests in flight, each until the end of its body.
    pub in_flight: u64,
    /// Current: requests that wait for a permit.
    pub queued: u64,
    /// Requests that had to wait for a permit.
    pub waited: u64,
    /// Total time that requests waited for a permit.
    pub waited_time: Duration,
}

pub(crate) fn increment(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}

/// Keeps a gauge incremented until it is dropped.
#[derive(Debug)]
pub(crate) struct GaugeGuard {
    counters: Arc<Counters>,
    gauge: fn(&Counters) -> &AtomicU64,
}

impl Drop for GaugeGuard {
    fn drop(&mut self) {
        (self.gauge)(&self.counters).fetch_sub(1, Relaxed);
    }
}

impl Counters {
    /// Returns the current values of all counters.
    pub fn figures(&self) -> StorageFigures {
        let get = |counter: &AtomicU64| counter.load(Relaxed);
        StorageFigures {
            requests: get(&self.requests),
            bytes: get(&self.bytes),
            retries: get(&self.retries),
            retries_refused: get(&self.retries_refused),
            resumed: get(&self.resumed),
            hedges: get(&self.hedges),
            hedges_won: get(&self.hedges_won),
            timeouts: get(&self.timeouts),
            throttled: get(&self.throttled),
            failed: get(&self.failed),
            busy: get(&self.busy),
            in_flight: get(&self.in_flight),
            queued: get(&self.queued),
            waited: get(&self.waited),
            waited_time: Duration::from_micros(get(&self.waited_micros)),
        }
    }

    pub(crate) fn queue_guard(self: &Arc<Self>) -> GaugeGuard {
        self.guard(|counters| &counters.queued)
    }

    pub(crate) fn record_wait(&self, time: Duration, in_vain: bool) {
        increment(&self.waited);
        self.waited_micros.fetch_add(u64::try_from(time.as_micros()).unwrap_or(u64::MAX), Relaxed);
        if in_vain {
            increment(&self.busy);
        }
    }

    pub(crate) fn in_flight_guard(self: &Arc<Self>) -> GaugeGuard {
        self.guard(|counters| &counters.in_flight)
    }

    fn guard(self: &Arc<Self>, gauge: fn(&Self) -> &AtomicU64) -> GaugeGuard {
        increment(gauge(self));
        GaugeGuard { counters: Arc::clone(self), gauge }
    }
}

/// The back ends that were opened with one set of [`crate::Options`] and are still in use.
#[derive(Debug, Clone, Default)]
pub struct Registry(Arc<Mutex<Vec<Opened>>>);

type Opened = (String, Weak<Counters>);

impl Registry {
    pub(crate) fn add(&self, name: String, counters: &Arc<Counters>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|(_, counters)| counters.strong_count() > 0);
        all.push((name, Arc::downgrade(counters)));
    }

    /// Returns the name (without secrets) and the counters of each back end, in opening order.
    pub fn all(&self) -> Vec<(String, Arc<Counters>)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.iter().filter_map(|(name, counters)| Some((name.clone(), counters.upgrade()?))).collect()
    }
}
