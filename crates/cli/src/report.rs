//! `latemux report`: adds up the results of runs of `load`.

use crate::{standard_output::say, storage_flags::StorageFlags};
use anyhow::{Context, Error, Result, anyhow, ensure};
use clap::Args as ClapArgs;
use futures_util::StreamExt as _;
use latemux_load::{
    report::{compare, comparison, comparison_csv, csv, page, summary},
    results::{MAX_PART, Part, Run},
};
use latemux_storage::{Key, ReadRequest, StorageError, list_all, open};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Report the results of load tests: merge the parts of each run, and compare runs
///
/// A run is a folder with one file for each machine that took part. The report consists of
/// report.html, a page with plots that opens without a server, and of tables: requests.csv,
/// errors.csv, seconds.csv, histograms.csv, steps.csv, streams.csv, hosts.csv, interfaces.csv,
/// counters.csv, and comparison.csv if runs are repeats.
#[derive(Debug, ClapArgs)]
pub(crate) struct Report {
    /// Folders that `load --out` wrote: paths, s3://bucket/folder, gs://… or az://…
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<String>,
    /// Treat the runs as repeats of one run: print the mean of each measure with its 95 %
    /// confidence interval
    #[arg(long)]
    pub(crate) repeats: bool,
    /// Compare the runs, which are repeats of one run, with these, which are repeats of another:
    /// print the ratio of each measure with its 95 % confidence interval
    #[arg(long, value_name = "RUN", num_args = 1..)]
    pub(crate) against: Vec<String>,
    /// Folder for the report [default: the first RUN that is a local folder]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) storage: StorageFlags,
}

/// Adds up all parts of a run.
fn read(run: &str, flags: &StorageFlags) -> Result<Run> {
    if !is_address(run) {
        return Ok(Run::read(Path::new(run))?);
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Errors about the root begin with its empty key.
    let parts = runtime.block_on(fetch(run, flags)).map_err(|error| {
        let text = format!("{error:#}");
        anyhow!("{run}: {}", text.trim_start_matches(": "))
    })?;
    Ok(Run::merge(run, &parts)?)
}

/// Most objects in the folder of a run.
const MAX_PARTS: usize = 100_000;

/// Fetches all parts in a bucket, each with its name.
async fn fetch(run: &str, flags: &StorageFlags) -> Result<Vec<(String, Part)>> {
    let storage = open(run, &flags.options())?;
    let root = Key::root();
    let listing = match list_all(&*storage, &root, MAX_PARTS).await {
        // A bucket has no empty folders.
        Err(StorageError::NotFound(_)) => return Ok(Vec::new()),
        listing => listing?,
    };
    let mut parts = Vec::new();
    for (name, _) in listing.objects.into_iter().filter(|(name, _)| Part::is_name(name)) {
        let key = root.join(&name).with_context(|| format!("{name}: not the name of an object"))?;
        let mut read = storage.read(ReadRequest::head(&key, MAX_PART)).await?;
        let mut bytes = Vec::new();
        while let Some(frame) = read.body.next().await {
            bytes.extend_from_slice(&frame?);
        }
        let part = Part::from_bytes(&bytes).with_context(|| name.clone())?;
        parts.push((name, part));
    }
    Ok(parts)
}

fn is_address(run: &str) -> bool {
    run.contains("://")
}

/// Prints a summary of each run, and writes the report.
pub(crate) fn run(flags: &Report) -> Result<()> {
    let read = |folder: &String| anyhow::Ok((folder.clone(), read(folder, &flags.storage)?));
    let mut runs = flags.runs.iter().map(read).collect::<Result<Vec<_>>>()?;
    let against = flags.against.iter().map(read).collect::<Result<Vec<_>>>()?;
    let is_compared = flags.repeats || !against.is_empty();
    let compared = is_compared.then(|| compare(&runs, &against)).transpose().map_err(Error::msg)?;
    runs.extend(against);
    let first = flags.runs.iter().find(|run| !is_address(run)).map(PathBuf::from);
    let folder = flags
        .output
        .clone()
        .or(first)
        .context("--output is needed: a report cannot be written to a bucket")?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    let files = [
        ("report.html", page(&runs)),
        ("requests.csv", csv::requests(&runs)),
        ("errors.csv", csv::errors(&runs)),
        ("seconds.csv", csv::seconds(&runs)),
        ("histograms.csv", csv::histograms(&runs)),
        ("steps.csv", csv::steps(&runs)),
        ("streams.csv", csv::streams(&runs)),
        ("hosts.csv", csv::hosts(&runs)),
        ("interfaces.csv", csv::interfaces(&runs)),
        ("counters.csv", csv::counters(&runs)),
    ];
    let comparison_file = compared.as_deref().map(|compared| ("comparison.csv", comparison_csv(compared)));
    for (name, text) in files.into_iter().chain(comparison_file) {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    for (name, run) in &runs {
        say(&format!("{name}\n{}\n", summary(run)))?;
    }
    if let Some(compared) = &compared {
        say(&format!("{}\n", comparison(compared)))?;
    }
    say(&format!("{}\n", folder.join("report.html").display()))?;
    let partial = runs.iter().filter(|(_, run)| !run.whole.complete).count();
    ensure!(partial == 0, "{partial} of {} runs are partial", runs.len());
    Ok(())
}
