//! HTTP/2 streams that do not move: their client takes nothing, though the connection is alive. While a stream's window is closed
//! nobody asks its body for more, so the body cannot tell; but the task of the stream can.

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
use tokio::time::{Instant, Sleep, sleep_until};

tokio::task_local! {
    static TAKEN: Arc<Taken>;
}

/// What became of a body's frames.
#[derive(Debug, Default)]
struct Taken {
    /// Frames given to the connection so far.
    frames: AtomicU64,
    /// As many, while the last one waits to be taken; 0 while the body is being asked for more.
    waiting: AtomicU64,
}

/// Runs each stream as a task of its own, and ends the one whose client takes nothing for so long.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Streams {
    pub(crate) limit: Duration,
}

impl<F> Executor<F> for Streams
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    fn execute(&self, stream: F) {
        let taken = Arc::<Taken>::default();
        let stream = Box::pin(TAKEN.scope(taken.clone(), stream));
        tokio::spawn(Watched { stream, taken, limit: self.limit, timer: None });
    }
}

struct Watched<F> {
    stream: Pin<Box<F>>,
    taken: Arc<Taken>,
    limit: Duration,
    /// Which frame waits, and until when.
    timer: Option<(u64, Pin<Box<Sleep>>)>,
}

impl<F: Future> Future for Watched<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if self.stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let waiting = self.taken.waiting.load(Relaxed);
        if waiting == 0 {
            self.timer = None;
            return Poll::Pending;
        }
        if self.timer.as_ref().is_none_or(|(frame, _)| *frame != waiting) {
            let until = Instant::now() + self.limit;
            self.timer = Some((waiting, Box::pin(sleep_until(until))));
        }
        let Some((_, timer)) = &mut self.timer else { return Poll::Pending };
        // Dropped, the stream is reset.
        timer.as_mut().poll(cx)
    }
}

/// A body that tells the task of its stream when a frame waits to be taken.
#[derive(Debug)]
pub(crate) struct Told<B>(pub(crate) B);

impl<B: Body<Data = Bytes> + Unpin> Body for Told<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let polled = Pin::new(&mut self.0).poll_frame(cx);
        let _ = TAKEN.try_with(|taken| {
            let given = matches!(polled, Poll::Ready(Some(Ok(_))));
            let frames = taken.frames.fetch_add(u64::from(given), Relaxed) + u64::from(given);
            taken.waiting.store(if given { frames } else { 0 }, Relaxed);
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
