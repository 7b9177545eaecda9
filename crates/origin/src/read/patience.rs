//! Waits that are shorter than a tick of the runtime's clock.
//!
//! Its timers end at whole milliseconds and the system is asked for whole milliseconds too: what should wait for half of one waits for up to
//! two and a half. The head of a segment that is read from far storage would be that late.

use std::{
    pin::{Pin, pin},
    sync::mpsc,
    task::Poll,
    thread,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// Nobody waits longer for the head of a segment.
const LONGEST: Duration = Duration::from_secs(3600);

/// How long something is waited for: whole milliseconds by the runtime's clock, parts of one to a tenth or so by a thread that sleeps.
#[derive(Debug)]
pub(crate) struct Patience {
    wait: Duration,
    /// All waits are as long, so they end in the order they began in.
    waits: Option<mpsc::Sender<(Instant, oneshot::Sender<()>)>>,
}

impl Patience {
    /// Waits of this length. Where there is no thread to be had, none waits.
    pub(crate) fn new(wait: Duration) -> Self {
        let wait = wait.min(LONGEST);
        if wait.subsec_nanos().is_multiple_of(1_000_000) {
            return Self { wait, waits: None };
        }
        let (waits, begun) = mpsc::channel::<(Instant, oneshot::Sender<()>)>();
        let sleep = move || {
            for (end, tell) in begun {
                // Most need not wait to the end.
                if !tell.is_closed() {
                    thread::sleep(end.saturating_duration_since(Instant::now()));
                    let _ = tell.send(());
                }
            }
        };
        if let Err(error) = thread::Builder::new().name("latemux-patience".to_owned()).spawn(sleep) {
            tracing::warn!("heads of segments do not wait for what storage answers: {error}");
        }
        Self { wait, waits: Some(waits) }
    }

    /// What comes of `work`, if it is there in time. What was begun is dropped otherwise, as it stands.
    pub(crate) async fn with<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let Some(waits) = &self.waits else { return tokio::time::timeout(self.wait, work).await.ok() };
        let (mut work, mut end) = (pin!(work), None);
        std::future::poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            Pin::new(end.get_or_insert_with(|| self.begin(waits))).poll(cx).map(|_| None)
        })
        .await
    }

    fn begin(&self, waits: &mpsc::Sender<(Instant, oneshot::Sender<()>)>) -> oneshot::Receiver<()> {
        let (tell, told) = oneshot::channel();
        // Without a thread the sender is dropped here, and the wait is over.
        let _ = waits.send((Instant::now() + self.wait, tell));
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};

    #[tokio::test]
    async fn what_is_there_needs_no_time() {
        assert_eq!(Patience::new(Duration::ZERO).with(ready(1)).await, Some(1));
    }

    #[tokio::test]
    async fn what_does_not_come_is_not_waited_for() {
        let patience = Patience::new(Duration::from_micros(500));
        let begun = Instant::now();
        let waits = (0..100).map(|_| patience.with(pending::<()>()));
        assert!(futures_util::future::join_all(waits).await.iter().all(Option::is_none));
        assert!(begun.elapsed() >= Duration::from_micros(500));
    }

    #[tokio::test(start_paused = true)]
    async fn whole_milliseconds_are_the_runtimes() {
        let begun = tokio::time::Instant::now();
        assert_eq!(Patience::new(LONGEST * 2).with(pending::<()>()).await, None);
        assert_eq!(begun.elapsed(), LONGEST);
    }

    #[tokio::test]
    async fn what_comes_meanwhile_is_taken() {
        let patience = Patience { wait: LONGEST, ..Patience::new(Duration::from_micros(500)) };
        let (tell, told) = oneshot::channel();
        let (found, ()) = tokio::join!(patience.with(told), async {
            tokio::task::yield_now().await;
            tell.send(7).unwrap();
        });
        assert_eq!(found, Some(Ok(7)));
    }

    #[tokio::test]
    async fn without_a_thread_nothing_is_waited_for() {
        let patience = Patience { wait: LONGEST, waits: Some(mpsc::channel().0) };
        assert_eq!(patience.with(pending::<()>()).await, None);
    }
}
