//! What is shown while a run lasts: a page, and a line on the terminal.

use super::Load;
use crate::serve::say;
use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use latemux_client::http::{AllowedHosts, Client, ClientOptions, Network};
use latemux_load::{
    live::{self, HostStats, Live},
    results::{Counts, Part, Recorder},
    usage::Meter,
};
use std::{sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    time::{Interval, MissedTickBehavior, interval},
};

/// How often all is renewed; and every how many of these the results are written.
const PERIOD: Duration = Duration::from_secs(1);
const WRITE: u32 = 5;

/// The longest another machine may take to say what it does.
const PATIENCE: Duration = Duration::from_secs(3);

/// Looks at a run once a second. The line is not shown where standard error is no terminal.
pub(super) struct Watch {
    recorder: Arc<Recorder>,
    bar: ProgressBar,
    clock: Interval,
    ticks: u32,
    before: Counts,
    meter: Meter,
    live: Option<Arc<Live>>,
}

impl Watch {
    /// With a page, where the flags ask for one.
    pub(super) fn new(recorder: Arc<Recorder>, page: Option<Page>) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(2));
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
            bar.set_style(style);
        }
        let mut clock = interval(PERIOD);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first one is at once.
        clock.reset();
        let live = page.map(|page| page.open(recorder.clone()));
        Self { recorder, bar, clock, ticks: 0, before: Counts::default(), meter: Meter::default(), live }
    }

    /// Comes back a second after it did last; true when it is time to write the results. May be dropped at any time.
    pub(super) async fn tick(&mut self) -> bool {
        self.clock.tick().await;
        self.look();
        self.ticks = self.ticks.wrapping_add(1);
        self.ticks.is_multiple_of(WRITE)
    }

    fn look(&mut self) {
        let cpu = self.meter.sample();
        if let Some(live) = &self.live {
            live.sample(cpu);
        }
        if self.bar.is_hidden() {
            return;
        }
        let now = self.recorder.counts();
        self.bar.set_message(format!(
            "{} players, {} requests/s, {} Mbit/s, {} stalls, {} failed",
            now.playing(),
            now.requests.saturating_sub(self.before.requests),
            now.bytes.saturating_sub(self.before.bytes) * 8 / 1_000_000,
            now.stalls,
            now.errors,
        ));
        self.before = now;
        self.bar.tick();
    }

    /// What has been measured until now.
    pub(super) fn fill(&self, part: &mut Part) {
        part.took = super::milliseconds(self.recorder.start().elapsed());
        part.results = self.recorder.results();
        part.examples = self.recorder.examples();
        part.generator = self.meter.generator();
        if let Some(live) = &self.live {
            live.set_sums(part);
        }
    }

    /// Takes the line away; waits until open pages have seen the end.
    pub(super) async fn end(&mut self, part: &mut Part) {
        self.look();
        self.bar.finish_and_clear();
        self.fill(part);
        if let Some(live) = &self.live {
            live.end().await;
        }
    }
}

/// A page to be.
pub(super) struct Page {
    listener: TcpListener,
    hosts: Vec<Arc<HostStats>>,
    network: Arc<Network>,
}

impl Page {
    /// Listens, so that what is wrong with an address is known before anything is measured; says where.
    pub(super) async fn new(flags: &Load) -> Result<Option<Self>> {
        let Some(address) = flags.ui else { return Ok(None) };
        let host = |text: &String| {
            let host = HostStats::at(text);
            host.map(Arc::new).with_context(|| format!("--watch-host: no HOST:PORT: '{text}'"))
        };
        let hosts = flags.watch_host.iter().map(host).collect::<Result<Vec<_>>>()?;
        let listener =
            TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        say(&format!("live page at http://{}/\n", listener.local_addr()?))?;
        Ok(Some(Self { listener, hosts, network: Arc::new(flags.trust.network()?) }))
    }

    fn open(self, recorder: Arc<Recorder>) -> Arc<Live> {
        for host in &self.hosts {
            let mut hosts = AllowedHosts::default();
            hosts.allow_server(host.url());
            let options = ClientOptions { hosts, timeout: PATIENCE, ..ClientOptions::default() };
            let client = Client::new(self.network.clone(), options);
            tokio::spawn(live::watch(client, host.clone()));
        }
        let live = Arc::new(Live::new(recorder, self.hosts));
        // Ends with the runtime.
        tokio::spawn(live::serve(self.listener, live.clone()));
        live
    }
}

/// Tells what this machine does, until told to stop.
pub(super) async fn tell_host(address: std::net::SocketAddr, stop: impl Future<Output = ()>) -> Result<()> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let known = latemux_load::usage::Host::now();
    ensure!(known.cores > 0, "this system does not tell what it does: there is no /proc");
    say(&format!("{} tells what it does at http://{}/host.json\n", known.name, listener.local_addr()?))?;
    tokio::select! {
        () = live::serve_host(listener) => {}
        () = stop => {}
    }
    Ok(())
}
