//! An object in a bucket. A large one is uploaded in parts and becomes visible with the last
//! request.

use crate::{Bucket, Key, StorageError, backend::object::upload_error};
use bytes::Bytes;
use object_store::{MultipartUpload, PutPayload};
use std::sync::Arc;
use tokio::task::JoinSet;

/// Bytes of a part. Every service accepts parts of 5 MiB or more, all of one size. At most
/// `IN_FLIGHT` + 1 parts are held.
const PART_BYTES: u64 = 8 << 20;

/// Maximum number of parts being sent concurrently.
const IN_FLIGHT: usize = 2;

/// Maximum number of parts of one object. The strictest service allows 10,000 (S3); the margin
/// allows for sizes that were estimated.
const MAX_PARTS: u64 = 8_000;

/// An object being uploaded.
#[derive(Debug)]
pub(super) struct BucketWriter {
    bucket: Arc<Bucket>,
    key: Key,
    part: usize,
    held: Vec<Bytes>,
    /// Number of bytes in `held`.
    len: usize,
    /// `None` as long as one part is enough.
    upload: Option<Box<dyn MultipartUpload>>,
    sending: JoinSet<object_store::Result<()>>,
}

impl BucketWriter {
    pub(super) fn new(bucket: Arc<Bucket>, key: Key, size: u64) -> Self {
        let part = size.div_ceil(MAX_PARTS).max(PART_BYTES);
        let part = usize::try_from(part).unwrap_or(usize::MAX);
        Self { bucket, key, part, held: Vec::new(), len: 0, upload: None, sending: JoinSet::new() }
    }

    pub(super) async fn write(&mut self, mut bytes: Bytes) -> Result<(), StorageError> {
        while self.len + bytes.len() >= self.part {
            self.held.push(bytes.split_to(self.part - self.len));
            self.len = self.part;
            self.send().await?;
        }
        if !bytes.is_empty() {
            self.len += bytes.len();
            self.held.push(bytes);
        }
        Ok(())
    }

    /// Sends the held bytes as one part.
    async fn send(&mut self) -> Result<(), StorageError> {
        let upload = match &mut self.upload {
            Some(upload) => upload,
            None => self.upload.insert(self.bucket.begin(&self.key).await?),
        };
        self.len = 0;
        let payload = PutPayload::from_iter(std::mem::take(&mut self.held));
        self.sending.spawn(upload.put_part(payload));
        while self.sending.len() >= IN_FLIGHT {
            self.sent().await?;
        }
        Ok(())
    }

    /// Waits until one part has been sent.
    async fn sent(&mut self) -> Result<(), StorageError> {
        match self.sending.join_next().await {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(e))) => Err(upload_error(&self.key, &e)),
            Some(Err(e)) => {
                Err(StorageError::Unavailable { key: self.key.to_string(), detail: e.to_string() })
            }
        }
    }

    pub(super) async fn flush(&mut self) -> Result<(), StorageError> {
        // An object that fits into one request is sent by `commit`.
        if self.upload.is_some() && self.len > 0 {
            self.send().await?;
        }
        while !self.sending.is_empty() {
            self.sent().await?;
        }
        Ok(())
    }

    pub(super) async fn commit(mut self) -> Result<(), StorageError> {
        if let Err(error) = self.flush().await {
            self.discard().await;
            return Err(error);
        }
        match &mut self.upload {
            None => {
                let bytes = PutPayload::from_iter(std::mem::take(&mut self.held));
                self.bucket.put_payload(&self.key, bytes).await
            }
            Some(upload) => match upload.complete().await {
                Ok(_) => Ok(()),
                Err(e) => {
                    let error = upload_error(&self.key, &e);
                    self.discard().await;
                    Err(error)
                }
            },
        }
    }

    pub(super) async fn discard(mut self) {
        // Parts in flight could arrive after the service was told to discard them.
        self.sending.shutdown().await;
        if let Some(mut upload) = self.upload.take()
            && let Err(e) = upload.abort().await
        {
            tracing::warn!(key = %self.key, error = %e, "parts of an upload may be left, because aborting it failed");
        }
    }
}
