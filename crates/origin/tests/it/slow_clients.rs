//! Clients that take bytes slowly or not at all. What they keep in memory is bounded, they hold no
//! request to storage, and a normal client beside them is served.

use crate::{
    client::{FullResponse, fetch, get, get_with},
    connections::{secure, tls},
    crowd::PiecewiseStorage,
    early, log,
    server::{Server, config, key},
};
use bytes::Bytes;
use http::{Request, Response, Version};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use latemux_cache::{Cache, Config};
use latemux_origin::{Origin, OriginConfig, Resources};
use latemux_storage::{Memory, Options, StorageClient};
use latemux_testmedia::recipe;
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
};

/// Address of clients that do harm, and of normal ones.
const SLOW: [u8; 4] = [127, 0, 0, 3];
const NORMAL: [u8; 4] = [127, 0, 0, 2];

/// Returns the URLs of the large title: each segment alone, and all joined.
async fn large(server: &Server) -> (Vec<String>, String) {
    let list = fetch(server.address, "/large.mp4/.m3u8").await;
    let list = String::from_utf8(list.to_vec()).unwrap();
    let media = list.lines().find(|line| !line.starts_with('#')).unwrap();
    let joined = format!("/large.mp4/{media}?hls_minimum_fragment_length=12");
    let segments = |text: Bytes| -> Vec<String> {
        let text = String::from_utf8(text.to_vec()).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        lines.map(|line| format!("/large.mp4/{line}")).collect()
    };
    let each = segments(fetch(server.address, &format!("/large.mp4/{media}")).await);
    let [whole] = segments(fetch(server.address, &joined).await).try_into().unwrap();
    (each, whole)
}

fn library() -> Arc<Memory> {
    let memory = Memory::new();
    let file = std::fs::read(recipe::avc("slow-clients", "640x360", "-crf 2")).unwrap();
    memory.put(key("large.mp4"), file);
    Arc::new(memory)
}

/// Connects from an address of this machine. The client's kernel takes only a little.
async fn connect_from(address: [u8; 4], server: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind((address, 0).into()).unwrap();
    socket.connect(server).await.unwrap()
}

/// Requests a URL and waits for the beginning of the response, but reads nothing of it.
async fn request_from(address: [u8; 4], server: SocketAddr, url: &str) -> TcpStream {
    let mut stream = connect_from(address, server).await;
    let request = format!("GET {url} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    stream.readable().await.unwrap();
    stream
}

/// Reads a response to its end, and returns its status and body.
async fn finish(mut stream: TcpStream) -> (u16, Bytes) {
    let mut received = Vec::new();
    stream.read_to_end(&mut received).await.unwrap();
    let end = received.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
    let status = std::str::from_utf8(&received[9..12]).unwrap().parse().unwrap();
    (status, Bytes::from(received).slice(end..))
}

/// Returns a metric without labels.
async fn metric(server: &Server, name: &str) -> u64 {
    let text = fetch(server.admin, "/metrics").await;
    let text = String::from_utf8(text.to_vec()).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}{{}} "))).unwrap();
    line.parse().unwrap()
}

async fn until_metric(server: &Server, name: &str, is_reached: impl Fn(u64) -> bool) {
    while !is_reached(metric(server, name).await) {
        tokio::task::yield_now().await;
    }
}

const USED: &str = "latemux_responses_memory_bytes";

fn with_memory(responses: u64) -> OriginConfig {
    let mut config = config();
    config.memory.responses = responses;
    config
}

/// Streams whose window is one byte made the server hold a frame and a plan for each: 5 GB.
#[tokio::test]
async fn http2_streams_that_take_nothing_hold_no_more_than_the_memory_for_responses() {
    let (certificate, trust) = tls();
    let limit = 4 << 20;
    let server = Server::with(library(), with_memory(limit), Some(certificate)).await;
    let plain = Server::start(library()).await;
    let (_, whole) = large(&plain).await;
    let expected = fetch(plain.address, &whole).await;
    let request = || {
        let uri = format!("https://localhost{whole}");
        Request::get(uri).body(Empty::<Bytes>::new()).unwrap()
    };
    let mut held: Vec<Response<Incoming>> = Vec::new();
    let mut connections = Vec::new();
    for _ in 0..3 {
        let stream = secure(connect_from(SLOW, server.address).await, &trust, b"h2").await;
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let (h2, connection) =
            builder.initial_stream_window_size(1).handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let responses = (0..40).map(|_| h2.clone().send_request(request()));
        held.extend(futures_util::future::join_all(responses).await.into_iter().map(Result::unwrap));
        connections.push(h2);
        assert!(metric(&server, USED).await <= limit);
    }
    let served = held.iter().filter(|response| response.status() == 200).count();
    assert!((10..100).contains(&served), "{served}");
    for response in held.drain(served.min(held.len())..).filter(|response| response.status() != 200) {
        assert_eq!(
            (response.status().as_u16(), &response.headers()["retry-after"]),
            (503, &"1".parse().unwrap())
        );
    }
    // A client of another address gets the whole.
    let stream = secure(connect_from(NORMAL, server.address).await, &trust, b"h2").await;
    let (mut h2, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let response = h2.send_request(request()).await.unwrap();
    assert_eq!((response.status().as_u16(), response.version()), (200, Version::HTTP_2));
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), expected);
    assert!(metric(&server, USED).await <= limit);
    drop((held, connections, h2));
    until_metric(&server, USED, |used| used == 0).await;
}

/// Without a range cache, each reader held a request to storage until it had taken all bytes.
#[tokio::test]
async fn readers_that_stop_hold_no_request_to_storage() {
    let options = Options { max_in_flight: 2, ..Options::default() };
    let storage = StorageClient::new(Arc::new(PiecewiseStorage(library())), &options);
    let resources = Resources { source_options: options, ..Resources::default() };
    let server = Server::of(Origin::with_resources(Arc::new(storage), resources, config()), None).await;
    let (_, whole) = large(&server).await;
    let expected = fetch(server.address, &whole).await;
    let mut slow = Vec::new();
    for _ in 0..4 {
        slow.push(request_from(SLOW, server.address, &whole).await);
    }
    let (status, body) = finish(request_from(NORMAL, server.address, &whole).await).await;
    assert_eq!(status, 200);
    assert_eq!(body, expected);
    assert!(metric(&server, "latemux_responses_paused_total").await > 0);
    // The readers go on where they stopped.
    for reader in slow {
        let (status, body) = finish(reader).await;
        assert_eq!(status, 200);
        assert!(body == expected, "{} bytes instead of {}", body.len(), expected.len());
    }
    until_metric(&server, USED, |used| used == 0).await;
}

/// Each reader kept the units that it was reading in memory, beyond the budget of the cache.
#[tokio::test]
async fn readers_that_stop_keep_no_units_of_the_range_cache() {
    let budget = 4 << 20;
    let cache = Cache::open(Config { memory: budget, ..Config::default() }).unwrap();
    let limit = 2 << 20;
    let resources = Resources { cache: Some(cache.clone()), ..Resources::default() };
    let origin = Origin::with_resources(library(), resources, with_memory(limit));
    let server = Server::of(origin, None).await;
    let (each, whole) = large(&server).await;
    let expected = fetch(server.address, &whole).await;
    let mut slow = Vec::new();
    for number in 0..24 {
        let url = if number % 4 == 0 { &whole } else { &each[number % each.len()] };
        slow.push((url, request_from(SLOW, server.address, url).await));
    }
    let (status, body) = finish(request_from(NORMAL, server.address, &whole).await).await;
    assert!((status, &body) == (200, &expected));
    assert!(metric(&server, USED).await <= limit);
    let figures = cache.figures();
    assert!(figures.memory_bytes <= budget + limit, "{figures:?}");
    let plain = Server::start(library()).await;
    let mut complete = 0;
    for (url, reader) in slow {
        let (status, body) = finish(reader).await;
        if status == 200 {
            assert!(body == fetch(plain.address, url).await, "{url}");
            complete += 1;
        } else {
            assert_eq!(status, 503);
        }
    }
    assert!(complete >= 8, "{complete}");
    until_metric(&server, USED, |used| used == 0).await;
    early::until(|| cache.figures().reserved_bytes == 0).await;
    assert!(cache.figures().memory_bytes <= budget);
}

/// A reader that takes a byte now and then was never disconnected.
#[tokio::test]
async fn a_client_that_takes_too_few_bytes_is_disconnected_and_logged() {
    log::keep();
    let mut config = config();
    config.http.stall_timeout = Duration::from_millis(200);
    config.http.min_rate = 1 << 40;
    let server = Server::with(library(), config, None).await;
    let (_, whole) = large(&server).await;
    let url = format!("{whole}&too-slow");
    let reader = request_from(SLOW, server.address, &url).await;
    let line = log::access(&url).await;
    assert!(line.contains("reason=\"client_too_slow\""), "{line}");
    let text = fetch(server.admin, "/metrics").await;
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(text.contains("latemux_broken_off_total{reason=\"client_too_slow\"} 1"), "{text}");
    drop(reader);
}

#[tokio::test]
async fn requests_of_one_address_are_limited() {
    let mut config = config();
    config.http.max_requests_per_address = 2;
    let server = Server::with(library(), config, None).await;
    let (_, whole) = large(&server).await;
    let held = [(); 2].map(|()| request_from([127, 0, 0, 1], server.address, &whole));
    let held = futures_util::future::join_all(held).await;
    let refused: FullResponse = get(server.address, "/large.mp4/.mpd").await;
    assert_eq!((refused.status.as_u16(), refused.reason().as_str()), (429, "too_many_requests"));
    assert_eq!(refused.header("retry-after"), "1");
    assert_eq!(get(server.address, "/healthz").await.status, 200, "health checks have no limit");
    let (status, _) = finish(request_from(NORMAL, server.address, "/large.mp4/.mpd").await).await;
    assert_eq!(status, 200);
    drop(held);
    while get(server.address, "/large.mp4/.mpd").await.status != 200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn joined_segments_have_a_longest_length() {
    let mut config = config();
    config.urls.max_joined = Duration::from_secs(10);
    let server = Server::with(library(), config, None).await;
    let get = |seconds| {
        let url = format!("/large.mp4/.m3u8?hls_minimum_fragment_length={seconds}");
        async move { get_with(server.address, &url, &[]).await }
    };
    assert_eq!(get("10").await.status, 200);
    let refused = get("10.1").await;
    assert_eq!((refused.status.as_u16(), refused.reason().as_str()), (400, "parameter_malformed"));
}
