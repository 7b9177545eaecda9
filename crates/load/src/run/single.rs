//! Repeated requests for one URL, as `ab` makes them, or for several URLs.

use super::{Popularity, Shard, Step, popularity::Chooser, steps::presences};
use crate::results::Recorder;
use latemux_client::{
    http::{Client, Connection, Streams},
    presentation::Resource,
};
use latemux_streams::Settings;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep_until},
};
use url::Url;

/// A plan of requests.
#[derive(Debug, Clone)]
pub struct SinglePlan {
    /// The URLs, the most popular one first; not empty.
    pub urls: Vec<Url>,
    /// The choice of a URL. In turn, request n of the run is for the URL at index n modulo the
    /// number of URLs.
    pub popularity: Popularity,
    /// The number of connections.
    pub concurrency: u64,
    /// The number of requests of the whole run; `None` for as many as the duration allows.
    pub requests: Option<u64>,
    /// Requests per second. Each request is due at its own time, independent of the others. Without
    /// a rate, a connection sends its next request once it has received a response.
    pub rate: Option<f64>,
    /// The duration of the run.
    pub duration: Option<Duration>,
    /// The steps of the run, which replace `concurrency`, and whose connections are added over
    /// `ramp`. Empty for none, as with a rate.
    pub steps: Vec<Step>,
    /// The time over which each step adds connections.
    pub ramp: Duration,
    /// The settings with which each response is fetched in chunks, where each of the `concurrency`
    /// connections becomes several; `None` to fetch it with one request.
    pub chunking: Option<Settings>,
    /// The shard of this machine.
    pub shard: Shard,
    /// The random seed.
    pub seed: u64,
}

/// The state that the connections of a run share.
struct Shared {
    client: Client,
    recorder: Arc<Recorder>,
    plan: SinglePlan,
    resources: Vec<Resource>,
    chooser: Chooser,
    /// The number of the next request.
    next: AtomicU64,
}

/// Makes requests until all of them have been made, the duration is over, or `stop` is true.
pub async fn run_single(
    client: Client,
    recorder: Arc<Recorder>,
    plan: &SinglePlan,
    stop: watch::Receiver<bool>,
) {
    let resource = |url: &Url| Resource { url: url.clone(), range: None };
    let shared = Arc::new(Shared {
        client,
        recorder,
        resources: plan.urls.iter().map(resource).collect(),
        chooser: Chooser::new(plan.popularity, plan.urls.len()),
        plan: plan.clone(),
        next: AtomicU64::new(0),
    });
    let count = plan.steps.iter().map(|step| step.level).max().unwrap_or(plan.concurrency);
    let mut workers = JoinSet::new();
    for worker in 0..count {
        workers.spawn(work(shared.clone(), worker, stop.clone()));
    }
    while workers.join_next().await.is_some() {}
}

/// Makes requests on one connection, in the steps that have it.
async fn work(shared: Arc<Shared>, worker: u64, mut stop: watch::Receiver<bool>) {
    let plan = &shared.plan;
    let start = shared.recorder.start();
    if plan.steps.is_empty() {
        let end = plan.duration.and_then(|duration| start.checked_add(duration));
        return make_requests(&shared, worker, end, &mut stop).await;
    }
    for presence in presences(&plan.steps, plan.ramp, worker) {
        tokio::select! {
            () = sleep_until(start + presence.from) => {}
            Ok(_) = stop.wait_for(|stop| *stop) => return,
        }
        make_requests(&shared, worker, start.checked_add(presence.until), &mut stop).await;
    }
}

/// Makes requests on one connection until `end`.
async fn make_requests(shared: &Shared, worker: u64, end: Option<Instant>, stop: &mut watch::Receiver<bool>) {
    let Shared { client, recorder, plan, resources, chooser, next } = shared;
    let mut connection = Connection::default();
    let mut streams = plan.chunking.map(Streams::new);
    let start = recorder.start();
    loop {
        let number = next.fetch_add(1, Relaxed);
        if plan.requests.is_some_and(|requests| number >= requests) {
            return;
        }
        if !plan.shard.has(number) {
            continue;
        }
        let due = match plan.rate {
            None => Instant::now(),
            Some(rate) => {
                let offset = Duration::try_from_secs_f64(number as f64 / rate).unwrap_or(Duration::MAX);
                let due = start.checked_add(offset).filter(|due| end.is_none_or(|end| *due < end));
                let Some(due) = due else { return };
                let is_early = due > Instant::now();
                tokio::select! {
                    () = sleep_until(due) => {}
                    Ok(_) = stop.wait_for(|stop| *stop) => return,
                }
                // If this worker was free before the due time, any delay is caused by the
                // generator. Otherwise, the server kept its connection busy.
                if is_early {
                    recorder.lag(worker, due.elapsed());
                }
                due
            }
        };
        if *stop.borrow() || end.is_some_and(|end| due >= end) {
            return;
        }
        let Some(resource) = resources.get(chooser.index(number, plan.seed)) else { return };
        let fetched = match &mut streams {
            None => client.get(&mut connection, resource, due, &mut |_| Ok(())).await,
            Some(streams) => {
                // Boxed, so that requests without chunks need no memory for it.
                let chunked =
                    Box::pin(client.get_in_chunks(streams, resource, due, None, &mut |_| Ok(()))).await;
                let tally = streams.take_tally();
                recorder.update_streams(worker, |results| results.add(&tally, chunked.as_ref().ok()));
                chunked.map(|chunked| chunked.fetched)
            }
        };
        recorder.request(worker, "single", &fetched, None);
    }
}
