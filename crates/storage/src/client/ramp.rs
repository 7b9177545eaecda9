//! The number of requests that share a long read: as many as measured throughput justifies.
//!
//! The number climbs from one stream to two, four and so on. It climbs only if reads with more
//! streams arrive faster, and falls if they no longer arrive faster than reads over one stream,
//! which is measured again and again.

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
/// The least throughput that justifies more streams, in percent of that of fewer.
const LEAST_GAIN: u64 = 110;
/// The weight of the latest read in the average throughput is one of so many.
const WEIGHT: u64 = 4;
/// Of so many reads, one is made over one stream, and one over more streams than the others. The
/// number is odd, because the lengths of reads often alternate.
const ROUND: u64 = 7;
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
    /// The possible numbers of streams, from 1 up. There is at least one.
    levels: Vec<Level>,
    /// Position in `levels` of the number that most reads use.
    current: usize,
    /// Number of long reads so far.
    reads: u64,
    /// Number of long reads until which more streams are not tried.
    paused_until: u64,
    pause: u64,
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
        let doubled = (0..).map(|power| 1_usize << power).take_while(|streams| *streams < most);
        let levels = doubled.chain([most]).map(|streams| Level { streams, rate: None }).collect();
        let state =
            State { heads: VecDeque::new(), levels, current: 0, reads: 0, paused_until: 0, pause: PAUSE };
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

    /// Returns the number of streams for a long read, or `None` if storage is near.
    pub(super) fn next(&self) -> Option<usize> {
        let mut state = self.state();
        if self.is_auto && !state.is_far() {
            return None;
        }
        let number = state.reads;
        state.reads += 1;
        let rate = |level: usize| state.levels.get(level).map(|level| level.rate);
        let more = Some(state.current + 1).filter(|level| *level < state.levels.len());
        let more = more.filter(|_| number >= state.paused_until);
        let level = match (number % ROUND, more) {
            _ if rate(0) == Some(None) => 0,
            // At first, the number climbs with each read.
            (_, Some(more)) if rate(more) == Some(None) => more,
            (0, _) => 0,
            (3, Some(more)) => more,
            _ => state.current,
        };
        state.levels.get(level).map(|level| level.streams)
    }

    /// Records the throughput of a read for which [`Self::next`] returned `streams`, with the time
    /// that was spent waiting for storage.
    pub(super) fn record(&self, streams: usize, bytes: u64, time: Duration) -> Choice {
        let rate = (u128::from(bytes) * 1_000_000_000).checked_div(time.as_nanos());
        let mut state = self.state();
        if let Some(rate) = rate {
            state.record(streams, u64::try_from(rate).unwrap_or(u64::MAX));
        }
        state.choice()
    }

    /// Records that a request failed which a read over one stream would not have made.
    pub(super) fn record_failure(&self) -> Choice {
        let mut state = self.state();
        state.current = 0;
        state.paused_until = state.reads + state.pause;
        state.pause = (state.pause * 2).min(MAX_PAUSE);
        state.choice()
    }
}

impl State {
    fn is_far(&self) -> bool {
        self.heads.len() >= LEAST_HEADS && self.heads.iter().min().is_some_and(|least| *least >= FAR)
    }

    fn record(&mut self, streams: usize, rate: u64) {
        let Some(position) = self.levels.iter().position(|level| level.streams == streams) else { return };
        let Some(level) = self.levels.get_mut(position) else { return };
        level.rate = Some(level.rate.map_or(rate, |average| average - average / WEIGHT + rate / WEIGHT));
        if position == self.current + 1 && self.is_faster(position, self.current) {
            self.current = position;
            tracing::debug!(streams, "more streams are faster: long reads use them");
        } else if position == self.current && position > 0 && !self.is_faster(position, 0) {
            self.current = position - 1;
            // A later attempt is compared with what it measures itself.
            self.levels.iter_mut().skip(position).for_each(|level| level.rate = None);
            self.paused_until = self.reads + self.pause;
            tracing::debug!(streams, "these streams are no faster than one: long reads use fewer");
        }
    }

    /// Returns true if the throughput of a level justifies it over another one.
    fn is_faster(&self, level: usize, than: usize) -> bool {
        let rate = |level: usize| self.levels.get(level).and_then(|level| level.rate);
        rate(level).zip(rate(than)).is_some_and(|(rate, than)| rate / LEAST_GAIN >= than / 100)
    }

    fn choice(&self) -> Choice {
        let rate = |level: Option<&Level>| level.and_then(|level| level.rate).unwrap_or(0);
        let current = self.levels.get(self.current);
        Choice {
            streams: current.map_or(1, |level| level.streams as u64),
            rate_of_one: rate(self.levels.first()),
            rate: rate(current),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// Makes reads whose throughput in bytes per second depends on the number of streams. Returns
    /// the numbers that were used.
    fn reads(ramp: &Ramp, count: usize, rate: impl Fn(usize) -> u64) -> Vec<usize> {
        let read = || {
            let streams = ramp.next().unwrap();
            ramp.record(streams, rate(streams), SECOND);
            streams
        };
        (0..count).map(|_| read()).collect()
    }

    fn current(ramp: &Ramp) -> usize {
        let state = ramp.state();
        state.levels[state.current].streams
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
        assert!((90..=110).contains(&count(1)), "{}", count(1));
        assert!((90..=110).contains(&count(4)), "{}", count(4));
        assert_eq!(count(6), 0);
    }

    #[test]
    fn streams_that_no_longer_help_are_left_again() {
        let ramp = Ramp::new(StreamCount::AtMost(4)).unwrap();
        reads(&ramp, 20, |streams| streams as u64 * 1000);
        assert_eq!(current(&ramp), 4);
        let used = reads(&ramp, 100, |_| 3000);
        assert_eq!(current(&ramp), 1, "{used:?}");
        let Choice { streams, rate_of_one, rate } = ramp.record(1, 3000, SECOND);
        assert_eq!((streams, rate_of_one), (1, rate));
        // The network changes once more.
        reads(&ramp, 300, |streams| streams as u64 * 1000);
        assert_eq!(current(&ramp), 4);
    }

    #[test]
    fn reads_over_more_streams_that_are_slower_stay_rare() {
        let ramp = Ramp::new(StreamCount::AtMost(4)).unwrap();
        let used = reads(&ramp, 700, |streams| 1000 / streams as u64);
        assert_eq!(current(&ramp), 1);
        let slow = used.iter().filter(|used| **used > 1).count();
        assert!(slow <= 101, "{slow}");
    }

    #[test]
    fn a_failure_ends_the_use_of_streams_for_a_while() {
        let ramp = Ramp::new(StreamCount::AtMost(4)).unwrap();
        let faster = |streams: usize| streams as u64 * 1000;
        reads(&ramp, 10, faster);
        assert_eq!(ramp.record_failure().streams, 1);
        assert!(reads(&ramp, 32, faster).iter().all(|streams| *streams == 1));
        reads(&ramp, 20, faster);
        assert_eq!(current(&ramp), 4);
        ramp.record_failure();
        assert!(reads(&ramp, 64, faster).iter().all(|streams| *streams == 1), "twice as long");
    }

    #[test]
    fn auto_splits_reads_only_of_far_storage() {
        let ramp = Ramp::new(StreamCount::Auto).unwrap();
        assert_eq!(ramp.next(), None, "nothing is known");
        (0..3).for_each(|_| ramp.note_head(Duration::from_millis(40)));
        assert_eq!(ramp.next(), Some(1));
        // One fast response shows that storage is near, until it is long ago.
        ramp.note_head(Duration::from_millis(9));
        assert_eq!(ramp.next(), None);
        (0..16).for_each(|_| ramp.note_head(FAR));
        assert_eq!(ramp.next(), Some(1));
        // A stated number applies to any storage.
        assert_eq!(Ramp::new(StreamCount::AtMost(2)).unwrap().next(), Some(1));
        assert!(Ramp::new(StreamCount::AtMost(1)).is_none());
    }
}
