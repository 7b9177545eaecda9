//! `latemux load`: simulated viewers of any server.

mod flags;
mod job;
mod monitor;
mod observed;
mod result_store;
mod url_list;

pub(crate) use flags::Load;

use crate::{open_files, signals::stop_signal, standard_output::say};
use anyhow::{Context, Result, bail, ensure};

use job::Job;
use latemux_client::http::{Client, Network, Server};
use latemux_load::{
    player::Session,
    report::summary,
    results::{Part, Recorder, Run},
    run::{self, Competing},
    usage::Host,
};
use latemux_quantity::millis;
use observed::Observed;
use result_store::ResultStore;
use std::{
    pin::pin,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{sync::watch, time::Instant};
use url::Url;

/// The time within which a server must answer whether it offers HTTP/2.
const PROBE: Duration = Duration::from_secs(5);

/// The number of other open files of the process.
const FILES: u64 = 64;

/// Runs until all players have ended, the duration is over, or a signal stops it.
pub(crate) fn run(flags: &Load) -> Result<()> {
    if let Some(address) = flags.host_stats {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        return runtime.block_on(async { monitor::serve_host_stats(address, stop_signal()?).await });
    }
    let urls = flags.urls()?;
    let job = flags.job(urls.clone())?;
    let connections = job.connections(flags.streams).saturating_add(flags.competing);
    allow_open_files(connections.saturating_add(FILES))?;
    let start_at = flags.start_at.as_deref().map(start_time).transpose()?;
    let behaviour = flags.behaviour()?;
    let network = Arc::new(flags.trust.network()?);
    let options = flags.client_options(&urls, connections)?;
    let client = Client::new(network.clone(), options.clone());
    let competing = flags.competing(&job).map(|plan| (Client::new(network.clone(), options), plan));
    let probed = urls.first().and_then(Server::of).filter(|server| server.tls && flags.streams.is_some());
    let mut observed = Observed::new(flags, network.clone())?;
    let mut part = first_part(flags, &urls);
    let store = flags.out.as_deref().map(|out| ResultStore::new(out, &part, &flags.storage));
    let mut store = store.transpose()?;

    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (stopped, observed) = runtime.block_on(async {
        let mut stop = pin!(stop_signal()?);
        // A store that cannot be written to must fail before anything is measured.
        write_unless(&mut stop, store.as_mut(), &part, "stopped before the start").await?;
        let page = monitor::PendingPage::new(flags, observed.hosts()).await?;
        let is_http2_offered = offers_http2(&network, probed).await;
        if let Some(time) = start_at {
            wait_until(time, &mut stop).await?;
        }
        observed.start().await?;
        part.started = millis(wall_clock().duration_since(UNIX_EPOCH).unwrap_or_default());
        let recorder = Arc::new(Recorder::new(Instant::now()).with_plateaus(job.plateaus()));
        recorder.update_streams(0, |streams| streams.is_http2_offered = is_http2_offered);
        let (ending, ended) = watch::channel(false);
        let work = perform(&job, client.clone(), recorder.clone(), behaviour, ended);
        let mut work = pin!(work);
        let competing = competing.map(|(client, plan)| Competing::start(client, plan));
        let mut monitor = monitor::Monitor::new(recorder, client, observed, competing, page);
        monitor.fill(&mut part);
        let mut stopped = false;
        loop {
            tokio::select! {
                () = &mut work => break,
                () = &mut stop, if !stopped => {
                    stopped = true;
                    let _ = ending.send(true);
                }
                is_due = monitor.tick() => {
                    if is_due {
                        monitor.fill(&mut part);
                        store.iter_mut().for_each(|store| store.start_write(&part));
                    }
                }
            }
        }
        let observed = monitor.end(&mut part).await;
        anyhow::Ok((stopped, observed))
    })?;
    part.complete = !stopped;
    say(&summary(&Run::single(part.clone())))?;
    runtime.block_on(async {
        let stop = pin!(stop_signal()?);
        write_unless(stop, store.as_mut(), &part, "stopped: the last results are not written").await
    })?;
    ensure!(!stopped, "stopped: the results are partial");
    observed?;
    check_results(&part)
}

/// Returns true if a server offers HTTP/2. Without an answer in time, it does not.
async fn offers_http2(network: &Network, server: Option<Server>) -> bool {
    let Some(server) = server else { return false };
    tokio::time::timeout(PROBE, network.offers_http2(&server)).await.unwrap_or(false)
}

/// Writes the results, if they are to be stored. Fails with `message` if `stop` resolves before: a
/// bucket may not respond for minutes.
async fn write_unless(
    stop: impl Future<Output = ()>,
    store: Option<&mut ResultStore>,
    part: &Part,
    message: &'static str,
) -> Result<()> {
    let Some(store) = store else { return Ok(()) };
    tokio::select! {
        written = store.write(part) => written,
        () = stop => bail!(message),
    }
}

/// Returns the results of a run that has not started.
fn first_part(flags: &Load, urls: &[Url]) -> Part {
    let mut part = Part::new(flags.shard.to_string(), 0, flags.plan(urls));
    part.machines.insert(Host::now().name);
    part.versions.insert(env!("CARGO_PKG_VERSION").to_owned());
    part
}

/// Raises the limit of open files, or fails if the system does not allow so many.
fn allow_open_files(wanted: u64) -> Result<()> {
    let allowed = open_files::raise_limit(wanted);
    ensure!(
        allowed >= wanted,
        "{wanted} open files are needed, but this system allows {allowed}: use fewer players or a higher limit (ulimit -Hn)"
    );
    Ok(())
}

/// Waits for the time to start. Fails if `stop` resolves before.
async fn wait_until(time: SystemTime, stop: &mut (impl Future<Output = ()> + Unpin)) -> Result<()> {
    match time.duration_since(wall_clock()) {
        Ok(wait) => {
            say(&format!("starting in {:.1} s\n", wait.as_secs_f64()))?;
            tokio::select! {
                () = tokio::time::sleep(wait) => Ok(()),
                () = stop => bail!("stopped before the start"),
            }
        }
        // Other machines have already started.
        Err(late) => say(&format!("starting {:.1} s late\n", late.duration().as_secs_f64())),
    }
}

/// Fails if requests or players of a run have failed.
fn check_results(part: &Part) -> Result<()> {
    let total = part.results.total();
    ensure!(total.failed() == 0, "{} of {} requests failed", total.failed(), total.count);
    let competing = &part.results.competing.requests;
    ensure!(
        competing.failed() == 0,
        "{} of {} competing requests failed",
        competing.failed(),
        competing.count
    );
    ensure!(part.results.players.failed == 0, "{} players gave up", part.results.players.failed);
    Ok(())
}

async fn perform(
    job: &Job,
    client: Client,
    recorder: Arc<Recorder>,
    behaviour: latemux_load::player::Behaviour,
    stop: watch::Receiver<bool>,
) {
    match job {
        Job::Players(plan) => run::run(Arc::new(Session::new(client, recorder, behaviour)), plan, stop).await,
        Job::Single(single) => run::run_single(client, recorder, single, stop).await,
    }
}

/// Reads a time in RFC 3339, or seconds since 1970.
fn start_time(text: &str) -> Result<SystemTime> {
    let since = match text.parse::<f64>() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).ok(),
        Err(_) => chrono::DateTime::parse_from_rfc3339(text)
            .ok()
            .and_then(|time| u64::try_from(time.timestamp_millis()).ok())
            .map(Duration::from_millis),
    };
    since.and_then(|since| UNIX_EPOCH.checked_add(since)).with_context(|| {
        format!("--start-at: not a time such as 2026-11-21T10:00:00Z or 1795255200: '{text}'")
    })
}

#[expect(clippy::disallowed_methods, reason = "several machines start at the same wall clock time")]
fn wall_clock() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_times_are_parsed() {
        let seconds = |text| start_time(text).ok().map(|at| at.duration_since(UNIX_EPOCH).unwrap().as_secs());
        assert_eq!(seconds("2026-11-21T10:00:00Z"), Some(1_795_255_200));
        assert_eq!(seconds("2026-11-21T11:00:00+01:00"), Some(1_795_255_200));
        assert_eq!(seconds("1795255200"), Some(1_795_255_200));
        for wrong in ["", "now", "-1", "NaN", "10:00"] {
            assert_eq!(seconds(wrong), None, "{wrong}");
        }
    }
}
