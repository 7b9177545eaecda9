//! Room in memory for units that are being fetched.

use crate::memory::gauge::to_u64;
use tokio::sync::{Semaphore, SemaphorePermit};

/// Room for units being fetched, given out in the order of requests.
#[derive(Debug)]
pub(crate) struct FillRoom {
    room: Semaphore,
    total: u32,
}

impl FillRoom {
    const STEP: u64 = 4096;

    pub(crate) fn new(bytes: u64) -> Self {
        let total = u32::try_from(bytes / Self::STEP).unwrap_or(u32::MAX).clamp(1, u32::MAX >> 4);
        Self { room: Semaphore::new(usize::try_from(total).unwrap_or(Semaphore::MAX_PERMITS)), total }
    }

    /// Returns the bytes of room that are given out.
    pub(crate) fn given_out(&self) -> u64 {
        (u64::from(self.total) - to_u64(self.room.available_permits())) * Self::STEP
    }

    /// Waits for room for this many bytes, or for the whole room if they exceed it.
    pub(crate) async fn acquire(&self, bytes: u64) -> Option<SemaphorePermit<'_>> {
        let wanted = u32::try_from(bytes.div_ceil(Self::STEP)).unwrap_or(u32::MAX).clamp(1, self.total);
        // The semaphore is never closed.
        self.room.acquire_many(wanted).await.ok()
    }
}
