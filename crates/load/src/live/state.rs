//! What the page shows.

use super::hosts::HostStats;
use crate::{
    report::limits,
    results::{Counts, Histogram, Part, Recorder},
    usage::{Host, Use, memory},
};
use serde::Serialize;
use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// Seconds that are kept: six hours.
const MAX_SAMPLES: usize = 6 * 3600;

/// A page that asked this short a time ago is still open.
const OPEN: Duration = Duration::from_secs(3);

/// A run as a page shows it.
#[derive(Debug)]
pub struct Live {
    recorder: Arc<Recorder>,
    others: Vec<Arc<HostStats>>,
    shown: Mutex<Shown>,
    /// A page has seen the end.
    seen: Notify,
}

#[derive(Debug)]
struct Shown {
    samples: VecDeque<Sample>,
    /// Samples that are no longer kept.
    forgotten: usize,
    counts: Counts,
    at: Instant,
    host: Host,
    table: Table,
    ended: bool,
    asked: Option<Instant>,
}

/// What happened since the sample before.
#[derive(Debug, Clone, Serialize)]
struct Sample {
    /// Seconds since the start of the run, at its end.
    at: f64,
    /// Seconds it took.
    took: f64,
    requests: u64,
    errors: u64,
    /// Of bodies whose end came meanwhile.
    bytes: u64,
    /// That play now.
    players: u64,
    stalls: u64,
    /// In microseconds; `None` where no request ended.
    latency: Option<Latency>,
    /// Part of its cores' time that the generator used.
    cpu: f64,
    /// Bytes the generator has.
    memory: u64,
    /// This machine, and the others in their order; `None` where one is not known.
    hosts: Vec<Option<Use>>,
}

#[derive(Debug, Clone, Copy, Serialize)]
struct Latency {
    p50: u64,
    p90: u64,
    p99: u64,
    max: u64,
}

impl Latency {
    fn of(histogram: &Histogram) -> Option<Self> {
        (histogram.count() > 0).then(|| Self {
            p50: histogram.quantile(0.5),
            p90: histogram.quantile(0.9),
            p99: histogram.quantile(0.99),
            max: histogram.max(),
        })
    }
}

/// Sums since the start, told less often.
#[derive(Debug, Clone, Default, Serialize)]
struct Table {
    plan: BTreeMap<String, String>,
    shard: String,
    classes: Vec<Row>,
    startup: Option<Latency>,
    stalls: Option<Latency>,
    stalled: u64,
    failures: Vec<Failed>,
    notes: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
struct Row {
    class: String,
    count: u64,
    failed: u64,
    bytes: u64,
    latency: Option<Latency>,
}

#[derive(Debug, Clone, Serialize)]
struct Failed {
    reason: String,
    count: u64,
    example: String,
}

/// What a page is told.
#[derive(Debug, Serialize)]
struct Told {
    ended: bool,
    /// What to ask for next: samples from this one on.
    next: usize,
    players: Players,
    totals: Totals,
    hosts: Vec<Named>,
    #[serde(flatten)]
    table: Table,
    samples: Vec<Sample>,
}

#[derive(Debug, Serialize)]
struct Players {
    playing: u64,
    came: u64,
}

#[derive(Debug, Serialize)]
struct Totals {
    requests: u64,
    errors: u64,
    bytes: u64,
    stalls: u64,
}

#[derive(Debug, Serialize)]
struct Named {
    name: String,
    cores: u64,
    memory: u64,
    /// Why nothing is known of it.
    error: Option<String>,
}

impl Live {
    /// Of a run whose measurements go to `recorder`, and of other machines beside this one.
    #[must_use]
    pub fn new(recorder: Arc<Recorder>, others: Vec<Arc<HostStats>>) -> Self {
        let shown = Shown {
            samples: VecDeque::new(),
            forgotten: 0,
            counts: recorder.counts(),
            at: Instant::now(),
            host: Host::now(),
            table: Table::default(),
            ended: false,
            asked: None,
        };
        // From now on they are collected.
        let _ = recorder.recent();
        Self { recorder, others, shown: Mutex::new(shown), seen: Notify::new() }
    }

    fn shown(&self) -> MutexGuard<'_, Shown> {
        self.shown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of what happened since this was last called, about a second ago. `cpu` is the part of its cores' time that the generator used.
    pub fn sample(&self, cpu: f64) {
        let (counts, host) = (self.recorder.counts(), Host::now());
        let latency = Latency::of(&self.recorder.recent());
        let others = self.others.iter().map(|other| other.latest());
        let mut shown = self.shown();
        let now = Instant::now();
        let hosts = std::iter::once(host.since(&shown.host)).chain(others).collect();
        let before = shown.counts;
        let sample = Sample {
            at: now.saturating_duration_since(self.recorder.start()).as_secs_f64(),
            took: now.saturating_duration_since(shown.at).as_secs_f64(),
            requests: counts.requests.saturating_sub(before.requests),
            errors: counts.errors.saturating_sub(before.errors),
            bytes: counts.bytes.saturating_sub(before.bytes),
            players: counts.came.saturating_sub(counts.left),
            stalls: counts.stalls.saturating_sub(before.stalls),
            latency,
            cpu,
            memory: memory(),
            hosts,
        };
        (shown.counts, shown.at, shown.host) = (counts, now, host);
        shown.samples.push_back(sample);
        if shown.samples.len() > MAX_SAMPLES {
            shown.samples.pop_front();
            shown.forgotten = shown.forgotten.saturating_add(1);
        }
    }

    /// Takes note of all there is until now.
    pub fn tell(&self, part: &Part) {
        let results = &part.results;
        let row = |(class, requests): (&String, &crate::results::Requests)| Row {
            class: class.clone(),
            count: requests.count,
            failed: requests.failed(),
            bytes: requests.bytes,
            latency: Latency::of(&requests.latency),
        };
        let failed = |(reason, count): (String, u64)| {
            let example = part.examples.get(&reason).and_then(|examples| examples.first()).cloned();
            Failed { reason, count, example: example.unwrap_or_default() }
        };
        let table = Table {
            plan: part.plan.clone(),
            shard: part.shard.clone(),
            classes: results.requests.iter().map(row).collect(),
            startup: Latency::of(&results.players.startup),
            stalls: Latency::of(&results.players.stalls),
            stalled: results.players.stalls.count(),
            failures: results.total().errors.into_iter().map(failed).collect(),
            notes: limits(part),
        };
        self.shown().table = table;
    }

    /// The run is over. Gives open pages a moment to ask once more, and comes back at once where there is none.
    pub async fn end(&self) {
        let open = {
            let mut shown = self.shown();
            shown.ended = true;
            shown.asked.is_some_and(|asked| asked.elapsed() < OPEN)
        };
        if open {
            let _ = tokio::time::timeout(OPEN, self.seen.notified()).await;
        }
    }

    /// What a page that knows the samples before `from` is told, as JSON.
    pub(super) fn told(&self, from: usize) -> String {
        let host = |(name, host): (String, Result<Host, String>)| match host {
            Ok(host) => Named { name, cores: host.cores, memory: host.memory, error: None },
            Err(error) => Named { name, cores: 0, memory: 0, error: Some(error) },
        };
        let mut shown = self.shown();
        shown.asked = Some(Instant::now());
        let here = shown.host.clone();
        let hosts = std::iter::once((here.name.clone(), Ok(here)));
        let counts = self.recorder.counts();
        let told = Told {
            ended: shown.ended,
            next: shown.forgotten.saturating_add(shown.samples.len()),
            players: Players { playing: counts.came.saturating_sub(counts.left), came: counts.came },
            totals: Totals {
                requests: counts.requests,
                errors: counts.errors,
                bytes: counts.bytes,
                stalls: counts.stalls,
            },
            hosts: hosts.chain(self.others.iter().map(|other| other.named())).map(host).collect(),
            table: shown.table.clone(),
            samples: shown.samples.iter().skip(from.saturating_sub(shown.forgotten)).cloned().collect(),
        };
        if shown.ended {
            self.seen.notify_one();
        }
        drop(shown);
        serde_json::to_string(&told).unwrap_or_default()
    }
}
