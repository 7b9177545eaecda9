//! The result of one measurement, from the parts of its tasks.

use super::usage::{Tcp, Usage};
use crate::{
    Error,
    content::{Choice, Paths},
    function::{Function, exponent},
    graph::Node,
    model::{
        lru::{Requests, hit_ratio},
        predict::{Files, Load},
    },
    nbmp::Task,
    task::{Counters, LOAD, Part, Played, Sources},
};
use latemux_load::results::{Histogram, Results, Run};
use latemux_quantity::ByteSize;
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
    /// The median latency to the last byte in milliseconds. Real players do not state it.
    #[serde(default)]
    pub latency_median: Option<f64>,
    /// The latency to the last byte in milliseconds that 99 % of the requests do not exceed.
    #[serde(default)]
    pub latency_p99: Option<f64>,
    /// The mean latency to the head of a response in milliseconds.
    #[serde(default)]
    pub first_byte: Option<f64>,
    /// The requests that storage answered.
    pub storage_requests: u64,
    /// The bytes of bodies that storage sent.
    pub storage_bytes: u64,
    /// The bytes that storage sent, heads included.
    #[serde(default)]
    pub storage_wire: u64,
    /// The connections over which storage was asked.
    pub storage_connections: u64,
    /// The bytes, including heads, that the link carried towards the client. With several links,
    /// those of the link that carried most.
    pub link_bytes: u64,
    /// The bytes that all caches keep at the end: files, and the memory of origins.
    pub cached: u64,
    /// The responses of nginx as a cache.
    #[serde(default)]
    pub cache_responses: u64,
    /// The responses of nginx as a cache that came from it.
    #[serde(default)]
    pub cache_hits: u64,
    /// The counters of all origins together.
    #[serde(default)]
    pub origin: Counters,
    /// The requests to storage by the cost model, if it covers the cell.
    #[serde(default)]
    pub model_requests: Option<u64>,
    /// The bytes from storage by the cost model.
    #[serde(default)]
    pub model_bytes: Option<u64>,
    /// The bytes to clients for each byte from storage, by the cost model.
    #[serde(default)]
    pub model_efficiency: Option<f64>,
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
    /// The duration of all stalls of simulated players in seconds.
    #[serde(default)]
    pub stalled: Option<f64>,
    /// The duration of all media that simulated players played, in seconds.
    #[serde(default)]
    pub shown: Option<f64>,
    /// The segments that were truncated at their deadline, if they were fetched over
    /// request-response streams.
    #[serde(default)]
    pub truncated: Option<u64>,
    /// The bytes of these segments that arrived in order, as a share of all their bytes.
    #[serde(default)]
    pub arrived: Option<f64>,
    /// The share of all cores that other programs used, from 0 to 1.
    #[serde(default)]
    pub foreign: f64,
    /// True if the generator of the load had too little processor time.
    #[serde(default)]
    pub is_generator_bound: bool,
    /// The source bytes that went into responses of all origins.
    #[serde(default)]
    pub source_used: u64,
    /// The bytes of media that all origins read from storage.
    #[serde(default)]
    pub source_read: u64,
    /// The hit ratio that an LRU cache of the origin's size would have had, if titles had a Zipf
    /// popularity.
    #[serde(default)]
    pub lru: Option<f64>,
    /// The resources that each function used, by its id.
    #[serde(default)]
    pub functions: BTreeMap<String, Resources>,
    /// The counters of the client's host, if hosts have networks of their own.
    #[serde(default)]
    pub client_tcp: Option<Tcp>,
    /// The counters of storage's host, if hosts have networks of their own.
    #[serde(default)]
    pub storage_tcp: Option<Tcp>,
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
    pub(super) fn of(
        tasks: &[Task],
        nodes: &[Node],
        usage: &Usage,
        folder: &Path,
        content: &Path,
    ) -> Result<Self, Error> {
        let parts = tasks.iter().map(|task| Ok((task, Part::read(folder, &task.id)?)));
        let parts: Vec<(&Task, Part)> = parts.collect::<Result<_, Error>>()?;
        let mut measured = Self::default();
        let mut title_bytes = 0;
        let from = parts.iter().map(|(_, part)| part.measured_from).fold(0.0, f64::max);
        for ((task, part), node) in parts.iter().zip(nodes) {
            measured.cached += part.cached;
            let Part { processor, memory, .. } = *part;
            let resources = Resources { function: task.function, processor, memory };
            measured.functions.insert(node.id.clone(), resources);
            match task.function {
                Function::Storage => {
                    measured.add_storage(part, from);
                    title_bytes = part.title_bytes;
                }
                Function::Origin => measured.add_sources(&part.sources, from),
                Function::Link => {
                    let before = part.carried.iter().rfind(|state| state.time < from);
                    let end = part.carried.last().map_or(0, |state| state.bytes);
                    let bytes = end - before.map_or(0, |state| state.bytes);
                    measured.link_bytes = measured.link_bytes.max(bytes);
                }
                Function::Load => measured.add_load(&folder.join(&task.id).join(LOAD))?,
                Function::Player => measured.add_player(Played::read(&folder.join(&task.id), task)?),
                Function::Cache => measured.add_cache(part, from),
                Function::Balance => {}
            }
        }
        measured.add_model(tasks, content);
        measured.lru = lru(tasks, title_bytes, measured.source_used);
        measured.client_tcp = usage.tcp_of(nodes, from, Function::is_client);
        measured.storage_tcp = usage.tcp_of(nodes, from, |function| function == Function::Storage);
        Ok(measured)
    }

    /// Adds what the cost model states for the cell of these tasks, as far as it covers it.
    fn add_model(&mut self, tasks: &[Task], content: &Path) {
        let functions = tasks.iter().map(|task| (task.function, &task.parameters));
        let (counted, repeated) = (Load::of(&functions), Load::repeated(&functions));
        if counted.is_err() && repeated.is_err() {
            return;
        }
        let Some((files, segments)) = title(tasks, content) else { return };
        if let Ok(load) = counted {
            let cost = load.cost(&files, segments);
            let requests = load.has_requests(files.media.len()).then_some(cost.requests);
            (self.model_requests, self.model_bytes) = (requests, cost.bytes);
        }
        self.model_efficiency = repeated.ok().and_then(|load| load.efficiency(&files, segments));
    }

    fn add_sources(&mut self, states: &[Sources], from: f64) {
        let before = states.iter().rfind(|state| state.time < from);
        let grown = |of: fn(&Sources) -> u64| states.last().map_or(0, of) - before.map_or(0, of);
        self.source_used += grown(|state| state.used);
        self.source_read += grown(|state| state.read);
        let cached = states.last().map_or(0, |state| state.counters.cached);
        self.cached += cached;
        self.origin.cached += cached;
        self.origin.sent += grown(|state| state.counters.sent);
        self.origin.storage_requests += grown(|state| state.counters.storage_requests);
        self.origin.storage_bytes += grown(|state| state.counters.storage_bytes);
        self.origin.joins += grown(|state| state.counters.joins);
    }

    fn add_cache(&mut self, part: &Part, from: f64) {
        let responses = part.responses.iter().filter(|response| response.time >= from);
        for response in responses {
            self.cache_responses += 1;
            self.cache_hits += u64::from(response.cache == "HIT");
        }
    }

    fn add_storage(&mut self, part: &Part, from: f64) {
        let responses: Vec<_> = part.responses.iter().filter(|response| response.time >= from).collect();
        self.storage_requests += responses.len() as u64;
        self.storage_bytes += responses.iter().map(|response| response.body).sum::<u64>();
        self.storage_wire += responses.iter().map(|response| response.wire).sum::<u64>();
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
        let of = |histogram: &Histogram, value: f64| (histogram.count() > 0).then_some(value / 1000.0);
        self.latency_median = of(&total.latency, total.latency.quantile(0.5) as f64);
        self.latency_p99 = of(&total.latency, total.latency.quantile(0.99) as f64);
        self.first_byte = of(&total.first_byte, total.first_byte.mean());
        let players = &run.whole.results.players;
        self.startup = (players.startup.count() > 0).then(|| players.startup.mean() / 1000.0);
        self.startup_median =
            (players.startup.count() > 0).then(|| players.startup.quantile(0.5) as f64 / 1000.0);
        self.stalls = players.stalls.count();
        self.add_quality(&run.whole.results);
        let saturated = run.whole.generator.saturated as f64 / 1000.0;
        self.is_generator_bound = saturated > MAX_SATURATED * self.seconds;
        Ok(())
    }

    /// Adds what simulated players showed, and what of their segments arrived.
    fn add_quality(&mut self, results: &Results) {
        let Results { players, streams, .. } = results;
        if players.started > 0 {
            self.stalled = Some(players.stalls.mean() * players.stalls.count() as f64 / 1e6);
            self.shown = Some(players.shown as f64 / 1e6);
        }
        let bytes = streams.bytes + streams.missing;
        if bytes > 0 {
            self.truncated = Some(streams.truncated);
            self.arrived = Some(streams.bytes as f64 / bytes as f64);
        }
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

    /// Returns true if neither other programs nor a lack of processor time for the load can have
    /// changed times.
    pub fn is_reliable(&self) -> bool {
        !self.is_disturbed() && !self.is_generator_bound
    }

    /// Returns the processor seconds of all origins.
    pub fn origin_time(&self) -> f64 {
        let origins = self.functions.values().filter(|used| used.function == Function::Origin);
        origins.fold(0.0, |sum, used| sum + used.processor)
    }

    /// Returns 1 minus the bytes of media read from storage divided by the source bytes in
    /// responses, but not below 0.
    pub fn hit_ratio(&self) -> Option<f64> {
        let used = self.source_used as f64;
        (used > 0.0).then(|| (1.0 - self.source_read as f64 / used).max(0.0))
    }

    /// Returns the share of the responses of nginx as a cache that came from the cache, or `None`
    /// if there were no responses.
    pub fn cache_hit_ratio(&self) -> Option<f64> {
        let responses = self.cache_responses as f64;
        (responses > 0.0).then(|| self.cache_hits as f64 / responses)
    }

    /// Returns the bytes of bodies that clients received for each byte that storage sent, heads of
    /// its responses included, if it sent any.
    pub fn wire_efficiency(&self) -> Option<f64> {
        (self.storage_wire > 0).then(|| self.bytes as f64 / self.storage_wire as f64)
    }

    /// Returns the bytes that clients received for each byte that storage sent, if it sent any.
    pub fn efficiency(&self) -> Option<f64> {
        (self.storage_bytes > 0).then(|| self.bytes as f64 / self.storage_bytes as f64)
    }
}

/// Returns the sizes of the files of the title that the load requests, and the number of its
/// segments.
fn title(tasks: &[Task], content: &Path) -> Option<(Files, u64)> {
    let parameters = &tasks.iter().find(|task| task.function == Function::Load)?.parameters;
    let stated = |name: &str| parameters.get(name).map(String::as_str);
    let title = stated("title")?;
    let paths = Paths::read(content, title, stated("format")?, &Choice::of(parameters)).ok()?;
    Some((Files::read(&content.join(title)).ok()?, paths.segments.len() as u64))
}

/// Returns the hit ratio of an LRU cache with the size of the origin's cache, empty at first, if
/// players chose copies of a title by Zipf's law.
fn lru(tasks: &[Task], title_bytes: u64, used: u64) -> Option<f64> {
    let stated = |function, name: &str| {
        let task = tasks.iter().find(|task| task.function == function)?;
        task.parameters.get(name).map(String::as_str)
    };
    let exponent = exponent(stated(Function::Load, "popularity")?)?.parse().ok()?;
    let titles = stated(Function::Load, "copies")?.parse().ok()?;
    let ByteSize(cache) = stated(Function::Origin, "cache-memory")?.parse().ok()?;
    let was_filled = stated(Function::Load, "before").is_some_and(|before| before != "none");
    if title_bytes == 0 || used == 0 || was_filled {
        return None;
    }
    let in_titles = |bytes: u64| bytes as f64 / title_bytes as f64;
    Some(hit_ratio(&Requests { titles, exponent, count: in_titles(used) }, in_titles(cache)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::Response;

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

    #[test]
    fn quality_is_that_of_players_and_of_streams() {
        let mut measured = Measured::default();
        measured.add_quality(&Results::default());
        assert_eq!(measured, Measured::default());
        let mut results = Results::default();
        (results.players.started, results.players.shown) = (1, 7_500_000);
        [1_000_000, 2_000_000].into_iter().for_each(|stall| results.players.stalls.record(stall));
        (results.streams.bytes, results.streams.missing, results.streams.truncated) = (3, 1, 2);
        measured.add_quality(&results);
        let stalled = measured.stalled.unwrap();
        assert!((stalled - 3.0).abs() < 0.05, "{stalled}");
        assert_eq!((measured.shown, measured.truncated, measured.arrived), (Some(7.5), Some(2), Some(0.75)));
        let text = serde_json::to_string(&measured).unwrap();
        assert_eq!(serde_json::from_str::<Measured>(&text).unwrap(), measured);
    }

    fn task(function: Function, parameters: &[(&str, &str)]) -> Task {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        Task {
            id: function.name().to_owned(),
            function,
            parameters: parameters.iter().map(own).collect(),
            inputs: Vec::new(),
            outputs: Vec::new(),
        }
    }

    #[test]
    fn source_bytes_count_from_the_start_of_the_measured_load() {
        let state = |time, used, read| {
            let counters = Counters { joins: used, cached: read, ..Counters::default() };
            Sources { time, used, read, counters }
        };
        let states = [state(1.0, 0, 0), state(2.0, 100, 90), state(4.0, 300, 140)];
        let bytes = |from| {
            let mut measured = Measured::default();
            measured.add_sources(&states, from);
            measured.add_sources(&[], from);
            (measured.source_used, measured.source_read, measured.hit_ratio())
        };
        assert_eq!(bytes(3.0), (200, 50, Some(0.75)));
        let mut measured = Measured::default();
        measured.add_sources(&states, 3.0);
        // A counter counts what has grown, and a cache is as large as at the end.
        assert_eq!((measured.origin.joins, measured.origin.cached, measured.cached), (200, 140, 140));
        assert_eq!(bytes(0.5), (300, 140, Some(1.0 - 140.0 / 300.0)));
        assert_eq!(bytes(5.0), (0, 0, None));
        // Bytes that were read in vain are no hits either.
        let vain = Measured { source_used: 10, source_read: 11, ..Measured::default() };
        assert_eq!(vain.hit_ratio(), Some(0.0));
    }

    #[test]
    fn responses_count_from_the_start_of_the_measured_load() {
        let response = |time, cache: &str| Response {
            time,
            connection: 1,
            status: 200,
            body: 10,
            wire: 13,
            cache: cache.to_owned(),
            range: String::new(),
            uri: "/a".to_owned(),
        };
        let responses = vec![response(1.0, "HIT"), response(3.0, "HIT"), response(4.0, "MISS")];
        let part = Part { responses, ..Part::default() };
        let mut measured = Measured { bytes: 13, ..Measured::default() };
        measured.add_cache(&part, 2.0);
        measured.add_storage(&part, 2.0);
        assert_eq!((measured.cache_responses, measured.cache_hits), (2, 1));
        assert_eq!(measured.cache_hit_ratio(), Some(0.5));
        assert_eq!((measured.storage_bytes, measured.storage_wire), (20, 26));
        assert_eq!((measured.efficiency(), measured.wire_efficiency()), (Some(0.65), Some(0.5)));
        assert_eq!(Measured::default().cache_hit_ratio(), None);
    }

    #[test]
    fn a_cache_is_compared_with_lru_if_titles_have_a_popularity() {
        let expected = |load: &[(&str, &str)], origin: &[(&str, &str)], used| {
            lru(&[task(Function::Origin, origin), task(Function::Load, load)], 1000, used)
        };
        let load = [("popularity", "zipf:0"), ("copies", "100")];
        let origin = [("cache-memory", "25000")];
        // 25 of 100 equally popular titles fit.
        let found = expected(&load, &origin, 100_000_000_000).unwrap();
        assert!((found - 0.25).abs() < 1e-3, "{found}");
        assert!(expected(&load, &origin, 10_000).unwrap() < 0.05, "ten plays find hardly anything");
        assert_eq!(expected(&load, &[], 1000), None);
        assert_eq!(expected(&load, &origin, 0), None);
        assert_eq!(expected(&[("popularity", "in-turn"), load[1]], &origin, 1000), None);
        assert_eq!(expected(&[load[0], load[1], ("before", "same")], &origin, 1000), None);
    }
}
