//! A second read beside a slow one. The first response is used, and the other read is cancelled.

use super::{Core, Permit};
use crate::counters::increment;
use crate::{Read, ReadRequest, StorageError};
use futures_util::future::{Either, select};
use std::time::Duration;
use tokio::time::timeout;

impl Core {
    /// Reads, and starts a second read if no head has arrived after `after`. The second read needs
    /// a permit that is free at once, because reads that wait for each other's permits would
    /// deadlock. The retry budget of the back end must allow it too. The response keeps its
    /// request's permit. `permit` is that of the first read, unless the caller holds it.
    pub(super) async fn hedged(
        &self,
        after: Duration,
        permit: Option<Permit>,
        request: ReadRequest<'_>,
    ) -> Result<(Read, Option<Permit>), StorageError> {
        let mut first = self.inner.read(request.clone());
        if let Ok(response) = timeout(after, &mut first).await {
            return response.map(|read| (read, permit));
        }
        let Some(second_permit) = self.try_acquire().filter(|_| self.account.spend()) else {
            return first.await.map(|read| (read, permit));
        };
        increment(&self.account.counters.hedges);
        tracing::debug!(key = %request.key, ?after, "no response yet, sending a second request");
        let second = self.inner.read(request);
        let won = |read, permit| {
            increment(&self.account.counters.hedges_won);
            (read, Some(permit))
        };
        match select(first, second).await {
            // The other request may still succeed.
            Either::Left((Err(error), second)) if error.is_fault() => {
                drop(permit);
                second.await.map(|read| won(read, second_permit))
            }
            Either::Right((Err(error), first)) if error.is_fault() => {
                drop(second_permit);
                first.await.map(|read| (read, permit))
            }
            Either::Left((response, _)) => response.map(|read| (read, permit)),
            Either::Right((response, _)) => response.map(|read| won(read, second_permit)),
        }
    }
}
