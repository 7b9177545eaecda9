//! An HTTP server as storage that does what it should not, byte by byte, and what a client of the origin sees of that, with a cache
//! in memory and on disk. Afterwards the server is well, and everything is right.

use crate::{
    client::{get, send},
    log,
    rig::{Got, Oracle, TIERS, Tiers},
    server::{Server, library, sample},
};
use bytes::Bytes;
use futures_util::{StreamExt, future::join_all, stream};
use http::Method;
use latemux_cache::Cache;
use latemux_origin::{Origin, OriginConfig, Resources};
use latemux_storage::{Options, Registry, open};
use latemux_testmedia::http_server::{Reply, Request, Server as Http, Then};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

const TITLE: &str = "lighthouse.mp4";
/// What storage may take where it does not answer: tests wait for it.
const BOUND: Duration = Duration::from_secs(1);

/// What the server does wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// Its answers name no ETag, only a date.
    NoEtag,
    /// Neither.
    NoVersion,
    /// 200 and the whole object.
    IgnoresRange,
    /// The body ends before its promised length, each time a little further.
    Fewer,
    /// The answer says that it is of fewer bytes than were asked for.
    FewerSaid,
    /// More bytes than the range it states.
    More,
    /// The answer says that it is of more bytes.
    MoreSaid,
    /// Another range of the same length.
    Elsewhere,
    NoAnswer,
    /// Half a body, then nothing.
    Stalls,
    /// Half a body, then a reset, every time.
    Resets,
    /// No answer, but a reset.
    ResetsAtOnce,
    /// 503 with `Retry-After`, longer than is waited for.
    Throttles,
    /// 503 with `Retry-After: 0`, the first time that a range is asked for, and every second time from then on.
    ThrottlesBriefly,
    /// Fails, works, fails, in all ways in turn.
    Flaps,
    /// 500.
    Fails,
    /// 404, as if it had been removed.
    Gone,
    /// 403.
    Denies,
}

struct Site {
    objects: BTreeMap<String, Bytes>,
    wrong: Wrong,
    requests: usize,
    /// How often each range was asked for.
    ranges: BTreeMap<String, usize>,
}

type Shared = Arc<Mutex<Site>>;

fn answer(site: &Shared, request: &Request) -> Reply {
    let mut site = site.lock().unwrap();
    site.requests += 1;
    let n = site.requests;
    let Some(content) = site.objects.get(request.target.trim_start_matches('/')).cloned() else {
        return Reply::new(404, &[], b"");
    };
    let wrong = match site.wrong {
        Wrong::Flaps => match n % 6 {
            1 => Wrong::ResetsAtOnce,
            2 => Wrong::Resets,
            3 => Wrong::Fails,
            4 => Wrong::FewerSaid,
            _ => Wrong::Nothing,
        },
        wrong => wrong,
    };
    let version: &[(&str, &str)] = match wrong {
        Wrong::NoEtag => &[("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")],
        Wrong::NoVersion => &[],
        _ => &[("ETag", "\"one\"")],
    };
    let Some(range) = request.header("range").and_then(|range| range.strip_prefix("bytes=")) else {
        return Reply::new(200, version, &content);
    };
    let asked = site.ranges.entry(format!("{} {range}", request.target)).or_default();
    let again = *asked;
    *asked += 1;
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
        Wrong::Nothing | Wrong::NoEtag | Wrong::NoVersion | Wrong::Flaps => Reply::new(206, &headers, bytes),
        Wrong::IgnoresRange => Reply::new(200, version, &content),
        Wrong::Fewer => Reply::cut(206, &headers, bytes, half, Then::Close),
        Wrong::FewerSaid | Wrong::MoreSaid | Wrong::Elsewhere => {
            let (first, last) = match wrong {
                Wrong::FewerSaid => (first, last - (last - first) / 2 - 1),
                Wrong::MoreSaid => (first.saturating_sub(7), last),
                _ => (first.saturating_sub(7), last.saturating_sub(7)),
            };
            let (said, bytes) = part(first, last.max(first));
            let headers = with(&said);
            let headers: Vec<_> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
            Reply::new(206, &headers, bytes)
        }
        Wrong::More => Reply::new(206, &headers, &[bytes, &[0xee; 1000]].concat()),
        Wrong::NoAnswer => Reply::nothing(Then::Hang),
        Wrong::Stalls => Reply::cut(206, &headers, bytes, half, Then::Hang),
        Wrong::Resets => Reply::cut(206, &headers, bytes, half, Then::Reset),
        Wrong::ResetsAtOnce => Reply::nothing(Then::Reset),
        Wrong::Throttles => Reply::new(503, &[("Retry-After", "60")], b""),
        Wrong::ThrottlesBriefly if again.is_multiple_of(2) => Reply::new(503, &[("Retry-After", "0")], b""),
        Wrong::ThrottlesBriefly => Reply::new(206, &headers, bytes),
        Wrong::Fails => Reply::new(500, &[], b""),
        Wrong::Gone => Reply::new(404, &[], b""),
        Wrong::Denies => Reply::new(403, &[], b""),
    }
}

/// An origin over such a server.
struct World {
    site: Shared,
    cache: Cache,
    server: Server,
    registry: Registry,
    _http: Http,
    _dir: tempfile::TempDir,
}

impl World {
    async fn new(tiers: Tiers, wrong: Wrong) -> Self {
        Self::timed(tiers, wrong, wrong).await
    }

    /// With bounds as `later` needs them.
    async fn timed(tiers: Tiers, wrong: Wrong, later: Wrong) -> Self {
        let objects = BTreeMap::from([(TITLE.to_owned(), sample(TITLE))]);
        let site: Shared =
            Arc::new(Mutex::new(Site { objects, wrong, requests: 0, ranges: BTreeMap::new() }));
        let shared = site.clone();
        let http = Http::start(move |_, request| answer(&shared, request)).await;
        let slow = matches!(later, Wrong::NoAnswer | Wrong::Stalls);
        let bound = if slow { BOUND } else { Duration::from_secs(30) };
        let options = Options {
            first_byte_timeout: bound,
            stall_timeout: bound,
            // Budgets are measured elsewhere; here each read has its own.
            retry_burst: 1_000_000,
            ..Options::default()
        };
        let registry = options.registry.clone();
        let storage = open(&format!("{}/", http.address), &options).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::open(tiers.config(dir.path())).unwrap();
        let resources =
            Resources { cache: Some(cache.clone()), source_options: options, ..Resources::default() };
        let config =
            OriginConfig { recheck_after: Duration::ZERO, debug_headers: true, ..crate::server::config() };
        let server = Server::of(Origin::with_resources(storage, resources, config), None).await;
        Self { site, cache, server, registry, _http: http, _dir: dir }
    }

    fn set(&self, wrong: Wrong) {
        self.site.lock().unwrap().wrong = wrong;
    }

    async fn get(&self, oracle: &Oracle, url: &str) -> Got {
        // Far more than all bounds together: a hang is told from slowness.
        let answer = send(self.server.address, Method::GET, url, &[]);
        let answer = tokio::time::timeout(Duration::from_secs(60), answer).await.expect("an end");
        let Ok(answer) = answer else { return Got::Aborted };
        if answer.status == 200 {
            return Got::Right(oracle.version(url, &answer.body));
        }
        Got::Refused(answer.status.as_u16(), answer.reason())
    }

    async fn get_all(&self, oracle: &Oracle, urls: &[String]) -> Vec<Got> {
        join_all(urls.iter().map(|url| self.get(oracle, url))).await
    }

    /// All is right once the server is, and nothing was left behind.
    async fn check_recovery(&self, oracle: &Oracle) {
        self.set(Wrong::Nothing);
        let manifest = send(self.server.address, Method::GET, &format!("/{TITLE}/.mpd"), &[]).await;
        assert_eq!(manifest.unwrap().status, 200);
        let urls: Vec<_> = oracle.urls().cloned().collect();
        for round in 0..2 {
            for url in &urls {
                assert_eq!(self.get(oracle, url).await, Got::Right(0), "{url}, round {round}");
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

/// What a client may see: while a title is indexed, and while a segment is read. `aborts` is an answer that broke off, for its head had left;
/// `ok` right bytes.
const SEEN: [(Wrong, &[&str], &[&str]); 18] = [
    (Wrong::NoEtag, &["ok"], &["ok"]),
    (Wrong::NoVersion, &["ok"], &["ok"]),
    (Wrong::IgnoresRange, &["ok"], &["ok"]),
    // It goes further with each try.
    (Wrong::Fewer, &["ok", "storage_unavailable"], &["ok", "storage_unavailable", "aborts"]),
    (Wrong::FewerSaid, &["storage_bad_answer"], &["storage_bad_answer", "aborts"]),
    (Wrong::More, &["ok"], &["ok"]),
    (Wrong::MoreSaid, &["ok", "storage_bad_answer"], &["storage_bad_answer", "aborts"]),
    (Wrong::Elsewhere, &["ok", "storage_bad_answer"], &["storage_bad_answer", "aborts"]),
    (Wrong::NoAnswer, &["storage_timeout"], &["storage_timeout", "aborts"]),
    (Wrong::Stalls, &["storage_timeout"], &["storage_timeout", "aborts"]),
    (Wrong::Resets, &["ok", "storage_unavailable"], &["ok", "storage_unavailable", "aborts"]),
    (Wrong::ResetsAtOnce, &["storage_unavailable"], &["storage_unavailable", "aborts"]),
    (Wrong::Throttles, &["storage_throttled"], &["storage_throttled", "aborts"]),
    // Of many at once, one may have met it with each of its tries.
    (Wrong::ThrottlesBriefly, &["ok", "storage_throttled"], &["ok", "storage_throttled", "aborts"]),
    (
        Wrong::Flaps,
        &["ok", "storage_unavailable", "storage_bad_answer"],
        &["ok", "storage_unavailable", "storage_bad_answer", "aborts"],
    ),
    (Wrong::Fails, &["storage_unavailable"], &["storage_unavailable", "aborts"]),
    (Wrong::Gone, &["source_not_found"], &["source_not_found", "aborts"]),
    (Wrong::Denies, &["storage_denied"], &["storage_denied", "aborts"]),
];

fn word(got: &Got) -> &str {
    match got {
        Got::Right(_) => "ok",
        Got::Refused(_, reason) => reason,
        Got::Aborted => "aborts",
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_the_server_does_bytes_are_right_or_none() {
    let oracle = Arc::new(Oracle::of(&[library()], &[TITLE]).await);
    let cases = TIERS.into_iter().flat_map(|tiers| SEEN.map(|case| (tiers, case)));
    // A few at a time, for some wait.
    let mut cases = stream::iter(cases)
        .map(|(tiers, (wrong, cold, warm))| tokio::spawn(suffers(tiers, wrong, cold, warm, oracle.clone())))
        .buffer_unordered(4);
    while let Some(case) = cases.next().await {
        case.unwrap();
    }
}

async fn suffers(
    tiers: Tiers,
    wrong: Wrong,
    indexed: &'static [&'static str],
    read: &'static [&'static str],
    oracle: Arc<Oracle>,
) {
    let urls: Vec<_> = oracle.some().into_iter().cycle().take(6).collect();
    // While it is indexed; then its media is read.
    let world = World::new(tiers, wrong).await;
    for got in world.get_all(&oracle, &urls).await {
        let seen = word(&got);
        let may = if indexed.contains(&"ok") { [indexed, read].concat() } else { indexed.to_vec() };
        assert!(may.contains(&seen), "{tiers:?} {wrong:?} cold: {seen}");
    }
    world.check_recovery(&oracle).await;
    // While media is read of what is indexed.
    let world = World::timed(tiers, Wrong::Nothing, wrong).await;
    assert_eq!(world.get(&oracle, oracle.init()).await, Got::Right(0));
    world.set(wrong);
    for got in world.get_all(&oracle, &urls).await {
        let seen = word(&got);
        // Another version is a change: it is indexed anew, or the head has left.
        let changed = matches!(wrong, Wrong::NoEtag | Wrong::NoVersion) && seen == "aborts";
        assert!(read.contains(&seen) || changed, "{tiers:?} {wrong:?} warm: {seen}");
    }
    world.check_recovery(&oracle).await;
}

#[tokio::test]
async fn an_etag_that_is_missing_is_said_once_and_its_object_is_cached_all_the_same() {
    log::keep();
    let oracle = Oracle::of(&[library()], &[TITLE]).await;
    let urls: Vec<_> = oracle.urls().cloned().collect();
    for (wrong, said, cached) in
        [(Wrong::NoEtag, "by size and modification time", true), (Wrong::NoVersion, "by size alone", false)]
    {
        let before = log::lines(&["no strong ETag", said]).len();
        let world = World::new(Tiers::Memory, wrong).await;
        for _ in 0..2 {
            for got in world.get_all(&oracle, &urls).await {
                assert_eq!(got, Got::Right(0));
            }
        }
        let figures = world.cache.figures();
        assert_eq!(figures.cached_bytes > 0, cached, "{figures:?}");
        assert_eq!(figures.bypassed_version > 0, !cached, "{figures:?}");
        assert_eq!(log::lines(&["no strong ETag", said]).len() - before, 1);
        let warm = get(world.server.address, &oracle.some()[0]).await;
        assert_eq!(warm.header("latemux-cache"), if cached { "hit_memory" } else { "bypassed;version" });
        // Told from each other by their dates and sizes: nothing of the first is served for the second.
        world.check_recovery(&oracle).await;
    }
}

/// The range lies too far behind the first byte to read all before it: a clean error, and the log says why.
#[tokio::test]
async fn far_bytes_of_a_server_that_ignores_ranges_are_not_read() {
    let world = World::new(Tiers::Memory, Wrong::IgnoresRange).await;
    let mut padded = sample(TITLE).to_vec();
    // A box of nothing behind the type: the index is behind the media, so what is read is far from the start.
    let first = u32::from_be_bytes(padded[..4].try_into().unwrap()) as usize;
    let filler = [&(2_u32 << 20).to_be_bytes()[..], b"free", &vec![0; (2 << 20) - 8]].concat();
    padded.splice(first..first, filler);
    world.site.lock().unwrap().objects.insert("far.mp4".to_owned(), padded.into());
    let answer = send(world.server.address, Method::GET, "/far.mp4/.mpd", &[]).await.unwrap();
    assert_eq!((answer.status.as_u16(), answer.reason().as_str()), (502, "storage_bad_answer"));
}

/// A server whose TLS handshake never ends, and one that is not there.
#[tokio::test]
async fn connecting_has_an_end() {
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
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
        let answers = (0..10).map(|_| send(server.address, Method::GET, "/x.mp4/.mpd", &[]));
        for answer in tokio::time::timeout(Duration::from_secs(60), join_all(answers)).await.expect("an end")
        {
            let answer = answer.unwrap();
            assert_eq!(answer.reason(), reason, "{address}");
            assert!(answer.status.is_server_error());
        }
    }
}
