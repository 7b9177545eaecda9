//! Durations and byte sizes as people write them: `4s`, `500ms`, `2m`; `64KiB`, `1GiB`, `4096`.

use super::Reach;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::{fmt, str::FromStr, time::Duration};

/// A duration written as a number and `us`, `ms`, `s`, `m`, `h` or `d`; fractions of a second as `1.5s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

/// A number of bytes, written bare or with `KiB`, `MiB`, `GiB`, `TiB` (powers of 1024).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

/// Units with their worth in µs.
const SPANS: [(&str, u64); 6] = [
    ("us", 1),
    ("ms", 1000),
    ("s", 1_000_000),
    ("m", 60_000_000),
    ("h", 3_600_000_000),
    ("d", 86_400_000_000),
];
const SIZES: [(&str, u64); 4] = [("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];

impl FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is no duration: write 500ms, 4s, 1.5s, 2m or 1h");
        let at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(bad)?;
        let (number, unit) = text.split_at(at);
        let worth = SPANS.iter().find(|(u, _)| *u == unit).ok_or_else(bad)?.1;
        let (whole, fraction) = number.trim().split_once('.').unwrap_or((number.trim(), ""));
        if whole.is_empty() || fraction.len() > 6 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
            return Err(bad());
        }
        let whole: u64 = whole.parse().map_err(|_| bad())?;
        let millionths: u64 = format!("{fraction:0<6}").parse().map_err(|_| bad())?;
        let parts = worth.checked_mul(millionths).ok_or_else(bad)? / 1_000_000;
        let total = whole.checked_mul(worth).and_then(|w| w.checked_add(parts)).ok_or_else(bad)?;
        Ok(Self(Duration::from_micros(total)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        if micros == 0 {
            return f.write_str("0s");
        }
        let (unit, worth) =
            SPANS.iter().rev().find(|(_, w)| micros.is_multiple_of(u128::from(*w))).unwrap_or(&SPANS[0]);
        write!(f, "{}{unit}", micros / u128::from(*worth))
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("'{text}' is no size in bytes: write 4096, 64KiB, 256MiB or 1GiB");
        let (number, worth) = SIZES
            .iter()
            .find_map(|(unit, worth)| Some((text.strip_suffix(unit)?, *worth)))
            .unwrap_or((text, 1));
        let number: u64 = number.trim().parse().map_err(|_| bad())?;
        number.checked_mul(worth).map(Self).ok_or_else(bad)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match SIZES.iter().find(|(_, worth)| self.0 != 0 && self.0.is_multiple_of(*worth)) {
            Some((unit, worth)) => write!(f, "{}{unit}", self.0 / worth),
            None => write!(f, "{}", self.0),
        }
    }
}

macro_rules! as_text {
    ($name:ident) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from)?.parse().map_err(de::Error::custom)
            }
        }
    };
}
as_text!(Span);
as_text!(Bytes);
as_text!(Reach);

impl FromStr for Reach {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "exact" => Ok(Self::Exact),
            "grid" => Ok(Self::Grid),
            _ => match text.parse() {
                Ok(Bytes(block)) if block >= 4096 => Ok(Self::Block(block)),
                _ => Err(format!("'{text}' is neither grid nor exact nor a size from 4KiB")),
            },
        }
    }
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => f.write_str("exact"),
            Self::Grid => f.write_str("grid"),
            Self::Block(block) => Bytes(*block).fmt(f),
        }
    }
}

/// Serde of a [`Duration`] as a [`Span`]'s text.
pub mod span {
    use super::{Deserialize, Deserializer, Duration, Serialize, Serializer, Span};

    /// Writes it.
    ///
    /// # Errors
    /// What the format says.
    pub fn serialize<S: Serializer>(duration: &Duration, to: S) -> Result<S::Ok, S::Error> {
        Span(*duration).serialize(to)
    }

    /// Reads it.
    ///
    /// # Errors
    /// Where it is no duration.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
        Span::deserialize(from).map(|span| span.0)
    }
}

/// Serde of a number of bytes as [`Bytes`]' text.
pub mod size {
    use super::{Bytes, Deserialize, Deserializer, Serialize, Serializer};

    /// Writes it.
    ///
    /// # Errors
    /// What the format says.
    pub fn serialize<S: Serializer>(bytes: &u64, to: S) -> Result<S::Ok, S::Error> {
        Bytes(*bytes).serialize(to)
    }

    /// Reads it.
    ///
    /// # Errors
    /// Where it is no size.
    pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
        Bytes::deserialize(from).map(|bytes| bytes.0)
    }
}

/// Serde of a header's value as text, empty where there is none.
pub(crate) mod header {
    use super::{Deserialize, Deserializer, Serializer, de::Error};
    use http::HeaderValue;

    #[expect(clippy::ref_option, reason = "what serde hands over")]
    pub(crate) fn serialize<S: Serializer>(value: &Option<HeaderValue>, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(value.as_ref().and_then(|v| v.to_str().ok()).unwrap_or_default())
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Option<HeaderValue>, D::Error> {
        let text = String::deserialize(from)?;
        if text.is_empty() {
            return Ok(None);
        }
        HeaderValue::try_from(text).map(Some).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_and_print() {
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
            let span: Span = text.parse().unwrap();
            assert_eq!(
                (span.0, span.to_string().as_str()),
                (Duration::from_micros(micros), printed),
                "{text}"
            );
        }
        for text in ["", "4", "s", "-1s", "1.s.s", "4 parsecs", "1.1234567s", "99999999999999999999s"] {
            text.parse::<Span>().unwrap_err();
        }
    }

    #[test]
    fn reaches_read_and_print() {
        for text in ["grid", "exact", "4KiB", "1MiB"] {
            assert_eq!(text.parse::<Reach>().unwrap().to_string(), text);
        }
        for text in ["", "Grid", "0", "4095", "block"] {
            text.parse::<Reach>().unwrap_err();
        }
    }

    #[test]
    fn sizes_read_and_print() {
        for (text, bytes, printed) in [
            ("4096", 4096, "4KiB"),
            ("64KiB", 65536, "64KiB"),
            ("3GiB", 3 << 30, "3GiB"),
            ("7", 7, "7"),
            ("0", 0, "0"),
        ] {
            let size: Bytes = text.parse().unwrap();
            assert_eq!((size.0, size.to_string().as_str()), (bytes, printed), "{text}");
        }
        for text in ["", "KiB", "1KB", "-1", "99999999TiB"] {
            text.parse::<Bytes>().unwrap_err();
        }
    }
}
