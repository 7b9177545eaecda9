//! Results as a page: plots and tables, in one file without scripts.

use super::{
    plot::{Line, Plot, escape},
    summary,
};
use crate::results::{Histogram, Run, Second};
use std::{collections::BTreeSet, fmt::Write as _};

const STYLE: &str = "body{font:15px/1.4 system-ui,sans-serif;margin:1.5rem;max-width:1180px}pre{overflow-x:auto;background:#8881;padding:.8rem}\
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(420px,1fr));gap:1rem}svg{width:100%;font:11px system-ui,sans-serif;fill:currentColor}\
.title{font-weight:600;font-size:13px}.grid{stroke:#8884;fill:none}.line{fill:none;stroke-width:1.5}.y,.name{text-anchor:end}.x{text-anchor:middle}\
:root{color-scheme:light dark}";

/// A page of all runs, each under its name.
#[must_use]
pub fn page(runs: &[(String, Run)]) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"viewport\" content=\"width=device-width\"/>\
         <title>latemux load</title><style>{STYLE}</style></head><body>\n<h1>latemux load</h1>\n<div class=\"plots\">\n"
    );
    for plot in over_time(runs).into_iter().chain(distributions(runs)) {
        out.push_str(&plot.svg());
    }
    out.push_str("</div>\n");
    for (name, run) in runs {
        let _ = write!(out, "<h2>{}</h2>\n<pre>{}</pre>\n<p>", escape(name), escape(&summary(run)));
        for (option, value) in &run.whole.plan {
            let _ = write!(out, "{} <b>{}</b> ", escape(option), escape(value));
        }
        out.push_str("</p>\n");
    }
    out.push_str("</body></html>\n");
    out
}

/// What happened in each second.
fn over_time(runs: &[(String, Run)]) -> Vec<Plot<'static>> {
    let plot = |title, of: &dyn Fn(&Second) -> f64| {
        let line = |(colour, (name, run)): (usize, &(String, Run))| {
            let points =
                run.whole.results.seconds.iter().enumerate().map(|(at, second)| (float(at), of(second)));
            Line { name: name.clone(), colour, points: points.collect() }
        };
        Plot { title, x: "seconds since the start", lines: runs.iter().enumerate().map(line).collect() }
    };
    let mut plots = vec![
        plot("Throughput, Mbit/s", &|second| count(second.bytes) * 8.0 / 1e6),
        plot("Requests per second", &|second| count(second.requests)),
        plot("Mean latency, ms", &|second| count(second.latency) / count(second.requests.max(1)) / 1000.0),
        plot("Failed requests per second", &|second| count(second.errors)),
    ];
    if runs.iter().any(|(_, run)| run.whole.results.players.started > 0) {
        plots.push(players(runs));
        plots.push(plot("Stalls that began, per second", &|second| count(second.stalls)));
    }
    plots
}

fn players(runs: &[(String, Run)]) -> Plot<'static> {
    let line = |(colour, (name, run)): (usize, &(String, Run))| {
        let mut there = 0_u64;
        let points = run.whole.results.seconds.iter().enumerate().map(|(at, second)| {
            there = there.saturating_add(second.came).saturating_sub(second.left);
            (float(at), count(there))
        });
        Line { name: name.clone(), colour, points: points.collect() }
    };
    Plot {
        title: "Players",
        x: "seconds since the start",
        lines: runs.iter().enumerate().map(line).collect(),
    }
}

/// The name and the points of a line.
type Named = (String, Vec<(f64, f64)>);

/// Latency by class: how many of a hundred requests were at least that fast.
fn distributions(runs: &[(String, Run)]) -> Vec<Plot<'static>> {
    let classes: BTreeSet<&String> =
        runs.iter().flat_map(|(_, run)| run.whole.results.requests.keys()).collect();
    let lines = |runs: &[(String, Run)], of: &dyn Fn(&Run) -> Vec<Named>| {
        let mut lines = Vec::new();
        for (name, run) in runs {
            for (class, points) in of(run) {
                let name = if runs.len() > 1 { format!("{name} {class}") } else { class };
                lines.push(Line { name, colour: lines.len(), points });
            }
        }
        lines
    };
    let latency = |run: &Run| -> Vec<Named> {
        let known =
            classes.iter().filter_map(|class| Some((*class, run.whole.results.requests.get(*class)?)));
        known.map(|(class, requests)| (class.clone(), cumulative(&requests.latency, 1000.0))).collect()
    };
    let startup =
        |run: &Run| vec![("start-up".to_owned(), cumulative(&run.whole.results.players.startup, 1e6))];
    let mut plots =
        vec![Plot { title: "Latency, ms, by part of the requests, %", x: "%", lines: lines(runs, &latency) }];
    if runs.iter().any(|(_, run)| run.whole.results.players.startup.count() > 0) {
        plots.push(Plot {
            title: "Start-up delay, s, by part of the players, %",
            x: "%",
            lines: lines(runs, &startup),
        });
    }
    plots
}

/// Values by the part of all, in percent, that are not above them.
fn cumulative(histogram: &Histogram, scale: f64) -> Vec<(f64, f64)> {
    let total = count(histogram.count().max(1));
    let mut below = 0_u64;
    let points = histogram.recorded().map(|(value, times)| {
        below += times;
        (count(below) / total * 100.0, count(value) / scale)
    });
    points.collect()
}

#[expect(clippy::cast_precision_loss, reason = "for people")]
fn count(number: u64) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "seconds of a day")]
fn float(number: usize) -> f64 {
    number as f64
}
