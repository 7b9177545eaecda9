//! A timer for deadlines that are nearly always cancelled before they pass.
//!
//! hyper sets a deadline for the head of each request, and nearly every head arrives in time. A
//! timer of the runtime for each request would be registered under a lock and removed again. Here
//! each connection has one timer, which stays set to the deadline of an earlier request. When the
//! timer fires, it is reset to the deadline of the request that is awaited now.

use hyper::rt;
use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};

/// The timer of one connection. Only one deadline may be awaited at a time, because all deadlines
/// share the timer.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionTimer {
    current: Arc<Mutex<Option<Pin<Box<Sleep>>>>>,
}

impl rt::Timer for ConnectionTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn rt::Sleep>> {
        self.sleep_until(rt::Timer::now(self) + duration)
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> Pin<Box<dyn rt::Sleep>> {
        Box::pin(Deadline { at: deadline.into(), timer: self.clone() })
    }

    fn now(&self) -> std::time::Instant {
        Instant::now().into()
    }
}

/// A future that resolves when the deadline has passed.
#[derive(Debug)]
struct Deadline {
    at: Instant,
    timer: ConnectionTimer,
}

impl rt::Sleep for Deadline {}

impl Future for Deadline {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut current = self.timer.current.lock().unwrap_or_else(PoisonError::into_inner);
        let sleep = current.get_or_insert_with(|| Box::pin(sleep_until(self.at)));
        if sleep.deadline() > self.at {
            sleep.as_mut().reset(self.at);
        }
        loop {
            ready!(sleep.as_mut().poll(cx));
            if sleep.deadline() >= self.at {
                return Poll::Ready(());
            }
            sleep.as_mut().reset(self.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::rt::Timer as _;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_deadline_passes_on_time_after_many_others_were_dropped() {
        let timer = ConnectionTimer::default();
        for number in 0..100 {
            // Each is later than the one before, and is dropped shortly after the timer has fired
            // for an earlier one.
            let dropped = tokio::time::timeout(SECOND * 7 / 10, timer.sleep(SECOND)).await;
            assert!(dropped.is_err(), "{number}");
        }
        let begun = Instant::now();
        timer.sleep(5 * SECOND).await;
        assert_eq!(begun.elapsed(), 5 * SECOND);
        timer.sleep(SECOND).await;
        assert_eq!(begun.elapsed(), 6 * SECOND);
        timer.sleep(Duration::ZERO).await;
        assert_eq!(begun.elapsed(), 6 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn an_earlier_deadline_than_the_one_set_passes_on_time() {
        let timer = ConnectionTimer::default();
        assert!(tokio::time::timeout(SECOND, timer.sleep(100 * SECOND)).await.is_err());
        let begun = Instant::now();
        timer.sleep(SECOND).await;
        assert_eq!(begun.elapsed(), SECOND);
    }
}
