//! The time and the disk that a plan takes.

use super::Planned;
use crate::{
    bytes_per_second,
    content::Choice,
    experiment::{FORMAT, Layout, Title},
    function::{Function, starts},
    graph::{Graph, Node},
};
use latemux_quantity::TimeSpan;
use std::{collections::BTreeMap, time::Duration};

/// The time to start and stop the functions of a cell.
const OVERHEAD: Duration = Duration::from_secs(1);

/// The rate assumed where no link limits it, in bytes per second.
const UNLIMITED: u64 = 125_000_000;

/// The time that one run of a player takes.
const RUN: Duration = Duration::from_secs(2);

/// Copies of a title that the caches of a cell may hold: ranges, segments and temporary files.
const COPIES: u64 = 3;

/// The time and the disk that a plan takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Estimate {
    /// The time of the least number of repeats.
    pub time: Duration,
    /// The bytes on disk: titles, and the caches of one cell.
    pub disk: u64,
    /// The bytes of titles, which are a part of `disk`.
    pub titles: u64,
}

impl Estimate {
    /// Estimates the time and the disk of several experiments.
    pub fn of(plans: &[Planned]) -> Self {
        // Experiments may have one title in several lengths.
        let mut titles: BTreeMap<(&(String, Layout), u32), &Title> = BTreeMap::new();
        let mut time = Duration::ZERO;
        let mut cached = 0;
        for plan in plans {
            let largest = plan.titles.values().map(Title::bytes).max().unwrap_or(0);
            // The caches of origins are in memory.
            let cells = plan.cells.iter().filter(|cell| cell.graph.nodes().iter().any(keeps));
            let copies = cells.map(|cell| cell.graph.client().and_then(copies).unwrap_or(1)).max();
            let copies = copies.unwrap_or(0);
            cached = cached.max(largest * copies * COPIES);
            titles.extend(plan.titles.iter().map(|(name, title)| ((name, title.seconds), title)));
            let cells: Duration = plan.cells.iter().map(|cell| cell_time(&cell.graph, plan)).sum();
            time += cells.saturating_mul(plan.repeats.min);
        }
        let stored: u64 = titles.values().map(|title| title.bytes()).sum();
        // All lengths and layouts of a title share one encoding.
        let encoded: BTreeMap<&str, u64> =
            titles.iter().map(|(((name, _), _), title)| (&**name, title.encoded_bytes())).collect();
        let stored = stored + encoded.values().sum::<u64>();
        Self { time, disk: stored + cached, titles: stored }
    }
}

/// Returns true for a cache that keeps media. The others keep at most indexes, once for all copies.
fn keeps(node: &Node) -> bool {
    let mode = node.parameters.get("mode").map(String::as_str);
    node.function == Function::Cache && matches!(mode, Some("segments" | "exact" | "drop" | "blocks"))
}

/// Returns the number of copies of the title, if the experiment states it.
fn copies(client: &Node) -> Option<u64> {
    client.parameters.get("copies")?.parse().ok()
}

/// Estimates the time of one measurement.
fn cell_time(graph: &Graph, plan: &Planned) -> Duration {
    let rates = graph.nodes().iter().filter(|node| node.function == Function::Link);
    let rates = rates.filter_map(|link| link.parameters.get("rate")?.parse().ok());
    let rate = rates.map(bytes_per_second).min().unwrap_or(UNLIMITED).min(UNLIMITED);
    let Some(client) = graph.client() else { return OVERHEAD };
    let title = client.parameters.get("title");
    let title =
        plan.titles.iter().find(|((name, layout), _)| title == Some(&format!("{name}/{}", layout.name())));
    let passes = client.parameters.get("passes").and_then(|passes| passes.parse().ok());
    let passes = passes.or_else(|| copies(client)).unwrap_or(1);
    let lists =
        Choice::all(&client.parameters, client.parameters.get(FORMAT).map_or("", String::as_str)).len();
    let bytes = title.map_or(0, |(_, title)| title.highest()) * passes * lists as u64;
    let pass = bytes as f64 / rate as f64;
    let pass = Duration::from_secs_f64(pass);
    let span = |text: &str| text.parse::<TimeSpan>().ok().map(|span| span.0);
    let steps = client.parameters.get("steps").map(|steps| {
        steps.split_whitespace().filter_map(|step| span(step.split_once('/')?.1)).sum::<Duration>()
    });
    let stated = client.parameters.get("duration").and_then(|text| span(text)).or(steps);
    let own = match client.function {
        Function::Player => RUN.saturating_mul(starts(&client.parameters)),
        _ => stated.unwrap_or(pass),
    };
    let before = client.parameters.get("before").is_some_and(|before| before != "none");
    OVERHEAD + own + if before { pass } else { Duration::ZERO }
}
