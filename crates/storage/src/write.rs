//! Writing one object, whole or not at all: what the command line's tools make. Serving writes index MP4s where it is told
//! to, and nothing else.

use crate::backend::http::retry::Account;
use crate::{
    Bucket, Key, OpenError, Options, StorageError,
    open::{address, any_bucket, local, shown, split_name},
};
use bytes::Bytes;
use std::{io, path::PathBuf, sync::Arc, time::Duration};

mod bucket;
mod conditional;
mod file;

use bucket::BucketWriter;
pub use conditional::{ConditionalPut, writable};
use file::FileWriter;

/// Longest time a service may take over an object: it answers when it has all of it.
const PUT_TIMEOUT: Duration = Duration::from_secs(300);

/// Where an object goes.
#[derive(Debug)]
pub struct Destination(To);

#[derive(Debug)]
enum To {
    File(PathBuf),
    Bucket(Arc<Bucket>, Key),
}

/// An object that could not be written; nothing of it is there. Its source says why.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The file system refused.
    #[error("cannot write {path}")]
    File {
        /// Which file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The service refused.
    #[error("cannot write")]
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
            options.first_byte_timeout = options.first_byte_timeout.max(PUT_TIMEOUT);
            let account = Arc::new(Account::new(&options));
            return Ok(Destination(To::Bucket(Arc::new(any_bucket(&url, &options, &account)?), key)));
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
        let mut writer = self.create(u64::try_from(bytes.len()).unwrap_or(u64::MAX)).await?;
        match writer.write(bytes).await {
            Ok(()) => writer.commit().await,
            Err(error) => {
                writer.discard().await;
                Err(error)
            }
        }
    }

    /// Begins an object of about `size` bytes, to be written piece by piece. There is nothing of it under its name before
    /// [`Writer::commit`].
    ///
    /// # Errors
    /// Where a file cannot be there. Of a bucket, that shows with the first bytes.
    pub async fn create(&self, size: u64) -> Result<Writer, WriteError> {
        Ok(Writer(match &self.0 {
            To::Bucket(bucket, key) => Under::Bucket(BucketWriter::new(bucket.clone(), key.clone(), size)),
            To::File(path) => Under::File(FileWriter::create(path.clone()).await?),
        }))
    }
}

/// An object being written. Dropped without [`Self::commit`], nothing of a file is left; of what a bucket was sent,
/// [`Self::discard`] is to tell it.
#[derive(Debug)]
pub struct Writer(Under);

#[derive(Debug)]
enum Under {
    File(FileWriter),
    Bucket(BucketWriter),
}

impl Writer {
    /// Appends bytes; waits where they come faster than they can be stored, so that few are held.
    ///
    /// # Errors
    /// Where they, or some before them, could not be written: there is no more to be done but [`Self::discard`].
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), WriteError> {
        match &mut self.0 {
            Under::File(file) => file.write(bytes).await,
            Under::Bucket(bucket) => Ok(bucket.write(bytes).await?),
        }
    }

    /// Waits until everything is stored, so that little can go wrong with [`Self::commit`].
    ///
    /// # Errors
    /// As [`Self::write`].
    pub async fn flush(&mut self) -> Result<(), WriteError> {
        match &mut self.0 {
            Under::File(file) => file.flush().await,
            Under::Bucket(bucket) => Ok(bucket.flush().await?),
        }
    }

    /// Puts the object under its name, in place of one that is there.
    ///
    /// # Errors
    /// As [`Self::write`]; everything has been discarded then.
    pub async fn commit(self) -> Result<(), WriteError> {
        match self.0 {
            Under::File(file) => file.commit().await,
            Under::Bucket(bucket) => Ok(bucket.commit().await?),
        }
    }

    /// Leaves nothing behind, as far as storage can still be told.
    pub async fn discard(self) {
        match self.0 {
            Under::File(file) => drop(file),
            Under::Bucket(bucket) => bucket.discard().await,
        }
    }
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

        // What is not finished is not there.
        let mut writer = to.create(0).await.unwrap();
        writer.write(vec![7; 3 << 20].into()).await.unwrap();
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "a part");
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
