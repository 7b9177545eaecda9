//! Connections: accepting, HTTP/1.1 or by TLS and ALPN HTTP/2, limits, draining.

use crate::{
    app::App,
    config::HttpConfig,
    http::gather::Gathered,
    http::stall::Stall,
    http::streams::{Streams, Told},
    http::timer::ConnectionTimer,
    http::tls::Tls,
    serve::handle,
};
use hyper::{
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use std::{
    convert::Infallible,
    future::Future,
    io,
    pin::pin,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::timeout,
};

/// How often it is said at most that there are too many connections.
const SAID_EVERY: Duration = Duration::from_secs(60);

/// Serves until `shutdown` resolves, then lets open answers end, at most [`HttpConfig::drain_timeout`].
///
/// # Errors
/// None after the listener works: what fails then fails one connection.
pub(crate) async fn serve(
    app: Arc<App>,
    listener: TcpListener,
    tls: Option<Tls>,
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let mut door = Door::new(listener, app.config.http.max_connections);
    app.metrics.limit_connections(door.most);
    let graceful = GracefulShutdown::new();
    // Dropped when draining has taken too long: every connection ends then.
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => continue,
            accepted = door.accept() => accepted,
        };
        let Some((stream, slot)) = accepted else { continue };
        let connection = Connection { app: app.clone(), tls: tls.clone(), watcher: graceful.watcher() };
        let open = app.metrics.connection();
        connections.spawn(async move {
            connection.run(stream).await;
            drop((slot, open));
        });
    }
    app.drain();
    drop(door);
    if timeout(app.config.http.drain_timeout, graceful.shutdown()).await.is_err() {
        tracing::warn!(reason = "drain_timeout", "answers that took too long are broken off");
    }
    drop(connections);
    Ok(())
}

/// A listener, and how many of those who come to it may be in at a time. The others wait in the kernel's queue.
#[derive(Debug)]
pub(crate) struct Door {
    listener: TcpListener,
    slots: Arc<Semaphore>,
    most: usize,
    /// When it was last said that it is closed.
    said: Option<Instant>,
}

impl Door {
    pub(crate) fn new(listener: TcpListener, most: usize) -> Self {
        let most = most.clamp(1, Semaphore::MAX_PERMITS);
        Self { listener, slots: Arc::new(Semaphore::new(most)), most, said: None }
    }

    /// The next connection, when there is room for one.
    pub(crate) async fn accept(&mut self) -> Option<(TcpStream, OwnedSemaphorePermit)> {
        let slot = match self.slots.clone().try_acquire_owned() {
            Ok(slot) => slot,
            Err(_) => {
                self.say();
                self.slots.clone().acquire_owned().await.ok()?
            }
        };
        match self.listener.accept().await {
            Ok((stream, _)) => {
                // Heads and last frames are small: they should not wait for an acknowledgement.
                let _ = stream.set_nodelay(true);
                Some((stream, slot))
            }
            Err(error) => {
                tracing::warn!(reason = "accept", "{error}");
                // Out of descriptors, most likely: others must be closed first.
                tokio::time::sleep(Duration::from_millis(50)).await;
                None
            }
        }
    }

    /// Who waits sees only that nothing comes: the operator should know why.
    fn say(&mut self) {
        if self.said.is_none_or(|when| when.elapsed() >= SAID_EVERY) {
            self.said = Some(Instant::now());
            let most = self.most;
            tracing::warn!(
                reason = "connections",
                most,
                "as many connections are open as may be: others wait"
            );
        }
    }
}

/// What one connection needs.
struct Connection {
    app: Arc<App>,
    tls: Option<Tls>,
    watcher: Watcher,
}

impl Connection {
    /// What a connection may come to be is boxed: an idle one holds what it is, not room for all it might have been.
    async fn run(self, stream: TcpStream) {
        let HttpConfig { header_timeout, stall_timeout, .. } = self.app.config.http;
        let stream = Stall::new(stream, header_timeout, stall_timeout);
        match self.tls.clone() {
            None => Box::pin(self.http1(stream)).await,
            Some(tls) => Box::pin(self.secured(stream, tls)).await,
        }
    }

    async fn secured(self, stream: Stall<TcpStream>, tls: Tls) {
        let HttpConfig { header_timeout, stall_timeout, .. } = self.app.config.http;
        match timeout(header_timeout, tls.acceptor.accept(stream)).await {
            Err(_) => tracing::debug!(reason = "tls_timeout", "no TLS handshake in time"),
            Ok(Err(error)) => tracing::debug!(reason = "tls", "{error}"),
            Ok(Ok(stream)) => {
                let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                // The handshake's bytes are not the request's: its first is waited for anew.
                let stream = Stall::new(stream, header_timeout, stall_timeout);
                if http2 { Box::pin(self.http2(stream)).await } else { Box::pin(self.http1(stream)).await }
            }
        }
    }

    async fn http1(self, stream: impl AsyncRead + AsyncWrite + Unpin + 'static) {
        let Self { app, watcher, .. } = self;
        let config = &app.config.http;
        let mut builder = http1::Builder::new();
        builder
            .timer(ConnectionTimer::default())
            .header_read_timeout(config.header_timeout)
            .max_header_size(usize::try_from(config.max_header_bytes.max(8192)).unwrap_or(usize::MAX));
        let handler = app.clone();
        let service = service_fn(move |request| {
            let app = handler.clone();
            // Boxed: a connection that is idle has no request, nor room for one.
            Box::pin(async move { Ok::<_, Infallible>(handle(&app, request).await.map(Gathered::new)) })
        });
        ended(watcher.watch(builder.serve_connection(TokioIo::new(stream), service)).await);
    }

    async fn http2(self, stream: impl AsyncRead + AsyncWrite + Unpin + 'static) {
        let Self { app, watcher, .. } = self;
        let config = &app.config.http;
        let mut builder = http2::Builder::new(Streams { limit: config.stall_timeout });
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(config.header_timeout)
            .keep_alive_timeout(config.header_timeout)
            .max_header_list_size(config.max_header_bytes.max(8192))
            .max_concurrent_streams(config.max_streams);
        let handler = app.clone();
        let service = service_fn(move |request| {
            let app = handler.clone();
            async move { Ok::<_, Infallible>(handle(&app, request).await.map(Told)) }
        });
        ended(watcher.watch(builder.serve_connection(TokioIo::new(stream), service)).await);
    }
}

/// Clients come and go: how a connection ended is of interest to who looks closely only.
fn ended(result: hyper::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(reason = "connection", "{error}");
    }
}
