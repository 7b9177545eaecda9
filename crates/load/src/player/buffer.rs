//! What a player has ahead, and the clock it plays by.

use std::time::Duration;
use tokio::time::Instant;

/// One of the sets that play together. All times are media times in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SetBuffer {
    /// Up to where media is there; `None` before the first segment.
    pub(super) until: Option<f64>,
    /// All of it is there.
    pub(super) done: bool,
    /// Something is on its way.
    pub(super) busy: bool,
    /// When there will be room for more.
    pub(super) due: Option<Instant>,
}

/// Why a player does not play.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Startup,
    Stall,
    Seek,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Clock {
    Waiting { why: Wait, since: Instant, at: f64 },
    Playing { since: Instant, from: f64 },
}

impl Clock {
    /// Where in the media it is at a time.
    pub(super) fn position(&self, now: Instant) -> f64 {
        match *self {
            Self::Waiting { at, .. } => at,
            Self::Playing { since, from } => from + now.saturating_duration_since(since).as_secs_f64(),
        }
    }

    /// When it will be there; `None` while it waits.
    pub(super) fn when(&self, position: f64) -> Option<Instant> {
        match *self {
            Self::Waiting { .. } => None,
            Self::Playing { since, from } => {
                // Rounded up: whoever wakes then finds it true.
                let wait = Duration::try_from_secs_f64((position - from).max(0.0) + 1e-6).ok()?;
                since.checked_add(wait)
            }
        }
    }
}

/// Up to where all can be shown: the least of those that are not complete, else the end of the longest.
pub(super) fn limit(buffers: &[SetBuffer]) -> Option<f64> {
    let open = buffers.iter().filter(|buffer| !buffer.done);
    match open.map(|buffer| buffer.until.unwrap_or(f64::NEG_INFINITY)).min_by(f64::total_cmp) {
        Some(least) => Some(least).filter(|least| least.is_finite()),
        None => buffers.iter().filter_map(|buffer| buffer.until).max_by(f64::total_cmp),
    }
}

/// Whether there is enough to play from a position.
pub(super) fn enough(buffers: &[SetBuffer], position: f64, wanted: f64) -> bool {
    buffers
        .iter()
        .all(|buffer| buffer.done || buffer.until.is_some_and(|until| until - position >= wanted - 1e-6))
}
