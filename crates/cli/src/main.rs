//! `latemux`: serve titles stored once in every player's protocol, and look into them.

mod args;
mod capture;
mod config;
mod index;
mod inspect;
mod load;
mod location;
mod log;
mod manifest;
mod open_files;
mod pack;
mod read_index;
mod report;
mod serve;
mod trust;

use clap::Parser;
use std::process::ExitCode;

/// Frames of some hundred kilobytes come and go with every segment. glibc gives such memory back to the kernel each time, which
/// hands it out again page by page: half of what a TS segment cost. mimalloc keeps it for what is of the same size, a third of the
/// caches' budget; jemalloc for whatever comes next (docs/performance.md). For how long is set in `.cargo/config.toml`.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let result = match args.command {
        args::Command::Serve(serve) => serve::run(&serve),
        args::Command::Inspect(inspect) => inspect::run(&inspect),
        args::Command::Index(index) => index::run(&index),
        args::Command::Manifest(manifest) => manifest::run(&manifest),
        args::Command::Pack(pack) => pack::run(&pack),
        args::Command::Load(load) => load::run(&load),
        args::Command::Capture(capture) => capture::run(&capture),
        args::Command::Report(report) => report::run(&report),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the last word of a command line tool")]
            {
                eprintln!("latemux: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}
