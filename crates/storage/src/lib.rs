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
pub mod read;
#[cfg(any(test, feature = "testing"))]
pub mod stand_in;
pub mod write;

pub use backend::http::{Connections, HttpServer, Retries, Timeouts};
pub use backend::{file::Folder, memory::Memory, object::Bucket};
pub use client::{InFlight, StorageClient};
pub use counters::{Counters, Registry};
pub use error::StorageError;
pub use object::{Key, ObjectMeta, Version};
pub use open::{OpenError, Options, open, open_object};
pub use read::{Outcome, Read, ReadObserver, ReadRequest, Tier, Want};

use futures_util::future::BoxFuture;

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
    /// Reads bytes of one object.
    ///
    /// # Errors
    /// [`StorageError::Changed`] if the object no longer has the requested version,
    /// [`StorageError::OutOfRange`] if it does not contain the range, and any other
    /// [`StorageError`] but [`StorageError::CannotList`] if the object cannot be read.
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>>;

    /// What lies directly in a folder (`""` is the root). An empty or missing folder is [`StorageError::NotFound`];
    /// a place that cannot list is [`StorageError::CannotList`].
    fn list<'a>(&'a self, folder: &'a Key) -> BoxFuture<'a, Result<Listing, StorageError>>;

    /// For people: where this is, without secrets.
    fn describe(&self) -> String;
}
