//! A summary as CSV (RFC 4180).

use super::{Cell, JudgedClaim, Run, cells, fit::ClaimFit, value::value};
use crate::{
    date,
    driver::Record,
    experiment::{Claim, Quantity},
};
use latemux_load::report::Estimate;
use std::fmt::Write as _;

/// Returns a summary as CSV, with a line for each cell: its axes, the number of measurements and of
/// failed attempts, and for each value the mean, half of its 95 % confidence interval, and the
/// standard deviation. What does not exist is empty, such as the interval of a single measurement.
pub fn summary(records: &[(usize, Record)]) -> String {
    let mut text = "experiment,key,cell,measurements,failed".to_owned();
    for quantity in Quantity::ALL {
        let _ = write!(text, ",{quantity},± {quantity},SD {quantity}");
    }
    text.push('\n');
    for cell in cells(records) {
        line(&mut text, &cell);
    }
    text
}

fn line(text: &mut String, cell: &Cell<'_>) {
    let count = cell.measured.len();
    let _ = write!(text, "{},{count},{}", start(cell.first), cell.failed);
    for quantity in Quantity::ALL {
        let estimate = Estimate::of(&cell.values(quantity));
        let mean = number(estimate.map(|estimate| estimate.mean));
        let half_width = number(estimate.and_then(|estimate| estimate.half_width));
        let deviation = number(estimate.and_then(|estimate| estimate.deviation));
        let _ = write!(text, ",{mean},{half_width},{deviation}");
    }
    text.push('\n');
}

/// Returns all measurements as CSV, with a line for each in the order in which they were made: its
/// machine and block, both from 1, the time at which it began, its axes, the share of the
/// processors that other programs took, 1 if it is generator-bound, its values, and the error of
/// one that failed.
pub fn measurements(records: &[(usize, Record)]) -> String {
    let mut text = "experiment,key,cell,machine,block,began,foreign,generator-bound".to_owned();
    for quantity in Quantity::ALL {
        let _ = write!(text, ",{quantity}");
    }
    text.push_str(",error\n");
    for (machine, record) in records {
        let measured = record.measured.as_ref();
        let foreign = number(measured.map(|measured| measured.foreign));
        let bound = measured.map_or("", |measured| if measured.is_generator_bound { "1" } else { "0" });
        let began = record.began.map_or_else(String::new, date::date_time);
        let place = format!("{},{},{}", start(record), machine + 1, record.repeat + 1);
        let _ = write!(text, "{place},{began},{foreign},{bound}");
        for quantity in Quantity::ALL {
            let _ = write!(text, ",{}", number(measured.and_then(|measured| value(quantity, measured))));
        }
        let _ = writeln!(text, ",{}", quoted(record.error.as_deref().unwrap_or_default()));
    }
    text
}

/// Returns the first fields of a line: experiment, key and axes.
fn start(record: &Record) -> String {
    let point: Vec<String> = record.point.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    format!("{},{},{}", quoted(&record.experiment), record.key, quoted(&point.join(" ")))
}

fn number(number: Option<f64>) -> String {
    number.map_or_else(String::new, |number| format!("{number:.3}"))
}

/// Returns the claims of all experiments as CSV, with a line for each: the value that it is about,
/// its bounds, the published finding, the mean with the ends of its 95 % confidence interval, the
/// number of blocks, and the verdict. What does not exist is empty.
pub fn claims(run: &Run) -> String {
    let mut text =
        "experiment,claim,value,at least,at most,published,mean,low,high,blocks,verdict\n".to_owned();
    for name in run.outlines.keys() {
        for judged in run.verdicts(name) {
            claim_line(&mut text, name, &judged);
        }
    }
    text
}

fn claim_line(text: &mut String, experiment: &str, judged: &JudgedClaim) {
    let JudgedClaim { claim, verdict, interval, blocks, .. } = judged;
    let bound = |bound: Option<f64>| bound.map_or_else(String::new, |bound| bound.to_string());
    let [mean, low, high] = interval.map_or([None; 3], |interval| interval.map(Some)).map(number);
    let _ = writeln!(
        text,
        "{},{},{},{},{},{},{mean},{low},{high},{blocks},{}",
        quoted(experiment),
        quoted(&claim.text),
        quoted(&claim.measure()),
        bound(claim.at_least),
        bound(claim.at_most),
        quoted(claim.published.as_deref().unwrap_or_default()),
        verdict.name()
    );
}

/// The columns of [`fit_lines`].
pub(super) const FIT_COLUMNS: &str = "experiment,claim,a,± a,cell,offered requests/s,R × S × B MB/s,\
                                  served requests/s,value,± value,origin processors,saturated\n";

/// Writes a line of CSV (RFC 4180) for each cell of a fit.
pub(super) fn fit_lines(text: &mut String, experiment: &str, claim: &Claim, fit: &ClaimFit) {
    let number = |number: Option<f64>| number.map_or_else(String::new, |number| format!("{number:.4}"));
    let factor = format!("{:.4},{}", fit.factor.mean, number(fit.factor.half_width));
    for cell in &fit.cells {
        let _ = writeln!(
            text,
            "{},{},{factor},{},{},{:.4},{:.4},{:.4},{},{:.4},{}",
            quoted(experiment),
            quoted(&claim.text),
            quoted(&cell.name),
            cell.requests,
            cell.offered,
            cell.served,
            cell.value.mean,
            number(cell.value.half_width),
            cell.processors,
            u8::from(cell.is_saturated)
        );
    }
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
    use crate::report::{
        Verdict,
        fit::OfferedCell,
        tests::{measured, record},
    };

    /// Returns the fields of a line by the names of their columns.
    fn field<'a>(text: &'a str, line: usize, name: &str) -> &'a str {
        let lines: Vec<&str> = text.lines().collect();
        let at = lines[0].split(',').position(|column| column == name).unwrap();
        lines[line].split(',').nth(at).unwrap()
    }

    #[test]
    fn repeats_have_a_mean_and_a_confidence_interval() {
        let records = [
            (0, record(0, "b", Some(measured(1_000_000)))),
            (0, record(0, "a", None)),
            (0, record(1, "b", Some(measured(3_000_000)))),
        ];
        let text = summary(&records);
        assert_eq!(text.lines().count(), 3, "{text}");
        let line = text.lines().nth(1).unwrap();
        assert!(line.starts_with("cold,key-a,setup=a,0,1,,,"), "{text}");
        // 0.5 and 1.5 MB/s: the mean is 1, the standard error 0.5, and t of one degree 12.706.
        assert_eq!((field(&text, 2, "MB/s"), field(&text, 2, "± MB/s")), ("1.000", "6.353"));
        assert_eq!((field(&text, 2, "requests/s"), field(&text, 2, "± requests/s")), ("2.000", "0.000"));
        assert_eq!(field(&text, 2, "efficiency"), "2.000");
        // The root of 0.5² + 0.5², divided by one degree of freedom.
        assert_eq!(field(&text, 2, "SD MB/s"), "0.707");
        assert_eq!(quoted("cold, and \"warm\""), "\"cold, and \"\"warm\"\"\"");
    }

    #[test]
    fn each_measurement_is_a_line_and_a_failed_one_has_its_reason() {
        let disturbed = crate::driver::Measured { foreign: 0.25, ..measured(1_000_000) };
        let failed = Record { error: Some("no, full".to_owned()), ..record(1, "a", None) };
        let disturbed = Record { began: Some(60), ..record(0, "b", Some(disturbed)) };
        let text = measurements(&[(0, disturbed), (1, failed)]);
        assert_eq!(text.lines().count(), 3, "{text}");
        let line = text.lines().nth(1).unwrap();
        assert!(line.starts_with("cold,key-b,setup=b,1,1,1970-01-01T00:01:00Z,0.250,0,"), "{text}");
        assert_eq!((field(&text, 1, "MB/s"), field(&text, 1, "start-up ms")), ("0.500", ""));
        assert_eq!(
            ["machine", "block", "began", "MB/s"].map(|name| field(&text, 2, name)),
            ["2", "2", "", ""]
        );
        assert!(text.ends_with(",\"no, full\"\n"), "{text}");
    }

    #[test]
    fn a_single_measurement_has_no_interval_and_without_storage_no_efficiency() {
        let cached = crate::driver::Measured { storage_bytes: 0, ..measured(1_000_000) };
        let text = summary(&[(0, record(0, "a", Some(cached)))]);
        assert_eq!((field(&text, 1, "MB/s"), field(&text, 1, "± MB/s")), ("0.500", ""));
        assert_eq!(field(&text, 1, "efficiency"), "");
    }

    #[test]
    fn a_claim_is_a_line() {
        let claim =
            "text = 'a, b'\nvalue = 'MB/s'\nagainst = { setup = 'x' }\nat_least = 0.98\npublished = '2'";
        let claim: Claim = toml::from_str(claim).unwrap();
        let judged = JudgedClaim {
            claim,
            verdict: Verdict::Holds,
            interval: Some([1.0, 0.98765, 1.25]),
            blocks: 3,
            fit: None,
        };
        let mut text = String::new();
        claim_line(&mut text, "cold", &judged);
        claim_line(&mut text, "cold", &JudgedClaim { interval: None, ..judged });
        let start = "cold,\"a, b\",ratio of MB/s,0.98,,2,";
        assert_eq!(text, format!("{start}1.000,0.988,1.250,3,holds\n{start},,,3,holds\n"));
    }

    #[test]
    fn each_cell_of_a_fit_is_a_line() {
        let estimate = |mean| Estimate { count: 3, mean, deviation: Some(0.0), half_width: Some(0.25) };
        let cell = |name: &str, is_saturated| OfferedCell {
            name: name.to_owned(),
            requests: 10.0,
            offered: 40.0,
            served: 9.9,
            value: estimate(20.0),
            processors: 0.5,
            is_saturated,
        };
        let fit = ClaimFit {
            factor: estimate(0.5),
            cells: vec![cell("rate 10, size 1", false), cell("rate 9", true)],
        };
        let claim: Claim = toml::from_str("text = 'x'\nvalue = 'MB/s'\nat_least = 0.98").unwrap();
        let mut text = FIT_COLUMNS.to_owned();
        fit_lines(&mut text, "b2, scaled", &claim, &fit);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0].split(',').count()), (3, 12), "{text}");
        let start = "\"b2, scaled\",x,0.5000,0.2500,";
        assert_eq!(lines[1], format!("{start}\"rate 10, size 1\",10,40.0000,9.9000,20.0000,0.2500,0.5000,0"));
        assert_eq!(lines[2], format!("{start}rate 9,10,40.0000,9.9000,20.0000,0.2500,0.5000,1"));
    }
}
