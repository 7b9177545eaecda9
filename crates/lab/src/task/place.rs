//! The place in which tasks run.

use std::{path::PathBuf, time::Duration};

/// The time that a function has to end after SIGINT. Engines kill the task after 10 s.
pub(super) const STOP_WAIT: Duration = Duration::from_secs(6);

/// The time between two looks.
pub(super) const POLL: Duration = Duration::from_millis(20);

/// The place in which tasks run.
#[derive(Debug, Clone)]
pub struct Place {
    /// The program `latemux` that is measured.
    pub latemux: PathBuf,
    /// The folder for the files of tasks, and for their results.
    pub folder: PathBuf,
    /// The folder with titles.
    pub content: PathBuf,
    /// The script that plays titles in a browser, if there is one.
    pub player: Option<PathBuf>,
}

impl Place {
    /// Returns the folder of a task's own files.
    pub(crate) fn own(&self, id: &str) -> PathBuf {
        self.folder.join(id)
    }
}
