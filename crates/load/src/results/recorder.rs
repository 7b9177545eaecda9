//! The collection of measurements while a run lasts.

use super::{Counts, Histogram, Plateau, Players, Requests, Results, StepResults, StreamResults};
use crate::micros::micros;
use latemux_client::{
    failure::{Failure, Reason},
    http::{FailedFetch, Fetched},
};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// The number of failures of each reason whose details are kept.
const EXAMPLES: usize = 3;

/// The maximum number of seconds that are recorded separately: a day.
const MAX_SECONDS: usize = 86_400;

/// Collects the measurements of many players. They are divided into stripes, each with a lock that
/// is held only briefly, so that players rarely wait for each other.
#[derive(Debug)]
pub struct Recorder {
    start: Instant,
    plateaus: Vec<Plateau>,
    stripes: Box<[Mutex<Stripe>]>,
    examples: Mutex<BTreeMap<Reason, Vec<String>>>,
}

/// The measurements of some players.
#[derive(Debug, Default)]
struct Stripe {
    results: Results,
    counts: Counts,
    /// Latencies since the last call of [`Recorder::take_recent`], in microseconds; `None` before
    /// the first call.
    recent: Option<Histogram>,
}

/// The way in which a player ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlayerEnd {
    /// The player reached the end of its title.
    Finished,
    /// Too many consecutive requests failed.
    Failed,
    /// The run ended.
    Stopped,
}

impl Recorder {
    /// Makes a recorder for a run that starts at `start`.
    pub fn new(start: Instant) -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from) * 2;
        let stripes = (0..count).map(|_| Mutex::default()).collect();
        Self { start, plateaus: Vec::new(), stripes, examples: Mutex::default() }
    }

    /// Records the requests that are due on each of these plateaus, too. The plateaus are in order
    /// of time.
    #[must_use]
    pub fn with_plateaus(mut self, plateaus: Vec<Plateau>) -> Self {
        self.plateaus = plateaus;
        self
    }

    /// Returns the index of the plateau on which a request was due that has ended now.
    fn plateau(&self, latency: Duration) -> Option<usize> {
        let due = self.start.elapsed().saturating_sub(latency);
        let index = self.plateaus.partition_point(|plateau| plateau.until <= due);
        self.plateaus.get(index).filter(|plateau| plateau.from <= due).map(|_| index)
    }

    fn empty_steps(&self) -> Vec<StepResults> {
        self.plateaus.iter().map(StepResults::new).collect()
    }

    /// Returns the start of the run.
    pub const fn start(&self) -> Instant {
        self.start
    }

    fn stripe(&self, player: u64) -> MutexGuard<'_, Stripe> {
        let count = self.stripes.len() as u64;
        let index = usize::try_from(player % count).unwrap_or(0);
        lock(&self.stripes[index])
    }

    /// Counts a request of a player. `wrong` is the failure of its body's check, if any.
    pub fn request(
        &self,
        player: u64,
        class: &str,
        fetched: &Result<Fetched, FailedFetch>,
        wrong: Option<&Failure>,
    ) {
        let (latency, first_byte, bytes, failure) = match fetched {
            Ok(fetched) => (fetched.latency, Some(fetched.first_byte), fetched.bytes, wrong),
            Err(failed) => (failed.latency, None, failed.bytes, Some(&failed.failure)),
        };
        // A failed request has been on its way since it was due, but for delays of the generator.
        let busy = micros(fetched.as_ref().map_or(latency, |fetched| fetched.transfer));
        let plateau = self.plateau(latency);
        let latency = micros(latency);
        let errors = failure.is_some().into();
        let mut stripe =
            self.add(player, &Counts { requests: 1, errors, bytes, latency, ..Counts::default() });
        if let Some(recent) = &mut stripe.recent {
            recent.record(latency);
        }
        let classes = &mut stripe.results.requests;
        if !classes.contains_key(class) {
            classes.insert(class.to_owned(), Requests::default());
        }
        let count = |requests: &mut Requests| {
            requests.count += 1;
            requests.bytes += bytes;
            requests.busy += busy;
            requests.latency.record(latency);
            if let Some(first_byte) = first_byte {
                requests.first_byte.record(micros(first_byte));
            }
            if let Some(failure) = failure {
                *requests.errors.entry(failure.reason.to_string()).or_default() += 1;
            }
        };
        if let Some(requests) = classes.get_mut(class) {
            count(requests);
        }
        if let Some(plateau) = plateau {
            let steps = &mut stripe.results.steps;
            if steps.is_empty() {
                *steps = self.empty_steps();
            }
            if let Some(step) = steps.get_mut(plateau) {
                count(&mut step.requests);
            }
        }
        drop(stripe);
        if let Some(failure) = failure {
            let mut examples = lock(&self.examples);
            let of_reason = examples.entry(failure.reason).or_default();
            if of_reason.len() < EXAMPLES {
                of_reason.push(failure.detail.clone());
            }
        }
    }

    /// Records by how much the generator delayed an action.
    pub fn lag(&self, player: u64, lag: Duration) {
        self.stripe(player).results.lag.record(micros(lag));
    }

    /// Counts a player that starts.
    pub fn player_started(&self, player: u64) {
        let mut stripe = self.add(player, &Counts { came: 1, ..Counts::default() });
        stripe.results.players.started += 1;
    }

    /// Counts a player that leaves.
    pub fn player_left(&self, player: u64, end: PlayerEnd) {
        let mut stripe = self.add(player, &Counts { left: 1, ..Counts::default() });
        let players = &mut stripe.results.players;
        match end {
            PlayerEnd::Finished => players.finished += 1,
            PlayerEnd::Failed => players.failed += 1,
            PlayerEnd::Stopped => players.stopped += 1,
        }
    }

    /// Counts a stall that begins.
    pub fn stall_started(&self, player: u64) {
        drop(self.add(player, &Counts { stalls: 1, ..Counts::default() }));
    }

    /// Adds events of a player to the sums and to the current second. After the first day, seconds
    /// are no longer recorded.
    fn add(&self, player: u64, events: &Counts) -> MutexGuard<'_, Stripe> {
        let second = usize::try_from(self.start.elapsed().as_secs()).unwrap_or(MAX_SECONDS);
        let mut stripe = self.stripe(player);
        stripe.counts.merge(events);
        if second < MAX_SECONDS {
            let seconds = &mut stripe.results.seconds;
            seconds.resize(seconds.len().max(second + 1), Counts::default());
            if let Some(second) = seconds.get_mut(second) {
                second.merge(events);
            }
        }
        stripe
    }

    /// Updates the measurements of players.
    pub fn update_players(&self, player: u64, update: impl FnOnce(&mut Players)) {
        update(&mut self.stripe(player).results.players);
    }

    /// Updates the measurements of request–response streams.
    pub fn update_streams(&self, player: u64, update: impl FnOnce(&mut StreamResults)) {
        update(&mut self.stripe(player).results.streams);
    }

    /// Returns all results until now.
    pub fn results(&self) -> Results {
        let mut all = Results { steps: self.empty_steps(), ..Results::default() };
        for stripe in &self.stripes {
            all.merge(&lock(stripe).results);
        }
        all
    }

    /// Returns the sums until now.
    pub fn counts(&self) -> Counts {
        let mut all = Counts::default();
        for stripe in &self.stripes {
            all.merge(&lock(stripe).counts);
        }
        all
    }

    /// Returns the latencies of all requests since the last call, in microseconds. The first call
    /// returns none, and starts the collection.
    pub fn take_recent(&self) -> Histogram {
        let mut all = Histogram::default();
        for stripe in &self.stripes {
            let recent = lock(stripe).recent.replace(Histogram::default());
            recent.iter().for_each(|recent| all.merge(recent));
        }
        all
    }

    /// Returns descriptions of some failures, by reason.
    pub fn examples(&self) -> BTreeMap<String, Vec<String>> {
        let examples = lock(&self.examples);
        examples.iter().map(|(reason, details)| (reason.to_string(), details.clone())).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fetched(millis: u64, bytes: u64) -> Result<Fetched, FailedFetch> {
        let latency = Duration::from_millis(millis);
        let url = url::Url::parse("http://a/").unwrap();
        Ok(Fetched { url, bytes, first_byte: latency / 2, latency, transfer: latency })
    }

    fn failed(millis: u64, bytes: u64, reason: Reason, detail: &str) -> Result<Fetched, FailedFetch> {
        let failure = Failure::new(reason, detail);
        Err(FailedFetch { failure, bytes, latency: Duration::from_millis(millis) })
    }

    #[tokio::test(start_paused = true)]
    async fn requests_of_all_players_are_counted_by_class_and_second() {
        let recorder = Recorder::new(Instant::now());
        for player in 0..100 {
            recorder.request(player, "a", &fetched(10, 7), None);
        }
        tokio::time::advance(Duration::from_secs(2)).await;
        recorder.request(5, "b", &failed(30, 1, Reason::Timeout, "http://a/x"), None);
        let results = recorder.results();
        let class = |name: &str| &results.requests[name];
        assert_eq!((class("a").count, class("a").bytes, class("a").failed()), (100, 700, 0));
        assert_eq!((class("b").count, class("b").bytes, class("b").failed()), (1, 1, 1));
        assert_eq!((class("a").first_byte.count(), class("b").first_byte.count()), (100, 0));
        assert_eq!(class("b").errors, BTreeMap::from([("timeout".to_owned(), 1)]));
        let seconds: Vec<(u64, u64, u64, u64)> =
            results.seconds.iter().map(|s| (s.requests, s.errors, s.bytes, s.latency)).collect();
        assert_eq!(seconds, [(100, 0, 700, 1_000_000), (0, 0, 0, 0), (1, 1, 1, 30_000)]);
        let latency = 1_030_000;
        let expected = Counts { requests: 101, errors: 1, bytes: 701, latency, ..Counts::default() };
        assert_eq!(recorder.counts(), expected);
    }

    #[tokio::test(start_paused = true)]
    async fn players_are_counted_by_their_end() {
        let recorder = Recorder::new(Instant::now());
        for player in 0..6 {
            recorder.player_started(player);
        }
        tokio::time::advance(Duration::from_secs(1)).await;
        recorder.player_left(0, PlayerEnd::Finished);
        recorder.player_left(1, PlayerEnd::Failed);
        recorder.player_left(2, PlayerEnd::Stopped);
        recorder.player_left(3, PlayerEnd::Stopped);
        recorder.stall_started(4);
        recorder.update_players(4, |players| players.switches += 3);
        recorder.lag(4, Duration::from_millis(2));
        let results = recorder.results();
        let players = &results.players;
        assert_eq!((players.started, players.finished, players.failed, players.stopped), (6, 1, 1, 2));
        assert_eq!((players.switches, results.lag.count(), results.lag.max() / 10), (3, 1, 200));
        let seconds: Vec<(u64, u64, u64)> =
            results.seconds.iter().map(|s| (s.came, s.left, s.stalls)).collect();
        assert_eq!(seconds, [(6, 0, 0), (0, 4, 1)]);
        assert_eq!(recorder.counts().playing(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn recent_latencies_are_those_since_the_last_call() {
        let recorder = Recorder::new(Instant::now());
        recorder.request(0, "a", &fetched(1, 0), None);
        assert_eq!(recorder.take_recent().count(), 0, "the first call starts the collection");
        recorder.request(0, "a", &fetched(2, 0), None);
        recorder.request(1, "b", &fetched(3, 0), None);
        let recent = recorder.take_recent();
        assert_eq!((recent.count(), recent.max() / 100), (2, 30));
        assert_eq!(recorder.take_recent().count(), 0);
        assert_eq!(recorder.results().total().latency.count(), 3, "the results keep all");
    }

    #[tokio::test(start_paused = true)]
    async fn three_examples_of_each_reason_are_kept() {
        let recorder = Recorder::new(Instant::now());
        for number in 0..5 {
            let failure = Failure::new(Reason::Status(404), format!("http://a/{number}"));
            recorder.request(number, "a", &fetched(1, 0), Some(&failure));
        }
        recorder.request(0, "a", &failed(1, 0, Reason::Closed, "http://b/"), None);
        let examples = recorder.examples();
        assert_eq!(examples["status_404"], ["http://a/0", "http://a/1", "http://a/2"]);
        assert_eq!(examples["closed"], ["http://b/"]);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_day_only_sums_are_kept() {
        let recorder = Recorder::new(Instant::now());
        tokio::time::advance(Duration::from_secs(86_400)).await;
        recorder.player_started(0);
        recorder.request(0, "a", &fetched(1, 1), None);
        let results = recorder.results();
        assert!(results.seconds.is_empty());
        assert_eq!((results.players.started, results.total().count, recorder.counts().came), (1, 1, 1));
    }
}
