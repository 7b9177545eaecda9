//! Durations in whole microseconds.

use std::time::Duration;

/// Returns whole microseconds.
pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}
