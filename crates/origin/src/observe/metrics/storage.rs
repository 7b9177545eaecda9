//! Requests to storage, by their purpose.

use super::responses::Histogram;
use std::sync::atomic::AtomicU64;

/// The purpose of a request to storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadPurpose {
    /// Reading a server manifest.
    Manifest,
    /// Listing a folder.
    Listing,
    /// Reading an index, or checking that it still describes its object.
    Index,
    /// Reading media, with the `moof`s among it.
    Media,
}

impl ReadPurpose {
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::Manifest, "manifest"),
        (Self::Listing, "listing"),
        (Self::Index, "index"),
        (Self::Media, "media"),
    ];
}

/// Numbers of requests to storage by [`ReadPurpose`].
#[derive(Debug, Default)]
pub(crate) struct StorageTotals([PurposeTotals; ReadPurpose::ALL.len()]);

/// Numbers of requests to storage of one purpose.
#[derive(Debug, Default)]
pub(crate) struct PurposeTotals {
    /// Requests made.
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
