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
mod copied;
mod cores;
mod costs;
mod faulty_storage;
#[path = "../../tests/it/http2.rs"]
mod http2;
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
#[path = "../cache/rows.rs"]
mod rows;
mod silent;
mod slow;
mod spinning;
mod streams;
mod transfer;
mod ts_range;
mod under_attack;
mod viewer;

use media::Library;
use nginx::Nginx;
use origin::Origin;
use rows::{Row, measure};
use std::process::ExitCode;

/// Storage and its contents, shared by all rows.
struct Bench {
    nginx: Nginx,
    library: Library,
    /// Flags added to every `latemux serve`.
    with: Vec<String>,
}

impl Bench {
    /// Starts an origin on its processor, with a configuration and the flags for every origin.
    fn start(&self, storage: &str, config: &str, flags: &[&str]) -> Origin {
        let flags = flags.iter().map(|flag| (*flag).to_owned());
        let flags: Vec<String> = flags.chain(self.with.iter().cloned()).collect();
        cores::on_that_of_the_origin(|| Origin::start(storage, config, &flags))
    }
}

/// Names of the attacks, which docs/hostile.md describes.
const ROWS: [(&str, Row<Bench>); 17] = [
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
    ("ts_range", ts_range::run),
    ("pings", streams::pings),
    ("copied", copied::run),
    ("down", faulty_storage::down),
    ("killed", killed::run),
];

fn main() -> ExitCode {
    measure("hostile", &ROWS, &["nginx", "ffmpeg", "ss", "chrt"], |with| {
        assert!(cores::divide(), "the origin needs a processor of its own");
        let library = Library::make();
        let nginx = Nginx::start(library.root());
        // In production, storage has processors of its own too.
        priority::make_nice(nginx.id());
        Bench { nginx, library, with }
    })
}
