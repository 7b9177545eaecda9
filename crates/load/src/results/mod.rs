//! The results of a run. Parts that several machines measured add up exactly.

mod generator_notes;
mod histogram;
mod part;
mod recorder;
mod steps;
mod streams;

pub use crate::usage::Generator;
pub(crate) use generator_notes::{generator, generator_notes};
pub use histogram::Histogram;
pub use part::{MAX_PART, Part, Run};
pub use recorder::{PlayerEnd, Recorder};
pub use steps::{Plateau, StepResults};
pub use streams::{CompetingResults, StreamResults, fairness};

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The results of a run or of a part of it. Merging is exact: neither the order nor the
/// distribution of players over machines matters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Results {
    /// Requests by class: `dash.video`, `hls.playlist`, `single`, …
    pub requests: BTreeMap<String, Requests>,
    /// Measurements of players.
    pub players: Players,
    /// The events of each second since the start.
    pub seconds: Vec<Counts>,
    /// Delays that the generator caused, in microseconds.
    pub lag: Histogram,
    /// The requests on the plateau of each step. Runs without steps have none.
    #[serde(default)]
    pub steps: Vec<StepResults>,
    /// Measurements of request–response streams. Runs without them have zeros.
    #[serde(default)]
    pub streams: StreamResults,
    /// Plain downloads beside the run. Runs without them have zeros.
    #[serde(default)]
    pub competing: CompetingResults,
}

/// Adds a number to a sum. Returns `None` if the sum exceeds 64 bits, which only the numbers of a
/// crafted file can do.
fn add(sum: &mut u64, number: u64) -> Option<()> {
    *sum = sum.checked_add(number)?;
    Some(())
}

/// Requests of one class.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Requests {
    /// The number of requests, including failed ones.
    pub count: u64,
    /// Bytes of bodies, including those of failed requests.
    pub bytes: u64,
    /// The sum of the times from sending each request to its end, in microseconds. Results of older
    /// versions have 0.
    #[serde(default)]
    pub busy: u64,
    /// The number of failed requests by reason.
    pub errors: BTreeMap<String, u64>,
    /// Times from the moment a request was due to its end, in microseconds, including failed
    /// requests.
    pub latency: Histogram,
    /// Times from the moment a request was due to the head of its response, in microseconds.
    /// Requests that failed before the end of the body are left out.
    pub first_byte: Histogram,
}

impl Requests {
    /// Returns the number of failed requests.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    fn merge(&mut self, other: &Self) -> Option<()> {
        add(&mut self.count, other.count)?;
        add(&mut self.bytes, other.bytes)?;
        add(&mut self.busy, other.busy)?;
        self.latency.merge(&other.latency);
        self.first_byte.merge(&other.first_byte);
        other
            .errors
            .iter()
            .try_for_each(|(reason, count)| add(self.errors.entry(reason.clone()).or_default(), *count))
    }
}

/// Measurements of players.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Players {
    /// Players that started.
    pub started: u64,
    /// Players that reached the end of their title.
    pub finished: u64,
    /// Players that gave up because too many consecutive requests failed.
    pub failed: u64,
    /// Players that were playing when the run ended.
    pub stopped: u64,
    /// Waits before playback starts, in microseconds.
    pub startup: Histogram,
    /// Stalls during playback, in microseconds.
    pub stalls: Histogram,
    /// Waits after seeks, in microseconds.
    pub seeks: Histogram,
    /// The duration of all media played, in microseconds.
    pub shown: u64,
    /// The number of changes of rendition.
    pub switches: u64,
    /// The mean bit rate of each player, in bits per second.
    pub bitrate: Histogram,
    /// The quality of each player as `(1 + score) × 1000`; `docs/load.md` defines the score.
    pub quality: Histogram,
}

/// The numbers of events, in one second or in a whole run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Counts {
    /// Requests that ended.
    pub requests: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Bytes of bodies.
    pub bytes: u64,
    /// The sum of the latencies, in microseconds.
    pub latency: u64,
    /// Players that started.
    pub came: u64,
    /// Players that left.
    pub left: u64,
    /// Stalls that began.
    pub stalls: u64,
}

impl Counts {
    /// Returns the number of players that have started and not left.
    pub const fn playing(&self) -> u64 {
        self.came.saturating_sub(self.left)
    }

    fn merge(&mut self, other: &Self) -> Option<()> {
        add(&mut self.requests, other.requests)?;
        add(&mut self.errors, other.errors)?;
        add(&mut self.bytes, other.bytes)?;
        add(&mut self.latency, other.latency)?;
        add(&mut self.came, other.came)?;
        add(&mut self.left, other.left)?;
        add(&mut self.stalls, other.stalls)
    }
}

impl Results {
    /// Adds the results of another part. Returns `None` if a sum exceeds 64 bits; these results are
    /// then incomplete.
    pub fn merge(&mut self, other: &Self) -> Option<()> {
        for (class, theirs) in &other.requests {
            self.requests.entry(class.clone()).or_default().merge(theirs)?;
        }
        self.players.merge(&other.players)?;
        if self.seconds.len() < other.seconds.len() {
            self.seconds.resize(other.seconds.len(), Counts::default());
        }
        self.lag.merge(&other.lag);
        self.streams.merge(&other.streams)?;
        self.competing.merge(&other.competing)?;
        // All parts of a run have the same steps.
        let known = self.steps.len();
        self.steps.extend(other.steps.iter().skip(known).cloned());
        for (ours, theirs) in self.steps.iter_mut().zip(&other.steps).take(known) {
            ours.requests.merge(&theirs.requests)?;
        }
        self.seconds.iter_mut().zip(&other.seconds).try_for_each(|(ours, theirs)| ours.merge(theirs))
    }

    /// Returns the fairness ratio: the rate of one player while it fetched, over the mean rate of
    /// one plain download beside it. 1 is fair. `None` if one of them is not known.
    pub fn fairness(&self) -> Option<f64> {
        Some(self.rate()? / self.competing.rate()?)
    }

    /// Returns the bytes per second of one player while it fetched the media whose quality counts:
    /// in chunks, or else with one request for each segment.
    pub fn rate(&self) -> Option<f64> {
        if self.streams.requests > 0 {
            return self.streams.rate();
        }
        let of = |kinds: &[&str]| {
            let mut sum = Requests::default();
            let is_of = |class: &str| kinds.contains(&class.rsplit('.').next().unwrap_or_default());
            let mut classes = self.requests.iter().filter(|(class, _)| is_of(class));
            classes.try_for_each(|(_, requests)| sum.merge(requests))?;
            streams::rate(sum.bytes, sum.busy)
        };
        of(&["video", "muxed", "single"]).or_else(|| of(&["audio"]))
    }

    /// Returns the sum of all classes.
    pub fn total(&self) -> Requests {
        self.checked_total().unwrap_or_default()
    }

    fn checked_total(&self) -> Option<Requests> {
        let mut total = Requests::default();
        self.requests.values().try_for_each(|requests| total.merge(requests))?;
        Some(total)
    }

    /// Returns `None` if a sum over all classes, reasons or seconds exceeds 64 bits.
    fn check_sums(&self) -> Option<()> {
        let mut failed = 0;
        self.checked_total()?.errors.values().try_for_each(|count| add(&mut failed, *count))?;
        let mut events = Counts::default();
        self.seconds.iter().try_for_each(|second| events.merge(second))
    }
}

impl Players {
    fn merge(&mut self, other: &Self) -> Option<()> {
        add(&mut self.started, other.started)?;
        add(&mut self.finished, other.finished)?;
        add(&mut self.failed, other.failed)?;
        add(&mut self.stopped, other.stopped)?;
        self.startup.merge(&other.startup);
        self.stalls.merge(&other.stalls);
        self.seeks.merge(&other.seeks);
        self.bitrate.merge(&other.bitrate);
        self.quality.merge(&other.quality);
        add(&mut self.shown, other.shown)?;
        add(&mut self.switches, other.switches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Results whose numbers all follow from a seed.
    fn results(seed: u64) -> Results {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut next = |limit: u64| random.u64(0..limit);
        let mut results = Results::default();
        for class in ["a", "b", "c"].into_iter().skip(usize::try_from(next(3)).unwrap()) {
            let requests = results.requests.entry(class.to_owned()).or_default();
            requests.count = next(1000);
            requests.bytes = next(1 << 40);
            requests.busy = next(1 << 40);
            requests.errors.insert(format!("status_{}", 400 + next(3)), next(9) + 1);
            requests.latency.record(next(1 << 20));
            requests.first_byte.record(next(1 << 20));
        }
        let players = &mut results.players;
        players.started = next(100);
        players.finished = next(100);
        players.failed = next(100);
        players.stopped = next(100);
        players.shown = next(1 << 40);
        players.switches = next(100);
        for histogram in [
            &mut players.startup,
            &mut players.stalls,
            &mut players.seeks,
            &mut players.bitrate,
            &mut players.quality,
            &mut results.lag,
        ] {
            histogram.record(next(1 << 30));
        }
        for _ in 0..next(5) {
            results.seconds.push(Counts {
                requests: next(100),
                errors: next(100),
                bytes: next(1 << 30),
                latency: next(1 << 30),
                came: next(100),
                left: next(100),
                stalls: next(100),
            });
        }
        results
    }

    fn merged(parts: &[Results]) -> Results {
        let mut all = Results::default();
        parts.iter().for_each(|part| all.merge(part).unwrap());
        all
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn merging_is_commutative_and_associative(a: u64, b: u64, c: u64) {
            let parts = [results(a), results(b), results(c)];
            let forwards = merged(&parts);
            let backwards = merged(&[parts[2].clone(), parts[1].clone(), parts[0].clone()]);
            prop_assert_eq!(&forwards, &backwards);
            let pairs = merged(&[parts[0].clone(), merged(&parts[1..])]);
            prop_assert_eq!(&forwards, &pairs);
            let text = serde_json::to_string(&forwards).unwrap();
            prop_assert_eq!(serde_json::from_str::<Results>(&text).unwrap(), forwards);
        }
    }

    #[test]
    fn every_number_is_added() {
        let one = results(7);
        let twice = merged(&[one.clone(), one.clone()]);
        let numbers = |results: &Results| -> Vec<u64> {
            let players = &results.players;
            let mut numbers = vec![
                players.started,
                players.finished,
                players.failed,
                players.stopped,
                players.shown,
                players.switches,
                players.startup.count(),
                players.stalls.count(),
                players.seeks.count(),
                players.bitrate.count(),
                players.quality.count(),
                results.lag.count(),
            ];
            for requests in results.requests.values() {
                let histograms = [requests.latency.count(), requests.first_byte.count()];
                numbers.extend([requests.count, requests.bytes, requests.busy, requests.failed()]);
                numbers.extend(histograms);
            }
            for second in &results.seconds {
                let Counts { requests, errors, bytes, latency, came, left, stalls } = *second;
                numbers.extend([requests, errors, bytes, latency, came, left, stalls]);
            }
            numbers
        };
        let doubled: Vec<u64> = numbers(&one).iter().map(|number| number * 2).collect();
        assert_eq!(numbers(&twice), doubled);
        assert!(!one.seconds.is_empty() && !one.requests.is_empty(), "the seed gives some of each");
    }

    #[test]
    fn the_total_is_the_sum_of_all_classes() {
        let all = results(3);
        let total = all.total();
        let sum = |of: fn(&Requests) -> u64| all.requests.values().map(of).sum::<u64>();
        assert_eq!((total.count, total.bytes), (sum(|r| r.count), sum(|r| r.bytes)));
        assert_eq!(
            (total.failed(), total.latency.count()),
            (sum(Requests::failed), sum(|r| r.latency.count()))
        );
        assert_eq!(Results::default().total(), Requests::default());
    }

    #[test]
    fn the_rate_of_players_without_streams_is_that_of_their_main_media() {
        let mut results = Results::default();
        for (class, bytes, busy) in [
            ("manifest", 1, 1),
            ("dash.init", 1, 1),
            ("dash.audio", 100, 1_000_000),
            ("dash.video", 5000, 2_000_000),
            ("hls.muxed", 4000, 1_000_000),
        ] {
            results.requests.insert(class.to_owned(), Requests { bytes, busy, ..Requests::default() });
        }
        assert_eq!((results.rate(), results.fairness()), (Some(3000.0), None));
        results.competing = CompetingResults { bytes: 6000, busy: 1_000_000, ..Default::default() };
        assert_eq!(results.fairness(), Some(0.5));
        results.streams = StreamResults { requests: 1, bytes: 12, busy: 1_000, ..Default::default() };
        assert_eq!(results.fairness(), Some(2.0), "chunks, if there are any");
        results.streams = StreamResults::default();
        results.requests.retain(|class, _| class.ends_with("audio"));
        assert_eq!(results.rate(), Some(100.0));
    }

    #[test]
    fn unknown_fields_are_refused() {
        let mut value = serde_json::to_value(Results::default()).unwrap();
        value["more"] = 1.into();
        assert!(serde_json::from_value::<Results>(value).is_err());
    }
}
