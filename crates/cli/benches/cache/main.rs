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
mod rows;

use media::Library;
use nginx::Nginx;
use rows::{Row, measure};
use std::{cell::OnceCell, process::ExitCode};

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

const ROWS: [(&str, Row<Bench>); 11] = [
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
    measure("cache", &ROWS, &["nginx", "ffmpeg"], |with| {
        let library = Library::make();
        let nginx = Nginx::start(library.root());
        Bench { nginx, library, titles: OnceCell::new(), with }
    })
}
