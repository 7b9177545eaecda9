//! The machines and servers that a run observes besides its own requests.

use super::Load;
use crate::location::http_url;
use anyhow::{Context, Result, anyhow};
use http::HeaderValue;
use latemux_client::http::{AllowedHosts, Client, ClientOptions, Network};
use latemux_load::{
    live::{self, HostStats},
    results::Part,
    usage::{Counters, Host, HostRecorder, Readings, read_metrics},
};
use std::{collections::BTreeMap, fs, path::Path, sync::Arc, time::Duration};
use url::Url;

/// The timeout of requests to a watched machine.
const HOST_TIMEOUT: Duration = Duration::from_secs(3);

/// The timeout of requests for metrics.
const METRICS_TIMEOUT: Duration = Duration::from_secs(10);

/// The machines whose usage a run keeps, and the servers whose metrics it keeps.
pub(super) struct Observed {
    network: Arc<Network>,
    own: HostRecorder,
    watched: Vec<(Arc<HostStats>, HostRecorder)>,
    metrics: Vec<Url>,
    /// The value of `Authorization` for the servers of metrics.
    authorization: Option<HeaderValue>,
    counters: BTreeMap<String, Counters>,
}

impl Observed {
    /// Reads the flags `--watch-host` and `--metrics`.
    pub(super) fn new(flags: &Load, network: Arc<Network>) -> Result<Self> {
        let host = |text: &String| {
            let host = HostStats::at(text);
            let host = host.with_context(|| format!("--watch-host: not HOST:PORT: '{text}'"))?;
            anyhow::Ok((Arc::new(host), HostRecorder::default()))
        };
        let watched = flags.watch_host.iter().map(host).collect::<Result<_>>()?;
        let url = |text: &String| http_url(text).map_err(|error| anyhow!("--metrics: {error:#}"));
        let metrics = flags.metrics.iter().map(url).collect::<Result<_>>()?;
        let authorization = flags.metrics_token_file.as_deref().map(read_token).transpose()?;
        let own = HostRecorder::default();
        let counters = BTreeMap::new();
        Ok(Self { network, own, watched, metrics, authorization, counters })
    }

    /// Returns the machines of `--watch-host`.
    pub(super) fn hosts(&self) -> Vec<Arc<HostStats>> {
        self.watched.iter().map(|(host, _)| host.clone()).collect()
    }

    fn client(&self, url: &Url, timeout: Duration, authorization: Option<HeaderValue>) -> Client {
        let mut hosts = AllowedHosts::default();
        hosts.allow_server(url);
        let options = ClientOptions { hosts, timeout, authorization, ..ClientOptions::default() };
        Client::new(self.network.clone(), options)
    }

    /// Starts to watch the machines, and reads the metrics before the run.
    ///
    /// # Errors
    /// If the metrics of a server cannot be read: without them, the run would have to be repeated.
    pub(super) async fn start(&mut self) -> Result<()> {
        for (host, _) in &self.watched {
            // The task ends with the runtime.
            tokio::spawn(live::watch(self.client(host.url(), HOST_TIMEOUT, None), host.clone()));
        }
        for url in &self.metrics {
            let before = self.read(url).await?;
            self.counters.insert(url.to_string(), Counters { before, after: None });
        }
        self.sample(0);
        Ok(())
    }

    /// Reads the metrics after the run.
    ///
    /// # Errors
    /// If the metrics of a server cannot be read. Those of the others are kept.
    pub(super) async fn end(&mut self) -> Result<()> {
        let mut result = Ok(());
        for url in &self.metrics {
            let after = self.read(url).await;
            let counters = self.counters.entry(url.to_string()).or_default();
            match after {
                Ok(after) => counters.after = Some(after),
                Err(error) => result = Err(error),
            }
        }
        result
    }

    async fn read(&self, url: &Url) -> Result<Readings> {
        let client = self.client(url, METRICS_TIMEOUT, self.authorization.clone());
        read_metrics(&client, url).await.map_err(|failure| anyhow!("--metrics: {failure}"))
    }

    /// Adds the usage of the machines until now, `at` milliseconds after the start of the run.
    pub(super) fn sample(&mut self, at: u64) {
        self.own.add(at, &Host::now());
        for (host, recorder) in &mut self.watched {
            if let (_, Ok(reading)) = host.named() {
                recorder.add(at, &reading);
            }
        }
    }

    /// Writes what was observed until now into a part.
    pub(super) fn fill(&self, part: &mut Part) {
        part.counters = self.counters.clone();
        part.hosts = BTreeMap::from([(Host::now().name, self.own.record().clone())]);
        for (host, recorder) in &self.watched {
            part.hosts.insert(host.named().0, recorder.record().clone());
        }
    }
}

/// Reads a token, and returns the header that carries it.
fn read_token(path: &Path) -> Result<HeaderValue> {
    let named = || format!("--metrics-token-file {}", path.display());
    let text = fs::read_to_string(path).with_context(named)?;
    let value = HeaderValue::try_from(format!("Bearer {}", text.trim()));
    let mut value = value.map_err(|_| anyhow!("{}: the token is not ASCII", named()))?;
    // A sensitive value is left out of logs.
    value.set_sensitive(true);
    Ok(value)
}
