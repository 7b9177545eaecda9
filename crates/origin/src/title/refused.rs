//! Files and titles that are missing or cannot be served, remembered for a moment. Requests for
//! them then cost neither storage requests nor work.

use crate::{Error, title::memory_cache::MemoryCache};
use latemux_storage::StorageError;
use std::{hash::Hash, time::Duration};
use tokio::time::Instant;

/// Most memory of the remembered errors, in bytes.
const CAPACITY: u64 = 1 << 20;

/// Errors by name, each remembered for the same time.
#[derive(Debug)]
pub(crate) struct Refused<K> {
    memory: MemoryCache<K, (Instant, Error)>,
    remembered_for: Duration,
}

impl<K: Hash + Eq> Refused<K> {
    /// Creates a memory of errors for a tenth of the time after which known files are looked at
    /// again. `weigh` returns the size of a name in bytes.
    pub(crate) fn new(recheck_after: Duration, weigh: fn(&K, &(Instant, Error)) -> usize) -> Self {
        Self { memory: MemoryCache::new(CAPACITY, weigh), remembered_for: recheck_after / 10 }
    }

    /// Returns the error of a name, if it is remembered.
    pub(crate) fn check(&self, name: &K) -> Result<(), Error> {
        match self.memory.peek(name) {
            Some((since, error)) if since.elapsed() < self.remembered_for => Err(error),
            _ => Ok(()),
        }
    }

    /// Remembers an error if another request would meet it too: the file is missing, or its
    /// contents are refused. Failures of storage may be over a moment later, and are not
    /// remembered.
    pub(crate) fn remember(&self, name: K, error: &Error) {
        if !self.remembered_for.is_zero() && is_lasting(error) {
            self.memory.insert(name, (Instant::now(), error.clone()));
        }
    }

    pub(crate) fn forget(&self, name: &K) {
        self.memory.remove(name);
    }
}

/// Returns true for an error that lasts until a file changes.
fn is_lasting(error: &Error) -> bool {
    match error {
        Error::Element { error, .. } => is_lasting(error),
        Error::Storage(error) => matches!(
            error,
            StorageError::NotFound(_) | StorageError::CannotList(_) | StorageError::FolderTooLarge { .. }
        ),
        Error::Index { .. }
        | Error::NoMedia(_)
        | Error::NotOneTitle { .. }
        | Error::UnknownExtension { .. }
        | Error::TooManyObjects { .. }
        | Error::LocationRefused { .. }
        | Error::Manifest { .. }
        | Error::WrongTrackId { .. } => true,
        _ => false,
    }
}

/// Returns an estimate of the memory that an error takes, in bytes.
pub(crate) fn weight(error: &Error) -> usize {
    256 + error.to_string().len()
}
