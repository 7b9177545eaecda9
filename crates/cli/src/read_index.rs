//! Reads the index of a file or URL, with a progress bar.

use crate::location::error_at;
use anyhow::{Context, Error, Result, ensure};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use latemux_index::{
    MediaIndex,
    locate::{Locator, limits::Limits},
};
use latemux_origin::IndexReader;
use latemux_storage::{Options, Version, open_object};
use std::{path::Path, time::Duration};

/// Interval at which the progress bar is redrawn while nothing arrives.
const REDRAW_INTERVAL: Duration = Duration::from_millis(500);

/// Amount of a file that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The bytes that serving the file needs.
    Index,
    /// All sample tables.
    FullTables,
}

/// The index of a file, and the locator that found it.
pub(crate) struct ReadIndex {
    pub(crate) index: MediaIndex,
    /// The locator. It has all sample tables if they were read ([`Depth::FullTables`]).
    pub(crate) locator: Locator,
    /// Version of the file.
    pub(crate) version: Version,
    /// Number of bytes read.
    pub(crate) bytes: u64,
}

/// Reads the index of a file or URL.
pub(crate) async fn read(source: &str, depth: Depth, options: &Options) -> Result<ReadIndex> {
    ensure!(!Path::new(source).is_dir(), "{source} is a folder: name one media file");
    let (storage, key) = open_object(source, options)?;
    let mut reader = IndexReader::new(&*storage, &key, source.to_owned(), Limits::default());
    if depth == Depth::FullTables {
        reader = reader.for_full_tables();
    }
    let bar = progress(source);
    loop {
        let index = reader.step().await.map_err(|error| match error {
            // The error names the source already.
            latemux_origin::Error::Index { .. } => Error::from(error),
            _ => error_at(source, &key, &error),
        })?;
        if let Some(index) = index {
            bar.finish_and_clear();
            let version = reader.version().context("an index without a version")?.clone();
            return Ok(ReadIndex {
                index,
                version,
                bytes: reader.bytes_read(),
                locator: reader.into_locator(),
            });
        }
        bar.set_length(reader.version().map_or(0, |version| version.size));
        bar.set_position(reader.scanned());
    }
}

/// Returns a progress bar. It shows nothing unless standard error is a terminal.
pub(crate) fn progress(source: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(5));
    if let Ok(style) = ProgressStyle::with_template("{msg} {wide_bar} {bytes}/{total_bytes} {eta}") {
        bar.set_style(style);
    }
    bar.set_message(source.rsplit('/').next().unwrap_or(source).to_owned());
    bar.enable_steady_tick(REDRAW_INTERVAL);
    bar
}
