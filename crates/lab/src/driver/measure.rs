//! The result of one measurement, from the parts of its tasks.

use crate::{
    Error,
    function::Function,
    nbmp::Task,
    task::{Part, Played},
};
use latemux_load::results::Run;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// The share of the duration of a load in which its generator may be saturated.
const MAX_SATURATED: f64 = 0.1;

/// The share of all cores that other programs may use.
const MAX_FOREIGN: f64 = 0.1;

/// The result of one measurement. All counts begin with the measured load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The requests of clients.
    pub requests: u64,
    /// The requests of clients that failed.
    pub failures: u64,
    /// The bytes of bodies that clients received.
    pub bytes: u64,
    /// The duration in seconds.
    pub seconds: f64,
    /// The mean latency to the last byte in milliseconds.
    pub latency: f64,
    /// The requests that storage answered.
    pub storage_requests: u64,
    /// The bytes of bodies that storage sent.
    pub storage_bytes: u64,
    /// The connections over which storage was asked.
    pub storage_connections: u64,
    /// The bytes, heads included, that went to the reader of the link that carried most.
    pub link_bytes: u64,
    /// The bytes of files that all caches keep at the end.
    pub cached: u64,
    /// The mean start-up delay of players in milliseconds, if the load has players.
    #[serde(default)]
    pub startup: Option<f64>,
    /// The median start-up delay of players in milliseconds.
    #[serde(default)]
    pub startup_median: Option<f64>,
    /// The start-up delay of each run of a real player in milliseconds.
    #[serde(default)]
    pub startups: Vec<f64>,
    /// The real player with its version, and that of its browser.
    #[serde(default)]
    pub player: Option<String>,
    /// The number of stalls of players.
    #[serde(default)]
    pub stalls: u64,
    /// The share of all cores that other programs used, from 0 to 1.
    #[serde(default)]
    pub foreign: f64,
    /// True if the generator of the load had too little processor time.
    #[serde(default)]
    pub is_generator_bound: bool,
    /// The resources that each function used, by its id.
    #[serde(default)]
    pub functions: BTreeMap<String, Resources>,
}

/// The resources that a function used, from its start.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resources {
    /// The function.
    pub function: Function,
    /// The processor time in seconds.
    pub processor: f64,
    /// The largest memory in bytes; 0 if it is unknown.
    pub memory: u64,
}

impl Measured {
    /// Adds up the parts of tasks in a folder.
    ///
    /// # Errors
    /// If a part is missing or cannot be read.
    pub(super) fn of(tasks: &[Task], ids: &[String], folder: &Path) -> Result<Self, Error> {
        let parts = tasks.iter().map(|task| Ok((task, Part::read(folder, &task.id)?)));
        let parts: Vec<(&Task, Part)> = parts.collect::<Result<_, Error>>()?;
        let mut measured = Self::default();
        let from = parts.iter().map(|(_, part)| part.measured_from).fold(0.0, f64::max);
        for ((task, part), id) in parts.iter().zip(ids) {
            measured.cached += part.cached;
            let Part { processor, memory, .. } = *part;
            measured.functions.insert(id.clone(), Resources { function: task.function, processor, memory });
            match task.function {
                Function::Storage => measured.add_storage(part, from),
                Function::Link => {
                    let before = part.carried.iter().rfind(|state| state.time < from);
                    let end = part.carried.last().map_or(0, |state| state.bytes);
                    let bytes = end - before.map_or(0, |state| state.bytes);
                    measured.link_bytes = measured.link_bytes.max(bytes);
                }
                Function::Load => measured.add_load(&folder.join(&task.id).join("results"))?,
                Function::Player => measured.add_player(Played::read(&folder.join(&task.id), task)?),
                Function::Origin | Function::Cache | Function::Balance => {}
            }
        }
        Ok(measured)
    }

    fn add_storage(&mut self, part: &Part, from: f64) {
        let responses: Vec<_> = part.responses.iter().filter(|response| response.time >= from).collect();
        self.storage_requests += responses.len() as u64;
        self.storage_bytes += responses.iter().map(|response| response.body).sum::<u64>();
        let connections: BTreeSet<u64> = responses.iter().map(|response| response.connection).collect();
        self.storage_connections += connections.len() as u64;
    }

    fn add_load(&mut self, results: &Path) -> Result<(), Error> {
        let run = Run::read(results).map_err(|error| Error::file(results, &error))?;
        let total = run.whole.results.total();
        self.requests = total.count;
        self.failures = total.failed();
        self.bytes = total.bytes;
        self.seconds = run.whole.took as f64 / 1000.0;
        self.latency = total.latency.mean() / 1000.0;
        let players = &run.whole.results.players;
        self.startup = (players.startup.count() > 0).then(|| players.startup.mean() / 1000.0);
        self.startup_median =
            (players.startup.count() > 0).then(|| players.startup.quantile(0.5) as f64 / 1000.0);
        self.stalls = players.stalls.count();
        let saturated = run.whole.generator.saturated as f64 / 1000.0;
        self.is_generator_bound = saturated > MAX_SATURATED * self.seconds;
        Ok(())
    }

    fn add_player(&mut self, played: Played) {
        let Played { player, startups, stalls, requests, failures, bytes, latency, seconds, .. } = played;
        let mut sorted = startups.clone();
        sorted.sort_by(f64::total_cmp);
        let runs = sorted.len();
        self.startup = Some(sorted.iter().sum::<f64>() / runs as f64);
        self.startup_median = Some(f64::midpoint(sorted[(runs - 1) / 2], sorted[runs / 2]));
        (self.startups, self.player, self.stalls) = (startups, Some(player), stalls);
        (self.requests, self.failures, self.bytes) = (requests, failures, bytes);
        (self.latency, self.seconds) = (latency, seconds);
    }

    /// Returns true if other programs took so much processor time that times are not reliable.
    pub fn is_disturbed(&self) -> bool {
        self.foreign > MAX_FOREIGN
    }

    /// Returns the processor seconds of all origins.
    pub fn origin_time(&self) -> f64 {
        let origins = self.functions.values().filter(|used| used.function == Function::Origin);
        origins.map(|used| used.processor).sum()
    }

    /// Returns the bytes that clients received for each byte that storage sent, if it sent any.
    pub fn efficiency(&self) -> Option<f64> {
        (self.storage_bytes > 0).then(|| self.bytes as f64 / self.storage_bytes as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_player_has_a_mean_a_median_and_each_delay() {
        let played = |startups: &[f64]| Played {
            began: 1.0,
            player: "x".to_owned(),
            startups: startups.to_vec(),
            stalls: 2,
            requests: 4,
            failures: 1,
            bytes: 3,
            latency: 5.0,
            seconds: 6.0,
        };
        let measured = |startups: &[f64]| {
            let mut measured = Measured::default();
            measured.add_player(played(startups));
            measured
        };
        let even = measured(&[400.0, 100.0, 200.0, 900.0]);
        assert_eq!((even.startup, even.startup_median), (Some(400.0), Some(300.0)));
        assert_eq!(even.startups, [400.0, 100.0, 200.0, 900.0]);
        assert_eq!((even.stalls, even.requests, even.failures, even.bytes), (2, 4, 1, 3));
        assert_eq!(measured(&[7.0, 1.0, 2.0]).startup_median, Some(2.0));
        assert_eq!(measured(&[7.0]).startup_median, Some(7.0));
        let text = serde_json::to_string(&even).unwrap();
        assert_eq!(serde_json::from_str::<Measured>(&text).unwrap(), even);
        assert!(serde_json::from_str::<Measured>(&text.replace("startups", "starts")).is_err());
    }
}
