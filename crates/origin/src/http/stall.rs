//! Time limits for clients that take no bytes, and for clients that never send any.
//!
//! Every write of a connection passes through [`StallTimeout`], so it also joins the small buffers
//! of a vectored write.

use std::{
    cell::RefCell,
    future::Future,
    io,
    pin::Pin,
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
    write_limit: Duration,
    /// Timer of a write that waits.
    write: Option<Pin<Box<Sleep>>>,
    /// Timer of the first read, until the first byte has arrived.
    first_read: Option<Pin<Box<Sleep>>>,
}

impl<T> StallTimeout<T> {
    pub(crate) fn new(inner: T, first_read_limit: Duration, write_limit: Duration) -> Self {
        let first_read = Some(Box::pin(sleep(first_read_limit)));
        Self { inner, write_limit, write: None, first_read }
    }

    /// Applies the time limit to the result of polling a write.
    fn limit_write<R>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if polled.is_ready() {
            self.write = None;
            return polled;
        }
        let limit = self.write_limit;
        let timer = self.write.get_or_insert_with(|| Box::pin(sleep(limit)));
        match timer.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
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
        self.limit_write(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(cx);
        self.limit_write(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.limit_write(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let inner = Pin::new(&mut self.inner);
        let polled = if bufs.len() > 1 && bufs.iter().map(|buf| buf.len()).sum::<usize>() <= MAX_COPY {
            COPY.with_borrow_mut(|copy| {
                copy.clear();
                bufs.iter().for_each(|buf| copy.extend_from_slice(buf));
                inner.poll_write(cx, copy)
            })
        } else {
            inner.poll_write_vectored(cx, bufs)
        };
        self.limit_write(cx, polled)
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

    #[tokio::test(start_paused = true)]
    async fn a_write_fails_only_if_the_peer_takes_nothing_within_the_limit() {
        let (ours, mut peer) = tokio::io::duplex(1000);
        let mut ours = StallTimeout::new(ours, SECOND, 10 * SECOND);
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

    #[tokio::test(start_paused = true)]
    async fn only_the_first_read_has_a_time_limit() {
        let (ours, mut peer) = tokio::io::duplex(1000);
        let mut ours = StallTimeout::new(ours, SECOND, SECOND);
        assert_eq!(ours.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut ours = StallTimeout::new(ours, SECOND, SECOND);
        peer.write_all(b"a").await.unwrap();
        ours.read_u8().await.unwrap();
        let later = tokio::time::timeout(100 * SECOND, ours.read_u8()).await;
        assert!(later.is_err(), "a later read ended by itself");
    }
}
