//! How many bytes of memory the cache holds, counted where they are allocated and freed.

use bytes::Bytes;
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

/// Bytes held, by what for.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    /// Units that are alive: cached, waiting to be written to disk, or in the hands of readers.
    units: AtomicU64,
    /// Set aside for units being fetched.
    reserved: AtomicU64,
    /// Tables about units.
    tables: AtomicU64,
}

impl Gauge {
    pub(crate) fn total(&self) -> u64 {
        self.units().saturating_add(self.reserved()).saturating_add(self.tables.load(Relaxed))
    }

    pub(crate) fn units(&self) -> u64 {
        self.units.load(Relaxed)
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.load(Relaxed)
    }

    /// A unit's bytes, exactly as large as they are, counted until the last reader lets go of them.
    pub(crate) fn unit(self: &Arc<Self>, data: Box<[u8]>) -> Bytes {
        self.units.fetch_add(wide(data.len()), Relaxed);
        Bytes::from_owner(Counted { data, gauge: self.clone() })
    }

    /// Sets bytes aside until the guard is dropped.
    pub(crate) fn reserve(self: &Arc<Self>, bytes: u64) -> Reserved {
        self.reserved.fetch_add(bytes, Relaxed);
        Reserved { bytes, gauge: self.clone() }
    }

    pub(crate) fn table_grew(&self, bytes: u64) {
        self.tables.fetch_add(bytes, Relaxed);
    }

    pub(crate) fn table_shrank(&self, bytes: u64) {
        self.tables.fetch_sub(bytes, Relaxed);
    }
}

struct Counted {
    data: Box<[u8]>,
    gauge: Arc<Gauge>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.gauge.units.fetch_sub(wide(self.data.len()), Relaxed);
    }
}

/// Bytes set aside.
#[derive(Debug)]
pub(crate) struct Reserved {
    bytes: u64,
    gauge: Arc<Gauge>,
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.gauge.reserved.fetch_sub(self.bytes, Relaxed);
    }
}

/// A length in memory as one of an object.
pub(crate) fn wide(len: usize) -> u64 {
    u64::try_from(len).unwrap_or(u64::MAX)
}

/// A length of an object as one in memory; `usize::MAX` where it does not fit, which no buffer has.
pub(crate) fn narrow(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}
