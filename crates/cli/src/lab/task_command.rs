//! `latemux lab task`: one function of a workflow.

use super::{PlayerScript, program, read_document, stop_flag};
use crate::storage_flags::StorageFlags;
use anyhow::{Context, Result};
use clap::Args as ClapArgs;
use latemux_lab::{
    nbmp::Task,
    task::{self, Part, Place, Results},
};
use latemux_quantity::TimeSpan;
use latemux_storage::write::destination;
use std::{
    fs,
    net::SocketAddr,
    path::{Path, PathBuf},
};

/// Run one function of a cell, such as its origin or its load
///
/// `lab run` and engines start this command once for each function. It runs until a load has ended,
/// or until SIGINT or SIGTERM. It then writes what the function has measured to the file ID.json,
/// where ID is that of the task in the document.
#[derive(Debug, ClapArgs)]
pub(crate) struct RunTask {
    /// Task document (.tdd), such as one that `lab plan --documents` wrote
    #[arg(value_name = "FILE")]
    document: PathBuf,
    /// Folder for the configuration, logs and caches of the function
    #[arg(long, value_name = "DIR")]
    folder: PathBuf,
    /// Folder with titles that `lab run` has made
    #[arg(long, value_name = "DIR")]
    content: PathBuf,
    /// Program `latemux` that runs as origin and load, such as another version [default: this one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,
    #[command(flatten)]
    player: PlayerScript,
    /// Longest time to wait for an answer of the functions that this function reads from
    #[arg(long, default_value = "60s", value_name = "DURATION")]
    input_wait: TimeSpan,
    /// Address to listen on if the address in the document belongs to another machine, such as a
    /// service in a cluster
    #[arg(long, default_value = "0.0.0.0:8080", value_name = "ADDRESS:PORT")]
    listen: SocketAddr,
    /// Folder or bucket for ID.json and the results of `latemux load`, such as s3://bucket/prefix
    /// [default: --folder]
    #[arg(long, value_name = "LOCATION")]
    results: Option<String>,
    #[command(flatten)]
    storage: StorageFlags,
}

/// Runs a task, and writes its part.
pub(super) fn run(flags: &RunTask) -> Result<()> {
    let document = read_document(&flags.document)?;
    let task = Task::from_json(&document).with_context(|| flags.document.display().to_string())?;
    let folder = fs::canonicalize(&flags.folder).with_context(|| flags.folder.display().to_string())?;
    let place = Place {
        latemux: program(flags.program.as_deref())?,
        content: fs::canonicalize(&flags.content).with_context(|| flags.content.display().to_string())?,
        player: flags.player.player.clone(),
        input_wait: flags.input_wait.0,
        listen: flags.listen,
        results: results(flags, &folder)?,
        folder,
    };
    let part = task::run(&task, &place, &*stop_flag()?)?;
    store(&part, &task.id, &place.results.location, &flags.storage)
}

/// Returns the place for the results of a task.
fn results(flags: &RunTask, folder: &Path) -> Result<Results> {
    let location = match &flags.results {
        None => folder.to_str().with_context(|| format!("{}: not UTF-8", folder.display()))?,
        Some(location) => {
            if !location.contains("://") {
                fs::create_dir_all(location).with_context(|| location.clone())?;
            }
            location.trim_end_matches('/')
        }
    };
    let StorageFlags { s3_endpoint, s3_region } = &flags.storage;
    let flags = [("--s3-endpoint", s3_endpoint), ("--s3-region", s3_region)];
    let flags = flags.into_iter().filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?)));
    Ok(Results { location: location.to_owned(), flags: flags.collect() })
}

/// Writes the part of a task, completely or not at all.
fn store(part: &Part, id: &str, results: &str, storage: &StorageFlags) -> Result<()> {
    let address = format!("{results}/{}", Part::file_name(id));
    let target = destination(&address, &storage.options())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(target.put(part.to_bytes()?.into())).with_context(|| format!("cannot write {address}"))
}
