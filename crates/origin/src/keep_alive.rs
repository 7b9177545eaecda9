//! HTTP/1.1 connections that cost little while nobody asks for anything.
//!
//! hyper keeps two buffers of 8 KiB for as long as it serves a connection. Between two requests HTTP/1.1 has no state, so it is
//! let go when nothing has been asked for during [`LINGER`], and begun anew when the next request's first bytes are there: not sooner,
//! for who asks for one segment after the other should not pay for that with each.

use crate::server::Draining;
use bytes::Bytes;
use http::{Request, Response};
use hyper::{
    body::{Body, Frame, Incoming, SizeHint},
    server::conn::http1::{Builder, Parts},
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use std::{
    convert::Infallible,
    future::{Future, poll_fn},
    io,
    mem::MaybeUninit,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    time::{Instant, Sleep, sleep},
};

/// Why a connection broke off.
pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

/// How long hyper waits for another request.
const LINGER: Duration = Duration::from_millis(100);

/// Bytes of a request that are waited for: most are not longer.
const FIRST: usize = 1024;

/// Serves requests one after the other, until the client leaves, a request does not come within `patience` (none, or not all of its
/// head), or draining begins.
///
/// # Errors
/// Those of the connection, or of a client that is not understood.
pub(crate) async fn serve<T, A, F, B>(
    stream: T,
    builder: Builder,
    patience: Duration,
    mut draining: Draining,
    answer: A,
) -> Result<(), Failure>
where
    T: AsyncRead + AsyncWrite + Unpin,
    A: Fn(Request<Incoming>) -> F,
    F: Future<Output = Response<B>>,
    B: Body + Unpin + 'static,
    B::Error: Into<Failure>,
{
    let signs = Arc::new(Signs::default());
    let mut io = Watched { inner: stream, ahead: Bytes::new(), signs: signs.clone() };
    let mut timer = Box::pin(sleep(patience));
    loop {
        if io.ahead.is_empty() {
            io.ahead = tokio::select! {
                biased;
                first = first_bytes(&mut io.inner, &mut timer, patience) => first?,
                () = draining.begun() => Bytes::new(),
            };
            if io.ahead.is_empty() {
                // TLS tells the client that this is the end (RFC 8446, 6.1).
                return Ok(io.inner.shutdown().await?);
            }
        }
        let service = service_fn(|request: Request<Incoming>| {
            let answering = Answering::begin(&signs, request.body().is_end_stream());
            let answered = answer(request);
            // Boxed: what is being answered is not part of every connection.
            Box::pin(async move {
                Ok::<_, Infallible>(answered.await.map(|body| Held { body, _answering: answering }))
            })
        });
        let mut connection = Box::new(builder.serve_connection(TokioIo::new(io), service));
        let (mut seen, mut since, mut told) = (signs.state(), Instant::now(), false);
        let ended = loop {
            let ends = poll_fn(|cx| {
                if let Poll::Ready(result) = Pin::new(&mut *connection).poll(cx) {
                    return Poll::Ready(Some(result.map_err(Failure::from)));
                }
                let now = signs.state();
                if now != seen {
                    (seen, since) = (now, Instant::now());
                }
                match now.0 {
                    State::Answering => Poll::Pending,
                    State::Idle => passed(&mut timer, since + LINGER, cx).map(|()| None),
                    State::Begun => {
                        passed(&mut timer, since + patience, cx).map(|()| Some(Err(timed_out().into())))
                    }
                }
            });
            tokio::select! {
                biased;
                ended = ends => break ended,
                () = draining.begun(), if !told => {
                    told = true;
                    Pin::new(&mut *connection).graceful_shutdown();
                }
            }
        };
        if let Some(result) = ended {
            return result;
        }
        let Parts { io: stream, read_buf, .. } = connection.into_parts();
        io = stream.into_inner();
        io.ahead = unread(read_buf, io.ahead);
    }
}

/// The first bytes of a request; none where the client has left.
async fn first_bytes(
    stream: &mut (impl AsyncRead + Unpin),
    timer: &mut Pin<Box<Sleep>>,
    patience: Duration,
) -> io::Result<Bytes> {
    let until = Instant::now() + patience;
    poll_fn(|cx| {
        let mut bytes = [MaybeUninit::uninit(); FIRST];
        let mut bytes = ReadBuf::uninit(&mut bytes);
        if let Poll::Ready(read) = Pin::new(&mut *stream).poll_read(cx, &mut bytes) {
            return Poll::Ready(read.map(|()| Bytes::copy_from_slice(bytes.filled())));
        }
        passed(timer, until, cx).map(|()| Err(timed_out()))
    })
    .await
}

/// What hyper had read of the next request, and what it was not given yet.
fn unread(read: Bytes, ahead: Bytes) -> Bytes {
    if ahead.is_empty() { read } else { [read, ahead].concat().into() }
}

/// Whether `until` is over. The timer is put off when it goes off, not with each request: most requests come before.
fn passed(timer: &mut Pin<Box<Sleep>>, until: Instant, cx: &mut Context<'_>) -> Poll<()> {
    if timer.deadline() > until {
        timer.as_mut().reset(until);
    }
    loop {
        ready!(timer.as_mut().poll(cx));
        if Instant::now() >= until {
            return Poll::Ready(());
        }
        timer.as_mut().reset(until);
    }
}

fn timed_out() -> io::Error {
    io::ErrorKind::TimedOut.into()
}

/// What a connection does while hyper has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// An answer is being made or written.
    Answering,
    /// All answers were written, and nothing was read since.
    Idle,
    /// All answers were written, and a request may have begun.
    Begun,
}

/// What a connection shows of itself while hyper has it.
#[derive(Debug, Default)]
struct Signs {
    /// Requests so far.
    asked: AtomicUsize,
    /// Requests whose answers are not complete.
    answering: AtomicUsize,
    /// Bytes were read since an answer was last completed.
    read: AtomicBool,
    /// A write waits for the client.
    writing: AtomicBool,
    /// A request had a body, which nothing here reads: only hyper knows where the next request begins, if one may.
    body: AtomicBool,
}

impl Signs {
    /// The state, and the number of requests so far: it is another state, for the same time anew, after another request.
    fn state(&self) -> (State, usize) {
        let state = if self.answering.load(Relaxed) > 0 || self.writing.load(Relaxed) {
            State::Answering
        } else if self.read.load(Relaxed) || self.body.load(Relaxed) {
            State::Begun
        } else {
            State::Idle
        };
        (state, self.asked.load(Relaxed))
    }
}

/// From a request until all of its answer is in hyper's hands, or given up.
struct Answering(Arc<Signs>);

impl Answering {
    fn begin(signs: &Arc<Signs>, bodiless: bool) -> Self {
        signs.body.fetch_or(!bodiless, Relaxed);
        signs.asked.fetch_add(1, Relaxed);
        signs.answering.fetch_add(1, Relaxed);
        Self(signs.clone())
    }
}

impl Drop for Answering {
    fn drop(&mut self) {
        self.0.read.store(false, Relaxed);
        self.0.answering.fetch_sub(1, Relaxed);
    }
}

/// A body, and that it is being sent.
struct Held<B> {
    body: B,
    _answering: Answering,
}

impl<B: Body + Unpin> Body for Held<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that gives what was read of it before, and signs of what it does.
struct Watched<T> {
    inner: T,
    /// Read before, and not given yet.
    ahead: Bytes,
    signs: Arc<Signs>,
}

impl<T> Watched<T> {
    fn writes<R>(&self, polled: Poll<R>) -> Poll<R> {
        self.signs.writing.store(polled.is_pending(), Relaxed);
        polled
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        if self.ahead.is_empty() {
            ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        } else {
            let len = self.ahead.len().min(buf.remaining());
            buf.put_slice(&self.ahead.split_to(len));
        }
        if buf.filled().len() > before {
            self.signs.read.store(true, Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.writes(polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(cx);
        self.writes(polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.writes(polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write_vectored(cx, bufs);
        self.writes(polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
#[path = "keep_alive_tests.rs"]
mod tests;
