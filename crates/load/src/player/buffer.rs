//! The buffers of a player, and its playback clock.

use std::time::Duration;
use tokio::time::Instant;

/// The buffer of one set. All times are media times in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SetBuffer {
    /// The end of the buffered media; `None` before the first segment.
    pub(super) until: Option<f64>,
    /// True if the buffer holds the end of the media.
    pub(super) is_done: bool,
    /// True while a download is in progress.
    pub(super) is_busy: bool,
    /// When the buffer will have room for the next segment.
    pub(super) due: Option<Instant>,
}

/// The reason why playback waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wait {
    Startup,
    Stall,
    Seek,
}

/// The playback clock.
#[derive(Debug, Clone, Copy)]
pub(super) enum Clock {
    Waiting { why: Wait, since: Instant, at: f64 },
    Playing { since: Instant, from: f64 },
}

impl Clock {
    /// Returns the position in the media at a time.
    pub(super) fn position(&self, now: Instant) -> f64 {
        match *self {
            Self::Waiting { at, .. } => at,
            Self::Playing { since, from } => from + now.saturating_duration_since(since).as_secs_f64(),
        }
    }

    /// Returns the time at which playback reaches a position; `None` while it waits.
    pub(super) fn when(&self, position: f64) -> Option<Instant> {
        match *self {
            Self::Waiting { .. } => None,
            Self::Playing { since, from } => {
                // Rounding up ensures that the position is reached then.
                let wait = Duration::try_from_secs_f64((position - from).max(0.0) + 1e-6).ok()?;
                since.checked_add(wait)
            }
        }
    }
}

/// Returns the position up to which all sets can play: the least end of the buffers that are not
/// complete, or else the end of the longest one.
pub(super) fn playable_until(buffers: &[SetBuffer]) -> Option<f64> {
    let open = buffers.iter().filter(|buffer| !buffer.is_done);
    match open.map(|buffer| buffer.until.unwrap_or(f64::NEG_INFINITY)).min_by(f64::total_cmp) {
        Some(least) => Some(least).filter(|least| least.is_finite()),
        None => buffers.iter().filter_map(|buffer| buffer.until).max_by(f64::total_cmp),
    }
}

/// Returns true if each set has `wanted` seconds of media from a position on, or all of its media.
pub(super) fn has_enough(buffers: &[SetBuffer], position: f64, wanted: f64) -> bool {
    buffers
        .iter()
        .all(|buffer| buffer.is_done || buffer.until.is_some_and(|until| until - position >= wanted - 1e-6))
}
