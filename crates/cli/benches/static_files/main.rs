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

mod arguments;
mod load;
mod media;
mod report;
mod rows;
mod servers;

use arguments::requested_rows;
use rows::{Bench, ROWS};
use std::{error::Error, path::Path};

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let names = ROWS.iter().map(|row| row.name);
    let Some(requested) = requested_rows(names, &["wrk", "taskset", "ffmpeg"])? else { return Ok(()) };
    let bench = Bench::new()?;
    let mut rows = Vec::new();
    for row in ROWS.iter().filter(|row| requested.contains(&row.name)) {
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
