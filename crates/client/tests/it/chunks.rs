//! Resources fetched in chunks over several connections, from servers that behave and that do not.

use latemux_client::{
    failure::Reason,
    http::{ChunkTally, ChunkedFetch, FailedFetch, Streams},
    presentation::{ByteRange, Resource},
};
use latemux_streams::{ChunkTimeout, Settings};
use latemux_testmedia::memory_server::{ADDRESS, MemoryServer, Reply, Request};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::Instant;
use url::Url;

pub(crate) const CHUNK: u64 = 1000;

pub(crate) fn settings(streams: usize) -> Settings {
    Settings { streams, chunk: CHUNK, gap: Duration::ZERO, timeout: ChunkTimeout::Adaptive }
}

/// A file whose bytes all differ from those of its neighbours.
fn file(length: usize) -> Vec<u8> {
    (0..length).map(|place| u8::try_from(place % 251).unwrap()).collect()
}

/// Answers a byte range of a body.
pub(crate) fn ranged(body: &[u8], request: &Request) -> Reply {
    let Some((first, last)) = request.range else { return Reply::ok(body) };
    let field = |text: String| vec![("Content-Range".to_owned(), text)];
    let Some(part) = body.get(first..=last.min(body.len() - 1)) else {
        return Reply { headers: field(format!("bytes */{}", body.len())), ..Reply::status(416) };
    };
    let range = format!("bytes {first}-{}/{}", first + part.len() - 1, body.len());
    Reply { status: 206, headers: field(range), ..Reply::ok(part) }
}

/// Starts a server of a file whose answers `spoil` changes.
fn server(length: usize, spoil: impl Fn(&Request, &mut Reply) + Send + Sync + 'static) -> MemoryServer {
    let body = file(length);
    MemoryServer::new(move |request| {
        let mut reply = ranged(&body, request);
        spoil(request, &mut reply);
        reply
    })
}

type Outcome = (Result<ChunkedFetch, FailedFetch>, Vec<u8>, ChunkTally);

pub(crate) async fn fetch(server: &MemoryServer, streams: &mut Streams, end: Option<Duration>) -> Outcome {
    let resource = Resource { url: Url::parse(ADDRESS).unwrap().join("x").unwrap(), range: None };
    fetch_resource(server, streams, &resource, end).await
}

async fn fetch_resource(
    server: &MemoryServer,
    streams: &mut Streams,
    resource: &Resource,
    end: Option<Duration>,
) -> Outcome {
    let mut body = Vec::new();
    let mut keep = |piece: &[u8]| {
        body.extend_from_slice(piece);
        Ok(())
    };
    let now = Instant::now();
    let end = end.map(|end| now + end);
    let fetched = server.client().get_in_chunks(streams, resource, now, end, &mut keep).await;
    (fetched, body, streams.take_tally())
}

fn reason(outcome: &Outcome) -> Reason {
    outcome.0.as_ref().unwrap_err().failure.reason
}

#[tokio::test(start_paused = true)]
async fn chunks_over_several_connections_are_the_whole_file() {
    for (streams, length) in [(1, 1), (1, 5500), (3, 1000), (5, 1001), (5, 12_345), (2, 20_000)] {
        let server = server(length, |_, reply| reply.delay = Duration::from_millis(20));
        let mut streams = Streams::new(settings(streams));
        for round in 0..2 {
            let (fetched, body, tally) = fetch(&server, &mut streams, None).await;
            let fetched = fetched.unwrap();
            assert!(body == file(length), "{length} bytes");
            let count = (fetched.fetched.bytes, fetched.length, fetched.is_truncated());
            assert_eq!(count, (length as u64, length as u64, false));
            assert_eq!(tally.times.len(), length.div_ceil(1000));
            assert_eq!((tally.duplicated, tally.timeouts, tally.failed), (0, 0, 0));
            let beyond = tally.requests - tally.times.len() as u64;
            assert_eq!(tally.beyond_end, beyond);
            assert!(round == 0 || beyond == 0, "the length of the first one is known: {tally:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn connections_are_kept_and_used_side_by_side() {
    let server = server(20_000, |_, reply| reply.delay = Duration::from_millis(100));
    let mut streams = Streams::new(settings(5));
    let started = Instant::now();
    fetch(&server, &mut streams, None).await.0.unwrap();
    // 20 chunks over 5 connections, 100 ms each.
    assert_eq!((server.connections(), started.elapsed().as_millis() / 10), (5, 40));
    fetch(&server, &mut streams, None).await.0.unwrap();
    assert_eq!(server.connections(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_byte_range_of_a_file_is_fetched_in_chunks_too() {
    let server = server(9000, |_, _| {});
    let url = Url::parse(ADDRESS).unwrap();
    let resource = Resource { url, range: ByteRange::new(500, 3200) };
    let (fetched, body, tally) =
        fetch_resource(&server, &mut Streams::new(settings(3)), &resource, None).await;
    assert_eq!((fetched.unwrap().length, tally.requests), (3200, 4));
    assert!(body == file(9000)[500..3700]);
}

#[tokio::test(start_paused = true)]
async fn a_server_without_ranges_is_named_as_such() {
    let server = MemoryServer::new(|_| Reply::ok(file(5000)));
    let outcome = fetch(&server, &mut Streams::new(settings(3)), None).await;
    assert_eq!(reason(&outcome), Reason::WrongRange);
    let detail = &outcome.0.as_ref().unwrap_err().failure.detail;
    assert!(detail.contains("does not answer byte ranges, which chunks need"), "{detail}");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_closes_after_each_answer_is_counted() {
    let server = server(6000, |_, reply| reply.cut = Some(usize::MAX));
    let (fetched, body, tally) = fetch(&server, &mut Streams::new(settings(2)), None).await;
    fetched.unwrap();
    assert!(body == file(6000));
    assert_eq!((tally.opened, tally.reopened, server.connections()), (6, 4, 6));
}

#[tokio::test(start_paused = true)]
async fn connections_that_the_client_closes_are_not_the_servers_fault() {
    // The first connection dies once, and the second one has a request cancelled.
    let server = server(20_000, |request, reply| match request.connection {
        0 => reply.cut = Some(400),
        1 if request.range != Some((1000, 1999)) => reply.delay = Duration::from_secs(20),
        _ => reply.delay = Duration::from_millis(200),
    });
    let (fetched, _, tally) = fetch(&server, &mut Streams::new(settings(2)), None).await;
    fetched.unwrap();
    assert!(tally.failed == 1 && tally.timeouts > 0 && server.connections() == 4, "{tally:?}");
    assert_eq!(tally.reopened, 0, "{tally:?}");
}

#[tokio::test(start_paused = true)]
async fn one_slow_connection_does_not_hold_up_the_others() {
    let server = server(20_000, |request, reply| {
        // The first connection answers its second request after a minute.
        let is_slow = request.connection == 0 && request.range != Some((0, 999));
        reply.delay = Duration::from_millis(if is_slow { 60_000 } else { 50 });
    });
    let started = Instant::now();
    let mut streams = Streams::new(settings(3));
    let (fetched, body, tally) = fetch(&server, &mut streams, None).await;
    fetched.unwrap();
    assert!(body == file(20_000));
    // The shortest timeout is a second.
    assert_eq!((tally.timeouts, tally.most_timeouts, tally.times.len()), (1, 1, 20));
    assert!(started.elapsed() < Duration::from_millis(1600), "{:?}", started.elapsed());
    assert_eq!(server.connections(), 3, "the cancelled connection was not needed again");
}

#[tokio::test(start_paused = true)]
async fn bytes_that_arrive_in_vain_are_counted() {
    let server = server(2000, |request, reply| {
        // The first answer begins, and does not end.
        if request.connection == 0 {
            (reply.promised, reply.body) = (Some(1000), reply.body[..300].to_vec());
        }
    });
    let (fetched, body, tally) = fetch(&server, &mut Streams::new(settings(2)), None).await;
    fetched.unwrap();
    assert!(body == file(2000));
    assert_eq!((tally.duplicated, tally.timeouts, tally.requests), (300, 1, 3));
}

#[tokio::test(start_paused = true)]
async fn connections_that_die_are_replaced() {
    let deaths = Arc::new(AtomicU64::new(0));
    let counted = deaths.clone();
    let server = server(10_000, move |request, reply| {
        // Every third chunk dies once, within its body or before its head.
        let number = request.range.unwrap().0 / 1000;
        if number.is_multiple_of(3) && counted.fetch_or(1 << number, Relaxed) & 1 << number == 0 {
            reply.cut = Some(if number.is_multiple_of(2) { 400 } else { 0 });
        }
    });
    let (fetched, body, tally) = fetch(&server, &mut Streams::new(settings(2)), None).await;
    fetched.unwrap();
    assert!(body == file(10_000));
    assert_eq!(deaths.load(Relaxed).count_ones(), 4);
    assert!(tally.failed >= 2 && tally.given_up == 0, "{tally:?}");
}

#[tokio::test(start_paused = true)]
async fn streams_that_the_server_refuses_are_given_up() {
    // The server serves two connections and closes all others at once.
    let server = server(20_000, |request, reply| {
        reply.delay = Duration::from_millis(30);
        if request.connection > 1 {
            (reply.cut, reply.delay) = (Some(0), Duration::ZERO);
        }
    });
    let (fetched, body, tally) = fetch(&server, &mut Streams::new(settings(5)), None).await;
    fetched.unwrap();
    assert!(body == file(20_000));
    assert_eq!((tally.given_up, tally.failed), (3, 9));
    // If it closes all of them, that is the failure.
    let silent = MemoryServer::new(|_| Reply { cut: Some(0), ..Reply::ok("") });
    assert_eq!(reason(&fetch(&silent, &mut Streams::new(settings(5)), None).await), Reason::Closed);
}

/// Starts a server that refuses requests on all but the first `allowed` connections, at once, and
/// answers the others after 200 ms.
fn limited(allowed: u64, status: u16) -> MemoryServer {
    server(20_000, move |request, reply| {
        reply.delay = Duration::from_millis(200);
        if request.connection >= allowed {
            *reply = Reply::status(status);
        }
    })
}

#[tokio::test(start_paused = true)]
async fn streams_beyond_the_limit_of_the_server_are_given_up() {
    for status in [503, 429] {
        let server = limited(2, status);
        let mut streams = Streams::new(settings(5));
        let (fetched, body, tally) = fetch(&server, &mut streams, None).await;
        fetched.unwrap();
        assert!(body == file(20_000));
        assert_eq!((tally.streams, tally.given_up, tally.refused, tally.failed), (5, 3, 9, 0));
        assert_eq!(server.connections(), 5, "refused requests are made again on their connection");
        let (fetched, _, tally) = fetch(&server, &mut streams, None).await;
        fetched.unwrap();
        assert_eq!((tally.given_up, tally.refused), (3, 0), "they stay given up");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_all_streams_is_soon_left_alone() {
    let server = limited(0, 503);
    let outcome = fetch(&server, &mut Streams::new(settings(5)), None).await;
    assert_eq!(reason(&outcome), Reason::Status(503));
    // Until the last one has been refused, the others try again.
    assert!(outcome.2.requests < 10, "{:?}", outcome.2);
    // If it refuses all of them later, that is the failure, too.
    let later = self::server(20_000, |request, reply| {
        reply.delay = Duration::from_millis(200);
        if request.range.is_some_and(|(first, _)| first >= 10_000) {
            *reply = Reply::status(429);
        }
    });
    let outcome = fetch(&later, &mut Streams::new(settings(2)), None).await;
    assert_eq!((reason(&outcome), outcome.1.len()), (Reason::Status(429), 10_000));
}

#[tokio::test(start_paused = true)]
async fn a_server_may_send_the_whole_file_for_a_range_beyond_its_end() {
    let server = server(1500, |request, reply| {
        reply.delay = Duration::from_millis(100);
        if request.range.is_some_and(|(first, _)| first >= 1500) {
            *reply = Reply::ok(file(1500));
        }
    });
    let (fetched, body, tally) = fetch(&server, &mut Streams::new(settings(4)), None).await;
    fetched.unwrap();
    assert!(body == file(1500));
    assert_eq!((tally.requests, tally.beyond_end), (4, 2));
}

#[tokio::test(start_paused = true)]
async fn a_range_inside_the_file_that_gets_416_is_a_failure() {
    let known = server(10_000, |request, reply| {
        if request.range == Some((3000, 3999)) {
            *reply = Reply::status(416);
        }
    });
    // Here the 416 is the first response that states the length.
    let stated = server(10_000, |request, reply| {
        reply.delay = Duration::from_millis(50);
        if request.range == Some((1000, 1999)) {
            let headers = vec![("Content-Range".to_owned(), "bytes */10000".to_owned())];
            *reply = Reply { headers, ..Reply::status(416) };
        }
    });
    for (server, range) in [(known, "3000-3999"), (stated, "1000-1999")] {
        let outcome = fetch(&server, &mut Streams::new(settings(2)), None).await;
        assert_eq!((reason(&outcome), outcome.2.beyond_end), (Reason::Status(416), 0), "{range}");
        let detail = &outcome.0.as_ref().unwrap_err().failure.detail;
        let expected = format!("{ADDRESS}x: answered 416 to the range {range} inside the resource");
        assert_eq!(*detail, expected);
        let requests = server.requests().into_iter().filter_map(|request| request.range);
        let count = requests.filter(|(first, last)| format!("{first}-{last}") == range).count();
        assert_eq!(count, 1, "{range} is not requested again");
    }
    // The manifest states a range that ends after the file.
    let url = Url::parse(ADDRESS).unwrap();
    let resource = Resource { url, range: ByteRange::new(500, 3200) };
    let short = server(2000, |_, _| {});
    let outcome = fetch_resource(&short, &mut Streams::new(settings(3)), &resource, None).await;
    assert_eq!((reason(&outcome), outcome.2.beyond_end), (Reason::Status(416), 0));
    let detail = &outcome.0.as_ref().unwrap_err().failure.detail;
    assert!(detail.ends_with(": answered 416 to the range 2500-3499 inside the resource"), "{detail}");
}

#[tokio::test(start_paused = true)]
async fn chunks_of_two_versions_are_never_mixed() {
    let tagged = |tag: &str| vec![("ETag".to_owned(), format!("\"{tag}\""))];
    // A server that ignores If-Match, and changes the file after three requests.
    let count = AtomicU64::new(0);
    let ignoring = server(9000, move |_, reply| {
        let version = if count.fetch_add(1, Relaxed) < 3 { "a" } else { "b" };
        reply.headers.extend(tagged(version));
    });
    let outcome = fetch(&ignoring, &mut Streams::new(settings(2)), None).await;
    assert_eq!(reason(&outcome), Reason::Changed);
    assert!(outcome.1.len() <= 3000);
    // Further chunks are requested on condition that the file is the same.
    let conditional = server(9000, move |request, reply| {
        reply.headers.extend(tagged("a"));
        let number = request.range.unwrap().0 / 1000;
        assert_eq!(request.if_match.as_deref(), (number > 1).then_some("\"a\""));
        if number == 5 {
            *reply = Reply::status(412);
        }
    });
    assert_eq!(reason(&fetch(&conditional, &mut Streams::new(settings(2)), None).await), Reason::Changed);
}

#[tokio::test(start_paused = true)]
async fn other_statuses_are_failures_of_the_whole() {
    for status in [404, 403, 503] {
        let server = MemoryServer::new(move |_| Reply::status(status));
        assert_eq!(
            reason(&fetch(&server, &mut Streams::new(settings(3)), None).await),
            Reason::Status(status)
        );
    }
    let empty = MemoryServer::new(|_| Reply {
        headers: vec![("Content-Range".into(), "bytes */0".into())],
        ..Reply::status(416)
    });
    assert_eq!(reason(&fetch(&empty, &mut Streams::new(settings(3)), None).await), Reason::Status(416));
}

#[tokio::test(start_paused = true)]
async fn a_truncated_resource_has_the_bytes_that_arrived_in_order() {
    // The third chunk arrives to a third, later ones do.
    let server = server(10_000, |request, reply| {
        if request.range == Some((2000, 2999)) {
            (reply.promised, reply.body) = (Some(1000), reply.body[..333].to_vec());
        }
    });
    let mut streams = Streams::new(settings(3));
    let end = Duration::from_millis(900);
    let started = Instant::now();
    let (fetched, body, _) = fetch(&server, &mut streams, Some(end)).await;
    let fetched = fetched.unwrap();
    assert_eq!((fetched.length, fetched.fetched.bytes, fetched.is_truncated()), (10_000, 2333, true));
    assert!(body == file(10_000)[..2333] && started.elapsed() == end);
    // The next resource is not mixed with what was on its way.
    let (fetched, body, _) = fetch(&server, &mut streams, Some(Duration::from_millis(500))).await;
    assert_eq!((fetched.unwrap().fetched.bytes, body.len()), (2333, 2333));
    // Nothing at all is a failure.
    let slow = self::server(10_000, |_, reply| reply.delay = Duration::from_secs(2));
    let outcome = fetch(&slow, &mut Streams::new(settings(3)), Some(end)).await;
    assert_eq!(reason(&outcome), Reason::Timeout);
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_not_complete_in_time_fails() {
    let server = server(10_000, |request, reply| {
        reply.delay = Duration::from_secs(if request.range == Some((4000, 4999)) { 3600 } else { 0 });
    });
    let (failed, body, tally) = fetch(&server, &mut Streams::new(settings(2)), None).await;
    let failed = failed.unwrap_err();
    assert_eq!((failed.failure.reason, failed.bytes, body.len()), (Reason::Timeout, 4000, 4000));
    assert_eq!(failed.latency, Duration::from_secs(30));
    assert!(tally.timeouts > 5, "it was requested again and again: {tally:?}");
}

#[tokio::test(start_paused = true)]
async fn a_hostile_length_does_not_fill_the_memory() {
    // The file claims to have a terabyte, and its first chunk never ends.
    let server = MemoryServer::new(|request| {
        let (first, last) = request.range.unwrap();
        let range = format!("bytes {first}-{last}/1000000000000");
        let delay = Duration::from_secs(if first == 0 { 3600 } else { 0 });
        let headers = vec![("Content-Range".into(), range)];
        Reply { status: 206, headers, delay, ..Reply::ok(vec![0; last - first + 1]) }
    });
    let (failed, ..) = fetch(&server, &mut Streams::new(settings(2)), None).await;
    assert_eq!(failed.unwrap_err().failure.reason, Reason::Timeout);
    let highest = server.requests().iter().filter_map(|request| request.range).map(|(first, _)| first).max();
    assert!(highest < Some(16_000), "{highest:?}");
}
