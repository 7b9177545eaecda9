//! A summary as CSV (RFC 4180).

use super::{Cell, cells, scaling::Scaling};
use crate::{
    driver::Record,
    experiment::{Claim, Quantity},
};
use latemux_load::report::Estimate;
use std::fmt::Write as _;

/// Returns a summary as CSV, with a line for each cell: its axes, the number of measurements and of
/// failed attempts, and for each value the mean and half of its 95 % confidence interval. What does
/// not exist is empty, such as the interval of a single measurement.
pub fn csv(records: &[(usize, Record)]) -> String {
    let mut text = "experiment,key,cell,measurements,failed".to_owned();
    for quantity in Quantity::ALL {
        let _ = write!(text, ",{quantity},± {quantity}");
    }
    text.push('\n');
    for cell in cells(records) {
        line(&mut text, &cell);
    }
    text
}

fn line(text: &mut String, cell: &Cell<'_>) {
    let point: Vec<String> = cell.first.point.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    let experiment = quoted(&cell.first.experiment);
    let point = quoted(&point.join(" "));
    let count = cell.measured.len();
    let _ = write!(text, "{experiment},{},{point},{count},{}", cell.first.key, cell.failed);
    for quantity in Quantity::ALL {
        let estimate = Estimate::of(&cell.values(quantity));
        let number = |number: Option<f64>| number.map_or_else(String::new, |number| format!("{number:.3}"));
        let mean = number(estimate.map(|estimate| estimate.mean));
        let half_width = number(estimate.and_then(|estimate| estimate.half_width));
        let _ = write!(text, ",{mean},{half_width}");
    }
    text.push('\n');
}

/// The columns of [`fit`].
pub(super) const FIT_COLUMNS: &str = "experiment,claim,a,± a,cell,offered requests/s,R × S × B MB/s,\
                                  served requests/s,value,± value,origin processors,saturated\n";

/// Writes a line of CSV (RFC 4180) for each cell of a fit.
pub(super) fn fit(text: &mut String, experiment: &str, claim: &Claim, scaling: &Scaling) {
    let number = |number: Option<f64>| number.map_or_else(String::new, |number| format!("{number:.4}"));
    let factor = format!("{:.4},{}", scaling.factor.mean, number(scaling.factor.half_width));
    for cell in &scaling.cells {
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
        scaling::OfferedCell,
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
        let text = csv(&records);
        assert_eq!(text.lines().count(), 3, "{text}");
        let line = text.lines().nth(1).unwrap();
        assert!(line.starts_with("cold,key-a,setup=a,0,1,,,"), "{text}");
        // 0.5 and 1.5 MB/s: the mean is 1, the standard error 0.5, and t of one degree 12.706.
        assert_eq!((field(&text, 2, "MB/s"), field(&text, 2, "± MB/s")), ("1.000", "6.353"));
        assert_eq!((field(&text, 2, "requests/s"), field(&text, 2, "± requests/s")), ("2.000", "0.000"));
        assert_eq!(field(&text, 2, "efficiency"), "2.000");
        assert_eq!(quoted("cold, and \"warm\""), "\"cold, and \"\"warm\"\"\"");
    }

    #[test]
    fn a_single_measurement_has_no_interval_and_without_storage_no_efficiency() {
        let cached = crate::driver::Measured { storage_bytes: 0, ..measured(1_000_000) };
        let text = csv(&[(0, record(0, "a", Some(cached)))]);
        assert_eq!((field(&text, 1, "MB/s"), field(&text, 1, "± MB/s")), ("0.500", ""));
        assert_eq!(field(&text, 1, "efficiency"), "");
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
        let scaling = Scaling {
            factor: estimate(0.5),
            cells: vec![cell("rate 10, size 1", false), cell("rate 9", true)],
        };
        let claim: Claim = toml::from_str("text = 'x'\nvalue = 'MB/s'\nat_least = 0.98").unwrap();
        let mut text = FIT_COLUMNS.to_owned();
        fit(&mut text, "b2, scaled", &claim, &scaling);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!((lines.len(), lines[0].split(',').count()), (3, 12), "{text}");
        let start = "\"b2, scaled\",x,0.5000,0.2500,";
        assert_eq!(lines[1], format!("{start}\"rate 10, size 1\",10,40.0000,9.9000,20.0000,0.2500,0.5000,0"));
        assert_eq!(lines[2], format!("{start}rate 9,10,40.0000,9.9000,20.0000,0.2500,0.5000,1"));
    }
}
