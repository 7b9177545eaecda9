//! Reading what an index is made of, and nothing else, with progress for whoever waits.

use anyhow::{Context, Result, bail};
use bytes::{Bytes, BytesMut};
use futures_util::{StreamExt, future::try_join_all};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use latemux_index::{
    MediaIndex,
    locate::{Locator, Step, limits::Limits, read_buffer::ObjectBytes},
};
use latemux_storage::{Key, Options, ReadRequest, Storage, StorageError, Version, Want, open_object};
use std::time::Duration;

/// Progress appears once something has taken this long.
const QUIET: Duration = Duration::from_millis(500);

/// A file that was read.
pub(crate) struct ReadIndex {
    pub(crate) locator: Locator,
    pub(crate) index: MediaIndex,
    /// Bytes read for it.
    pub(crate) bytes: u64,
}

/// How much of a file is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// What serving it would read.
    Index,
    /// Every sample.
    FullTables,
}

/// Reads a file or URL.
pub(crate) async fn read(source: &str, depth: Depth, options: &Options) -> Result<ReadIndex> {
    let (storage, key) = open_object(source, options)?;
    let mut locator = match depth {
        Depth::Index => Locator::new(Limits::default()),
        Depth::FullTables => Locator::for_full_tables(Limits::default().for_full_tables()),
    };
    let mut wants = vec![Want::Head(locator.first_reads(None).head)];
    let (mut version, mut bytes) = (None, 0);
    let bar = progress(source);
    loop {
        let reads = wants.iter().map(|want| fetch(&*storage, &key, want, version.as_ref()));
        let mut got = Vec::with_capacity(wants.len());
        for (read_version, piece) in try_join_all(reads).await.with_context(|| source.to_owned())? {
            version.get_or_insert(read_version);
            bytes += piece.bytes.len() as u64;
            got.push(piece);
        }
        let Some(size) = version.as_ref().map(|version| version.size) else {
            bail!("{source}: nothing to read")
        };
        let (next, step) = tokio::task::spawn_blocking(move || {
            let step = locator.step(size, got);
            (locator, step)
        })
        .await?;
        locator = next;
        bar.set_length(size);
        bar.set_position(locator.scanned());
        match step.with_context(|| source.to_owned())? {
            Step::Read(more) | Step::Scan(more) => wants = more.into_iter().map(Want::Range).collect(),
            Step::Done(index) => {
                bar.finish_and_clear();
                return Ok(ReadIndex { locator, index: *index, bytes });
            }
        }
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

async fn fetch(
    storage: &dyn Storage,
    key: &Key,
    want: &Want,
    pin: Option<&Version>,
) -> Result<(Version, ObjectBytes), StorageError> {
    let mut read = storage.read(ReadRequest::new(key, want.clone()).pinned_to(pin)).await?;
    let mut bytes = BytesMut::new();
    while let Some(frame) = read.body.next().await {
        bytes.extend_from_slice(&frame?);
    }
    Ok((read.object.version, ObjectBytes { offset: read.range.start, bytes: Bytes::from(bytes) }))
}
