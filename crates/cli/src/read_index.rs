//! Reads the index of a file or URL, with a progress bar.

use anyhow::{Error, Result};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use latemux_index::locate::Limits;
use latemux_origin::{IndexReader, IndexStep, ReadIndex};
use latemux_storage::{Options, open_object};
use std::time::Duration;

/// Time after which the progress bar appears.
const QUIET: Duration = Duration::from_millis(500);

/// Amount of a file that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The bytes that serving the file needs.
    Index,
    /// All sample tables.
    FullTables,
}

/// Reads the index of a file or URL.
pub(crate) async fn read(source: &str, depth: Depth, options: &Options) -> Result<ReadIndex> {
    let (storage, key) = open_object(source, options)?;
    let new = match depth {
        Depth::Index => IndexReader::new,
        Depth::FullTables => IndexReader::for_full_tables,
    };
    let mut reader = new(&*storage, &key, source.to_owned(), Limits::default());
    let bar = progress(source);
    loop {
        let step = reader.step().await.map_err(|error| match error {
            // It names the source already.
            error @ latemux_origin::Error::Index { .. } => Error::from(error),
            error => Error::from(error).context(source.to_owned()),
        })?;
        reader = match step {
            IndexStep::Read(next) | IndexStep::Scan(next) => next,
            IndexStep::Done(read) => {
                bar.finish_and_clear();
                return Ok(*read);
            }
        };
        bar.set_length(reader.version().map_or(0, |version| version.size));
        bar.set_position(reader.scanned());
    }
}

/// A bar on the terminal; nothing where standard error is none.
pub(crate) fn progress(source: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}") {
        bar.set_style(style);
    }
    bar.set_message(source.rsplit('/').next().unwrap_or(source).to_owned());
    bar.enable_steady_tick(QUIET);
    bar
}
