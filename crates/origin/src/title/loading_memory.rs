//! The memory that work on titles may take at one time: reading and parsing indexes, making titles
//! and making manifests.

use latemux_storage::client::{HeldPermits, Permits};
use std::sync::Arc;

/// Bytes per permit. The largest number of permits, a `u32`, stands for 16 TiB.
const PERMIT_BYTES: u64 = 4096;

/// Bytes of `memory.loading`. While all are granted, clients get them in turn.
#[derive(Debug, Clone)]
pub(crate) struct LoadingMemory {
    free: Arc<Permits>,
    permits: u32,
}

/// Granted bytes. Dropping it returns them.
pub(crate) type Granted = Option<HeldPermits>;

impl LoadingMemory {
    pub(crate) fn new(bytes: u64) -> Self {
        let permits = u32::try_from(bytes / PERMIT_BYTES).unwrap_or(u32::MAX).max(1);
        Self { free: Permits::new(permits as usize), permits }
    }

    /// Returns the number of bytes.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.permits) * PERMIT_BYTES
    }

    /// Waits for bytes. Work that needs more than there are gets all of them.
    pub(crate) async fn grant(&self, bytes: u64) -> Granted {
        let permits = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX).min(self.permits);
        self.free.acquire(permits as usize).await
    }
}
