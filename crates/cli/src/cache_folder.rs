//! The folder of the caches: whether this process can use it, and what to do if it cannot.

use anyhow::{Result, anyhow};
use latemux_cache::OpenError;
use rustix::{
    fs::{Access, access},
    process::geteuid,
};
use std::{
    io::{self, ErrorKind},
    os::unix::fs::MetadataExt,
    path::Path,
};

/// Checks that the cache can use this folder. A folder that does not exist is made at start.
///
/// # Errors
/// Fails if it is not a folder, or if files in it cannot be written.
pub(crate) fn check(dir: &Path) -> Result<()> {
    let existing = dir.ancestors().find(|folder| folder.exists()).unwrap_or(dir);
    if !existing.is_dir() {
        return Err(anyhow!("cache.dir: {} is not a folder", existing.display()));
    }
    let entered = |path: &Path| access(path, Access::WRITE_OK | Access::EXEC_OK);
    entered(existing).map_err(|error| not_writable(existing, &error.into()))?;
    // Files that another user has made.
    let lock = dir.join("lock");
    if lock.exists() {
        access(&lock, Access::WRITE_OK).map_err(|error| not_writable(&lock, &error.into()))?;
    }
    Ok(())
}

/// Says why the caches cannot use their folder, and what to do about it.
pub(crate) fn unusable(error: &OpenError) -> anyhow::Error {
    check(Path::new(&error.dir)).err().unwrap_or_else(|| anyhow!("cache.dir: {error}"))
}

fn not_writable(path: &Path, error: &io::Error) -> anyhow::Error {
    let advice = match (error.kind(), path.metadata()) {
        (ErrorKind::PermissionDenied, Ok(metadata)) => format!(
            ": it belongs to user {}, and latemux runs as user {}: change the owner, or choose another folder",
            metadata.uid(),
            geteuid().as_raw()
        ),
        (ErrorKind::ReadOnlyFilesystem, _) => ": choose a folder on another file system".to_owned(),
        _ => String::new(),
    };
    anyhow!("cache.dir: cannot write to {}: {error}{advice}", path.display())
}
