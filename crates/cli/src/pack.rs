//! `latemux pack`: writes a title as files of the segments that `serve` sends.

mod choice;
mod write;

use crate::{
    config::Config,
    location::{error_at, relative},
    manifest::warn,
    read_index::progress,
    signals::stop_signal,
    standard_output::say,
    storage_flags::StorageFlags,
};
use anyhow::{Context, Result, anyhow, ensure};
use choice::{Job, jobs};
use clap::Args;
use indicatif::ProgressBar;
use latemux_origin::{LoadedTitle, Origin, OriginConfig, check_keys};
use latemux_quantity::TimeSpan;
use latemux_storage::{
    Key, Storage,
    write::{Writer, destination},
};
use std::{cell::Cell, path::PathBuf, sync::Arc, time::Duration};

/// Longest time to index a title. The user sees progress, and can stop it.
const LOAD_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// A title that is being packed.
struct Packing {
    origin: Origin,
    title: Arc<LoadedTitle>,
    bar: ProgressBar,
}

/// Write a title as CMAF files, or as one ismv file
///
/// The files hold the same segments that `serve` sends for the same target duration, and an index
/// of them: CMAF track files (ftyp, moov, sidx, segments), or with --ismv one file of Smooth
/// Streaming fragments (ftyp, moov, fragments, mfra).
///
/// A CMAF file holds one track. An output named .cmfv, .cmfa or .cmft takes the video, audio or
/// text track of its source. If there are several such tracks, choose one with --track, or write
/// one file for each: `-o out/` names the files after their tracks and bit rates
/// (out/video-1200k.cmfv, out/audio_eng-128k.cmfa), and `-o 'out/film-{track}.{ext}'` follows the
/// given pattern. An ismv file holds all tracks that Smooth Streaming can carry.
///
/// An output file appears only when it is complete. Several files appear together at the end.
#[derive(Debug, Args)]
pub(crate) struct Pack {
    /// Path or URL of a title: a media file, an index MP4, a server manifest (.ism), or a folder of
    /// files that play together. With --config, the base of the title in URLs, such as films/a.mp4
    pub(crate) source: String,
    /// Configuration file (TOML). The title is written as `serve` would send it: from the
    /// `source` of this configuration, and encrypted if a `[[drm]]` rule matches it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Output: a path, or s3://…, gs://… or az://…. With {track} or a final `/`, there is
    /// one file for each track
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: String,
    /// Target duration of segments. A segment begins at the first sync sample at or after each
    /// multiple of this duration [default: that of the configuration, or else 4s]
    #[arg(long, value_name = "DURATION")]
    pub(crate) fragment: Option<TimeSpan>,
    /// Write one Smooth Streaming file of all tracks, with tfxd and mfra
    #[arg(long)]
    pub(crate) ismv: bool,
    /// Write only this track: video, audio or text, or its name in URLs (audio_eng, video=1200000);
    /// can be repeated
    #[arg(long, value_name = "TRACK")]
    pub(crate) track: Vec<String>,
    /// Path or `host[:port]` that an index MP4 or server manifest may point to, besides its own
    /// folder; can be repeated
    #[arg(long, value_name = "PLACE")]
    pub(crate) allow: Vec<String>,
    #[command(flatten)]
    pub(crate) storage: StorageFlags,
}

/// Writes all files, or none.
pub(crate) fn run(flags: &Pack) -> Result<()> {
    let mut config = flags.config.as_deref().map_or_else(|| Ok(Config::default()), Config::read)?;
    flags.storage.apply(&mut config.storage);
    let origin = &mut config.origin;
    origin.load_timeout = LOAD_TIMEOUT;
    origin.any_extension = flags.config.is_none();
    origin.sources.allow.extend_from_slice(&flags.allow);
    origin.sources.check().map_err(|why| anyhow!("--allow: {why}"))?;
    if let Some(fragment) = flags.fragment {
        // The same limits apply to `serve`, so that a packed title can be served on the same grid.
        ensure!(
            OriginConfig::SEGMENT_DURATIONS.contains(&fragment.0),
            "--fragment must be between 100ms and 10m, not {fragment}"
        );
        origin.segment_duration = fragment.0;
    }
    config.check()?;
    check_keys(&config.origin).map_err(anyhow::Error::msg)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    say(&runtime.block_on(pack(flags, config))?)
}

/// Opens the storage of a title, and returns the base of the title in it.
fn open(flags: &Pack, config: &Config) -> Result<(Arc<dyn Storage>, Key)> {
    let title = flags.source.trim_end_matches('/');
    if flags.config.is_none() {
        return Ok(latemux_storage::open::open_object(title, &config.storage)?);
    }
    let from = config.source.as_deref().context("the configuration names no source")?;
    let key = Key::new(title).with_context(|| format!("{title} is not a title below {from}"))?;
    Ok((latemux_storage::open_mirrored(from, &config.storage)?, key))
}

async fn pack(flags: &Pack, config: Config) -> Result<String> {
    let stop = stop_signal()?;
    tokio::pin!(stop);
    let options = config.storage.clone();
    let source = flags.source.trim_end_matches('/');
    let (storage, key) = open(flags, &config)?;
    let origin = Origin::new(storage, config.origin);
    let bar = progress(&flags.source);
    let title = tokio::select! {
        title = origin.title(key.as_str()) => title.map_err(|error| error_at(source, &key, &error))?,
        () = &mut stop => return Err(anyhow!("stopped: nothing was written")),
    };
    for problem in title.title.problems() {
        warn(&format!("{}: {}: {}", flags.source, problem.reason, problem.detail));
    }

    let (jobs, left_out) = jobs(&title.title, flags)?;
    left_out.iter().for_each(|why| warn(&format!("{}: left out: {why}", flags.source)));
    for job in &jobs {
        // Writing over the source would destroy it.
        let same = relative(&job.output, source).ok().flatten();
        ensure!(job.output.rsplit('/').next() != same.as_deref(), "{} is the source itself", job.output);
    }

    let packing = Packing { origin, title, bar };
    let folder = Folder::create(&flags.output)?;
    let mut writers: Vec<Writer> = Vec::new();
    let written = tokio::select! {
        written = write_all(&packing, &jobs, &options, &mut writers) => written,
        () = &mut stop => Err(anyhow!("stopped: nothing was written")),
    };
    packing.bar.finish_and_clear();
    match written {
        Ok(report) => {
            for (writer, job) in writers.into_iter().zip(&jobs) {
                writer.commit().await.with_context(|| job.output.clone())?;
                folder.keep();
            }
            Ok(report)
        }
        Err(error) => {
            for writer in writers {
                writer.discard().await;
            }
            Err(error)
        }
    }
}

/// Writes the contents of all files, one after the other, and returns a report. The files appear
/// under their names when the writers are committed.
async fn write_all(
    packing: &Packing,
    jobs: &[Job],
    options: &latemux_storage::Options,
    writers: &mut Vec<Writer>,
) -> Result<String> {
    let mut total = 0;
    let mut prepared = Vec::with_capacity(jobs.len());
    for job in jobs {
        let file = packing.prepare(job).await?;
        total += file.bytes();
        // An output that cannot be written fails before any media is read.
        writers.push(destination(&job.output, options)?.create(file.bytes()).await?);
        prepared.push(file);
    }
    packing.bar.set_length(total);
    let mut report = String::new();
    for ((job, file), writer) in jobs.iter().zip(prepared).zip(writers) {
        let fragments = file.fragments();
        let bytes = packing.write(file, writer).await?;
        writer.flush().await?;
        report += &format!("{}: {bytes} bytes, {fragments} fragments of {}\n", job.output, job.tracks);
    }
    Ok(report)
}

/// The folder of the outputs, if this run made it. Dropping the value removes the folder unless
/// [`Folder::keep`] was called.
struct Folder(Cell<Option<PathBuf>>);

impl Folder {
    /// Makes the folder that an output names, if it is a local one that does not exist.
    fn create(output: &str) -> Result<Self> {
        let is_local = output.ends_with('/') && !output.contains("://");
        let path = PathBuf::from(output);
        let is_new = is_local && !path.is_dir();
        if is_new {
            std::fs::create_dir(&path).with_context(|| format!("cannot create {output}"))?;
        }
        Ok(Self(Cell::new(is_new.then_some(path))))
    }

    fn keep(&self) {
        self.0.set(None);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            // This fails if the folder is not empty, and the folder stays.
            let _ = std::fs::remove_dir(path);
        }
    }
}
