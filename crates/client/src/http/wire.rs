//! HTTP on a connection for one exchange. Between exchanges a connection is a socket and nothing else: hyper keeps 8 KiB to write from and a read
//! buffer for each, which is most of what a player that waits for its buffer to empty would take.

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

/// A connection that speaks HTTP. It is driven by whoever waits for something of it, not by a task of its own.
pub(super) struct Wire {
    driver: Driver,
    sender: SendRequest<Empty<Bytes>>,
}

type Socket = TokioIo<Box<dyn Stream>>;

struct Driver {
    connection: Box<Connection<Socket, Empty<Bytes>>>,
    ended: bool,
}

impl Driver {
    /// Its errors come to whoever waits for an answer.
    fn poll(&mut self, context: &mut Context<'_>) {
        self.ended = self.ended || self.connection.poll_without_shutdown(context).is_ready();
    }

    /// Waits for something that comes of driving the connection.
    async fn until<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        poll_fn(|context| {
            self.poll(context);
            work.as_mut().poll(context)
        })
        .await
    }
}

impl Wire {
    /// Begins an exchange; reads as many bytes at a time.
    pub(super) async fn begin(stream: Box<dyn Stream>, read_buffer: usize) -> hyper::Result<Self> {
        let made =
            Builder::new().read_buf_exact_size(Some(read_buffer)).handshake(TokioIo::new(stream)).await;
        let (sender, connection) = made?;
        Ok(Self { driver: Driver { connection: Box::new(connection), ended: false }, sender })
    }

    /// Sends the request; gives the head of the answer. What a server did to an idle connection is seen before anything is sent.
    pub(super) async fn send(&mut self, request: Request<Empty<Bytes>>) -> hyper::Result<Response<Incoming>> {
        let Self { driver, sender } = self;
        let answer = async {
            sender.ready().await?;
            sender.send_request(request).await
        };
        driver.until(answer).await
    }

    /// The next piece of the answer's body.
    pub(super) async fn frame(&mut self, body: &mut Incoming) -> Option<hyper::Result<Frame<Bytes>>> {
        self.driver.until(body.frame()).await
    }

    /// Ends the exchange, once its body was read; gives the connection if another can follow.
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
