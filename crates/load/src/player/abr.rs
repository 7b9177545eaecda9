//! The choice of renditions.

use latemux_client::presentation::{MediaKind, RenditionSet, parse_bit_rate};
use std::{collections::VecDeque, fmt, str::FromStr, sync::Arc};

/// The algorithm with which a player chooses renditions.
#[derive(Debug, Clone, PartialEq)]
pub enum Abr {
    /// The highest rendition below 0.8 times the throughput, which is the harmonic mean of the last
    /// five segments (as in FESTIVE: Jiang et al., CoNEXT 2012).
    Throughput,
    /// The rendition for the buffer level (BBA-0: Huang et al., SIGCOMM 2014): the lowest one if
    /// less than a quarter of the buffer is full, and the highest one above nine tenths. In
    /// between, the bit rate rises linearly.
    Buffer,
    /// The highest rendition whose bit rate is not above the given one, or the lowest rendition.
    Fixed(u64),
    /// A random rendition for each segment.
    Random,
    /// The bit rate that a trace states.
    Trace(Arc<Trace>),
}

/// Bit rates by media time in seconds.
#[derive(Debug, Clone, PartialEq)]
pub struct Trace(Vec<(f64, u64)>);

impl Trace {
    /// The maximum number of lines.
    const MAX: usize = 1 << 20;

    /// Reads lines of a time in seconds and a bit rate. `#` starts a comment.
    ///
    /// # Errors
    /// If a line is malformed, the first time is not 0, the times do not rise, or there are no
    /// lines or too many.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut steps: Vec<(f64, u64)> = Vec::new();
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.split('#').next().unwrap_or_default().trim();
            if text.is_empty() {
                continue;
            }
            let (time, rate) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
            let time: f64 =
                time.parse().map_err(|_| format!("line {line}: not a time in seconds: {text}"))?;
            let rate = parse_bit_rate(rate.trim()).map_err(|why| format!("line {line}: {why}"))?;
            let rises = steps.last().map_or(time == 0.0, |(last, _)| time > *last);
            if !rises || !time.is_finite() {
                return Err(format!("line {line}: times must start at 0 and rise: {text}"));
            }
            if steps.len() >= Self::MAX {
                return Err(format!("more than {} lines", Self::MAX));
            }
            steps.push((time, rate));
        }
        if steps.is_empty() {
            return Err("no lines of a time and a bit rate".to_owned());
        }
        Ok(Self(steps))
    }

    /// Returns the bit rate at a media time.
    fn at(&self, time: f64) -> u64 {
        let behind = self.0.partition_point(|(from, _)| *from <= time);
        self.0.get(behind.saturating_sub(1)).map_or(0, |(_, rate)| *rate)
    }
}

impl FromStr for Abr {
    type Err = String;

    /// Reads the name of any algorithm but `trace:FILE`, since the caller reads the file.
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "throughput" => Ok(Self::Throughput),
            "buffer" => Ok(Self::Buffer),
            "random" => Ok(Self::Random),
            _ => match text.strip_prefix("fixed:") {
                Some(rate) => parse_bit_rate(rate).map(Self::Fixed),
                None => Err(format!("'{text}' is not throughput, buffer, fixed:RATE, random or trace:FILE")),
            },
        }
    }
}

impl fmt::Display for Abr {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Throughput => out.write_str("throughput"),
            Self::Buffer => out.write_str("buffer"),
            Self::Fixed(0) => out.write_str("fixed:min"),
            Self::Fixed(u64::MAX) => out.write_str("fixed:max"),
            Self::Fixed(rate) => write!(out, "fixed:{rate}"),
            Self::Random => out.write_str("random"),
            Self::Trace(_) => out.write_str("trace"),
        }
    }
}

/// The state on which a choice depends.
#[derive(Debug, Clone, Copy)]
pub(super) struct Situation {
    /// Seconds of buffered media.
    pub(super) buffer: f64,
    /// The maximum of buffered media in seconds.
    pub(super) max_buffer: f64,
    /// The start of the next segment, in seconds of the presentation.
    pub(super) time: f64,
}

/// The throughput of the last segments, in bits per second.
#[derive(Debug, Default)]
pub(super) struct Throughput(VecDeque<f64>);

impl Throughput {
    const SEGMENTS: usize = 5;
    const SAFETY: f64 = 0.8;

    pub(super) fn add(&mut self, bytes: u64, seconds: f64) {
        let rate = bytes as f64 * 8.0 / seconds.max(1e-6);
        if self.0.len() >= Self::SEGMENTS {
            self.0.pop_front();
        }
        self.0.push_back(rate.max(1.0));
    }

    /// Returns the throughput with a safety margin; `None` before the first segment.
    fn safe(&self) -> Option<f64> {
        let inverse: f64 = self.0.iter().map(|rate| rate.recip()).sum();
        let mean = self.0.len() as f64 / inverse;
        (!self.0.is_empty()).then_some(mean * Self::SAFETY)
    }
}

impl Abr {
    /// Returns the index of a rendition in its set. For audio and text it is always the highest.
    pub(super) fn choose(
        &self,
        set: &RenditionSet,
        throughput: &Throughput,
        now: Situation,
        random: &mut fastrand::Rng,
    ) -> usize {
        let last = set.renditions.len().saturating_sub(1);
        if matches!(set.kind, MediaKind::Audio | MediaKind::Text) {
            return last;
        }
        match self {
            Self::Fixed(rate) => set.highest_within(*rate),
            Self::Trace(trace) => set.highest_within(trace.at(now.time)),
            Self::Random => random.usize(0..=last),
            Self::Throughput => {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
                let rate = throughput.safe().unwrap_or(0.0) as u64;
                set.highest_within(rate)
            }
            Self::Buffer => {
                let rate =
                    |place: usize| set.renditions.get(place).map_or(0, |rendition| rendition.bandwidth);
                let part = (now.buffer / now.max_buffer.max(1e-3) - 0.25) / (0.9 - 0.25);
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bit rates")]
                let wanted = (rate(0) as f64
                    + part.clamp(0.0, 1.0) * (rate(last).saturating_sub(rate(0)) as f64))
                    .round() as u64;
                set.highest_within(wanted)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latemux_client::manifest;
    use url::Url;

    /// Three renditions of 0.1, 0.5 and 1 Mbit/s.
    fn ladder(kind: MediaKind) -> RenditionSet {
        let playlist = "#EXTM3U\n\
            #EXT-X-STREAM-INF:BANDWIDTH=100000,RESOLUTION=16x9\na.m3u8\n\
            #EXT-X-STREAM-INF:BANDWIDTH=500000,RESOLUTION=32x18\nb.m3u8\n\
            #EXT-X-STREAM-INF:BANDWIDTH=1000000,RESOLUTION=64x36\nc.m3u8\n";
        let presentation = manifest::read(&Url::parse("http://a/").unwrap(), playlist.as_bytes()).unwrap();
        RenditionSet { kind, ..presentation.sets[0].clone() }
    }

    fn choose(abr: &Abr, throughput: &Throughput, buffer: f64) -> usize {
        let now = Situation { buffer, max_buffer: 30.0, time: 7.0 };
        abr.choose(&ladder(MediaKind::Video), throughput, now, &mut fastrand::Rng::with_seed(1))
    }

    #[test]
    fn throughput_is_a_harmonic_mean_with_a_margin() {
        let mut throughput = Throughput::default();
        assert_eq!(choose(&Abr::Throughput, &throughput, 0.0), 0, "no throughput is known yet");
        throughput.add(1_000_000, 1.0);
        assert_eq!(choose(&Abr::Throughput, &throughput, 0.0), 2);
        // 8, 1 and 1 Mbit/s: the harmonic mean is 1.4, of which 0.8 is 1.13.
        (0..2).for_each(|_| throughput.add(125_000, 1.0));
        assert_eq!(choose(&Abr::Throughput, &throughput, 0.0), 2);
        throughput.add(125_000, 1.0);
        assert_eq!(choose(&Abr::Throughput, &throughput, 0.0), 2, "1.03");
        throughput.add(62_500, 1.0);
        assert_eq!(choose(&Abr::Throughput, &throughput, 0.0), 1, "0.78");
        (0..5).for_each(|_| throughput.add(12_500, 1.0));
        assert_eq!(choose(&Abr::Throughput, &throughput, 0.0), 0, "earlier segments no longer count");
    }

    #[test]
    fn other_algorithms_choose_by_buffer_rate_trace_or_at_random() {
        let none = Throughput::default();
        for (buffer, place) in [(0.0, 0), (7.5, 0), (16.0, 0), (16.3, 1), (26.0, 1), (27.0, 2), (40.0, 2)] {
            assert_eq!(choose(&Abr::Buffer, &none, buffer), place, "{buffer}");
        }
        for (rate, place) in [("1k", 0), ("min", 0), ("0.5M", 1), ("999999", 1), ("max", 2)] {
            assert_eq!(choose(&format!("fixed:{rate}").parse().unwrap(), &none, 0.0), place, "{rate}");
        }
        let trace = |text| Trace::parse(text).map(|trace| choose(&Abr::Trace(Arc::new(trace)), &none, 0.0));
        assert_eq!(trace("0 max\n5 500k # low\n\n7.5 min"), Ok(1));
        assert_eq!(trace("0 500k\n7 max"), Ok(2));
        let mut random = fastrand::Rng::with_seed(7);
        let now = Situation { buffer: 0.0, max_buffer: 1.0, time: 0.0 };
        let chosen: Vec<usize> =
            (0..64).map(|_| Abr::Random.choose(&ladder(MediaKind::Muxed), &none, now, &mut random)).collect();
        assert!((0..3).all(|place| chosen.contains(&place)), "{chosen:?}");
        assert_eq!(Abr::Fixed(0).choose(&ladder(MediaKind::Audio), &none, now, &mut random), 2);
    }

    #[test]
    fn malformed_traces_and_algorithms_are_refused() {
        for text in
            ["", "# nothing", "1 800k", "0 800k\n0 900k", "0", "x 1k", "0 -1", "0 1\nNaN 1", "0 1\ninf 2"]
        {
            assert!(Trace::parse(text).is_err(), "{text}");
        }
        for text in ["", "fixed:", "fixed:fast", "best", "fixed:1e99"] {
            assert!(text.parse::<Abr>().is_err(), "{text}");
        }
    }
}
