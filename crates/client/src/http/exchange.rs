//! HTTP on a connection, for one exchange. Only the socket is kept between exchanges, because
//! hyper's read buffer and its write buffer of 8 KiB would take most of the memory of an idle
//! player.

use super::Stream;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty};
use hyper::{
    body::{Frame, Incoming},
    client::conn::http1::{Builder, Connection, SendRequest},
};
use hyper_util::rt::TokioIo;
use std::{
    future::poll_fn,
    pin::pin,
    task::{Context, Poll},
};

/// One exchange on a connection. The caller drives the connection while it waits for the exchange,
/// so that no task is needed.
pub(super) struct Exchange {
    driver: Driver,
    sender: SendRequest<Empty<Bytes>>,
}

type Socket = TokioIo<Box<dyn Stream>>;

struct Driver {
    connection: Box<Connection<Socket, Empty<Bytes>>>,
    ended: bool,
}

impl Driver {
    /// Drives the connection. The response reports its errors to the caller.
    fn poll(&mut self, context: &mut Context<'_>) {
        self.ended = self.ended || self.connection.poll_without_shutdown(context).is_ready();
    }

    /// Drives the connection until a future completes.
    async fn drive_until<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            self.poll(context);
            work.as_mut().poll(context)
        })
        .await
    }
}

impl Exchange {
    /// Starts an exchange that reads up to `read_buffer` bytes at a time.
    pub(super) async fn begin(stream: Box<dyn Stream>, read_buffer: usize) -> hyper::Result<Self> {
        let made =
            Builder::new().read_buf_exact_size(Some(read_buffer)).handshake(TokioIo::new(stream)).await;
        let (sender, connection) = made?;
        Ok(Self { driver: Driver { connection: Box::new(connection), ended: false }, sender })
    }

    /// Sends the request and returns the head of the response. Fails before anything is sent if the
    /// server has closed the idle connection.
    pub(super) async fn send(&mut self, request: Request<Empty<Bytes>>) -> hyper::Result<Response<Incoming>> {
        let Self { driver, sender } = self;
        let response = async {
            sender.ready().await?;
            sender.send_request(request).await
        };
        driver.drive_until(response).await
    }

    /// Returns the next frame of the response's body.
    pub(super) async fn frame(&mut self, body: &mut Incoming) -> Option<hyper::Result<Frame<Bytes>>> {
        self.driver.drive_until(body.frame()).await
    }

    /// Ends the exchange after its body was read. Returns the connection if it can be used again.
    pub(super) async fn end(mut self) -> Option<Box<dyn Stream>> {
        poll_fn(|context| {
            self.driver.poll(context);
            Poll::Ready(())
        })
        .await;
        if self.driver.ended || !self.sender.is_ready() {
            return None;
        }
        let parts = self.driver.connection.into_parts();
        parts.read_buf.is_empty().then(|| parts.io.into_inner())
    }
}
