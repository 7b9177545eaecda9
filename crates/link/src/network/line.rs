//! The state of a line in one direction: when each packet arrives, if it does.

use std::{
    fmt,
    time::{Duration, Instant},
};

/// The properties of a line, the same in both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Bytes of IP packets per second; `None` for no limit.
    pub rate: Option<u64>,
    /// Time that a packet takes to the other host and back, apart from waits in queues.
    pub round_trip: Duration,
    /// The longest wait of a packet before it is sent, if there is a rate. A packet that would wait
    /// longer is dropped.
    pub queue: Duration,
    /// Probability of the loss of each packet, from 0 to 1.
    pub loss: f64,
    /// Random seed of the losses.
    pub seed: u64,
    /// The congestion control of TCP on both hosts; `None` for the machine's.
    pub congestion: Option<Congestion>,
}

/// A congestion control of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Congestion {
    /// NewReno (RFC 6582).
    Reno,
    /// CUBIC (RFC 9438).
    Cubic,
    /// BBR, which estimates the rate and the round-trip time.
    Bbr,
}

impl Congestion {
    /// All congestion controls.
    pub const ALL: [Self; 3] = [Self::Reno, Self::Cubic, Self::Bbr];

    /// Returns the name that it has in the kernel.
    pub fn name(self) -> &'static str {
        match self {
            Self::Reno => "reno",
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        }
    }
}

impl fmt::Display for Congestion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Default for Line {
    fn default() -> Self {
        Self {
            rate: None,
            round_trip: Duration::ZERO,
            queue: Duration::from_millis(100),
            loss: 0.0,
            seed: 1,
            congestion: None,
        }
    }
}

/// The least rate at which the kernel hands over segments of TCP in groups of up to 64 KiB, in
/// bytes per second. At 50 MB/s such a group takes 1.3 ms.
const GROUPED: u64 = 50_000_000;

impl Line {
    /// Returns true if a pair of devices of the kernel suffices, which costs least.
    pub(super) fn is_plain(&self) -> bool {
        self.rate.is_none() && self.round_trip.is_zero() && self.loss <= 0.0
    }

    /// Returns true if packets may be handed over in groups. Losses must hit single packets.
    pub(super) fn is_grouped(&self) -> bool {
        self.loss <= 0.0 && self.rate.is_none_or(|rate| rate >= GROUPED)
    }
}

/// One direction of a line.
#[derive(Debug)]
pub(super) struct Direction {
    line: Line,
    random: fastrand::Rng,
    /// The time until which packets are being sent.
    free_at: Instant,
}

impl Direction {
    pub(super) fn new(line: Line, seed: u64, now: Instant) -> Self {
        Self { line, random: fastrand::Rng::with_seed(seed), free_at: now }
    }

    pub(super) fn is_grouped(&self) -> bool {
        self.line.is_grouped()
    }

    /// Returns the time at which a packet arrives, or `None` if it is lost.
    pub(super) fn pass(&mut self, now: Instant, bytes: u64) -> Option<Instant> {
        if self.line.loss > 0.0 && self.random.f64() < self.line.loss {
            return None;
        }
        let delay = self.line.round_trip / 2;
        let Some(rate) = self.line.rate else { return Some(now + delay) };
        let start = self.free_at.max(now);
        if start - now > self.line.queue {
            return None;
        }
        self.free_at = start + Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
        Some(self.free_at + delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn packets_leave_at_the_rate_and_arrive_half_a_round_trip_later() {
        let now = Instant::now();
        let line = Line { rate: Some(1_000_000), round_trip: 50 * MS, ..Line::default() };
        let mut direction = Direction::new(line, 1, now);
        assert_eq!(direction.pass(now, 1000), Some(now + 26 * MS));
        assert_eq!(direction.pass(now, 1000), Some(now + 27 * MS));
        // A pause saves nothing up.
        assert_eq!(direction.pass(now + 100 * MS, 1000), Some(now + 126 * MS));
    }

    #[test]
    fn a_packet_that_would_wait_longer_than_the_queue_is_dropped() {
        let now = Instant::now();
        let line = Line { rate: Some(1_000_000), queue: 3 * MS, ..Line::default() };
        let mut direction = Direction::new(line, 1, now);
        let arrivals: Vec<_> = (0..6).map(|_| direction.pass(now, 1000).map(|at| at - now)).collect();
        assert_eq!(arrivals, [Some(MS), Some(2 * MS), Some(3 * MS), Some(4 * MS), None, None]);
        // The dropped ones take no time.
        assert_eq!(direction.pass(now + 2 * MS, 1000), Some(now + 5 * MS));
    }

    #[test]
    fn losses_are_as_frequent_as_stated_and_those_of_the_seed() {
        let now = Instant::now();
        let line = Line { loss: 0.02, ..Line::default() };
        let lost = |seed| {
            let mut direction = Direction::new(line, seed, now);
            (0..10_000).filter(|_| direction.pass(now, 1500).is_none()).collect::<Vec<u32>>()
        };
        // 200 are expected, with a standard deviation of 14.
        assert!((130..270).contains(&lost(1).len()), "{}", lost(1).len());
        assert_eq!(lost(1), lost(1));
        assert_ne!(lost(1), lost(2));
    }

    #[test]
    fn only_fast_lines_without_loss_are_grouped() {
        let line = |rate, loss| Line { rate, loss, ..Line::default() };
        assert!(line(None, 0.0).is_grouped() && line(Some(125_000_000), 0.0).is_grouped());
        assert!(!line(Some(12_500_000), 0.0).is_grouped() && !line(None, 0.01).is_grouped());
        assert!(line(None, 0.0).is_plain());
        let far = Line { round_trip: MS, ..Line::default() };
        assert!(!far.is_plain() && !line(Some(1), 0.0).is_plain() && !line(None, 0.1).is_plain());
    }
}
