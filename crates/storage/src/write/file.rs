//! A file that appears under its name when it is complete.

use super::WriteError;
use bytes::Bytes;
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

/// Bytes written at a time.
const BLOCK: usize = 1 << 20;

/// A file being written, beside its final path.
#[derive(Debug)]
pub(super) struct FileWriter {
    path: PathBuf,
    temp: TempFile,
    file: Arc<File>,
    held: Vec<Bytes>,
    /// Number of bytes in `held`.
    len: usize,
}

/// A temporary file, which is removed if it was not renamed.
#[derive(Debug)]
struct TempFile(PathBuf);

impl Drop for TempFile {
    fn drop(&mut self) {
        // The file no longer exists if it was renamed.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl FileWriter {
    pub(super) async fn create(path: PathBuf) -> Result<Self, WriteError> {
        let target = path.clone();
        let (temp, file) = blocking(&path, move || {
            // The final rename would fail.
            if target.is_dir() {
                return Err(io::ErrorKind::IsADirectory.into());
            }
            let part = temp_path(&target)?;
            let file = OpenOptions::new().write(true).create_new(true).open(&part)?;
            Ok((TempFile(part), file))
        })
        .await?;
        Ok(Self { path, temp, file: Arc::new(file), held: Vec::new(), len: 0 })
    }

    pub(super) async fn write(&mut self, bytes: Bytes) -> Result<(), WriteError> {
        self.len += bytes.len();
        self.held.push(bytes);
        if self.len < BLOCK { Ok(()) } else { self.write_held().await }
    }

    async fn write_held(&mut self) -> Result<(), WriteError> {
        let (file, held) = (self.file.clone(), std::mem::take(&mut self.held));
        self.len = 0;
        blocking(&self.path, move || held.iter().try_for_each(|bytes| (&*file).write_all(bytes))).await
    }

    pub(super) async fn flush(&mut self) -> Result<(), WriteError> {
        self.write_held().await?;
        let file = self.file.clone();
        blocking(&self.path, move || file.sync_all()).await
    }

    pub(super) async fn commit(mut self) -> Result<(), WriteError> {
        self.flush().await?;
        let temp = self.temp;
        let path = self.path.clone();
        blocking(&self.path, move || {
            std::fs::rename(&temp.0, &path)?;
            sync_folder(&path);
            Ok(())
        })
        .await
    }

    /// Gives the file its name unless another file has it. Returns false in that case.
    pub(super) async fn commit_new(mut self) -> Result<bool, WriteError> {
        self.flush().await?;
        let temp = self.temp;
        let path = self.path.clone();
        blocking(&self.path, move || {
            // A link is created only if the name is free. Dropping the temporary file removes its
            // first name.
            match std::fs::hard_link(&temp.0, &path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
                // Some file systems have no links. If the file system cannot be written at all, the
                // rename fails.
                Err(_) if path.try_exists()? => return Ok(false),
                Err(_) => std::fs::rename(&temp.0, &path)?,
            }
            sync_folder(&path);
            Ok(true)
        })
        .await
    }
}

/// Syncs the folder of a file, which makes the file's name durable. Failures are ignored, because
/// the file exists anyway.
fn sync_folder(path: &Path) {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Ok(folder) = File::open(folder.unwrap_or(Path::new("."))) {
        let _ = folder.sync_all();
    }
}

/// Returns a hidden path beside a file that no other writer uses.
fn temp_path(path: &Path) -> io::Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut part = std::ffi::OsString::from(".");
    part.push(name);
    part.push(format!(".{}-{}.part", std::process::id(), COUNT.fetch_add(1, Relaxed)));
    Ok(path.with_file_name(part))
}

/// Runs blocking work on the pool for it.
async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, WriteError> {
    let done = tokio::task::spawn_blocking(work).await.unwrap_or_else(|e| Err(io::Error::other(e)));
    done.map_err(|source| WriteError::File { path: path.display().to_string(), source })
}
