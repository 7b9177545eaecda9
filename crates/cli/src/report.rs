//! `latemux report`: what runs of `load` measured, added up.

use crate::serve::say;
use anyhow::{Context, Result, ensure};
use clap::Args as ClapArgs;
use latemux_load::{
    report::{csv, page, summary},
    results::Run,
};
use std::{fs, path::PathBuf};

/// Adds up what runs of `load` measured, and shows it.
///
/// A run is a folder: each part of it, wherever it was measured, is a file in it. Several runs are compared. Written are `report.html`, with
/// plots, and requests.csv, errors.csv, seconds.csv and histograms.csv.
#[derive(Debug, ClapArgs)]
pub(crate) struct Report {
    /// Folders that `load --out` wrote to
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// Where the report goes [default: the first of the folders]
    #[arg(short, long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
}

/// Prints a table of each run, and writes the rest.
pub(crate) fn run(flags: &Report) -> Result<()> {
    let mut runs = Vec::new();
    for folder in &flags.runs {
        runs.push((folder.display().to_string(), Run::read(folder)?));
    }
    let folder = flags.output.as_ref().or(flags.runs.first()).context("no run")?;
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let files = [
        ("report.html", page(&runs)),
        ("requests.csv", csv::requests(&runs)),
        ("errors.csv", csv::errors(&runs)),
        ("seconds.csv", csv::seconds(&runs)),
        ("histograms.csv", csv::histograms(&runs)),
    ];
    for (name, text) in files {
        let path = folder.join(name);
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    for (name, run) in &runs {
        say(&format!("{name}\n{}\n", summary(run)))?;
    }
    say(&format!("{}\n", folder.join("report.html").display()))?;
    let partial = runs.iter().filter(|(_, run)| !run.whole.complete).count();
    ensure!(partial == 0, "{partial} of {} runs are partial", runs.len());
    Ok(())
}
