//! Ranged reads of immutable object versions: folders, HTTP servers, buckets, memory.
//!
//! [`Storage`] is the whole interface. A cache, a fault injector or a counter is another `Storage`
//! around one. Every implementation passes the same suite, `conformance`.

#[cfg(any(test, feature = "testing"))]
pub mod altered;
pub mod backend;
mod check;
pub mod client;
#[cfg(any(test, feature = "testing"))]
pub mod conformance;
pub mod counters;
#[cfg(any(test, feature = "testing"))]
pub mod counting;
mod distance;
pub mod error;
#[cfg(any(test, feature = "testing"))]
pub mod fault;
pub mod listing;
pub mod mirrored;
pub mod object;
mod on_behalf;
pub mod open;
mod options;
mod processors;
pub mod read;
mod settings;
mod signing;
#[cfg(any(test, feature = "testing"))]
pub mod stand_in;
pub mod turns;
pub mod write;

pub use backend::http::HttpServer;
pub use backend::{file::Folder, memory::Memory, object::Bucket};
pub use check::check;
pub use client::StorageClient;
pub use counters::{Counters, Registry};
pub use error::StorageError;
pub use listing::{ListRequest, Listing, PageToken, list_all};
pub use mirrored::Mirrored;
pub use object::{Key, ObjectMeta, Version};
pub use open::{OpenError, check_location, open, open_mirrored, open_object};
pub use options::{AccessKeys, MirrorOptions, Options, S3Overrides, StreamCount};
pub use processors::processors;
pub use read::{Outcome, Read, ReadObserver, ReadRequest, Tier, Want};
pub use signing::AwsSigner;

use futures_util::future::BoxFuture;

/// A back end, or a layer around one, whose objects are read by byte range.
pub trait Storage: Send + Sync + std::fmt::Debug {
    /// Reads bytes of one object.
    ///
    /// # Errors
    /// [`StorageError::Changed`] if the object no longer has the requested version,
    /// [`StorageError::OutOfRange`] if it does not contain the range, and any other
    /// [`StorageError`] but [`StorageError::CannotList`] if the object cannot be read.
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>>;

    /// Lists a page of the direct contents of a folder.
    ///
    /// # Errors
    /// [`StorageError::NotFound`] if the folder is empty or missing, [`StorageError::CannotList`]
    /// if this storage cannot list folders, [`StorageError::FolderTooLarge`] if it can list none
    /// with so many names, and other [`StorageError`]s if the back end fails.
    fn list<'a>(&'a self, request: ListRequest<'a>) -> BoxFuture<'a, Result<Listing, StorageError>>;

    /// Returns the location for people, without secrets.
    fn describe(&self) -> String;
}
