//! Plots as SVG, which any browser shows without a script.

use std::fmt::Write as _;

/// A line of a plot.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) name: String,
    /// Colour by place.
    pub(super) colour: usize,
    /// Rising in x.
    pub(super) points: Vec<(f64, f64)>,
}

/// A plot.
#[derive(Debug)]
pub(super) struct Plot<'a> {
    pub(super) title: &'a str,
    pub(super) x: &'a str,
    pub(super) lines: Vec<Line>,
}

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 220.0;
/// Left, top, right, bottom.
const MARGIN: (f64, f64, f64, f64) = (64.0, 24.0, 12.0, 34.0);
const COLOURS: [&str; 6] = ["#1f6feb", "#d1642c", "#2e8540", "#8250df", "#9a6700", "#cf222e"];

/// The most points of a line that are drawn.
const POINTS: usize = 2000;

impl Plot<'_> {
    pub(super) fn svg(&self) -> String {
        let all = || self.lines.iter().flat_map(|line| &line.points);
        let max_x = nice(all().map(|(x, _)| *x).fold(0.0, f64::max));
        let max_y = nice(all().map(|(_, y)| *y).fold(0.0, f64::max));
        let (left, top, right, bottom) = MARGIN;
        let (width, height) = (WIDTH - left - right, HEIGHT - top - bottom);
        let at = |(x, y): (f64, f64)| (left + x / max_x * width, top + height - y / max_y * height);
        let mut out = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\"><text x=\"{left}\" y=\"14\" class=\"title\">{}</text>",
            escape(self.title),
            escape(self.title)
        );
        for step in 0..=4_u32 {
            let part = f64::from(step) / 4.0;
            let (x, y) = at((part * max_x, part * max_y));
            let _ = write!(
                out,
                "<path d=\"M{left} {y:.1}H{:.1}\" class=\"grid\"/><text x=\"{:.1}\" y=\"{:.1}\" class=\"y\">{}</text><text x=\"{x:.1}\" y=\"{:.1}\" class=\"x\">{}</text>",
                WIDTH - right,
                left - 6.0,
                y + 4.0,
                number(part * max_y),
                HEIGHT - bottom + 14.0,
                number(part * max_x),
            );
        }
        let _ = write!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" class=\"x\">{}</text>",
            left + width / 2.0,
            HEIGHT - 4.0,
            escape(self.x)
        );
        for (place, line) in self.lines.iter().enumerate() {
            let colour = COLOURS.get(line.colour % COLOURS.len()).copied().unwrap_or("#000");
            let skip = line.points.len().div_ceil(POINTS).max(1);
            let mut path = String::new();
            for point in line.points.iter().step_by(skip).chain(line.points.last()) {
                let (x, y) = at(*point);
                let _ = write!(path, "{}{x:.1} {y:.1}", if path.is_empty() { "M" } else { "L" });
            }
            let _ = write!(out, "<path d=\"{path}\" class=\"line\" stroke=\"{colour}\"/>");
            if self.lines.len() > 1 {
                let y = top + 12.0 + 14.0 * f64::from(u32::try_from(place).unwrap_or(0));
                let _ = write!(
                    out,
                    "<text x=\"{:.1}\" y=\"{y:.1}\" class=\"name\" fill=\"{colour}\">{}</text>",
                    WIDTH - right - 4.0,
                    escape(&line.name)
                );
            }
        }
        out.push_str("</svg>\n");
        out
    }
}

/// The least of 1, 2 and 5 times a power of ten that is not below.
fn nice(max: f64) -> f64 {
    if max <= 0.0 {
        return 1.0;
    }
    let power = 10_f64.powf(max.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power).find(|step| *step >= max).unwrap_or(max)
}

fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 1e6 => format!("{:.4}M", value / 1e6).replace(".0000M", "M"),
        v if v >= 100.0 || v.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.3}").trim_end_matches('0').trim_end_matches('.').to_owned(),
    }
}

/// For text and attributes.
pub(super) fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_at_round_numbers() {
        for (max, end) in [(0.0, 1.0), (0.9, 1.0), (1.0, 1.0), (1.1, 2.0), (23.0, 50.0), (999.0, 1000.0)] {
            assert!((nice(max) - end).abs() < 1e-9, "{max}: {}", nice(max));
        }
        assert_eq!([0.0, 0.25, 1500.0, 2.5e6].map(number), ["0", "0.25", "1500", "2.5000M"]);
    }

    #[test]
    fn a_plot_is_well_formed_whatever_its_names() {
        let line = |colour| Line { name: "<a> & \"b\"".into(), colour, points: vec![(0.0, 1.0), (1.0, 3.0)] };
        let svg = Plot { title: "<x>", x: "s & t", lines: vec![line(0), line(7)] }.svg();
        let document = roxmltree::Document::parse(&svg).unwrap();
        let paths = document.descendants().filter(|n| n.attribute("class") == Some("line")).count();
        assert_eq!(paths, 2);
        let empty = Plot { title: "", x: "", lines: Vec::new() }.svg();
        assert!(roxmltree::Document::parse(&empty).is_ok());
    }
}
