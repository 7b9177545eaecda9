//! Reads from a disk, limited in number and time.

use super::health::Health;
use crate::DiskConfig;
use std::{io, sync::Arc, time::Duration};
use tokio::{sync::Semaphore, task::spawn_blocking, time::timeout};

/// Number of consecutive reads that may fail before the disk is left alone.
const BAD_SECTORS: u32 = 3;

/// Runs reads of one disk on the runtime's blocking pool.
#[derive(Debug)]
pub(crate) struct DiskReader {
    permits: Arc<Semaphore>,
    timeout: Duration,
    pub(crate) health: Health,
}

impl DiskReader {
    /// Creates a reader. `doing` names its work in the log.
    pub(crate) fn new(doing: &'static str, config: &DiskConfig) -> Self {
        Self {
            permits: Arc::new(Semaphore::new(config.readers.max(1))),
            timeout: config.read_timeout,
            health: Health::new(doing, config.retry, BAD_SECTORS),
        }
    }

    /// Runs a job that reads the disk, and returns its result. Fails with `TimedOut` if the job
    /// takes too long, which counts as a failure of the disk.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce() -> T + Send + 'static,
    ) -> io::Result<T> {
        let read = async {
            let permit = self.permits.clone().acquire_owned().await.map_err(io::Error::other)?;
            let job = move || {
                // The permit stays with the job when its reader gives up, so jobs on a hung disk
                // are bounded.
                let _permit = permit;
                job()
            };
            spawn_blocking(job).await.map_err(io::Error::other)
        };
        let limit = self.timeout;
        timeout(limit, read).await.unwrap_or_else(|_| {
            let problem = format!("the disk did not respond within {limit:?}");
            let error = io::Error::new(io::ErrorKind::TimedOut, problem);
            self.health.failed(&error);
            Err(error)
        })
    }
}
