//! The place in which tasks run.

use std::{
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};

/// The time after SIGINT in which the process of a task must end. Engines kill the task after 10 s.
const STOP_WAIT: Duration = Duration::from_secs(6);

/// The least time that a process has to end after SIGINT, whatever else has taken time.
const LEAST_WAIT: Duration = Duration::from_millis(500);

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
    /// The longest time in which the functions that a task reads from must answer.
    pub input_wait: Duration,
    /// The address at which a function serves if its document names another machine's.
    pub listen: SocketAddr,
    /// The place for results.
    pub results: Results,
}

/// The place for the results of tasks, as `latemux load` takes it.
#[derive(Debug, Clone)]
pub struct Results {
    /// A folder, or a bucket such as `s3://bucket/prefix`, without a slash at the end.
    pub location: String,
    /// The flags that access to the bucket needs.
    pub flags: Vec<String>,
}

/// The name of the results of `latemux load` in those of its task.
pub(crate) const LOAD: &str = "results";

impl Results {
    /// Returns the location of the results of `latemux load`.
    pub(super) fn of_load(&self, id: &str) -> String {
        format!("{}/{id}/{LOAD}", self.location)
    }
}

/// The time until which a task that was stopped waits for its process.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline(Instant);

impl Deadline {
    /// Starts the time now.
    pub(super) fn start() -> Self {
        Self(Instant::now() + STOP_WAIT)
    }

    /// Returns the time that is left, and at least some.
    pub(super) fn left(self) -> Duration {
        self.0.saturating_duration_since(Instant::now()).max(LEAST_WAIT)
    }
}

impl Place {
    /// Returns the folder of a task's own files.
    pub(crate) fn own(&self, id: &str) -> PathBuf {
        self.folder.join(id)
    }
}
