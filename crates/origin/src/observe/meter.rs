//! Counts requests to storage in the metrics and in the record of the current request.

use crate::observe::{
    metrics::{ReadPurpose, StorageTotals},
    trace::Trace,
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
}

impl StorageMeter {
    pub(crate) fn new(totals: Arc<StorageTotals>) -> Self {
        Self { totals }
    }

    /// Returns the same storage with its reads counted under `purpose`. Listings are counted as
    /// listings.
    pub(crate) fn over(&self, inner: Arc<dyn Storage>, purpose: ReadPurpose) -> Arc<dyn Storage> {
        Arc::new(Metered { inner, purpose, totals: self.totals.clone() })
    }
}

/// A storage that counts its requests.
#[derive(Debug)]
struct Metered {
    inner: Arc<dyn Storage>,
    purpose: ReadPurpose,
    totals: Arc<StorageTotals>,
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
            let purpose = self.purpose;
            let read = self.inner.read(request).await;
            let mut read = read.inspect_err(|_| _ = totals.of(purpose).errors.fetch_add(1, Relaxed))?;
            totals.of(purpose).first_byte.observe(began.elapsed());
            let count = move |frame: &Result<bytes::Bytes, StorageError>| match frame {
                Ok(frame) => {
                    let bytes = frame.len() as u64;
                    totals.of(purpose).bytes.fetch_add(bytes, Relaxed);
                    observer.iter().for_each(|observer| observer.on_storage_bytes(bytes));
                }
                Err(_) => _ = totals.of(purpose).errors.fetch_add(1, Relaxed),
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
            listing.inspect_err(|_| _ = self.totals.of(ReadPurpose::Listing).errors.fetch_add(1, Relaxed))
        }
        .boxed()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
