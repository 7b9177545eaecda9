//! The shared state of a fill: one fetch of missing bytes for all readers that wait for them.

use latemux_storage::StorageError;
use std::{
    ops::Range,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
};
use tokio::sync::watch;

/// The state of a fill that readers share.
#[derive(Debug)]
pub(crate) struct Fill {
    /// The range from the first to the last byte that the fill brings.
    pub(crate) range: Range<u64>,
    pub(crate) from_disk: bool,
    /// True if the fill brings more than its reader wants. It then goes on without a reader.
    for_others: bool,
    /// Number of readers that still want some of its bytes.
    readers: AtomicUsize,
    failed: OnceLock<StorageError>,
}

impl Fill {
    pub(crate) fn new(range: Range<u64>, from_disk: bool, for_others: bool) -> Arc<Self> {
        Arc::new(Self { range, from_disk, for_others, readers: AtomicUsize::new(0), failed: OnceLock::new() })
    }

    pub(crate) fn is_awaited(&self) -> bool {
        self.readers.load(SeqCst) > 0
    }

    /// Returns true if readers wait for the fetch, or if it is meant for later ones.
    pub(crate) fn should_continue(&self) -> bool {
        self.is_awaited() || self.for_others
    }

    /// Sets the error that ended the fetch before it was complete.
    pub(crate) fn fail(&self, error: &StorageError) {
        let _ = self.failed.set(error.clone());
    }

    /// Returns the error that ended the fetch before it was complete.
    pub(crate) fn failure(&self) -> Option<&StorageError> {
        self.failed.get()
    }
}

/// A reader's interest in a fill. It is created while the object's extents are locked, so that a
/// fetch that is about to give up sees it.
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

#[derive(Debug, Default)]
pub(crate) struct FetchCount(watch::Sender<u64>);

impl FetchCount {
    pub(crate) fn begin(&self) {
        self.0.send_modify(|count| *count += 1);
    }

    pub(crate) fn end(&self) {
        self.0.send_modify(|count| *count -= 1);
    }

    pub(crate) fn get(&self) -> u64 {
        *self.0.borrow()
    }

    pub(crate) async fn all_ended(&self) {
        // The channel stays open, because `self` holds its sender.
        let _ = self.0.subscribe().wait_for(|count| *count == 0).await;
    }
}
