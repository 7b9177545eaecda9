//! Features common to all storage: bounded requests, long reads in chunks, second reads beside slow
//! ones, counters.
//!
//! [`StorageClient`] is a [`Storage`] around another. Retries are made in `backend/http`, which can
//! tell failures apart. Second reads and retries draw on one budget for the back end.

mod chunks;
mod hedge;
mod levels;
mod permits;
mod ramp;

pub use crate::on_behalf::{call_on_behalf_of, current_client, on_behalf_of};
pub use permits::{HeldPermits, Permits};

use crate::backend::http::retry::Account;
use crate::counters::{Counters, GaugeGuard, increment};
use crate::{Key, ListRequest, Listing, Options, Read, ReadRequest, Storage, StorageError};
use bytes::Bytes;
use chunks::Splitting;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use futures_util::{FutureExt, future::BoxFuture};
use std::pin::Pin;
use std::sync::{Arc, atomic::Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::time::{Instant, timeout};

/// A storage whose requests are bounded and counted.
#[derive(Debug, Clone)]
pub struct StorageClient {
    core: Arc<Core>,
}

#[derive(Debug)]
struct Core {
    inner: Arc<dyn Storage>,
    account: Arc<Account>,
    /// `None` if requests are not bounded.
    permits: Option<Arc<Permits>>,
    queue_timeout: Duration,
    hedge_after: Option<Duration>,
    /// `None` if reads are never split.
    splitting: Option<Splitting>,
}

/// A permit for one in-flight request.
#[derive(Debug)]
struct Permit {
    _permit: Option<HeldPermits>,
    _in_flight: GaugeGuard,
}

impl StorageClient {
    /// Bounds and counts requests to `inner`, which must not retry by itself.
    pub fn new(inner: Arc<dyn Storage>, options: &Options) -> Self {
        let account = Arc::new(Account::new(options));
        Self::over(inner, account, options, true)
    }

    /// Bounds and counts requests to `inner`, which draws on the same `account`.
    pub(crate) fn over(
        inner: Arc<dyn Storage>,
        account: Arc<Account>,
        options: &Options,
        bounded: bool,
    ) -> Self {
        options.registry.add(inner.describe(), &account.counters);
        let permits = bounded.then(|| {
            Permits::with_most_of_one(options.max_in_flight.max(1), options.in_flight_of_one_client())
        });
        let queue_timeout = options.queue_timeout;
        let hedge_after = Some(options.hedge_after).filter(|after| !after.is_zero());
        // A local folder has no distance that several requests could hide.
        let splitting = if bounded { Splitting::new(options) } else { None };
        Self { core: Arc::new(Core { inner, account, permits, queue_timeout, hedge_after, splitting }) }
    }

    /// Returns the counters of this back end.
    pub fn counters(&self) -> &Arc<Counters> {
        &self.core.account.counters
    }

    async fn read_now(&self, request: ReadRequest<'_>) -> Result<Read, StorageError> {
        let permit = self.begin(request.key).await?;
        match self.core.long_read(&request) {
            Some(long) => self.core.read_in_chunks(permit, request, long).await,
            None => self.core.read_whole(permit, request).await,
        }
    }

    async fn list_now(&self, request: ListRequest<'_>) -> Result<Listing, StorageError> {
        let _permit = self.begin(request.folder).await?;
        self.core.count_fault(self.core.inner.list(request).await)
    }

    async fn begin(&self, key: &Key) -> Result<Permit, StorageError> {
        let permit = self.core.acquire(key).await?;
        increment(&self.counters().requests);
        self.core.account.earn();
        Ok(permit)
    }
}

impl Core {
    fn permit(&self, permit: Option<HeldPermits>) -> Permit {
        Permit { _permit: permit, _in_flight: self.account.counters.in_flight_guard() }
    }

    /// Returns a permit if one is free now and nobody waits for it.
    fn try_acquire(&self) -> Option<Permit> {
        let Some(permits) = &self.permits else { return Some(self.permit(None)) };
        permits.try_acquire(1).map(|permit| self.permit(Some(permit)))
    }

    /// Returns a permit for a request that can be left out, under the same conditions, if the
    /// client keeps enough for others.
    fn try_acquire_spare(&self) -> Option<Permit> {
        let Some(permits) = &self.permits else { return Some(self.permit(None)) };
        permits.try_acquire_spare(1).map(|permit| self.permit(Some(permit)))
    }

    /// Waits for a permit. Clients get permits in turn, each in the order of its requests.
    async fn acquire(&self, key: &Key) -> Result<Permit, StorageError> {
        if let Some(permit) = self.try_acquire() {
            return Ok(permit);
        }
        let Some(permits) = &self.permits else { return Ok(self.permit(None)) };
        let begun = Instant::now();
        let waiting = self.account.counters.queue_guard();
        let permit = timeout(self.queue_timeout, permits.acquire(1)).await;
        drop(waiting);
        let permit = permit.ok().flatten();
        self.account.counters.record_wait(begun.elapsed(), permit.is_none());
        match permit {
            Some(permit) => Ok(self.permit(Some(permit))),
            None => Err(StorageError::Busy { key: key.to_string(), after: self.queue_timeout }),
        }
    }

    /// Reads with one request, or two if the first one is slow.
    async fn read_whole(
        self: &Arc<Self>,
        permit: Permit,
        request: ReadRequest<'_>,
    ) -> Result<Read, StorageError> {
        let begun = Instant::now();
        let response = match self.hedge_after {
            Some(after) => self.hedged(after, Some(permit), request).await,
            None => self.inner.read(request).await.map(|read| (read, Some(permit))),
        };
        let (mut read, permit) = self.count_fault(response)?;
        if self.splitting.is_some() {
            self.account.distance.note_response(begun.elapsed());
        }
        let left = read.range.end.saturating_sub(read.range.start);
        let permit = permit.filter(|_| left > 0);
        read.body = CountedBody { body: read.body, left, permit, core: Arc::clone(self) }.boxed();
        Ok(read)
    }

    /// Counts a failure that was the back end's fault.
    fn count_fault<T>(&self, response: Result<T, StorageError>) -> Result<T, StorageError> {
        if response.as_ref().is_err_and(StorageError::is_fault) {
            increment(&self.account.counters.failed);
        }
        response
    }
}

/// A body that holds its permit until all of it has arrived.
struct CountedBody {
    body: BoxStream<'static, Result<Bytes, StorageError>>,
    left: u64,
    permit: Option<Permit>,
    core: Arc<Core>,
}

impl Stream for CountedBody {
    type Item = Result<Bytes, StorageError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = ready!(self.body.poll_next_unpin(cx));
        match &next {
            Some(Ok(frame)) => {
                self.core.account.counters.bytes.fetch_add(frame.len() as u64, Relaxed);
                self.left = self.left.saturating_sub(frame.len() as u64);
                if self.left == 0 {
                    self.permit = None;
                }
            }
            Some(Err(_)) | None => self.permit = None,
        }
        Poll::Ready(next.map(|frame| self.core.count_fault(frame)))
    }
}

impl Storage for StorageClient {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        self.read_now(request).boxed()
    }

    fn list<'a>(&'a self, request: ListRequest<'a>) -> BoxFuture<'a, Result<Listing, StorageError>> {
        self.list_now(request).boxed()
    }

    fn describe(&self) -> String {
        self.core.inner.describe()
    }
}
