//! Ranged reads of immutable object versions: from a folder, an HTTP server, S3 and its kin, or memory.
//!
//! [`Storage`] is the whole interface. A cache, a fault injector or a counter is another `Storage` around one. Every
//! implementation passes one suite, `conformance`.

#[cfg(any(test, feature = "testing"))]
pub mod altered;
pub mod backend;
pub mod client;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
pub mod counters;
#[cfg(any(test, feature = "testing"))]
pub mod counting;
pub mod error;
#[cfg(any(test, feature = "testing"))]
pub mod fault;
pub mod object;
pub mod open;
mod options;
#[cfg(test)]
#[path = "../tests/it/server.rs"]
#[expect(dead_code, reason = "the integration tests use the rest of it")]
mod server;
#[cfg(any(test, feature = "testing"))]
pub mod stand_in;
pub mod write;

pub use backend::http::HttpServer;
pub use backend::{file::Folder, memory::Memory, object::Bucket};
pub use client::StorageClient;
pub use counters::{Counters, Kind, Registry};
pub use error::StorageError;
pub use object::{Key, ObjectMeta, Version};
pub use open::{OpenError, open, open_object};
pub use options::{AccessKeys, Options, S3Overrides};

use bytes::Bytes;
use futures_util::{future::BoxFuture, stream::BoxStream};
use std::{ops::Range, sync::Arc};

/// Which bytes of an object to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// The first bytes, fewer where the object is shorter: how an object is opened, for its size and version come
    /// with the answer.
    Head(u64),
    /// Exactly these bytes; a range that does not lie in the object is [`StorageError::OutOfRange`].
    Range(Range<u64>),
}

impl Want {
    /// Which bytes of an object of `size` bytes this names. `None` where they do not lie in it.
    #[must_use]
    pub fn within(&self, size: u64) -> Option<Range<u64>> {
        match self {
            Self::Head(bytes) => Some(0..size.min(*bytes)),
            Self::Range(range) => (range.start <= range.end && range.end <= size).then(|| range.clone()),
        }
    }
}

/// An answer whose head has arrived; its bytes follow.
pub struct Read {
    /// Size and version of the object the bytes are of.
    pub object: ObjectMeta,
    /// Where the bytes lie in the object.
    pub range: Range<u64>,
    /// Exactly `range.end - range.start` bytes in frames of any size as they arrive, or an error; a stream that ends early
    /// ends with an error, never silently. Dropping it ends the transfer.
    pub body: BoxStream<'static, Result<Bytes, StorageError>>,
}

impl std::fmt::Debug for Read {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Read")
            .field("object", &self.object)
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

/// What a folder holds, one level deep, each list sorted by name (byte order).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Names of objects directly in it, with their sizes in bytes.
    pub objects: Vec<(String, u64)>,
    /// Names of folders directly in it.
    pub folders: Vec<String>,
}

/// A place where objects are read by byte range.
pub trait Storage: Send + Sync + std::fmt::Debug {
    /// Reads bytes of one object. With `pin`, only of that version: else [`StorageError::Changed`].
    fn read<'a>(
        &'a self,
        key: &'a Key,
        want: Want,
        pin: Option<&'a Version>,
    ) -> BoxFuture<'a, Result<Read, StorageError>>;

    /// As [`Self::read`] of a range of a version. `reach`, which holds `range`, is what will be asked for soon: a storage that remembers
    /// may fetch all of it at once where it has to fetch any. A hint; others take no notice.
    fn read_within<'a>(
        &'a self,
        key: &'a Key,
        range: Range<u64>,
        reach: Range<u64>,
        pin: &'a Version,
    ) -> BoxFuture<'a, Result<Read, StorageError>> {
        let _ = reach;
        self.read(key, Want::Range(range), Some(pin))
    }

    /// What lies directly in a folder (`""` is the root). An empty or missing folder is [`StorageError::NotFound`];
    /// a place that cannot list is [`StorageError::CannotList`].
    fn list<'a>(&'a self, folder: &'a Key) -> BoxFuture<'a, Result<Listing, StorageError>>;

    /// For people: where this is, without secrets.
    fn describe(&self) -> String;

    /// The same storage, its requests counted as being for `kind`. `None` where it does not count: then it is itself what
    /// to use, see [`of_kind`].
    fn for_kind(&self, kind: Kind) -> Option<Arc<dyn Storage>> {
        let _ = kind;
        None
    }
}

/// The same storage, its requests counted as being for `kind` where it counts.
#[must_use]
pub fn of_kind(storage: &Arc<dyn Storage>, kind: Kind) -> Arc<dyn Storage> {
    storage.for_kind(kind).unwrap_or_else(|| Arc::clone(storage))
}
