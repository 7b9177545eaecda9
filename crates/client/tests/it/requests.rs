//! Requests to a server in memory: what is sent, what is measured, and each way to fail.

use futures_util::future::BoxFuture;
use latemux_client::{
    failure::{Failure, Reason},
    http::{
        AllowedHosts, Client, ClientOptions, Connect, Connection, FailedFetch, Fetched, Network, Server,
        Stream, Trust,
    },
    presentation::{ByteRange, Resource},
};
use latemux_testmedia::memory_server::{ADDRESS, MemoryServer, Reply};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
    time::Instant,
};
use url::Url;

fn resource(path: &str, range: Option<(u64, u64)>) -> Resource {
    let url = Url::parse(ADDRESS).unwrap().join(path).unwrap();
    Resource { url, range: range.map(|(first, last)| ByteRange { first, last }) }
}

/// Fetches a resource over a new connection. Returns the body too.
async fn fetch(client: &Client, resource: &Resource) -> (Result<Fetched, FailedFetch>, Vec<u8>) {
    let mut body = Vec::new();
    let mut keep = |piece: &[u8]| {
        body.extend_from_slice(piece);
        Ok(())
    };
    let mut connection = Connection::default();
    let fetched = client.get(&mut connection, resource, Instant::now(), &mut keep).await;
    (fetched, body)
}

async fn reason(server: &MemoryServer, resource: &Resource) -> (Reason, u64) {
    let failed = fetch(&server.client(), resource).await.0.unwrap_err();
    (failed.failure.reason, failed.bytes)
}

fn redirect(status: u16, to: &str) -> Reply {
    Reply { headers: vec![("Location".into(), to.into())], ..Reply::status(status) }
}

#[tokio::test(start_paused = true)]
async fn times_are_measured_from_when_a_request_was_due() {
    let server = MemoryServer::new(|_| Reply { delay: Duration::from_secs(2), ..Reply::ok("body") });
    let due = Instant::now();
    tokio::time::advance(Duration::from_secs(3)).await;
    let mut connection = Connection::default();
    let fetched =
        server.client().get(&mut connection, &resource("a", None), due, &mut |_| Ok(())).await.unwrap();
    assert_eq!((fetched.bytes, fetched.url.path()), (4, "/a"));
    assert_eq!(fetched.first_byte.as_secs(), 5, "3 s late, and 2 s for the response");
    assert!(fetched.latency >= fetched.first_byte);
    assert_eq!(fetched.transfer.as_secs(), 2, "throughput excludes the delay of the generator");
}

#[tokio::test(start_paused = true)]
async fn a_connection_is_used_again_even_after_an_error() {
    let server = MemoryServer::new(|request| match request.path.as_str() {
        "/missing" => Reply::status(404),
        "/moved" => redirect(302, "/there"),
        _ => Reply::ok("body"),
    });
    let client = server.client();
    let mut connection = Connection::default();
    for path in ["a", "missing", "moved", "b"] {
        let _ = client.get(&mut connection, &resource(path, None), Instant::now(), &mut |_| Ok(())).await;
    }
    let paths: Vec<String> = server.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(paths, ["/a", "/missing", "/moved", "/there", "/b"]);
    assert_eq!(server.connections(), 1);

    // The long body of an error is not read just to keep the connection.
    let server = MemoryServer::new(|_| Reply { body: vec![0; 1 << 20], ..Reply::status(500) });
    let client = server.client();
    let mut connection = Connection::default();
    for _ in 0..2 {
        let failed = client
            .get(&mut connection, &resource("a", None), Instant::now(), &mut |_| Ok(()))
            .await
            .unwrap_err();
        assert_eq!((failed.failure.reason, failed.bytes), (Reason::Status(500), 0));
    }
    assert_eq!(server.connections(), 2);
}

#[tokio::test(start_paused = true)]
async fn redirects_are_followed_five_times() {
    let hops = |limit: u32| {
        MemoryServer::new(move |request| {
            let hop: u32 = request.path.trim_start_matches('/').parse().unwrap();
            if hop < limit { redirect(307, &format!("{}", hop + 1)) } else { Reply::ok("there") }
        })
    };
    let server = hops(5);
    let (fetched, body) = fetch(&server.client(), &resource("0", None)).await;
    assert_eq!((fetched.unwrap().url.path(), body), ("/5", b"there".to_vec()));
    assert_eq!(reason(&hops(6), &resource("0", None)).await.0, Reason::Redirects);

    for (target, expected) in [
        ("http://elsewhere.example/", Reason::HostNotAllowed),
        ("http://origin.example:81/", Reason::HostNotAllowed),
        ("http://[", Reason::Redirects),
    ] {
        let server = MemoryServer::new(move |_| redirect(301, target));
        assert_eq!(reason(&server, &resource("a", None)).await.0, expected, "{target}");
    }
    let server = MemoryServer::new(|_| Reply::status(308));
    assert_eq!(reason(&server, &resource("a", None)).await.0, Reason::Redirects, "no target");
}

#[tokio::test(start_paused = true)]
async fn responses_must_have_the_requested_range() {
    let partial = |range: &str, body: &'static str| {
        let headers = vec![("Content-Range".to_owned(), range.to_owned())];
        MemoryServer::new(move |_| Reply { headers: headers.clone(), status: 206, ..Reply::ok(body) })
    };
    let three = resource("a", Some((10, 12)));
    let server = partial("bytes 10-12/100", "abc");
    assert_eq!(fetch(&server.client(), &three).await.1, b"abc");
    assert_eq!(server.requests()[0].range, Some((10, 12)));
    for range in ["bytes 10-13/100", "bytes 11-12/*", "lines 10-12/100", "bytes */100", ""] {
        assert_eq!(reason(&partial(range, "abc"), &three).await, (Reason::WrongRange, 0), "{range}");
    }
    assert_eq!(reason(&partial("bytes 10-12/100", "ab"), &three).await, (Reason::WrongLength, 2));
    let whole = MemoryServer::new(|_| Reply::ok("abc"));
    assert_eq!(reason(&whole, &three).await.0, Reason::WrongRange, "a 200 for a range");
    let unasked = partial("bytes 0-2/100", "abc");
    assert_eq!(reason(&unasked, &resource("a", None)).await.0, Reason::WrongRange, "a 206 for all");
}

#[tokio::test(start_paused = true)]
async fn responses_that_end_early_or_late_fail() {
    let reply = |change: fn(&mut Reply)| {
        MemoryServer::new(move |_| {
            let mut reply = Reply::ok("0123456789");
            change(&mut reply);
            reply
        })
    };
    let a = resource("a", None);
    assert_eq!(reason(&reply(|reply| reply.cut = Some(0)), &a).await, (Reason::Closed, 0));
    let short = reply(|reply| {
        reply.promised = Some(11);
        reply.cut = Some(usize::MAX);
    });
    assert_eq!(reason(&short, &a).await, (Reason::ShortBody, 10));
    let start = Instant::now();
    let slow = reply(|reply| reply.delay = Duration::from_secs(31));
    assert_eq!(reason(&slow, &a).await, (Reason::Timeout, 0));
    assert_eq!(start.elapsed().as_secs(), 30);
    let endless = reply(|reply| reply.promised = Some(11));
    assert_eq!(reason(&endless, &a).await, (Reason::Timeout, 10), "bytes before the timeout count");
    let nobody = Resource { url: Url::parse("http://nobody.example/").unwrap(), range: None };
    assert_eq!(reason(&reply(|_| ()), &nobody).await.0, Reason::HostNotAllowed);
}

#[tokio::test(start_paused = true)]
async fn an_error_of_the_consumer_ends_the_request() {
    let server = MemoryServer::new(|_| Reply::ok("0123456789"));
    let mut refuse = |_: &[u8]| Err(Failure::new(Reason::TooLarge, "enough"));
    let failed = server
        .client()
        .get(&mut Connection::default(), &resource("a", None), Instant::now(), &mut refuse)
        .await
        .unwrap_err();
    assert_eq!((failed.failure.to_string(), failed.bytes), ("body_too_large: enough".to_owned(), 10));
}

/// A server that records the heads of requests, and sends an empty response to each.
#[derive(Clone, Default)]
struct HeadRecorder(Arc<Mutex<Vec<String>>>);

impl Connect for HeadRecorder {
    fn connect(&self, _: Server) -> BoxFuture<'static, Result<Box<dyn Stream>, Failure>> {
        let heads = self.0.clone();
        let (ours, mut theirs) = duplex(4096);
        tokio::spawn(async move {
            let mut head = Vec::new();
            while theirs.read_buf(&mut head).await.is_ok_and(|length| length > 0) {
                if head.ends_with(b"\r\n\r\n") {
                    heads.lock().unwrap().push(String::from_utf8(std::mem::take(&mut head)).unwrap());
                    let _ = theirs.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
                }
            }
        });
        Box::pin(async move { Ok(Box::new(ours) as Box<dyn Stream>) })
    }
}

#[tokio::test(start_paused = true)]
async fn requests_name_their_host_agent_and_range() {
    let recorder = HeadRecorder::default();
    let mut hosts = AllowedHosts::default();
    for host in ["origin.example", "[::1]"] {
        hosts.allow(host).unwrap();
    }
    let options = ClientOptions { hosts, agent: "test/1".to_owned(), ..ClientOptions::default() };
    let client = Client::new(Arc::new(recorder.clone()), options);
    for (url, range) in [
        ("http://origin.example/a%20b?c=d", None),
        ("http://origin.example:8080", Some(ByteRange { first: 5, last: 9 })),
        ("http://[::1]:8080/", None),
    ] {
        let resource = Resource { url: Url::parse(url).unwrap(), range };
        let _ = fetch(&client, &resource).await;
    }
    let heads = recorder.0.lock().unwrap().clone();
    let lines: Vec<Vec<String>> =
        heads.iter().map(|head| head.trim_end().lines().map(str::to_ascii_lowercase).collect()).collect();
    assert_eq!(lines[0], ["get /a%20b?c=d http/1.1", "host: origin.example", "user-agent: test/1"]);
    assert_eq!(
        lines[1],
        ["get / http/1.1", "host: origin.example:8080", "user-agent: test/1", "range: bytes=5-9"]
    );
    assert_eq!(lines[2][1], "host: [::1]:8080");
}

#[tokio::test]
async fn connections_over_tcp_report_refusals() {
    // No other test listens on this address, so nobody takes the port when it is free again.
    let listener = tokio::net::TcpListener::bind("127.0.0.9:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let network = Network::new(&Trust::System).unwrap();
    let server = |tls| Server { host: "127.0.0.9".to_owned(), port, tls };
    let (client, accepted) = tokio::join!(network.connect(server(false)), listener.accept());
    assert!(client.is_ok());
    drop(accepted.unwrap());
    // The peer closes the connection instead of a handshake.
    let handshake = network.connect(server(true));
    let (failed, ()) = tokio::join!(handshake, async { drop(listener.accept().await.unwrap()) });
    assert_eq!(failed.err().unwrap().reason, Reason::Tls);
    drop(listener);
    assert_eq!(network.connect(server(false)).await.err().unwrap().reason, Reason::Refused);
}

#[test]
fn certificates_to_trust_must_be_certificates() {
    assert_eq!(Trust::system_and(b"").unwrap_err(), "the file holds no certificate");
    assert!(Trust::system_and(b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n").is_err());
    let empty = b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let trust = Trust::system_and(empty).unwrap();
    assert!(Network::new(&trust).is_err(), "a certificate that cannot be read");
}
