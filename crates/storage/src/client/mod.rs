//! What all storage has in common: a bound on requests under way, second reads beside slow ones, and counters.
//!
//! [`StorageClient`] is a [`Storage`] around another. Retries are not here but where failures are understood, in
//! `backend/http`; both draw on one budget for the back end.

mod hedge;

use crate::backend::http::retry::Account;
use crate::counters::{Counters, Kind, Present, one_more};
use crate::{Key, Listing, Options, Read, Storage, StorageError, Version, Want};
use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use futures_util::{FutureExt, future::BoxFuture};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout};

/// A storage whose requests are bounded and counted.
#[derive(Debug, Clone)]
pub struct StorageClient {
    core: Arc<Core>,
    kind: Kind,
}

#[derive(Debug)]
struct Core {
    inner: Arc<dyn Storage>,
    account: Arc<Account>,
    /// `None`: not bounded.
    places: Option<Arc<Semaphore>>,
    queue_timeout: Duration,
    /// Never if `None`.
    hedge_after: Option<Duration>,
}

/// A place among the requests under way.
#[derive(Debug)]
struct Place {
    _permit: Option<OwnedSemaphorePermit>,
    _present: Present,
}

impl StorageClient {
    /// Bounds and counts requests to `inner`, which makes none but those it is asked for.
    #[must_use]
    pub fn new(inner: Arc<dyn Storage>, options: &Options) -> Self {
        let account = Arc::new(Account::new(options));
        Self::over(inner, account, options, true)
    }

    /// `account` is what `inner` draws on too.
    pub(crate) fn over(
        inner: Arc<dyn Storage>,
        account: Arc<Account>,
        options: &Options,
        bounded: bool,
    ) -> Self {
        options.registry.add(inner.describe(), &account.counters);
        let most = options.max_in_flight.clamp(1, Semaphore::MAX_PERMITS);
        let places = bounded.then(|| Arc::new(Semaphore::new(most)));
        let queue_timeout = options.queue_timeout;
        let hedge_after = Some(options.hedge_after).filter(|after| !after.is_zero());
        Self {
            core: Arc::new(Core { inner, account, places, queue_timeout, hedge_after }),
            kind: Kind::default(),
        }
    }

    /// The counters of this back end.
    #[must_use]
    pub fn counters(&self) -> &Arc<Counters> {
        &self.core.account.counters
    }

    async fn read_now(&self, key: &Key, want: Want, pin: Option<&Version>) -> Result<Read, StorageError> {
        let place = self.begin(key).await?;
        let answer = match self.core.hedge_after {
            Some(after) => self.core.hedged(after, place, key, want, pin).await,
            None => self.core.inner.read(key, want, pin).await.map(|read| (read, place)),
        };
        let (mut read, place) = self.core.noted(answer)?;
        let left = read.range.end.saturating_sub(read.range.start);
        let place = Some(place).filter(|_| left > 0);
        read.body =
            Body { body: read.body, left, place, core: Arc::clone(&self.core), kind: self.kind }.boxed();
        Ok(read)
    }

    async fn list_now(&self, folder: &Key) -> Result<Listing, StorageError> {
        let _place = self.begin(folder).await?;
        self.core.noted(self.core.inner.list(folder).await)
    }

    async fn begin(&self, key: &Key) -> Result<Place, StorageError> {
        let place = self.core.enter(key).await?;
        self.counters().request(self.kind);
        self.core.account.earn();
        Ok(place)
    }
}

impl Core {
    fn place(&self, permit: Option<OwnedSemaphorePermit>) -> Place {
        Place { _permit: permit, _present: self.account.counters.flies() }
    }

    /// A place, if one is free now and nobody waits for it.
    fn try_enter(&self) -> Option<Place> {
        let Some(places) = &self.places else { return Some(self.place(None)) };
        Arc::clone(places).try_acquire_owned().ok().map(|permit| self.place(Some(permit)))
    }

    /// Waits for a place; they are given in the order they were asked for.
    async fn enter(&self, key: &Key) -> Result<Place, StorageError> {
        if let Some(place) = self.try_enter() {
            return Ok(place);
        }
        let Some(places) = &self.places else { return Ok(self.place(None)) };
        let begun = Instant::now();
        let waiting = self.account.counters.waits();
        let permit = timeout(self.queue_timeout, Arc::clone(places).acquire_owned()).await;
        drop(waiting);
        // It is never closed.
        let permit = permit.ok().and_then(Result::ok);
        self.account.counters.has_waited(begun.elapsed(), permit.is_none());
        match permit {
            Some(permit) => Ok(self.place(Some(permit))),
            None => Err(StorageError::Busy { key: key.to_string(), after: self.queue_timeout }),
        }
    }

    /// Counts an answer that was the back end's fault.
    fn noted<T>(&self, answer: Result<T, StorageError>) -> Result<T, StorageError> {
        if answer.as_ref().is_err_and(StorageError::is_fault) {
            one_more(&self.account.counters.failed);
        }
        answer
    }
}

/// A body that holds its place until all of it has come.
struct Body {
    body: BoxStream<'static, Result<Bytes, StorageError>>,
    left: u64,
    place: Option<Place>,
    core: Arc<Core>,
    kind: Kind,
}

impl Stream for Body {
    type Item = Result<Bytes, StorageError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.body.poll_next_unpin(cx));
        match &next {
            Some(Ok(frame)) => {
                self.core.account.counters.bytes(self.kind, frame.len());
                self.left = self.left.saturating_sub(frame.len() as u64);
                if self.left == 0 {
                    self.place = None;
                }
            }
            Some(Err(_)) | None => self.place = None,
        }
        Poll::Ready(next.map(|frame| self.core.noted(frame)))
    }
}

impl Storage for StorageClient {
    fn read<'a>(
        &'a self,
        key: &'a Key,
        want: Want,
        pin: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<Read, StorageError>> {
        self.read_now(key, want, pin).boxed()
    }

    fn list<'a>(&'a self, folder: &'a Key) -> BoxFuture<'a, Result<Listing, StorageError>> {
        self.list_now(folder).boxed()
    }

    fn describe(&self) -> String {
        self.core.inner.describe()
    }

    fn for_kind(&self, kind: Kind) -> Option<Arc<dyn Storage>> {
        Some(Arc::new(Self { core: Arc::clone(&self.core), kind }))
    }
}
