//! Counts the bytes of memory that the cache holds, where they are allocated and freed.

use crate::memory::lock::lock;
use bytes::Bytes;
use std::sync::{
    Arc, Mutex,
    atomic::{AtomicU64, Ordering::Relaxed},
};

pub(crate) type Buffer = Box<[u8]>;

/// Bytes held, by purpose.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    /// Buffers of freed units, to be reused. Most units have one size, and mapping new pages costs
    /// more time than writing to them.
    spares: Mutex<Vec<Buffer>>,
    /// Length of a spare buffer, and the maximum number of them.
    spare: (usize, usize),
    /// Bytes of live units: cached, queued for the disk, or held by readers.
    units: AtomicU64,
    reserved: AtomicU64,
    tables: AtomicU64,
}

impl Gauge {
    /// Creates a gauge that keeps up to `bytes` in spare buffers of `unit` bytes each.
    pub(crate) fn with_spares(unit: u64, bytes: u64) -> Arc<Self> {
        let most = bytes.checked_div(unit).unwrap_or(0);
        Arc::new(Self { spare: (to_usize(unit), to_usize(most)), ..Self::default() })
    }

    /// Returns a buffer of `len` bytes with unspecified contents.
    pub(crate) fn buffer(&self, len: usize) -> Buffer {
        let spare = if len == self.spare.0 { lock(&self.spares).pop() } else { None };
        spare.unwrap_or_else(|| vec![0; len].into_boxed_slice())
    }

    fn give_back(&self, data: Buffer) {
        self.units.fetch_sub(to_u64(data.len()), Relaxed);
        if data.len() == self.spare.0 {
            let mut spares = lock(&self.spares);
            if spares.len() < self.spare.1 {
                spares.push(data);
            }
        }
    }

    pub(crate) fn total(&self) -> u64 {
        // A counter may have been lowered before the raise that it follows is seen.
        self.units().saturating_add(self.reserved()).saturating_add(self.tables.load(Relaxed))
    }

    pub(crate) fn units(&self) -> u64 {
        self.units.load(Relaxed)
    }

    pub(crate) fn reserved(&self) -> u64 {
        self.reserved.load(Relaxed)
    }

    /// Turns a buffer into the bytes of a unit, which are counted until the last reader drops them.
    pub(crate) fn unit(self: &Arc<Self>, data: Buffer) -> Bytes {
        self.units.fetch_add(to_u64(data.len()), Relaxed);
        Bytes::from_owner(Counted { data, gauge: self.clone() })
    }

    pub(crate) fn spares(&self) -> u64 {
        to_u64(lock(&self.spares).len() * self.spare.0)
    }

    /// Reserves bytes until the guard is dropped.
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
    data: Buffer,
    gauge: Arc<Gauge>,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.gauge.give_back(std::mem::take(&mut self.data));
    }
}

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

/// Converts a length in memory to a length in an object.
pub(crate) fn to_u64(len: usize) -> u64 {
    len as u64
}

/// Converts a length in an object to a length in memory. A length that does not fit becomes
/// `usize::MAX`, which no buffer has.
pub(crate) fn to_usize(len: u64) -> usize {
    usize::try_from(len).unwrap_or(usize::MAX)
}
