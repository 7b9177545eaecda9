//! Writing an object only in place of what is known to be there, so that two who do the same do not fight.

use super::{FileWriter, PUT_TIMEOUT, WriteError};
use crate::backend::http::retry::Account;
use crate::{
    Bucket, Folder, Key, Memory, OpenError, Options, Storage, StorageError, Version, Want,
    open::{address, any_bucket, local},
};
use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use std::{path::Path, sync::Arc};

/// A place where objects can be written under a condition.
pub trait ConditionalPut: Send + Sync + std::fmt::Debug {
    /// Writes an object, whole or not at all: where there is none of that name, or in place of exactly this version. `false` where
    /// something else is there, which stays.
    fn put_over<'a>(
        &'a self,
        key: &'a Key,
        bytes: Bytes,
        over: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<bool, WriteError>>;
}

/// The place that [`crate::open`] opens at this location, to be written to. `None` where it is only read from.
///
/// # Errors
/// As [`crate::open`].
pub fn writable(location: &str, options: &Options) -> Result<Option<Arc<dyn ConditionalPut>>, OpenError> {
    let folder = |path: &Path| {
        let failed = |source| OpenError::Folder { path: path.display().to_string(), source };
        Ok::<Arc<dyn ConditionalPut>, OpenError>(Arc::new(Folder::new(path).map_err(failed)?))
    };
    Ok(match address(location)? {
        None => Some(folder(Path::new(location))?),
        Some(url) if url.scheme() == "file" => Some(folder(&local(&url)?)?),
        Some(url) if matches!(url.scheme(), "s3" | "gs" | "az") => {
            let mut options = options.clone();
            options.first_byte_timeout = options.first_byte_timeout.max(PUT_TIMEOUT);
            let account = Arc::new(Account::new(&options));
            let bucket = any_bucket(&url, &options, &account)?;
            // Google's condition is a generation, which no reader is told: there the last one to write wins.
            Some(Arc::new(ToBucket { bucket, by_etag: url.scheme() != "gs" }))
        }
        Some(_) => None,
    })
}

#[derive(Debug)]
struct ToBucket {
    bucket: Bucket,
    /// Whether a version can be named by its `ETag`.
    by_etag: bool,
}

impl ConditionalPut for ToBucket {
    fn put_over<'a>(
        &'a self,
        key: &'a Key,
        bytes: Bytes,
        over: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<bool, WriteError>> {
        let etag = over.map(|version| version.etag.as_deref().filter(|_| self.by_etag));
        async move { Ok(self.bucket.put_over(key, bytes, etag).await?) }.boxed()
    }
}

/// Whether an object is there as it is said to be.
async fn is_as_said(storage: &dyn Storage, key: &Key, over: Option<&Version>) -> Result<bool, StorageError> {
    match storage.read(key, Want::Head(1), over).await {
        Ok(_) => Ok(over.is_some()),
        Err(StorageError::NotFound(_)) => Ok(over.is_none()),
        Err(StorageError::Changed(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

impl ConditionalPut for Folder {
    fn put_over<'a>(
        &'a self,
        key: &'a Key,
        bytes: Bytes,
        over: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<bool, WriteError>> {
        async move {
            if !is_as_said(self, key, over).await? {
                return Ok(false);
            }
            let mut file = FileWriter::create(self.file(key).await?).await?;
            file.write(bytes).await?;
            match over {
                None => file.commit_new().await,
                // Between this look and the rename another one may write: the same, for it is of the same media.
                Some(_) if is_as_said(self, key, over).await? => file.commit().await.map(|()| true),
                Some(_) => Ok(false),
            }
        }
        .boxed()
    }
}

impl ConditionalPut for Memory {
    fn put_over<'a>(
        &'a self,
        key: &'a Key,
        bytes: Bytes,
        over: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<bool, WriteError>> {
        async move { Ok(self.put_if(key, bytes, over)) }.boxed()
    }
}
