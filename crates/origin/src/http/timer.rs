//! Deadlines that are nearly always moved before they come.
//!
//! hyper waits so long for the head of each request, and nearly every one comes in time. The runtime's timers are made for waits that
//! end: one is set up, entered among all others under a lock, and taken out again, for each request. Here a connection has one alarm,
//! which stays set to the deadline of some request before; when it goes off, it is set to that of the request which is waited for now.

use hyper::rt;
use std::{
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};

/// The timer of one connection: all waits share its alarm, so only one may be waited for at a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct ConnectionTimer {
    alarm: Arc<Mutex<Option<Pin<Box<Sleep>>>>>,
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

/// Resolves when it has come.
#[derive(Debug)]
struct Deadline {
    at: Instant,
    timer: ConnectionTimer,
}

impl rt::Sleep for Deadline {}

impl Future for Deadline {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut alarm = self.timer.alarm.lock().unwrap_or_else(PoisonError::into_inner);
        let alarm = alarm.get_or_insert_with(|| Box::pin(sleep_until(self.at)));
        if alarm.deadline() > self.at {
            alarm.as_mut().reset(self.at);
        }
        loop {
            ready!(alarm.as_mut().poll(cx));
            if alarm.deadline() >= self.at {
                return Poll::Ready(());
            }
            alarm.as_mut().reset(self.at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::rt::Timer as _;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_deadline_comes_when_it_should_however_often_there_was_another() {
        let timer = ConnectionTimer::default();
        for number in 0..100 {
            // Each comes later than the one before, and is given up a little after the alarm goes off for one of these.
            let asked = tokio::time::timeout(SECOND * 7 / 10, timer.sleep(SECOND)).await;
            assert!(asked.is_err(), "{number}");
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
    async fn one_before_the_alarm_is_not_late() {
        let timer = ConnectionTimer::default();
        assert!(tokio::time::timeout(SECOND, timer.sleep(100 * SECOND)).await.is_err());
        let begun = Instant::now();
        timer.sleep(SECOND).await;
        assert_eq!(begun.elapsed(), SECOND);
    }
}
