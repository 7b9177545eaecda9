//! Compares the cost of responses with that of static files: `make bench`, or some rows with
//! `make bench ROWS=dash,ts`.
//!
//! Debian's nginx sends the same bytes as `latemux serve`, from files made beforehand, with
//! sendfile. Each server runs on one core, in turn in the same run, with the load on the other
//! core. The measure is the processor time for each gigabyte, from /proc, as the median of the
//! ratios of all rounds. Before any measurement, every body is compared byte for byte with the one
//! that the packager plans.
//!
//! No row uses a cache of finished segments, and the list of URLs holds all segments.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]
#![allow(clippy::unwrap_used, reason = "a measurement that cannot continue stops")]

mod load;
mod media;
mod report;
mod rows;
mod servers;

use rows::{Bench, ROWS};
use std::{env, error::Error, path::Path, process::Command};

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    // `cargo test --benches` runs this too, without measuring.
    if !arguments.iter().any(|argument| argument == "--bench") {
        return Ok(());
    }
    for tool in ["wrk", "taskset", "ffmpeg"] {
        if Command::new(tool).arg("-v").output().is_err() {
            println!("{tool} is not installed: make tools");
            return Ok(());
        }
    }
    let asked = arguments.iter().filter(|argument| !argument.starts_with('-'));
    let asked: Vec<&str> = asked.flat_map(|names| names.split(',')).filter(|name| !name.is_empty()).collect();
    if let Some(unknown) = asked.iter().find(|name| ROWS.iter().all(|row| row.name != **name)) {
        let names: Vec<_> = ROWS.iter().map(|row| row.name).collect();
        return Err(format!("no row {unknown}; there are {}", names.join(", ")).into());
    }
    let bench = Bench::new()?;
    let mut rows = Vec::new();
    for row in ROWS.iter().filter(|row| asked.is_empty() || asked.contains(&row.name)) {
        match (row.measure)(&bench, row.name) {
            Ok(measured) => {
                measured.iter().for_each(report::Row::print);
                rows.extend(measured);
            }
            Err(error) => println!("{:12} not measured: {error}", row.name),
        }
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/results");
    println!("{}", report::keep(&rows, &folder.canonicalize().unwrap_or(folder))?);
    Ok(())
}
