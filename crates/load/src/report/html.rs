//! Results as the page of a run, in one file that opens from disk.

use crate::{
    page::{PlayerCounts, Quantiles, Sample, Sums, Totals, with_data},
    results::{Histogram, Run, generator},
};
use serde::Serialize;

/// The number of points of a distribution from 0 to 90 %, from 90 to 99 %, and so on.
/// `web/src/load/plots.ts` has the same constant.
const POINTS_PER_NINE: f64 = 20.0;

#[derive(Debug, Serialize)]
struct Report {
    runs: Vec<ReportRun>,
}

/// One run. Times are in microseconds unless stated otherwise.
#[derive(Debug, Serialize)]
struct ReportRun {
    name: String,
    /// Seconds the run lasted.
    took: f64,
    latency: Option<Quantiles>,
    generator: String,
    #[serde(flatten)]
    sums: Sums,
    totals: Totals,
    players: PlayerCounts,
    samples: Vec<Sample<Mean>>,
    latencies: Vec<Distribution>,
    startup: Vec<Distribution>,
}

/// The mean latency of a second. Results keep no distribution for each second.
#[derive(Debug, Clone, Copy, Serialize)]
struct Mean {
    mean: u64,
}

#[derive(Debug, Serialize)]
struct Distribution {
    name: String,
    points: Vec<u64>,
}

/// Returns a page that compares runs, each with its name.
pub fn page(runs: &[(String, Run)]) -> String {
    with_data(&Report { runs: runs.iter().map(|(name, run)| report_run(name, run)).collect() })
}

fn report_run(name: &str, run: &Run) -> ReportRun {
    let part = &run.whole;
    let results = &part.results;
    let total = results.total();
    let mut sums = Sums::of(part);
    sums.notes.extend(run.notes.iter().cloned());
    let latencies = results.requests.iter().map(|(class, requests)| (class.as_str(), &requests.latency));
    ReportRun {
        name: name.to_owned(),
        took: part.took.max(1) as f64 / 1000.0,
        latency: Quantiles::of(&total.latency),
        generator: generator(part),
        sums,
        totals: Totals {
            requests: total.count,
            errors: total.failed(),
            bytes: total.bytes,
            stalls: results.seconds.iter().map(|second| second.stalls).sum(),
        },
        players: PlayerCounts { playing: 0, came: results.players.started },
        samples: samples(run),
        latencies: distributions(latencies),
        startup: distributions([("start-up", &results.players.startup)]),
    }
}

fn samples(run: &Run) -> Vec<Sample<Mean>> {
    let seconds = run.whole.results.seconds.iter().zip(1_u32..);
    let samples = seconds.scan(0_u64, |players, (second, end)| {
        *players = players.saturating_add(second.came).saturating_sub(second.left);
        Some(Sample {
            at: end.into(),
            took: 1.0,
            requests: second.requests,
            errors: second.errors,
            bytes: second.bytes,
            players: *players,
            stalls: second.stalls,
            latency: second.latency.checked_div(second.requests).map(|mean| Mean { mean }),
        })
    });
    samples.collect()
}

fn distributions<'a>(named: impl IntoIterator<Item = (&'a str, &'a Histogram)>) -> Vec<Distribution> {
    let counted = named.into_iter().filter(|(_, histogram)| histogram.count() > 0);
    counted
        .map(|(name, histogram)| Distribution { name: name.to_owned(), points: points(histogram) })
        .collect()
}

/// Returns the quantiles of the shares 1 - 10^(-i / 20) for i = 0, 1, … up to the first share above
/// which there is at most one value.
fn points(histogram: &Histogram) -> Vec<u64> {
    let count = histogram.count() as f64;
    let mut points = Vec::new();
    for index in 0_u32.. {
        let above = 10_f64.powf(-f64::from(index) / POINTS_PER_NINE);
        points.push(histogram.quantile(1.0 - above));
        if above * count <= 1.0 {
            break;
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Counts, Part};
    use std::collections::BTreeMap;

    fn run(change: impl FnOnce(&mut Part)) -> Run {
        let mut part = Part::new("0/1".to_owned(), 0, BTreeMap::new());
        part.complete = true;
        change(&mut part);
        Run::single(part)
    }

    #[test]
    fn a_distribution_ends_at_the_maximum() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|value| histogram.record(value));
        let points = points(&histogram);
        // 10^(60 / 20) is 1000: above the last share lies one value.
        assert_eq!(points.len(), 61);
        assert_eq!((points[0], points[20], points[40], points[60]), (1, 900, 990, 999));
        assert!(points.is_sorted());
        let mut one = Histogram::default();
        one.record(7);
        assert_eq!(super::points(&one), [7]);
    }

    #[test]
    fn seconds_become_samples_with_the_players_of_that_second() {
        let second =
            |requests, latency, came, left| Counts { requests, latency, came, left, ..Counts::default() };
        let run = run(|part| {
            part.results.seconds = vec![second(4, 400, 3, 1), second(0, 0, 0, 2), second(1, 9, 0, 5)];
        });
        let samples = samples(&run);
        let of =
            |sample: &Sample<Mean>| (sample.at, sample.players, sample.latency.map(|latency| latency.mean));
        let expected = [(1.0, 2, Some(100)), (2.0, 0, None), (3.0, 0, Some(9))];
        assert_eq!(samples.iter().map(of).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn notes_of_missing_parts_are_on_the_page() {
        let partial = run(|part| part.complete = false);
        let shown = report_run("a", &partial);
        assert_eq!(shown.sums.notes, partial.notes);
        assert_eq!(shown.sums.notes.len(), 1);
        assert!(shown.latency.is_none() && shown.latencies.is_empty() && shown.startup.is_empty());
        assert!(shown.took > 0.0, "rates are divided by it");
    }
}
