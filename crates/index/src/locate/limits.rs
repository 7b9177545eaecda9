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

/// Number of bytes read where a `moof` is expected: most are smaller, and media follows.
pub const MOOF_READ: u64 = 8 << 10;
