//! Byte sizes and durations as people write them: `64KiB`, `1GiB`, `4096`; `4s`, `500ms`, `2m`.
//!
//! [`ByteSize`] and [`TimeSpan`] parse and print such text. In a configuration type the fields stay
//! `u64` and [`Duration`]; serde reads and writes them as text with `#[serde(with = "ByteSize")]`
//! and `#[serde(with = "TimeSpan")]`.

pub mod text;

use serde::{Deserializer, Serializer};
use std::{fmt, str::FromStr, time::Duration};

/// A number of bytes, written bare or with `KiB`, `MiB`, `GiB` or `TiB` (powers of 1024), or with
/// `kB`, `MB` or `GB` (powers of 1000).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteSize(pub u64);

/// A duration, written as a number and `us`, `ms`, `s`, `m`, `h` or `d`. The number may have a
/// fraction of up to six digits: `1.5s`. Anything below a microsecond is cut off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeSpan(pub Duration);

/// Units of [`ByteSize`] with their number of bytes, largest first.
const SIZE_UNITS: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

/// Further units that [`ByteSize`] reads, but does not print.
const DECIMAL_UNITS: [(&str, u64); 3] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1000)];

/// Units of [`BitRate`] with their bits per second.
const RATE_UNITS: [(&str, f64); 4] = [("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3), ("bit/s", 1.0)];

/// A bit rate in bits per second, written as a number and `bit/s`, `kbit/s`, `Mbit/s` or `Gbit/s`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BitRate(pub f64);

/// Units of [`TimeSpan`] with their number of microseconds, largest first.
const TIME_UNITS: [(&str, u64); 6] = [
    ("d", 86_400_000_000),
    ("h", 3_600_000_000),
    ("m", 60_000_000),
    ("s", 1_000_000),
    ("ms", 1000),
    ("us", 1),
];

/// Returns a duration in whole milliseconds.
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || "not a size in bytes such as 4096, 64KiB, 256MiB or 1GiB".to_owned();
        let (number, unit) = SIZE_UNITS
            .iter()
            .chain(&DECIMAL_UNITS)
            .find_map(|(unit, bytes)| Some((text.strip_suffix(unit)?, *bytes)))
            .unwrap_or((text, 1));
        let number: u64 = number.trim().parse().map_err(|_| bad())?;
        number.checked_mul(unit).map(Self).ok_or_else(bad)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SIZE_UNITS.iter().find(|(_, bytes)| self.0 != 0 && self.0.is_multiple_of(*bytes)) {
            Some((unit, bytes)) => write!(f, "{}{unit}", self.0 / bytes),
            None => write!(f, "{}", self.0),
        }
    }
}

impl FromStr for BitRate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |(unit, bits): &(&str, f64)| {
            let number: f64 = text.strip_suffix(unit)?.trim().parse().ok()?;
            Some(Self(number * bits))
        };
        let rate = RATE_UNITS.iter().find_map(number);
        rate.filter(|rate| rate.0 > 0.0 && rate.0.is_finite())
            .ok_or_else(|| "not a bit rate such as 8192kbit/s, 100Mbit/s or 1Gbit/s".to_owned())
    }
}

impl FromStr for TimeSpan {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || "not a duration such as 500ms, 4s, 1.5s, 2m or 1h".to_owned();
        let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(bad)?;
        let (number, name) = text.split_at(unit_at);
        let (_, unit) = TIME_UNITS.iter().find(|(unit, _)| *unit == name).ok_or_else(bad)?;
        let (whole, fraction) = number.trim().split_once('.').unwrap_or((number.trim(), ""));
        if whole.is_empty() || fraction.len() > 6 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        let whole: u64 = whole.parse().map_err(|_| bad())?;
        let millionths: u64 = format!("{fraction:0<6}").parse().map_err(|_| bad())?;
        let fraction = unit.checked_mul(millionths).ok_or_else(bad)? / 1_000_000;
        let micros = whole.checked_mul(*unit).and_then(|us| us.checked_add(fraction)).ok_or_else(bad)?;
        Ok(Self(Duration::from_micros(micros)))
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        match TIME_UNITS.iter().find(|(_, unit)| micros != 0 && micros.is_multiple_of(u128::from(*unit))) {
            Some((name, unit)) => write!(f, "{}{name}", micros / u128::from(*unit)),
            None => f.write_str("0s"),
        }
    }
}

impl ByteSize {
    /// Writes a number of bytes as text, for `#[serde(with = "ByteSize")]`.
    ///
    /// # Errors
    /// Returns the serializer's error if it does not take text.
    pub fn serialize<S: Serializer>(bytes: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        text::serialize(&Self(*bytes), serializer)
    }

    /// Reads a number of bytes from text, for `#[serde(with = "ByteSize")]`.
    ///
    /// # Errors
    /// Returns an error if the value is not text, or the text is not a size.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        text::deserialize(deserializer).map(|Self(bytes)| bytes)
    }
}

impl TimeSpan {
    /// Writes a duration as text, for `#[serde(with = "TimeSpan")]`.
    ///
    /// # Errors
    /// Returns the serializer's error if it does not take text.
    pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        text::serialize(&Self(*duration), serializer)
    }

    /// Reads a duration from text, for `#[serde(with = "TimeSpan")]`.
    ///
    /// # Errors
    /// Returns an error if the value is not text, or the text is not a duration.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        text::deserialize(deserializer).map(|Self(duration)| duration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_parse_and_print() {
        for (text, micros, printed) in [
            ("0s", 0, "0s"),
            ("250us", 250, "250us"),
            ("0.25ms", 250, "250us"),
            ("500ms", 500_000, "500ms"),
            ("4s", 4_000_000, "4s"),
            ("1.5s", 1_500_000, "1500ms"),
            ("90s", 90_000_000, "90s"),
            ("2m", 120_000_000, "2m"),
            ("24h", 86_400_000_000, "1d"),
        ] {
            let span: TimeSpan = text.parse().unwrap();
            assert_eq!(span.0, Duration::from_micros(micros), "{text}");
            assert_eq!(span.to_string(), printed, "{text}");
        }
        for text in ["", "4", "s", "-1s", "1.s.s", "4 parsecs", "1.1234567s", "99999999999999999999s"] {
            text.parse::<TimeSpan>().unwrap_err();
        }
    }

    #[test]
    fn sizes_parse_and_print() {
        for (text, bytes, printed) in [
            ("4096", 4096, "4KiB"),
            ("64KiB", 65536, "64KiB"),
            ("3GiB", 3 << 30, "3GiB"),
            ("7", 7, "7"),
            ("0", 0, "0"),
            ("160kB", 160_000, "160000"),
            ("2MB", 2_000_000, "2000000"),
            ("1GB", 1_000_000_000, "1000000000"),
        ] {
            let size: ByteSize = text.parse().unwrap();
            assert_eq!(size.0, bytes, "{text}");
            assert_eq!(size.to_string(), printed, "{text}");
        }
        for text in ["", "KiB", "1KB", "1kb", "-1", "99999999TiB"] {
            text.parse::<ByteSize>().unwrap_err();
        }
    }

    #[test]
    fn bit_rates_parse() {
        for (text, bits) in
            [("8192kbit/s", 8_192_000.0), ("1.5 Mbit/s", 1.5e6), ("1Gbit/s", 1e9), ("9bit/s", 9.0)]
        {
            assert_eq!(text.parse(), Ok(BitRate(bits)), "{text}");
        }
        for text in ["", "5", "5Mbit", "5MB/s", "0bit/s", "-1kbit/s", "kbit/s", "1e999Gbit/s", "NaNbit/s"] {
            assert!(text.parse::<BitRate>().is_err(), "{text}");
        }
    }
}
