//! `latemux`: serve titles stored once in every player's protocol, and look into them.

mod args;
mod config;
mod inspect;
mod log;
mod serve;

use clap::Parser;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args = args::Args::parse();
    let result = match args.command {
        args::Command::Serve(serve) => serve::run(&serve),
        args::Command::Inspect(inspect) => inspect::run(&inspect),
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
