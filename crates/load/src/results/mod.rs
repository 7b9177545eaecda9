//! What was measured, so that parts of it from many machines add up exactly.

mod histogram;
mod part;
mod recorder;

pub use histogram::Histogram;
pub use part::{Generator, MAX_PART, Part, Run};
pub(crate) use recorder::micros;
pub use recorder::{Counts, Measured, PlayerEnd, Recorder};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All that a run measured. Merging is exact: the order, and how players were spread over machines, do not matter.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// By class: `dash.video`, `hls.playlist`, `single`, …
    pub requests: BTreeMap<String, Requests>,
    /// What players saw.
    pub players: Players,
    /// What happened in each second since the start.
    pub seconds: Vec<Second>,
    /// By how much requests were sent later than they were due, in microseconds: the generator's own doing.
    pub lag: Histogram,
}

/// Requests of one class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// Requests, failed ones too.
    pub count: u64,
    /// Bytes of bodies, those of failed answers too.
    pub bytes: u64,
    /// Failed ones by reason.
    pub errors: BTreeMap<String, u64>,
    /// From when a request was due to the last byte of its answer, in microseconds; failed ones too.
    pub latency: Histogram,
    /// From when a request was due to the head of a good answer, in microseconds.
    pub first_byte: Histogram,
}

impl Requests {
    /// Failed ones.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }
}

/// What players saw.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Players {
    /// That came.
    pub started: u64,
    /// That played to the end of their title.
    pub finished: u64,
    /// That gave up: too many requests failed one after the other.
    pub failed: u64,
    /// That were still playing when the run ended.
    pub stopped: u64,
    /// Seconds before a picture, in microseconds.
    pub startup: Histogram,
    /// Each wait for media while playing, in microseconds; how many there were is its count.
    pub stalls: Histogram,
    /// Each wait after a seek, in microseconds.
    pub seeks: Histogram,
    /// Media shown, in microseconds.
    pub shown: u64,
    /// Changes of rendition.
    pub switches: u64,
    /// Mean bit rate of each player, in bits per second.
    pub bitrate: Histogram,
    /// Quality of each player: `(1 + score) × 1000`, see `docs/load.md`.
    pub quality: Histogram,
}

/// What happened in one second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Second {
    /// Answers that ended.
    pub requests: u64,
    /// Failed ones of these.
    pub errors: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
    /// Sum of their latencies, in microseconds.
    pub latency: u64,
    /// Players that came.
    pub came: u64,
    /// Players that left.
    pub left: u64,
    /// Stalls that began.
    pub stalls: u64,
}

impl Results {
    /// Adds another part.
    pub fn merge(&mut self, other: &Self) {
        for (class, theirs) in &other.requests {
            let ours = self.requests.entry(class.clone()).or_default();
            ours.count += theirs.count;
            ours.bytes += theirs.bytes;
            for (reason, count) in &theirs.errors {
                *ours.errors.entry(reason.clone()).or_default() += count;
            }
            ours.latency.merge(&theirs.latency);
            ours.first_byte.merge(&theirs.first_byte);
        }
        self.players.merge(&other.players);
        if self.seconds.len() < other.seconds.len() {
            self.seconds.resize(other.seconds.len(), Second::default());
        }
        for (ours, theirs) in self.seconds.iter_mut().zip(&other.seconds) {
            ours.requests += theirs.requests;
            ours.errors += theirs.errors;
            ours.bytes += theirs.bytes;
            ours.latency += theirs.latency;
            ours.came += theirs.came;
            ours.left += theirs.left;
            ours.stalls += theirs.stalls;
        }
        self.lag.merge(&other.lag);
    }

    /// Requests of all classes together.
    #[must_use]
    pub fn total(&self) -> Requests {
        let mut total = Self::default();
        for requests in self.requests.values() {
            let part = Self { requests: [(String::new(), requests.clone())].into(), ..Self::default() };
            total.merge(&part);
        }
        total.requests.remove("").unwrap_or_default()
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
