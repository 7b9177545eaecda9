//! The results of a run. Parts that several machines measured add up exactly.

mod histogram;
mod part;
mod recorder;

pub use histogram::Histogram;
pub use part::{Generator, MAX_PART, Part, Run};
pub(crate) use recorder::micros;
pub use recorder::{Counts, Measured, PlayerEnd, Recorder};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The results of a run or of a part of it. Merging is exact: neither the order nor the distribution of
/// players over machines matters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// Requests by class: `dash.video`, `hls.playlist`, `single`, …
    pub requests: BTreeMap<String, Requests>,
    /// Measurements of players.
    pub players: Players,
    /// Each second since the start.
    pub seconds: Vec<Second>,
    /// Delays of requests behind their due times that the generator caused, in microseconds.
    pub lag: Histogram,
}

/// Requests of one class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// The number of requests, including failed ones.
    pub count: u64,
    /// Bytes of bodies, including those of failed requests.
    pub bytes: u64,
    /// The number of failed requests by reason.
    pub errors: BTreeMap<String, u64>,
    /// Times from when a request was due to its end, in microseconds, including failed requests.
    pub latency: Histogram,
    /// Times from when a request was due to the head of a successful response, in microseconds.
    pub first_byte: Histogram,
}

impl Requests {
    /// Returns the number of failed requests.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    fn merge(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes += other.bytes;
        for (reason, count) in &other.errors {
            *self.errors.entry(reason.clone()).or_default() += count;
        }
        self.latency.merge(&other.latency);
        self.first_byte.merge(&other.first_byte);
    }
}

/// Measurements of players.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Players {
    /// Players that started.
    pub started: u64,
    /// Players that reached the end of their title.
    pub finished: u64,
    /// Players that gave up, because too many consecutive requests failed.
    pub failed: u64,
    /// Players that were playing when the run ended.
    pub stopped: u64,
    /// Waits before playback starts, in microseconds.
    pub startup: Histogram,
    /// Stalls during playback, in microseconds.
    pub stalls: Histogram,
    /// Waits after seeks, in microseconds.
    pub seeks: Histogram,
    /// The duration of all media played, in microseconds.
    pub shown: u64,
    /// The number of changes of rendition.
    pub switches: u64,
    /// The mean bit rate of each player, in bits per second.
    pub bitrate: Histogram,
    /// The quality of each player as `(1 + score) × 1000`; `docs/load.md` defines the score.
    pub quality: Histogram,
}

/// The events of one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Second {
    /// Requests that ended.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// The sum of their latencies, in microseconds.
    pub latency: u64,
    /// Players that started.
    pub came: u64,
    /// Players that left.
    pub left: u64,
    /// Stalls that began.
    pub stalls: u64,
}

impl Second {
    fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.errors += other.errors;
        self.bytes += other.bytes;
        self.latency += other.latency;
        self.came += other.came;
        self.left += other.left;
        self.stalls += other.stalls;
    }
}

impl Results {
    /// Adds the results of another part.
    pub fn merge(&mut self, other: &Self) {
        for (class, theirs) in &other.requests {
            self.requests.entry(class.clone()).or_default().merge(theirs);
        }
        self.players.merge(&other.players);
        if self.seconds.len() < other.seconds.len() {
            self.seconds.resize(other.seconds.len(), Second::default());
        }
        for (ours, theirs) in self.seconds.iter_mut().zip(&other.seconds) {
            ours.merge(theirs);
        }
        self.lag.merge(&other.lag);
    }

    /// Returns the sum of all classes.
    #[must_use]
    pub fn total(&self) -> Requests {
        let mut total = Requests::default();
        self.requests.values().for_each(|requests| total.merge(requests));
        total
    }
}

impl Players {
    fn merge(&mut self, other: &Self) {
        self.started += other.started;
        self.finished += other.finished;
        self.failed += other.failed;
        self.stopped += other.stopped;
        self.startup.merge(&other.startup);
        self.stalls.merge(&other.stalls);
        self.seeks.merge(&other.seeks);
        self.shown += other.shown;
        self.switches += other.switches;
        self.bitrate.merge(&other.bitrate);
        self.quality.merge(&other.quality);
    }
}
