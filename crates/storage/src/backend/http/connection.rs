//! Connections that notice bytes which belong to no response.
//!
//! HTTP/1.1 has no numbers that tie a response to its request. If a server sends more than one
//! response to a request, or a body that is longer than its stated length, the surplus bytes would
//! be taken for the response to the next request on that connection.

use super::framing::Framing;
use http::Uri;
use hyper::rt;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tower_service::Service;

/// Becomes true when surplus bytes arrive on a connection. Each response carries the one of its
/// connection among its extensions.
#[derive(Debug, Clone, Default)]
pub(super) struct Surplus(Arc<AtomicBool>);

impl Surplus {
    pub(super) fn is_found(&self) -> bool {
        self.0.load(Relaxed)
    }
}

/// Watches the connections of another connector.
#[derive(Debug, Clone)]
pub(super) struct WatchedConnector<C> {
    pub(super) inner: C,
    /// Called for each connection on which surplus bytes arrive.
    pub(super) on_surplus: OnSurplus,
}

/// Receives the news of surplus bytes.
#[derive(Clone)]
pub(super) struct OnSurplus(pub(super) Arc<dyn Fn() + Send + Sync>);

impl std::fmt::Debug for OnSurplus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OnSurplus")
    }
}

impl<C, T> Service<Uri> for WatchedConnector<C>
where
    C: Service<Uri, Response = T>,
    C::Future: Send + 'static,
    T: rt::Read + rt::Write,
{
    type Response = TokioIo<Watched<T>>;
    type Error = C::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, C::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), C::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, address: Uri) -> Self::Future {
        let connecting = self.inner.call(address);
        let on_surplus = self.on_surplus.clone();
        Box::pin(async move {
            let io = TokioIo::new(connecting.await?);
            let surplus = Surplus::default();
            Ok(TokioIo::new(Watched { io, framing: Framing::new(), surplus, on_surplus }))
        })
    }
}

/// A connection. After surplus bytes it fails, so that it is used for no other request.
pub(super) struct Watched<T> {
    io: TokioIo<T>,
    framing: Framing,
    surplus: Surplus,
    on_surplus: OnSurplus,
}

/// A response that some servers send to no request before they close an idle connection (RFC 9110,
/// 15.5.9).
const TIMEOUT: &[u8] = b"HTTP/1.1 408";

/// Returns true if these bytes on an idle connection mean that the server closes it.
fn is_end_of_idle(received: &[u8]) -> bool {
    received.is_empty() || received.starts_with(TIMEOUT)
}

impl<T: rt::Read + rt::Write + Unpin> Watched<T> {
    fn fail(&self) -> io::Error {
        if !self.surplus.0.swap(true, Relaxed) {
            (self.on_surplus.0)();
        }
        io::Error::new(io::ErrorKind::InvalidData, "the server sent bytes that belong to no response")
    }

    /// Checks before a request that no bytes have arrived since the last response.
    fn check_quiet(&mut self, cx: &mut Context<'_>) -> io::Result<()> {
        if self.surplus.is_found() {
            return Err(self.fail());
        }
        if !self.framing.is_idle() {
            return Ok(());
        }
        let mut start = [0; TIMEOUT.len()];
        let mut buffer = ReadBuf::new(&mut start);
        match Pin::new(&mut self.io).poll_read(cx, &mut buffer) {
            Poll::Pending => Ok(()),
            Poll::Ready(Ok(())) if is_end_of_idle(buffer.filled()) => Err(io::ErrorKind::BrokenPipe.into()),
            Poll::Ready(Ok(())) => Err(self.fail()),
            Poll::Ready(Err(error)) => Err(error),
        }
    }
}

impl<T: rt::Read + rt::Write + Unpin> AsyncRead for Watched<T> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.surplus.is_found() {
            return Poll::Ready(Err(this.fail()));
        }
        let before = buffer.filled().len();
        ready!(Pin::new(&mut this.io).poll_read(cx, buffer))?;
        let received = buffer.filled().get(before..).unwrap_or_default();
        let own = this.framing.received(received);
        if own < received.len() {
            if own == 0 && is_end_of_idle(received) {
                buffer.set_filled(before);
                return Poll::Ready(Ok(()));
            }
            let error = this.fail();
            if own == 0 {
                buffer.set_filled(before);
                return Poll::Ready(Err(error));
            }
            buffer.set_filled(before + own);
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: rt::Read + rt::Write + Unpin> AsyncWrite for Watched<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.check_quiet(cx)?;
        this.framing.sent(bytes);
        Pin::new(&mut this.io).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        this.check_quiet(cx)?;
        pieces.iter().for_each(|piece| this.framing.sent(piece));
        Pin::new(&mut this.io).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}

impl<T: Connection> Connection for Watched<T> {
    fn connected(&self) -> Connected {
        self.io.inner().connected().extra(self.surplus.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::{OnSurplus, Surplus, Watched};
    use crate::backend::http::framing::Framing;
    use hyper_util::rt::TokioIo;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\n\r\n";
    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    const STRAY: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

    /// A connection, its other end, and the number of times that surplus bytes were reported.
    struct World {
        connection: Watched<TokioIo<DuplexStream>>,
        server: DuplexStream,
        reports: Arc<AtomicU32>,
    }

    impl World {
        fn new() -> Self {
            let (client, server) = duplex(4096);
            let reports = Arc::new(AtomicU32::new(0));
            let counted = Arc::clone(&reports);
            let on_surplus = OnSurplus(Arc::new(move || _ = counted.fetch_add(1, Relaxed)));
            let io = TokioIo::new(TokioIo::new(client));
            let surplus = Surplus::default();
            let connection = Watched { io, framing: Framing::new(), surplus, on_surplus };
            Self { connection, server, reports }
        }

        /// Sends a request, and returns what arrives of these bytes.
        async fn exchange(&mut self, sent: &[u8]) -> Vec<u8> {
            self.connection.write_all(REQUEST).await.unwrap();
            self.server.write_all(sent).await.unwrap();
            let mut received = vec![0; 4096];
            let length = self.connection.read(&mut received).await.unwrap();
            received.truncate(length);
            received
        }

        fn surplus(&self) -> (bool, u32) {
            (self.connection.surplus.is_found(), self.reports.load(Relaxed))
        }
    }

    #[tokio::test]
    async fn responses_without_surplus_pass() {
        let mut world = World::new();
        for _ in 0..3 {
            assert_eq!(world.exchange(RESPONSE).await, RESPONSE);
        }
        assert_eq!(world.surplus(), (false, 0));
    }

    #[tokio::test]
    async fn surplus_that_arrives_with_a_response_is_withheld() {
        let mut world = World::new();
        assert_eq!(world.exchange(&[RESPONSE, STRAY].concat()).await, RESPONSE);
        assert_eq!(world.surplus(), (true, 1));
        world.connection.read_u8().await.unwrap_err();
        world.connection.write_all(REQUEST).await.unwrap_err();
        assert_eq!(world.surplus(), (true, 1));
    }

    #[tokio::test]
    async fn surplus_that_arrives_before_the_next_request_ends_the_connection() {
        let mut world = World::new();
        world.exchange(RESPONSE).await;
        world.server.write_all(STRAY).await.unwrap();
        world.connection.write_all(REQUEST).await.unwrap_err();
        assert_eq!(world.surplus(), (true, 1));
        // The same while nobody sends a request.
        let mut world = World::new();
        world.exchange(RESPONSE).await;
        world.server.write_all(STRAY).await.unwrap();
        world.connection.read_u8().await.unwrap_err();
        assert_eq!(world.surplus(), (true, 1));
    }

    /// Some servers announce with status 408 that they close an idle connection.
    #[tokio::test]
    async fn the_timeout_of_an_idle_connection_is_its_end() {
        let timeout = b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n";
        let mut world = World::new();
        world.exchange(RESPONSE).await;
        world.server.write_all(timeout).await.unwrap();
        assert_eq!(world.connection.read(&mut [0; 100]).await.unwrap(), 0);
        let mut world = World::new();
        world.exchange(RESPONSE).await;
        world.server.write_all(timeout).await.unwrap();
        world.connection.write_all(REQUEST).await.unwrap_err();
        assert_eq!(world.surplus(), (false, 0));
    }
}
