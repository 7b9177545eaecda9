//! Counts requests to storage in the metrics and in the record of the current request.

use crate::{
    health::Health,
    observe::{
        metrics::{ReadPurpose, StorageTotals},
        trace::Trace,
    },
};
use futures_util::{FutureExt, StreamExt, future::BoxFuture};
use latemux_storage::{
    ListRequest, Listing, Outcome, Read, ReadObserver, ReadRequest, Storage, StorageError,
};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Instant,
};

/// Wraps storages so that their requests are counted.
#[derive(Debug, Clone, Default)]
pub(crate) struct StorageMeter {
    totals: Arc<StorageTotals>,
    health: Arc<Health>,
}

impl StorageMeter {
    pub(crate) fn new(totals: Arc<StorageTotals>, health: Arc<Health>) -> Self {
        Self { totals, health }
    }

    /// Returns the same storage with its reads counted under `purpose`. Listings are counted as
    /// listings.
    pub(crate) fn over(&self, inner: Arc<dyn Storage>, purpose: ReadPurpose) -> Arc<dyn Storage> {
        Arc::new(Metered { inner, purpose, totals: self.totals.clone(), health: self.health.clone() })
    }
}

/// A storage that counts its requests.
#[derive(Debug)]
struct Metered {
    inner: Arc<dyn Storage>,
    purpose: ReadPurpose,
    totals: Arc<StorageTotals>,
    health: Arc<Health>,
}

/// Counts an error of storage.
fn count_error(error: &StorageError, purpose: ReadPurpose, totals: &StorageTotals, health: &Health) {
    totals.of(purpose).errors.fetch_add(1, Relaxed);
    match error {
        error if error.is_fault() => health.record_failure(),
        // No permit was free: nothing is known of storage.
        StorageError::Busy { .. } => {}
        _ => health.record_answer(),
    }
}

impl Metered {
    /// Counts a request to storage, and returns the observer of the request that caused it.
    fn count(&self, purpose: ReadPurpose) -> Option<Arc<dyn ReadObserver>> {
        self.totals.of(purpose).requests.fetch_add(1, Relaxed);
        let observer = Trace::current()?.observer();
        observer.on_storage_request();
        observer.on_outcome(Outcome::Filled);
        Some(observer)
    }
}

impl Storage for Metered {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        async move {
            let observer = self.count(self.purpose);
            let began = Instant::now();
            let totals = self.totals.clone();
            let health = self.health.clone();
            let purpose = self.purpose;
            let read = self.inner.read(request).await;
            let mut read = read.inspect_err(|error| count_error(error, purpose, &totals, &health))?;
            totals.of(purpose).first_byte.observe(began.elapsed());
            let count = move |frame: &Result<bytes::Bytes, StorageError>| match frame {
                Ok(frame) => {
                    let bytes = frame.len() as u64;
                    totals.of(purpose).bytes.fetch_add(bytes, Relaxed);
                    health.record_answer();
                    observer.iter().for_each(|observer| observer.on_storage_bytes(bytes));
                }
                Err(error) => count_error(error, purpose, &totals, &health),
            };
            read.body = read.body.inspect(count).boxed();
            Ok(read)
        }
        .boxed()
    }

    fn list<'a>(&'a self, request: ListRequest<'a>) -> BoxFuture<'a, Result<Listing, StorageError>> {
        async move {
            self.count(ReadPurpose::Listing);
            let listing = self.inner.list(request).await;
            if listing.is_ok() {
                self.health.record_answer();
            }
            listing.inspect_err(|error| {
                count_error(error, ReadPurpose::Listing, &self.totals, &self.health);
            })
        }
        .boxed()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
