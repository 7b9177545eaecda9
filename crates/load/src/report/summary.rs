//! The summary of a run, for the terminal.

use super::stream_notes::stream_notes;
use crate::{
    results::{Histogram, Requests, Results, Run, StepResults, generator, generator_notes},
    usage::HostRecord,
};
use std::fmt::Write as _;

/// Returns the results of a run as tables and sentences.
pub fn summary(run: &Run) -> String {
    let part = &run.whole;
    let results = &part.results;
    let mut out = String::new();
    let mut rows =
        vec![["requests", "count", "failed", "MB", "mean ms", "p50", "p90", "p99", "max"].map(str::to_owned)];
    rows.extend(results.requests.iter().map(|(class, requests)| row(class, requests)));
    if results.requests.len() > 1 {
        rows.push(row("all", &results.total()));
    }
    table(&mut out, &rows);
    let players = &results.players;
    if players.started > 0 {
        let mut rows =
            vec![["players", "count", "", "", "mean", "p50", "p90", "p99", "max"].map(str::to_owned)];
        rows.push(seconds("start-up s", &players.startup));
        rows.push(seconds("stalls s", &players.stalls));
        if players.seeks.count() > 0 {
            rows.push(seconds("seeks s", &players.seeks));
        }
        rows.push(scaled("bit rate Mbit/s", &players.bitrate, 2, |rate| rate / 1e6));
        rows.push(scaled("quality -1…1", &players.quality, 2, |value| value / 1000.0 - 1.0));
        out.push('\n');
        table(&mut out, &rows);
        let _ = writeln!(
            out,
            "\nplayers: {} started, {} finished, {} gave up, {} still playing at the end; {:.0} s played, {} changes of rendition",
            players.started,
            players.finished,
            players.failed,
            players.stopped,
            players.shown as f64 / 1e6,
            players.switches,
        );
    }
    steps(&mut out, &results.steps);
    let total = results.total();
    let took = part.took.max(1) as f64 / 1000.0;
    let _ = writeln!(
        out,
        "{took:.1} s, {:.0} requests/s, {:.1} Mbit/s over {} connections; {}",
        total.count as f64 / took,
        total.bytes as f64 * 8.0 / 1e6 / took,
        part.connections,
        generator(part),
    );
    streams(&mut out, results);
    for (name, record) in &part.hosts {
        let _ = writeln!(out, "{name}: {}", host(record));
    }
    for (reason, count) in &total.errors {
        let example = part.examples.get(reason).and_then(|details| details.first());
        let example = example.map(|example| format!(": {example}")).unwrap_or_default();
        let _ = writeln!(out, "failed: {reason} {count}{example}");
    }
    for note in generator_notes(part).iter().chain(&run.notes) {
        let _ = writeln!(out, "note: {note}");
    }
    out
}

/// Writes a table of the plateaus of steps, if there are any.
fn steps(out: &mut String, steps: &[StepResults]) {
    if steps.is_empty() {
        return;
    }
    let mut rows = vec![
        ["steps", "level", "failed", "Mbit/s", "requests/s", "p50 ms", "p90", "p99", "max"]
            .map(str::to_owned),
    ];
    for (number, step) in (1..).zip(steps) {
        let requests = &step.requests;
        let seconds = step.until.saturating_sub(step.from).max(1) as f64 / 1000.0;
        let mut row = scaled(&number.to_string(), &requests.latency, 1, |micros| micros / 1000.0);
        row[1] = step.level.to_string();
        row[2] = requests.failed().to_string();
        row[3] = format!("{:.1}", requests.bytes as f64 * 8.0 / 1e6 / seconds);
        row[4] = format!("{:.1}", requests.count as f64 / seconds);
        rows.push(row);
    }
    out.push('\n');
    table(out, &rows);
}

/// Writes the measurements of request–response streams and of plain downloads, if there are any.
fn streams(out: &mut String, results: &Results) {
    let Results { streams, competing, .. } = results;
    let times = &streams.chunk_times;
    let millis = |micros: u64| micros as f64 / 1000.0;
    let megabits = |rate: Option<f64>| rate.unwrap_or(0.0) * 8.0 / 1e6;
    if streams.requests > 0 {
        let _ = writeln!(
            out,
            "streams: {} for each player over HTTP/1.1, {} connections opened; {:.3} Mbit/s while fetching; {} chunks in {:.0} ms (p50; p99 {:.0} ms), {} timed out; {:.1} MB duplicated; {} of {} truncated, which lack {:.1} MB",
            streams.streams,
            streams.opened,
            megabits(streams.rate()),
            times.count(),
            millis(times.quantile(0.5)),
            millis(times.quantile(0.99)),
            streams.timeouts,
            streams.duplicated as f64 / 1e6,
            streams.truncated,
            streams.resources,
            streams.missing as f64 / 1e6,
        );
    }
    if competing.downloads > 0 {
        let ratio = results.fairness().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        let _ = writeln!(
            out,
            "competing downloads: {}, with {:.3} Mbit/s each; one player had {:.3} Mbit/s while fetching; fairness ratio {ratio} (1 is fair)",
            competing.downloads,
            megabits(competing.rate()),
            megabits(results.rate()),
        );
    }
    for note in stream_notes(streams) {
        let _ = writeln!(out, "note: {note}");
    }
}

/// Returns the resources that a machine used, in words.
fn host(record: &HostRecord) -> String {
    let totals = record.totals();
    format!(
        "{:.0} % of {} cores, at most {:.0} MB of memory and {} TCP sockets; {} connections opened, {} segments sent again, {:.1} MB received and {:.1} MB sent",
        totals.cpu * 100.0,
        record.cores,
        totals.memory as f64 / 1e6,
        totals.sockets,
        totals.opened,
        totals.retransmits,
        totals.received as f64 / 1e6,
        totals.sent as f64 / 1e6,
    )
}

fn row(class: &str, requests: &Requests) -> [String; 9] {
    let mut row = scaled(class, &requests.latency, 1, |micros| micros / 1000.0);
    row[1] = requests.count.to_string();
    row[2] = requests.failed().to_string();
    row[3] = format!("{:.1}", requests.bytes as f64 / 1e6);
    row
}

fn seconds(name: &str, histogram: &Histogram) -> [String; 9] {
    scaled(name, histogram, 2, |micros| micros / 1e6)
}

/// Returns a row of a histogram: its name, count and values, which have `decimals` decimal places.
fn scaled(name: &str, histogram: &Histogram, decimals: usize, scale: impl Fn(f64) -> f64) -> [String; 9] {
    let empty = histogram.count() == 0;
    let shown = |value: f64| if empty { "-".to_owned() } else { format!("{:.decimals$}", scale(value)) };
    [
        name.to_owned(),
        histogram.count().to_string(),
        String::new(),
        String::new(),
        shown(histogram.mean()),
        shown(histogram.quantile(0.5) as f64),
        shown(histogram.quantile(0.9) as f64),
        shown(histogram.quantile(0.99) as f64),
        shown(histogram.max() as f64),
    ]
}

/// Writes columns as wide as their content. The first one is aligned to the left.
pub(super) fn table<const COLUMNS: usize>(out: &mut String, rows: &[[String; COLUMNS]]) {
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    for row in rows {
        for (column, cell) in row.iter().enumerate() {
            let width = width(column);
            let _ = if column == 0 { write!(out, "{cell:<width$}") } else { write!(out, "  {cell:>width$}") };
        }
        out.push('\n');
    }
}
