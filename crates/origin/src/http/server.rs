//! The HTTP server: HTTP/1.1, or HTTP/2 by TLS and ALPN, with time limits and draining.

use crate::{
    config::HttpConfig,
    http::client_address::ClientAddresses,
    http::gather::GatheringBody,
    http::listen::Acceptor,
    http::proxy_protocol::read_header,
    http::refusal::ExplainedRefusals,
    http::stall::StallTimeout,
    http::streams::{ObservedBody, StreamExecutor},
    http::timer::ConnectionTimer,
    http::tls::Tls,
    observe::access::log_refusal,
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
use std::{
    convert::Infallible,
    future::Future,
    io,
    net::IpAddr,
    pin::pin,
    sync::{Arc, atomic::Ordering::Relaxed},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};

/// The HTTP server. `handler` makes the response to a request from the peer of a connection.
#[derive(Clone)]
pub(crate) struct Server<H> {
    pub(crate) handler: H,
    pub(crate) config: HttpConfig,
    pub(crate) tls: Option<Tls>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clients: Arc<ClientAddresses>,
}

impl<H, F> Server<H>
where
    H: Fn(Request<Incoming>, IpAddr) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Response<Body>> + Send + 'static,
{
    /// Serves until `shutdown` resolves. Open responses then get at most
    /// [`HttpConfig::drain_timeout`] to end.
    pub(crate) async fn run(self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let mut acceptor = Acceptor::new(listener, self.config.max_connections);
        self.metrics.connections_limit.store(acceptor.max_connections as u64, Relaxed);
        let graceful = GracefulShutdown::new();
        // If draining takes too long, dropping this set ends every connection.
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(_) = connections.join_next() => continue,
                accepted = acceptor.accept() => accepted,
            };
            let Some((stream, peer, slot)) = accepted else { continue };
            let server = self.clone();
            let watcher = graceful.watcher();
            let open = self.metrics.connection();
            connections.spawn(async move {
                server.connection(stream, peer.ip(), watcher).await;
                drop((slot, open));
            });
        }
        drop(acceptor);
        if timeout(self.config.drain_timeout, graceful.shutdown()).await.is_err() {
            tracing::warn!(reason = "drain_timeout", "drain_timeout has passed: open responses are aborted");
        }
    }

    /// Serves one connection. The future of each protocol is boxed, so an idle connection does not
    /// take memory for all of them.
    async fn connection(self, mut stream: TcpStream, peer: IpAddr, watcher: Watcher) {
        let Some(peer) = self.stated_peer(&mut stream, peer).await else { return };
        let stream = self.with_timeouts(stream);
        match self.tls.clone() {
            None => Box::pin(self.http1(stream, peer, watcher)).await,
            Some(tls) => Box::pin(self.secured(stream, tls, peer, watcher)).await,
        }
    }

    /// Returns the peer of a connection. With the PROXY protocol, that is the one which a trusted
    /// proxy states. Returns `None` if the proxy does not begin as the protocol demands.
    async fn stated_peer(&self, stream: &mut TcpStream, peer: IpAddr) -> Option<IpAddr> {
        if !self.config.proxy_protocol || !self.clients.is_proxy(peer) {
            return Some(peer);
        }
        match timeout(self.config.header_timeout, read_header(stream)).await {
            Ok(Ok(stated)) => return Some(stated.unwrap_or(peer)),
            Ok(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
                log_refusal(&self.metrics, peer, None, "bad_proxy_header", 0);
            }
            // A health check may only open and close a connection.
            Ok(Err(error)) => tracing::debug!(reason = "connection", "{error}"),
            Err(_) => tracing::debug!(reason = "bad_proxy_header", "no PROXY header in time"),
        }
        None
    }

    async fn secured(self, stream: StallTimeout<TcpStream>, tls: Tls, peer: IpAddr, watcher: Watcher) {
        match timeout(self.config.header_timeout, tls.acceptor.accept(stream)).await {
            Err(_) => tracing::debug!(reason = "tls_timeout", "no TLS handshake in time"),
            Ok(Err(error)) => tracing::debug!(reason = "tls", "{error}"),
            Ok(Ok(stream)) => {
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                // The time limit of the first byte starts again after the handshake.
                let stream = self.with_timeouts(stream);
                if is_http2 {
                    Box::pin(self.http2(stream, peer, watcher)).await;
                } else {
                    Box::pin(self.http1(stream, peer, watcher)).await;
                }
            }
        }
    }

    fn with_timeouts<T>(&self, stream: T) -> StallTimeout<T> {
        StallTimeout::new(stream, self.config.header_timeout, self.config.stall_timeout)
    }

    async fn http1(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        peer: IpAddr,
        watcher: Watcher,
    ) {
        let Self { handler, config, metrics, .. } = self;
        let mut builder = http1::Builder::new();
        builder
            .timer(ConnectionTimer::default())
            .header_read_timeout(config.header_timeout)
            .max_header_size(config.max_header_bytes.max(8192) as usize);
        let service = service_fn(move |request| {
            let response = handler(request, peer);
            // Boxed so that an idle connection takes no memory for a request.
            Box::pin(async move { Ok::<_, Infallible>(response.await.map(GatheringBody::new)) })
        });
        let stream = ExplainedRefusals::new(stream, metrics.clone(), peer);
        let ended = watcher.watch(builder.serve_connection(TokioIo::new(stream), service)).await;
        if ended.as_ref().is_err_and(hyper::Error::is_parse_version_h2) {
            // hyper sends no response, because the client would not understand one of HTTP/1.1.
            log_refusal(&metrics, peer, None, "http2_without_tls", 0);
        }
        log_end(ended);
    }

    async fn http2(
        self,
        stream: impl AsyncRead + AsyncWrite + Unpin + 'static,
        peer: IpAddr,
        watcher: Watcher,
    ) {
        let Self { handler, config, .. } = self;
        let mut builder = http2::Builder::new(StreamExecutor { stall_timeout: config.stall_timeout });
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(config.header_timeout)
            .keep_alive_timeout(config.header_timeout)
            .max_header_list_size(config.max_header_bytes.max(8192))
            .max_concurrent_streams(config.max_streams);
        let service = service_fn(move |request| {
            let response = handler(request, peer);
            async move { Ok::<_, Infallible>(response.await.map(ObservedBody)) }
        });
        log_end(watcher.watch(builder.serve_connection(TokioIo::new(stream), service)).await);
    }
}

/// Logs the error of a connection at debug level, because clients often leave early.
fn log_end(result: hyper::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(reason = "connection", "{error}");
    }
}
