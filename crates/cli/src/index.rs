//! `latemux index`: writes an index MP4 for a file. Reads only the headers of the file, unless the
//! index MP4 also states cuts.

use crate::{
    location::{error_at, relative},
    read_index::{Depth, progress, read},
    standard_output::say,
    storage_flags::StorageFlags,
};
use anyhow::{Context, Result, bail};
use bytes::Bytes;
use clap::Args;
use latemux_index::title::refusal;
use latemux_origin::{CutBoxMade, Error, MediaOfIndex, make_cut_box, relative_url};
use latemux_storage::{Options, Version, open_object, write::destination};

/// Write an index MP4: a small file that makes the first request for a title fast
///
/// An index MP4 holds the sample tables of a media file, and points at the media. Servers use these
/// tables instead of the media file's own.
#[derive(Debug, Args)]
pub(crate) struct Index {
    /// Path or URL of the media file: ./movie.mp4, https://…, s3://bucket/movie.mp4
    pub(crate) source: String,
    /// Output: a path, or s3://…, gs://… or az://… [default: movie.index.mp4 beside the file]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<String>,
    /// Path or URL of the media, to be written into the index MP4. Needed if the media is not in
    /// the folder of the index MP4 or below it. Servers must then allow this location
    /// (`sources.allow`)
    #[arg(long, value_name = "URL")]
    pub(crate) location: Option<String>,
    /// Also state where the slices of the video begin, so that servers can encrypt a segment
    /// without reading it first. Reads all video of the file; adds 5 to 10 bytes for each frame
    #[arg(long)]
    pub(crate) cuts: bool,
    #[command(flatten)]
    pub(crate) storage: StorageFlags,
}

/// Writes the index MP4 completely, or not at all.
pub(crate) fn run(flags: &Index) -> Result<()> {
    let options = flags.storage.options();
    let output = flags.output.clone().unwrap_or_else(|| default_output(&flags.source));
    let (location, path) = match &flags.location {
        Some(location) => (location.clone(), None),
        None => match relative(&output, &flags.source)? {
            Some(path) => (relative_url(&path), Some(path)),
            None => bail!(
                "{}: not in the folder of {output} or below it; give its location with --location, and allow \
                 that location in the configuration of servers",
                flags.source
            ),
        },
    };
    if path.as_deref().is_some_and(|path| output.rsplit('/').next() == Some(path)) {
        bail!("{output} is the media file itself");
    }
    let to = destination(&output, &options)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let source = read(&flags.source, Depth::FullTables, &options).await?;
        let tables = source.locator.full_tables().context("no sample tables were read")?;
        if let Some(error) = refusal(std::iter::once(&source.index)) {
            bail!("{}: {error}", flags.source);
        }
        let mut file = tables.index_file(&location, path.as_deref()).with_context(|| flags.source.clone())?;
        let mut bytes_read = source.bytes;
        let mut of_cuts = String::new();
        if flags.cuts {
            let made = cut_box(&flags.source, &source.version, &file, &options).await?;
            bytes_read += made.bytes_read;
            of_cuts = format!("; the cuts of {} frames take {} bytes", made.samples, made.bytes.len());
            if made.unknown > 0 {
                of_cuts += &format!(", and the slices of {} more were not found", made.unknown);
            }
            file = [&*file, &made.bytes].concat().into();
        }
        let size = file.len();
        to.put(file).await?;
        say(&format!(
            "{output}: {size} bytes for {} bytes of {}, of which {bytes_read} were read{of_cuts}\n",
            source.index.object_size, flags.source
        ))
    })
}

/// Reads all video of a file and returns the box with its cuts.
async fn cut_box(source: &str, version: &Version, file: &Bytes, options: &Options) -> Result<CutBoxMade> {
    let (storage, key) = open_object(source, options)?;
    let media = MediaOfIndex { storage: &*storage, key: &key, version, name: source };
    let bar = progress(source);
    bar.set_length(version.size);
    let made = make_cut_box(media, file, |bytes| bar.set_position(bytes)).await;
    bar.finish_and_clear();
    made.map_err(|error| match error {
        Error::Index { .. } => error.into(),
        _ => error_at(source, &key, &error),
    })
}

/// Returns the name of the index MP4 beside a file: `movie.index.mp4` for `movie.mp4`.
fn default_output(source: &str) -> String {
    let source = source.split(['?', '#']).next().filter(|_| source.contains("://")).unwrap_or(source);
    let (folder, name) = source.rsplit_once('/').map_or(("", source), |(folder, name)| (folder, name));
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| if stem.is_empty() { name } else { stem });
    let slash = if folder.is_empty() && !source.starts_with('/') { "" } else { "/" };
    format!("{folder}{slash}{stem}.index.mp4")
}

#[cfg(test)]
mod tests {
    use super::default_output;

    #[test]
    fn the_index_is_written_beside_the_media() {
        assert_eq!(default_output("movie.mp4"), "movie.index.mp4");
        assert_eq!(default_output("/movie.mp4"), "/movie.index.mp4");
        assert_eq!(default_output("a.b/movie"), "a.b/movie.index.mp4");
        assert_eq!(default_output("s3://b/d/movie.x.cmfv"), "s3://b/d/movie.x.index.mp4");
    }
}
