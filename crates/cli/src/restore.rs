//! `latemux restore`: makes a playable file from media segments that were cut off.

use crate::standard_output::say;
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use clap::Args as ClapArgs;
use latemux_packager::restore::{Restored, restore};
use latemux_storage::{Options, write::destination};
use std::{
    fs::File,
    io::Read,
    path::{Path, PathBuf},
};

/// Largest input in bytes. Fragments of more than 2 GiB cannot state the offsets of their samples.
const MAX_INPUT: u64 = 2 << 30;

/// Make a playable MP4 from a media segment that was cut off
///
/// The segment is one of DASH, or of HLS in CMAF. Whole samples are kept with their times, in
/// decode order; each lasts until the next one that was kept. A segment that was requested with
/// ?order=priority has the most important samples first, so that a cut removes the least important
/// frames first.
#[derive(Debug, ClapArgs)]
pub(crate) struct Restore {
    /// The segment, cut off anywhere, or several segments of a track joined into one file
    pub(crate) segment: PathBuf,
    /// The init segment of the track
    #[arg(long, value_name = "FILE")]
    pub(crate) init: PathBuf,
    /// Output: a path, or s3://…, gs://… or az://…
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: String,
}

/// Writes the file completely, or not at all.
pub(crate) fn run(flags: &Restore) -> Result<()> {
    let to = destination(&flags.output, &Options::default())?;
    let init = read(&flags.init)?;
    let segment = read(&flags.segment)?;
    let restored = restore(&init, &segment).with_context(|| flags.segment.display().to_string())?;
    let Restored { file, kept, lost, reduced } = restored;
    let size = file.len();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(to.put(file))?;
    let reduced = if reduced > 0 { format!(", {reduced} lack layers") } else { String::new() };
    say(&format!("{}: {size} bytes; {kept} samples, {lost} are missing{reduced}\n", flags.output))
}

fn read(path: &Path) -> Result<Bytes> {
    let failed = || format!("cannot read {}", path.display());
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAX_INPUT + 1).read_to_end(&mut bytes))
        .with_context(failed)?;
    if bytes.len() as u64 > MAX_INPUT {
        bail!("{}: larger than 2 GiB, which no segment is", path.display());
    }
    Ok(bytes.into())
}
