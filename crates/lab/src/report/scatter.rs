//! A plot of measured values over the offered load, both on logarithmic axes.

use super::{
    fit::ClaimFit,
    plot::{BELOW, EDGE, HEIGHT, LEFT, WIDTH, escaped, number, open},
};
use std::fmt::Write as _;

/// An axis on which each power of ten is as long as any other.
struct LogAxis {
    /// The powers of ten at both ends.
    powers: [i32; 2],
    /// The positions of both ends.
    ends: [f64; 2],
}

impl LogAxis {
    /// Returns the axis from the power of ten below the smallest value to that above the largest.
    fn of(values: &[f64], ends: [f64; 2]) -> Self {
        let logarithms = values.iter().filter(|value| **value > 0.0).map(|value| value.log10());
        let (low, high) = logarithms
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        #[expect(clippy::cast_possible_truncation, reason = "a power of ten of a finite number is small")]
        let powers = if low <= high { [low.floor() as i32, high.ceil() as i32] } else { [0, 1] };
        let powers = if powers[0] == powers[1] { [powers[0], powers[1] + 1] } else { powers };
        Self { powers, ends }
    }

    /// Returns the position of a value. What lies outside of the axis is moved to its end.
    fn at(&self, value: f64) -> f64 {
        let [low, high] = self.powers.map(f64::from);
        let share = (value.max(f64::MIN_POSITIVE).log10().clamp(low, high) - low) / (high - low);
        self.ends[0] + share * (self.ends[1] - self.ends[0])
    }

    /// Returns the values of the powers of ten.
    fn ticks(&self) -> impl Iterator<Item = f64> {
        (self.powers[0]..=self.powers[1]).map(|power| 10_f64.powi(power))
    }
}

/// Draws the cells of a fit, the saturated ones hollow, and the line that was fitted.
pub(super) fn scatter(fit: &ClaimFit, label: &str) -> String {
    let offered: Vec<f64> = fit.cells.iter().map(|cell| cell.offered).collect();
    let values: Vec<f64> = fit.cells.iter().map(|cell| cell.value.mean).collect();
    // The last number is wider than the edge.
    let x = LogAxis::of(&offered, [LEFT + EDGE, WIDTH - 2.0 * EDGE]);
    let y = LogAxis::of(&values, [HEIGHT - BELOW, EDGE]);
    let mut svg = open(HEIGHT, label);
    for tick in y.ticks() {
        let at = y.at(tick);
        let _ = write!(
            svg,
            "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{WIDTH}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 6.0,
            at + 4.0,
            number(tick)
        );
    }
    for tick in x.ticks() {
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
            x.at(tick),
            HEIGHT - 6.0,
            number(tick)
        );
    }
    let _ = write!(svg, "<g class=\"series-1\" stroke=\"currentColor\" stroke-width=\"1.5\">");
    if let Some([from, to]) = line(fit, &y) {
        let _ = write!(
            svg,
            "<path d=\"M{:.1} {:.1}L{:.1} {:.1}\"/>",
            x.at(from),
            y.at(fit.factor.mean * from),
            x.at(to),
            y.at(fit.factor.mean * to)
        );
    }
    for cell in &fit.cells {
        let fill = if cell.is_saturated { "none" } else { "currentColor" };
        let _ = write!(
            svg,
            "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"3.5\" fill=\"{fill}\"><title>{}</title></circle>",
            x.at(cell.offered),
            y.at(cell.value.mean),
            escaped(&cell.name)
        );
    }
    svg + "</g></svg>"
}

/// Returns the part of the offered loads over which the line stays in the plot.
fn line(fit: &ClaimFit, y: &LogAxis) -> Option<[f64; 2]> {
    let [low, high] = y.powers.map(|power| 10_f64.powi(power) / fit.factor.mean);
    let from = fit.cells.first()?.offered.max(low);
    let to = fit.cells.last()?.offered.min(high);
    (fit.factor.mean > 0.0 && from < to).then_some([from, to])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fit::OfferedCell;
    use latemux_load::report::Estimate;

    fn estimate(mean: f64) -> Estimate {
        Estimate { count: 1, mean, deviation: None, half_width: None }
    }

    fn fit(cells: &[(f64, f64, bool)]) -> ClaimFit {
        let cell = |(offered, value, is_saturated): &(f64, f64, bool)| OfferedCell {
            name: "a < b".to_owned(),
            requests: 1.0,
            offered: *offered,
            served: 1.0,
            value: estimate(*value),
            processors: 0.5,
            is_saturated: *is_saturated,
        };
        ClaimFit { factor: estimate(0.5), cells: cells.iter().map(cell).collect() }
    }

    #[test]
    fn cells_lie_on_the_line_until_they_are_saturated() {
        let svg = scatter(&fit(&[(2.0, 1.0, false), (200.0, 100.0, false), (2000.0, 100.0, true)]), "x");
        assert_eq!(
            (svg.matches("fill=\"currentColor\"><title>").count(), svg.matches("fill=\"none\"").count()),
            (2, 1)
        );
        // The line leaves the plot at 100, the largest value, which 200 offered MB/s cause. The
        // horizontal axis has four powers of ten, from 1 to 10000.
        let x = |offered: f64| LEFT + EDGE + offered.log10() / 4.0 * (WIDTH - LEFT - 3.0 * EDGE);
        let line = format!("d=\"M{:.1} {:.1}L{:.1} {EDGE:.1}\"", x(2.0), HEIGHT - BELOW, x(200.0));
        assert!(svg.contains(&line), "{line}: {svg}");
        assert!(svg.contains("a &lt; b") && svg.contains(">10000</text>"), "{svg}");
    }

    #[test]
    fn a_plot_without_values_is_empty() {
        let svg = scatter(&fit(&[(0.0, 0.0, true)]), "x");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        assert!(!scatter(&fit(&[]), "x").contains("circle"));
    }
}
