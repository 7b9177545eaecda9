//! Connections that do not move: a timeout for clients that take no bytes, and for those that never send any.
//!
//! All that is written goes through here, so small pieces are put together here as well, on their way to the kernel.

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
    time::{Instant, Sleep, sleep},
};

/// Bytes that are sooner copied than told the kernel the places of.
const SMALL: usize = 2 << 10;

thread_local! {
    /// Where small pieces are put together.
    static TOGETHER: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(SMALL));
}

/// A connection whose writes, and whose first read, may wait only so long.
#[derive(Debug)]
pub(crate) struct Stall<T> {
    inner: T,
    limit: Duration,
    write: Option<Pin<Box<Sleep>>>,
    /// Until the first byte has come.
    first_read: Option<Pin<Box<Sleep>>>,
}

impl<T> Stall<T> {
    pub(crate) fn new(inner: T, first_read: Duration, write: Duration) -> Self {
        Self { inner, limit: write, write: None, first_read: Some(Box::pin(sleep(first_read))) }
    }

    /// Looks at the clock while a write waits.
    fn waited<R>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<R>>) -> Poll<io::Result<R>> {
        if polled.is_ready() {
            self.write = None;
            return polled;
        }
        let limit = self.limit;
        let timer =
            self.write.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(Instant::now() + limit)));
        match timer.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for Stall<T> {
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

impl<T: AsyncWrite + Unpin> AsyncWrite for Stall<T> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.inner).poll_write(cx, buf);
        self.waited(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_flush(cx);
        self.waited(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.waited(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let inner = Pin::new(&mut self.inner);
        let polled = if bufs.len() > 1 && bufs.iter().map(|buf| buf.len()).sum::<usize>() <= SMALL {
            TOGETHER.with_borrow_mut(|together| {
                together.clear();
                bufs.iter().for_each(|buf| together.extend_from_slice(buf));
                inner.poll_write(cx, together)
            })
        } else {
            inner.poll_write_vectored(cx, bufs)
        };
        self.waited(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_takes_nothing_is_left_and_a_slow_one_is_not() {
        let (ours, mut theirs) = tokio::io::duplex(1000);
        let mut ours = Stall::new(ours, SECOND, 10 * SECOND);
        let writing = tokio::spawn(async move {
            let written = ours.write_all(&[7; 5000]).await;
            (ours, written)
        });
        let mut taken = [0; 1000];
        for _ in 0..4 {
            tokio::time::sleep(9 * SECOND).await;
            theirs.read_exact(&mut taken).await.unwrap();
        }
        let (mut ours, written) = writing.await.unwrap();
        written.unwrap();
        let begun = Instant::now();
        assert_eq!(ours.write_all(&[7; 2000]).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert_eq!(begun.elapsed(), 10 * SECOND);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_byte_is_waited_for_so_long_and_later_ones_are_not_our_matter() {
        let (ours, mut theirs) = tokio::io::duplex(1000);
        let mut ours = Stall::new(ours, SECOND, SECOND);
        assert_eq!(ours.read_u8().await.unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut ours = Stall::new(ours, SECOND, SECOND);
        theirs.write_all(b"a").await.unwrap();
        ours.read_u8().await.unwrap();
        let later = tokio::time::timeout(100 * SECOND, ours.read_u8()).await;
        assert!(later.is_err(), "still waiting");
    }
}
