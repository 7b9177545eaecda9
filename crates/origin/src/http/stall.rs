//! Time limits for clients that take bytes too slowly, and for clients that never send any.
//!
//! Every write of a connection passes through [`StallTimeout`], so it also joins the small buffers
//! of a vectored write.

use crate::{
    http::pace::{Pace, PaceLimits},
    read::room::Room,
};
use std::{
    cell::RefCell,
    future::Future,
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// Most bytes of a vectored write that are copied into one buffer. Below this size, copying is
/// cheaper than a vectored write.
const MAX_COPY: usize = 2 << 10;

thread_local! {
    /// Buffer into which small pieces are copied.
    static COPY: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(MAX_COPY));
}

/// A connection whose writes, and whose first read, have a time limit.
#[derive(Debug)]
pub(crate) struct StallTimeout<T> {
    inner: T,
    pace: Pace,
    /// Memory of the connection's responses, which learns why the connection is ended.
    room: Option<Arc<Room>>,
    /// Timer of the first read, until the first byte has arrived.
    first_read: Option<Pin<Box<Sleep>>>,
}

impl<T> StallTimeout<T> {
    pub(crate) fn new(
        inner: T,
        first_read_limit: Duration,
        pace: PaceLimits,
        room: Option<Arc<Room>>,
    ) -> Self {
        let first_read = Some(Box::pin(sleep(first_read_limit)));
        Self { inner, pace: Pace::new(pace), room, first_read }
    }

    /// Applies the time limit to the result of polling a write. `bytes` tells how many bytes a
    /// result means.
    fn limit_write<R>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<R>>,
        bytes: impl FnOnce(&R) -> usize,
    ) -> Poll<io::Result<R>> {
        if let Poll::Ready(result) = &polled {
            self.pace.record(result.as_ref().map_or(0, bytes) as u64);
            return polled;
        }
        match self.pace.poll_too_slow(cx) {
            Poll::Ready(()) => {
                if let Some(room) = &self.room {
                    room.set_too_slow();
                }
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for StallTimeout<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_read(cx, buf);
        if polled.is_ready() {
            self.first_read = None;
            return polled;
        }
        let Some(timer) = &mut self.first_read else { return Poll::Pending };
        timer.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for StallTimeout<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.limit_write(cx, polled, |&bytes| bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(cx);
        self.limit_write(cx, polled, |()| 0)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.limit_write(cx, polled, |()| 0)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let inner = Pin::new(&mut self.inner);
        let polled = if bufs.len() > 1 && bufs.iter().map(|buf| buf.len()).sum::<usize>() <= MAX_COPY {
            // Taken out, because with TLS a connection like this lies below, and copies too.
            let mut copy = COPY.take();
            copy.clear();
            bufs.iter().for_each(|buf| copy.extend_from_slice(buf));
            let polled = inner.poll_write(cx, &copy);
            COPY.set(copy);
            polled
        } else {
            inner.poll_write_vectored(cx, bufs)
        };
        self.limit_write(cx, polled, |&bytes| bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        time::Instant,
    };

    const SECOND: Duration = Duration::from_secs(1);

    fn limits(seconds: u64) -> PaceLimits {
        PaceLimits { stall_timeout: Duration::from_secs(seconds), min_rate: 0 }
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_fails_only_if_the_peer_takes_nothing_within_the_limit() {
        let (ours, mut peer) = tokio::io::duplex(1000);
        let mut ours = StallTimeout::new(ours, SECOND, limits(10), None);
        let writing = tokio::spawn(async move {
            let written = ours.write_all(&[7; 5000]).await;
            (ours, written)
        });
        let mut taken = [0; 1000];
        for _ in 0..4 {
            tokio::time::sleep(9 * SECOND).await;
            peer.read_exact(&mut taken).await.unwrap();
        }
        let (mut ours, written) = writing.await.unwrap();
        written.unwrap();
        let begun = Instant::now();
        assert_eq!(ours.write_all(&[7; 2000]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), 10 * SECOND);
    }

    /// Passes each write on in two pieces, as TLS does with several records.
    struct InPieces<T>(T);

    impl<T: AsyncWrite + Unpin> AsyncWrite for InPieces<T> {
        fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            let (first, second) = buf.split_at(buf.len() / 2);
            let pieces = [io::IoSlice::new(first), io::IoSlice::new(second)];
            Pin::new(&mut self.0).poll_write_vectored(cx, &pieces)
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_flush(cx)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.0).poll_shutdown(cx)
        }
    }

    #[tokio::test]
    async fn small_writes_through_tls_to_another_such_connection_are_copied_twice() {
        let (ours, mut peer) = tokio::io::duplex(1000);
        let below = StallTimeout::new(ours, SECOND, limits(1), None);
        let mut above = StallTimeout::new(InPieces(below), SECOND, limits(1), None);
        let pieces = [io::IoSlice::new(b"one"), io::IoSlice::new(b" and two")];
        assert_eq!(above.write_vectored(&pieces).await.unwrap(), 11);
        let mut taken = [0; 11];
        peer.read_exact(&mut taken).await.unwrap();
        assert_eq!(&taken, b"one and two");
    }

    #[tokio::test(start_paused = true)]
    async fn only_the_first_read_has_a_time_limit() {
        let (ours, mut peer) = tokio::io::duplex(1000);
        let mut ours = StallTimeout::new(ours, SECOND, limits(1), None);
        assert_eq!(ours.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut ours = StallTimeout::new(ours, SECOND, limits(1), None);
        peer.write_all(b"a").await.unwrap();
        ours.read_u8().await.unwrap();
        let later = tokio::time::timeout(100 * SECOND, ours.read_u8()).await;
        assert!(later.is_err(), "a later read ended by itself");
    }
}
