//! The number of streams for reads of similar length, chosen by their throughput.
//!
//! The possible numbers of streams are called levels: 1, 2, 4 and so on. A level is judged by the
//! median of several reads, because single reads differ by chance.

use std::collections::VecDeque;

/// The least number of reads by which a level is judged.
const LEAST_READS: usize = 3;
/// The number of latest reads of a level whose median counts.
const WINDOW: usize = 5;
/// The least throughput that counts as nearly the best, in percent of that of the best level.
const NEARLY: u64 = 90;
/// One of so many reads tries another level than the chosen one. The number is odd, because the
/// lengths of reads often alternate.
const ROUND: u64 = 7;

/// The levels for reads of similar length.
#[derive(Debug)]
pub(super) struct Levels {
    /// The possible numbers of streams, from 1 up. There is at least one.
    all: Vec<Level>,
    /// Number of reads so far.
    reads: u64,
}

#[derive(Debug)]
struct Level {
    streams: usize,
    /// Throughputs of the latest reads in bytes per second, the oldest first.
    rates: VecDeque<u64>,
}

/// The current choice, for metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    /// The number of streams that most reads use.
    pub(super) streams: u64,
    /// The median throughput of reads over one stream in bytes per second; 0 if none was measured.
    pub(super) rate_of_one: u64,
    /// The same for reads over `streams`.
    pub(super) rate: u64,
}

impl Level {
    /// Returns the median throughput, or the lower one of two; `None` before the first read.
    fn rate(&self) -> Option<u64> {
        let mut sorted: Vec<u64> = self.rates.iter().copied().collect();
        sorted.sort_unstable();
        sorted.get(sorted.len().checked_sub(1)? / 2).copied()
    }

    fn is_judged(&self) -> bool {
        self.rates.len() >= LEAST_READS
    }
}

/// Returns true if a throughput is at least that of the best level, or nearly so.
fn is_nearly(rate: u64, best: u64) -> bool {
    u128::from(rate) * 100 >= u128::from(best) * u128::from(NEARLY)
}

impl Levels {
    /// Creates the levels up to `most` streams.
    pub(super) fn new(most: usize) -> Self {
        let doubled = (0..).map(|power| 1_usize << power).take_while(|streams| *streams < most);
        let level = |streams| Level { streams, rates: VecDeque::new() };
        Self { all: doubled.chain([most]).map(level).collect(), reads: 0 }
    }

    /// Returns the number of streams for the next read. With `is_paused`, it is 1.
    pub(super) fn next(&mut self, is_paused: bool) -> usize {
        let number = self.reads;
        self.reads += 1;
        let position = if is_paused { 0 } else { self.position(number) };
        self.all.get(position).map_or(1, |level| level.streams)
    }

    /// Records the throughput of a read.
    pub(super) fn record(&mut self, streams: usize, rate: u64) {
        let Some(position) = self.all.iter().position(|level| level.streams == streams) else { return };
        let is_surprise = self.is_surprise(position, rate);
        let Some(level) = self.all.get_mut(position) else { return };
        if is_surprise {
            level.rates.clear();
        } else if level.rates.len() >= WINDOW {
            level.rates.pop_front();
        }
        level.rates.push_back(rate);
    }

    /// Forgets all reads over more than one stream.
    pub(super) fn forget_streams(&mut self) {
        self.all.iter_mut().skip(1).for_each(|level| level.rates.clear());
    }

    pub(super) fn choice(&self) -> Choice {
        let current = self.all.get(self.current());
        let rate = |level: Option<&Level>| level.and_then(Level::rate).unwrap_or(0);
        Choice {
            streams: current.map_or(1, |level| level.streams as u64),
            rate_of_one: rate(self.all.first()),
            rate: rate(current),
        }
    }

    /// Returns the position of the level for a read.
    fn position(&self, number: u64) -> usize {
        if let Some(unfinished) = self.next_unknown().or_else(|| self.next_unjudged()) {
            return unfinished;
        }
        let current = self.current();
        if !number.is_multiple_of(ROUND) {
            return current;
        }
        let turn = number / ROUND;
        match turn % 3 {
            0 => 0,
            1 => current.saturating_sub(1),
            _ => {
                // The levels above, in turn.
                let above = self.first_unknown().saturating_sub(current + 1) as u64;
                let step = (turn / 3).checked_rem(above).map_or(0, |step| step + 1);
                current + usize::try_from(step).unwrap_or(0)
            }
        }
    }

    /// Returns the position of the least level that has not been measured.
    fn first_unknown(&self) -> usize {
        self.all.iter().position(|level| level.rates.is_empty()).unwrap_or(self.all.len())
    }

    /// Returns that position if there is one, and the level before it is not slower than others.
    /// One read over the level before is enough for this, so that the best level is soon found.
    fn next_unknown(&self) -> Option<usize> {
        let unknown = Some(self.first_unknown()).filter(|unknown| *unknown < self.all.len())?;
        let best = self.all.iter().filter_map(Level::rate).max().unwrap_or(0);
        let before = self.all.get(..unknown)?.last().and_then(Level::rate);
        before.is_none_or(|rate| is_nearly(rate, best)).then_some(unknown)
    }

    /// Returns the position of a level that has been measured too rarely to be judged, most of all
    /// the one that was measured most rarely.
    fn next_unjudged(&self) -> Option<usize> {
        let measured = self.all.iter().enumerate().take(self.first_unknown());
        let unjudged = measured.filter(|(_, level)| !level.is_judged());
        unjudged.rev().min_by_key(|(_, level)| level.rates.len()).map(|(position, _)| position)
    }

    /// Returns the highest throughput of the levels that can be judged.
    fn best(&self) -> u64 {
        self.all.iter().filter(|level| level.is_judged()).filter_map(Level::rate).max().unwrap_or(0)
    }

    /// Returns the position of the level that most reads use: the fewest streams that are nearly
    /// as fast as the best number.
    fn current(&self) -> usize {
        let best = self.best();
        let is_chosen =
            |level: &Level| level.is_judged() && level.rate().is_some_and(|rate| is_nearly(rate, best));
        self.all.iter().position(is_chosen).unwrap_or(0)
    }

    /// Returns true if a read shows that a level which was not chosen should perhaps be. Then the
    /// level is judged again, by this read and the next ones.
    fn is_surprise(&self, position: usize, rate: u64) -> bool {
        let current = self.current();
        if !self.all.get(position).is_some_and(Level::is_judged) {
            return false;
        }
        match position.cmp(&current) {
            std::cmp::Ordering::Less => is_nearly(rate, self.best()),
            std::cmp::Ordering::Equal => false,
            std::cmp::Ordering::Greater => {
                self.all.get(current).and_then(Level::rate).is_some_and(|chosen| !is_nearly(chosen, rate))
            }
        }
    }
}

#[cfg(test)]
#[path = "levels_tests.rs"]
mod tests;
