//! Limits of index reading.

/// Limits of index reading.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes read from the start of an object of unknown size.
    pub head: u64,
    /// Bytes of each further read: at the start of a box, or at the end of the object.
    pub tail: u64,
    /// Largest number of bytes read from the start, and from the end, of an object whose size is
    /// listed ([`crate::locate::Locator::first_reads`]).
    pub ahead: u64,
    /// Largest size accepted of `moov`, of all `sidx`, of `mfra` or of all `moof`, in bytes.
    pub max_index: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head: 64 << 10, tail: 64 << 10, ahead: 2 << 20, max_index: 256 << 20 }
    }
}

impl Limits {
    /// Returns these limits for reading every `moof` of a file
    /// ([`crate::locate::Locator::for_full_tables`]).
    #[must_use]
    pub fn for_full_tables(self) -> Self {
        Self { tail: MOOF_READ, ..self }
    }
}

/// Number of samples that an object may have whatever its size. Samples that state no size, as in
/// runs of equal ones, cost work but no bytes.
const FREE_SAMPLES: u64 = 1 << 12;

/// Largest number of samples of an object, whatever its size: ten renditions of 24 hours.
const MOST_SAMPLES: u64 = 1 << 27;

/// Number of samples that an index MP4 may have of media whose size is not known yet: twice as many
/// as 24 hours of 20 ms packets.
const FREE_SAMPLES_ELSEWHERE: u64 = 1 << 23;

/// Returns the largest number of samples of an object: one for every three bytes of it. Samples of
/// real media are no smaller: a silent packet of Opus has 3 bytes.
pub(crate) fn most_samples(object_size: u64) -> u64 {
    FREE_SAMPLES.saturating_add(object_size / 3).min(MOST_SAMPLES)
}

/// Returns the largest number of samples of an index whose media lies in another object of unknown
/// size.
pub(crate) fn most_samples_elsewhere(index_bytes: u64) -> u64 {
    FREE_SAMPLES_ELSEWHERE.saturating_add(index_bytes.saturating_mul(2)).min(MOST_SAMPLES)
}

/// Number of bytes read where a `moof` is expected: most are smaller, and media follows.
pub const MOOF_READ: u64 = 8 << 10;
