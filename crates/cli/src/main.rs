//! The binary `latemux`: the server, and tools that prepare, inspect and test titles.

mod address;
mod args;
mod cache_folder;
mod captions;
mod capture;
mod check;
mod config;
mod disk_space;
mod health;
mod index;
mod inspect;
mod keys;
mod lab;
mod load;
mod location;
mod log;
mod manifest;
mod manual;
mod model;
mod open_files;
mod pack;
mod read_index;
mod reload;
mod report;
mod restore;
mod serve;
mod serve_flags;
mod signals;
mod standard_output;
mod storage_flags;
mod thumbnails;
mod trust;
mod version;
mod work_threads;

use clap::Parser;
use std::{io, process::ExitCode};

/// Each segment allocates and frees frames of some hundred kilobytes. glibc returns such memory to
/// the kernel at each release and gets it back page by page, which was half the cost of a TS
/// segment. mimalloc reuses it only for allocations of the same size, which took a third of the
/// caches' budget. jemalloc reuses it for any size (docs/performance.md). `.cargo/config.toml` sets
/// how long jemalloc keeps it.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let result = match args.command {
        args::Command::Serve(serve) => serve::run(&serve),
        args::Command::Check(check) => check::run(&check),
        args::Command::Health(health) => health::run(&health),
        args::Command::Inspect(inspect) => inspect::run(&inspect),
        args::Command::Index(index) => index::run(&index),
        args::Command::Manifest(manifest) => manifest::run(&manifest),
        args::Command::Pack(pack) => pack::run(&pack),
        args::Command::Thumbnails(thumbnails) => thumbnails::run(&thumbnails),
        args::Command::Load(load) => load::run(&load),
        args::Command::Lab(lab) => lab::run(&lab),
        args::Command::Capture(capture) => capture::run(&capture),
        args::Command::Restore(restore) => restore::run(&restore),
        args::Command::Keys(keys) => keys::run(&keys),
        args::Command::Report(report) => report::run(&report),
        args::Command::Model(model) => model::run(&model),
        args::Command::Completions(completions) => manual::write_completions(&completions),
        args::Command::Man(man) => manual::write_pages(&man),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has what it wanted, as `head` has after some lines.
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "a command-line tool reports its error there")]
            {
                eprintln!("latemux: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}

/// Returns true if the program that reads our standard output has closed it.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
