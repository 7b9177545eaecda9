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
    /// The time at which the buffer will have room for the next segment.
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
                // The time is rounded up, so that the position has been reached by then.
                let wait = Duration::try_from_secs_f64((position - from).max(0.0) + 1e-6).ok()?;
                since.checked_add(wait)
            }
        }
    }
}

/// Returns the position up to which all sets can play: the earliest end of an incomplete buffer, or
/// the latest end if all buffers are complete.
pub(super) fn playable_until(buffers: &[SetBuffer]) -> Option<f64> {
    let open = buffers.iter().filter(|buffer| !buffer.is_done);
    match open.map(|buffer| buffer.until.unwrap_or(f64::NEG_INFINITY)).min_by(f64::total_cmp) {
        Some(least) => Some(least).filter(|least| least.is_finite()),
        None => buffers.iter().filter_map(|buffer| buffer.until).max_by(f64::total_cmp),
    }
}

/// Returns true if each set has `wanted` seconds of media buffered after a position, or all of its
/// media.
pub(super) fn has_enough(buffers: &[SetBuffer], position: f64, wanted: f64) -> bool {
    buffers
        .iter()
        .all(|buffer| buffer.is_done || buffer.until.is_some_and(|until| until - position >= wanted - 1e-6))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(until: Option<f64>, is_done: bool) -> SetBuffer {
        SetBuffer { until, is_done, ..SetBuffer::default() }
    }

    #[test]
    fn sets_play_until_the_first_incomplete_buffer_ends() {
        let until = |buffers: &[SetBuffer]| playable_until(buffers);
        assert_eq!(until(&[buffer(Some(4.0), false), buffer(Some(6.0), false)]), Some(4.0));
        assert_eq!(until(&[buffer(Some(4.0), true), buffer(Some(6.0), false)]), Some(6.0), "one has ended");
        assert_eq!(until(&[buffer(Some(4.0), true), buffer(Some(6.0), true)]), Some(6.0), "both have ended");
        assert_eq!(until(&[buffer(Some(4.0), false), buffer(None, false)]), None, "one has no segment");
        assert_eq!(until(&[]), None);
    }

    #[test]
    fn playback_starts_with_enough_media_in_each_set() {
        let enough = |first: SetBuffer, second| has_enough(&[first, second], 10.0, 2.0);
        assert!(enough(buffer(Some(12.0), false), buffer(Some(13.0), false)));
        assert!(!enough(buffer(Some(12.0), false), buffer(Some(11.9), false)));
        assert!(enough(buffer(Some(12.0), false), buffer(Some(10.5), true)), "the end is near");
        assert!(!enough(buffer(Some(12.0), false), buffer(None, false)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_clock_advances_only_during_playback() {
        let start = Instant::now();
        let waiting = Clock::Waiting { why: Wait::Stall, since: start, at: 7.0 };
        let playing = Clock::Playing { since: start, from: 7.0 };
        let later = start + Duration::from_secs(3);
        assert_eq!((waiting.position(later), playing.position(later)), (7.0, 10.0));
        assert_eq!(waiting.when(8.0), None);
        let at = playing.when(10.0).unwrap();
        assert!(at >= later && at < later + Duration::from_millis(1), "{:?}", at - start);
        assert!(playing.position(at) >= 10.0, "the position is reached when the player wakes");
        assert!(playing.when(1.0).unwrap() < start + Duration::from_millis(1), "a past position is due now");
    }
}
