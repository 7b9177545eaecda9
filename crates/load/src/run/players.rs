//! Players that come, play and leave.

use super::{Arrival, Arrivals, Shard, arrivals::schedule};
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

/// How long a player that failed waits before it comes again.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// What players do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// Show the title, as viewers do.
    Watch,
    /// Fetch one segment after the other, audio before video, as fast as they come.
    Sequence,
}

/// Who comes when.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What is played: player n takes the one at n modulo their number. Not empty.
    pub urls: Vec<Url>,
    /// What they do.
    pub style: Style,
    /// How many in the whole run.
    pub players: u64,
    /// Time over which they come, where that is even.
    pub ramp: Duration,
    /// How they come.
    pub arrivals: Arrivals,
    /// When the run ends, from its start; without it each plays once.
    pub duration: Option<Duration>,
    /// Which of them are ours.
    pub shard: Shard,
    /// What chance is made of.
    pub seed: u64,
}

/// Lets players of a plan come until it ends, or until `stop` is true: then no new requests are made, and those on their way are waited for.
pub async fn run(session: Arc<Session>, plan: &Plan, mut stop: watch::Receiver<bool>) {
    let start = session.recorder.start();
    let (ending, ended) = watch::channel(*stop.borrow());
    let shared = Arc::new(plan.clone());
    let mut tasks = JoinSet::new();
    let mut arrivals = schedule(plan.arrivals, plan.players, plan.ramp, plan.seed, plan.shard).peekable();
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
                tasks.spawn(viewer(session.clone(), shared.clone(), arrival, again, ended.clone()));
            }
            Some(_) = tasks.join_next(), if !tasks.is_empty() => {}
            () = sleep_until(end.unwrap_or(start)), if open && end.is_some() => {
                open = false;
                let _ = ending.send(true);
            }
            changed = stop.changed(), if open => {
                // Whoever could have told to stop is gone: then nobody does.
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

/// One place in the audience.
async fn viewer(
    session: Arc<Session>,
    plan: Arc<Plan>,
    arrival: Arrival,
    again: bool,
    stop: watch::Receiver<bool>,
) {
    let Arrival { number, at, mut seed } = arrival;
    let urls = u64::try_from(plan.urls.len()).unwrap_or(1).max(1);
    let Some(url) = usize::try_from(number % urls).ok().and_then(|place| plan.urls.get(place)) else {
        return;
    };
    let mut due = session.recorder.start() + at;
    loop {
        let player = Player { number, url: url.clone(), seed, due, stop: stop.clone() };
        let played = match plan.style {
            Style::Watch => player::play(session.clone(), player).await,
            Style::Sequence => player::sequence(session.clone(), player).await,
        };
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
