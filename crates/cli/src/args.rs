//! The command line.

use crate::version::VERSION;
use clap::{Parser, Subcommand};

/// Serve stored MP4 files as video on demand: HLS, DASH, Smooth Streaming and HDS.
///
/// Manifests and segments are made when players request them. Media is read from a folder, an HTTP
/// server or a bucket. Other commands prepare, inspect and test titles.
#[derive(Debug, Parser)]
#[command(version = VERSION, max_term_width = 100, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const EXAMPLES: &str = "\
Examples:
  latemux serve ./films          Serve a folder, with a player page at http://127.0.0.1:8080/
  latemux serve s3://bucket/vod  Serve a bucket
  latemux inspect film.mp4       Show what a file contains, and what is wrong with it
  latemux help load              Show the options of a command";

// The help text of a command is the doc comment of its flags. A doc comment of the variant would
// replace it.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Box<crate::serve_flags::ServeFlags>),
    Check(crate::check::Check),
    Health(crate::health::Health),
    Inspect(crate::inspect::Inspect),
    Index(crate::index::Index),
    Manifest(crate::manifest::Manifest),
    Pack(Box<crate::pack::Pack>),
    Thumbnails(crate::thumbnails::Thumbnails),
    Load(Box<crate::load::Load>),
    Capture(crate::capture::Capture),
    Restore(crate::restore::Restore),
    Keys(crate::keys::Keys),
    Report(crate::report::Report),
    Model(crate::model::Model),
    Lab(crate::lab::Lab),
    Completions(crate::manual::Completions),
    Man(crate::manual::Man),
}
