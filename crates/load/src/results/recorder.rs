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

/// Collects measurements of many players. It is divided into stripes, each of which is locked briefly,
/// so that players rarely wait for each other.
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
    /// Latencies since [`Recorder::take_recent`] was last called, in microseconds; `None` before the
    /// first call.
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
    #[must_use]
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
    #[must_use]
    pub fn new(start: Instant) -> Self {
        let count = std::thread::available_parallelism().map_or(1, usize::from) * 2;
        Self { start, stripes: (0..count).map(|_| Mutex::default()).collect(), examples: Mutex::default() }
    }

    /// Returns the start of the run.
    #[must_use]
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
    #[must_use]
    pub fn results(&self) -> Results {
        let mut all = Results::default();
        self.stripes.iter().for_each(|stripe| all.merge(&lock(stripe).results));
        all
    }

    /// Returns the sums until now.
    #[must_use]
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
    #[must_use]
    pub fn take_recent(&self) -> Histogram {
        let mut all = Histogram::default();
        for stripe in &self.stripes {
            let recent = lock(stripe).recent.replace(Histogram::default());
            recent.iter().for_each(|recent| all.merge(recent));
        }
        all
    }

    /// Returns descriptions of some failures, by reason.
    #[must_use]
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
