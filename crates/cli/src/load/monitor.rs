//! The display of a run in progress: a page, and a line on the terminal.

use super::{Load, observed::Observed};
use crate::standard_output::say;
use anyhow::{Context, Result, ensure};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use latemux_client::http::Client;
use latemux_load::{
    live::{self, HostStats, Live},
    results::{CompetingResults, Counts, Part, Recorder},
    run::Competing,
    usage::Meter,
};
use latemux_quantity::millis;
use std::{sync::Arc, time::Duration};
use tokio::{
    net::TcpListener,
    time::{Interval, MissedTickBehavior, interval},
};

/// The interval of updates.
const PERIOD: Duration = Duration::from_secs(1);

/// The number of updates after which the results are written.
const WRITE_EVERY: u32 = 5;

/// Observes a run once a second. The line is hidden if standard error is not a terminal.
pub(super) struct Monitor {
    recorder: Arc<Recorder>,
    bar: ProgressBar,
    clock: Interval,
    ticks: u32,
    before: Counts,
    meter: Meter,
    client: Client,
    observed: Observed,
    competing: Option<Competing>,
    live: Option<Arc<Live>>,
}

impl Monitor {
    /// Starts to observe a run whose requests `client` makes, and opens its page if there is one.
    pub(super) fn new(
        recorder: Arc<Recorder>,
        client: Client,
        observed: Observed,
        competing: Option<Competing>,
        page: Option<PendingPage>,
    ) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(2));
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
            bar.set_style(style);
        }
        let mut clock = interval(PERIOD);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        // The first tick would be at once.
        clock.reset();
        let live = page.map(|page| page.open(recorder.clone()));
        let before = Counts::default();
        let meter = Meter::default();
        Self { recorder, bar, clock, ticks: 0, before, meter, client, observed, competing, live }
    }

    /// Waits for the next second and updates the display. Returns true if the results are to be
    /// written. The future can be dropped at any time.
    pub(super) async fn tick(&mut self) -> bool {
        self.clock.tick().await;
        self.update();
        self.ticks = self.ticks.wrapping_add(1);
        self.ticks.is_multiple_of(WRITE_EVERY)
    }

    fn update(&mut self) {
        let cpu = self.meter.sample();
        self.observed.sample(millis(self.recorder.start().elapsed()));
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

    /// Writes the results until now into a part.
    pub(super) fn fill(&self, part: &mut Part) {
        part.took = millis(self.recorder.start().elapsed());
        part.results = self.recorder.results();
        if let Some(competing) = &self.competing {
            part.results.competing = competing.results();
        }
        part.examples = self.recorder.examples();
        part.generator = self.meter.generator();
        part.connections = self.client.opened();
        self.observed.fill(part);
        if let Some(live) = &self.live {
            live.set_sums(part);
        }
    }

    /// Ends competing downloads, removes the line, reads the metrics of the observed servers, and
    /// waits until open pages have shown the end.
    ///
    /// # Errors
    /// If metrics cannot be read. The part has all other results.
    pub(super) async fn end(&mut self, part: &mut Part) -> Result<()> {
        let competing = match self.competing.take() {
            Some(competing) => competing.end().await,
            None => CompetingResults::default(),
        };
        self.update();
        self.bar.finish_and_clear();
        let read = self.observed.end().await;
        self.fill(part);
        part.results.competing = competing;
        if let Some(live) = &self.live {
            live.end().await;
        }
        read
    }
}

/// A page whose run has not started.
pub(super) struct PendingPage {
    listener: TcpListener,
    hosts: Vec<Arc<HostStats>>,
}

impl PendingPage {
    /// Listens on the address of the page and prints it. An address that cannot be used fails
    /// before anything is measured.
    pub(super) async fn new(flags: &Load, hosts: Vec<Arc<HostStats>>) -> Result<Option<Self>> {
        let Some(address) = flags.ui else { return Ok(None) };
        let listener =
            TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
        say(&format!("live page at http://{}/\n", listener.local_addr()?))?;
        Ok(Some(Self { listener, hosts }))
    }

    fn open(self, recorder: Arc<Recorder>) -> Arc<Live> {
        let live = Arc::new(Live::new(recorder, self.hosts));
        // The task ends with the runtime.
        tokio::spawn(live::serve(self.listener, live.clone()));
        live
    }
}

/// Serves the resource usage of this machine until `stop` is done.
pub(super) async fn serve_host_stats(
    address: std::net::SocketAddr,
    stop: impl Future<Output = ()>,
) -> Result<()> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    let host = latemux_load::usage::Host::now();
    ensure!(host.cores > 0, "the resource usage of this system is not known: there is no /proc");
    say(&format!("resource usage of {} at http://{}/host.json\n", host.name, listener.local_addr()?))?;
    tokio::select! {
        () = live::serve_host(listener) => {}
        () = stop => {}
    }
    Ok(())
}
