//! A second read beside one that is slow to answer: whichever answers first is the answer, the other ends.

use super::{Core, Permit};
use crate::counters::increment;
use crate::{Read, ReadRequest, StorageError};
use futures_util::future::{Either, select};
use std::time::Duration;
use tokio::time::timeout;

impl Core {
    /// Reads, and reads once more beside that when no head has come after `after`: where a permit is free at once (it is
    /// not worth waiting for, and two that wait for each other's permits would wait for ever) and the back end's budget of
    /// retries allows it. The answer keeps the permit of the request that brought it.
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
        tracing::debug!(key = %request.key, ?after, "no answer yet: asking once more beside it");
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
            // The other may fare better.
            Err(error) if error.is_fault() => {
                drop(permit);
                other.await.map(|read| won(read, other_permit, !second_was_first))
            }
            Err(error) => Err(error),
        }
    }
}
