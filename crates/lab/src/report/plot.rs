//! Plots as SVG. Colours are those of the style sheet, so they fit light and dark pages.

use std::fmt::Write as _;

/// The width of a plot, in units of its own.
pub(super) const WIDTH: f64 = 440.0;

/// The height of a plot of lines.
pub(super) const HEIGHT: f64 = 220.0;

/// The space for numbers at the left of a plot of lines.
pub(super) const LEFT: f64 = 44.0;

/// The space above, and at the right of, a plot.
pub(super) const EDGE: f64 = 12.0;

/// The space for numbers below a plot.
pub(super) const BELOW: f64 = 22.0;

/// The height of a bar with the space around it.
const ROW: f64 = 22.0;

/// The space for names at the left of bars.
const NAMES: f64 = 110.0;

/// The space for numbers at the right of bars.
const NUMBERS: f64 = 64.0;

/// The number of colours of the style sheet.
const COLOURS: usize = 12;

/// A mean with half of its confidence interval, if it has one.
pub(super) type Mean = (f64, Option<f64>);

/// A line of a plot.
pub(super) struct Series<'a> {
    pub(super) name: &'a str,
    /// Positions with their values, in order.
    pub(super) points: Vec<(f64, Mean)>,
    /// Positions with published figures.
    pub(super) published: Vec<(f64, f64)>,
}

/// A bar of a plot.
pub(super) struct Bar<'a> {
    pub(super) name: &'a str,
    pub(super) mean: Mean,
    /// The published figure, if there is one.
    pub(super) published: Option<f64>,
}

/// Returns the class of the colour of a series.
pub(super) fn colour(series: usize) -> String {
    format!("series-{}", series % COLOURS + 1)
}

/// Returns a round number of at least `most`, at which an axis ends.
fn round_up(most: f64) -> f64 {
    if most <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(most.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    steps.map(|step| step * power).into_iter().find(|end| *end >= most).unwrap_or(10.0 * power)
}

/// Returns a number with about three digits.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        small if small >= 1.0 || small == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

/// Returns the largest value with its interval.
fn largest<'a>(means: impl Iterator<Item = &'a Mean>) -> f64 {
    means.map(|(mean, half_width)| mean + half_width.unwrap_or(0.0)).fold(0.0, f64::max)
}

/// Draws lines over positions that are spread evenly, with the intervals of their points. Hollow
/// points are published.
pub(super) fn lines(series: &[Series<'_>], label: &str) -> String {
    let mut positions: Vec<f64> =
        series.iter().flat_map(|line| line.points.iter().map(|(x, _)| *x)).collect();
    positions.sort_by(f64::total_cmp);
    positions.dedup();
    let published = series.iter().flat_map(|line| line.published.iter().map(|(_, figure)| *figure));
    let measured = largest(series.iter().flat_map(|line| line.points.iter().map(|(_, mean)| mean)));
    let top = round_up(published.fold(measured, f64::max));
    let step = (WIDTH - LEFT - 2.0 * EDGE) / (positions.len().max(2) - 1) as f64;
    let x = |position: f64| {
        let index = positions.iter().position(|known| known.total_cmp(&position).is_eq()).unwrap_or(0);
        LEFT + EDGE + step * index as f64
    };
    let y = |value: f64| HEIGHT - BELOW - (HEIGHT - BELOW - EDGE) * value / top;
    let mut svg = open(HEIGHT, label);
    for quarter in 0..=4_u32 {
        let value = top * f64::from(quarter) / 4.0;
        let at = y(value);
        let text = number(value);
        let _ = write!(svg, "<path class=\"grid\" d=\"M{LEFT} {at:.1}H{WIDTH}\"/>");
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{text}</text>",
            LEFT - 6.0,
            at + 4.0
        );
    }
    for position in &positions {
        let at = x(*position);
        let below = HEIGHT - 6.0;
        let _ = write!(svg, "<text x=\"{at:.1}\" y=\"{below:.1}\" text-anchor=\"middle\">{position}</text>");
    }
    for (index, line) in series.iter().enumerate() {
        let _ = write!(svg, "<g class=\"{}\" stroke=\"currentColor\" fill=\"none\">", colour(index));
        let points: Vec<String> =
            line.points.iter().map(|(at, (mean, _))| format!("{:.1},{:.1}", x(*at), y(*mean))).collect();
        let _ = write!(svg, "<polyline stroke-width=\"2\" points=\"{}\"/>", points.join(" "));
        for (at, (mean, half_width)) in &line.points {
            let at = x(*at);
            let half_width = half_width.unwrap_or(0.0);
            let low = y((mean - half_width).max(0.0));
            let high = y(mean + half_width);
            let _ = write!(svg, "<path d=\"M{at:.1} {low:.1}V{high:.1}\"/>");
            let _ = write!(
                svg,
                "<circle cx=\"{at:.1}\" cy=\"{:.1}\" r=\"2.5\" fill=\"currentColor\"/>",
                y(*mean)
            );
        }
        for (at, figure) in &line.published {
            let _ = write!(svg, "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"4.5\"/>", x(*at), y(*figure));
        }
        svg.push_str("</g>");
    }
    svg + "</svg>"
}

/// Draws a bar for each name, with its interval and its number. A stroke across it is the published
/// figure.
pub(super) fn bars(rows: &[Bar<'_>], label: &str) -> String {
    let measured = largest(rows.iter().map(|row| &row.mean));
    let most = rows.iter().filter_map(|row| row.published).fold(measured, f64::max);
    let scale = (WIDTH - NAMES - NUMBERS) / if most > 0.0 { most } else { 1.0 };
    let mut svg = open(ROW * rows.len() as f64 + EDGE, label);
    for (index, Bar { name, mean: (mean, half_width), published }) in rows.iter().enumerate() {
        let top = ROW * index as f64 + EDGE / 2.0;
        let base = top + 14.0;
        let width = (scale * mean).max(1.0);
        let _ = write!(
            svg,
            "<text x=\"{:.1}\" y=\"{base:.1}\" text-anchor=\"end\">{}</text>",
            NAMES - 8.0,
            escaped(name)
        );
        let _ = write!(
            svg,
            "<rect class=\"{}\" fill=\"currentColor\" x=\"{NAMES}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"14\" rx=\"2\"/>",
            colour(index),
            top + 3.0
        );
        let mut end = NAMES + width;
        if let Some(half_width) = half_width.filter(|half_width| *half_width > 0.0) {
            let low = NAMES + scale * (mean - half_width).max(0.0);
            let high = NAMES + scale * (mean + half_width);
            let _ = write!(svg, "<path class=\"interval\" d=\"M{low:.1} {:.1}H{high:.1}\"/>", top + 10.0);
            end = end.max(high);
        }
        if let Some(figure) = published {
            let at = NAMES + scale * figure;
            let _ = write!(
                svg,
                "<path class=\"interval\" stroke-width=\"3\" d=\"M{at:.1} {top:.1}V{:.1}\"><title>published: {}\
                 </title></path>",
                top + 20.0,
                number(*figure)
            );
            end = end.max(at);
        }
        let _ = write!(
            svg,
            "<text class=\"value\" x=\"{:.1}\" y=\"{base:.1}\">{}</text>",
            end + 6.0,
            number(*mean)
        );
    }
    svg + "</svg>"
}

/// Opens a plot.
pub(super) fn open(height: f64, label: &str) -> String {
    let label = escaped(label);
    format!("<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{label}\">")
}

/// Returns a text as content or attribute of HTML.
pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_ends_at_a_round_number() {
        let ends = [0.0, 0.07, 1.0, 1.1, 2.2, 3.0, 7.0, 99.0, 101.0].map(round_up);
        let expected = [1.0, 0.1, 1.0, 2.0, 2.5, 5.0, 10.0, 100.0, 200.0];
        assert!(ends.iter().zip(expected).all(|(end, expected)| (end - expected).abs() < 1e-9), "{ends:?}");
        assert_eq!(
            [0.0, 0.1234, 1.234, 12.34, 1234.5].map(number),
            ["0.00", "0.123", "1.23", "12.3", "1234"]
        );
    }

    #[test]
    fn bars_are_as_long_as_their_values_and_stay_in_the_plot() {
        let bar = |name, mean, published| Bar { name, mean, published };
        let rows = [
            bar("a & b", (2.0, Some(1.0)), None),
            bar("c", (1.0, None), Some(3.0)),
            bar("d", (0.0, None), None),
        ];
        let svg = bars(&rows, "x");
        let width = (WIDTH - NAMES - NUMBERS) / 3.0;
        assert!(svg.contains(&format!("width=\"{:.1}\"", 2.0 * width)), "{svg}");
        assert!(svg.contains(&format!("width=\"{width:.1}\"")) && svg.contains("width=\"1.0\""), "{svg}");
        assert!(svg.contains("a &amp; b"), "{svg}");
        // The published figure is as long as the longest bar with its interval.
        assert!(
            svg.contains(&format!("d=\"M{:.1} ", WIDTH - NUMBERS)) && svg.contains("published: 3.00"),
            "{svg}"
        );
    }

    #[test]
    fn lines_stand_at_the_positions_of_all_series() {
        let series = [
            Series {
                name: "a",
                points: vec![(1.0, (5.0, None)), (50.0, (10.0, None))],
                published: vec![(1.0, 10.0)],
            },
            Series { name: "b", points: vec![(10.0, (0.0, Some(1.0)))], published: Vec::new() },
        ];
        let svg = lines(&series, "x");
        // Three positions: the middle one belongs to the second series.
        let middle = LEFT + EDGE + (WIDTH - LEFT - 2.0 * EDGE) / 2.0;
        assert!(svg.contains(&format!("points=\"{middle:.1},{:.1}\"", HEIGHT - BELOW)), "{svg}");
        assert!(svg.contains(&format!(",{:.1}\"", EDGE)), "the largest value is at the top: {svg}");
        let published = format!("cx=\"{:.1}\" cy=\"{EDGE:.1}\" r=\"4.5\"", LEFT + EDGE);
        assert!(svg.contains(&published), "{published}: {svg}");
    }
}
