//! A second read beside one that is slow to respond. The first response is used, and the other read
//! is cancelled.

use super::{Core, Permit};
use crate::counters::increment;
use crate::{Read, ReadRequest, StorageError};
use futures_util::future::{Either, select};
use std::time::Duration;
use tokio::time::timeout;

impl Core {
    /// Reads, and starts a second read if no head has arrived after `after`. The second read needs
    /// a permit that is free at once, because reads that wait for each other's permits would
    /// deadlock. The retry budget of the back end must allow it too. The response keeps the permit
    /// of the request that brought it.
    pub(super) async fn hedged(
        &self,
        after: Duration,
        permit: Permit,
        request: ReadRequest<'_>,
    ) -> Result<(Read, Permit), StorageError> {
        let mut first = self.inner.read(request.clone());
        if let Ok(answer) = timeout(after, &mut first).await {
            return answer.map(|read| (read, permit));
        }
        let second_permit = self.try_acquire();
        let Some(second_permit) = second_permit.filter(|_| self.account.spend()) else {
            return first.await.map(|read| (read, permit));
        };
        increment(&self.account.counters.hedges);
        tracing::debug!(key = %request.key, ?after, "no response yet, sending a second request");
        let second = self.inner.read(request);
        let (answer, permit, other, other_permit, second_was_first) = match select(first, second).await {
            Either::Left((answer, other)) => (answer, permit, other, second_permit, false),
            Either::Right((answer, other)) => (answer, second_permit, other, permit, true),
        };
        let won = |read, permit, by_second: bool| {
            if by_second {
                increment(&self.account.counters.hedges_won);
            }
            (read, permit)
        };
        match answer {
            Ok(read) => Ok(won(read, permit, second_was_first)),
            // The other request may still succeed.
            Err(error) if error.is_fault() => {
                drop(permit);
                other.await.map(|read| won(read, other_permit, !second_was_first))
            }
            Err(error) => Err(error),
        }
    }
}
