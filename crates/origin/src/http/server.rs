//! The HTTP server: HTTP/1.1, or HTTP/2 by TLS and ALPN, with time limits and draining.

use crate::{
    config::HttpConfig,
    http::client_address::ClientAddresses,
    http::connections::{Connection, Connections, RESERVE},
    http::gather::GatheringBody,
    http::listen::{Acceptor, Listener, Stream},
    http::pace::PaceLimits,
    http::proxy_protocol::read_header,
    http::refusal::ExplainedRefusals,
    http::stall::StallTimeout,
    http::streams::{StreamExecutor, set_charge_of_stream},
    http::timer::ConnectionTimer,
    http::tls::Tls,
    observe::access::log_refusal,
    observe::metrics::Metrics,
    read::body::Body,
    read::charge::Charge,
};
use futures_util::future::BoxFuture;
use http::{Request, Response};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::graceful::GracefulConnection,
};
use std::{
    convert::Infallible,
    future::{Future, pending},
    io,
    net::IpAddr,
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    task::JoinSet,
    time::timeout,
};

/// Maximum number of connections that are accepted in a row, before other tasks run.
/// Otherwise a burst of connections would keep all of them waiting: reading the first request of
/// each takes a tenth of a millisecond or more.
const ACCEPTS_IN_A_ROW: u32 = 8;
/// Longest life of a connection on which only health checks are answered.
const RESERVED_TIME: Duration = Duration::from_secs(5);
/// Longest time for an idle connection to close after it was told to.
const CLOSING_TIME: Duration = Duration::from_secs(2);
/// Bytes of requests' bodies that clients may send over HTTP/2 before they are read, which they
/// never are.
const UNREAD: u32 = 65_535;

/// The HTTP server. `handler` makes the response to a request on a connection.
#[derive(Clone)]
pub(crate) struct Server<H> {
    pub(crate) handler: H,
    pub(crate) config: HttpConfig,
    pub(crate) tls: Option<Tls>,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clients: Arc<ClientAddresses>,
    pub(crate) connections: Arc<Connections>,
}

/// Tells connections that the server stops.
type Stopping = watch::Receiver<bool>;

impl<H, F> Server<H>
where
    H: Fn(Request<Incoming>, Arc<Connection>) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = (Response<Body>, Arc<Charge>)> + Send + 'static,
{
    /// Serves until `shutdown` resolves. Open responses then get at most
    /// [`HttpConfig::drain_timeout`] to end. Each connection is served by what `current` returns
    /// when it is accepted. The number of connections does not change.
    pub(crate) async fn run(
        current: impl Fn() -> Self,
        listener: Listener,
        shutdown: impl Future<Output = ()>,
    ) {
        let Self { config, metrics, .. } = current();
        let max_connections = config.max_connections;
        let mut acceptor = Acceptor::new(listener, max_connections.saturating_add(RESERVE));
        metrics.connections_limit.store(max_connections as u64, Relaxed);
        let (stop, stopping) = watch::channel(false);
        // If draining takes too long, dropping this set ends every connection.
        let mut tasks = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        let mut in_a_row = 0;
        loop {
            if in_a_row == ACCEPTS_IN_A_ROW {
                in_a_row = 0;
                tokio::task::yield_now().await;
            }
            let accepted = tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(_) = tasks.join_next() => continue,
                accepted = acceptor.accept() => accepted,
            };
            let Some((stream, peer, slot)) = accepted else { continue };
            in_a_row += 1;
            let server = current();
            let stopping = stopping.clone();
            let open = server.metrics.connection();
            tasks.spawn(async move {
                server.accepted(stream, peer, stopping).await;
                drop((slot, open));
            });
        }
        drop(acceptor);
        let _ = stop.send(true);
        let drained = async { while tasks.join_next().await.is_some() {} };
        if timeout(current().config.drain_timeout, drained).await.is_err() {
            tracing::warn!(reason = "drain_timeout", "drain_timeout has passed: open responses are aborted");
        }
    }

    /// Serves one accepted connection, if its peer may have one more.
    async fn accepted(self, mut stream: Stream, peer: IpAddr, stopping: Stopping) {
        let Some(peer) = self.stated_peer(&mut stream, peer).await else { return };
        let is_proxy = self.clients.is_proxy(peer);
        let Some(connection) = self.connections.admit(peer.to_canonical(), is_proxy) else { return };
        let serving = self.serving(stream, connection.clone(), stopping);
        let serving = connection.in_turn(serving);
        if connection.is_reserved {
            let _ = timeout(RESERVED_TIME, serving).await;
        } else {
            serving.await;
        }
    }

    /// Returns the peer of a connection. With the PROXY protocol, that is the one which a trusted
    /// proxy states. Returns `None` if the proxy does not begin as the protocol demands.
    async fn stated_peer(&self, stream: &mut Stream, peer: IpAddr) -> Option<IpAddr> {
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

    /// Returns the future that serves one connection. It is boxed by protocol, so an idle
    /// connection does not take memory for all of them.
    fn serving(
        self,
        stream: Stream,
        connection: Arc<Connection>,
        stopping: Stopping,
    ) -> BoxFuture<'static, ()> {
        let stream = self.with_timeouts(stream, &connection);
        match self.tls.clone() {
            None => self.http1(stream, connection, stopping),
            Some(tls) => Box::pin(self.secured(stream, tls, connection, stopping)),
        }
    }

    async fn secured(
        self,
        stream: StallTimeout<Stream>,
        tls: Tls,
        connection: Arc<Connection>,
        stopping: Stopping,
    ) {
        let accepted = tokio::select! {
            accepted = timeout(self.config.header_timeout, tls.acceptor().accept(stream)) => accepted,
            () = connection.evicted() => return,
        };
        match accepted {
            Err(_) => tracing::debug!(reason = "tls_timeout", "no TLS handshake in time"),
            Ok(Err(error)) => tracing::debug!(reason = "tls", "{error}"),
            Ok(Ok(stream)) => {
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                // The time limit of the first byte starts again after the handshake.
                let stream = self.with_timeouts(stream, &connection);
                if is_http2 {
                    self.http2(stream, connection, stopping).await;
                } else {
                    self.http1(stream, connection, stopping).await;
                }
            }
        }
    }

    fn with_timeouts<T>(&self, stream: T, connection: &Connection) -> StallTimeout<T> {
        let room = Some(connection.room.clone());
        StallTimeout::new(stream, self.config.header_timeout, self.pace(), room)
    }

    fn pace(&self) -> PaceLimits {
        PaceLimits { stall_timeout: self.config.stall_timeout, min_rate: self.config.min_rate }
    }

    /// Returns the future that serves a connection of HTTP/1.1. What it needs only to begin is not
    /// part of it.
    fn http1(
        self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        connection: Arc<Connection>,
        stopping: Stopping,
    ) -> BoxFuture<'static, ()> {
        let Self { handler, config, metrics, .. } = self;
        let mut builder = http1::Builder::new();
        builder
            .timer(ConnectionTimer::default())
            .header_read_timeout(config.header_timeout)
            .max_header_size(config.max_header_bytes.max(8192) as usize);
        let on = connection.clone();
        let service = service_fn(move |request| {
            let response = handler(request, on.clone());
            // Boxed so that an idle connection takes no memory for a request.
            Box::pin(async move {
                let (response, charge) = response.await;
                Ok::<_, Infallible>(response.map(|body| GatheringBody::new(body, charge)))
            })
        });
        let stream = ExplainedRefusals::new(stream, metrics.clone(), connection.peer);
        let serving = Box::pin(builder.serve_connection(TokioIo::new(stream), service));
        Box::pin(async move {
            // hyper itself ends idle connections of HTTP/1.1.
            let ended = serve(serving, &connection, stopping, pending()).await;
            if ended.as_ref().is_err_and(hyper::Error::is_parse_version_h2) {
                // hyper sends no response, because the client would not understand one of HTTP/1.1.
                log_refusal(&metrics, connection.peer, None, "http2_without_tls", 0);
            }
            log_end(ended);
        })
    }

    fn http2(
        self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        connection: Arc<Connection>,
        stopping: Stopping,
    ) -> BoxFuture<'static, ()> {
        connection.room.set_has_streams();
        let mut builder = http2::Builder::new(StreamExecutor { pace: self.pace(), on: connection.clone() });
        let Self { handler, config, .. } = self;
        builder
            .timer(TokioTimer::new())
            .keep_alive_interval(config.header_timeout)
            .keep_alive_timeout(config.header_timeout)
            .max_header_list_size(config.max_header_bytes.max(8192))
            .initial_stream_window_size(UNREAD)
            .initial_connection_window_size(UNREAD)
            .max_concurrent_streams(config.max_streams);
        let on = connection.clone();
        let service = service_fn(move |request| {
            let response = handler(request, on.clone());
            async move {
                let (response, charge) = response.await;
                set_charge_of_stream(&charge);
                Ok::<_, Infallible>(response.map(|body| GatheringBody::of_stream(body, charge)))
            }
        });
        let serving = Box::pin(builder.serve_connection(TokioIo::new(stream), service));
        Box::pin(async move {
            let idle = connection.idle(config.header_timeout);
            log_end(serve(serving, &connection, stopping, idle).await);
        })
    }
}

/// Drives a connection to its end. It closes once its open responses have ended if the server
/// stops, if its place is needed, or when `idle` resolves.
async fn serve<C: GracefulConnection<Error = hyper::Error>>(
    mut serving: Pin<Box<C>>,
    connection: &Connection,
    mut stopping: Stopping,
    idle: impl Future<Output = ()>,
) -> hyper::Result<()> {
    tokio::select! {
        biased;
        ended = serving.as_mut() => return ended,
        _ = stopping.wait_for(|is_stopping| *is_stopping) => {}
        () = connection.evicted() => {}
        () = idle => {}
    }
    serving.as_mut().graceful_shutdown();
    tokio::select! {
        biased;
        ended = serving => ended,
        // A client of HTTP/2 may not close the connection.
        () = connection.idle(CLOSING_TIME) => Ok(()),
    }
}

/// Logs the error of a connection at debug level, because clients often leave early.
fn log_end(result: hyper::Result<()>) {
    if let Err(error) = result {
        tracing::debug!(reason = "connection", "{error}");
    }
}

#[cfg(test)]
mod tests {
    use super::ACCEPTS_IN_A_ROW;
    use crate::{Origin, OriginConfig, listen};
    use latemux_storage::Memory;
    use std::{
        future::pending,
        net::TcpStream,
        sync::{Arc, atomic::Ordering::Relaxed},
    };

    /// All connections of a burst were accepted before any other task had its turn.
    #[tokio::test]
    async fn a_burst_of_connections_kept_all_others_waiting() {
        const BURST: u64 = 96;
        let origin = Origin::new(Arc::new(Memory::new()), OriginConfig::default());
        let metrics = origin.app().metrics.clone();
        let listener = listen(([127, 0, 0, 1], 0).into()).unwrap();
        let address = listener.local_addr().unwrap();
        // The kernel opens them, even while nobody accepts them.
        let burst: Vec<_> = (0..BURST).map(|_| TcpStream::connect(address).unwrap()).collect();
        let serving = tokio::spawn(async move { origin.serve(listener, None, pending()).await });
        let mut open = 0;
        let mut most = 0;
        while open < BURST {
            tokio::task::yield_now().await;
            let now = metrics.connections.load(Relaxed);
            most = most.max(now - open);
            open = now;
        }
        assert!(most <= 2 * u64::from(ACCEPTS_IN_A_ROW), "{most} in one turn");
        serving.abort();
        drop(burst);
    }
}
