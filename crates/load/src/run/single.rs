//! Repeated requests for one URL, as `ab` makes them, or for several URLs in turn.

use super::Shard;
use crate::results::Recorder;
use latemux_client::{
    http::{Client, Connection},
    presentation::Resource,
};
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
    /// The URLs; not empty. Request n of the run is for the URL at index n modulo the number of
    /// URLs.
    pub urls: Vec<Url>,
    /// The number of connections.
    pub concurrency: u64,
    /// The number of requests of the whole run; `None` for as many as the duration allows.
    pub requests: Option<u64>,
    /// Requests per second. Each request is due at its own time, independent of the others. Without
    /// a rate, a connection sends its next request once it has received a response.
    pub rate: Option<f64>,
    /// The duration of the run.
    pub duration: Option<Duration>,
    /// The shard of this machine.
    pub shard: Shard,
}

/// Makes requests until all of them have been made, the duration is over, or `stop` is true.
pub async fn run_single(
    client: Client,
    recorder: Arc<Recorder>,
    plan: &SinglePlan,
    stop: watch::Receiver<bool>,
) {
    let next = Arc::new(AtomicU64::new(0));
    let mut workers = JoinSet::new();
    for worker in 0..plan.concurrency {
        let client = client.clone();
        let recorder = recorder.clone();
        let plan = plan.clone();
        workers.spawn(make_requests(client, recorder, plan, worker, next.clone(), stop.clone()));
    }
    while workers.join_next().await.is_some() {}
}

async fn make_requests(
    client: Client,
    recorder: Arc<Recorder>,
    plan: SinglePlan,
    worker: u64,
    next: Arc<AtomicU64>,
    mut stop: watch::Receiver<bool>,
) {
    let mut connection = Connection::default();
    let resources: Vec<Resource> =
        plan.urls.iter().map(|url| Resource { url: url.clone(), range: None }).collect();
    let start = recorder.start();
    let end = plan.duration.and_then(|duration| start.checked_add(duration));
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
                let Some(due) = start.checked_add(offset) else { return };
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
        let turn = number.checked_rem(resources.len() as u64);
        let Some(resource) = turn.and_then(|turn| resources.get(usize::try_from(turn).ok()?)) else { return };
        let fetched = client.get(&mut connection, resource, due, &mut |_| Ok(())).await;
        recorder.request(worker, "single", &fetched, None);
    }
}
