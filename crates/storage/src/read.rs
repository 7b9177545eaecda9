//! A read: the request, the response, and how an observer learns its outcome.

use crate::{Key, ObjectMeta, StorageError, Version};
use bytes::Bytes;
use futures_util::stream::BoxStream;
use std::{
    ops::Range,
    sync::{Arc, OnceLock},
};

/// A request for bytes of one object.
#[derive(Debug, Clone)]
pub struct ReadRequest<'a> {
    /// Name of the object.
    pub key: &'a Key,
    /// Bytes of the object to read.
    pub want: Want,
    /// Version to read. If the object has another version, the read fails with
    /// [`StorageError::Changed`]. `None` reads the current version.
    pub version: Option<&'a Version>,
    /// Range around a wanted range that will soon be requested too. A storage that must fetch any
    /// of the wanted bytes may fetch all of this at once. Only a cache follows this hint.
    pub reach: Option<Range<u64>>,
    /// Receives the outcome. Only a cache reports one.
    pub observer: Option<Arc<dyn ReadObserver>>,
}

impl<'a> ReadRequest<'a> {
    /// Requests bytes of any version, without reach and observer.
    pub fn new(key: &'a Key, want: Want) -> Self {
        Self { key, want, version: None, reach: None, observer: None }
    }

    /// Requests the first bytes of an object, see [`Want::Head`].
    pub fn head(key: &'a Key, bytes: u64) -> Self {
        Self::new(key, Want::Head(bytes))
    }

    /// Requests exactly these bytes, see [`Want::Range`].
    pub fn range(key: &'a Key, range: Range<u64>) -> Self {
        Self::new(key, Want::Range(range))
    }

    /// Pins the read to a version.
    #[must_use]
    pub fn pinned(self, version: &'a Version) -> Self {
        self.pinned_to(Some(version))
    }

    /// Pins the read to a version if there is one.
    #[must_use]
    pub fn pinned_to(self, version: Option<&'a Version>) -> Self {
        Self { version, ..self }
    }

    /// Sets the reach, which should contain the wanted range.
    #[must_use]
    pub fn with_reach(self, reach: Range<u64>) -> Self {
        Self { reach: Some(reach), ..self }
    }

    /// Sets the observer.
    #[must_use]
    pub fn with_observer(self, observer: Arc<dyn ReadObserver>) -> Self {
        Self { observer: Some(observer), ..self }
    }
}

/// The bytes of an object that a read asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// The first bytes, or the whole object if it is shorter. A first read of an object uses this,
    /// because size and version of the object come with the response.
    Head(u64),
    /// Exactly these bytes. If the range is not inside the object, the read fails with
    /// [`StorageError::OutOfRange`].
    Range(Range<u64>),
}

impl Want {
    /// Returns the wanted range of an object of `size` bytes, or `None` if it is not inside it.
    pub fn within(&self, size: u64) -> Option<Range<u64>> {
        match self {
            Self::Head(bytes) => Some(0..size.min(*bytes)),
            Self::Range(range) => (range.start <= range.end && range.end <= size).then(|| range.clone()),
        }
    }
}

/// A response whose head has arrived, and whose bytes follow.
///
/// An unread body holds a concurrency permit of the back end. Code that waits for one read must
/// not hold another one that it does not drain: this could deadlock.
pub struct Read {
    /// Size and version of the object that the bytes belong to.
    pub object: ObjectMeta,
    /// Position of the bytes in the object.
    pub range: Range<u64>,
    /// Exactly `range.end - range.start` bytes, in frames of any size as they arrive. A body that
    /// ends early ends with an error. Dropping the body ends the transfer.
    pub body: BoxStream<'static, Result<Bytes, StorageError>>,
    /// True if the bytes are part of a cache's memory, which the cache counts.
    pub is_in_memory: bool,
}

impl std::fmt::Debug for Read {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Read")
            .field("object", &self.object)
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

/// The place where a cache found the bytes of a hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Tier {
    /// All bytes were in memory.
    Memory,
    /// At least some bytes were on disk, the rest in memory.
    Disk,
}

/// The outcome of a read through a cache. The type is part of this crate because
/// [`ReadRequest::observer`] receives it; `latemux-cache` re-exports it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The cache had all bytes.
    Hit(Tier),
    /// No request to storage was needed, but some bytes were still being fetched for other readers.
    Joined,
    /// Some bytes had to be requested from storage.
    Filled,
    /// The read went past the cache, for the reason that this stable word names.
    Bypassed(&'static str),
}

impl Outcome {
    /// The stable words that metrics, headers and the log use, ordered by [`Self::rank`].
    pub const NAMES: [&'static str; 5] = ["hit_memory", "hit_disk", "joined", "filled", "bypassed"];

    /// Returns the 0-based position in [`Self::NAMES`]. It grows with the cost of the read.
    pub const fn rank(self) -> usize {
        match self {
            Self::Hit(Tier::Memory) => 0,
            Self::Hit(Tier::Disk) => 1,
            Self::Joined => 2,
            Self::Filled => 3,
            Self::Bypassed(_) => 4,
        }
    }

    /// Returns the stable word, without the reason of a bypass.
    pub const fn name(self) -> &'static str {
        Self::NAMES[self.rank()]
    }
}

/// Receives what happens for one read, at once: the read itself returns only with its first bytes.
pub trait ReadObserver: Send + Sync + std::fmt::Debug {
    /// Receives the outcome before the bytes are waited for. It is called again if the outcome
    /// changes later, because the disk does not have the bytes after all.
    fn on_outcome(&self, outcome: Outcome);

    /// Notes one request to storage that the read caused.
    fn on_storage_request(&self) {}

    /// Notes bytes that arrived from storage because of the read.
    fn on_storage_bytes(&self, bytes: u64) {
        let _ = bytes;
    }
}

/// Keeps the first outcome that is reported.
impl ReadObserver for OnceLock<Outcome> {
    fn on_outcome(&self, outcome: Outcome) {
        let _ = self.set(outcome);
    }
}
