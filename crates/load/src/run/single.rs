//! One URL, again and again, as `ab` does; or several in turn.

use super::Shard;
use crate::results::{Measured, Recorder};
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

/// Which URLs, and how often.
#[derive(Debug, Clone)]
pub struct SinglePlan {
    /// The URLs: the first request of a run asks for the first, each other one for the next, and so on from the first again.
    pub urls: Vec<Url>,
    /// Connections that ask at the same time.
    pub concurrency: u64,
    /// Requests in all, of the whole run; `None` for as many as there is time for.
    pub requests: Option<u64>,
    /// Requests per second, each due at its time whatever becomes of the others; without it each connection asks when it has its answer.
    pub rate: Option<f64>,
    /// When the run ends, from its start.
    pub duration: Option<Duration>,
    /// Which requests are ours.
    pub shard: Shard,
}

/// Asks until all is asked, or until `stop` is true.
pub async fn run_single(
    client: Client,
    recorder: Arc<Recorder>,
    plan: &SinglePlan,
    stop: watch::Receiver<bool>,
) {
    let next = Arc::new(AtomicU64::new(0));
    let mut workers = JoinSet::new();
    for worker in 0..plan.concurrency {
        let (client, recorder, plan) = (client.clone(), recorder.clone(), plan.clone());
        workers.spawn(ask(client, recorder, plan, worker, next.clone(), stop.clone()));
    }
    while workers.join_next().await.is_some() {}
}

async fn ask(
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
                #[expect(clippy::cast_precision_loss, reason = "seconds of a run")]
                let offset = Duration::try_from_secs_f64(number as f64 / rate).unwrap_or(Duration::MAX);
                let Some(due) = start.checked_add(offset) else { return };
                let early = due > Instant::now();
                tokio::select! {
                    () = sleep_until(due) => {}
                    Ok(_) = stop.wait_for(|stop| *stop) => return,
                }
                // Later than that is this generator's doing where it was free to ask in time; else the server's, which kept it waiting.
                if early {
                    recorder.lag(worker, due.elapsed());
                }
                due
            }
        };
        if *stop.borrow() || end.is_some_and(|end| due >= end) {
            return;
        }
        let turn = number.checked_rem(u64::try_from(resources.len()).unwrap_or(0));
        let Some(resource) = turn.and_then(|turn| resources.get(usize::try_from(turn).ok()?)) else { return };
        let answer = client.get(&mut connection, resource, due, &mut |_| Ok(())).await;
        let (timed, failure) = match &answer {
            Ok(answer) => {
                let first_byte = Some(answer.first_byte);
                (Measured { latency: answer.latency, first_byte, bytes: answer.bytes }, None)
            }
            Err(lost) => {
                (Measured { latency: lost.latency, first_byte: None, bytes: lost.bytes }, Some(&lost.failure))
            }
        };
        recorder.request(worker, "single", timed, failure);
    }
}
