//! Compares the refined model with the measurements of the full sweep, which the documentation
//! draws.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use latemux_streams::model::{Link, Streams, refined};
use std::{collections::BTreeMap, fs, path::Path};

/// Largest deviation from the model.
const DEVIATION: f64 = 0.15;

/// Returns the goodput by the refined model of each cell without loss and without other downloads,
/// as the median of its rounds, with the congestion control.
fn ratios() -> Vec<(String, f64)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/streams/measurements.csv");
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap().split(',').collect();
    let mut cells: BTreeMap<String, (Link, Streams, String, Vec<f64>)> = BTreeMap::new();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        let text = |name| fields[header.iter().position(|column| *column == name).unwrap()];
        let number = |name| text(name).parse::<f64>().unwrap();
        // A chunk of 16 MB is a plain download.
        let is_plain = text("chunk_bytes") == "16000000";
        if is_plain || number("loss_permille") > 0.0 || number("competing") > 0.0 {
            continue;
        }
        let link = Link {
            bandwidth: number("rate_kbit_s") * 125.0,
            rtt: number("rtt_ms") / 1e3,
            queue: number("queue_ms") / 1e3,
            loss: 0.0,
        };
        let streams =
            Streams { count: number("streams"), chunk: number("chunk_bytes"), gap: number("gap_ms") / 1e3 };
        let cell = format!("{:?}", &fields[..9]);
        let cell = cells.entry(cell).or_insert((link, streams, text("congestion").to_owned(), Vec::new()));
        cell.3.push(number("goodput_kbit_s") * 125.0);
    }
    let ratio = |(link, streams, congestion, mut rounds): (Link, Streams, String, Vec<f64>)| {
        rounds.sort_by(f64::total_cmp);
        (congestion, rounds[rounds.len() / 2] / refined::rate(&link, &streams))
    };
    cells.into_values().map(ratio).collect()
}

#[test]
fn the_refined_model_is_near_the_measurements_without_loss() {
    let ratios = ratios();
    let near = |congestion: &str| {
        let of = ratios.iter().filter(|(name, _)| name == congestion).map(|(_, ratio)| ratio - 1.0);
        (of.clone().filter(|deviation| deviation.abs() <= DEVIATION).count(), of.count())
    };
    // The queue overflows under Reno, which the model leaves out.
    assert_eq!((near("cubic"), near("reno")), ((32, 32), (25, 32)), "{ratios:?}");
}
