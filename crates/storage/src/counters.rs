//! Counters of each back end: atomics that a metrics page reads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)+) => {
        /// The counters of one back end. They only grow, except `in_flight`, `queued`,
        /// `suspended`, `streams` and the rates.
        #[derive(Debug, Default)]
        pub struct Counters {
            $(pub(crate) $name: AtomicU64,)+
            waited_micros: AtomicU64,
        }

        /// The counters of a back end at one moment.
        #[derive(Debug, Clone, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct StorageFigures {
            $($(#[doc = $doc])+ pub $name: u64,)+
            /// Total time that requests waited for a permit.
            pub waited_time: Duration,
        }

        impl Counters {
            /// Returns the current values of all counters.
            pub fn figures(&self) -> StorageFigures {
                StorageFigures {
                    $($name: self.$name.load(Relaxed),)+
                    waited_time: Duration::from_micros(self.waited_micros.load(Relaxed)),
                }
            }
        }
    };
}

counters! {
    /// Reads and listings. The back end also gets [`Self::retries`] and [`Self::hedges`].
    requests,
    /// Bytes of bodies, as they were passed on.
    bytes,
    /// Retries after a failed request, including requests for the rest of a body.
    retries,
    /// Retries that were not made because the budget of the back end was used up.
    retries_refused,
    /// Bodies that broke off and were requested from that byte on; also counted in `retries`.
    resumed,
    /// Second requests beside a slow one.
    hedges,
    /// Second requests that responded first.
    hedges_won,
    /// Connections, responses and bodies that timed out.
    timeouts,
    /// Responses that asked us to slow down.
    throttled,
    /// Reads and listings that failed because of the back end. A missing object is not a failure.
    failed,
    /// Reads and listings that got no permit in time.
    busy,
    /// Reads and listings that this mirror answered because the storage before it failed.
    fallbacks,
    /// Reads that were split into chunks, which were requested at once.
    split,
    /// Responses of a server that ignored the requested range.
    ranges_ignored,
    /// Current: requests among which long reads are split; 0 until one has been measured.
    streams,
    /// Current: median throughput of long reads with one request, in bytes per second.
    rate_of_one,
    /// Current: median throughput of long reads with `streams` requests, in bytes per second.
    rate_of_streams,
    /// Current: 1 while this storage counts as failing, so that its mirrors are asked first.
    suspended,
    /// Current: requests in flight, each until the end of its body.
    in_flight,
    /// Current: requests that wait for a permit.
    queued,
    /// Requests that had to wait for a permit.
    waited,
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
