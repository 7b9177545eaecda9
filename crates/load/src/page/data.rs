//! The data that the page shows. `web/src/load/data.ts` declares the same.

use crate::results::{Histogram, Part, Requests, generator_notes};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Values of a distribution, in the unit of its histogram.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Quantiles {
    mean: f64,
    p50: u64,
    p90: u64,
    p99: u64,
    max: u64,
}

impl Quantiles {
    /// Returns the values of a histogram, or `None` if it is empty.
    pub(crate) fn of(histogram: &Histogram) -> Option<Self> {
        (histogram.count() > 0).then(|| Self {
            mean: histogram.mean(),
            p50: histogram.quantile(0.5),
            p90: histogram.quantile(0.9),
            p99: histogram.quantile(0.99),
            max: histogram.max(),
        })
    }
}

/// One second of a run. `L` holds its latencies.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sample<L> {
    /// Seconds from the start of the run to the end of the sample.
    pub(crate) at: f64,
    /// Seconds that the sample covers.
    pub(crate) took: f64,
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    /// Bytes of the bodies that ended.
    pub(crate) bytes: u64,
    /// Players at the end of the sample.
    pub(crate) players: u64,
    /// Stalls that began.
    pub(crate) stalls: u64,
    /// Latency in microseconds; `None` if no request ended.
    pub(crate) latency: Option<L>,
}

/// Requests of a whole run.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Totals {
    pub(crate) requests: u64,
    pub(crate) errors: u64,
    pub(crate) bytes: u64,
    pub(crate) stalls: u64,
}

/// Players of a whole run.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct PlayerCounts {
    pub(crate) playing: u64,
    pub(crate) came: u64,
}

/// The tables of a run.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Sums {
    plan: BTreeMap<String, String>,
    shard: String,
    /// The start in milliseconds since 1970; 0 if it is unknown.
    started: u64,
    machines: BTreeSet<String>,
    versions: BTreeSet<String>,
    classes: Vec<ClassRow>,
    viewers: Vec<PlayerRow>,
    failures: Vec<FailureRow>,
    pub(crate) notes: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
struct ClassRow {
    class: String,
    count: u64,
    failed: u64,
    bytes: u64,
    latency: Option<Quantiles>,
}

#[derive(Debug, Clone, Serialize)]
struct PlayerRow {
    name: &'static str,
    unit: &'static str,
    count: u64,
    values: Option<Quantiles>,
}

#[derive(Debug, Clone, Serialize)]
struct FailureRow {
    reason: String,
    count: u64,
    example: String,
}

impl Sums {
    /// Returns the tables of the results so far.
    pub(crate) fn of(part: &Part) -> Self {
        let class = |(class, requests): (&String, &Requests)| ClassRow {
            class: class.clone(),
            count: requests.count,
            failed: requests.failed(),
            bytes: requests.bytes,
            latency: Quantiles::of(&requests.latency),
        };
        let failure = |(reason, count): (String, u64)| {
            let example = part.examples.get(&reason).and_then(|examples| examples.first()).cloned();
            FailureRow { reason, count, example: example.unwrap_or_default() }
        };
        let players = &part.results.players;
        let viewers = [
            ("Start-up", "time", &players.startup),
            ("Stalls", "time", &players.stalls),
            ("Waits after seeks", "time", &players.seeks),
            ("Mean bit rate", "bits", &players.bitrate),
            ("Quality, -1 to 1", "score", &players.quality),
        ];
        let viewer = |(name, unit, histogram): (_, _, &Histogram)| PlayerRow {
            name,
            unit,
            count: histogram.count(),
            values: Quantiles::of(histogram),
        };
        Self {
            plan: part.plan.clone(),
            shard: part.shard.clone(),
            started: part.started,
            machines: part.machines.clone(),
            versions: part.versions.clone(),
            classes: part.results.requests.iter().map(class).collect(),
            viewers: viewers.into_iter().map(viewer).collect(),
            failures: part.results.total().errors.into_iter().map(failure).collect(),
            notes: generator_notes(part),
        }
    }
}
