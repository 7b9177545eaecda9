//! Times as WebVTT, SubRip and TTML write them.

use crate::limits::LATEST;
use std::fmt;

/// Displays milliseconds as `hh:mm:ss.ttt`.
pub(crate) struct Timestamp(pub(crate) u64);

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0 / 1000;
        let millis = self.0 % 1000;
        write!(f, "{:02}:{:02}:{:02}.{millis:03}", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }
}

/// Parses `[h…:]mm:ss` and a fraction behind `.` or `,`. Returns milliseconds, at most those of
/// [`LATEST`]. `None` for other text.
pub(crate) fn parse(text: &str) -> Option<u64> {
    let (clock, fraction) = text.split_once(['.', ',']).unwrap_or((text, ""));
    let mut total = 0_u64;
    let mut fields = 0;
    for field in clock.split(':') {
        let value = digits(field)?;
        // Only the first of three fields may be 60 or more.
        if fields > 0 && value > 59 {
            return None;
        }
        fields += 1;
        total = total.checked_mul(60)?.checked_add(value)?;
    }
    if !(2..=3).contains(&fields) {
        return None;
    }
    let millis = if fraction.is_empty() { 0 } else { millis(fraction)? };
    total.checked_mul(1000)?.checked_add(millis).filter(|&time| time <= LATEST)
}

/// Parses the digits of a fraction as milliseconds; further digits are dropped.
fn millis(fraction: &str) -> Option<u64> {
    let all = fraction.bytes().all(|byte| byte.is_ascii_digit());
    let digit = |at: usize| fraction.as_bytes().get(at).map_or(0, |byte| u64::from(byte.wrapping_sub(b'0')));
    all.then(|| digit(0) * 100 + digit(1) * 10 + digit(2))
}

/// Parses 1 to 9 digits.
pub(crate) fn digits(text: &str) -> Option<u64> {
    let is_number = (1..=9).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::{Timestamp, parse};

    #[test]
    fn times_are_read_and_written_to_the_millisecond() {
        assert_eq!(parse("00:01.5"), Some(1500));
        assert_eq!(parse("1:02:03,004"), Some(3_723_004));
        assert_eq!(parse("100:00:00.000"), Some(360_000_000));
        assert_eq!(Timestamp(360_000_001).to_string(), "100:00:00.001");
        for bad in ["", "5", "1:2:3:4", "00:60.000", "-1:00", "00:00:00.x", "999999999:00:00", "1::2"] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
