//! Dates of measurements, in UTC.

use chrono::DateTime;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the time in whole seconds since 1970.
#[expect(clippy::disallowed_methods, reason = "results state when they were measured")]
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Returns the date of a time in seconds since 1970, such as `2026-11-24`.
pub(crate) fn date(time: u64) -> String {
    formatted(time, "%Y-%m-%d")
}

/// Formats a time in seconds since 1970 by RFC 3339, such as `2026-11-24T20:46:05Z`.
pub(crate) fn date_time(time: u64) -> String {
    formatted(time, "%Y-%m-%dT%H:%M:%SZ")
}

fn formatted(time: u64, form: &str) -> String {
    let time = i64::try_from(time).ok().and_then(|time| DateTime::from_timestamp(time, 0));
    time.map_or_else(String::new, |time| time.format(form).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_utc() {
        assert_eq!(date(1_795_553_165), "2026-11-24");
        assert_eq!(date_time(1_795_553_165), "2026-11-24T20:46:05Z");
        assert_eq!((date(0), date(u64::MAX)), ("1970-01-01".to_owned(), String::new()));
    }
}
