//! Fits of measured values to the load that was offered.

use super::value::value;
use crate::{
    driver::{Measured, Record},
    experiment::{Claim, Quantity},
    model::fit::{Fit, proportional},
};
use latemux_load::report::Estimate;
use std::collections::BTreeMap;

/// The share of the offered requests that a cell must serve, or else it is saturated.
const SERVED: f64 = 0.95;

/// The smallest share that a fit leaves unexplained. Logarithms need one above 0.
const LEAST_UNEXPLAINED: f64 = 1e-12;

/// The fit of a claim, and the cells to which it belongs.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaimFit {
    /// The factor: the value for each MB/s of requests per second × segment duration × bit rate.
    pub factor: Estimate,
    /// The cells, those with the smallest offered load first.
    pub cells: Vec<OfferedCell>,
}

/// A cell at a fixed rate of requests, with means over its measurements.
#[derive(Debug, Clone, PartialEq)]
pub struct OfferedCell {
    /// The values of axes, except for those that the claim states.
    pub name: String,
    /// The requests per second that were offered.
    pub requests: f64,
    /// Requests per second × segment duration × bit rate, in MB/s.
    pub offered: f64,
    /// The requests per second that were served.
    pub served: f64,
    /// The value of the claim.
    pub value: Estimate,
    /// The number of processors that all origins together have used.
    pub processors: f64,
    /// True if a measurement served too few requests.
    pub is_saturated: bool,
}

/// A measurement with its offered load in MB/s, its value, and true if it is saturated.
struct Point<'a> {
    record: &'a Record,
    measured: &'a Measured,
    offered: f64,
    value: f64,
    is_saturated: bool,
}

/// The measurements of one block.
type Block<'a> = Vec<Point<'a>>;

/// Fits the values of each block by itself, without its saturated cells. Returns the coefficient of
/// determination of each block, and the fit over all of them.
pub(super) fn fit(claim: &Claim, records: &[(usize, &Record)]) -> (Vec<f64>, Option<ClaimFit>) {
    let mut blocks: BTreeMap<(usize, u32), Block<'_>> = BTreeMap::new();
    for (machine, record) in records {
        if let Some(point) = point(claim.value, record) {
            blocks.entry((*machine, record.repeat)).or_default().push(point);
        }
    }
    let fits: Vec<Fit> = blocks.values().filter_map(of_block).collect();
    let factors: Vec<f64> = fits.iter().map(|fit| fit.factor).collect();
    let fit = Estimate::of(&factors)
        .map(|factor| ClaimFit { factor, cells: cells(claim, blocks.values().flatten()) });
    (fits.iter().map(|fit| fit.r_squared).collect(), fit)
}

fn point(quantity: Quantity, record: &Record) -> Option<Point<'_>> {
    let measured = record.measured.as_ref()?;
    let offered = record.offered?;
    let value = value(quantity, measured)?;
    let is_saturated = served(measured) < SERVED * offered.requests;
    Some(Point { record, measured, offered: offered.bytes / 1e6, value, is_saturated })
}

/// Returns the requests per second that had a response.
fn served(measured: &Measured) -> f64 {
    measured.requests.saturating_sub(measured.failures) as f64 / measured.seconds.max(f64::MIN_POSITIVE)
}

fn of_block(block: &Block<'_>) -> Option<Fit> {
    let below = block.iter().filter(|point| !point.is_saturated);
    proportional(&below.map(|point| (point.offered, point.value)).collect::<Vec<_>>())
}

fn cells<'a>(claim: &Claim, points: impl Iterator<Item = &'a Point<'a>>) -> Vec<OfferedCell> {
    let mut by_cell: BTreeMap<&BTreeMap<String, String>, Vec<&Point<'_>>> = BTreeMap::new();
    for point in points {
        by_cell.entry(&point.record.point).or_default().push(point);
    }
    let of_cell = |(axes, points): (&BTreeMap<String, String>, Vec<&Point<'_>>)| {
        let first = points.first()?;
        let mean = |of: &dyn Fn(&Point<'_>) -> f64| {
            points.iter().map(|point| of(point)).sum::<f64>() / points.len() as f64
        };
        let varied = axes.iter().filter(|(axis, _)| !claim.of.contains_key(*axis));
        let name: Vec<String> = varied.map(|(axis, value)| format!("{axis} {value}")).collect();
        Some(OfferedCell {
            name: name.join(", "),
            requests: first.record.offered?.requests,
            offered: first.offered,
            served: mean(&|point| served(point.measured)),
            value: Estimate::of(&points.iter().map(|point| point.value).collect::<Vec<_>>())?,
            processors: mean(&|point| point.measured.origin_time() / point.measured.seconds),
            is_saturated: points.iter().any(|point| point.is_saturated),
        })
    };
    let mut cells: Vec<OfferedCell> = by_cell.into_iter().filter_map(of_cell).collect();
    cells.sort_by(|one, other| one.offered.total_cmp(&other.offered));
    cells
}

/// Returns the mean of coefficients of determination with the ends of its interval, which are those
/// of the logarithm of the unexplained share: a coefficient is never above 1.
pub(super) fn interval(coefficients: &[f64]) -> Option<[f64; 3]> {
    let unexplained = coefficients.iter().map(|coefficient| (1.0 - coefficient).max(LEAST_UNEXPLAINED).ln());
    let Estimate { mean, half_width, .. } = Estimate::of(&unexplained.collect::<Vec<_>>())?;
    let half_width = half_width.unwrap_or(0.0);
    Some([mean, mean + half_width, mean - half_width].map(|logarithm| -logarithm.exp_m1()))
}

#[cfg(test)]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are small and positive")]
mod tests {
    use super::*;
    use crate::plan::Offered;

    fn claim() -> Claim {
        toml::from_str("text = 'x'\nvalue = 'MB/s'\nof = { setup = 'a' }\nfit = 'R × S × B'\nat_least = 0.98")
            .unwrap()
    }

    /// Makes a measurement of 10 s at a rate of requests, each for `size` MB, of which a share is
    /// served with bytes of another size.
    fn record(repeat: u32, rate: f64, size: f64, share: f64, factor: f64) -> Record {
        let requests = (rate * share * 10.0).round();
        let bytes = requests * size * factor * 1e6;
        let measured =
            Measured { requests: requests as u64, bytes: bytes as u64, seconds: 10.0, ..Measured::default() };
        Record {
            point: [("setup", "a".to_owned()), ("rate", rate.to_string()), ("size", size.to_string())]
                .map(|(axis, value)| (axis.to_owned(), value))
                .into(),
            offered: Some(Offered { requests: rate, bytes: rate * size * 1e6 }),
            ..crate::report::tests::record(repeat, "a", Some(measured))
        }
    }

    fn fitted(records: &[Record]) -> (Vec<f64>, Option<ClaimFit>) {
        fit(&claim(), &records.iter().map(|record| (0, record)).collect::<Vec<_>>())
    }

    /// Makes blocks of four cells, the last of which serves only a share of its requests.
    fn blocks(last: f64, factor: f64) -> Vec<Record> {
        let block = |repeat| {
            let cells = [(10.0, 1.0, 1.0), (10.0, 4.0, 1.0), (100.0, 1.0, 1.0), (100.0, 4.0, last)];
            cells.map(|(rate, size, share)| record(repeat, rate, size, share, factor))
        };
        (0..3).flat_map(block).collect()
    }

    #[test]
    fn a_saturated_cell_is_not_fitted() {
        for (last, is_saturated) in [(1.0, false), (0.96, false), (0.94, true), (0.2, true)] {
            let (coefficients, fit) = fitted(&blocks(last, 0.5));
            let fit = fit.unwrap();
            assert_eq!(fit.cells.last().unwrap().is_saturated, is_saturated, "{last}");
            assert_eq!(fit.cells.iter().filter(|cell| cell.is_saturated).count(), usize::from(is_saturated));
            assert!((fit.factor.mean - 0.5).abs() < 0.02, "{fit:?}");
            assert!(
                coefficients.len() == 3 && coefficients.iter().all(|one| *one > 0.99),
                "{coefficients:?}"
            );
        }
        // If it were fitted, it would pull the line down.
        let names: Vec<String> =
            fitted(&blocks(0.2, 0.5)).1.unwrap().cells.into_iter().map(|cell| cell.name).collect();
        assert_eq!(names, ["rate 10, size 1", "rate 10, size 4", "rate 100, size 1", "rate 100, size 4"]);
    }

    #[test]
    fn failed_requests_are_not_served() {
        let mut records = blocks(1.0, 1.0);
        records[3].measured.as_mut().unwrap().failures = 60;
        let cells = fitted(&records).1.unwrap().cells;
        assert!(cells[3].is_saturated && cells.iter().filter(|cell| cell.is_saturated).count() == 1);
    }

    #[test]
    fn segments_of_another_size_than_expected_lower_the_coefficient() {
        let mut records = blocks(1.0, 1.0);
        for record in &mut records {
            if record.point["size"] == "4" {
                record.measured.as_mut().unwrap().bytes /= 3;
            }
        }
        let (coefficients, _) = fitted(&records);
        assert!(coefficients.iter().all(|one| *one < 0.98), "{coefficients:?}");
    }

    #[test]
    fn too_few_cells_below_saturation_are_no_fit() {
        let two: Vec<Record> =
            (0..3).flat_map(|repeat| [1.0, 2.0].map(|size| record(repeat, 10.0, size, 1.0, 1.0))).collect();
        assert_eq!(fitted(&two), (Vec::new(), None));
    }

    #[test]
    fn an_interval_ends_below_one() {
        let [mean, low, high] = interval(&[0.97, 0.99, 0.999]).unwrap();
        assert!(low < mean && mean < high && high < 1.0, "{low} {mean} {high}");
        // The geometric mean of what is unexplained.
        assert!((mean - (1.0 - (0.03_f64 * 0.01 * 0.001).cbrt())).abs() < 1e-12);
        let [_, low, high] = interval(&[1.0, 1.0, 1.0]).unwrap();
        assert!(low > 0.999_999 && high <= 1.0);
    }
}
