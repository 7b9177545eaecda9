//! `mfra`, `tfra`, `mfro`: movie fragment random access (ISO/IEC 14496-12 §8.8.9 to §8.8.11).

use crate::Error;
use bytes::Bytes;

/// A random access index.
#[derive(Debug, Clone)]
pub struct Mfra {
    /// One per track.
    pub tracks: Vec<Tfra>,
}

/// Sync samples of one track.
#[derive(Debug, Clone)]
pub struct Tfra {
    /// Track this is about.
    pub track_id: u32,
    /// Entries in file order.
    pub entries: Vec<TfraEntry>,
}

/// Where one sync sample is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TfraEntry {
    /// Presentation time of the sync sample in track ticks, before the edit list.
    pub time: u64,
    /// Bytes from the start of the file to its `moof`.
    pub moof_offset: u64,
    /// Which `traf` of the `moof`, 1-based.
    pub traf: u32,
    /// Which `trun` of the `traf`, 1-based.
    pub trun: u32,
    /// Which sample of the `trun`, 1-based.
    pub sample: u32,
}

impl Mfra {
    /// Parses a whole `mfra` box, header included.
    ///
    /// # Errors
    /// Truncated, or more entries than bytes.
    pub fn parse(mfra: &Bytes, offset: u64) -> Result<Self, Error> {
        let _ = (mfra, offset);
        todo!()
    }
}

/// The size of the whole `mfra` in bytes, from the `mfro` that ends a file (its last 16 bytes); `None` where
/// `tail` does not end with one.
#[must_use]
pub fn mfro_size(tail: &[u8]) -> Option<u32> {
    let _ = tail;
    todo!()
}
