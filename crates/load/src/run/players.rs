//! Runs of players.

use super::{Arrival, Arrivals, Popularity, Shard, Step, arrivals::schedule, popularity::Chooser, steps};
use crate::{
    player::{self, Player, Session},
    results::PlayerEnd,
};
use std::{sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, sleep_until},
};
use url::Url;

/// The wait before a failed player starts again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// The kind of player.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Play the title in real time, as viewers do.
    Watch,
    /// Fetch one segment after the other, audio before video, as fast as possible.
    Sequence,
}

/// A plan of a run of players.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The URLs of the manifests, the most popular one first; not empty.
    pub urls: Vec<Url>,
    /// The choice of a manifest. In turn, player n always plays the manifest at index n modulo the
    /// number of URLs. At random, each play has a choice of its own.
    pub popularity: Popularity,
    /// The kind of players.
    pub style: Style,
    /// The number of players in the whole run.
    pub players: u64,
    /// The time over which players start, for [`Arrivals::Closed`].
    pub ramp: Duration,
    /// The distribution of start times.
    pub arrivals: Arrivals,
    /// The duration of the run. Without it, each player plays once.
    pub duration: Option<Duration>,
    /// The steps of the run, which replace `players`, and whose players are added over `ramp`.
    /// Empty for none.
    pub steps: Vec<Step>,
    /// The shard of this machine.
    pub shard: Shard,
    /// The random seed.
    pub seed: u64,
}

/// Runs a plan until all players have ended, its duration is over, or `stop` is true. Then no new
/// requests are made, and those in flight are awaited.
pub async fn run(session: Arc<Session>, plan: &Plan, mut stop: watch::Receiver<bool>) {
    let start = session.recorder.start();
    let (ending, ended) = watch::channel(*stop.borrow());
    let chooser = Chooser::new(plan.popularity, plan.urls.len());
    let shared = Arc::new((plan.clone(), chooser));
    let mut tasks = JoinSet::new();
    let mut arrivals = arrivals(plan).peekable();
    let end = plan.duration.and_then(|duration| start.checked_add(duration));
    let again = plan.arrivals == Arrivals::Closed && plan.duration.is_some();
    let mut open = true;
    loop {
        let next = arrivals.peek().filter(|_| open).map(|arrival| start + arrival.at);
        if next.is_none() && tasks.is_empty() {
            break;
        }
        tokio::select! {
            () = sleep_until(next.unwrap_or(start)), if next.is_some() => {
                let Some(arrival) = arrivals.next() else { continue };
                tasks.spawn(take_part(session.clone(), shared.clone(), arrival, again, ended.clone()));
            }
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
            () = sleep_until(end.unwrap_or(start)), if open && end.is_some() => {
                open = false;
                let _ = ending.send(true);
            }
            changed = stop.changed(), if open => {
                // If the sender is gone, nothing can stop the run any more.
                if changed.is_ok() && *stop.borrow() {
                    open = false;
                    let _ = ending.send(true);
                } else if changed.is_err() {
                    stop = ended.clone();
                }
            }
        }
    }
}

/// Returns the arrivals of a plan in order of time.
fn arrivals(plan: &Plan) -> Box<dyn Iterator<Item = Arrival> + Send> {
    if plan.steps.is_empty() {
        Box::new(schedule(plan.arrivals, plan.players, plan.ramp, plan.seed, plan.shard))
    } else {
        Box::new(steps::arrivals(&plan.steps, plan.ramp, plan.seed, plan.shard).into_iter())
    }
}

/// Plays until the run ends, or until the player leaves.
async fn take_part(
    session: Arc<Session>,
    shared: Arc<(Plan, Chooser)>,
    arrival: Arrival,
    again: bool,
    mut stop: watch::Receiver<bool>,
) {
    let start = session.recorder.start();
    let Some(until) = arrival.until.and_then(|until| start.checked_add(until)) else {
        return play_repeatedly(session, shared, arrival, again, stop).await;
    };
    let (leave, left) = watch::channel(*stop.borrow());
    let playing = play_repeatedly(session, shared, arrival, again, left);
    tokio::pin!(playing);
    tokio::select! {
        () = &mut playing => return,
        () = sleep_until(until) => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
    let _ = leave.send(true);
    playing.await;
}

/// Plays once, or repeatedly until `stop` is true if `again` is true.
async fn play_repeatedly(
    session: Arc<Session>,
    shared: Arc<(Plan, Chooser)>,
    arrival: Arrival,
    again: bool,
    stop: watch::Receiver<bool>,
) {
    let (plan, chooser) = &*shared;
    let Arrival { number, at, mut seed, .. } = arrival;
    let mut due = session.recorder.start() + at;
    loop {
        let Some(url) = plan.urls.get(chooser.index(number, seed)) else { return };
        let player = Player { number, url: url.clone(), seed, due, stop: stop.clone() };
        session.recorder.player_started(number);
        let played = match plan.style {
            Style::Watch => player::play(&session, player).await,
            Style::Sequence => player::sequence(&session, player).await,
        };
        session.recorder.player_left(number, played);
        if !again || played == PlayerEnd::Stopped || *stop.borrow() {
            return;
        }
        if played == PlayerEnd::Failed {
            let mut stop = stop.clone();
            tokio::select! {
                () = sleep(RETRY_DELAY) => {}
                _ = stop.wait_for(|stop| *stop) => return,
            }
        }
        seed = fastrand::Rng::with_seed(seed).u64(..);
        due = Instant::now();
    }
}
