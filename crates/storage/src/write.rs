//! Writing one object, completely or not at all. The tools of the command line use this. Serving
//! writes only index MP4s, and only if configured to.

use crate::backend::http::retry::Account;
use crate::{
    Bucket, Key, OpenError, Options, StorageError,
    open::{address, any_bucket, local_path, split_name, without_secrets},
};
use bytes::Bytes;
use std::{io, path::PathBuf, sync::Arc, time::Duration};

mod bucket;
mod conditional;
mod file;

use bucket::BucketWriter;
pub use conditional::{ConditionalPut, writable};
use file::FileWriter;

/// Timeout for storing an object: a service responds only when it has received all of it.
const PUT_TIMEOUT: Duration = Duration::from_secs(300);

/// The destination of an object.
#[derive(Debug)]
pub struct Destination(Target);

#[derive(Debug)]
enum Target {
    File(PathBuf),
    Bucket(Arc<Bucket>, Key),
}

/// An object that could not be written; nothing of it is stored. The source of the error is its
/// cause.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file system failed.
    #[error("cannot write {path}")]
    File {
        /// Path of the file.
        path: String,
        /// Cause of the failure.
        source: io::Error,
    },
    /// The service failed.
    #[error("cannot write")]
    Storage(#[from] StorageError),
}

/// Parses a destination: `./film.index.mp4`, `file:///vod/film.index.mp4` or
/// `s3://bucket/film.index.mp4`. Does not access it yet.
///
/// # Errors
/// [`OpenError`] if the location names no object, or a place that can only be read.
pub fn destination(location: &str, options: &Options) -> Result<Destination, OpenError> {
    let nameless = || OpenError::Location(format!("{}: names no object", without_secrets(location)));
    let path = match address(location)? {
        None => PathBuf::from(location),
        Some(url) if url.scheme() == "file" => local_path(&url)?,
        Some(mut url) if matches!(url.scheme(), "s3" | "gs" | "az") => {
            let key = split_name(&mut url).ok_or_else(nameless)?;
            let mut options = options.clone();
            options.first_byte_timeout = options.first_byte_timeout.max(PUT_TIMEOUT);
            let account = Arc::new(Account::new(&options));
            return Ok(Destination(Target::Bucket(Arc::new(any_bucket(&url, &options, &account)?), key)));
        }
        Some(_) => {
            let detail = "cannot be written; use a path, s3://, gs:// or az://";
            return Err(OpenError::Location(format!("{}: {detail}", without_secrets(location))));
        }
    };
    if path.file_name().is_none() || location.ends_with('/') {
        return Err(nameless());
    }
    Ok(Destination(Target::File(path)))
}

impl Destination {
    /// Writes the object, replacing one of that name. A file gets its name when all of it is on the
    /// disk.
    ///
    /// # Errors
    /// [`WriteError`] if the object cannot be written. An object that existed before then still
    /// exists.
    pub async fn put(&self, bytes: Bytes) -> Result<(), WriteError> {
        let mut writer = self.create(u64::try_from(bytes.len()).unwrap_or(u64::MAX)).await?;
        match writer.write(bytes).await {
            Ok(()) => writer.commit().await,
            Err(error) => {
                writer.discard().await;
                Err(error)
            }
        }
    }

    /// Starts an object of about `size` bytes, to be written in pieces. The object gets its name
    /// only with [`Writer::commit`].
    ///
    /// # Errors
    /// [`WriteError`] if a file cannot be created. For a bucket, failures show with the first
    /// bytes.
    pub async fn create(&self, size: u64) -> Result<Writer, WriteError> {
        Ok(Writer(match &self.0 {
            Target::Bucket(bucket, key) => Sink::Bucket(BucketWriter::new(bucket.clone(), key.clone(), size)),
            Target::File(path) => Sink::File(FileWriter::create(path.clone()).await?),
        }))
    }
}

/// An object being written. If it is dropped without [`Self::commit`], nothing of a file is left.
/// The parts that a bucket received are removed only by [`Self::discard`].
#[derive(Debug)]
pub struct Writer(Sink);

#[derive(Debug)]
enum Sink {
    File(FileWriter),
    Bucket(BucketWriter),
}

impl Writer {
    /// Appends bytes. Waits if they come faster than they can be stored, so that few bytes are
    /// held.
    ///
    /// # Errors
    /// [`WriteError`] if these or earlier bytes cannot be written. The only remaining call is then
    /// [`Self::discard`].
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), WriteError> {
        match &mut self.0 {
            Sink::File(file) => file.write(bytes).await,
            Sink::Bucket(bucket) => Ok(bucket.write(bytes).await?),
        }
    }

    /// Waits until everything is stored, so that little can go wrong with [`Self::commit`].
    ///
    /// # Errors
    /// [`WriteError`] for the same causes as [`Self::write`].
    pub async fn flush(&mut self) -> Result<(), WriteError> {
        match &mut self.0 {
            Sink::File(file) => file.flush().await,
            Sink::Bucket(bucket) => Ok(bucket.flush().await?),
        }
    }

    /// Gives the object its name, replacing one that exists.
    ///
    /// # Errors
    /// [`WriteError`] for the same causes as [`Self::write`]. Everything has then been discarded.
    pub async fn commit(self) -> Result<(), WriteError> {
        match self.0 {
            Sink::File(file) => file.commit().await,
            Sink::Bucket(bucket) => Ok(bucket.commit().await?),
        }
    }

    /// Removes everything that was written, as far as storage can still be reached.
    pub async fn discard(self) {
        match self.0 {
            Sink::File(file) => drop(file),
            Sink::Bucket(bucket) => bucket.discard().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_file_is_complete_or_missing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b.mp4");
        let to = destination(path.to_str().unwrap(), &Options::default()).unwrap();
        to.put("one".into()).await.unwrap();
        to.put("two".into()).await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);

        // An unfinished object is not visible.
        let mut writer = to.create(0).await.unwrap();
        writer.write(vec![7; 3 << 20].into()).await.unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "the temporary file");
        assert_eq!(std::fs::read(&path).unwrap(), b"two");
        writer.flush().await.unwrap();
        writer.discard().await;
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
        let mut writer = to.create(0).await.unwrap();
        for n in 0..200_u8 {
            writer.write(vec![n; 40_000].into()).await.unwrap();
        }
        writer.commit().await.unwrap();
        let written = std::fs::read(&path).unwrap();
        assert!(written.chunks(40_000).zip(0..).all(|(piece, n)| *piece == [n; 40_000]));
        assert_eq!(written.len(), 8_000_000);

        // A folder of that name cannot be replaced.
        let taken = folder.path().join("taken");
        std::fs::create_dir_all(taken.join("x")).unwrap();
        let to = destination(taken.to_str().unwrap(), &Options::default()).unwrap();
        let error = to.put("x".into()).await.unwrap_err().to_string();
        assert!(error.contains("taken"), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "no temporary file is left");

        let to = destination("/no/such/folder/x.mp4", &Options::default()).unwrap();
        assert!(to.put("x".into()).await.unwrap_err().to_string().contains("/no/such/folder/x.mp4"));
    }

    #[test]
    fn read_only_locations_are_refused() {
        for location in
            ["https://host/x.mp4", "http://host/x.mp4", "ftp://host/x", "folder/", "/", "s3://bucket/"]
        {
            assert!(destination(location, &Options::default()).is_err(), "{location}");
        }
    }
}
