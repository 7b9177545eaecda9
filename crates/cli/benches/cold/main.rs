//! Measures the first request for a title that nobody has asked for: `make bench-cold`.
//!
//! A library holds hard links of one file under many names, so the server indexes each of them
//! anew while their bytes are in the kernel's page cache. Each title is asked for once. Processor
//! time is that of all threads of the server, in nanoseconds from `/proc/PID/task/*/schedstat`,
//! from the request until the server is idle again. The value of a row is the median of its titles.
//! nginx-vod-module is not measured beside it: distributions do not package it.

#![allow(clippy::print_stdout, reason = "a benchmark prints")]
#![allow(clippy::unwrap_used, reason = "a measurement that cannot continue stops")]

#[path = "../static_files/arguments.rs"]
mod arguments;
mod client;
mod library;
#[path = "../static_files/report.rs"]
#[expect(dead_code, reason = "shared with the benchmark of static files, which uses all of it")]
mod report;
mod rows;
#[path = "../static_files/servers.rs"]
#[expect(dead_code, reason = "shared with the benchmark of static files, which uses all of it")]
mod servers;

use arguments::requested_rows;
use rows::ROWS;
use std::{error::Error, path::Path};

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let names = ROWS.iter().map(|row| row.name);
    let Some(requested) = requested_rows(names, &["taskset", "ffmpeg"])? else { return Ok(()) };
    let mut measured = Vec::new();
    for row in ROWS.iter().filter(|row| requested.contains(&row.name)) {
        match row.measure() {
            Ok(result) => {
                result.print();
                measured.push(result);
            }
            Err(error) => println!("{:12} not measured: {error}", row.name),
        }
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/results");
    println!("{}", report::keep(&measured, &folder.canonicalize().unwrap_or(folder))?);
    Ok(())
}
