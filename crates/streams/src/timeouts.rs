//! The time after which a chunk times out.

use std::{collections::VecDeque, time::Duration};

/// The number of transfer times in the moving average.
const SAMPLES: usize = 20;

/// The factor of the moving average.
const FACTOR: f64 = 1.3;

/// The timeout before the first chunk has arrived.
const INITIAL: Duration = Duration::from_secs(3);

const MIN: Duration = Duration::from_secs(1);
const MAX: Duration = Duration::from_secs(5);

/// The factor with which an expired timeout enters the mean of transfer times. The source states a
/// penalty, but no number.
const PENALTY: u32 = 2;

/// The time after which a chunk times out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ChunkTimeout {
    /// 1.3 times the moving average of the last 20 transfer times, from 1 s to 5 s; 3 s at first. A
    /// chunk that timed out enters the average as twice its timeout.
    #[default]
    Adaptive,
    /// Always the same time.
    Fixed(Duration),
}

/// The recent transfer times of chunks.
#[derive(Debug)]
pub(crate) struct Timeouts {
    kind: ChunkTimeout,
    times: VecDeque<Duration>,
}

impl Timeouts {
    pub(crate) const fn new(kind: ChunkTimeout) -> Self {
        Self { kind, times: VecDeque::new() }
    }

    /// Returns the time that a chunk is given that is requested now.
    pub(crate) fn limit(&self) -> Duration {
        match (self.kind, u32::try_from(self.times.len())) {
            (ChunkTimeout::Fixed(limit), _) => limit,
            (ChunkTimeout::Adaptive, Ok(count)) if count > 0 => {
                let mean = self.times.iter().sum::<Duration>() / count;
                mean.mul_f64(FACTOR).clamp(MIN, MAX)
            }
            (ChunkTimeout::Adaptive, _) => INITIAL,
        }
    }

    /// Adds the transfer time of a chunk that has arrived.
    pub(crate) fn add(&mut self, time: Duration) {
        if self.times.len() >= SAMPLES {
            self.times.pop_front();
        }
        // A bound, so that the sum cannot overflow.
        self.times.push_back(time.min(MAX * PENALTY));
    }

    /// Adds a chunk that has not arrived within its limit.
    pub(crate) fn add_expired(&mut self, limit: Duration) {
        self.add(limit.saturating_mul(PENALTY));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn adaptive_timeouts_follow_the_last_20_transfer_times() {
        let mut timeouts = Timeouts::new(ChunkTimeout::Adaptive);
        assert_eq!(timeouts.limit(), millis(3000), "at first");
        timeouts.add(millis(2000));
        assert_eq!(timeouts.limit(), millis(2600));
        (0..19).for_each(|_| timeouts.add(millis(1000)));
        assert_eq!(timeouts.limit(), millis(1365), "the mean of 21 s / 20");
        timeouts.add(millis(1000));
        assert_eq!(timeouts.limit(), millis(1300), "the first one has left");
        (0..20).for_each(|_| timeouts.add(millis(10)));
        assert_eq!(timeouts.limit(), millis(1000), "at least 1 s");
        (0..20).for_each(|_| timeouts.add(Duration::MAX));
        assert_eq!(timeouts.limit(), millis(5000), "at most 5 s");
    }

    #[test]
    fn expired_chunks_count_with_a_penalty() {
        let mut timeouts = Timeouts::new(ChunkTimeout::Adaptive);
        timeouts.add(millis(1000));
        timeouts.add_expired(millis(1300));
        // (1 s + 2.6 s) / 2 × 1.3.
        assert_eq!(timeouts.limit(), millis(2340));
    }

    #[test]
    fn fixed_timeouts_do_not_change() {
        let mut timeouts = Timeouts::new(ChunkTimeout::Fixed(millis(700)));
        timeouts.add(millis(1));
        timeouts.add_expired(millis(700));
        assert_eq!(timeouts.limit(), millis(700));
    }
}
