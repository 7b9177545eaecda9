//! The results of a run, summed up: means of repeated measurements with confidence intervals.

use crate::driver::{Measured, Record};
use latemux_load::report::Estimate;
use std::{collections::BTreeMap, fmt::Write as _};

/// A value of a measurement with its unit, and how to get it.
type Value = (&'static str, fn(&Measured) -> Option<f64>);

/// The values of a summary.
const VALUES: [Value; 7] = [
    ("requests/s", |measured| per_second(measured, measured.requests)),
    ("MB/s", |measured| per_second(measured, measured.bytes).map(|bytes| bytes / 1e6)),
    ("latency ms", |measured| Some(measured.latency)),
    ("storage requests", |measured| Some(measured.storage_requests as f64)),
    ("storage MB", |measured| Some(measured.storage_bytes as f64 / 1e6)),
    ("efficiency", Measured::efficiency),
    ("cached MB", |measured| Some(measured.cached as f64 / 1e6)),
];

fn per_second(measured: &Measured, count: u64) -> Option<f64> {
    (measured.seconds > 0.0).then(|| count as f64 / measured.seconds)
}

/// All measurements of one cell.
struct Cell<'a> {
    first: &'a Record,
    measured: Vec<&'a Measured>,
    failed: usize,
}

/// Returns a summary as CSV, with a line for each cell: its axes, the number of measurements and of
/// failed attempts, and for each value the mean and half of its 95 % confidence interval. What does
/// not exist is empty, such as the interval of a single measurement.
pub fn csv(records: &[Record]) -> String {
    let mut cells: BTreeMap<(&str, &BTreeMap<String, String>, &str), Cell<'_>> = BTreeMap::new();
    for record in records {
        // Cells of one experiment stand together, in the order of their axes.
        let cell = cells.entry((&record.experiment, &record.point, &record.key));
        let cell = cell.or_insert_with(|| Cell { first: record, measured: Vec::new(), failed: 0 });
        match &record.measured {
            Some(measured) => cell.measured.push(measured),
            None => cell.failed += 1,
        }
    }
    let mut text = "experiment,key,cell,measurements,failed".to_owned();
    for (name, _) in VALUES {
        let _ = write!(text, ",{name},± {name}");
    }
    text.push('\n');
    for cell in cells.values() {
        line(&mut text, cell);
    }
    text
}

fn line(text: &mut String, Cell { first, measured, failed }: &Cell<'_>) {
    let point: Vec<String> = first.point.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    let (experiment, point) = (quoted(&first.experiment), quoted(&point.join(" ")));
    let _ = write!(text, "{experiment},{},{point},{},{failed}", first.key, measured.len());
    for (_, value) in VALUES {
        let values: Vec<f64> = measured.iter().filter_map(|measured| value(measured)).collect();
        let estimate = Estimate::of(&values);
        let number = |number: Option<f64>| number.map_or_else(String::new, |number| format!("{number:.3}"));
        let mean = number(estimate.map(|estimate| estimate.mean));
        let half_width = number(estimate.and_then(|estimate| estimate.half_width));
        let _ = write!(text, ",{mean},{half_width}");
    }
    text.push('\n');
}

/// Returns a text as a field of CSV (RFC 4180).
fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(repeat: u32, setup: &str, measured: Option<Measured>) -> Record {
        let point = BTreeMap::from([("setup".to_owned(), setup.to_owned())]);
        let error = measured.is_none().then(|| "failed".to_owned());
        let (key, experiment) = (format!("key-{setup}"), "cold, and warm".to_owned());
        Record { key, repeat, experiment, point, measured, error }
    }

    fn measured(bytes: u64) -> Option<Measured> {
        let seconds = 2.0;
        Some(Measured { requests: 4, bytes, seconds, storage_bytes: 1_000_000, ..Measured::default() })
    }

    #[test]
    fn repeats_have_a_mean_and_a_confidence_interval() {
        let records =
            [record(0, "b", measured(1_000_000)), record(0, "a", None), record(1, "b", measured(3_000_000))];
        let text = csv(&records);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].starts_with("experiment,key,cell,measurements,failed,requests/s,± requests/s,MB/s"));
        assert_eq!(lines[1], "\"cold, and warm\",key-a,setup=a,0,1,,,,,,,,,,,,,,");
        // 0.5 and 1.5 MB/s: the mean is 1, the standard error 0.5, and t of one degree 12.706.
        let expected = "\"cold, and warm\",key-b,setup=b,2,0,2.000,0.000,1.000,6.353,0.000,0.000,\
                        0.000,0.000,1.000,0.000,2.000,12.706,0.000,0.000";
        assert_eq!(lines[2], expected);
    }

    #[test]
    fn a_single_measurement_has_no_interval_and_without_storage_no_efficiency() {
        let cached = Measured { storage_bytes: 0, ..measured(1_000_000).unwrap() };
        let text = csv(&[record(0, "a", Some(cached))]);
        assert!(text.ends_with("setup=a,1,0,2.000,,0.500,,0.000,,0.000,,0.000,,,,0.000,\n"), "{text}");
    }
}
