//! The collection of measurements while a run lasts.

use super::{Histogram, Players, Results, Second};
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

/// Collects measurements of many players. It is divided into stripes, each of which is locked
/// briefly, so that players rarely wait for each other.
#[derive(Debug)]
pub struct Recorder {
    start: Instant,
    stripes: Box<[Mutex<Stripe>]>,
    examples: Mutex<BTreeMap<Reason, Vec<String>>>,
}

/// The measurements of some players.
#[derive(Debug, Default)]
struct Stripe {
    results: Results,
    counts: Counts,
    /// Latencies since [`Recorder::take_recent`] was last called, in microseconds; `None` before
    /// the first call.
    recent: Option<Histogram>,
}

/// Sums that are cheap to read every second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that ended.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Bytes of bodies.
    pub bytes: u64,
    /// Players that started.
    pub came: u64,
    /// Players that left.
    pub left: u64,
    /// Stalls that began.
    pub stalls: u64,
}

impl Counts {
    /// Returns the number of players that have started and not left.
    pub const fn playing(&self) -> u64 {
        self.came.saturating_sub(self.left)
    }
}

/// The measurements of a request.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// The time from when the request was due to its end.
    pub latency: Duration,
    /// The time from when it was due to the head of the response; `None` if it failed.
    pub first_byte: Option<Duration>,
    /// Bytes of the body.
    pub bytes: u64,
}

impl From<&Result<Fetched, FailedFetch>> for Measured {
    fn from(result: &Result<Fetched, FailedFetch>) -> Self {
        match result {
            Ok(fetched) => {
                let first_byte = Some(fetched.first_byte);
                Self { latency: fetched.latency, first_byte, bytes: fetched.bytes }
            }
            Err(failed) => Self { latency: failed.latency, first_byte: None, bytes: failed.bytes },
        }
    }
}

/// The way in which a player ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlayerEnd {
    /// It reached the end of its title.
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
        Self { start, stripes: (0..count).map(|_| Mutex::default()).collect(), examples: Mutex::default() }
    }

    /// Returns the start of the run.
    pub const fn start(&self) -> Instant {
        self.start
    }

    fn stripe(&self, player: u64) -> MutexGuard<'_, Stripe> {
        let count = self.stripes.len() as u64;
        let index = usize::try_from(player % count).unwrap_or(0);
        #[expect(clippy::indexing_slicing, reason = "below the length, which is not 0")]
        lock(&self.stripes[index])
    }

    /// Counts a request of a player.
    pub fn request(&self, player: u64, class: &str, measured: Measured, failure: Option<&Failure>) {
        let now = self.start.elapsed();
        let micros = micros(measured.latency);
        let failed = u64::from(failure.is_some());
        {
            let mut stripe = self.stripe(player);
            let Stripe { results, counts, recent } = &mut *stripe;
            counts.requests += 1;
            counts.bytes += measured.bytes;
            counts.errors += failed;
            if let Some(recent) = recent {
                recent.record(micros);
            }
            if !results.requests.contains_key(class) {
                results.requests.insert(class.to_owned(), super::Requests::default());
            }
            if let Some(requests) = results.requests.get_mut(class) {
                requests.count += 1;
                requests.bytes += measured.bytes;
                requests.latency.record(micros);
                if let Some(first_byte) = measured.first_byte {
                    requests.first_byte.record(self::micros(first_byte));
                }
                if let Some(failure) = failure {
                    *requests.errors.entry(failure.reason.to_string()).or_default() += 1;
                }
            }
            if let Some(second) = second(results, now) {
                second.requests += 1;
                second.bytes += measured.bytes;
                second.latency += micros;
                second.errors += failed;
            }
        }
        if let Some(failure) = failure {
            let mut examples = lock(&self.examples);
            let of_reason = examples.entry(failure.reason).or_default();
            if of_reason.len() < EXAMPLES {
                of_reason.push(failure.detail.clone());
            }
        }
    }

    /// Records a delay of the generator behind the time an action was due.
    pub fn lag(&self, player: u64, lag: Duration) {
        self.stripe(player).results.lag.record(micros(lag));
    }

    /// Counts a player that starts.
    pub fn player_started(&self, player: u64) {
        self.count(player, |counts, results, second| {
            counts.came += 1;
            results.players.started += 1;
            second.came += 1;
        });
    }

    /// Counts a player that leaves.
    pub fn player_left(&self, player: u64, end: PlayerEnd) {
        self.count(player, |counts, results, second| {
            counts.left += 1;
            match end {
                PlayerEnd::Finished => results.players.finished += 1,
                PlayerEnd::Failed => results.players.failed += 1,
                PlayerEnd::Stopped => results.players.stopped += 1,
            }
            second.left += 1;
        });
    }

    /// Counts a stall that begins.
    pub fn stall_started(&self, player: u64) {
        self.count(player, |counts, _, second| {
            counts.stalls += 1;
            second.stalls += 1;
        });
    }

    /// Counts an event of a player in the current second. After the first day, the second is lost.
    fn count(&self, player: u64, count: impl FnOnce(&mut Counts, &mut Results, &mut Second)) {
        let now = self.start.elapsed();
        let mut stripe = self.stripe(player);
        let Stripe { results, counts, .. } = &mut *stripe;
        let mut current = second(results, now).copied().unwrap_or_default();
        count(counts, results, &mut current);
        if let Some(second) = second(results, now) {
            *second = current;
        }
    }

    /// Updates the measurements of players.
    pub fn update_players(&self, player: u64, update: impl FnOnce(&mut Players)) {
        update(&mut self.stripe(player).results.players);
    }

    /// Returns all results until now.
    pub fn results(&self) -> Results {
        let mut all = Results::default();
        self.stripes.iter().for_each(|stripe| all.merge(&lock(stripe).results));
        all
    }

    /// Returns the sums until now.
    pub fn counts(&self) -> Counts {
        let mut all = Counts::default();
        for stripe in &self.stripes {
            let counts = lock(stripe).counts;
            all.requests += counts.requests;
            all.errors += counts.errors;
            all.bytes += counts.bytes;
            all.came += counts.came;
            all.left += counts.left;
            all.stalls += counts.stalls;
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

/// Returns whole microseconds.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the current second, or `None` after the first day.
fn second(results: &mut Results, since_start: Duration) -> Option<&mut Second> {
    let index = usize::try_from(since_start.as_secs()).ok().filter(|&index| index < MAX_SECONDS)?;
    if results.seconds.len() <= index {
        results.seconds.resize(index + 1, Second::default());
    }
    results.seconds.get_mut(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(millis: u64, bytes: u64) -> Measured {
        let latency = Duration::from_millis(millis);
        Measured { latency, first_byte: Some(latency / 2), bytes }
    }

    #[tokio::test(start_paused = true)]
    async fn requests_of_all_players_are_counted_by_class_and_second() {
        let recorder = Recorder::new(Instant::now());
        let failure = Failure::new(Reason::Timeout, "http://a/x");
        for player in 0..100 {
            recorder.request(player, "a", measured(10, 7), None);
        }
        tokio::time::advance(Duration::from_secs(2)).await;
        let failed = Measured { first_byte: None, ..measured(30, 1) };
        recorder.request(5, "b", failed, Some(&failure));
        let results = recorder.results();
        let class = |name: &str| &results.requests[name];
        assert_eq!((class("a").count, class("a").bytes, class("a").failed()), (100, 700, 0));
        assert_eq!((class("b").count, class("b").bytes, class("b").failed()), (1, 1, 1));
        assert_eq!((class("a").first_byte.count(), class("b").first_byte.count()), (100, 0));
        assert_eq!(class("b").errors, BTreeMap::from([("timeout".to_owned(), 1)]));
        let seconds: Vec<(u64, u64, u64, u64)> =
            results.seconds.iter().map(|s| (s.requests, s.errors, s.bytes, s.latency)).collect();
        assert_eq!(seconds, [(100, 0, 700, 1_000_000), (0, 0, 0, 0), (1, 1, 1, 30_000)]);
        let expected = Counts { requests: 101, errors: 1, bytes: 701, ..Counts::default() };
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
        recorder.request(0, "a", measured(1, 0), None);
        assert_eq!(recorder.take_recent().count(), 0, "the first call starts the collection");
        recorder.request(0, "a", measured(2, 0), None);
        recorder.request(1, "b", measured(3, 0), None);
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
            recorder.request(number, "a", measured(1, 0), Some(&failure));
        }
        let failure = Failure::new(Reason::Closed, "http://b/");
        recorder.request(0, "a", measured(1, 0), Some(&failure));
        let examples = recorder.examples();
        assert_eq!(examples["status_404"], ["http://a/0", "http://a/1", "http://a/2"]);
        assert_eq!(examples["closed"], ["http://b/"]);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_day_only_sums_are_kept() {
        let recorder = Recorder::new(Instant::now());
        tokio::time::advance(Duration::from_secs(86_400)).await;
        recorder.player_started(0);
        recorder.request(0, "a", measured(1, 1), None);
        let results = recorder.results();
        assert!(results.seconds.is_empty());
        assert_eq!((results.players.started, results.total().count, recorder.counts().came), (1, 1, 1));
    }
}
