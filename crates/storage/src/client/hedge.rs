//! A second read beside one that is slow to answer: whichever answers first is the answer, the other ends.

use super::{Core, Place};
use crate::counters::one_more;
use crate::{Read, ReadRequest, StorageError};
use futures_util::future::{Either, select};
use std::time::Duration;
use tokio::time::timeout;

impl Core {
    /// Reads, and reads once more beside that when no head has come after `after`: where a place is free at once (it is
    /// not worth waiting for, and two that wait for each other's places would wait for ever) and the back end's budget of
    /// retries allows it. The answer keeps the place of the request that brought it.
    pub(super) async fn hedged(
        &self,
        after: Duration,
        place: Place,
        request: ReadRequest<'_>,
    ) -> Result<(Read, Place), StorageError> {
        let mut first = self.inner.read(request.clone());
        if let Ok(answer) = timeout(after, &mut first).await {
            return answer.map(|read| (read, place));
        }
        let second_place = self.try_enter();
        let Some(second_place) = second_place.filter(|_| self.account.spend()) else {
            return first.await.map(|read| (read, place));
        };
        one_more(&self.account.counters.hedges);
        tracing::debug!(key = %request.key, ?after, "no answer yet: asking once more beside it");
        let second = self.inner.read(request);
        let (answer, place, other, other_place, second_was_first) = match select(first, second).await {
            Either::Left((answer, other)) => (answer, place, other, second_place, false),
            Either::Right((answer, other)) => (answer, second_place, other, place, true),
        };
        let won = |read, place, by_second: bool| {
            if by_second {
                one_more(&self.account.counters.hedges_won);
            }
            (read, place)
        };
        match answer {
            Ok(read) => Ok(won(read, place, second_was_first)),
            // The other may fare better.
            Err(error) if error.is_fault() => {
                drop(place);
                other.await.map(|read| won(read, other_place, !second_was_first))
            }
            Err(error) => Err(error),
        }
    }
}
