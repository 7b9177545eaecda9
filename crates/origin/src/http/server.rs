//! The HTTP server: HTTP/1.1, or HTTP/2 by TLS and ALPN, with time limits and draining.

use crate::{
    config::HttpConfig,
    http::gather::GatheringBody,
    http::listen::Acceptor,
    http::stall::StallTimeout,
    http::streams::{ObservedBody, StreamExecutor},
    http::timer::ConnectionTimer,
    http::tls::Tls,
    observe::metrics::Metrics,
    read::body::Body,
};
use http::{Request, Response};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::{GracefulShutdown, Watcher},
};
use std::{convert::Infallible, future::Future, pin::pin, sync::Arc};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

/// Everything a connection needs. `handler` makes the response to a request.
#[derive(Clone)]
pub(crate) struct Server<H> {
    pub(crate) handler: H,
    pub(crate) config: HttpConfig,
    pub(crate) tls: Option<Tls>,
    pub(crate) metrics: Arc<Metrics>,
}

impl<H, F> Server<H>
where
    H: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    /// Serves until `shutdown` resolves. Then open responses may end, for at most
    /// [`HttpConfig::drain_timeout`].
    pub(crate) async fn run(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let mut acceptor = Acceptor::new(listener, self.config.max_connections);
        self.metrics.limit_connections(acceptor.max_connections());
        let graceful = GracefulShutdown::new();
        // Dropping this set ends every connection, if draining takes too long.
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(_) = connections.join_next() => continue,
                accepted = acceptor.accept() => accepted,
            };
            let Some((stream, slot)) = accepted else { continue };
            let server = self.clone();
            let watcher = graceful.watcher();
            let open = self.metrics.connection();
            connections.spawn(async move {
                server.connection(stream, watcher).await;
                drop((slot, open));
            });
        }
        drop(acceptor);
        if timeout(self.config.drain_timeout, graceful.shutdown()).await.is_err() {
            tracing::warn!(reason = "drain_timeout", "responses that take too long are broken off");
        }
    }

    /// Serves one connection. The future of each protocol is boxed, so that an idle connection does
    /// not hold room for all of them.
    async fn connection(self, stream: TcpStream, watcher: Watcher) {
        let stream = self.with_timeouts(stream);
        match self.tls.clone() {
            None => Box::pin(self.http1(stream, watcher)).await,
            Some(tls) => Box::pin(self.secured(stream, tls, watcher)).await,
        }
    }

    async fn secured(self, stream: StallTimeout<TcpStream>, tls: Tls, watcher: Watcher) {
        match timeout(self.config.header_timeout, tls.acceptor.accept(stream)).await {
            Err(_) => tracing::debug!(reason = "tls_timeout", "no TLS handshake in time"),
            Ok(Err(error)) => tracing::debug!(reason = "tls", "{error}"),
            Ok(Ok(stream)) => {
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                // The first byte of the request has a time limit of its own, apart from the
                // handshake.
                let stream = self.with_timeouts(stream);
                if is_http2 {
                    Box::pin(self.http2(stream, watcher)).await;
                } else {
                    Box::pin(self.http1(stream, watcher)).await;
                }
            }
        }
    }

    fn with_timeouts<T>(&self, stream: T) -> StallTimeout<T> {
        StallTimeout::new(stream, self.config.header_timeout, self.config.stall_timeout)
    }

    async fn http1(self, stream: impl AsyncRead + AsyncWrite + Unpin + 'static, watcher: Watcher) {
        let Self { handler, config, .. } = self;
        let mut builder = http1::Builder::new();
        builder
            .timer(ConnectionTimer::default())
            .header_read_timeout(config.header_timeout)
            .max_header_size(config.max_header_bytes.max(8192) as usize);
        let service = service_fn(move |request| {
            let response = handler(request);
            // Boxed, so that an idle connection holds no room for a request.
            Box::pin(async move { Ok::<_, Infallible>(response.await.map(GatheringBody::new)) })
        });
        log_end(watcher.watch(builder.serve_connection(TokioIo::new(stream), service)).await);
    }

    async fn http2(self, stream: impl AsyncRead + AsyncWrite + Unpin + 'static, watcher: Watcher) {
        let Self { handler, config, .. } = self;
        let mut builder = http2::Builder::new(StreamExecutor { stall_timeout: config.stall_timeout });
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(config.header_timeout)
            .keep_alive_timeout(config.header_timeout)
            .max_header_list_size(config.max_header_bytes.max(8192))
            .max_concurrent_streams(config.max_streams);
        let service = service_fn(move |request| {
            let response = handler(request);
            async move { Ok::<_, Infallible>(response.await.map(ObservedBody)) }
        });
        log_end(watcher.watch(builder.serve_connection(TokioIo::new(stream), service)).await);
    }
}

/// Logs how a connection ended, at debug level: clients come and go.
fn log_end(result: hyper::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(reason = "connection", "{error}");
    }
}
