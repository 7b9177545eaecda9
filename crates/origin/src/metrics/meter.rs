//! Counts what is asked of storage, by what it is asked for.

use super::responses::Histogram;
use crate::trace::{Outcome, Trace};
use futures_util::{FutureExt, StreamExt, future::BoxFuture};
use latemux_storage::{Key, Listing, ReadRequest, Storage, StorageError};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Instant,
};

/// What is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Read {
    /// Server manifests.
    Manifest,
    /// What is in a folder.
    Listing,
    /// Indexes, and whether they still are those of their objects.
    Index,
    /// Media, with the indexes of fragments among it.
    Media,
}

impl Read {
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::Manifest, "manifest"),
        (Self::Listing, "listing"),
        (Self::Index, "index"),
        (Self::Media, "media"),
    ];
}

/// Numbers by [`Read`].
#[derive(Debug, Default)]
pub(crate) struct StorageTotals([Totals; Read::ALL.len()]);

/// What was asked of storage.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    /// Requests made.
    pub(crate) requests: AtomicU64,
    /// Of them, those that were answered with an error, or whose body broke off.
    pub(crate) errors: AtomicU64,
    /// Bytes of bodies that came.
    pub(crate) bytes: AtomicU64,
    /// From a request to the head of its answer.
    pub(crate) first_byte: Histogram,
}

impl StorageTotals {
    pub(crate) fn of(&self, read: Read) -> &Totals {
        let [manifest, listing, index, media] = &self.0;
        match read {
            Read::Manifest => manifest,
            Read::Listing => listing,
            Read::Index => index,
            Read::Media => media,
        }
    }
}

/// Makes storages that count.
#[derive(Debug, Clone, Default)]
pub(crate) struct StorageMeter {
    totals: Arc<StorageTotals>,
}

impl StorageMeter {
    pub(crate) fn new(totals: Arc<StorageTotals>) -> Self {
        Self { totals }
    }

    /// The same storage, whose reads are counted as `read`; listings always as what they are.
    pub(crate) fn over(&self, inner: Arc<dyn Storage>, read: Read) -> Arc<dyn Storage> {
        Arc::new(Metered { inner, read, totals: self.totals.clone() })
    }
}

/// A storage that counts, for all requests together and for the one that asks.
#[derive(Debug)]
struct Metered {
    inner: Arc<dyn Storage>,
    read: Read,
    totals: Arc<StorageTotals>,
}

impl Metered {
    /// A request begins; what it is for.
    fn asked(&self, read: Read) -> Option<Trace> {
        self.totals.of(read).requests.fetch_add(1, Relaxed);
        let trace = Trace::current();
        if let Some(trace) = &trace {
            trace.storage_asked();
            trace.note(Outcome::Filled);
        }
        trace
    }
}

impl Storage for Metered {
    fn read<'a>(
        &'a self,
        request: ReadRequest<'a>,
    ) -> BoxFuture<'a, Result<latemux_storage::Read, StorageError>> {
        async move {
            let trace = self.asked(self.read);
            let (totals, kind, asked) = (self.totals.clone(), self.read, Instant::now());
            let mut read = self
                .inner
                .read(request)
                .await
                .inspect_err(|_| _ = totals.of(kind).errors.fetch_add(1, Relaxed))?;
            totals.of(kind).first_byte.observe(asked.elapsed());
            let count = move |frame: &Result<bytes::Bytes, StorageError>| match frame {
                Ok(frame) => {
                    let bytes = u64::try_from(frame.len()).unwrap_or(u64::MAX);
                    totals.of(kind).bytes.fetch_add(bytes, Relaxed);
                    if let Some(trace) = &trace {
                        trace.storage_gave(bytes);
                    }
                }
                Err(_) => _ = totals.of(kind).errors.fetch_add(1, Relaxed),
            };
            read.body = read.body.inspect(count).boxed();
            Ok(read)
        }
        .boxed()
    }

    fn list<'a>(&'a self, folder: &'a Key) -> BoxFuture<'a, Result<Listing, StorageError>> {
        async move {
            self.asked(Read::Listing);
            let answer = self.inner.list(folder).await;
            answer.inspect_err(|_| _ = self.totals.of(Read::Listing).errors.fetch_add(1, Relaxed))
        }
        .boxed()
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}
