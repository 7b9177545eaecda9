//! A time limit for HTTP/2 streams whose client takes no bytes although the connection is alive.
//!
//! While the window of a stream is closed, hyper does not poll the body, so the time limit is
//! checked in the task that runs the stream.

use bytes::Bytes;
use hyper::{
    body::{Body, Frame, SizeHint},
    rt::Executor,
};
use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    task::{Context, Poll},
    time::Duration,
};
use tokio::time::{Sleep, sleep};

tokio::task_local! {
    static PROGRESS: Arc<Progress>;
}

/// Progress of a body through its stream.
#[derive(Debug, Default)]
struct Progress {
    /// Number of frames handed to the connection so far.
    frames: AtomicU64,
    /// 1-based number of the frame that waits for the client. 0 while the body itself is polled.
    waiting: AtomicU64,
}

/// Runs each stream as a task, and ends a stream whose client takes nothing within the limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StreamExecutor {
    pub(crate) stall_timeout: Duration,
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let progress = Arc::<Progress>::default();
        let stream = Box::pin(PROGRESS.scope(progress.clone(), stream));
        tokio::spawn(WatchedStream { stream, progress, stall_timeout: self.stall_timeout, timer: None });
    }
}

/// A stream with a time limit.
struct WatchedStream<F> {
    stream: Pin<Box<F>>,
    progress: Arc<Progress>,
    stall_timeout: Duration,
    /// Number of the frame that waits, and its time limit.
    timer: Option<(u64, Pin<Box<Sleep>>)>,
}

impl<F: Future> Future for WatchedStream<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let waiting = self.progress.waiting.load(Relaxed);
        if waiting == 0 {
            self.timer = None;
            return Poll::Pending;
        }
        if self.timer.as_ref().is_none_or(|(frame, _)| *frame != waiting) {
            self.timer = Some((waiting, Box::pin(sleep(self.stall_timeout))));
        }
        let Some((_, timer)) = &mut self.timer else { return Poll::Pending };
        // When this future completes, the stream is dropped and thereby reset.
        timer.as_mut().poll(cx)
    }
}

/// A body that reports to the task of its stream when a frame waits for the client.
#[derive(Debug)]
pub(crate) struct ObservedBody<B>(pub(crate) B);

impl<B: Body<Data = Bytes> + Unpin> Body for ObservedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.0).poll_frame(cx);
        let _ = PROGRESS.try_with(|progress| {
            let is_frame = matches!(polled, Poll::Ready(Some(Ok(_))));
            let frames = progress.frames.fetch_add(u64::from(is_frame), Relaxed) + u64::from(is_frame);
            progress.waiting.store(if is_frame { frames } else { 0 }, Relaxed);
        });
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.size_hint()
    }
}
