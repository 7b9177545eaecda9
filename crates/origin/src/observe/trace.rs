//! What happened for one request: told by those who did it, wherever they are, and read by the access log, the debug
//! headers and the metrics.
//!
//! The request being answered is ambient ([`Trace::scope`]), as spans of a log are: caches, single flights and storage
//! tell of it without each signature between naming it. What runs on for a request elsewhere takes it along
//! ([`carried`]). Outside of a request, telling does nothing.

use crate::observe::metrics::{Kind, Metrics};
use http::{HeaderMap, HeaderName, HeaderValue, header};
use latemux_cache::Witness;
use std::{
    fmt::Write as _,
    future::Future,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU8, AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

tokio::task_local! {
    static CURRENT: Option<Trace>;
}

/// Where something an answer needed was found, the cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// In a cache.
    Hit(Tier),
    /// It was being read for another request.
    Joined,
    /// In storage; it is remembered now.
    Filled,
    /// In storage, and it is not remembered; why, in a stable word.
    Bypassed(&'static str),
}

/// Where a cache keeps what it remembers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tier {
    Memory,
    Disk,
}

impl Outcome {
    /// Words for each [`Outcome::code`]; 0 is none.
    pub(crate) const WORDS: [&'static str; 6] = ["none", "hit-memory", "hit-disk", "join", "fill", "bypass"];

    /// Grows with what it cost.
    fn code(self) -> u8 {
        match self {
            Self::Hit(Tier::Memory) => 1,
            Self::Hit(Tier::Disk) => 2,
            Self::Joined => 3,
            Self::Filled => 4,
            Self::Bypassed(_) => 5,
        }
    }
}

/// Parts of the time until the head of an answer is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// What the URL asks for.
    Route,
    /// The title's index, from memory or storage.
    Index,
    /// Which bytes make the answer; making a manifest.
    Plan,
    /// Waiting for the first bytes of media.
    Storage,
}

const PHASES: [&str; 4] = ["route", "index", "plan", "storage"];

/// One request's record. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Trace(Arc<Facts>);

#[derive(Debug)]
struct Facts {
    metrics: Arc<Metrics>,
    started: Instant,
    /// Whether phases are timed.
    timed: bool,
    kind: OnceLock<Kind>,
    /// [`Outcome::code`] of the costliest.
    outcome: AtomicU8,
    bypassed: OnceLock<&'static str>,
    requests: AtomicU64,
    bytes: AtomicU64,
    /// The phase under way, and when it began: ns since `started`.
    phase: AtomicU8,
    entered: AtomicU64,
    /// Time spent in each phase, ns.
    spent: [AtomicU64; PHASES.len()],
}

impl Facts {
    fn note(&self, outcome: Outcome) {
        let code = outcome.code();
        if self.outcome.load(Relaxed) < code {
            self.outcome.fetch_max(code, Relaxed);
        }
        if let Outcome::Bypassed(why) = outcome {
            let _ = self.bypassed.set(why);
        }
    }
}

/// Fetches of the range cache belong to no request; but one was why there was a fetch.
impl Witness for Facts {
    fn found(&self, outcome: latemux_cache::Outcome) {
        self.note(match outcome {
            latemux_cache::Outcome::Hit(latemux_cache::Tier::Memory) => Outcome::Hit(Tier::Memory),
            latemux_cache::Outcome::Hit(latemux_cache::Tier::Disk) => Outcome::Hit(Tier::Disk),
            latemux_cache::Outcome::Joined => Outcome::Joined,
            latemux_cache::Outcome::Filled => Outcome::Filled,
            latemux_cache::Outcome::Bypassed(reason) => Outcome::Bypassed(reason.name()),
        });
    }

    fn asks_storage(&self) {
        self.requests.fetch_add(1, Relaxed);
    }

    fn storage_gave(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Relaxed);
    }
}

impl Trace {
    /// A request whose head has just come. With `timed`, phases are timed.
    pub(crate) fn start(metrics: Arc<Metrics>, timed: bool) -> Self {
        Self(Arc::new(Facts {
            metrics,
            started: Instant::now(),
            timed,
            kind: OnceLock::new(),
            outcome: AtomicU8::new(0),
            bypassed: OnceLock::new(),
            requests: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            phase: AtomicU8::new(0),
            entered: AtomicU64::new(0),
            spent: Default::default(),
        }))
    }

    /// The request being answered, if one is.
    pub(crate) fn current() -> Option<Self> {
        CURRENT.try_with(Clone::clone).ok().flatten()
    }

    /// Runs a future as part of this request.
    pub(crate) fn scope<F: Future>(&self, future: F) -> impl Future<Output = F::Output> + use<F> {
        CURRENT.scope(Some(self.clone()), future)
    }

    /// What the range cache tells of a read for this request.
    pub(crate) fn witness(self) -> Arc<dyn Witness> {
        self.0
    }

    pub(crate) fn metrics(&self) -> &Arc<Metrics> {
        &self.0.metrics
    }

    pub(crate) fn started(&self) -> Instant {
        self.0.started
    }

    /// What was asked for, where a URL said so.
    pub(crate) fn kind(&self) -> Kind {
        self.0.kind.get().copied().unwrap_or_default()
    }

    /// Something the answer needs was found there.
    pub(crate) fn note(&self, outcome: Outcome) {
        self.0.note(outcome);
    }

    /// A request to storage was made.
    pub(crate) fn storage_asked(&self) {
        self.0.requests.fetch_add(1, Relaxed);
    }

    /// Bytes came from storage.
    pub(crate) fn storage_gave(&self, bytes: u64) {
        self.0.bytes.fetch_add(bytes, Relaxed);
    }

    /// Bytes of the source went into the answer.
    pub(crate) fn media_used(&self, bytes: u64) {
        self.0.metrics.media_used.fetch_add(bytes, Relaxed);
    }

    /// Requests to storage so far.
    pub(crate) fn storage_requests(&self) -> u64 {
        self.0.requests.load(Relaxed)
    }

    /// Bytes that came from storage so far.
    pub(crate) fn storage_bytes(&self) -> u64 {
        self.0.bytes.load(Relaxed)
    }

    /// Which of [`Outcome::WORDS`] is the costliest so far.
    pub(crate) fn outcome(&self) -> usize {
        usize::from(self.0.outcome.load(Relaxed))
    }

    /// The costliest outcome so far in words: `hit-memory`, `bypass;off`.
    pub(crate) fn cache(&self) -> String {
        let word = Outcome::WORDS.get(self.outcome()).copied().unwrap_or_default();
        match self.0.bypassed.get() {
            Some(why) => format!("{word};{why}"),
            None => word.to_owned(),
        }
    }

    /// Another phase begins, and the one before ends. It may be come back to.
    pub(crate) fn enter(&self, phase: Phase) {
        let facts = &self.0;
        if !facts.timed {
            return;
        }
        let now = u64::try_from(facts.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let before = facts.phase.swap(phase as u8, Relaxed);
        let since = facts.entered.swap(now, Relaxed);
        if let Some(spent) = facts.spent.get(usize::from(before)) {
            spent.fetch_add(now.saturating_sub(since), Relaxed);
        }
    }

    /// Puts what is known by now into the head of an answer.
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
        put(HeaderName::from_static("latemux-cache"), &self.cache());
        put(HeaderName::from_static("latemux-storage-requests"), &self.storage_requests().to_string());
        if let Some(exposed) = head.get(header::ACCESS_CONTROL_EXPOSE_HEADERS).and_then(|v| v.to_str().ok()) {
            let more = format!("{exposed}, Latemux-Cache, Latemux-Storage-Requests");
            if let Ok(value) = HeaderValue::from_str(&more) {
                head.insert(header::ACCESS_CONTROL_EXPOSE_HEADERS, value);
            }
        }
    }
}

/// Tells the current request what its URL asks for.
pub(crate) fn asked_for(kind: Kind) {
    with_current(|trace| _ = trace.0.kind.set(kind));
}

/// Tells the current request where something was found.
pub(crate) fn note(outcome: Outcome) {
    with_current(|trace| trace.note(outcome));
}

/// Tells the current request that another phase begins.
pub(crate) fn enter(phase: Phase) {
    with_current(|trace| trace.enter(phase));
}

/// Makes a future part of the request that is current now, whoever polls it later: another request that waits for the same, a
/// task of its own.
pub(crate) fn carried<F: Future>(future: F) -> impl Future<Output = F::Output> + use<F> {
    CURRENT.scope(Trace::current(), future)
}

fn with_current(tell: impl FnOnce(&Trace)) {
    let _ = CURRENT.try_with(|trace| trace.as_ref().map(tell));
}
