//! `latemux manifest`: writes a server manifest of the tracks in some files.

use crate::{
    location::relative,
    read_index::{Depth, read},
    standard_output::say,
    storage_flags::StorageFlags,
};
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use latemux_index::title::refusal;
use latemux_origin::relative_url;
use latemux_packager::manifest::server::{MAX_BYTES, ManifestTrack, parse, write};
use latemux_storage::write::destination;

/// Write a server manifest (.ism), which makes one title of several files
#[derive(Debug, Args)]
pub(crate) struct Manifest {
    /// Output: title.ism, or s3://…, gs://… or az://…
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: String,
    /// Media files or index MP4s, in the folder of the manifest or below it
    #[arg(required = true, value_name = "FILE")]
    pub(crate) sources: Vec<String>,
    #[command(flatten)]
    pub(crate) storage: StorageFlags,
}

/// Writes the manifest completely, or not at all.
pub(crate) fn run(flags: &Manifest) -> Result<()> {
    let options = flags.storage.options();
    let to = destination(&flags.output, &options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut files = Vec::new();
        for source in &flags.sources {
            let path = relative(&flags.output, source)?.with_context(|| {
                format!(
                    "{source}: not in the folder of {} or below it, so servers would not find it",
                    flags.output
                )
            })?;
            let index = read(source, Depth::Index, &options).await?.index;
            for problem in &index.left_out {
                warn(&format!("{source}: left out: {problem}"));
            }
            // A file of thumbnails alone belongs to the other files.
            let is_pictures = index.tracks.is_empty() && !index.thumbnails.is_empty();
            if let Some(error) = refusal(std::iter::once(&index)).filter(|_| !is_pictures) {
                bail!("{source}: {error}");
            }
            files.push((relative_url(&path), index));
        }
        let tracks: Vec<ManifestTrack<'_>> = files
            .iter()
            .flat_map(|(src, index)| {
                let pictures = index.thumbnails.iter().map(|of| &of.track);
                index.tracks.iter().chain(pictures).map(|track| ManifestTrack { src, track })
            })
            .collect();
        let text = write(&tracks);
        ensure!(text.len() <= MAX_BYTES, "a manifest of {} bytes is larger than servers accept", text.len());
        parse(text.as_bytes()).context("servers would not accept the manifest")?;
        to.put(text.into()).await?;
        say(&format!("{}: {} tracks of {} files\n", flags.output, tracks.len(), files.len()))
    })
}

/// Prints a warning on standard error.
#[expect(clippy::print_stderr, reason = "warnings of a command-line tool belong there")]
pub(crate) fn warn(text: &str) {
    eprintln!("latemux: {text}");
}
