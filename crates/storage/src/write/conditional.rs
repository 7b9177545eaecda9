//! Conditional writes: an object is written only in place of a known version.

use super::{FileWriter, WriteError, writable_bucket};
use crate::{
    Bucket, Folder, Key, Memory, OpenError, Options, ReadRequest, Storage, StorageError, Version,
    open::{address, folder, local_path},
};
use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use std::{path::Path, sync::Arc};

/// The future of [`ConditionalPut::put_over`].
pub type PutFuture<'a> = BoxFuture<'a, Result<bool, WriteError>>;

/// A storage whose objects can be written under a condition.
pub trait ConditionalPut: Send + Sync + std::fmt::Debug {
    /// Writes an object completely or not at all: if none of that name exists, or in place of
    /// exactly this version. Returns false and changes nothing if anything else exists.
    fn put_over<'a>(&'a self, key: &'a Key, bytes: Bytes, over: Option<&'a Version>) -> PutFuture<'a>;
}

/// Opens the location as [`crate::open()`] does, for writing. Returns `None` if it can only be
/// read.
///
/// # Errors
/// [`OpenError`] for the same causes as [`crate::open()`].
pub fn writable(location: &str, options: &Options) -> Result<Option<Arc<dyn ConditionalPut>>, OpenError> {
    Ok(match address(location)? {
        None => Some(folder(Path::new(location))?),
        Some(url) if url.scheme() == "file" => Some(folder(&local_path(&url)?)?),
        Some(url) if matches!(url.scheme(), "s3" | "gs" | "az") => {
            let bucket = writable_bucket(&url, options)?;
            // Google's condition is a generation, unknown to readers, so the last writer wins.
            Some(Arc::new(ToBucket { bucket, by_etag: url.scheme() != "gs" }))
        }
        Some(_) => None,
    })
}

#[derive(Debug)]
struct ToBucket {
    bucket: Bucket,
    /// True if an `ETag` can identify a version.
    by_etag: bool,
}

impl ConditionalPut for ToBucket {
    fn put_over<'a>(&'a self, key: &'a Key, bytes: Bytes, over: Option<&'a Version>) -> PutFuture<'a> {
        let etag = over.map(|version| version.etag.as_deref().filter(|_| self.by_etag));
        async move { Ok(self.bucket.put_over(key, bytes, etag).await?) }.boxed()
    }
}

/// Returns true if the object has the version `over`, or does not exist if that is `None`.
async fn is_at_version(
    storage: &dyn Storage,
    key: &Key,
    over: Option<&Version>,
) -> Result<bool, StorageError> {
    match storage.read(ReadRequest::head(key, 1).pinned_to(over)).await {
        Ok(_) => Ok(over.is_some()),
        Err(StorageError::NotFound(_)) => Ok(over.is_none()),
        Err(StorageError::Changed(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

impl ConditionalPut for Folder {
    fn put_over<'a>(&'a self, key: &'a Key, bytes: Bytes, over: Option<&'a Version>) -> PutFuture<'a> {
        async move {
            if !is_at_version(self, key, over).await? {
                return Ok(false);
            }
            let mut file = FileWriter::create(self.file(key).await?).await?;
            file.write(bytes).await?;
            match over {
                None => file.commit_new().await,
                // Between this check and the rename, another writer may write. It writes the same
                // bytes, for they describe the same media.
                Some(_) if is_at_version(self, key, over).await? => file.commit().await.map(|()| true),
                Some(_) => Ok(false),
            }
        }
        .boxed()
    }
}

impl ConditionalPut for Memory {
    fn put_over<'a>(&'a self, key: &'a Key, bytes: Bytes, over: Option<&'a Version>) -> PutFuture<'a> {
        async move { Ok(self.put_if(key, bytes, over)) }.boxed()
    }
}
