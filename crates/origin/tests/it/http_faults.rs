//! A faulty HTTP server as storage, and the responses that clients of the origin get, with a cache
//! in memory and on disk. Once the server works again, every response is right.

use crate::{
    client::{get, send},
    log,
    rig::{FetchResult, Oracle, TIERS, Tiers},
    server::{Server, library, sample},
};
use bytes::Bytes;
use futures_util::{StreamExt, future::join_all, stream};
use http::Method;
use latemux_cache::Cache;
use latemux_origin::{Origin, OriginConfig, Resources};
use latemux_storage::{AccessKeys, Options, Registry, S3Overrides, open};
use latemux_testmedia::http_server::{Reply, Request, Server as Http, Then};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

const TITLE: &str = "lighthouse.mp4";
/// Time limit for storage that does not respond. Tests wait for it.
const BOUND: Duration = Duration::from_secs(1);

/// Fault of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ServerFault {
    Nothing,
    /// Responses have no ETag, only a date.
    NoEtag,
    /// Responses have neither ETag nor date.
    NoVersion,
    /// The response to a range request is 200 with the whole object.
    IgnoresRange,
    /// The body ends before its length, a little later with each request.
    Fewer,
    /// The response states fewer bytes than requested.
    FewerSaid,
    /// Length and body have more bytes than the range that the response states.
    More,
    /// Length and body have fewer bytes than the range that the response states.
    Less,
    /// A chunked body has more bytes than the range that the response states.
    MoreInChunks,
    /// The body is coded, and no longer the bytes of the object.
    Coded,
    /// Another response follows each response.
    AnswersTwice,
    /// The response states more bytes than requested.
    MoreSaid,
    /// The response has another range of the same length.
    Elsewhere,
    NoAnswer,
    /// The body stops in the middle, and the connection stays open.
    Stalls,
    /// The connection is reset in the middle of every body.
    Resets,
    /// The connection is reset before the response.
    ResetsAtOnce,
    /// The status is 503 with a `Retry-After` longer than any wait.
    Throttles,
    /// The status is 503 with `Retry-After: 0` for every second request of a range, beginning with
    /// the first.
    ThrottlesBriefly,
    /// All kinds of faults in turn, with correct responses in between.
    Flaps,
    /// The status is 500.
    Fails,
    /// The status is 404, as for a removed object.
    Gone,
    /// The status is 403.
    Denies,
}

struct Site {
    objects: BTreeMap<String, Bytes>,
    wrong: ServerFault,
    requests: usize,
    /// Number of requests for each range.
    ranges: BTreeMap<String, usize>,
}

type Shared = Arc<Mutex<Site>>;

/// A response that no request asked for.
const STRAY: &[u8] = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";

fn respond(site: &Shared, request: &Request) -> Reply {
    let mut site = site.lock().unwrap();
    site.requests += 1;
    let n = site.requests;
    let name = request.target.trim_start_matches('/');
    let name = name.strip_prefix("bucket/").unwrap_or(name);
    let Some(content) = site.objects.get(name).cloned() else {
        return Reply::new(404, &[], b"");
    };
    let wrong = match site.wrong {
        ServerFault::Flaps => match n % 10 {
            1 => ServerFault::ResetsAtOnce,
            2 => ServerFault::Resets,
            3 => ServerFault::Fails,
            4 => ServerFault::FewerSaid,
            5 => ServerFault::Less,
            6 => ServerFault::Coded,
            7 => ServerFault::AnswersTwice,
            _ => ServerFault::Nothing,
        },
        wrong => wrong,
    };
    let version: &[(&str, &str)] = match wrong {
        ServerFault::NoEtag => &[("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")],
        ServerFault::NoVersion => &[],
        _ => &[("ETag", "\"one\"")],
    };
    let Some(range) = request.header("range").and_then(|range| range.strip_prefix("bytes=")) else {
        return Reply::new(200, version, &content);
    };
    let count = site.ranges.entry(format!("{} {range}", request.target)).or_default();
    let again = *count;
    *count += 1;
    let (first, last) = range.split_once('-').unwrap();
    let first: usize = first.parse().unwrap();
    let last = last.parse().unwrap_or(usize::MAX).min(content.len() - 1);
    let part = |first: usize, last: usize| {
        (format!("bytes {first}-{last}/{}", content.len()), &content[first..=last])
    };
    let with = |range: &str| -> Vec<(String, String)> {
        let owned = version.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        owned.chain([("Content-Range".to_owned(), range.to_owned())]).collect()
    };
    let (said, bytes) = part(first, last);
    let headers = with(&said);
    let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
    let half = bytes.len() / 2;
    match wrong {
        ServerFault::Nothing | ServerFault::NoEtag | ServerFault::NoVersion | ServerFault::Flaps => {
            Reply::new(206, &headers, bytes)
        }
        ServerFault::IgnoresRange => Reply::new(200, version, &content),
        ServerFault::Fewer => Reply::cut(206, &headers, bytes, half, Then::Close),
        ServerFault::FewerSaid | ServerFault::MoreSaid | ServerFault::Elsewhere => {
            let (first, last) = match wrong {
                ServerFault::FewerSaid => (first, last - (last - first) / 2 - 1),
                ServerFault::MoreSaid => (first.saturating_sub(7), last),
                _ => (first.saturating_sub(7), last.saturating_sub(7)),
            };
            let (said, bytes) = part(first, last.max(first));
            let headers = with(&said);
            let headers: Vec<_> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
            Reply::new(206, &headers, bytes)
        }
        ServerFault::More => Reply::new(206, &headers, &[bytes, &[0xee; 1000]].concat()),
        ServerFault::Less => Reply::new(206, &headers, &bytes[..half]),
        ServerFault::MoreInChunks => {
            let long = [bytes, &[0xee; 1000]].concat();
            let body = [format!("{:x}\r\n", long.len()).as_bytes(), &long, b"\r\n0\r\n\r\n"].concat();
            let headers = [&*headers, &[("Transfer-Encoding", "chunked")]].concat();
            Reply::raw(206, &headers, &body, Then::NextRequest)
        }
        ServerFault::Coded => Reply::new(206, &[&*headers, &[("Content-Encoding", "gzip")]].concat(), bytes),
        ServerFault::AnswersTwice => Reply::new(206, &headers, bytes).followed_by(STRAY),
        ServerFault::NoAnswer => Reply::nothing(Then::Hang),
        ServerFault::Stalls => Reply::cut(206, &headers, bytes, half, Then::Hang),
        ServerFault::Resets => Reply::cut(206, &headers, bytes, half, Then::Reset),
        ServerFault::ResetsAtOnce => Reply::nothing(Then::Reset),
        ServerFault::Throttles => Reply::new(503, &[("Retry-After", "60")], b""),
        ServerFault::ThrottlesBriefly if again.is_multiple_of(2) => {
            Reply::new(503, &[("Retry-After", "0")], b"")
        }
        ServerFault::ThrottlesBriefly => Reply::new(206, &headers, bytes),
        ServerFault::Fails => Reply::new(500, &[], b""),
        ServerFault::Gone => Reply::new(404, &[], b""),
        ServerFault::Denies => Reply::new(403, &[], b""),
    }
}

/// An origin over a faulty server.
struct World {
    site: Shared,
    cache: Cache,
    server: Server,
    registry: Registry,
    _http: Http,
    _dir: tempfile::TempDir,
}

/// Protocol between the origin and the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Http,
    S3,
}

impl World {
    async fn new(tiers: Tiers, wrong: ServerFault) -> Self {
        Self::timed(Protocol::Http, tiers, wrong, wrong).await
    }

    /// Starts with a fault, and with the time limits that the fault `later` needs.
    async fn timed(protocol: Protocol, tiers: Tiers, wrong: ServerFault, later: ServerFault) -> Self {
        let objects = BTreeMap::from([(TITLE.to_owned(), sample(TITLE))]);
        let site: Shared =
            Arc::new(Mutex::new(Site { objects, wrong, requests: 0, ranges: BTreeMap::new() }));
        let shared = site.clone();
        let http = Http::start(move |_, request| respond(&shared, request)).await;
        let slow = matches!(later, ServerFault::NoAnswer | ServerFault::Stalls);
        let bound = if slow { BOUND } else { Duration::from_secs(30) };
        let options = Options {
            first_byte_timeout: bound,
            stall_timeout: bound,
            // Other tests cover the shared budget. Here it is never used up.
            retry_burst: 1_000_000,
            s3_endpoint: Some(http.address.clone()),
            s3: S3Overrides {
                keys: Some(AccessKeys { id: "AKID".into(), secret: "hidden".into() }),
                ..S3Overrides::default()
            },
            ..Options::default()
        };
        let registry = options.registry.clone();
        let address = match protocol {
            Protocol::Http => format!("{}/", http.address),
            Protocol::S3 => "s3://bucket".to_owned(),
        };
        let storage = open(&address, &options).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(tiers.config(dir.path())).unwrap();
        let resources =
            Resources { cache: Some(cache.clone()), source_options: options, ..Resources::default() };
        let config =
            OriginConfig { recheck_after: Duration::ZERO, debug_headers: true, ..crate::server::config() };
        let server = Server::of(Origin::with_resources(storage, resources, config), None).await;
        Self { site, cache, server, registry, _http: http, _dir: dir }
    }

    fn set(&self, wrong: ServerFault) {
        self.site.lock().unwrap().wrong = wrong;
    }

    async fn get(&self, oracle: &Oracle, url: &str) -> FetchResult {
        // Far longer than all time limits together, so that a slow response is not taken for a
        // hang.
        let response = send(self.server.address, Method::GET, url, &[]);
        let response = tokio::time::timeout(Duration::from_secs(60), response)
            .await
            .expect("no response within a minute");
        let Ok(response) = response else { return FetchResult::Aborted };
        if response.status == 200 {
            return FetchResult::Right(oracle.version(url, &response.body));
        }
        FetchResult::Refused(response.status.as_u16(), response.reason())
    }

    async fn get_all(&self, oracle: &Oracle, urls: &[String]) -> Vec<FetchResult> {
        join_all(urls.iter().map(|url| self.get(oracle, url))).await
    }

    /// Checks that every response is right once the server works, and that no request is left in
    /// flight.
    async fn check_recovered(&self, oracle: &Oracle) {
        self.set(ServerFault::Nothing);
        let manifest = send(self.server.address, Method::GET, &format!("/{TITLE}/.mpd"), &[]).await;
        let manifest = manifest.unwrap();
        assert_eq!(manifest.status, 200, "{:?}", manifest.body);
        let urls: Vec<_> = oracle.urls().cloned().collect();
        for round in 0..2 {
            for url in &urls {
                assert_eq!(self.get(oracle, url).await, FetchResult::Right(0), "{url}, round {round}");
            }
            while self.cache.figures().fetches > 0 {
                tokio::task::yield_now().await;
            }
            self.cache.flush().await;
        }
        let figures = self.cache.figures();
        assert_eq!((figures.reserved_bytes, figures.room_bytes), (0, 0), "{figures:?}");
        for (_, counters) in self.registry.all() {
            let figures = counters.figures();
            assert_eq!((figures.in_flight, figures.queued), (0, 0), "{figures:?}");
        }
    }
}

/// The results that clients may see while a title is indexed, and while a segment is read: `ok` for
/// right bytes, `aborts` for a response that ended early after its head, or a reason.
const SEEN: [(ServerFault, &[&str], &[&str]); 22] = [
    (ServerFault::NoEtag, &["ok"], &["ok"]),
    (ServerFault::NoVersion, &["ok"], &["ok"]),
    (ServerFault::IgnoresRange, &["ok"], &["ok"]),
    // The body gets longer with each attempt.
    (ServerFault::Fewer, &["ok", "storage_unavailable"], &["ok", "storage_unavailable", "aborts"]),
    (ServerFault::FewerSaid, &["storage_bad_answer"], &["storage_bad_answer", "aborts"]),
    (ServerFault::More, &["storage_bad_answer"], &["storage_bad_answer", "aborts"]),
    (ServerFault::Less, &["storage_bad_answer"], &["storage_bad_answer", "aborts"]),
    // What follows a body shows when its last bytes arrive. A segment may have been read before.
    (ServerFault::MoreInChunks, &["storage_bad_answer"], &["ok", "storage_bad_answer", "aborts"]),
    (ServerFault::Coded, &["storage_bad_answer"], &["storage_bad_answer", "aborts"]),
    (ServerFault::AnswersTwice, &["storage_bad_answer"], &["ok", "storage_bad_answer", "aborts"]),
    (ServerFault::MoreSaid, &["ok", "storage_bad_answer"], &["storage_bad_answer", "aborts"]),
    (ServerFault::Elsewhere, &["ok", "storage_bad_answer"], &["storage_bad_answer", "aborts"]),
    (ServerFault::NoAnswer, &["storage_timeout"], &["storage_timeout", "aborts"]),
    (ServerFault::Stalls, &["storage_timeout"], &["storage_timeout", "aborts"]),
    (ServerFault::Resets, &["ok", "storage_unavailable"], &["ok", "storage_unavailable", "aborts"]),
    (ServerFault::ResetsAtOnce, &["storage_unavailable"], &["storage_unavailable", "aborts"]),
    (ServerFault::Throttles, &["storage_throttled"], &["storage_throttled", "aborts"]),
    // One of many requests at once may meet the fault in each of its attempts.
    (ServerFault::ThrottlesBriefly, &["ok", "storage_throttled"], &["ok", "storage_throttled", "aborts"]),
    (
        ServerFault::Flaps,
        &["ok", "storage_unavailable", "storage_bad_answer"],
        &["ok", "storage_unavailable", "storage_bad_answer", "aborts"],
    ),
    (ServerFault::Fails, &["storage_unavailable"], &["storage_unavailable", "aborts"]),
    (ServerFault::Gone, &["source_not_found"], &["source_not_found", "aborts"]),
    (ServerFault::Denies, &["storage_denied"], &["storage_denied", "aborts"]),
];

fn word(got: &FetchResult) -> &str {
    match got {
        FetchResult::Right(_) => "ok",
        FetchResult::Refused(_, reason) => reason,
        FetchResult::Aborted => "aborts",
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_leads_to_right_bytes_or_an_error() {
    let oracle = Arc::new(Oracle::of(&[library()], &[TITLE]).await);
    let worlds = [(Protocol::Http, TIERS[0]), (Protocol::Http, TIERS[1]), (Protocol::S3, TIERS[0])];
    let cases = worlds.into_iter().flat_map(|world| SEEN.map(|case| (world, case)));
    // A few at a time, because some faults wait for a time limit.
    let mut cases = stream::iter(cases)
        .map(|(world, (wrong, cold, warm))| {
            tokio::spawn(check_fault(world, wrong, cold, warm, oracle.clone()))
        })
        .buffer_unordered(4);
    while let Some(case) = cases.next().await {
        case.unwrap();
    }
}

async fn check_fault(
    (protocol, tiers): (Protocol, Tiers),
    wrong: ServerFault,
    indexed: &'static [&'static str],
    read: &'static [&'static str],
    oracle: Arc<Oracle>,
) {
    let urls: Vec<_> = oracle.some().into_iter().cycle().take(6).collect();
    // First the title is indexed, then its media is read.
    let world = World::timed(protocol, tiers, wrong, wrong).await;
    for got in world.get_all(&oracle, &urls).await {
        let seen = word(&got);
        let may = if indexed.contains(&"ok") { [indexed, read].concat() } else { indexed.to_vec() };
        assert!(may.contains(&seen), "{protocol:?} {tiers:?} {wrong:?} cold: {seen}");
    }
    world.check_recovered(&oracle).await;
    // The title is indexed, and its media is read with the fault.
    let world = World::timed(protocol, tiers, ServerFault::Nothing, wrong).await;
    assert_eq!(world.get(&oracle, oracle.init()).await, FetchResult::Right(0));
    world.set(wrong);
    for got in world.get_all(&oracle, &urls).await {
        let seen = word(&got);
        // Another version counts as a change: the title is indexed again, or the response ends
        // early.
        let changed = matches!(wrong, ServerFault::NoEtag | ServerFault::NoVersion) && seen == "aborts";
        assert!(read.contains(&seen) || changed, "{protocol:?} {tiers:?} {wrong:?} warm: {seen}");
    }
    world.check_recovered(&oracle).await;
}

#[tokio::test]
async fn a_missing_etag_is_logged_once_and_does_not_prevent_caching() {
    log::keep();
    let oracle = Oracle::of(&[library()], &[TITLE]).await;
    let urls: Vec<_> = oracle.urls().cloned().collect();
    for (wrong, said, cached) in [
        (ServerFault::NoEtag, "by size and modification time", true),
        (ServerFault::NoVersion, "by size alone", false),
    ] {
        let before = log::lines(&["no strong ETag", said]).len();
        let world = World::new(Tiers::Memory, wrong).await;
        for _ in 0..2 {
            for got in world.get_all(&oracle, &urls).await {
                assert_eq!(got, FetchResult::Right(0));
            }
        }
        let figures = world.cache.figures();
        assert_eq!(figures.cached_bytes > 0, cached, "{figures:?}");
        assert_eq!(figures.bypassed_version > 0, !cached, "{figures:?}");
        assert_eq!(log::lines(&["no strong ETag", said]).len() - before, 1);
        let warm = get(world.server.address, &oracle.some()[0]).await;
        assert_eq!(warm.header("latemux-cache"), if cached { "hit_memory" } else { "bypassed;version" });
        // Dates and sizes distinguish the versions: no byte of the first is served for the second.
        world.check_recovered(&oracle).await;
    }
}

/// A range far behind the first byte would need all bytes before it. The request fails with an
/// error, and the log gives the reason.
#[tokio::test]
async fn distant_bytes_of_a_server_without_ranges_are_not_read() {
    let world = World::new(Tiers::Memory, ServerFault::IgnoresRange).await;
    let mut padded = sample(TITLE).to_vec();
    // A `free` box after `ftyp` and before the media: the index at the end is far from the start.
    let first = u32::from_be_bytes(padded[..4].try_into().unwrap()) as usize;
    let filler = [&(2_u32 << 20).to_be_bytes()[..], b"free", &vec![0; (2 << 20) - 8]].concat();
    padded.splice(first..first, filler);
    world.site.lock().unwrap().objects.insert("far.mp4".to_owned(), padded.into());
    let response = send(world.server.address, Method::GET, "/far.mp4/.mpd", &[]).await.unwrap();
    assert_eq!((response.status.as_u16(), response.reason().as_str()), (502, "storage_bad_answer"));
}

/// A server whose TLS handshake never ends, and an address without a server.
#[tokio::test]
async fn connecting_has_a_time_limit() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    // No other test listens on this address, so nobody takes the port when it is free again.
    let gone = std::net::TcpListener::bind("127.0.0.9:0").unwrap().local_addr().unwrap();
    for (address, reason) in [
        (format!("https://{}/", silent.local_addr().unwrap()), "storage_timeout"),
        (format!("http://{gone}/"), "storage_unavailable"),
    ] {
        let options = Options { connect_timeout: BOUND, retries: 1, ..Options::default() };
        let storage = open(&address, &options).unwrap();
        let cache = Cache::open(latemux_cache::Config::default()).unwrap();
        let resources = Resources { cache: Some(cache), source_options: options, ..Resources::default() };
        let server =
            Server::of(Origin::with_resources(storage, resources, crate::server::config()), None).await;
        let requests = (0..10).map(|_| send(server.address, Method::GET, "/x.mp4/.mpd", &[]));
        for response in tokio::time::timeout(Duration::from_secs(60), join_all(requests))
            .await
            .expect("no response within a minute")
        {
            let response = response.unwrap();
            assert_eq!(response.reason(), reason, "{address}");
            assert!(response.status.is_server_error());
        }
    }
}
