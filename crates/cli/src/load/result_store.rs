//! The folder or bucket to which the results of a run are written.

use crate::storage_flags::StorageFlags;
use anyhow::{Context, Result};
use latemux_load::results::Part;
use latemux_storage::write::{Destination, destination};
use std::{fs, path::PathBuf, sync::Arc};
use tokio::task::JoinHandle;

/// Writes the results of a run.
pub(super) struct ResultStore {
    /// The address of the part's file, for messages.
    address: String,
    target: Target,
    /// The upload in progress.
    upload: Option<JoinHandle<()>>,
}

enum Target {
    Folder(PathBuf),
    Bucket(Arc<Destination>),
}

impl ResultStore {
    /// Opens the store of a part, and creates its folder. A bucket that cannot be written to is
    /// detected only at the first write.
    pub(super) fn new(out: &str, part: &Part, flags: &StorageFlags) -> Result<Self> {
        let address = format!("{}/{}", out.trim_end_matches('/'), part.file_name());
        let target = if out.contains("://") {
            Target::Bucket(Arc::new(destination(&address, &flags.options())?))
        } else {
            fs::create_dir_all(out).with_context(|| format!("cannot create {out}"))?;
            Target::Folder(PathBuf::from(out))
        };
        Ok(Self { address, target, upload: None })
    }

    /// Writes the part atomically.
    pub(super) async fn write(&mut self, part: &Part) -> Result<()> {
        // An older upload must not end after this one and replace it.
        if let Some(upload) = self.upload.take() {
            let _ = upload.await;
        }
        let cannot = || format!("cannot write {}", self.address);
        match &self.target {
            Target::Folder(folder) => part.write(folder).with_context(cannot),
            Target::Bucket(bucket) => bucket.put(part.to_bytes()?.into()).await.with_context(cannot),
        }
    }

    /// Starts to write the part, without waiting for the end. Errors are ignored, since the last
    /// [`write`](Self::write) reports them.
    pub(super) fn start_write(&mut self, part: &Part) {
        match &self.target {
            Target::Folder(folder) => {
                let _ = part.write(folder);
            }
            // While an upload to a slow bucket lasts, no other one is started.
            Target::Bucket(_) if self.upload.as_ref().is_some_and(|task| !task.is_finished()) => {}
            Target::Bucket(bucket) => {
                let Ok(bytes) = part.to_bytes() else { return };
                let bucket = bucket.clone();
                self.upload = Some(tokio::spawn(async move {
                    let _ = bucket.put(bytes.into()).await;
                }));
            }
        }
    }
}
