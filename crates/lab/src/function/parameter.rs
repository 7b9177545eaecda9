//! Values of parameters.

use latemux_quantity::{BitRate, ByteSize, TimeSpan};
use std::time::Duration;

/// The largest count.
const MAX_COUNT: u64 = 1_000_000;

/// The longest duration of a run.
const MAX_DURATION: Duration = Duration::from_secs(24 * 60 * 60);

/// The longest round-trip time of a link.
const MAX_ROUND_TRIP: Duration = Duration::from_secs(10);

/// The largest size.
const MAX_BYTES: u64 = 16 << 20;

/// The largest cache.
const MAX_CACHE: u64 = 1 << 40;

/// The largest exponent of Zipf's law, which is that of `latemux load --zipf`.
const MAX_EXPONENT: f64 = 10.0;

/// Values that a parameter takes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value {
    /// Any text but none.
    Text,
    /// A path within a folder, such as `title/mp4`.
    Path,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A whole number above 0.
    Count,
    /// A whole number from 0.
    Level,
    /// A duration of at most a day, such as `30s`.
    Duration,
    /// Durations of at most a day, such as `6s 10s`.
    Durations,
    /// A round-trip time of at most 10 s.
    RoundTrip,
    /// A bit rate such as `100Mbit/s`.
    Rate,
    /// A size in bytes such as `160kB`.
    Bytes,
    /// The size of a cache, such as `1GiB`.
    CacheSize,
    /// A percentage from `0%` to `100%`.
    Percentage,
    /// The popularity of titles: `in-turn`, or `zipf:` with an exponent.
    Popularity,
    /// Steps of a load, such as `1/5s 10/5s`: numbers of connections with durations.
    Steps,
}

impl Value {
    /// Checks the text of a value. The error is the end of a sentence.
    pub(super) fn check(self, text: &str) -> Result<(), String> {
        match self {
            Self::Text => (!text.is_empty()).then_some(()).ok_or_else(|| "must not be empty".to_owned()),
            Self::Path => {
                let is_name = |name: &str| !matches!(name, "" | "." | "..");
                let is_path = text.split('/').all(is_name);
                is_path.then_some(()).ok_or_else(|| "not a path such as title/mp4".to_owned())
            }
            Self::OneOf(words) => {
                words.contains(&text).then_some(()).ok_or_else(|| format!("not one of {}", words.join(", ")))
            }
            Self::Count => text
                .parse::<u64>()
                .ok()
                .filter(|count| (1..=MAX_COUNT).contains(count))
                .map(|_| ())
                .ok_or_else(|| format!("not a whole number from 1 to {MAX_COUNT}")),
            Self::Level => text
                .parse::<u64>()
                .ok()
                .filter(|level| *level <= MAX_COUNT)
                .map(|_| ())
                .ok_or_else(|| format!("not a whole number from 0 to {MAX_COUNT}")),
            Self::Duration => at_most(text, MAX_DURATION),
            Self::Durations | Self::Steps if text.trim().is_empty() => Err("must not be empty".to_owned()),
            Self::Durations => {
                text.split_whitespace().try_for_each(|duration| at_most(duration, MAX_DURATION))
            }
            Self::RoundTrip => at_most(text, MAX_ROUND_TRIP),
            Self::Rate => text.parse::<BitRate>().map(|_| ()),
            Self::Bytes => size(text, MAX_BYTES, "16 MiB"),
            Self::CacheSize => size(text, MAX_CACHE, "1 TiB"),
            Self::Percentage => fraction(text).map(|_| ()),
            Self::Steps => text.split_whitespace().try_for_each(|step| {
                let (count, duration) =
                    step.split_once('/').ok_or_else(|| format!("'{step}' is not a step such as 10/5s"))?;
                Self::Count.check(count).and_then(|()| Self::Duration.check(duration))
            }),
            Self::Popularity if text == "in-turn" => Ok(()),
            Self::Popularity => exponent(text)
                .and_then(|exponent| exponent.parse::<f64>().ok())
                .filter(|exponent| (0.0..=MAX_EXPONENT).contains(exponent))
                .map(|_| ())
                .ok_or_else(|| format!("not in-turn, or zipf: with an exponent from 0 to {MAX_EXPONENT}")),
        }
    }
}

/// Returns the exponent of Zipf's law in a popularity, unless titles are chosen in turn.
pub(crate) fn exponent(popularity: &str) -> Option<&str> {
    popularity.strip_prefix("zipf:")
}

/// Parses a percentage as a fraction from 0 to 1.
pub(crate) fn fraction(text: &str) -> Result<f64, String> {
    let percent = text.strip_suffix('%').and_then(|number| number.parse::<f64>().ok());
    let percent = percent.filter(|percent| (0.0..=100.0).contains(percent));
    percent.map(|percent| percent / 100.0).ok_or_else(|| "not a percentage from 0% to 100%".to_owned())
}

/// Checks that a text is a size of at most `most` bytes.
fn size(text: &str, most: u64, name: &str) -> Result<(), String> {
    let size = text.parse::<ByteSize>().ok().filter(|size| (1..=most).contains(&size.0));
    size.map(|_| ()).ok_or_else(|| format!("not a size from 1 byte to {name}"))
}

/// Checks that a text is a duration of at most `most`.
fn at_most(text: &str, most: Duration) -> Result<(), String> {
    match text.parse::<TimeSpan>()?.0 {
        duration if duration > most => Err(format!("more than {}", TimeSpan(most))),
        _ => Ok(()),
    }
}
