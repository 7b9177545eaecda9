//! The command-line flags of `load`.

use super::{job::Job, url_list};
use crate::{address::port_address, location::http_url, storage_flags::StorageFlags, trust::TrustFlags};
use anyhow::{Context, Result, anyhow, ensure};
use clap::{Args as ClapArgs, ValueEnum};
use latemux_client::http::{AllowedHosts, ClientOptions};
use latemux_load::{
    player::{Abr, Behaviour, Chunking, Trace},
    run::{Arrivals, CompetingPlan, Plan, Popularity, Shard, SinglePlan, Step, Style},
};
use latemux_quantity::{ByteSize, TimeSpan};
use latemux_streams::{ChunkTimeout, Settings};
use std::{collections::BTreeMap, fs, net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};
use url::Url;

/// The prefix of a trace file in `--abr`.
const TRACE: &str = "trace:";

/// The maximum number of connections of a player for chunks.
const MAX_STREAMS: usize = 64;

/// The maximum number of bytes of a chunk. A player keeps up to eight for each connection.
const MAX_CHUNK: u64 = 16 << 20;

/// The maximum exponent of Zipf's law. With it, nearly all requests are for the first URL.
const MAX_EXPONENT: f64 = 10.0;

/// The number of connections above which each has a smaller read buffer.
const MANY_CONNECTIONS: u64 = 1000;

/// Load-test any streaming server: simulate viewers, check and measure the responses
///
/// Players of HLS, DASH, Smooth Streaming and HDS read the manifest, choose renditions, keep a
/// buffer and play in real time. If several titles are given, the players take them in turn. Every
/// response is checked: its boxes or packets must be intact, its times continuous, and its length
/// as declared. Failures are counted by reason, and make the command fail. Latency is measured from
/// the time when a request was due.
#[derive(Debug, ClapArgs)]
pub(crate) struct Load {
    /// URLs of manifests; with --single, any URLs
    #[arg(required_unless_present_any = ["host_stats", "list"], value_name = "URL")]
    pub(crate) urls: Vec<String>,
    /// File with further URLs, one on each line; `#` starts a comment
    #[arg(long, value_name = "FILE")]
    pub(crate) list: Option<PathBuf>,
    /// Choose URLs at random by Zipf's law with this exponent, such as 0.8: the URL of rank k has
    /// a share proportional to 1 / k^EXPONENT [default: choose them in turn]
    #[arg(long, value_name = "EXPONENT")]
    pub(crate) zipf: Option<f64>,
    /// Number of players
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub(crate) players: u64,
    /// Time over which the starts of players are spread
    #[arg(long, default_value = "0s", value_name = "DURATION")]
    pub(crate) ramp: TimeSpan,
    /// When players start: `closed` (evenly over the ramp; with --duration, a player that has
    /// finished starts again) or `poisson:RATE` (at random, RATE per second on average)
    #[arg(long, default_value = "closed", value_name = "HOW")]
    pub(crate) arrivals: Arrivals,
    /// Hold N players for a time; with --single, N connections. Can be repeated for further steps,
    /// whose additional players start over --ramp. Only requests after the ramp count for a step
    #[arg(
        long,
        value_name = "N/DURATION",
        value_parser = step,
        conflicts_with_all = ["players", "arrivals", "duration", "concurrency", "requests", "rate"]
    )]
    pub(crate) step: Vec<Step>,
    /// Duration of the run [default: until all players have finished]
    #[arg(long, value_name = "DURATION")]
    pub(crate) duration: Option<TimeSpan>,
    /// How players choose renditions: throughput, buffer, fixed:RATE (800k, 3M, min, max), random,
    /// or trace:FILE (each line holds a time in seconds and a RATE)
    #[arg(long, default_value = "throughput", value_name = "HOW")]
    pub(crate) abr: String,
    /// Amount of media that a player keeps buffered
    #[arg(long, default_value = "30s", value_name = "DURATION")]
    pub(crate) buffer: TimeSpan,
    /// Amount of buffered media at which playback starts, and resumes after a stall
    #[arg(long, default_value = "2s", value_name = "DURATION")]
    pub(crate) start_buffer: TimeSpan,
    /// Random seeks of each player per minute, on average
    #[arg(long, default_value_t = 0.0, value_name = "RATE")]
    pub(crate) seek_rate: f64,
    /// Also fetch subtitles: the default ones, or else the first
    #[arg(long, conflicts_with = "single")]
    pub(crate) text: bool,
    /// Fetch one segment after the other as fast as possible, audio before video, as published load
    /// tests do
    #[arg(long, conflicts_with_all = ["single", "seek_rate"])]
    pub(crate) sequence: bool,
    /// Request the URL repeatedly, as `ab` does; several URLs are requested in turn
    #[arg(long, conflicts_with_all = ["players", "arrivals", "abr", "seek_rate"])]
    pub(crate) single: bool,
    /// With --single: number of connections
    #[arg(long, default_value_t = 1, value_name = "N", requires = "single")]
    pub(crate) concurrency: u64,
    /// With --single: number of requests
    #[arg(long, value_name = "N", requires = "single")]
    pub(crate) requests: Option<u64>,
    /// With --single: requests per second. Each request is due at its own time, whether or not
    /// earlier ones have ended
    #[arg(long, value_name = "RATE", requires = "single")]
    pub(crate) rate: Option<f64>,
    /// Fetch video segments in chunks over N connections of each player, all with HTTP/1.1. With
    /// --single, fetch each URL in chunks: each of the --concurrency connections becomes N
    #[arg(long, value_name = "N", conflicts_with = "new_connections")]
    pub(crate) streams: Option<usize>,
    /// With --streams: number of bytes of a chunk, such as 160kB or 512KiB
    #[arg(long, default_value = "160kB", value_name = "SIZE", requires = "streams")]
    pub(crate) chunk: ByteSize,
    /// With --streams: time between the end of a chunk and the next request on the same connection
    #[arg(long, default_value = "0s", value_name = "DURATION", requires = "streams")]
    pub(crate) gap: TimeSpan,
    /// With --streams: time after which a chunk has timed out and is requested again: `adaptive`
    /// (by the last transfer times, 1 s to 5 s) or a duration
    #[arg(long, default_value = "adaptive", value_name = "HOW", value_parser = chunk_timeout, requires = "streams")]
    pub(crate) chunk_timeout: ChunkTimeout,
    /// With --streams: what to do with a segment whose download takes longer than its duration:
    /// `wait` for it, or `truncate` it to the bytes that arrived in order
    #[arg(long, default_value = "wait", value_name = "WHAT", requires = "streams")]
    pub(crate) on_deadline: OnDeadline,
    /// Number of plain downloads beside the players, each over one connection, to compare the
    /// throughput of both
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub(crate) competing: u64,
    /// Order of samples in segments of DASH, and of HLS in CMAF with one track: `decode`, or
    /// `priority`, which requests the most important samples first (`?order=priority`)
    #[arg(long, default_value = "decode", value_name = "ORDER", conflicts_with = "single")]
    pub(crate) order: Order,
    /// Open a new connection for each request
    #[arg(long)]
    pub(crate) new_connections: bool,
    /// Another server that manifests may refer to: host or host:port; can be repeated
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Time within which a response must be complete
    #[arg(long, default_value = "30s", value_name = "DURATION")]
    pub(crate) timeout: TimeSpan,
    #[command(flatten)]
    pub(crate) trust: TrustFlags,
    /// Address at which to serve a page that shows the run while it lasts, such as 127.0.0.1:9100
    #[arg(long, value_name = "ADDR:PORT", value_parser = port_address)]
    pub(crate) ui: Option<SocketAddr>,
    /// Also record and show the resource usage of the machine at this address, on which
    /// `latemux load --host-stats` runs; can be repeated
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) watch_host: Vec<String>,
    /// Record the metrics at this URL before and after the run, such as those of an origin at
    /// http://127.0.0.1:9090/metrics; can be repeated
    #[arg(long, value_name = "URL")]
    pub(crate) metrics: Vec<String>,
    /// File with the token that the servers of --metrics require, such as the admin_token_file of
    /// `latemux serve`
    #[arg(long, value_name = "FILE", requires = "metrics")]
    pub(crate) metrics_token_file: Option<PathBuf>,
    /// Play nothing, but serve the resource usage of this machine (processors, memory, network) at
    /// this address until stopped. A run on another machine reads it with --watch-host
    #[arg(long, value_name = "ADDR:PORT", value_parser = port_address, exclusive = true)]
    pub(crate) host_stats: Option<SocketAddr>,
    /// Folder for the results, which `latemux report` reads: a path, s3://bucket/folder, gs://… or
    /// az://…
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<String>,
    #[command(flatten)]
    pub(crate) storage: StorageFlags,
    /// Start time: 2026-11-21T10:00:00Z, or seconds since 1970
    #[arg(long, value_name = "TIME")]
    pub(crate) start_at: Option<String>,
    /// Run only part i of N of the players or requests, where the first i is 0; other machines run
    /// the other parts
    #[arg(long, default_value_t, value_name = "i/N")]
    pub(crate) shard: Shard,
    /// Random seed: runs with the same seed have the same arrivals, seeks and random choices
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub(crate) seed: u64,
}

/// The order of samples that players ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    Decode,
    Priority,
}

/// The action if the download of a segment takes longer than its duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnDeadline {
    Wait,
    Truncate,
}

/// Reads `adaptive` or a duration.
fn chunk_timeout(text: &str) -> Result<ChunkTimeout, String> {
    if text == "adaptive" {
        return Ok(ChunkTimeout::Adaptive);
    }
    let duration = text.parse().map(|TimeSpan(duration)| duration).ok().filter(|limit| !limit.is_zero());
    duration.map(ChunkTimeout::Fixed).ok_or_else(|| "neither `adaptive` nor a duration such as 3s".to_owned())
}

/// Reads a step such as `50/2m`.
fn step(text: &str) -> Result<Step, String> {
    let parsed = text.split_once('/').and_then(|(level, duration)| {
        let TimeSpan(duration) = duration.parse().ok()?;
        Some(Step { level: level.parse().ok()?, duration })
    });
    parsed
        .filter(|step| !step.duration.is_zero())
        .ok_or_else(|| "not N/DURATION, such as 50/2m for 50 players for two minutes".to_owned())
}

impl Load {
    pub(super) fn job(&self, urls: Vec<Url>) -> Result<Job> {
        let popularity = match self.zipf {
            None => Popularity::InTurn,
            Some(exponent) => {
                ensure!((0.0..=MAX_EXPONENT).contains(&exponent), "--zipf must be from 0 to {MAX_EXPONENT}");
                Popularity::Zipf(exponent)
            }
        };
        let duration = self.duration.map(|duration| duration.0).or_else(|| self.steps_duration());
        let is_short = |step: &Step| step.duration <= self.ramp.0;
        ensure!(!self.step.iter().any(is_short), "--ramp must be shorter than each --step");
        if self.single {
            ensure!(self.concurrency > 0, "--concurrency must not be 0");
            ensure!(self.rate.is_none_or(|rate| rate > 0.0 && rate.is_finite()), "--rate must be above 0");
            ensure!(
                self.requests.is_some() || duration.is_some(),
                "--single needs --requests or --duration, or a --step"
            );
            ensure!(self.ramp.0.is_zero() || !self.step.is_empty(), "--single has a --ramp only with --step");
            return Ok(Job::Single(SinglePlan {
                urls,
                popularity,
                concurrency: self.concurrency,
                requests: self.requests,
                rate: self.rate,
                duration,
                steps: self.step.clone(),
                ramp: self.ramp.0,
                chunking: self.chunking()?.map(|chunking| chunking.settings),
                shard: self.shard,
                seed: self.seed,
            }));
        }
        ensure!(self.players > 0, "--players must not be 0");
        let style = if self.sequence { Style::Sequence } else { Style::Watch };
        Ok(Job::Players(Plan {
            urls,
            popularity,
            style,
            players: self.players,
            ramp: self.ramp.0,
            arrivals: self.arrivals,
            duration,
            steps: self.step.clone(),
            shard: self.shard,
            seed: self.seed,
        }))
    }

    /// Returns the chunks in which segments are fetched.
    fn chunking(&self) -> Result<Option<Chunking>> {
        let Some(streams) = self.streams else { return Ok(None) };
        ensure!((1..=MAX_STREAMS).contains(&streams), "--streams must be from 1 to {MAX_STREAMS}");
        ensure!((1..=MAX_CHUNK).contains(&self.chunk.0), "--chunk must be from 1 to {MAX_CHUNK} bytes");
        let truncate = self.on_deadline == OnDeadline::Truncate;
        ensure!(!(truncate && self.single), "--on-deadline truncate needs segments, which --single has not");
        let settings =
            Settings { streams, chunk: self.chunk.0, gap: self.gap.0, timeout: self.chunk_timeout };
        Ok(Some(Chunking { settings, truncate }))
    }

    /// Returns the downloads beside a run; `None` if there are none.
    pub(super) fn competing(&self, job: &Job) -> Option<CompetingPlan> {
        let plan = match job {
            _ if self.competing == 0 => return None,
            Job::Players(plan) => CompetingPlan::Titles(Plan {
                style: Style::Sequence,
                players: self.competing,
                ramp: Duration::ZERO,
                arrivals: Arrivals::Closed,
                duration: Some(Duration::MAX),
                steps: Vec::new(),
                shard: Shard::default(),
                ..plan.clone()
            }),
            Job::Single(plan) => CompetingPlan::Urls(SinglePlan {
                concurrency: self.competing,
                requests: None,
                rate: None,
                duration: None,
                steps: Vec::new(),
                chunking: None,
                shard: Shard::default(),
                ..plan.clone()
            }),
        };
        Some(plan)
    }

    /// Returns the duration of all steps; `None` if there are none.
    fn steps_duration(&self) -> Option<Duration> {
        let sum = |sum: Duration, step: &Step| sum.saturating_add(step.duration);
        (!self.step.is_empty()).then(|| self.step.iter().fold(Duration::ZERO, sum))
    }

    /// Returns the URLs of the command line, and those of `--list` after them.
    pub(super) fn urls(&self) -> Result<Vec<Url>> {
        let mut urls: Vec<Url> = self.urls.iter().map(|text| http_url(text)).collect::<Result<_>>()?;
        if let Some(path) = &self.list {
            urls.extend(url_list::read(path)?);
        }
        Ok(urls)
    }

    pub(super) fn behaviour(&self) -> Result<Behaviour> {
        let abr = match self.abr.strip_prefix(TRACE) {
            None => self.abr.parse().map_err(|why| anyhow!("--abr: {why}"))?,
            Some(path) => {
                let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
                Abr::Trace(Arc::new(Trace::parse(&text).map_err(|why| anyhow!("{path}: {why}"))?))
            }
        };
        let max_buffer = self.buffer.0.as_secs_f64();
        let start_buffer = self.start_buffer.0.as_secs_f64();
        ensure!(
            max_buffer > 0.0 && start_buffer <= max_buffer,
            "--buffer must be above 0, and not below --start-buffer"
        );
        ensure!(self.seek_rate >= 0.0 && self.seek_rate.is_finite(), "--seek-rate must not be below 0");
        let seek_rate = self.seek_rate;
        let text = self.text;
        let chunking = self.chunking()?;
        let by_priority = self.order == Order::Priority;
        Ok(Behaviour { abr, max_buffer, start_buffer, seek_rate, text, chunking, by_priority })
    }

    /// Returns the options of a client with a number of connections.
    pub(super) fn client_options(&self, urls: &[Url], connections: u64) -> Result<ClientOptions> {
        let mut hosts = AllowedHosts::default();
        urls.iter().for_each(|url| hosts.allow_server(url));
        for host in &self.allow_host {
            hosts.allow(host).map_err(|why| anyhow!("--allow-host {why}"))?;
        }
        ensure!(self.timeout.0 > Duration::ZERO, "--timeout must not be 0");
        let read_buffer =
            if connections > MANY_CONNECTIONS { 16 << 10 } else { ClientOptions::default().read_buffer };
        let keep_alive = !self.new_connections;
        Ok(ClientOptions {
            hosts,
            timeout: self.timeout.0,
            read_buffer,
            keep_alive,
            ..ClientOptions::default()
        })
    }

    /// Returns the options that all parts of a run share, by name.
    pub(super) fn plan(&self, urls: &[Url]) -> BTreeMap<String, String> {
        let mut plan = BTreeMap::from([("urls".to_owned(), self.urls.join(" "))]);
        let mut add = |name: &str, value: String| plan.insert(name.to_owned(), value);
        if self.list.is_some() {
            add("list", url_list::digest(urls.get(self.urls.len()..).unwrap_or_default()));
        }
        if let Some(exponent) = self.zipf {
            add("zipf", exponent.to_string());
            add("seed", self.seed.to_string());
        }
        if self.new_connections {
            add("new-connections", "true".to_owned());
        }
        if let Some(streams) = self.streams {
            add("streams", streams.to_string());
            add("chunk", self.chunk.to_string());
            add("gap", self.gap.to_string());
            let timeout = match self.chunk_timeout {
                ChunkTimeout::Adaptive => "adaptive".to_owned(),
                ChunkTimeout::Fixed(limit) => TimeSpan(limit).to_string(),
            };
            add("chunk-timeout", timeout);
            let truncate = self.on_deadline == OnDeadline::Truncate;
            add("on-deadline", if truncate { "truncate" } else { "wait" }.to_owned());
        }
        if self.streams.is_some() || self.competing > 0 {
            add("competing", self.competing.to_string());
        }
        if self.order == Order::Priority {
            add("order", "priority".to_owned());
        }
        if !self.step.is_empty() {
            let step = |step: &Step| format!("{}/{}", step.level, TimeSpan(step.duration));
            add("steps", self.step.iter().map(step).collect::<Vec<_>>().join(" "));
            add("ramp", self.ramp.to_string());
        }
        let duration = self.duration.map_or_else(|| "-".to_owned(), |duration| duration.to_string());
        add("duration", duration);
        add("timeout", self.timeout.to_string());
        if self.single {
            add("concurrency", self.concurrency.to_string());
            add("requests", self.requests.map_or_else(|| "-".to_owned(), |n| n.to_string()));
            add("rate", self.rate.map_or_else(|| "-".to_owned(), |rate| rate.to_string()));
            return plan;
        }
        add("style", if self.sequence { "sequence" } else { "watch" }.to_owned());
        add("players", self.players.to_string());
        add("ramp", self.ramp.to_string());
        add("arrivals", self.arrivals.to_string());
        add("abr", self.abr.clone());
        add("buffer", self.buffer.to_string());
        add("start-buffer", self.start_buffer.to_string());
        add("seek-rate", self.seek_rate.to_string());
        add("text", self.text.to_string());
        add("seed", self.seed.to_string());
        plan
    }
}

#[cfg(test)]
mod tests {
    use crate::args::{Args, Command};
    use clap::Parser as _;
    use std::path::Path;
    use yaml_rust2::{Yaml, YamlLoader};

    /// Returns the arguments of a container, with its variables filled in as Kubernetes does.
    fn arguments(job: &Yaml, pod: u32) -> Vec<String> {
        let container = &job["spec"]["template"]["spec"]["containers"][0];
        let text = |value: &Yaml| value.as_str().unwrap().to_owned();
        let mut variables = vec![("JOB_COMPLETION_INDEX".to_owned(), pod.to_string())];
        let stated = container["env"].as_vec().unwrap().iter();
        variables.extend(stated.map(|variable| (text(&variable["name"]), text(&variable["value"]))));
        let fill = |argument: &Yaml| {
            variables
                .iter()
                .fold(text(argument), |filled, (name, value)| filled.replace(&format!("$({name})"), value))
        };
        container["args"].as_vec().unwrap().iter().map(fill).collect()
    }

    #[test]
    fn the_arguments_of_the_kubernetes_job_are_valid() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/load/job.yaml");
        let documents = YamlLoader::load_from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        let [job] = documents.as_slice() else { panic!("{} documents", documents.len()) };
        assert_eq!(
            (job["kind"].as_str(), job["spec"]["completionMode"].as_str()),
            (Some("Job"), Some("Indexed"))
        );
        let pods = job["spec"]["completions"].as_i64().unwrap();
        assert_eq!(job["spec"]["parallelism"].as_i64(), Some(pods), "all at the same time");
        for pod in 0..u32::try_from(pods).unwrap() {
            let arguments = arguments(job, pod);
            assert!(!arguments.iter().any(|argument| argument.contains("$(")), "{arguments:?}");
            let args = Args::try_parse_from([&["latemux".to_owned()], &arguments[..]].concat()).unwrap();
            let Command::Load(flags) = args.command else { panic!("{arguments:?}") };
            flags.job(flags.urls().unwrap()).unwrap();
            flags.behaviour().unwrap();
            assert_eq!(flags.shard.to_string(), format!("{pod}/{pods}"));
            assert!(super::super::start_time(flags.start_at.as_deref().unwrap()).is_ok());
            // The results are on the volume that the pods share.
            let mount = &job["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][0]["mountPath"];
            assert!(Path::new(&flags.out.unwrap()).starts_with(mount.as_str().unwrap()));
        }
    }
}
