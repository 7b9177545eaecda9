//! As cheap as static files? `make bench`, or some rows of it: `make bench ROWS=dash,ts`.
//!
//! Debian's nginx sends the very bytes that `latemux serve` makes, as files made beforehand, with
//! sendfile. Both are kept to one core, the load to the other, in turn in the same run; compared is
//! what of the processor each used for each gigabyte, from /proc, as the median of the rounds'
//! ratios. Nothing is timed before every body was compared, byte for byte, with what the packager
//! says it is, put together with nothing between.
//!
//! No cache of finished segments is on in any row, and the list of URLs goes through all segments.

#![allow(clippy::print_stdout, reason = "a program for people")]
#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on should stop")]

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
    // `cargo test --benches` runs this too, to see that it compiles.
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
