//! Requests to storage, by their purpose.

use super::responses::Histogram;
use std::sync::atomic::AtomicU64;

labels! {
    /// The purpose of a request to storage.
    pub(crate) enum ReadPurpose {
        /// Reading a server manifest.
        Manifest = "manifest",
        /// Listing a folder.
        Listing = "listing",
        /// Reading an index, or checking that it still describes its object.
        Index = "index",
        /// Reading media, with the `moof`s among it.
        Media = "media",
    }
}

/// Numbers of requests to storage by [`ReadPurpose`].
#[derive(Debug, Default)]
pub(crate) struct StorageTotals([PurposeTotals; ReadPurpose::ALL.len()]);

/// Numbers of requests to storage of one purpose.
#[derive(Debug, Default)]
pub(crate) struct PurposeTotals {
    pub(crate) requests: AtomicU64,
    /// Requests that failed at once or in their body.
    pub(crate) errors: AtomicU64,
    /// Bytes of bodies that arrived.
    pub(crate) bytes: AtomicU64,
    /// Times from a request to the head of its response.
    pub(crate) first_byte: Histogram,
}

impl StorageTotals {
    pub(crate) fn of(&self, purpose: ReadPurpose) -> &PurposeTotals {
        let [manifest, listing, index, media] = &self.0;
        match purpose {
            ReadPurpose::Manifest => manifest,
            ReadPurpose::Listing => listing,
            ReadPurpose::Index => index,
            ReadPurpose::Media => media,
        }
    }
}
