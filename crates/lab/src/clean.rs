//! The leftovers of a run that was killed.

use crate::{Error, content, driver::WORK, machine, process::Identity};
use std::{
    fs,
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

/// The longest wait for the end of processes that were killed.
const END_WAIT: Duration = Duration::from_secs(10);

/// The time between two looks at processes.
const POLL: Duration = Duration::from_millis(10);

/// The things that were ended and removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cleaned {
    /// The number of processes that were killed.
    pub processes: usize,
    /// The folders that were removed: that of the tasks, and those of titles that were not
    /// completed.
    pub folders: Vec<PathBuf>,
}

/// Kills the processes that a run has recorded, and that still have the same start times. Then
/// removes the folder of its tasks, and titles that no living process is making.
///
/// # Errors
/// If the folder is not that of a run, a process does not end, or a folder cannot be removed.
pub fn clean(run: &Path, content: &Path) -> Result<Cleaned, Error> {
    if !run.join(machine::FILE).exists() {
        let text = format!("{} is not the folder of a run: it has no {}", run.display(), machine::FILE);
        return Err(Error::invalid(text));
    }
    let work = run.join(WORK);
    let recorded = Identity::recorded(&work);
    // The run itself is the first one, so it starts no others.
    let processes = recorded.iter().filter(|process| process.kill()).count();
    let until = Instant::now() + END_WAIT;
    while let Some(process) = recorded.iter().find(|process| process.is_alive()) {
        if Instant::now() > until {
            return Err(Error::Lacking(format!("the process {process} does not end")));
        }
        sleep(POLL);
    }
    let mut folders = Vec::new();
    if work.exists() {
        fs::remove_dir_all(&work).map_err(|error| Error::file(&work, &error))?;
        folders.push(work);
    }
    folders.extend(content::remove_all_abandoned(content)?);
    Ok(Cleaned { processes, folders })
}
