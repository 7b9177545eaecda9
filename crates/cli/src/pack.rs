//! `latemux pack`: a title as files of the segments that `serve` sends.

mod choice;
mod write;

use crate::{
    args,
    location::relative,
    manifest::warn,
    read_index::progress,
    serve::{say, stop_signal},
};
use anyhow::{Context, Result, anyhow, ensure};
use choice::{Job, jobs};
use indicatif::ProgressBar;
use latemux_origin::{LoadedTitle, Origin, OriginConfig, config::SourcesConfig};
use latemux_storage::write::{Writer, destination};
use std::{cell::Cell, path::PathBuf, sync::Arc, time::Duration};

/// Longest time to index a title: whoever waits sees a bar, and can end it.
const LOAD_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// What is being packed.
struct Packing {
    origin: Origin,
    title: Arc<LoadedTitle>,
    bar: ProgressBar,
}

/// Runs until all files are written, or none is.
pub(crate) fn run(flags: &args::Pack) -> Result<()> {
    let config = OriginConfig {
        segment_duration: flags.fragment.0,
        load_timeout: LOAD_TIMEOUT,
        sources: SourcesConfig { allow: flags.allow.clone() },
        ..OriginConfig::default()
    };
    config.sources.check().map_err(|why| anyhow!("--allow: {why}"))?;
    // The same limits apply to `serve`, so that a packed title can be served on the same grid.
    ensure!(
        OriginConfig::SEGMENT_DURATIONS.contains(&flags.fragment.0),
        "--fragment must be between 100ms and 10m, not {}",
        flags.fragment
    );
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(pack(flags, config))?;
    say(&report)
}

async fn pack(flags: &args::Pack, config: OriginConfig) -> Result<String> {
    let stop = stop_signal()?;
    tokio::pin!(stop);
    let options = flags.storage.options();
    let source = flags.source.trim_end_matches('/');
    let (storage, key) = latemux_storage::open::open_object(source, &options)?;
    let origin = Origin::new(storage, config);
    let bar = progress(&flags.source);
    let title = tokio::select! {
        title = origin.title(key.as_str()) => title.with_context(|| flags.source.clone())?,
        () = &mut stop => return Err(anyhow!("stopped: nothing was written")),
    };
    for problem in title.title.problems() {
        warn(&format!("{}: {}: {}", flags.source, problem.reason, problem.detail));
    }

    let (jobs, left_out) = jobs(&title.title, flags)?;
    left_out.iter().for_each(|why| warn(&format!("{}: left out: {why}", flags.source)));
    for job in &jobs {
        // Read as it is written, it would be gone if all went well.
        let same = relative(&job.output, source).ok().flatten();
        ensure!(job.output.rsplit('/').next() != same.as_deref(), "{} is the source itself", job.output);
    }

    let packing = Packing { origin, title, bar };
    let folder = Folder::of(&flags.output)?;
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

/// Writes all files but for their names, one after the other; says what is in them.
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
        // What cannot be written to is known before anything is read for it.
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

/// The folder of the outputs where it was made for them; removed again where none comes to be in it.
struct Folder(Cell<Option<PathBuf>>);

impl Folder {
    fn of(output: &str) -> Result<Self> {
        let local = output.ends_with('/') && !output.contains("://");
        let path = PathBuf::from(output);
        let made = local && !path.is_dir();
        if made {
            std::fs::create_dir(&path).with_context(|| format!("cannot make {output}"))?;
        }
        Ok(Self(Cell::new(made.then_some(path))))
    }

    fn keep(&self) {
        self.0.set(None);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Some(path) = self.0.take() {
            // Not where something else is in it.
            let _ = std::fs::remove_dir(path);
        }
    }
}
