//! Where everyone's measurements go while a run lasts.

use super::{Histogram, Results, Second};
use latemux_client::failure::{Failure, Reason};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::time::Instant;

/// Failures of a reason whose details are kept.
const EXAMPLES: usize = 3;

/// The most seconds that are told apart: a day.
const MAX_SECONDS: usize = 86_400;

/// Collects results. Parts of it are locked for a moment each, so that thousands of players do not wait for each other.
#[derive(Debug)]
pub struct Recorder {
    start: Instant,
    stripes: Box<[Mutex<Stripe>]>,
    examples: Mutex<BTreeMap<Reason, Vec<String>>>,
}

/// A stripe of what was measured.
#[derive(Debug, Default)]
struct Stripe {
    results: Results,
    counts: Counts,
    /// Latencies since they were last asked for, in microseconds; `None` where nobody asks.
    recent: Option<Histogram>,
}

/// Sums until now: what is cheap to look at every second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that ended.
    pub requests: u64,
    /// Failed ones of these.
    pub errors: u64,
    /// Bytes of bodies.
    pub bytes: u64,
    /// Players that came.
    pub came: u64,
    /// Players that left.
    pub left: u64,
    /// Stalls that began.
    pub stalls: u64,
}

impl Counts {
    /// Returns the number of players that came and have not left.
    #[must_use]
    pub const fn playing(&self) -> u64 {
        self.came.saturating_sub(self.left)
    }
}

/// A request that ended.
#[derive(Debug, Clone, Copy)]
pub struct Measured {
    /// From when it was due to its end.
    pub latency: Duration,
    /// From when it was due to the head of the answer, where there was one.
    pub first_byte: Option<Duration>,
    /// Bytes of the body.
    pub bytes: u64,
}

/// What became of a player.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlayerEnd {
    /// It came to the end of its title.
    Finished,
    /// Too many requests failed one after the other.
    Failed,
    /// The run ended before.
    Stopped,
}

impl Recorder {
    /// For a run that starts now.
    #[must_use]
    pub fn new(start: Instant) -> Self {
        let stripes = std::thread::available_parallelism().map_or(1, usize::from) * 2;
        Self { start, stripes: (0..stripes).map(|_| Mutex::default()).collect(), examples: Mutex::default() }
    }

    /// When the run started.
    #[must_use]
    pub const fn start(&self) -> Instant {
        self.start
    }

    fn stripe(&self, who: u64) -> MutexGuard<'_, Stripe> {
        let count = u64::try_from(self.stripes.len()).unwrap_or(1).max(1);
        let index = usize::try_from(who % count).unwrap_or(0);
        #[expect(clippy::indexing_slicing, reason = "below the length, which is not 0")]
        self.stripes[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request of the player `who`, due by `lag` before it was sent.
    pub fn request(&self, who: u64, class: &str, timed: Measured, failure: Option<&Failure>) {
        let now = self.start.elapsed();
        let mut stripe = self.stripe(who);
        let Stripe { results: stripe, counts, recent } = &mut *stripe;
        if !stripe.requests.contains_key(class) {
            stripe.requests.insert(class.to_owned(), super::Requests::default());
        }
        let micros = micros(timed.latency);
        counts.requests += 1;
        counts.bytes += timed.bytes;
        counts.errors += u64::from(failure.is_some());
        if let Some(recent) = recent {
            recent.record(micros);
        }
        if let Some(requests) = stripe.requests.get_mut(class) {
            requests.count += 1;
            requests.bytes += timed.bytes;
            requests.latency.record(micros);
            if let Some(first_byte) = timed.first_byte {
                requests.first_byte.record(super::micros(first_byte));
            }
            if let Some(failure) = failure {
                *requests.errors.entry(failure.reason.to_string()).or_default() += 1;
            }
        }
        if let Some(second) = second(stripe, now) {
            second.requests += 1;
            second.bytes += timed.bytes;
            second.latency += micros;
            second.errors += u64::from(failure.is_some());
        }
        drop(stripe);
        if let Some(failure) = failure {
            let mut examples = self.examples.lock().unwrap_or_else(PoisonError::into_inner);
            let of_reason = examples.entry(failure.reason).or_default();
            if of_reason.len() < EXAMPLES {
                of_reason.push(failure.detail.clone());
            }
        }
    }

    /// Counts by how much something was done later than it was due.
    pub fn lag(&self, who: u64, lag: Duration) {
        self.stripe(who).results.lag.record(micros(lag));
    }

    /// A player comes.
    pub fn player_started(&self, who: u64) {
        let now = self.start.elapsed();
        let mut stripe = self.stripe(who);
        stripe.counts.came += 1;
        stripe.results.players.started += 1;
        if let Some(second) = second(&mut stripe.results, now) {
            second.came += 1;
        }
    }

    /// A player leaves.
    pub fn player_left(&self, who: u64, played: PlayerEnd) {
        let now = self.start.elapsed();
        let mut stripe = self.stripe(who);
        stripe.counts.left += 1;
        let players = &mut stripe.results.players;
        match played {
            PlayerEnd::Finished => players.finished += 1,
            PlayerEnd::Failed => players.failed += 1,
            PlayerEnd::Stopped => players.stopped += 1,
        }
        if let Some(second) = second(&mut stripe.results, now) {
            second.left += 1;
        }
    }

    /// A player begins to wait for media.
    pub fn stall_started(&self, who: u64) {
        let now = self.start.elapsed();
        let mut stripe = self.stripe(who);
        stripe.counts.stalls += 1;
        if let Some(second) = second(&mut stripe.results, now) {
            second.stalls += 1;
        }
    }

    /// Takes note of something else of a player.
    pub fn update_players(&self, who: u64, note: impl FnOnce(&mut super::Players)) {
        note(&mut self.stripe(who).results.players);
    }

    /// All there is until now.
    #[must_use]
    pub fn results(&self) -> Results {
        let mut all = Results::default();
        for stripe in &self.stripes {
            all.merge(&stripe.lock().unwrap_or_else(PoisonError::into_inner).results);
        }
        all
    }

    /// Sums until now.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut all = Counts::default();
        for stripe in &self.stripes {
            let counts = stripe.lock().unwrap_or_else(PoisonError::into_inner).counts;
            all.requests += counts.requests;
            all.errors += counts.errors;
            all.bytes += counts.bytes;
            all.came += counts.came;
            all.left += counts.left;
            all.stalls += counts.stalls;
        }
        all
    }

    /// Latencies of all requests that ended since this was last called, in microseconds; none the first time.
    #[must_use]
    pub fn take_recent(&self) -> Histogram {
        let mut all = Histogram::default();
        for stripe in &self.stripes {
            let mut stripe = stripe.lock().unwrap_or_else(PoisonError::into_inner);
            let recent = stripe.recent.replace(Histogram::default());
            drop(stripe);
            recent.iter().for_each(|recent| all.merge(recent));
        }
        all
    }

    /// Some failures in words, by reason.
    #[must_use]
    pub fn examples(&self) -> BTreeMap<String, Vec<String>> {
        let examples = self.examples.lock().unwrap_or_else(PoisonError::into_inner);
        examples.iter().map(|(reason, details)| (reason.to_string(), details.clone())).collect()
    }
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

fn second(results: &mut Results, since_start: Duration) -> Option<&mut Second> {
    let index = usize::try_from(since_start.as_secs()).ok().filter(|&index| index < MAX_SECONDS)?;
    if results.seconds.len() <= index {
        results.seconds.resize(index + 1, Second::default());
    }
    results.seconds.get_mut(index)
}
