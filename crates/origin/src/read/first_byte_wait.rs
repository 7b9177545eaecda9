//! Waits that may be shorter than a tick of the runtime's clock.
//!
//! The runtime's timers, and the kernel's timeouts behind them, end at whole milliseconds. With
//! them, a wait of 0.5 ms would delay the heads of segments from remote storage by up to 2.5 ms.

use std::{
    pin::{Pin, pin},
    sync::mpsc,
    task::Poll,
    thread,
    time::{Duration, Instant},
};
use tokio::sync::oneshot;

/// Longest possible wait.
const MAX_WAIT: Duration = Duration::from_secs(3600);

/// Waits of one length. Whole milliseconds are timed by the runtime's clock, fractions of one by a
/// sleeping thread, which is accurate to about a tenth of a millisecond.
#[derive(Debug)]
pub(crate) struct FirstByteWait {
    wait: Duration,
    /// Sends waits to the thread, each with its end. All waits have the same length, so they end in
    /// the order in which they began. `None` if the runtime's clock is used.
    waits: Option<mpsc::Sender<(Instant, oneshot::Sender<()>)>>,
}

impl FirstByteWait {
    /// Creates waits of a length, at most one hour. If no thread can be started, waits for
    /// fractions of a millisecond end at once.
    pub(crate) fn new(wait: Duration) -> Self {
        let wait = wait.min(MAX_WAIT);
        if wait.subsec_nanos().is_multiple_of(1_000_000) {
            return Self { wait, waits: None };
        }
        let (waits, begun) = mpsc::channel::<(Instant, oneshot::Sender<()>)>();
        let sleep = move || {
            for (end, ended) in begun {
                // In most cases the bytes have arrived by now, and nobody waits any more.
                if !ended.is_closed() {
                    thread::sleep(end.saturating_duration_since(Instant::now()));
                    let _ = ended.send(());
                }
            }
        };
        if let Err(error) = thread::Builder::new().name("latemux-wait".to_owned()).spawn(sleep) {
            tracing::warn!("heads of segments are sent without waiting for storage: {error}");
        }
        Self { wait, waits: Some(waits) }
    }

    /// Returns the result of `work` if it completes in time. Otherwise `work` is dropped.
    pub(crate) async fn limit<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let Some(waits) = &self.waits else { return tokio::time::timeout(self.wait, work).await.ok() };
        let mut work = pin!(work);
        let mut end = None;
        std::future::poll_fn(|cx| {
            if let Poll::Ready(done) = work.as_mut().poll(cx) {
                return Poll::Ready(Some(done));
            }
            Pin::new(end.get_or_insert_with(|| self.begin(waits))).poll(cx).map(|_| None)
        })
        .await
    }

    fn begin(&self, waits: &mpsc::Sender<(Instant, oneshot::Sender<()>)>) -> oneshot::Receiver<()> {
        let (ended, end) = oneshot::channel();
        // Without a thread the sender is dropped here, which ends the wait.
        let _ = waits.send((Instant::now() + self.wait, ended));
        end
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::{pending, ready};

    #[tokio::test]
    async fn a_ready_result_needs_no_time() {
        assert_eq!(FirstByteWait::new(Duration::ZERO).limit(ready(1)).await, Some(1));
    }

    #[tokio::test]
    async fn waits_below_a_millisecond_end() {
        let wait = FirstByteWait::new(Duration::from_micros(500));
        let begun = Instant::now();
        let waits = (0..100).map(|_| wait.limit(pending::<()>()));
        assert!(futures_util::future::join_all(waits).await.iter().all(Option::is_none));
        assert!(begun.elapsed() >= Duration::from_micros(500));
    }

    #[tokio::test(start_paused = true)]
    async fn whole_milliseconds_are_timed_by_the_runtime() {
        let begun = tokio::time::Instant::now();
        assert_eq!(FirstByteWait::new(MAX_WAIT * 2).limit(pending::<()>()).await, None);
        assert_eq!(begun.elapsed(), MAX_WAIT);
    }

    #[tokio::test]
    async fn a_result_that_comes_in_time_is_returned() {
        let wait = FirstByteWait { wait: MAX_WAIT, ..FirstByteWait::new(Duration::from_micros(500)) };
        let (sender, receiver) = oneshot::channel();
        let (found, ()) = tokio::join!(wait.limit(receiver), async {
            tokio::task::yield_now().await;
            sender.send(7).unwrap();
        });
        assert_eq!(found, Some(Ok(7)));
    }

    #[tokio::test]
    async fn without_a_thread_waits_end_at_once() {
        let wait = FirstByteWait { wait: MAX_WAIT, waits: Some(mpsc::channel().0) };
        assert_eq!(wait.limit(pending::<()>()).await, None);
    }
}
