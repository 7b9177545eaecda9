//! Counts what is asked of a storage: requests, bytes, and how deep requests depend on each other.

use crate::{Key, Listing, Read, ReadRequest, Storage, StorageError, Want};
use futures_util::{FutureExt, StreamExt, future::BoxFuture};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One request that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// Object or folder.
    pub key: Key,
    /// What was asked; `None` for a listing.
    pub want: Option<Want>,
    /// Bytes of the body that were taken.
    pub bytes: u64,
    /// One more than the deepest request that had been answered when this one was made: an upper bound of how many
    /// round trips lie one after the other, this one included.
    pub depth: u32,
}

#[derive(Debug, Default)]
struct Log {
    requests: Vec<Request>,
    /// Deepest request that has been answered.
    answered: u32,
    /// Grows with each [`Counting::take`], so that bodies of before are not counted into requests of after.
    epoch: u64,
}

/// A storage that counts. With a delay, requests made together overlap and [`Request::depth`] is the number of round
/// trips a client far away would wait for; under a paused tokio clock the delay costs no time.
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
    /// Counts requests to `inner`, each answered no earlier than `delay` after it was made.
    #[must_use]
    pub fn new(inner: Arc<dyn Storage>, delay: Duration) -> Self {
        Self { inner, delay, log: Arc::default() }
    }

    /// The requests since the last call, in the order they were made.
    #[must_use]
    pub fn take(&self) -> Vec<Request> {
        let mut log = lock(&self.log);
        let epoch = log.epoch + 1;
        std::mem::replace(&mut *log, Log { epoch, ..Log::default() }).requests
    }

    /// Round trips one after the other since the last [`Counting::take`].
    #[must_use]
    pub fn depth(&self) -> u32 {
        lock(&self.log).requests.iter().map(|request| request.depth).max().unwrap_or(0)
    }

    /// Notes a request; its epoch, place and depth.
    fn asked(&self, key: &Key, want: Option<Want>) -> (u64, usize, u32) {
        let mut log = lock(&self.log);
        let depth = log.answered + 1;
        log.requests.push(Request { key: key.clone(), want, bytes: 0, depth });
        (log.epoch, log.requests.len() - 1, depth)
    }

    fn answered(&self, epoch: u64, depth: u32) {
        let mut log = lock(&self.log);
        if log.epoch == epoch {
            log.answered = log.answered.max(depth);
        }
    }
}

impl Storage for Counting {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        async move {
            let (epoch, place, depth) = self.asked(request.key, Some(request.want.clone()));
            tokio::time::sleep(self.delay).await;
            let answer = self.inner.read(request).await;
            self.answered(epoch, depth);
            let mut read = answer?;
            let log = Arc::clone(&self.log);
            let count = move |frame: &Result<bytes::Bytes, StorageError>| {
                let mut log = lock(&log);
                if let (Ok(frame), true) = (frame, log.epoch == epoch) {
                    log.requests[place].bytes += frame.len() as u64;
                }
            };
            read.body = read.body.inspect(count).boxed();
            Ok(read)
        }
        .boxed()
    }

    fn list<'a>(&'a self, folder: &'a Key) -> BoxFuture<'a, Result<Listing, StorageError>> {
        async move {
            let (epoch, _, depth) = self.asked(folder, None);
            tokio::time::sleep(self.delay).await;
            let answer = self.inner.list(folder).await;
            self.answered(epoch, depth);
            answer
        }
        .boxed()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
