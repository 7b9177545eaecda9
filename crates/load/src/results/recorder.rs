//! Where everyone's measurements go while a run lasts.

use super::{Results, Second};
use crate::failure::{Failure, Reason};
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
    parts: Box<[Mutex<Results>]>,
    examples: Mutex<BTreeMap<Reason, Vec<String>>>,
}

/// A request that ended.
#[derive(Debug, Clone, Copy)]
pub struct Timed {
    /// From when it was due to its end.
    pub latency: Duration,
    /// From when it was due to the head of the answer, where there was one.
    pub first_byte: Option<Duration>,
    /// Bytes of the body.
    pub bytes: u64,
}

/// What became of a player.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Played {
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
        let parts = std::thread::available_parallelism().map_or(1, usize::from) * 2;
        Self { start, parts: (0..parts).map(|_| Mutex::default()).collect(), examples: Mutex::default() }
    }

    /// When the run started.
    #[must_use]
    pub const fn start(&self) -> Instant {
        self.start
    }

    fn part(&self, who: u64) -> MutexGuard<'_, Results> {
        let count = u64::try_from(self.parts.len()).unwrap_or(1).max(1);
        let index = usize::try_from(who % count).unwrap_or(0);
        #[expect(clippy::indexing_slicing, reason = "below the length, which is not 0")]
        self.parts[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a request of the player `who`, due by `lag` before it was sent.
    pub fn request(&self, who: u64, class: &str, timed: Timed, failure: Option<&Failure>) {
        let now = self.start.elapsed();
        let mut part = self.part(who);
        if !part.requests.contains_key(class) {
            part.requests.insert(class.to_owned(), super::Requests::default());
        }
        let micros = micros(timed.latency);
        if let Some(requests) = part.requests.get_mut(class) {
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
        if let Some(second) = second(&mut part, now) {
            second.requests += 1;
            second.bytes += timed.bytes;
            second.latency += micros;
            second.errors += u64::from(failure.is_some());
        }
        drop(part);
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
        self.part(who).lag.record(micros(lag));
    }

    /// A player comes.
    pub fn came(&self, who: u64) {
        let now = self.start.elapsed();
        let mut part = self.part(who);
        part.players.started += 1;
        if let Some(second) = second(&mut part, now) {
            second.came += 1;
        }
    }

    /// A player leaves.
    pub fn left(&self, who: u64, played: Played) {
        let now = self.start.elapsed();
        let mut part = self.part(who);
        match played {
            Played::Finished => part.players.finished += 1,
            Played::Failed => part.players.failed += 1,
            Played::Stopped => part.players.stopped += 1,
        }
        if let Some(second) = second(&mut part, now) {
            second.left += 1;
        }
    }

    /// A player begins to wait for media.
    pub fn stalls(&self, who: u64) {
        let now = self.start.elapsed();
        if let Some(second) = second(&mut self.part(who), now) {
            second.stalls += 1;
        }
    }

    /// Takes note of something else of a player.
    pub fn player(&self, who: u64, note: impl FnOnce(&mut super::Players)) {
        note(&mut self.part(who).players);
    }

    /// All there is until now.
    #[must_use]
    pub fn results(&self) -> Results {
        let mut all = Results::default();
        for part in &self.parts {
            all.merge(&part.lock().unwrap_or_else(PoisonError::into_inner));
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
