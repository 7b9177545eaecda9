//! The number of requests that share a long read: as many as measured throughput justifies.
//!
//! Only reads of similar length are compared, because longer ones have a higher throughput.

use super::levels::{Choice, Levels};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The number of classes of similar length: 2 and 3 chunks, 4 to 7, 8 to 15, and more.
const CLASSES: usize = 4;
/// The number of reads after a failure in which more streams are not tried. It doubles with each
/// failure.
const PAUSE: u64 = 32;
const MAX_PAUSE: u64 = 4096;

/// Chooses the number of streams of each long read.
#[derive(Debug)]
pub(super) struct Ramp(Mutex<State>);

#[derive(Debug)]
struct State {
    /// The choices for each class of similar length.
    classes: Vec<Levels>,
    /// Number of long reads so far.
    reads: u64,
    /// Number of long reads until which more streams are not tried.
    paused_until: u64,
    pause: u64,
}

impl Ramp {
    /// Starts with one stream, and uses at most so many.
    pub(super) fn new(most: usize) -> Self {
        // No chunk is shorter than its least length.
        let longest = |class: usize| if class + 1 < CLASSES { (4 << class) - 1 } else { most };
        let classes = (0..CLASSES).map(|class| Levels::new(most.min(longest(class)))).collect();
        Self(Mutex::new(State { classes, reads: 0, paused_until: 0, pause: PAUSE }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of streams for a long read of so many chunks.
    pub(super) fn next(&self, chunks: u64) -> usize {
        let mut state = self.state();
        state.reads += 1;
        let is_paused = state.is_paused();
        state.classes.get_mut(class_of(chunks)).map_or(1, |class| class.next(is_paused))
    }

    /// Records the throughput of a read of so many chunks, for which [`Self::next`] returned
    /// `streams`, with the time that was spent waiting for storage.
    pub(super) fn record(&self, chunks: u64, streams: usize, bytes: u64, time: Duration) -> Choice {
        let rate = (u128::from(bytes) * 1_000_000_000).checked_div(time.as_nanos());
        let mut state = self.state();
        if let (Some(class), Some(rate)) = (state.classes.get_mut(class_of(chunks)), rate) {
            class.record(streams, u64::try_from(rate).unwrap_or(u64::MAX));
        }
        state.choice(chunks)
    }

    /// Records that a request failed which a read over one stream would not have made.
    pub(super) fn record_failure(&self, chunks: u64) -> Choice {
        let mut state = self.state();
        state.classes.iter_mut().for_each(Levels::forget_streams);
        state.paused_until = state.reads + state.pause;
        state.pause = (state.pause * 2).min(MAX_PAUSE);
        state.choice(chunks)
    }
}

/// Returns the position of the class of reads of so many chunks.
fn class_of(chunks: u64) -> usize {
    usize::try_from(chunks.max(2).ilog2() - 1).unwrap_or(0).min(CLASSES - 1)
}

impl State {
    fn is_paused(&self) -> bool {
        self.reads <= self.paused_until && self.paused_until > 0
    }

    fn choice(&self, chunks: u64) -> Choice {
        let class = self.classes.get(class_of(chunks));
        class.map_or(Choice { streams: 1, rate_of_one: 0, rate: 0 }, Levels::choice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    /// Chunks of each read.
    const CHUNKS: u64 = 16;

    /// Makes reads whose throughput in bytes per second depends on the number of streams. Returns
    /// the numbers that were used.
    fn reads(ramp: &Ramp, count: usize, rate: impl Fn(usize) -> u64) -> Vec<usize> {
        let read = || {
            let streams = ramp.next(CHUNKS);
            ramp.record(CHUNKS, streams, rate(streams), SECOND);
            streams
        };
        (0..count).map(|_| read()).collect()
    }

    fn current(ramp: &Ramp) -> u64 {
        ramp.state().choice(CHUNKS).streams
    }

    #[test]
    fn only_reads_of_similar_length_are_compared() {
        let ramp = Ramp::new(4);
        reads(&ramp, 20, |streams| streams as u64 * 1000);
        // Shorter reads have a lower throughput, with each number of streams.
        for chunks in [2, 3, 3, 2] {
            let streams = ramp.next(chunks);
            assert!(streams <= 3);
            ramp.record(chunks, streams, 10 * streams as u64, SECOND);
        }
        assert_eq!(current(&ramp), 4);
        assert_eq!([2, 3, 4, 7, 8, 15, 16, u64::MAX].map(class_of), [0, 0, 1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn a_failure_ends_the_use_of_streams_for_a_while() {
        let ramp = Ramp::new(4);
        let faster = |streams: usize| streams as u64 * 1000;
        reads(&ramp, 20, faster);
        assert_eq!(current(&ramp), 4);
        assert_eq!(ramp.record_failure(CHUNKS).streams, 1);
        assert!(reads(&ramp, 32, faster).iter().all(|streams| *streams == 1));
        reads(&ramp, 20, faster);
        assert_eq!(current(&ramp), 4);
        ramp.record_failure(CHUNKS);
        assert_eq!(current(&ramp), 1);
        assert!(reads(&ramp, 64, faster).iter().all(|streams| *streams == 1), "twice as long");
    }
}
