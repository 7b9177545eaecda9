//! A storage that counts requests, bytes, and the depth to which requests depend on each other.

use crate::{Key, ListRequest, Listing, Read, ReadRequest, Storage, StorageError, Want};
use futures_util::{FutureExt, StreamExt, future::BoxFuture};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A request that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Name of the object or folder.
    pub key: Key,
    /// Wanted bytes; `None` for a page of a listing.
    pub want: Option<Want>,
    /// Bytes of the body that were read.
    pub bytes: u64,
    /// One more than the depth of the deepest request that had been answered when this one was
    /// made. It is an upper bound of the sequential round trips, including this one.
    pub depth: u32,
}

#[derive(Debug, Default)]
struct Log {
    requests: Vec<Request>,
    /// Depth of the deepest request that has been answered.
    deepest: u32,
    /// Incremented by each [`Counting::take`], so that older bodies are not counted.
    epoch: u64,
}

/// A storage that counts. With a delay, concurrent requests overlap, and [`Request::depth`] is the
/// number of round trips that a distant client would wait for. Under a paused tokio clock, the
/// delay takes no time.
#[derive(Debug)]
pub struct Counting {
    inner: Arc<dyn Storage>,
    delay: Duration,
    log: Arc<Mutex<Log>>,
}

fn lock(log: &Mutex<Log>) -> MutexGuard<'_, Log> {
    log.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Counting {
    /// Counts requests to `inner`, and delays each response by `delay`.
    pub fn new(inner: Arc<dyn Storage>, delay: Duration) -> Self {
        Self { inner, delay, log: Arc::default() }
    }

    /// Returns the requests since the last call, in the order they were made.
    pub fn take(&self) -> Vec<Request> {
        let mut log = lock(&self.log);
        let epoch = log.epoch + 1;
        std::mem::replace(&mut *log, Log { epoch, ..Log::default() }).requests
    }

    /// Returns the number of sequential round trips since the last [`Counting::take`].
    pub fn depth(&self) -> u32 {
        lock(&self.log).requests.iter().map(|request| request.depth).max().unwrap_or(0)
    }

    /// Records a request, and returns its epoch, index and depth.
    fn record_request(&self, key: &Key, want: Option<Want>) -> (u64, usize, u32) {
        let mut log = lock(&self.log);
        let depth = log.deepest + 1;
        log.requests.push(Request { key: key.clone(), want, bytes: 0, depth });
        (log.epoch, log.requests.len() - 1, depth)
    }

    fn record_response(&self, epoch: u64, depth: u32) {
        let mut log = lock(&self.log);
        if log.epoch == epoch {
            log.deepest = log.deepest.max(depth);
        }
    }
}

impl Storage for Counting {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        async move {
            let (epoch, index, depth) = self.record_request(request.key, Some(request.want.clone()));
            tokio::time::sleep(self.delay).await;
            let response = self.inner.read(request).await;
            self.record_response(epoch, depth);
            let mut read = response?;
            let log = Arc::clone(&self.log);
            let count = move |frame: &Result<bytes::Bytes, StorageError>| {
                let mut log = lock(&log);
                if let (Ok(frame), true) = (frame, log.epoch == epoch) {
                    log.requests[index].bytes += frame.len() as u64;
                }
            };
            read.body = read.body.inspect(count).boxed();
            Ok(read)
        }
        .boxed()
    }

    fn list<'a>(&'a self, request: ListRequest<'a>) -> BoxFuture<'a, Result<Listing, StorageError>> {
        async move {
            let (epoch, _, depth) = self.record_request(request.folder, None);
            tokio::time::sleep(self.delay).await;
            let response = self.inner.list(request).await;
            self.record_response(epoch, depth);
            response
        }
        .boxed()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
