//! Measures request–response streams beside the published model: `make bench-streams ROWS=quick`,
//! or `ROWS=full` for all cells, each in three rounds (592 cells, about 23 minutes on two cores).
//! `ROWS=storage` measures long reads of distant storage, and `ROWS=line` the throughput that the
//! simulated lines carry. `ROWS=stored` measures nothing and judges the measurements in
//! `docs/streams/`.
//!
//! Server and client are hosts with network namespaces of their own, between which a line has a
//! rate, a round-trip time, a queue and losses. The server is nginx, the client is that of
//! `latemux load --single`. Each measurement is printed and written to `bench/results/` as CSV.
//! Where the system does not permit namespaces, everything is skipped, and the reason printed.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot continue stops")]
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

mod cells;
mod judge;
mod line;
mod measure;
mod server;
mod storage;

use latemux_link::network::Enclosure;
use latemux_testmedia::process::tool;
use std::{fs, path::Path, process::ExitCode};

const ROWS: [&str; 5] = ["quick", "full", "storage", "line", "stored"];

fn main() -> ExitCode {
    let rows = std::env::var("ROWS").unwrap_or_default();
    let rows: Vec<&str> = rows.split_whitespace().collect();
    if let Some(unknown) = rows.iter().find(|row| !ROWS.contains(row)) {
        println!("no row '{unknown}'; there are: {}", ROWS.join(" "));
        return ExitCode::FAILURE;
    }
    // `cargo bench` of the workspace runs this too. It takes minutes, so it must be requested.
    if rows.is_empty() {
        println!("make bench-streams runs these rows: {}", ROWS.join(" "));
        return ExitCode::SUCCESS;
    }
    if rows == ["stored"] {
        return code(measure::judge_stored());
    }
    if tool("nginx").is_none() {
        println!("SKIPPED {} rows: nginx is not installed (make tools)", rows.len());
        return ExitCode::SUCCESS;
    }
    let enclosure = match Enclosure::enter() {
        Ok(enclosure) => enclosure,
        Err(why) => {
            println!("SKIPPED {} rows: {why}", rows.len());
            return ExitCode::SUCCESS;
        }
    };
    let passed = rows.iter().map(|row| match *row {
        "quick" => measure::run(&enclosure, &cells::quick(), 1),
        "full" => measure::run(&enclosure, &cells::full(), 3),
        "storage" => storage::run(&enclosure),
        "stored" => measure::judge_stored(),
        _ => line::run(&enclosure),
    });
    code(passed.fold(true, |all, passed| all & passed))
}

fn code(passed: bool) -> ExitCode {
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Writes a file of results over that of an earlier run.
fn keep(name: &str, text: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/results");
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join(format!("streams-{name}.csv"));
    fs::write(&path, text).unwrap();
    println!("{}", path.display());
}
