//! The check of a body of one container, and the times that it finds.

use crate::failure::Failure;
use std::fmt;

/// The time range of one track in a segment. All times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// The track within the segment: its ID, PID or tag type.
    pub track: u32,
    /// The presentation time of the first sample, with edits applied; the decode time if the
    /// container states no presentation times.
    pub begins: f64,
    /// The decode time of the first sample.
    pub decode: f64,
    /// The decode time of the last sample plus its duration.
    pub end: f64,
    /// The maximum difference between [`Self::end`] and the decode time at which the next segment
    /// begins.
    pub slack: f64,
}

/// A check of one container.
pub(super) trait BodyCheck: fmt::Debug + Send {
    /// Takes the next bytes of the body.
    fn push(&mut self, bytes: &[u8]) -> Result<(), Failure>;

    /// Ends the body, and returns the time range of each track.
    fn finish(self: Box<Self>) -> Result<Vec<Span>, Failure>;
}

/// The decode times of a track in containers that do not state durations, in ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct DecodeTimes {
    pub(super) first: i64,
    pub(super) last: i64,
    pub(super) longest_step: i64,
    pub(super) last_step: i64,
}

impl DecodeTimes {
    pub(super) const fn starting_at(time: i64) -> Self {
        Self { first: time, last: time, longest_step: 0, last_step: 0 }
    }

    pub(super) fn add(&mut self, time: i64) {
        self.last_step = time.saturating_sub(self.last);
        self.longest_step = self.longest_step.max(self.last_step);
        self.last = time;
    }

    /// Returns the span of the track, whose last sample is taken to last as long as the sample
    /// before it. `rounding` is the maximum rounding error of the times, in seconds.
    pub(super) fn span(&self, track: u32, begins: i64, timescale: u32, rounding: f64) -> Span {
        let seconds = |ticks: i64| ticks as f64 / f64::from(timescale);
        Span {
            track,
            begins: seconds(begins),
            decode: seconds(self.first),
            end: seconds(self.last.saturating_add(self.last_step)),
            slack: seconds(self.longest_step) * 1.5 + rounding,
        }
    }
}

/// Moves bytes from `rest` to `head` until `head` has `count` bytes. Returns true once it has them.
pub(super) fn collect(head: &mut Vec<u8>, count: usize, rest: &mut &[u8]) -> bool {
    let (taken, left) = rest.split_at(count.saturating_sub(head.len()).min(rest.len()));
    head.extend_from_slice(taken);
    *rest = left;
    head.len() >= count
}
