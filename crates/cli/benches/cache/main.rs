//! Measures the goals of the caches from outside: `make bench-cache`, or some rows with
//! `make bench-cache ROWS="pairs crowd"`.
//!
//! Storage is nginx, which serves ranges of files and logs each request. All requests and bytes of
//! storage are counted in that log. The released binary runs between nginx and HTTP/1.1 clients
//! over TCP. For distant storage, a proxy of this project delays bytes
//! ([`latemux_testmedia::net`]), which needs no privileges. The media are made once with ffmpeg, at
//! real bit rates.
//!
//! Each row prints its measurement, the limit, and the verdict. The results are written to
//! `bench/results/` as JSON, with a description of the machine. The exit code is 1 if a limit does
//! not hold. `WITH="--cache-memory 0"` adds flags to every `latemux serve`, to see rows fail.

#![allow(clippy::unwrap_used, reason = "a measurement that cannot continue stops")]
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

mod catalogue;
#[path = "../../tests/it/client.rs"]
mod client;
mod connection;
mod counts;
#[path = "../../tests/it/crawl.rs"]
mod crawl;
mod crowd;
mod far;
mod media;
mod memory;
mod nginx;
mod origin;
mod report;
mod restart;

use latemux_testmedia::process::tool;
use media::Library;
use nginx::Nginx;
use report::Report;
use std::{cell::OnceCell, process::ExitCode, time::Instant};

/// Storage and its contents, shared by all rows.
struct Bench {
    nginx: Nginx,
    library: Library,
    titles: OnceCell<Vec<catalogue::Title>>,
    /// Flags added to every `latemux serve`.
    with: Vec<String>,
}

impl Bench {
    /// Returns the titles of the counting rows, with their segments.
    fn titles(&self) -> &[catalogue::Title] {
        self.titles.get_or_init(|| {
            // Another origin than the measured ones reads the manifests, without the flags of
            // `with`.
            let config = "[cache]\nmemory = \"0\"";
            let origin = origin::Origin::start(&self.nginx.location(), config, &[]);
            self.library.titles().iter().map(|title| catalogue::Title::of(&origin, title)).collect()
        })
    }

    fn origin(&self, config: &str) -> origin::Origin {
        origin::Origin::start(&self.nginx.location(), config, &self.with)
    }
}

type Row = fn(&Bench, &mut Report);

const ROWS: [(&str, Row); 11] = [
    ("requests", counts::requests),
    ("efficiency", counts::efficiency),
    ("random", counts::random),
    ("pairs", counts::pairs),
    ("bytes", counts::bytes),
    ("manifests", counts::manifests),
    ("crowd", crowd::run),
    ("restart", restart::run),
    ("memory", memory::run),
    ("far-manifest", far::manifest),
    ("far-segment", far::segment),
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
        println!("make bench-cache runs these rows: {}", names.join(" "));
        return ExitCode::SUCCESS;
    }
    if let Some(missing) = ["nginx", "ffmpeg"].into_iter().find(|name| tool(name).is_none()) {
        println!("none of the rows can be measured here: {missing} is not installed (make tools)");
        return ExitCode::FAILURE;
    }

    let library = Library::make();
    let nginx = Nginx::start(library.root());
    let bench = Bench { nginx, library, titles: OnceCell::new(), with: words("WITH") };
    let mut report = Report::new("cache", &bench.with);
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
