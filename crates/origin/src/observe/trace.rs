//! The record of one request: written by every part that works for it, and read by the access log,
//! the debug headers and the metrics.
//!
//! The current request is ambient ([`Trace::scope`]), as the spans of a log are. Caches, single
//! flights and storage write to its record although no signature between them names it. Work that
//! continues in another task takes the record along ([`carried`]). Outside of a request, nothing is
//! recorded.

use crate::observe::metrics::{Metrics, RequestLabels};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use latemux_storage::{Outcome, ReadObserver};
use std::{
    fmt::Write as _,
    future::Future,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

tokio::task_local! {
    static CURRENT: Option<Trace>;
}

/// A part of the time until the head of a response is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Routing, and everything before the title.
    Route,
    /// Loading the title's index from memory or storage.
    Index,
    /// Planning a response, or making a manifest.
    Plan,
    /// Waiting for the first bytes of media.
    Storage,
}

const PHASES: [&str; 4] = ["route", "index", "plan", "storage"];

/// The record of one request. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Trace(Arc<Record>);

#[derive(Debug)]
struct Record {
    metrics: Arc<Metrics>,
    started: Instant,
    /// True if phases are timed.
    is_timed: bool,
    labels: OnceLock<RequestLabels>,
    /// 1 more than [`Outcome::rank`] of the most expensive outcome so far; 0 before the first.
    outcome: AtomicUsize,
    /// Reason of the first bypass.
    bypass_reason: OnceLock<&'static str>,
    storage_requests: AtomicU64,
    storage_bytes: AtomicU64,
    /// The current phase.
    phase: AtomicU8,
    /// Beginning of the current phase, in nanoseconds since `started`.
    phase_began: AtomicU64,
    /// Time spent in each phase, in nanoseconds.
    spent: [AtomicU64; PHASES.len()],
}

impl Record {
    fn note(&self, outcome: Outcome) {
        let rank = outcome.rank() + 1;
        if self.outcome.load(Relaxed) < rank {
            self.outcome.fetch_max(rank, Relaxed);
        }
        if let Outcome::Bypassed(reason) = outcome {
            let _ = self.bypass_reason.set(reason);
        }
    }
}

/// Records the fetches of the range cache for the request that caused them. Other requests that
/// wait for the same bytes record only that they joined.
impl ReadObserver for Record {
    fn on_outcome(&self, outcome: Outcome) {
        self.note(outcome);
    }

    fn on_storage_request(&self) {
        self.storage_requests.fetch_add(1, Relaxed);
    }

    fn on_storage_bytes(&self, bytes: u64) {
        self.storage_bytes.fetch_add(bytes, Relaxed);
    }
}

impl Trace {
    /// Starts the record of a request whose head has just arrived.
    pub(crate) fn start(metrics: Arc<Metrics>, is_timed: bool) -> Self {
        Self(Arc::new(Record {
            metrics,
            started: Instant::now(),
            is_timed,
            labels: OnceLock::new(),
            outcome: AtomicUsize::new(0),
            bypass_reason: OnceLock::new(),
            storage_requests: AtomicU64::new(0),
            storage_bytes: AtomicU64::new(0),
            phase: AtomicU8::new(0),
            phase_began: AtomicU64::new(0),
            spent: Default::default(),
        }))
    }

    /// Returns the record of the current request, if there is one.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok().flatten()
    }

    /// Runs a future as part of this request.
    pub(crate) fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        CURRENT.scope(Some(self.clone()), future)
    }

    /// Returns the observer for a read that the range cache makes for this request.
    pub(crate) fn observer(self) -> Arc<dyn ReadObserver> {
        self.0
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    /// Returns the time at which the request's head arrived.
    pub(crate) fn started(&self) -> Instant {
        self.0.started
    }

    /// Returns the labels of the request, as far as its URL was understood.
    pub(crate) fn labels(&self) -> RequestLabels {
        self.0.labels.get().copied().unwrap_or_default()
    }

    /// Records the outcome of a look-up or read.
    pub(crate) fn note(&self, outcome: Outcome) {
        self.0.note(outcome);
    }

    /// Records a request to storage.
    pub(crate) fn count_storage_request(&self) {
        self.0.storage_requests.fetch_add(1, Relaxed);
    }

    /// Records bytes that arrived from storage.
    pub(crate) fn count_storage_bytes(&self, bytes: u64) {
        self.0.storage_bytes.fetch_add(bytes, Relaxed);
    }

    /// Records source bytes that went into the response.
    pub(crate) fn media_used(&self, bytes: u64) {
        self.0.metrics.media_used.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn storage_requests(&self) -> u64 {
        self.0.storage_requests.load(Relaxed)
    }

    pub(crate) fn storage_bytes(&self) -> u64 {
        self.0.storage_bytes.load(Relaxed)
    }

    /// Returns [`Outcome::rank`] of the most expensive outcome so far, if there was any.
    pub(crate) fn outcome_rank(&self) -> Option<usize> {
        self.0.outcome.load(Relaxed).checked_sub(1)
    }

    /// Returns the most expensive outcome so far in words, such as `hit_memory` or `bypassed;off`.
    pub(crate) fn outcome_text(&self) -> String {
        let word = self.outcome_rank().and_then(|rank| Outcome::NAMES.get(rank)).unwrap_or(&"none");
        match self.0.bypass_reason.get() {
            Some(reason) => format!("{word};{reason}"),
            None => (*word).to_owned(),
        }
    }

    /// Ends the current phase and begins another one. A phase may be entered several times.
    pub(crate) fn enter(&self, phase: Phase) {
        let record = &self.0;
        if !record.is_timed {
            return;
        }
        let now = u64::try_from(record.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let ended = record.phase.swap(phase as u8, Relaxed);
        let began = record.phase_began.swap(now, Relaxed);
        if let Some(spent) = record.spent.get(usize::from(ended)) {
            // Several tasks may enter phases at the same time, in any order.
            spent.fetch_add(now.saturating_sub(began), Relaxed);
        }
    }

    /// Adds the debug headers to the head of a response. They state what is known by now.
    pub(crate) fn tell(&self, head: &mut HeaderMap) {
        self.enter(Phase::Route);
        let mut timing = String::new();
        for (name, spent) in PHASES.iter().zip(&self.0.spent) {
            let ns = spent.load(Relaxed);
            if ns > 0 {
                let comma = if timing.is_empty() { "" } else { ", " };
                let _ = write!(timing, "{comma}{name};dur={}.{:03}", ns / 1_000_000, ns / 1000 % 1000);
            }
        }
        let mut put = |name, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                head.insert(name, value);
            }
        };
        put(HeaderName::from_static("server-timing"), &timing);
        put(HeaderName::from_static("timing-allow-origin"), "*");
        put(HeaderName::from_static("latemux-cache"), &self.outcome_text());
        put(HeaderName::from_static("latemux-storage-requests"), &self.storage_requests().to_string());
        if let Some(exposed) = head.get(header::ACCESS_CONTROL_EXPOSE_HEADERS).and_then(|v| v.to_str().ok()) {
            let more = format!("{exposed}, Latemux-Cache, Latemux-Storage-Requests");
            if let Ok(value) = HeaderValue::from_str(&more) {
                head.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, value);
            }
        }
    }
}

/// Records the labels of the current request. The first call counts.
pub(crate) fn asked_for(labels: RequestLabels) {
    with_current(|trace| _ = trace.0.labels.set(labels));
}

/// Records the outcome of a look-up or read for the current request.
pub(crate) fn note(outcome: Outcome) {
    with_current(|trace| trace.note(outcome));
}

/// Begins another phase of the current request.
pub(crate) fn enter(phase: Phase) {
    with_current(|trace| trace.enter(phase));
}

/// Makes a future part of the request that is current now, whoever polls it later: another request
/// that waits for the same work, or a task of its own.
pub(crate) fn carried<F: Future>(future: F) -> impl Future<Output = F::Output> + use<F> {
    CURRENT.scope(Trace::current(), future)
}

fn with_current(record: impl FnOnce(&Trace)) {
    let _ = CURRENT.try_with(|trace| trace.as_ref().map(record));
}
