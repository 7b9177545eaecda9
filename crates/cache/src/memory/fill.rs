//! A fill as its readers see it: one fetch of missing bytes, shared by all readers that wait for them.

use latemux_storage::StorageError;
use std::{
    ops::Range,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};
use tokio::sync::watch;

/// What readers know of a fetch.
#[derive(Debug)]
pub(crate) struct Fill {
    /// From the first to the last byte it brings.
    pub(crate) range: Range<u64>,
    pub(crate) from_disk: bool,
    /// It brings more than its first reader wants, for those to come: it goes on without any.
    for_others: bool,
    /// Readers that still want something of it.
    readers: AtomicUsize,
    failed: OnceLock<StorageError>,
}

impl Fill {
    pub(crate) fn new(range: Range<u64>, from_disk: bool, for_others: bool) -> Arc<Self> {
        let (readers, failed) = (AtomicUsize::new(0), OnceLock::new());
        Arc::new(Self { range, from_disk, for_others, readers, failed })
    }

    pub(crate) fn is_awaited(&self) -> bool {
        self.readers.load(SeqCst) > 0
    }

    /// Returns true while the fetch should go on: readers wait for it, or it is meant for later ones.
    pub(crate) fn goes_on(&self) -> bool {
        self.is_awaited() || self.for_others
    }

    /// Notes why the fetch ended before it was complete.
    pub(crate) fn fail(&self, error: &StorageError) {
        let _ = self.failed.set(error.clone());
    }

    /// Why it ended before it was complete.
    pub(crate) fn failure(&self) -> Option<&StorageError> {
        self.failed.get()
    }
}

/// A reader's interest in a fetch. Taken with the object's extents locked, so that a fetch about to give up sees it.
#[derive(Debug)]
pub(crate) struct Interest(pub(crate) Arc<Fill>);

impl Interest {
    pub(crate) fn new(fill: Arc<Fill>) -> Self {
        fill.readers.fetch_add(1, SeqCst);
        Self(fill)
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        self.0.readers.fetch_sub(1, SeqCst);
    }
}

/// How many fetches are under way.
#[derive(Debug, Default)]
pub(crate) struct FetchCount(watch::Sender<u64>);

impl FetchCount {
    pub(crate) fn begin(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    pub(crate) fn end(&self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }

    pub(crate) fn get(&self) -> u64 {
        *self.0.borrow()
    }

    /// Waits until none is.
    pub(crate) async fn all_ended(&self) {
        // It is never closed, for it is here.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}
