//! Writing one object, whole or not at all: what the command line's tools make. Serving never writes.

use crate::backend::http::retry::Account;
use crate::{
    Bucket, Key, OpenError, Options, StorageError,
    open::{address, any_bucket, local, shown, split_name},
};
use bytes::Bytes;
use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

/// Longest time a service may take over an object: it answers when it has all of it.
const PUT_TIMEOUT: Duration = Duration::from_secs(300);

/// Where an object goes.
#[derive(Debug)]
pub struct Destination(To);

#[derive(Debug)]
enum To {
    File(PathBuf),
    Bucket(Box<Bucket>, Key),
}

/// An object that could not be written; nothing of it is there.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file system refused.
    #[error("cannot write {path}: {source}")]
    File {
        /// Which file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The service refused.
    #[error("cannot write: {0}")]
    Storage(#[from] StorageError),
}

/// Where to write `./film.index.mp4`, `file:///vod/film.index.mp4` or `s3://bucket/film.index.mp4`. Touches nothing yet.
///
/// # Errors
/// Where the location names no object, or a place that is only read from.
pub fn destination(location: &str, options: &Options) -> Result<Destination, OpenError> {
    let nameless = || OpenError::Location(format!("{}: names no object", shown(location)));
    let path = match address(location)? {
        None => PathBuf::from(location),
        Some(url) if url.scheme() == "file" => local(&url)?,
        Some(mut url) if matches!(url.scheme(), "s3" | "gs" | "az") => {
            let key = split_name(&mut url).ok_or_else(nameless)?;
            let mut options = options.clone();
            options.timeouts.first_byte = options.timeouts.first_byte.max(PUT_TIMEOUT);
            let account = Arc::new(Account::new(options.retries.clone(), Arc::default()));
            return Ok(Destination(To::Bucket(Box::new(any_bucket(&url, &options, &account)?), key)));
        }
        Some(_) => {
            let detail = "cannot be written to, only a path, s3://, gs:// or az://";
            return Err(OpenError::Location(format!("{}: {detail}", shown(location))));
        }
    };
    if path.file_name().is_none() || location.ends_with('/') {
        return Err(nameless());
    }
    Ok(Destination(To::File(path)))
}

impl Destination {
    /// Writes the object, in place of one of that name. A file appears under its name when all of it is on the disk.
    ///
    /// # Errors
    /// Where it could not be written; what was there before still is.
    pub async fn put(&self, bytes: Bytes) -> Result<(), WriteError> {
        match &self.0 {
            To::Bucket(bucket, key) => Ok(bucket.put(key, bytes).await?),
            To::File(path) => {
                let path = path.clone();
                let done = tokio::task::spawn_blocking(move || {
                    replace(&path, &bytes)
                        .map_err(|source| WriteError::File { path: path.display().to_string(), source })
                });
                done.await.unwrap_or_else(|e| {
                    let (path, source) = (String::new(), io::Error::other(e));
                    Err(WriteError::File { path, source })
                })
            }
        }
    }
}

/// Removes a file that did not become what it was meant to be.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        // Gone where it was renamed.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
    let mut part_name = std::ffi::OsString::from(".");
    part_name.push(name);
    part_name.push(format!(".{}.part", std::process::id()));
    let part = Part(path.with_file_name(part_name));
    let mut file = OpenOptions::new().write(true).create_new(true).open(&part.0)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    std::fs::rename(&part.0, path)?;
    // The name is on the disk when its folder is; where that cannot be asked for, the file is there all the same.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Ok(folder) = File::open(folder.unwrap_or(Path::new("."))) {
        let _ = folder.sync_all();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_whole_or_not_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b.mp4");
        let to = destination(path.to_str().unwrap(), &Options::default()).unwrap();
        to.put("one".into()).await.unwrap();
        to.put("two".into()).await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

        // A folder of that name cannot be replaced.
        let taken = folder.path().join("taken");
        std::fs::create_dir_all(taken.join("x")).unwrap();
        let to = destination(taken.to_str().unwrap(), &Options::default()).unwrap();
        let error = to.put("x".into()).await.unwrap_err().to_string();
        assert!(error.contains("taken"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no part is left");

        let to = destination("/no/such/folder/x.mp4", &Options::default()).unwrap();
        assert!(to.put("x".into()).await.unwrap_err().to_string().contains("/no/such/folder/x.mp4"));
    }

    #[test]
    fn what_is_only_read_from_is_refused() {
        for location in
            ["https://host/x.mp4", "http://host/x.mp4", "ftp://host/x", "folder/", "/", "s3://bucket/"]
        {
            assert!(destination(location, &Options::default()).is_err(), "{location}");
        }
    }
}
