//! The memory that work on titles may take at one time: reading and parsing indexes, making titles
//! and making manifests.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Bytes per permit. The largest number of permits, a `u32`, stands for 16 TiB.
const PERMIT_BYTES: u64 = 4096;

/// Bytes of `memory.loading`, granted in the order of requests.
#[derive(Debug, Clone)]
pub(crate) struct LoadingMemory {
    free: Arc<Semaphore>,
    permits: u32,
}

/// Granted bytes. Dropping it returns them.
pub(crate) type Granted = Option<OwnedSemaphorePermit>;

impl LoadingMemory {
    pub(crate) fn new(bytes: u64) -> Self {
        let permits = u32::try_from(bytes / PERMIT_BYTES).unwrap_or(u32::MAX).max(1);
        Self { free: Arc::new(Semaphore::new((permits as usize).min(Semaphore::MAX_PERMITS))), permits }
    }

    /// Waits for bytes. Work that needs more than there are gets all of them.
    pub(crate) async fn grant(&self, bytes: u64) -> Granted {
        let permits = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX).min(self.permits);
        // The semaphore is never closed.
        self.free.clone().acquire_many_owned(permits).await.ok()
    }
}
