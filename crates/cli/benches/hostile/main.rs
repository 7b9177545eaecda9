//! Measures what hostile clients, files and storage cost: `make bench-hostile`, or some rows with
//! `make bench-hostile ROWS="silent"`.
//!
//! Each row attacks the released binary, with the limits it has by default, beside one normal
//! viewer. It measures the peak of the memory that the process holds and of the memory that its
//! sockets hold in the kernel, processor time, requests to storage, and the 99th percentile of the
//! viewer's response times beside the attack and alone. Storage is nginx, which logs each request.
//!
//! Each measurement is printed with its limit and the verdict, and written to `bench/results/`. The
//! exit code is 1 if a limit does not hold. `WITH="--cache-memory 64MiB"` adds flags to every
//! `latemux serve`.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot continue stops")]
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

#[path = "../../tests/it/client.rs"]
#[allow(dead_code, reason = "the bench of the caches uses more of it")]
mod client;
#[path = "../cache/connection.rs"]
#[allow(dead_code, reason = "the bench of the caches uses more of it")]
mod connection;
mod costs;
mod faulty_storage;
mod killed;
mod media;
#[path = "../cache/nginx.rs"]
#[allow(dead_code, reason = "the bench of the caches uses more of it")]
mod nginx;
#[path = "../cache/origin.rs"]
#[allow(dead_code, reason = "the bench of the caches uses more of it")]
mod origin;
mod priority;
mod repeated;
#[path = "../cache/report.rs"]
#[allow(dead_code, reason = "the bench of the caches uses more of it")]
mod report;
mod silent;
mod slow;
mod spinning;
mod streams;
mod transfer;
mod under_attack;
mod viewer;

use latemux_testmedia::process::tool;
use media::Library;
use nginx::Nginx;
use report::Report;
use std::{process::ExitCode, time::Instant};

/// Storage and its contents, shared by all rows.
struct Bench {
    nginx: Nginx,
    library: Library,
    /// Flags added to every `latemux serve`.
    with: Vec<String>,
}

type Row = fn(&Bench, &mut Report);

/// Names of the attacks, which docs/hostile.md describes.
const ROWS: [(&str, Row); 13] = [
    ("spinning", spinning::run),
    ("silent", silent::run),
    ("faulty_storage", faulty_storage::run),
    ("joined", slow::joined),
    ("streams", streams::run),
    ("small_cache", slow::small_cache),
    ("no_cache", slow::no_cache),
    ("cold", slow::cold),
    ("idle", slow::idle),
    ("clips", repeated::clips),
    ("files", repeated::files),
    ("unknown", repeated::unknown),
    ("killed", killed::run),
];

fn main() -> ExitCode {
    let names: Vec<&str> = ROWS.iter().map(|(name, _)| *name).collect();
    let words = |variable: &str| -> Vec<String> {
        let text = std::env::var(variable).unwrap_or_default();
        text.split_whitespace().map(str::to_owned).collect()
    };
    let chosen = words("ROWS");
    if let Some(unknown) = chosen.iter().find(|name| *name != "all" && !names.contains(&name.as_str())) {
        println!("no row '{unknown}'; there are: {}", names.join(" "));
        return ExitCode::FAILURE;
    }
    // `cargo bench` of the workspace runs this too. It takes minutes, so it must be requested.
    if chosen.is_empty() {
        println!("make bench-hostile runs these rows: {}", names.join(" "));
        return ExitCode::SUCCESS;
    }
    if let Some(missing) = ["nginx", "ffmpeg", "ss", "chrt"].into_iter().find(|name| tool(name).is_none()) {
        println!("none of the rows can be measured here: {missing} is not installed (make tools)");
        return ExitCode::FAILURE;
    }

    let library = Library::make();
    let nginx = Nginx::start(library.root());
    // In the world, storage has processors of its own too.
    priority::make_give_way(nginx.id());
    let bench = Bench { nginx, library, with: words("WITH") };
    let mut report = Report::new("hostile", &bench.with);
    for (name, run) in ROWS {
        if chosen.iter().any(|row| row == name || row == "all") {
            let begun = Instant::now();
            report.row(name);
            run(&bench, &mut report);
            println!("  ({name}: {:.1} s)", begun.elapsed().as_secs_f64());
        }
    }
    if report.finish() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
