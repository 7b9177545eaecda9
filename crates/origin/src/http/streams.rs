//! Time limits for HTTP/2 streams whose client takes bytes too slowly although the connection is
//! alive.
//!
//! While the window of a stream is closed, hyper does not poll the body, so the limits are checked
//! in the task that runs the stream.

use crate::{
    http::connections::Connection,
    http::pace::{Pace, PaceLimits},
    read::charge::Charge,
};
use hyper::rt::Executor;
use latemux_storage::turns::{ChangingTurns, Turns};
use std::{
    future::Future,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

tokio::task_local! {
    static CHARGE: Arc<OnceLock<Arc<Charge>>>;
}

/// Tells the task of the current stream what its response has reserved.
pub(crate) fn set_charge_of_stream(charge: &Arc<Charge>) {
    let _ = CHARGE.try_with(|slot| slot.set(charge.clone()));
}

/// Runs each stream as a task, and ends a stream whose client takes bytes too slowly.
#[derive(Debug, Clone)]
pub(crate) struct StreamExecutor {
    pub(crate) pace: PaceLimits,
    /// The connection of the streams.
    pub(crate) on: Arc<Connection>,
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let charge = Arc::<OnceLock<Arc<Charge>>>::default();
        let stream = Box::pin(CHARGE.scope(charge.clone(), stream));
        // The client behind a proxy is known with the charge.
        let turns = self.on.room.turns_of_proxy().map(|_| ChangingTurns::new(Turns::unlimited()));
        let of_proxy = turns.clone();
        let stream = WatchedStream { stream, charge, of_proxy, pace: Pace::new(self.pace), taken: 0 };
        tokio::spawn(match turns {
            Some(turns) => turns.take(stream),
            None => self.on.in_turn(stream),
        });
    }
}

/// A stream with a time limit.
struct WatchedStream<F> {
    stream: Pin<Box<F>>,
    /// The charge of the stream's response, once the request has one.
    charge: Arc<OnceLock<Arc<Charge>>>,
    /// On a connection of a proxy: the turns of the stream, until they are those of its client.
    of_proxy: Option<Arc<ChangingTurns>>,
    pace: Pace,
    /// Bytes that the client had taken at the last poll.
    taken: u64,
}

impl<F: Future> Future for WatchedStream<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let this = &mut *self;
        let Some(charge) = this.charge.get() else { return Poll::Pending };
        if let Some((turns, of_client)) = this.of_proxy.take().zip(charge.turns()) {
            turns.set(of_client);
        }
        let taken = charge.taken();
        if taken > this.taken || !charge.frame_waits() {
            this.pace.record(taken - this.taken);
            this.taken = taken;
        }
        if !charge.frame_waits() || this.pace.poll_too_slow(cx).is_pending() {
            return Poll::Pending;
        }
        // When this future completes, the stream is dropped and thereby reset.
        charge.set_too_slow();
        Poll::Ready(())
    }
}
