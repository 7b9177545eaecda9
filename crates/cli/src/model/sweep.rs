//! A range of values of one parameter.

use super::percent;
use latemux_quantity::{BitRate, ByteSize, TimeSpan};
use latemux_streams::model::{Link, Streams};
use std::str::FromStr;

/// The maximum number of values.
const MAX_VALUES: f64 = 10_000.0;

/// A parameter of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parameter {
    Bandwidth,
    Rtt,
    Queue,
    Loss,
    Chunk,
    Streams,
    Gap,
}

impl Parameter {
    const ALL: [Self; 7] =
        [Self::Bandwidth, Self::Rtt, Self::Queue, Self::Loss, Self::Chunk, Self::Streams, Self::Gap];

    /// Returns the name of the parameter's flag.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Bandwidth => "bandwidth",
            Self::Rtt => "rtt",
            Self::Queue => "queue",
            Self::Loss => "loss",
            Self::Chunk => "chunk",
            Self::Streams => "streams",
            Self::Gap => "gap",
        }
    }

    /// Reads a value as the parameter's flag does, in the unit of the model. `0` needs no unit.
    fn read(self, text: &str) -> Result<f64, String> {
        let text = text.trim();
        if text == "0" {
            return Ok(0.0);
        }
        match self {
            Self::Bandwidth => text.parse().map(|BitRate(bits)| bits / 8.0),
            Self::Rtt | Self::Queue | Self::Gap => text.parse().map(|TimeSpan(time)| time.as_secs_f64()),
            Self::Loss => percent(text),
            Self::Chunk => text.parse().map(|ByteSize(bytes)| bytes as f64),
            Self::Streams => {
                text.parse::<u32>().map(f64::from).map_err(|_| format!("not a number: '{text}'"))
            }
        }
    }

    /// Sets the parameter.
    pub(super) const fn set(self, link: &mut Link, streams: &mut Streams, value: f64) {
        let place = match self {
            Self::Bandwidth => &mut link.bandwidth,
            Self::Rtt => &mut link.rtt,
            Self::Queue => &mut link.queue,
            Self::Loss => &mut link.loss,
            Self::Chunk => &mut streams.chunk,
            Self::Streams => &mut streams.count,
            Self::Gap => &mut streams.gap,
        };
        *place = value;
    }
}

/// The values of a parameter from one to another, both included.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Sweep {
    pub(super) parameter: Parameter,
    from: f64,
    to: f64,
    step: f64,
}

impl Sweep {
    /// Returns the values in rising order.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        let Self { from, to, step, .. } = *self;
        // Each value is computed on its own, so that rounding errors do not add up.
        let value = move |number: u32| from + f64::from(number) * step;
        (0..).map(value).take_while(move |value| *value <= to + step * 1e-9)
    }
}

impl FromStr for Sweep {
    type Err = String;

    /// Reads `NAME=FROM..TO:STEP`.
    fn from_str(text: &str) -> Result<Self, String> {
        let form = || "not NAME=FROM..TO:STEP, such as rtt=0..200ms:10ms".to_owned();
        let (name, range) = text.split_once('=').ok_or_else(form)?;
        let (from, rest) = range.split_once("..").ok_or_else(form)?;
        let (to, step) = rest.split_once(':').ok_or_else(form)?;
        let parameter = Parameter::ALL.into_iter().find(|parameter| parameter.name() == name.trim());
        let parameter = parameter.ok_or_else(|| format!("the model has no parameter '{name}'"))?;
        let [from, to, step] = [from, to, step].map(|text| parameter.read(text));
        let sweep = Self { parameter, from: from?, to: to?, step: step? };
        if sweep.step <= 0.0 || sweep.from > sweep.to {
            return Err("STEP must be above 0, and FROM not above TO".to_owned());
        }
        if (sweep.to - sweep.from) / sweep.step >= MAX_VALUES {
            return Err(format!("more than {MAX_VALUES} values"));
        }
        Ok(sweep)
    }
}

/// Writes a value without the rounding errors of its computation.
pub(super) fn rounded(value: f64) -> String {
    let text = format!("{value:.9}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeps_include_both_ends() {
        let values =
            |text: &str| -> Vec<String> { text.parse::<Sweep>().unwrap().values().map(rounded).collect() };
        assert_eq!(values("streams=1..5:2"), ["1", "3", "5"]);
        assert_eq!(values("loss=0..0.3%:0.1%"), ["0", "0.001", "0.002", "0.003"]);
        assert_eq!(values("gap=210ms..220ms:20ms"), ["0.21"]);
        assert_eq!(values("chunk=20kB..60kB:20kB"), ["20000", "40000", "60000"]);
        assert_eq!(values("bandwidth=8kbit/s..16kbit/s:8kbit/s"), ["1000", "2000"]);
        assert_eq!(values("rtt=0..200ms:10ms").len(), 21);
    }

    #[test]
    fn malformed_sweeps_are_refused() {
        for (text, why) in [
            ("rtt", "not NAME=FROM..TO:STEP"),
            ("rtt=0..1s", "not NAME=FROM..TO:STEP"),
            ("speed=0..1:1", "no parameter 'speed'"),
            ("rtt=0..1:1", "not a duration"),
            ("rtt=0..1s:0", "STEP must be above 0"),
            ("rtt=1s..0:1ms", "FROM not above TO"),
            ("rtt=0..1h:1ms", "more than 10000 values"),
            ("streams=1..5:x", "not a number"),
        ] {
            let error = text.parse::<Sweep>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
