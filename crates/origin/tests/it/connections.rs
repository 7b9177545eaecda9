//! Connections: limits, draining, TLS with HTTP/2 and HTTP/1.1.

use crate::{
    client::{fetch, get, get_with, open, send},
    crowd::PiecewiseStorage,
    early,
    server::{Faults, Server, library},
};
use bytes::Bytes;
use http::{Method, Request, Version};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use latemux_origin::{OriginConfig, Tls};
use latemux_storage::fault::{Fault, Gate};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName},
};
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

const SEGMENT: &str = "/harbour/dash/x-video=152000-51200.dash";

fn with_http(change: impl FnOnce(&mut latemux_origin::config::HttpConfig)) -> OriginConfig {
    let mut config = crate::server::config();
    change(&mut config.http);
    config
}

#[tokio::test]
async fn request_heads_have_a_size_limit() {
    let server = Server::start(library()).await;
    let large = "x".repeat(20_000);
    let response = get_with(server.address, "/healthz", &[("x-large", &large)]).await;
    assert_eq!(response.status, 431);
    let small = "x".repeat(4000);
    assert_eq!(get_with(server.address, "/healthz", &[("x-small", &small)]).await.status, 200);
}

#[tokio::test]
async fn a_connection_without_a_request_is_closed() {
    let config = with_http(|http| http.header_timeout = Duration::from_millis(50));
    let server = Server::with(library(), config, None).await;
    for begun in ["", "GET /healthz HTT", "GET /healthz HTTP/1.1\r\nhost: x\r\n"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(begun.as_bytes()).await.unwrap();
        let mut response = Vec::new();
        // The connection ends, with a response or without.
        let _ = stream.read_to_end(&mut response).await;
        assert!(!response.starts_with(b"HTTP/1.1 200"));
    }
}

/// A client requests a large body and reads nothing of it.
#[tokio::test]
async fn a_client_that_stops_reading_is_disconnected() {
    let config = with_http(|http| http.stall_timeout = Duration::from_millis(50));
    let server = Server::with(library(), config, None).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    // The kernel takes some megabytes from the server although the client reads nothing.
    let times = 400;
    let request = format!("GET {SEGMENT} HTTP/1.1\r\nhost: x\r\n\r\n");
    stream.write_all(request.repeat(times).as_bytes()).await.unwrap();
    while open_connections(&server).await > 0 {
        tokio::task::yield_now().await;
    }

    let whole = fetch(server.address, SEGMENT).await.len();
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received).await;
    assert!(received.starts_with(b"HTTP/1.1 200"));
    assert!(whole * times > 16 << 20, "{whole} bytes are too few to stall");
    assert!(received.len() < whole * times, "{} bytes came", received.len());
}

/// The connection stays alive for other streams, and the bytes read for this stream are freed.
#[tokio::test]
async fn a_stream_whose_client_takes_nothing_is_reset() {
    let (tls, trust) = tls();
    let config = with_http(|http| http.stall_timeout = Duration::from_millis(200));
    let live = Arc::new(AtomicUsize::new(0));
    let faults = Faults::default();
    let server = Server::with(
        early::watched(faults.over(Arc::new(PiecewiseStorage(library()))), &live),
        config,
        Some(tls),
    )
    .await;
    let request = || {
        let uri = format!("https://localhost{SEGMENT}");
        Request::builder().uri(uri).body(Empty::<Bytes>::new()).unwrap()
    };
    let stream = TokioIo::new(connect(server.address, &trust, b"h2").await);
    let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
    let (mut h2, connection) = builder.initial_stream_window_size(1000).handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let whole = h2.send_request(request()).await.unwrap().into_body().collect().await.unwrap().to_bytes();
    // One stream waits for storage, which is not the fault of its client.
    let gate = Gate::new();
    faults.set([Fault::WaitAfter(10_000, gate.clone())]);
    let mut sender = h2.clone();
    let waits = tokio::spawn(async move {
        sender.send_request(request()).await.unwrap().into_body().collect().await.unwrap().to_bytes()
    });
    gate.reached(1).await;
    // Two further clients read nothing, one after the other. The first stream waits longer than
    // the time limit for them.
    for _ in 0..2 {
        let left = h2.send_request(request()).await.unwrap();
        early::until(|| live.load(SeqCst) == 2).await;
        early::until(|| live.load(SeqCst) == 1).await;
        left.into_body().collect().await.expect_err("reset");
    }
    gate.open();
    assert_eq!(waits.await.unwrap(), whole);
    early::until(|| live.load(SeqCst) == 0).await;
}

/// Returns the number of open connections.
async fn open_connections(server: &Server) -> u64 {
    let text = fetch(server.admin, "/metrics").await;
    let text = String::from_utf8(text.to_vec()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("latemux_connections_open{} ")).unwrap();
    line.parse().unwrap()
}

#[tokio::test]
async fn open_connections_are_limited() {
    // No other test uses this limit, so the line in the log belongs to this one.
    let most = 7;
    let config = with_http(|http| http.max_connections = most);
    let faults = Faults::default();
    let server = Server::with(faults.over(library()), config, None).await;
    crate::log::keep();
    let whole = fetch(server.address, SEGMENT).await;
    // One connection has a request, the others have none.
    let gate = Gate::new();
    faults.set([Fault::WaitAfter(1000, gate.clone())]);
    let busy = open(server.address, Method::GET, SEGMENT, &[]).await.unwrap().into_body();
    let mut idle = Vec::new();
    for _ in 1..most {
        idle.push(TcpStream::connect(server.address).await.unwrap());
    }
    while open_connections(&server).await < 7 {
        tokio::task::yield_now().await;
    }
    // The next client takes the place of the one that has been idle the longest.
    assert_eq!(get(server.address, "/harbour/.mpd").await.status, 200);
    assert_eq!(idle[0].read(&mut [0]).await.unwrap(), 0);
    gate.open();
    assert_eq!(busy.collect().await.unwrap().to_bytes(), whole);
    let said = crate::log::lines(&["reason=\"connections\"", "most=7"]).len();
    assert_eq!(said, 1, "the warning is logged more than once in a minute");
}

/// Health checks waited behind the requests of all other clients.
#[tokio::test]
async fn health_checks_are_answered_while_all_connections_have_requests() {
    let config = with_http(|http| http.max_connections = 2);
    let faults = Faults::default();
    let server = Server::with(faults.over(library()), config, None).await;
    let whole = fetch(server.address, SEGMENT).await;
    let gate = Gate::new();
    faults.set([Fault::WaitAfter(1000, gate.clone()), Fault::WaitAfter(1000, gate.clone())]);
    let mut busy = Vec::new();
    for _ in 0..2 {
        busy.push(open(server.address, Method::GET, SEGMENT, &[]).await.unwrap().into_body());
    }
    for path in ["/healthz", "/healthz/live", "/healthz/ready"] {
        let response = get(server.address, path).await;
        assert_eq!((response.status.as_u16(), response.header("connection")), (200, "close"));
    }
    let refused = get(server.address, "/harbour/.mpd").await;
    assert_eq!((refused.status.as_u16(), refused.reason().as_str()), (503, "too_many_connections"));
    gate.open();
    for body in busy {
        assert_eq!(body.collect().await.unwrap().to_bytes(), whole);
    }
    assert_eq!(get(server.address, "/harbour/.mpd").await.status, 200);
}

/// A client that answers every PING kept its connection for ever.
#[tokio::test]
async fn an_http2_connection_without_requests_is_closed_whatever_frames_it_sends() {
    let (tls, trust) = tls();
    let config = with_http(|http| http.header_timeout = Duration::from_millis(300));
    let server = Server::with(library(), config, Some(tls)).await;
    let stream = TokioIo::new(connect(server.address, &trust, b"h2").await);
    let (mut h2, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .timer(hyper_util::rt::TokioTimer::new())
        .keep_alive_interval(Duration::from_millis(10))
        .keep_alive_while_idle(true)
        .handshake(stream)
        .await
        .unwrap();
    let ended = tokio::spawn(connection);
    let request = Request::get("https://localhost/healthz").body(Empty::<Bytes>::new()).unwrap();
    assert_eq!(h2.send_request(request).await.unwrap().status(), 200);
    tokio::time::timeout(Duration::from_secs(20), ended).await.expect("still open").unwrap().unwrap();
}

#[tokio::test]
async fn open_responses_end_before_the_server_does() {
    let faults = Faults::default();
    let mut server = Server::start(faults.over(library())).await;
    let whole = fetch(server.address, SEGMENT).await;
    let gate = Gate::new();
    faults.set([Fault::WaitAfter(1000, gate.clone())]);
    let body = open(server.address, Method::GET, SEGMENT, &[]).await.unwrap().into_body();
    server.shut_down();
    while TcpStream::connect(server.address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    gate.open();
    assert_eq!(body.collect().await.unwrap().to_bytes(), whole);
    server.stopped().await;
}

#[tokio::test]
async fn draining_has_a_time_limit() {
    let faults = Faults::default();
    let config = with_http(|http| http.drain_timeout = Duration::from_millis(50));
    let server = Server::with(faults.over(library()), config, None).await;
    fetch(server.address, SEGMENT).await;
    faults.set([Fault::StallAfter(1000)]);
    let body = open(server.address, Method::GET, SEGMENT, &[]).await.unwrap().into_body();
    server.stopped().await;
    body.collect().await.map(|_| ()).expect_err("broken off");
}

/// Returns a key and certificate for `localhost`, and the certificate for clients to trust.
pub(crate) fn tls() -> (Tls, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let tls = Tls::from_pem(made.cert.pem().as_bytes(), made.signing_key.serialize_pem().as_bytes()).unwrap();
    (tls, made.cert.der().clone())
}

async fn connect(server: SocketAddr, trust: &CertificateDer<'static>, alpn: &[u8]) -> TlsStream<TcpStream> {
    secure(TcpStream::connect(server).await.unwrap(), trust, alpn).await
}

/// Makes the TLS handshake on a connection.
pub(crate) async fn secure(
    stream: TcpStream,
    trust: &CertificateDer<'static>,
    alpn: &[u8],
) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots.add(trust.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![alpn.to_vec()];
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

#[tokio::test]
async fn tls_speaks_http2_and_http1_with_the_same_bytes() {
    let (tls, trust) = tls();
    let faults = Faults::default();
    let server = Server::with(faults.over(library()), crate::server::config(), Some(tls)).await;
    let plain = Server::start(library()).await;
    let expected = get(plain.address, SEGMENT).await;
    let request = |method: Method| {
        let uri = format!("https://localhost{SEGMENT}");
        Request::builder().method(method).uri(uri).body(Empty::<Bytes>::new()).unwrap()
    };

    let stream = TokioIo::new(connect(server.address, &trust, b"h2").await);
    let (mut h2, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    tokio::spawn(connection);
    let responses = (0..20).map(|_| h2.send_request(request(Method::GET)));
    for response in futures_util::future::join_all(responses).await {
        let response = response.unwrap();
        assert_eq!((response.status().as_u16(), response.version()), (200, Version::HTTP_2));
        assert_eq!(response.headers()["etag"], expected.header("etag"));
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), expected.body);
    }
    let head = h2.send_request(request(Method::HEAD)).await.unwrap();
    assert_eq!(head.headers()["content-length"], expected.header("content-length"));
    assert!(head.into_body().collect().await.unwrap().to_bytes().is_empty());
    // A stream whose body fails is reset. The connection and its other streams continue.
    faults.set([Fault::StallAfter(5000)]);
    let stalled = h2.send_request(request(Method::GET)).await.unwrap();
    faults.set([Fault::ShortAfter(30_000)]);
    let broken = async {
        let response = h2.send_request(request(Method::GET)).await?;
        response.into_body().collect().await.map(|_| ())
    };
    broken.await.expect_err("the response must be aborted");
    drop(stalled);
    assert_eq!(h2.send_request(request(Method::GET)).await.unwrap().status(), 200);

    let stream = TokioIo::new(connect(server.address, &trust, b"http/1.1").await);
    let (mut h1, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    let get =
        Request::builder().uri(SEGMENT).header("host", "localhost").body(Empty::<Bytes>::new()).unwrap();
    let response = h1.send_request(get).await.unwrap();
    assert_eq!(response.version(), Version::HTTP_11);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), expected.body);
}

#[tokio::test]
async fn a_tls_handshake_has_a_time_limit() {
    let (tls, _) = tls();
    let config = with_http(|http| http.header_timeout = Duration::from_millis(50));
    let server = Server::with(library(), config, Some(tls)).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    assert!(response.is_empty());
}

#[tokio::test]
async fn a_connection_serves_several_requests_in_turn() {
    let server = Server::start(library()).await;
    let stream = TokioIo::new(TcpStream::connect(server.address).await.unwrap());
    let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    for (path, status) in [(SEGMENT, 200), ("/nothing", 404), ("/harbour/.mpd", 200), (SEGMENT, 200)] {
        let request = Request::builder().uri(path).header("host", "x").body(Empty::<Bytes>::new()).unwrap();
        let response = sender.send_request(request).await.unwrap();
        assert_eq!(response.status(), status);
        response.into_body().collect().await.unwrap();
        sender.ready().await.unwrap();
    }
    let head = send(server.address, Method::HEAD, SEGMENT, &[]).await.unwrap();
    assert_eq!(head.status, 200);
}

/// With the usual queue of 1,024 connections, clients beyond it would try again only after a second
/// to a minute.
#[tokio::test]
async fn many_clients_connect_before_one_is_accepted() {
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn").unwrap();
    let crowd = most.trim().parse::<usize>().unwrap().min(2000);
    let listener = latemux_origin::listen(([127, 0, 0, 1], 0).into()).unwrap();
    let address = listener.local_addr().unwrap();
    let connect = || std::net::TcpStream::connect_timeout(&address, Duration::from_secs(20)).unwrap();
    let clients: Vec<_> = (0..crowd).map(|_| connect()).collect();
    for _ in &clients {
        tokio::time::timeout(Duration::from_secs(20), listener.accept()).await.unwrap().unwrap();
    }
}

/// Returns the status lines that arrive until the server closes the connection.
async fn statuses(stream: &mut TcpStream) -> Vec<String> {
    let mut received = Vec::new();
    let _ = stream.read_to_end(&mut received).await;
    let text = String::from_utf8_lossy(&received);
    text.split("HTTP/1.1 ").skip(1).map(|response| response[..3].to_owned()).collect()
}

const REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n";
const LAST_REQUEST: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";

#[tokio::test]
async fn pipelined_and_split_requests_all_get_responses() {
    let server = Server::start(library()).await;
    // Longer than the first read of the server, so that one request is cut there.
    let many = [&REQUEST.repeat(100), LAST_REQUEST].concat();
    for cut in [1, 20, REQUEST.len(), REQUEST.len() + 7, 1024, 1500, many.len()] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(&many[..cut]).await.unwrap();
        // Complete requests get their responses before the rest is sent.
        let whole = cut / REQUEST.len();
        let mut seen = String::new();
        while seen.matches("HTTP/1.1 200").count() < whole.min(100) {
            let mut piece = [0; 4096];
            let read = stream.read(&mut piece).await.unwrap();
            assert_ne!(read, 0, "{cut}");
            seen.push_str(std::str::from_utf8(&piece[..read]).unwrap());
        }
        stream.write_all(&many[cut..]).await.unwrap();
        let mut rest = String::new();
        stream.read_to_string(&mut rest).await.unwrap();
        seen.push_str(&rest);
        assert_eq!(seen.matches("HTTP/1.1 200").count(), 101, "{cut}");
    }
}

/// A request body that the server does not read may look like a request, and may arrive at any
/// time.
#[tokio::test]
async fn a_request_body_is_never_parsed_as_a_request() {
    let server = Server::start(library()).await;
    let head = format!("POST /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", LAST_REQUEST.len());
    for together in [true, false] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        let mut seen = vec![0; 12];
        if together {
            stream.write_all(&[head.as_bytes(), LAST_REQUEST].concat()).await.unwrap();
            stream.shutdown().await.unwrap();
            assert_eq!(statuses(&mut stream).await, ["405"]);
        } else {
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.read_exact(&mut seen).await.unwrap();
            assert_eq!(seen, b"HTTP/1.1 405");
            // The server may have closed the connection by now.
            let _ = stream.write_all(LAST_REQUEST).await;
            assert!(statuses(&mut stream).await.is_empty());
        }
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_after_the_header_timeout() {
    let config = with_http(|http| http.header_timeout = Duration::from_millis(50));
    let server = Server::with(library(), config, None).await;
    for begun in [&b""[..], b"GET /healthz HTT"] {
        let mut stream = TcpStream::connect(server.address).await.unwrap();
        stream.write_all(&[REQUEST, begun].concat()).await.unwrap();
        assert_eq!(statuses(&mut stream).await, ["200"]);
    }
}

#[tokio::test]
async fn idle_connections_do_not_delay_draining() {
    let config = with_http(|http| {
        http.drain_timeout = Duration::from_secs(3600);
        http.header_timeout = Duration::from_secs(3600);
    });
    let mut server = Server::with(library(), config, None).await;
    let mut stream = TcpStream::connect(server.address).await.unwrap();
    stream.write_all(REQUEST).await.unwrap();
    let mut seen = [0; 12];
    stream.read_exact(&mut seen).await.unwrap();
    server.shut_down();
    let ended = tokio::time::timeout(Duration::from_secs(20), statuses(&mut stream)).await;
    assert!(ended.expect("the server did not end the connection").is_empty());
    server.stopped().await;
}
