//! Comparison of repeated runs.

use super::{
    csv::field,
    statistics::{Estimate, Ratio},
    summary::table,
};
use crate::results::{Histogram, Requests, Run};
use std::{collections::BTreeMap, fmt::Write as _};

/// The option in which repeats of a run may differ.
const SEED: &str = "seed";

/// One measure of repeated runs.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedMeasure {
    /// The name, with its unit.
    pub name: String,
    /// The measure of the runs; `None` if not all of them have it.
    pub runs: Option<Estimate>,
    /// The measure of the other runs; `None` if there are none, or not all of them have it.
    pub against: Option<Estimate>,
    /// The ratio of both.
    pub ratio: Option<Ratio>,
}

/// Compares repeats of one run with repeats of another one, which may be none.
///
/// # Errors
/// If the options of two runs on the same side differ in more than the seed.
pub fn compare(runs: &[(String, Run)], against: &[(String, Run)]) -> Result<Vec<ComparedMeasure>, String> {
    check_repeats(runs)?;
    check_repeats(against)?;
    let [ours, theirs] = [runs, against].map(|side| side.iter().map(|(_, run)| measures(run)).collect());
    let (ours, theirs): (Vec<Measures>, Vec<Measures>) = (ours, theirs);
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in ours.iter().chain(&theirs).flatten() {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let compared = |name: &str| {
        let values = |side: &[Measures]| -> Vec<f64> {
            let value = |run: &Measures| run.iter().find(|(known, _)| known == name).map(|(_, value)| *value);
            side.iter().map(value).collect::<Option<_>>().unwrap_or_default()
        };
        let runs = values(&ours);
        let against = values(&theirs);
        ComparedMeasure {
            name: name.to_owned(),
            runs: Estimate::of(&runs),
            against: Estimate::of(&against),
            ratio: Ratio::of(&runs, &against),
        }
    };
    Ok(names.into_iter().map(compared).collect())
}

/// Fails if runs are not repeats of each other.
fn check_repeats(runs: &[(String, Run)]) -> Result<(), String> {
    let options = |run: &Run| -> BTreeMap<String, String> {
        run.whole.plan.clone().into_iter().filter(|(name, _)| name != SEED).collect()
    };
    let Some((first, rest)) = runs.split_first() else { return Ok(()) };
    for (name, run) in rest {
        if options(run) != options(&first.1) {
            return Err(format!("{name} is no repeat of {}: their options differ", first.0));
        }
    }
    Ok(())
}

type Measures = Vec<(String, f64)>;

/// Returns the measures of a run in the order in which they are shown.
fn measures(run: &Run) -> Measures {
    let part = &run.whole;
    let results = &part.results;
    let seconds = part.took.max(1) as f64 / 1000.0;
    let mut measures = Vec::new();
    let mut add = |name: String, value: f64| measures.push((name, value));
    let rates = |requests: &Requests, seconds: f64| {
        [
            ("requests/s", requests.count as f64 / seconds),
            ("Mbit/s", requests.bytes as f64 * 8.0 / 1e6 / seconds),
            ("failed %", requests.failed() as f64 * 100.0 / (requests.count as f64).max(1.0)),
        ]
    };
    let latencies = |requests: &Requests| {
        let millis = |micros: f64| micros / 1000.0;
        let latency = &requests.latency;
        [
            ("latency mean ms", millis(latency.mean())),
            ("latency p50 ms", millis(latency.quantile(0.5) as f64)),
            ("latency p99 ms", millis(latency.quantile(0.99) as f64)),
            ("first byte mean ms", millis(requests.first_byte.mean())),
        ]
    };
    let total = results.total();
    for (name, value) in rates(&total, seconds).into_iter().chain(latencies(&total)) {
        add(name.to_owned(), value);
    }
    if results.requests.len() > 1 {
        for (class, requests) in &results.requests {
            for (name, value) in latencies(requests) {
                add(format!("{class} {name}"), value);
            }
        }
    }
    for (number, step) in (1..).zip(&results.steps) {
        let seconds = step.until.saturating_sub(step.from).max(1) as f64 / 1000.0;
        for (name, value) in rates(&step.requests, seconds).into_iter().chain(latencies(&step.requests)) {
            add(format!("step {number} ({}) {name}", step.level), value);
        }
    }
    if let Some(rate) = results.streams.rate() {
        add("goodput Mbit/s".to_owned(), rate * 8.0 / 1e6);
        add("chunk time mean ms".to_owned(), results.streams.chunk_times.mean() / 1000.0);
    }
    if let Some(ratio) = results.fairness() {
        add("fairness ratio".to_owned(), ratio);
    }
    let players = &results.players;
    if players.started > 0 {
        let started = players.started as f64;
        let sum = |histogram: &Histogram| histogram.mean() * histogram.count() as f64;
        add("start-up mean s".to_owned(), players.startup.mean() / 1e6);
        add("stalls per player".to_owned(), players.stalls.count() as f64 / started);
        add("stalled s per player".to_owned(), sum(&players.stalls) / 1e6 / started);
        add("bit rate mean Mbit/s".to_owned(), players.bitrate.mean() / 1e6);
        if players.quality.count() > 0 {
            add("quality mean".to_owned(), players.quality.mean() / 1000.0 - 1.0);
        }
    }
    measures
}

/// Returns compared measures as a table for the terminal.
pub fn comparison(measures: &[ComparedMeasure]) -> String {
    let mut rows = vec![["mean of repeats ± 95 %", "runs", "against", "ratio", ""].map(str::to_owned)];
    rows.extend(measures.iter().map(|measure| {
        let verdict = match measure.ratio {
            Some(ratio) if ratio.is_different() => "different",
            Some(_) => "no difference seen",
            None => "",
        };
        [
            measure.name.clone(),
            measure.runs.map_or_else(|| "-".to_owned(), shown),
            measure.against.map_or_else(|| "-".to_owned(), shown),
            measure.ratio.map_or_else(
                || "-".to_owned(),
                |ratio| format!("{:.3} ({:.3} to {:.3})", ratio.value, ratio.low, ratio.high),
            ),
            verdict.to_owned(),
        ]
    }));
    let mut out = String::new();
    table(&mut out, &rows);
    out
}

fn shown(estimate: Estimate) -> String {
    let half_width = estimate.half_width.map_or_else(|| "?".to_owned(), |half| format!("{half:.3}"));
    format!("{:.3} ± {half_width}", estimate.mean)
}

/// Returns compared measures as a table for other programs (RFC 4180). Fields that are not known
/// are empty.
pub fn comparison_csv(measures: &[ComparedMeasure]) -> String {
    let mut out = String::from(
        "measure,runs,mean,deviation,half_width,against_runs,against_mean,against_deviation,against_half_width,ratio,ratio_low,ratio_high\r\n",
    );
    let number = |number: Option<f64>| number.map(|number| number.to_string()).unwrap_or_default();
    let estimate = |estimate: Option<Estimate>| {
        let Some(Estimate { count, mean, deviation, half_width }) = estimate else {
            return "0,,,".to_owned();
        };
        format!("{count},{mean},{},{}", number(deviation), number(half_width))
    };
    for measure in measures {
        let ratio = measure.ratio;
        let _ = write!(
            out,
            "{},{},{},{},{},{}\r\n",
            field(&measure.name),
            estimate(measure.runs),
            estimate(measure.against),
            number(ratio.map(|ratio| ratio.value)),
            number(ratio.map(|ratio| ratio.low)),
            number(ratio.map(|ratio| ratio.high)),
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Part;

    /// A run of a second with requests of one latency, in milliseconds.
    fn run(requests: u64, latency: u64, options: &[(&str, &str)]) -> Run {
        let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let mut part = Part::new("0/1".to_owned(), 0, options.collect());
        (part.complete, part.took) = (true, 1000);
        let single = part.results.requests.entry("single".to_owned()).or_default();
        single.count = requests;
        (0..requests).for_each(|_| single.latency.record(latency * 1000));
        Run::single(part)
    }

    fn runs(counts: &[u64], latency: u64) -> Vec<(String, Run)> {
        let named = |(number, count): (usize, &u64)| {
            (format!("run {number}"), run(*count, latency, &[("urls", "a"), ("seed", &number.to_string())]))
        };
        counts.iter().enumerate().map(named).collect()
    }

    #[test]
    fn repeats_are_compared_by_means_and_ratio() {
        let compared = compare(&runs(&[190, 200, 210], 2), &runs(&[99, 100, 101], 4)).unwrap();
        let of = |name: &str| compared.iter().find(|measure| measure.name == name).unwrap();
        let rate = of("requests/s");
        assert_eq!((rate.runs.unwrap().mean, rate.against.unwrap().mean), (200.0, 100.0));
        // 4.303 × 10 / sqrt(3).
        assert!((rate.runs.unwrap().half_width.unwrap() - 24.84).abs() < 0.01, "{rate:?}");
        assert!(rate.ratio.unwrap().is_different() && (rate.ratio.unwrap().value - 2.0).abs() < 0.01);
        assert!((of("latency p99 ms").ratio.unwrap().value - 0.5).abs() < 0.01);
        assert_eq!(of("failed %").ratio, None, "0 has no ratio");
        let text = comparison(&compared);
        assert!(text.contains("200.000 ± 24.8") && text.contains("different"), "{text}");
        let csv = comparison_csv(&compared);
        assert!(csv.contains("requests/s,3,200,10,"), "{csv}");
        let columns: Vec<usize> = csv.lines().map(|line| line.split(',').count()).collect();
        assert!(columns.iter().all(|count| *count == 12), "{csv}");
    }

    #[test]
    fn one_side_alone_has_means_and_no_ratio() {
        let compared = compare(&runs(&[190, 200, 210], 2), &[]).unwrap();
        assert!(compared.iter().all(|measure| measure.runs.is_some() && measure.ratio.is_none()));
        assert!(comparison_csv(&compared).contains("requests/s,3,200,10,24.8"));
    }

    #[test]
    fn runs_with_other_options_are_no_repeats() {
        let other = ("other".to_owned(), run(100, 1, &[("urls", "b")]));
        let error = compare(&[runs(&[1], 1), vec![other]].concat(), &[]).unwrap_err();
        assert_eq!(error, "other is no repeat of run 0: their options differ");
    }
}
