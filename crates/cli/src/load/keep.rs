//! Where the results of a run go: a folder, or a bucket.

use crate::args;
use anyhow::{Context, Result};
use latemux_load::results::Part;
use latemux_storage::write::{Destination, destination};
use std::{fs, path::PathBuf, sync::Arc};
use tokio::task::JoinHandle;

/// Where the results go.
pub(super) struct Keep {
    /// The part's own place, as it is shown.
    at: String,
    to: To,
    /// What is on its way to a bucket.
    under_way: Option<JoinHandle<()>>,
}

enum To {
    Folder(PathBuf),
    Bucket(Arc<Destination>),
}

impl Keep {
    /// Of a part: makes the folder if it is not there. That a bucket lets us in shows with the first part.
    pub(super) fn new(out: &str, part: &Part, flags: &args::Storage) -> Result<Self> {
        let at = format!("{}/{}", out.trim_end_matches('/'), part.file_name());
        let to = if out.contains("://") {
            To::Bucket(Arc::new(destination(&at, &flags.options())?))
        } else {
            fs::create_dir_all(out).with_context(|| format!("cannot make {out}"))?;
            To::Folder(PathBuf::from(out))
        };
        Ok(Self { at, to, under_way: None })
    }

    /// What is there of the part until now, whole or not at all.
    pub(super) async fn write(&mut self, part: &Part) -> Result<()> {
        // It would come behind this one, and be what stays.
        if let Some(under_way) = self.under_way.take() {
            let _ = under_way.await;
        }
        let cannot = || format!("cannot write {}", self.at);
        match &self.to {
            To::Folder(folder) => part.write(folder).with_context(cannot),
            To::Bucket(bucket) => bucket.put(part.bytes()?.into()).await.with_context(cannot),
        }
    }

    /// The same while the run goes on, which does not wait for it. The last word tells if that cannot be.
    pub(super) fn write_meanwhile(&mut self, part: &Part) {
        match &self.to {
            To::Folder(folder) => {
                let _ = part.write(folder);
            }
            // One after the other: what a slow bucket misses comes with the next.
            To::Bucket(_) if self.under_way.as_ref().is_some_and(|task| !task.is_finished()) => {}
            To::Bucket(bucket) => {
                let (bucket, Ok(bytes)) = (bucket.clone(), part.bytes()) else { return };
                self.under_way = Some(tokio::spawn(async move {
                    let _ = bucket.put(bytes.into()).await;
                }));
            }
        }
    }
}
