//! Time expressions (TTML1 §10.3.1).

use crate::{TextError, limits::LATEST, timestamp::digits};
use roxmltree::Node;

/// The rates that a document states for times in frames and ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Clock {
    /// Frames per second as a fraction.
    frames: (u64, u64),
    /// Ticks per second.
    ticks: u64,
}

impl Clock {
    /// Reads the parameters of the root element. Fails for rates of 0 and other time bases than
    /// `media`.
    pub(super) fn of(root: Node<'_, '_>) -> Result<Self, TextError> {
        let value = |name: &str| root.attributes().find(|a| a.name() == name).map(|a| a.value().trim());
        let number = |name: &str, text: &str| {
            let valid = digits(text).filter(|&number| (1..=1_000_000_000).contains(&number));
            valid.ok_or_else(|| TextError::Malformed(format!("{name} is {text:?}")))
        };
        if let Some(base) = value("timeBase").filter(|&base| base != "media") {
            return Err(TextError::Malformed(format!("timeBase is {base:?}, which has no fixed times")));
        }
        let stated = value("frameRate").map(|text| number("frameRate", text)).transpose()?;
        let multiplier = match value("frameRateMultiplier") {
            Some(text) => {
                let mut parts = text.split([' ', ':']);
                let mut part = || number("frameRateMultiplier", parts.next().unwrap_or("1"));
                (part()?, part()?)
            }
            None => (1, 1),
        };
        let rate = stated.unwrap_or(30);
        let frames = (rate.saturating_mul(multiplier.0), multiplier.1);
        let ticks = match value("tickRate") {
            Some(text) => number("tickRate", text)?,
            None => stated.unwrap_or(1),
        };
        Ok(Self { frames, ticks })
    }

    /// Returns the milliseconds of a time expression, rounded to the nearest. Fails for other text,
    /// and for times beyond [`LATEST`].
    pub(super) fn millis(self, text: &str) -> Result<u64, TextError> {
        let time = self.parse(text.trim()).filter(|&time| time <= LATEST);
        time.ok_or_else(|| TextError::Malformed(format!("{text:?} is no time")))
    }

    fn parse(self, text: &str) -> Option<u64> {
        if text.contains(':') {
            return self.clock_time(text);
        }
        let unit_at = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (count, unit) = text.split_at(unit_at);
        let (numerator, denominator) = match unit {
            "h" => (3600, 1),
            "m" => (60, 1),
            "s" => (1, 1),
            "ms" => (1, 1000),
            "f" => (self.frames.1, self.frames.0),
            "t" => (1, self.ticks),
            _ => return None,
        };
        let (count, scale) = decimal(count)?;
        rounded(count * u128::from(numerator) * 1000, scale * u128::from(denominator))
    }

    /// Parses `hh:mm:ss`, with a fraction or with frames.
    fn clock_time(self, text: &str) -> Option<u64> {
        let mut fields = text.split(':');
        let hours = digits(fields.next()?)?;
        let minutes = digits(fields.next()?)?;
        let (seconds, scale) = decimal(fields.next()?)?;
        if minutes > 59 || seconds >= 61 * scale {
            return None;
        }
        let whole = (u128::from(hours) * 60 + u128::from(minutes)) * 60 * scale + seconds;
        match fields.next() {
            None => rounded(whole * 1000, scale),
            Some(frames) if scale == 1 && fields.next().is_none() => {
                // Sub-frames are not counted.
                let frames = digits(frames.split('.').next()?)?;
                let rate = u128::from(self.frames.0);
                rounded((whole * rate + u128::from(frames) * u128::from(self.frames.1)) * 1000, rate)
            }
            Some(_) => None,
        }
    }
}

/// Parses digits with a fraction, as a fraction of whole numbers.
fn decimal(text: &str) -> Option<(u128, u128)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole = if whole.len() <= 15 && whole.bytes().all(|b| b.is_ascii_digit()) {
        whole.parse::<u128>().ok()?
    } else {
        return None;
    };
    // Further digits are below a nanosecond.
    let fraction = fraction.get(..fraction.len().min(9))?;
    if fraction.is_empty() {
        return Some((whole, 1));
    }
    let scale = 10_u128.pow(u32::try_from(fraction.len()).ok()?);
    Some((whole * scale + u128::from(digits(fraction)?), scale))
}

fn rounded(numerator: u128, denominator: u128) -> Option<u64> {
    u64::try_from((numerator * 2 + denominator) / (denominator * 2)).ok()
}

#[cfg(test)]
mod tests {
    use super::Clock;
    use crate::TextError;

    fn millis(attributes: &str, text: &str) -> Result<u64, TextError> {
        let xml = format!("<tt {attributes}/>");
        let xml = roxmltree::Document::parse(&xml).unwrap();
        Clock::of(xml.root_element())?.millis(text)
    }

    #[test]
    fn times_of_all_forms_are_read() {
        let ntsc = "frameRate='30' frameRateMultiplier='1000 1001' tickRate='10000000'";
        for (attributes, text, want) in [
            ("", "00:00:01.5", 1500),
            ("", "01:02:03", 3_723_000),
            ("", "1.5s", 1500),
            ("", "90m", 5_400_000),
            ("", "2h", 7_200_000),
            ("", "250ms", 250),
            ("", "00:00:01:15", 1500),
            ("frameRate='25'", "00:00:01:05", 1200),
            ("frameRate='25'", "50f", 2000),
            ("frameRate='25'", "50t", 2000),
            ("tickRate='90000'", "135000t", 1500),
            (ntsc, "30f", 1001),
            (ntsc, "00:00:02:15", 2501),
            (ntsc, "12345678t", 1235),
        ] {
            assert_eq!(millis(attributes, text).ok(), Some(want), "{attributes} {text}");
        }
    }

    #[test]
    fn rates_of_nothing_and_other_text_are_refused() {
        for (attributes, text) in [
            ("frameRate='0'", "1s"),
            ("tickRate='0'", "1s"),
            ("frameRateMultiplier='1000 0'", "1s"),
            ("timeBase='smpte'", "1s"),
            ("", "1"),
            ("", "s"),
            ("", "00:61:00"),
            ("", "1:2:3:4:5"),
            ("", "99999999999999h"),
            ("", "-1s"),
        ] {
            assert!(millis(attributes, text).is_err(), "{attributes} {text}");
        }
    }
}
