//! The number of requests that share a long read: as many as measured throughput justifies.
//!
//! The first long read uses one stream, the next ones two, four and so on, until more streams are
//! slower. From then on, reads use the fewest streams that are nearly as fast as the best number.
//! One stream, and the next larger and smaller number, are measured again and again. Only reads of
//! similar length are compared, because longer ones have a higher throughput.

use crate::StreamCount;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most streams that `auto` uses.
const AUTO_STREAMS: usize = 4;
/// The least time from a request to its response at which `auto` splits reads.
const FAR: Duration = Duration::from_millis(10);
/// The number of responses whose least time counts as the distance.
const HEADS: usize = 16;
/// The least number of responses from which a distance follows.
const LEAST_HEADS: usize = 3;
/// The least throughput that is nearly that of the best number of streams, in percent of it.
const NEARLY: u64 = 90;
/// The weight of the latest read in the average throughput is one of so many.
const WEIGHT: u64 = 4;
/// Of so many reads, one uses one stream, and one more or fewer streams than the others. The number
/// is odd, because the lengths of reads often alternate.
const ROUND: u64 = 7;
/// The number of classes of similar length: 2 and 3 chunks, 4 to 7, 8 to 15, and more.
const CLASSES: usize = 4;
/// The number of reads after a failure in which more streams are not tried. It doubles with each
/// failure.
const PAUSE: u64 = 32;
const MAX_PAUSE: u64 = 4096;

/// Chooses the number of streams of each long read.
#[derive(Debug)]
pub(super) struct Ramp {
    is_auto: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Times from requests to their responses, of the latest ones.
    heads: VecDeque<Duration>,
    classes: Vec<Class>,
    /// Number of long reads so far.
    reads: u64,
    /// Number of long reads until which more streams are not tried.
    paused_until: u64,
    pause: u64,
}

/// The choice for reads of similar length.
#[derive(Debug)]
struct Class {
    /// The possible numbers of streams, from 1 up. There is at least one.
    levels: Vec<Level>,
    /// Number of reads so far.
    reads: u64,
}

#[derive(Debug)]
struct Level {
    streams: usize,
    /// Average throughput in bytes per second; `None` before the first read.
    rate: Option<u64>,
}

/// The current choice, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    /// The number of streams that most reads use.
    pub(super) streams: u64,
    /// The average throughput of reads over one stream in bytes per second; 0 if none was measured.
    pub(super) rate_of_one: u64,
    /// The same for reads over `streams`.
    pub(super) rate: u64,
}

impl Ramp {
    /// Starts with one stream. Returns `None` if reads are never split.
    pub(super) fn new(setting: StreamCount) -> Option<Self> {
        let (is_auto, most) = match setting {
            StreamCount::Auto => (true, AUTO_STREAMS),
            StreamCount::AtMost(most) => (false, most),
        };
        let classes = (0..CLASSES).map(|class| Class::new(most, class)).collect();
        let state = State { heads: VecDeque::new(), classes, reads: 0, paused_until: 0, pause: PAUSE };
        (most > 1).then(|| Self { is_auto, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the time from a request to its response.
    pub(super) fn note_head(&self, time: Duration) {
        if self.is_auto {
            let mut state = self.state();
            if state.heads.len() >= HEADS {
                state.heads.pop_front();
            }
            state.heads.push_back(time);
        }
    }

    /// Returns the number of streams for a long read of so many chunks, or `None` if storage is
    /// near.
    pub(super) fn next(&self, chunks: u64) -> Option<usize> {
        let mut state = self.state();
        if self.is_auto && !state.is_far() {
            return None;
        }
        state.reads += 1;
        let is_paused = state.is_paused();
        let class = state.classes.get_mut(class_of(chunks))?;
        let number = class.reads;
        class.reads += 1;
        let level = if is_paused { 0 } else { class.level(number) };
        class.levels.get(level).map(|level| level.streams)
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
        for class in &mut state.classes {
            class.levels.iter_mut().skip(1).for_each(|level| level.rate = None);
        }
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
    fn is_far(&self) -> bool {
        self.heads.len() >= LEAST_HEADS && self.heads.iter().min().is_some_and(|least| *least >= FAR)
    }

    fn is_paused(&self) -> bool {
        self.reads <= self.paused_until && self.paused_until > 0
    }

    fn choice(&self, chunks: u64) -> Choice {
        let class = self.classes.get(class_of(chunks));
        let rate = |level: Option<&Level>| level.and_then(|level| level.rate).unwrap_or(0);
        let current = class.and_then(|class| class.levels.get(class.current()));
        Choice {
            streams: current.map_or(1, |level| level.streams as u64),
            rate_of_one: rate(class.and_then(|class| class.levels.first())),
            rate: rate(current),
        }
    }
}

impl Class {
    fn new(most: usize, class: usize) -> Self {
        let most = if class + 1 < CLASSES { most.min((4 << class) - 1) } else { most };
        let doubled = (0..).map(|power| 1_usize << power).take_while(|streams| *streams < most);
        let levels = doubled.chain([most]).map(|streams| Level { streams, rate: None }).collect();
        Self { levels, reads: 0 }
    }

    fn record(&mut self, streams: usize, rate: u64) {
        let Some(position) = self.levels.iter().position(|level| level.streams == streams) else { return };
        let Some(level) = self.levels.get_mut(position) else { return };
        level.rate = Some(level.rate.map_or(rate, |average| average - average / WEIGHT + rate / WEIGHT));
    }

    /// Returns the position of the number of streams for a read.
    fn level(&self, number: u64) -> usize {
        if let Some(unknown) = self.next_unknown() {
            return unknown;
        }
        let current = self.current();
        let other = match (number % ROUND, number / ROUND % 2) {
            (0, _) => 0,
            (3, 0) => current + 1,
            (3, _) => current.saturating_sub(1),
            _ => current,
        };
        match self.levels.get(other).and_then(|level| level.rate) {
            Some(_) => other,
            // Fewer streams were faster than this number.
            None if other == self.first_unknown() && other < self.levels.len() => other,
            None => current,
        }
    }

    /// Returns the position of the least number of streams that has not been measured.
    fn first_unknown(&self) -> usize {
        self.levels.iter().position(|level| level.rate.is_none()).unwrap_or(self.levels.len())
    }

    /// Returns that position if there is one, and the number before it is not slower than others.
    fn next_unknown(&self) -> Option<usize> {
        let unknown = Some(self.first_unknown()).filter(|unknown| *unknown < self.levels.len())?;
        let before = self.levels.get(..unknown)?.last();
        before.is_none_or(|level| self.is_nearly_best(level)).then_some(unknown)
    }

    fn is_nearly_best(&self, level: &Level) -> bool {
        let best = self.levels.iter().filter_map(|level| level.rate).max().unwrap_or(0);
        level.rate.is_some_and(|rate| rate / NEARLY >= best / 100)
    }

    /// Returns the position of the number of streams that most reads use.
    fn current(&self) -> usize {
        let best = self.levels.iter().position(|level| self.is_nearly_best(level));
        best.unwrap_or(0)
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
            let streams = ramp.next(CHUNKS).unwrap();
            ramp.record(CHUNKS, streams, rate(streams), SECOND);
            streams
        };
        (0..count).map(|_| read()).collect()
    }

    fn current(ramp: &Ramp) -> usize {
        let state = ramp.state();
        let class = &state.classes[class_of(CHUNKS)];
        class.levels[class.current()].streams
    }

    #[test]
    fn streams_are_added_while_they_help() {
        let ramp = Ramp::new(StreamCount::AtMost(6)).unwrap();
        assert_eq!(reads(&ramp, 5, |streams| streams as u64 * 1000)[..4], [1, 2, 4, 6]);
        assert_eq!(current(&ramp), 6);
        // Two are faster than one, but four are no faster than two.
        let ramp = Ramp::new(StreamCount::AtMost(6)).unwrap();
        let used = reads(&ramp, 700, |streams| 1000 * streams.min(2) as u64);
        assert_eq!(current(&ramp), 2);
        let count = |streams| used.iter().filter(|used| **used == streams).count();
        assert!((145..=155).contains(&count(1)), "{}", count(1));
        assert!((45..=55).contains(&count(4)), "{}", count(4));
        assert_eq!(count(6), 1);
    }

    /// Each step alone gains less than 10 %.
    #[test]
    fn small_gains_add_up() {
        let ramp = Ramp::new(StreamCount::AtMost(16)).unwrap();
        reads(&ramp, 20, |streams| 1000 + 50 * streams as u64);
        assert_eq!(current(&ramp), 16);
    }

    #[test]
    fn streams_that_no_longer_help_are_left_again() {
        let ramp = Ramp::new(StreamCount::AtMost(4)).unwrap();
        reads(&ramp, 20, |streams| streams as u64 * 1000);
        assert_eq!(current(&ramp), 4);
        let used = reads(&ramp, 100, |_| 3000);
        assert_eq!(current(&ramp), 1, "{used:?}");
        let Choice { streams, rate_of_one, rate } = ramp.record(CHUNKS, 1, 3000, SECOND);
        assert_eq!((streams, rate_of_one), (1, rate));
        // The network changes once more.
        reads(&ramp, 100, |streams| streams as u64 * 1000);
        assert_eq!(current(&ramp), 4);
    }

    #[test]
    fn reads_over_more_streams_that_are_slower_stay_rare() {
        let ramp = Ramp::new(StreamCount::AtMost(4)).unwrap();
        let used = reads(&ramp, 700, |streams| 1000 / streams as u64);
        assert_eq!(current(&ramp), 1);
        assert_eq!(used.iter().filter(|used| **used > 2).count(), 0);
        let slow = used.iter().filter(|used| **used > 1).count();
        assert!(slow <= 101, "{slow}");
    }

    #[test]
    fn only_reads_of_similar_length_are_compared() {
        let ramp = Ramp::new(StreamCount::AtMost(4)).unwrap();
        reads(&ramp, 10, |streams| streams as u64 * 1000);
        // Shorter reads have a lower throughput, with each number of streams.
        for chunks in [2, 3, 3, 2] {
            let streams = ramp.next(chunks).unwrap();
            assert!(streams <= 3);
            ramp.record(chunks, streams, 10 * streams as u64, SECOND);
        }
        assert_eq!(current(&ramp), 4);
        assert_eq!([2, 3, 4, 7, 8, 15, 16, u64::MAX].map(class_of), [0, 0, 1, 1, 2, 2, 3, 3]);
    }

    #[test]
    fn a_failure_ends_the_use_of_streams_for_a_while() {
        let ramp = Ramp::new(StreamCount::AtMost(4)).unwrap();
        let faster = |streams: usize| streams as u64 * 1000;
        reads(&ramp, 10, faster);
        assert_eq!(ramp.record_failure(CHUNKS).streams, 1);
        assert!(reads(&ramp, 32, faster).iter().all(|streams| *streams == 1));
        reads(&ramp, 20, faster);
        assert_eq!(current(&ramp), 4);
        ramp.record_failure(CHUNKS);
        assert_eq!(current(&ramp), 1);
        assert!(reads(&ramp, 64, faster).iter().all(|streams| *streams == 1), "twice as long");
    }

    #[test]
    fn auto_splits_reads_only_of_far_storage() {
        let ramp = Ramp::new(StreamCount::Auto).unwrap();
        assert_eq!(ramp.next(CHUNKS), None, "nothing is known");
        (0..3).for_each(|_| ramp.note_head(Duration::from_millis(40)));
        assert_eq!(ramp.next(CHUNKS), Some(1));
        // One fast response shows that storage is near, until it is long ago.
        ramp.note_head(Duration::from_millis(9));
        assert_eq!(ramp.next(CHUNKS), None);
        (0..16).for_each(|_| ramp.note_head(FAR));
        assert_eq!(ramp.next(CHUNKS), Some(1));
        // A stated number applies to any storage.
        assert_eq!(Ramp::new(StreamCount::AtMost(2)).unwrap().next(CHUNKS), Some(1));
        assert!(Ramp::new(StreamCount::AtMost(1)).is_none());
    }
}
