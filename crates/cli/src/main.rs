//! The `latemux` binary: serves titles that are stored once in the protocol of every player, and
//! has the tools around that.

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

/// Each segment allocates and frees frames of some hundred kilobytes. glibc returns such memory to
/// the kernel each time, and gets it back page by page, which was half the cost of a TS segment.
/// mimalloc keeps it for allocations of the same size only, which took a third of the caches'
/// budget. jemalloc reuses it for any size (docs/performance.md). `.cargo/config.toml` sets for how
/// long it is kept.
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
            #[expect(clippy::print_stderr, reason = "a command-line tool reports its error there")]
            {
                eprintln!("latemux: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}
