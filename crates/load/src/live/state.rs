//! The data that the page shows while a run lasts.

use super::hosts::HostStats;
use crate::{
    page::{PlayerCounts, Quantiles, Sample, Sums, Totals},
    results::{Counts, Part, Recorder},
    usage::{Host, HostUse, memory},
};
use serde::Serialize;
use std::{
    collections::VecDeque,
    iter::once,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// The maximum number of samples: six hours.
const MAX_SAMPLES: usize = 6 * 3600;

/// The time after the last request of a page during which the page counts as open.
const OPEN: Duration = Duration::from_secs(3);

/// A run as a page shows it.
#[derive(Debug)]
pub struct Live {
    recorder: Arc<Recorder>,
    others: Vec<Arc<HostStats>>,
    state: Mutex<State>,
    /// Notified when a page has received data with the end of the run.
    end_sent: Notify,
}

#[derive(Debug)]
struct State {
    samples: VecDeque<LiveSample>,
    /// The number of samples that are no longer kept.
    dropped: usize,
    /// The counts, the time and this machine's usage at the last sample.
    counts: Counts,
    at: Instant,
    host: Host,
    sums: Sums,
    has_ended: bool,
    last_request: Option<Instant>,
}

/// The time since the last sample.
#[derive(Debug, Clone, Serialize)]
struct LiveSample {
    #[serde(flatten)]
    sample: Sample<Quantiles>,
    /// The share of its cores' time that the generator used, from 0 to 1.
    cpu: f64,
    /// Bytes of memory that the generator uses.
    memory: u64,
    /// The usage of this machine and then of the others in their order; `None` if it is unknown.
    hosts: Vec<Option<HostUse>>,
}

/// A response to a page.
#[derive(Debug, Serialize)]
struct LiveData {
    ended: bool,
    /// The index of the first sample to request next.
    next: usize,
    players: PlayerCounts,
    totals: Totals,
    hosts: Vec<NamedHost>,
    #[serde(flatten)]
    sums: Sums,
    samples: Vec<LiveSample>,
}

#[derive(Debug, Serialize)]
struct NamedHost {
    name: String,
    cores: u64,
    memory: u64,
    /// The reason why nothing is known about the machine.
    error: Option<String>,
}

impl Live {
    /// Makes the data of a run whose measurements go to `recorder`, with the usage of this machine
    /// and of others.
    pub fn new(recorder: Arc<Recorder>, others: Vec<Arc<HostStats>>) -> Self {
        let state = State {
            samples: VecDeque::new(),
            dropped: 0,
            counts: recorder.counts(),
            at: Instant::now(),
            host: Host::now(),
            sums: Sums::default(),
            has_ended: false,
            last_request: None,
        };
        // The first call starts the collection of recent latencies.
        let _ = recorder.take_recent();
        Self { recorder, others, state: Mutex::new(state), end_sent: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a sample for the time since the last call. Callers should call it about once a second.
    /// `cpu` is the share of its cores' time that the generator used, from 0 to 1.
    pub fn sample(&self, cpu: f64) {
        let counts = self.recorder.counts();
        let host = Host::now();
        let latency = Quantiles::of(&self.recorder.take_recent());
        let others = self.others.iter().map(|other| other.latest());
        let mut state = self.state();
        let now = Instant::now();
        let hosts = once(host.since(&state.host)).chain(others).collect();
        let before = state.counts;
        let sample = Sample {
            at: now.saturating_duration_since(self.recorder.start()).as_secs_f64(),
            took: now.saturating_duration_since(state.at).as_secs_f64(),
            requests: counts.requests.saturating_sub(before.requests),
            errors: counts.errors.saturating_sub(before.errors),
            bytes: counts.bytes.saturating_sub(before.bytes),
            players: counts.playing(),
            stalls: counts.stalls.saturating_sub(before.stalls),
            latency,
        };
        state.counts = counts;
        state.at = now;
        state.host = host;
        state.samples.push_back(LiveSample { sample, cpu, memory: memory(), hosts });
        if state.samples.len() > MAX_SAMPLES {
            state.samples.pop_front();
            state.dropped += 1;
        }
    }

    /// Replaces the tables with those of the results so far.
    pub fn set_sums(&self, part: &Part) {
        let sums = Sums::of(part);
        self.state().sums = sums;
    }

    /// Marks the run as over. If a page is open, waits up to three seconds for it to request its
    /// data again.
    pub async fn end(&self) {
        let is_open = {
            let mut state = self.state();
            state.has_ended = true;
            state.last_request.is_some_and(|at| at.elapsed() < OPEN)
        };
        if is_open {
            let _ = tokio::time::timeout(OPEN, self.end_sent.notified()).await;
        }
    }

    /// Returns the data for a page that has the samples before `from`, as JSON.
    pub(super) fn json(&self, from: usize) -> String {
        let host = |(name, host): (String, Result<Host, String>)| match host {
            Ok(host) => NamedHost { name, cores: host.cores, memory: host.memory, error: None },
            Err(error) => NamedHost { name, cores: 0, memory: 0, error: Some(error) },
        };
        let mut state = self.state();
        state.last_request = Some(Instant::now());
        let this = once((state.host.name.clone(), Ok(state.host.clone())));
        let counts = self.recorder.counts();
        let data = LiveData {
            ended: state.has_ended,
            next: state.dropped + state.samples.len(),
            players: PlayerCounts { playing: counts.playing(), came: counts.came },
            totals: Totals {
                requests: counts.requests,
                errors: counts.errors,
                bytes: counts.bytes,
                stalls: counts.stalls,
            },
            hosts: this.chain(self.others.iter().map(|other| other.named())).map(host).collect(),
            sums: state.sums.clone(),
            samples: state.samples.iter().skip(from.saturating_sub(state.dropped)).cloned().collect(),
        };
        if state.has_ended {
            self.end_sent.notify_one();
        }
        drop(state);
        serde_json::to_string(&data).unwrap_or_default()
    }
}
