//! Judges how fast a client takes the bytes of responses.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};

/// Slowest pace at which a client may take bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PaceLimits {
    /// Longest time in which a client may take nothing.
    pub(crate) stall_timeout: Duration,
    /// Fewest bytes in a second, on average over `stall_timeout`. 0 for no limit.
    pub(crate) min_rate: u64,
}

/// The pace of one client. Only the time counts in which bytes wait for it.
#[derive(Debug)]
pub(crate) struct Pace {
    limits: PaceLimits,
    /// Beginning of the current wait, if bytes wait.
    waits_since: Option<Instant>,
    /// Beginning of the current wait, or of the current period if that is later.
    counts_since: Instant,
    /// Time waited in the current period, without the current wait.
    waited: Duration,
    /// Bytes taken in the current period.
    taken: u64,
    /// The timer may fire too early, because it is not reset when bytes are taken.
    timer: Option<Pin<Box<Sleep>>>,
}

impl Pace {
    pub(crate) fn new(limits: PaceLimits) -> Self {
        Self {
            limits,
            waits_since: None,
            counts_since: Instant::now(),
            waited: Duration::ZERO,
            taken: 0,
            timer: None,
        }
    }

    /// Records bytes that the client took. Nothing waits for it until [`Self::poll_too_slow`] is
    /// called again.
    pub(crate) fn record(&mut self, bytes: u64) {
        self.taken = self.taken.saturating_add(bytes);
        if self.waits_since.take().is_some() {
            self.waited += self.counts_since.elapsed();
        }
    }

    /// Resolves when the client, for which bytes wait, is too slow.
    pub(crate) fn poll_too_slow(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let PaceLimits { stall_timeout, min_rate } = self.limits;
        let mut now = Instant::now();
        if self.waits_since.is_none() {
            self.counts_since = now;
        }
        let waits_since = *self.waits_since.get_or_insert(now);
        loop {
            let period_ends = self.counts_since + stall_timeout.saturating_sub(self.waited);
            let stalls = waits_since + stall_timeout;
            let end = if min_rate > 0 { period_ends.min(stalls) } else { stalls };
            if now < end {
                let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(end)));
                if timer.deadline() > end || timer.is_elapsed() {
                    timer.as_mut().reset(end);
                }
                if timer.as_mut().poll(cx).is_pending() {
                    return Poll::Pending;
                }
                now = Instant::now();
            } else if now >= stalls || (self.taken as f64) < min_rate as f64 * stall_timeout.as_secs_f64() {
                return Poll::Ready(());
            } else {
                (self.waited, self.taken, self.counts_since) = (Duration::ZERO, 0, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;

    const SECOND: Duration = Duration::from_secs(1);

    fn pace(min_rate: u64) -> Pace {
        Pace::new(PaceLimits { stall_timeout: 10 * SECOND, min_rate })
    }

    /// Lets the client take `bytes` after each `interval`. Returns the time until it is too slow,
    /// or `None` if it is not within an hour.
    async fn endures(mut pace: Pace, bytes: u64, interval: Duration) -> Option<Duration> {
        let begun = Instant::now();
        while begun.elapsed() < 3600 * SECOND {
            let waiting = poll_fn(|cx| pace.poll_too_slow(cx));
            if tokio::time::timeout(interval, waiting).await.is_ok() {
                return Some(begun.elapsed());
            }
            pace.record(bytes);
        }
        None
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_too_slow_after_the_stall_timeout() {
        assert_eq!(endures(pace(0), 0, 100 * SECOND).await, Some(10 * SECOND));
        assert_eq!(endures(pace(5), 0, 100 * SECOND).await, Some(10 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_a_little_again_and_again_is_too_slow() {
        assert_eq!(endures(pace(0), 1, 9 * SECOND).await, None);
        let ended = endures(pace(5), 1, SECOND).await.unwrap();
        assert!(ended <= 11 * SECOND, "{ended:?}");
        assert_eq!(endures(pace(5), 6, SECOND).await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn time_in_which_nothing_waits_for_the_client_does_not_count() {
        let mut pace = pace(5);
        for _ in 0..100 {
            let waiting = poll_fn(|cx| pace.poll_too_slow(cx));
            assert!(tokio::time::timeout(SECOND, waiting).await.is_err());
            pace.record(6);
            tokio::time::sleep(20 * SECOND).await;
        }
    }
}
