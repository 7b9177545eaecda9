//! Plain downloads that compete with a run for the bandwidth of its path.

use super::{Plan, SinglePlan, run, run_single};
use crate::{
    micros::micros,
    player::{Abr, Behaviour, Session},
    results::{CompetingResults, Recorder},
};
use latemux_client::http::Client;
use std::sync::Arc;
use tokio::{sync::watch, task::JoinHandle, time::Instant};

/// Downloads in progress, each over one connection, as fast as possible. Their requests are not
/// among those of the run.
#[derive(Debug)]
pub struct Competing {
    client: Client,
    recorder: Arc<Recorder>,
    downloads: u64,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

/// The content that competing downloads fetch.
#[derive(Debug, Clone)]
pub enum CompetingPlan {
    /// The segments of titles, one after the other, of the highest renditions. The number of
    /// players is that of the downloads.
    Titles(Plan),
    /// Any URLs. The number of connections is that of the downloads.
    Urls(SinglePlan),
}

impl Competing {
    /// Starts the downloads. `client` must have no other requests.
    pub fn start(client: Client, plan: CompetingPlan) -> Self {
        let recorder = Arc::new(Recorder::new(Instant::now()));
        let (stop, stopped) = watch::channel(false);
        let ours = client.clone();
        let theirs = recorder.clone();
        let downloads = match &plan {
            CompetingPlan::Titles(plan) => plan.players,
            CompetingPlan::Urls(plan) => plan.concurrency,
        };
        let task = tokio::spawn(async move {
            match plan {
                CompetingPlan::Titles(plan) => {
                    let behaviour = Behaviour { abr: Abr::Fixed(u64::MAX), ..Behaviour::default() };
                    run(Arc::new(Session::new(ours, theirs, behaviour)), &plan, stopped).await;
                }
                CompetingPlan::Urls(plan) => run_single(ours, theirs, &plan, stopped).await,
            }
        });
        Self { client, recorder, downloads, stop, task }
    }

    /// Returns the measurements until now.
    pub fn results(&self) -> CompetingResults {
        CompetingResults {
            downloads: self.downloads,
            bytes: self.client.received(),
            busy: micros(self.recorder.start().elapsed()).saturating_mul(self.downloads),
            requests: self.recorder.results().total(),
        }
    }

    /// Returns the measurements until now, and waits for the end of the requests on their way.
    pub async fn end(self) -> CompetingResults {
        let results = self.results();
        let _ = self.stop.send(true);
        // A task fails only if it panics.
        let _ = self.task.await;
        CompetingResults { requests: self.recorder.results().total(), ..results }
    }
}
