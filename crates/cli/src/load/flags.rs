//! The command-line flags of `load`.

use super::Job;
use crate::{address::listen_address, args::Storage, location::http_url, trust::TrustFlags};
use anyhow::{Context, Result, anyhow, ensure};
use clap::Args as ClapArgs;
use latemux_client::http::{AllowedHosts, ClientOptions};
use latemux_load::{
    player::{Abr, Behaviour, Trace},
    run::{Arrivals, Plan, Shard, SinglePlan, Style},
};
use latemux_quantity::TimeSpan;
use std::{collections::BTreeMap, fs, net::SocketAddr, sync::Arc, time::Duration};
use url::Url;

/// The prefix of a trace file in `--abr`.
const TRACE: &str = "trace:";

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
    #[arg(required_unless_present = "host_stats", value_name = "URL")]
    pub(crate) urls: Vec<String>,
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
    #[arg(long, conflicts_with_all = ["players", "ramp", "arrivals", "abr", "seek_rate"])]
    pub(crate) single: bool,
    /// With --single: number of connections
    #[arg(long, default_value_t = 1, value_name = "N", requires = "single")]
    pub(crate) concurrency: u64,
    /// With --single: number of requests
    #[arg(long, value_name = "N", requires = "single")]
    pub(crate) requests: Option<u64>,
    /// With --single: requests per second; each is due at its own time, whether or not earlier ones
    /// have ended
    #[arg(long, value_name = "RATE", requires = "single")]
    pub(crate) rate: Option<f64>,
    /// Another server that manifests may refer to: host or host:port; can be repeated
    #[arg(long, value_name = "HOST")]
    pub(crate) allow_host: Vec<String>,
    /// Time within which a response must be complete
    #[arg(long, default_value = "30s", value_name = "DURATION")]
    pub(crate) timeout: TimeSpan,
    #[command(flatten)]
    pub(crate) trust: TrustFlags,
    /// Address at which to serve a page that shows the run while it lasts, such as 127.0.0.1:9100
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_address)]
    pub(crate) ui: Option<SocketAddr>,
    /// With --ui: also show the resource usage of the machine at this address, on which
    /// `latemux load --host-stats` runs; can be repeated
    #[arg(long, value_name = "HOST:PORT", requires = "ui")]
    pub(crate) watch_host: Vec<String>,
    /// Play nothing, but serve the resource usage of this machine (processors, memory, network) at
    /// this address until stopped; a run on another machine shows it with --watch-host
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_address, exclusive = true)]
    pub(crate) host_stats: Option<SocketAddr>,
    /// Folder for the results, which `latemux report` reads: a path, s3://bucket/folder, gs://… or
    /// az://…
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<String>,
    #[command(flatten)]
    pub(crate) storage: Storage,
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

impl Load {
    pub(super) fn job(&self) -> Result<Job> {
        let urls = self.urls()?;
        let duration = self.duration.map(|duration| duration.0);
        if self.single {
            ensure!(self.concurrency > 0, "--concurrency must not be 0");
            ensure!(self.rate.is_none_or(|rate| rate > 0.0 && rate.is_finite()), "--rate must be above 0");
            ensure!(self.requests.is_some() || duration.is_some(), "--single needs --requests or --duration");
            return Ok(Job::Single(SinglePlan {
                urls,
                concurrency: self.concurrency,
                requests: self.requests,
                rate: self.rate,
                duration,
                shard: self.shard,
            }));
        }
        ensure!(self.players > 0, "--players must not be 0");
        let style = if self.sequence { Style::Sequence } else { Style::Watch };
        Ok(Job::Players(Plan {
            urls,
            style,
            players: self.players,
            ramp: self.ramp.0,
            arrivals: self.arrivals,
            duration,
            shard: self.shard,
            seed: self.seed,
        }))
    }

    fn urls(&self) -> Result<Vec<Url>> {
        self.urls.iter().map(|text| http_url(text)).collect()
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
        Ok(Behaviour { abr, max_buffer, start_buffer, seek_rate: self.seek_rate, text: self.text })
    }

    /// Returns the options of a client with a number of connections.
    pub(super) fn client_options(&self, connections: u64) -> Result<ClientOptions> {
        let mut hosts = AllowedHosts::default();
        self.urls()?.iter().for_each(|url| hosts.allow_server(url));
        for host in &self.allow_host {
            hosts.allow(host).map_err(|why| anyhow!("--allow-host {why}"))?;
        }
        ensure!(self.timeout.0 > Duration::ZERO, "--timeout must not be 0");
        let read_buffer =
            if connections > MANY_CONNECTIONS { 16 << 10 } else { ClientOptions::default().read_buffer };
        Ok(ClientOptions { hosts, timeout: self.timeout.0, read_buffer, ..ClientOptions::default() })
    }

    /// Returns the options that all parts of a run share, by name.
    pub(super) fn plan(&self) -> BTreeMap<String, String> {
        let mut plan = BTreeMap::from([("urls".to_owned(), self.urls.join(" "))]);
        let mut add = |name: &str, value: String| plan.insert(name.to_owned(), value);
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
            flags.job().unwrap();
            flags.behaviour().unwrap();
            assert_eq!(flags.shard.to_string(), format!("{pod}/{pods}"));
            assert!(super::super::start_time(flags.start_at.as_deref().unwrap()).is_ok());
            // The results are on the volume that the pods share.
            let mount = &job["spec"]["template"]["spec"]["containers"][0]["volumeMounts"][0]["mountPath"];
            assert!(Path::new(&flags.out.unwrap()).starts_with(mount.as_str().unwrap()));
        }
    }
}
