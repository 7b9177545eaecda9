//! The record of one request. Every part that works for the request writes to the record. The
//! access log, the debug headers and the metrics read it.
//!
//! [`Trace::scope`] makes a record the current one of a task. Caches, single flights and storage
//! write to the current record, so no signature between them has to pass it. Work that continues in
//! another task keeps its record by [`for_current_request`]. Outside of a request, nothing is
//! recorded.

use crate::observe::metrics::{Metrics, RequestLabels};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use latemux_storage::{
    Outcome, ReadObserver,
    client::{current_client, on_behalf_of},
};
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

/// A stage of a request before the head of its response is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stage {
    Route,
    /// Loading the title from memory or storage.
    Title,
    /// Planning a segment, or making a manifest.
    Plan,
    /// Waiting for `moof`s, or for the first bytes of media.
    Read,
}

/// Names of the stages in `Server-Timing`, in the order of [`Stage`].
const STAGES: [&str; 4] = ["route", "title", "plan", "read"];

/// The record of one request. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Trace(Arc<Record>);

#[derive(Debug)]
struct Record {
    metrics: Arc<Metrics>,
    started: Instant,
    /// True if stages are timed.
    is_timed: bool,
    labels: OnceLock<RequestLabels>,
    /// 1 more than [`Outcome::rank`] of the most expensive outcome so far; 0 before the first.
    outcome: AtomicUsize,
    /// Reason of the first bypass.
    bypass_reason: OnceLock<&'static str>,
    storage_requests: AtomicU64,
    storage_bytes: AtomicU64,
    stage: AtomicU8,
    /// Beginning of the current stage, in nanoseconds since `started`.
    stage_began: AtomicU64,
    /// Time spent in each stage, in nanoseconds.
    spent: [AtomicU64; STAGES.len()],
}

/// Records reads for the request that caused them. Other requests that wait for the same bytes
/// record only that they joined.
impl ReadObserver for Record {
    fn on_outcome(&self, outcome: Outcome) {
        let rank = outcome.rank() + 1;
        if self.outcome.load(Relaxed) < rank {
            self.outcome.fetch_max(rank, Relaxed);
        }
        if let Outcome::Bypassed(reason) = outcome {
            let _ = self.bypass_reason.set(reason);
        }
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
            stage: AtomicU8::new(Stage::Route as u8),
            stage_began: AtomicU64::new(0),
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

    /// Returns the observer of reads from storage that this request causes.
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

    /// Returns the most expensive outcome so far as text, such as `hit_memory` or `bypassed;off`.
    pub(crate) fn outcome_text(&self) -> String {
        let word = self.outcome_rank().and_then(|rank| Outcome::NAMES.get(rank)).unwrap_or(&"none");
        match self.0.bypass_reason.get() {
            Some(reason) => format!("{word};{reason}"),
            None => (*word).to_owned(),
        }
    }

    /// Ends the current stage and begins another. A stage may be entered several times.
    fn enter(&self, stage: Stage) {
        let record = &self.0;
        if !record.is_timed {
            return;
        }
        let now = u64::try_from(record.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let ended = record.stage.swap(stage as u8, Relaxed);
        let began = record.stage_began.swap(now, Relaxed);
        if let Some(spent) = record.spent.get(usize::from(ended)) {
            // Several tasks may enter stages at the same time, in any order.
            spent.fetch_add(now.saturating_sub(began), Relaxed);
        }
    }

    /// Adds the debug headers to the head of a response. They cover the request up to this call.
    pub(crate) fn add_debug_headers(&self, head: &mut HeaderMap) {
        // Entering any stage adds up the time of the current one.
        self.enter(Stage::Route);
        let mut timing = String::new();
        for (name, spent) in STAGES.iter().zip(&self.0.spent) {
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

/// Sets the labels of the current request, unless they are set already.
pub(crate) fn set_labels(labels: RequestLabels) {
    with_current(|trace| _ = trace.0.labels.set(labels));
}

/// Records the outcome of a look-up or read for the current request.
pub(crate) fn record_outcome(outcome: Outcome) {
    with_current(|trace| trace.0.on_outcome(outcome));
}

/// Begins another stage of the current request.
pub(crate) fn enter_stage(stage: Stage) {
    with_current(|trace| trace.enter(stage));
}

/// Keeps the current record for a future, and the client on whose behalf storage is requested, even
/// if another request or a task of its own polls the future later.
pub(crate) fn for_current_request<F: Future>(future: F) -> impl Future<Output = F::Output> + use<F> {
    CURRENT.scope(Trace::current(), on_behalf_of(current_client(), future))
}

fn with_current(record: impl FnOnce(&Trace)) {
    let _ = CURRENT.try_with(|trace| trace.as_ref().map(record));
}
