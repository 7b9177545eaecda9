//! `/metrics` and the rest of the admin address. The numbers agree to the byte with the responses
//! that clients got, and the reference parser of OpenMetrics accepts the text.

use crate::{
    client::{FullResponse, fetch, get, get_with, open, send},
    log,
    server::{Faults, Server, crawl, fragmented_segment, library},
};
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use latemux_origin::OriginConfig;
use latemux_storage::{
    StorageError,
    counting::{Counting, Request},
    fault::{Fault, Gate},
};
use latemux_testmedia::process::tool;
use std::{
    collections::BTreeMap,
    io::Write,
    net::SocketAddr,
    process::{Command, Stdio},
    sync::Arc,
    time::Duration,
};

const SEGMENT: &str = "/harbour/dash/x-video=152000-51200.dash";

/// Values by name and sorted labels: `latemux_refusals_total{reason=bad_path}`.
type Samples = BTreeMap<String, f64>;

fn named(name: &str, labels: &[(&str, &str)]) -> String {
    let mut labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    labels.sort();
    if labels.is_empty() { name.to_owned() } else { format!("{name}{{{}}}", labels.join(",")) }
}

/// Parses the text line by line, and refuses lines that it does not know.
fn parse(text: &str) -> Samples {
    let text = text.strip_suffix("# EOF\n").unwrap();
    let lines = text.lines().filter(|line| !line.starts_with("# "));
    let samples = lines.map(|line| {
        let (series, value) = line.rsplit_once(' ').unwrap();
        let (name, labels) = series.split_once('{').unwrap_or((series, "}"));
        let labels = labels.strip_suffix('}').unwrap().split(',').filter(|label| !label.is_empty());
        let labels: Vec<_> = labels
            .map(|label| {
                let (key, value) = label.split_once('=').unwrap();
                (key, value.strip_prefix('"').unwrap().strip_suffix('"').unwrap())
            })
            .collect();
        (named(name, &labels), value.parse().unwrap())
    });
    let mut read = Samples::new();
    for (name, value) in samples {
        assert!(read.insert(name.clone(), value).is_none(), "{name} twice");
    }
    read
}

async fn scrape(server: &Server) -> Samples {
    let response = get(server.admin, "/metrics").await;
    assert_eq!(response.status, 200);
    parse(std::str::from_utf8(&response.body).unwrap())
}

/// Returns a value, or 0 if there is no such series yet.
fn value(samples: &Samples, name: &str, labels: &[(&str, &str)]) -> f64 {
    samples.get(&named(name, labels)).copied().unwrap_or_default()
}

/// Waits until a value is as expected: the server counts some things after the client has read the
/// response.
async fn until(server: &Server, name: &str, labels: &[(&str, &str)], expected: f64) {
    while value(&scrape(server).await, name, labels) != expected {
        tokio::task::yield_now().await;
    }
}

/// Returns the sum over all series of a name.
fn sum(samples: &Samples, name: &str) -> f64 {
    samples.iter().filter(|(key, _)| key.split('{').next() == Some(name)).map(|(_, value)| value).sum()
}

#[expect(clippy::cast_precision_loss, reason = "small numbers")]
fn float(number: u64) -> f64 {
    number as f64
}

fn length(response: &FullResponse) -> f64 {
    float(response.body.len() as u64)
}

/// Parses the text with the reference parser. `None` if that is not installed.
fn reference(text: &str) -> Option<Samples> {
    const READ: &str = "
import sys
try:
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
except ImportError:
    sys.exit(77)
for family in text_string_to_metric_families(sys.stdin.read()):
    assert family.documentation, family
    for s in family.samples:
        labels = ','.join(sorted(f'{k}={v}' for k, v in s.labels.items()))
        print(s.name + ('{' + labels + '}' if labels else ''), repr(float(s.value)))
";
    let python = tool("python3")?;
    let mut child =
        Command::new(python).args(["-c", READ]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // The parser reads all of its input before it writes.
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    if output.status.code() == Some(77) {
        assert!(
            std::env::var("LATEMUX_REQUIRE_TOOLS").as_deref() != Ok("1"),
            "python3-prometheus-client is required and not installed"
        );
        return None;
    }
    assert!(output.status.success(), "the parser refused:\n{text}");
    let lines = String::from_utf8(output.stdout).unwrap();
    let samples = lines.lines().map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    });
    Some(samples.collect())
}

/// Sends one request of each kind that is counted differently.
async fn everything(server: &Server) -> f64 {
    let mut requests = 0.0;
    for (path, headers) in [
        ("/", &[][..]),
        ("/api/library", &[]),
        ("/harbour/.mpd", &[]),
        ("/harbour/.mpd", &[("accept-encoding", "gzip")]),
        ("/harbour/.m3u8", &[]),
        ("/harbour/.m3u8?hls_fmp4", &[]),
        ("/harbour/Manifest", &[]),
        ("/harbour/.f4m", &[]),
        (SEGMENT, &[]),
        (SEGMENT, &[("range", "bytes=10-19")]),
        (SEGMENT, &[("range", "bytes=99999999-")]),
        ("/nothing.mp4/.mpd", &[]),
        ("/a/../b", &[]),
    ] {
        get_with(server.address, path, headers).await;
        requests += 1.0;
    }
    requests
}

#[tokio::test]
async fn the_reference_parser_reads_the_same_values() {
    let server = Server::start(library()).await;
    let text = |response: FullResponse| String::from_utf8(response.body.to_vec()).unwrap();
    for round in 0..2 {
        let response = get(server.admin, "/metrics").await;
        let content_type = response.header("content-type");
        assert_eq!(content_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
        let text = text(response);
        let Some(reference) = reference(&text) else { return };
        assert_eq!(parse(&text), reference);
        assert!(reference.len() > 40 * (1 + round), "{}", reference.len());
        everything(&server).await;
    }
}

#[tokio::test]
async fn every_response_is_counted_once_with_its_bytes() {
    let server = Server::start(library()).await;
    let mut expected: BTreeMap<[&str; 3], (f64, f64)> = BTreeMap::new();
    let mut urls = crawl(server.address, "/harbour").await;
    urls.truncate(60);
    for smooth in ["/harbour/Manifest", "/harbour/.f4m", "/", "/nope"] {
        urls.push(smooth.to_owned());
    }
    let before = scrape(&server).await;
    let labels = |url: &str| -> [&str; 2] {
        match url {
            "/" => ["page", "other"],
            "/nope" => ["other", "other"],
            "/harbour/Manifest" => ["mss", "manifest"],
            "/harbour/.f4m" => ["hds", "manifest"],
            _ if url.ends_with(".mpd") => ["dash", "manifest"],
            _ if url.ends_with(".m3u8?hls_fmp4") => ["hls_cmaf", "manifest"],
            _ if url.ends_with(".m3u8") => ["hls_ts", "manifest"],
            _ if url.ends_with(".ts") => ["hls_ts", "media"],
            _ => {
                let protocol = if url.ends_with(".dash") { "dash" } else { "hls_cmaf" };
                // The URL of an init segment has no number after the bit rate.
                let last = url.rsplit('=').next().unwrap();
                [protocol, if last.contains('-') { "media" } else { "init" }]
            }
        }
    };
    for url in &urls {
        for (method, headers) in [
            (Method::GET, &[][..]),
            (Method::GET, &[("range", "bytes=3-9")]),
            (Method::GET, &[("if-none-match", "*")]),
            (Method::HEAD, &[]),
        ] {
            let response = send(server.address, method, url, headers).await.unwrap();
            let status = match response.status.as_u16() / 100 {
                2 => "2xx",
                3 => "3xx",
                4 => "4xx",
                _ => panic!("{url}: {response:?}"),
            };
            let [protocol, class] = labels(url);
            let (count, bytes) = expected.entry([protocol, class, status]).or_default();
            *count += 1.0;
            *bytes += length(&response);
        }
    }
    assert!(expected.len() > 15, "{expected:?}");
    let after = scrape(&server).await;
    for ([protocol, class, status], (count, bytes)) in expected {
        let labels = [("protocol", protocol), ("class", class), ("status", status)];
        let more = |name: &str| value(&after, name, &labels) - value(&before, name, &labels);
        assert_eq!(more("latemux_responses_total"), count, "{labels:?}");
        assert_eq!(more("latemux_response_bytes_total"), bytes, "{labels:?}");
        assert_eq!(more("latemux_response_first_byte_seconds_count"), count, "{labels:?}");
        assert_eq!(more("latemux_response_last_byte_seconds_count"), count, "{labels:?}");
        let [first, last] =
            ["first", "last"].map(|w| more(&format!("latemux_response_{w}_byte_seconds_sum")));
        assert!(first <= last && (count == 0.0 || last > 0.0), "{first} {last}");
    }
    let refused = value(&after, "latemux_refusals_total", &[("reason", "no_such_url")]);
    assert_eq!(refused, 4.0);
    until(&server, "latemux_requests_in_flight", &[], 0.0).await;
    until(&server, "latemux_connections_open", &[], 0.0).await;
    let after = scrape(&server).await;
    assert_eq!(sum(&after, "latemux_connections_total"), sum(&after, "latemux_responses_total"));
    assert_eq!(sum(&after, "latemux_response_outcomes_total"), sum(&after, "latemux_responses_total"));
}

/// Returns the number of bytes in a CMAF segment before its media.
fn head_of(segment: &[u8]) -> u64 {
    segment.windows(4).position(|four| four == b"mdat").unwrap() as u64 + 4
}

fn by_kind(requests: &[Request]) -> [(f64, f64); 2] {
    let (listings, reads): (Vec<&Request>, Vec<&Request>) = requests.iter().partition(|r| r.want.is_none());
    [listings, reads]
        .map(|kind| (float(kind.len() as u64), float(kind.iter().map(|request| request.bytes).sum())))
}

#[tokio::test]
async fn requests_to_storage_are_counted_by_purpose() {
    let counting = Arc::new(Counting::new(library(), Duration::ZERO));
    let server = Server::start(counting.clone()).await;
    let read = |samples: &Samples, kind| {
        let labels = [("kind", kind)];
        let requests = value(samples, "latemux_storage_requests_total", &labels);
        (requests, value(samples, "latemux_storage_read_bytes_total", &labels))
    };

    fetch(server.address, "/harbour/.mpd").await;
    let [listings, indexes] = by_kind(&counting.take());
    let samples = scrape(&server).await;
    assert_eq!((read(&samples, "listing"), read(&samples, "index")), (listings, indexes));
    assert_eq!((read(&samples, "media"), read(&samples, "manifest")), ((0.0, 0.0), (0.0, 0.0)));
    assert!(indexes.0 >= 5.0 && listings.0 == 1.0);

    // The `moof`s of fragments are read along with the media and count as media.
    let mut of_source = 0.0;
    for url in [SEGMENT, &fragmented_segment(0).await] {
        let body = fetch(server.address, url).await;
        of_source += float(body.len() as u64 - head_of(&body));
    }
    let [_, reads] = by_kind(&counting.take());
    let samples = scrape(&server).await;
    let now = read(&samples, "index");
    let fragmented_index = read(&samples, "media");
    assert_eq!(
        (now.0 - indexes.0 + fragmented_index.0, now.1 - indexes.1 + fragmented_index.1),
        reads,
        "nothing is counted twice, and nothing is missed"
    );
    assert_eq!(fragmented_index.0, 2.0);
    let responded = value(&samples, "latemux_storage_first_byte_seconds_count", &[("kind", "index")]);
    assert_eq!(responded, now.0);
    let used = value(&samples, "latemux_media_used_bytes_total", &[]);
    assert_eq!(used, of_source);
    let efficiency = value(&samples, "latemux_conversion_efficiency_ratio", &[]);
    assert_eq!(efficiency, used / fragmented_index.1);
    assert!(efficiency > 0.5 && efficiency <= 1.0, "{efficiency}");
}

#[tokio::test]
async fn aborted_responses_count_the_bytes_sent() {
    let faults = Faults::default();
    let server = Server::start(faults.over(library())).await;
    let whole = fetch(server.address, SEGMENT).await;
    let labels = [("protocol", "dash"), ("class", "media"), ("status", "2xx")];
    let first = scrape(&server).await;
    assert_eq!(value(&first, "latemux_response_bytes_total", &labels), float(whole.len() as u64));

    // The client leaves in the middle of the body.
    faults.set([Fault::StallAfter(20_000)]);
    let mut body = open(server.address, Method::GET, SEGMENT, &[]).await.unwrap().into_body();
    let mut got = 0_u64;
    let handed = |samples: &Samples| {
        let all = value(samples, "latemux_response_bytes_total", &labels);
        all - value(&first, "latemux_response_bytes_total", &labels)
    };
    // The client reads all bytes that storage has sent. The rest does not arrive.
    let head = head_of(&whole);
    while got < head + 20_000 {
        got += body.frame().await.unwrap().unwrap().into_data().unwrap().len() as u64;
    }
    assert_eq!(value(&scrape(&server).await, "latemux_requests_in_flight", &[]), 1.0);
    drop(body);
    until(&server, "latemux_broken_off_total", &[("reason", "client_gone")], 1.0).await;
    let samples = scrape(&server).await;
    assert!(got < whole.len() as u64);
    assert_eq!((got, handed(&samples)), (head + 20_000, float(got)));

    // Storage fails in the middle of the body.
    let reset = StorageError::Unavailable { key: "x".into(), detail: "reset".into() };
    faults.set([Fault::BreakAfter(20_000, reset)]);
    let broken = send(server.address, Method::GET, SEGMENT, &[]).await;
    assert!(broken.is_err());
    until(&server, "latemux_broken_off_total", &[("reason", "storage_unavailable")], 1.0).await;
    let samples = scrape(&server).await;
    assert_eq!(handed(&samples), float(2 * got));
    assert_eq!(value(&samples, "latemux_responses_total", &labels), 3.0);
    assert_eq!(
        value(&samples, "latemux_response_last_byte_seconds_count", &labels),
        1.0,
        "only one was whole"
    );
    assert_eq!(value(&samples, "latemux_storage_errors_total", &[("kind", "media")]), 1.0);

    // The client leaves before the head is sent.
    let gate = Gate::new();
    faults.set([Fault::Wait(gate.clone())]);
    let address = server.address;
    let request =
        tokio::spawn(async move { open(address, Method::GET, "/buoy.mp4/.mpd", &[]).await.map(drop) });
    gate.reached(1).await;
    request.abort();
    let none = [("protocol", "dash"), ("class", "manifest"), ("status", "none")];
    until(&server, "latemux_responses_total", &none, 1.0).await;
    until(&server, "latemux_broken_off_total", &[("reason", "client_gone")], 2.0).await;
    until(&server, "latemux_requests_in_flight", &[], 0.0).await;
}

#[tokio::test]
async fn no_url_adds_a_series() {
    let server = Server::start(library()).await;
    let hostile = |n: usize| {
        [
            format!("/{n}"),
            format!("/x{n}.mp4/.mpd"),
            format!("/harbour/dash/{n}-video={n}-{n}.dash"),
            format!("/harbour/{n}%22%7d%0a-video=1-{n}.ts"),
            format!("/harbour/.mpd?{n}=%22%5cn"),
            format!("/_/{n}"),
            format!("/a/..%2f{n}"),
            format!("/harbour/QualityLevels({n})/Fragments(video={n})"),
        ]
    };
    let ask = async |n: usize| {
        for url in hostile(n) {
            for method in ["GET", "HEAD", "BREW", "OPTIONS"] {
                let method = Method::from_bytes(method.as_bytes()).unwrap();
                if let Ok(response) = send(server.address, method, &url, &[]).await {
                    assert_ne!(response.status, StatusCode::INTERNAL_SERVER_ERROR, "{url}");
                }
            }
        }
    };
    // The second round is served from caches.
    ask(1).await;
    ask(1).await;
    let series: Vec<String> = scrape(&server).await.into_keys().collect();
    for n in 2..40 {
        ask(n).await;
    }
    assert_eq!(scrape(&server).await.into_keys().collect::<Vec<_>>(), series);
    assert!(series.iter().all(|name| !name.contains("harbour") && !name.contains("x1")));
}

#[tokio::test]
async fn caches_report_their_size_hits_and_misses() {
    let mut config = crate::server::config();
    config.memory.manifests = 20_000;
    let server = Server::with(library(), config, None).await;
    for _ in 0..2 {
        fetch(server.address, "/harbour/.mpd").await;
        fetch(server.address, SEGMENT).await;
    }
    let samples = scrape(&server).await;
    let of = |samples: &Samples, what: &str, cache| {
        value(samples, &format!("latemux_cache_{what}"), &[("cache", cache), ("tier", "memory")])
    };
    assert_eq!((of(&samples, "hits_total", "titles"), of(&samples, "misses_total", "titles")), (3.0, 1.0));
    assert_eq!(
        (of(&samples, "hits_total", "manifests"), of(&samples, "misses_total", "manifests")),
        (1.0, 1.0)
    );
    assert_eq!(of(&samples, "entries", "objects"), 5.0);
    assert_eq!(of(&samples, "limit_bytes", "manifests"), 20_000.0);
    let held = of(&samples, "bytes", "manifests");
    assert!(held > 0.0 && held <= 20_000.0);
    for base in ["harbour", "buoy.mp4", "ferry.mp4", "lighthouse.mp4"] {
        for manifest in [".mpd", ".m3u8", ".m3u8?hls_fmp4", ".mpd?mpd_segment_template=number"] {
            fetch(server.address, &format!("/{base}/{manifest}")).await;
        }
    }
    let samples = scrape(&server).await;
    assert!(of(&samples, "bytes", "manifests") <= 20_000.0);
    let gone = of(&samples, "evictions_total", "manifests");
    assert!(gone > 0.0);
    assert_eq!(of(&samples, "entries", "manifests") + gone, of(&samples, "misses_total", "manifests"));
}

/// Every manifest was compressed, even if no client accepted that, and kept in both forms.
#[tokio::test]
async fn a_manifest_is_kept_only_in_the_forms_that_were_requested() {
    let server = Server::with(library(), crate::server::config(), None).await;
    let kept = async || {
        let samples = scrape(&server).await;
        let labels = [("cache", "manifests"), ("tier", "memory")];
        ["entries", "bytes"].map(|what| value(&samples, &format!("latemux_cache_{what}"), &labels))
    };
    let text = fetch(server.address, "/harbour/.mpd").await;
    let [entries, bytes] = kept().await;
    assert_eq!(entries, 1.0);
    // The text, and the head of its response.
    assert!(bytes < text.len() as f64 + 2500.0, "{bytes} bytes for {}", text.len());
    let gzip = [("accept-encoding", "gzip")];
    let compressed = get_with(server.address, "/harbour/.mpd", &gzip).await;
    assert_eq!(compressed.header("content-encoding"), "gzip");
    assert_eq!(kept().await[0], 2.0);
    get_with(server.address, "/harbour/.m3u8", &gzip).await;
    assert_eq!(kept().await[0], 3.0);
    let range = [("accept-encoding", "gzip"), ("range", "bytes=0-9")];
    let part = get_with(server.address, "/harbour/.m3u8", &range).await;
    assert_eq!((part.status.as_u16(), part.header("content-encoding")), (206, ""));
    assert_eq!(kept().await[0], 4.0);
}

#[tokio::test]
async fn a_request_that_waits_for_another_counts_as_joined() {
    log::keep();
    let faults = Faults::default();
    let server = Server::start(faults.over(library())).await;
    let gate = Gate::new();
    faults.set([Fault::Wait(gate.clone())]);
    let ask = |n: u32| {
        let address = server.address;
        tokio::spawn(async move { fetch(address, &format!("/buoy.mp4/waits{n}.mpd")).await })
    };
    let leader = ask(0);
    gate.reached(1).await;
    let joined = [ask(1), ask(2)];
    until(&server, "latemux_cache_joins_total", &[("cache", "titles"), ("tier", "memory")], 2.0).await;
    gate.open();
    leader.await.unwrap();
    for one in joined {
        one.await.unwrap();
    }
    let line = log::access("/buoy.mp4/waits0.mpd").await;
    assert!(
        line.contains("cache=\"filled\" storage_requests=") && !line.contains("storage_requests=0"),
        "{line}"
    );
    for n in [1, 2] {
        let line = log::access(&format!("/buoy.mp4/waits{n}.mpd")).await;
        assert!(line.contains("cache=\"joined\" storage_requests=0 storage_bytes=0"), "{line}");
    }
}

/// When the request that started the work leaves, the others continue it. Their log lines do not
/// count its requests to storage.
#[tokio::test]
async fn a_request_that_joined_counts_no_requests_to_storage() {
    log::keep();
    let faults = Faults::default();
    let server = Server::start(faults.over(library())).await;
    let gate = Gate::new();
    faults.set([Fault::Wait(gate.clone())]);
    let address = server.address;
    let leader = tokio::spawn(async move { fetch(address, "/harbour/leaves.mpd").await });
    gate.reached(1).await;
    let joined = tokio::spawn(async move { fetch(address, "/harbour/stays.mpd").await });
    until(&server, "latemux_cache_joins_total", &[("cache", "titles"), ("tier", "memory")], 1.0).await;
    leader.abort();
    log::access("/harbour/leaves.mpd").await;
    gate.open();
    joined.await.unwrap();
    let line = log::access("/harbour/stays.mpd").await;
    assert!(line.contains("cache=\"joined\" storage_requests=0 storage_bytes=0"), "{line}");
    let samples = scrape(&server).await;
    let index = [("kind", "index")];
    assert!(value(&samples, "latemux_storage_requests_total", &index) >= 5.0);
}

#[tokio::test]
async fn the_log_states_requests_and_bytes_of_storage() {
    log::keep();
    let counting = Arc::new(Counting::new(library(), Duration::ZERO));
    let server = Server::start(counting.clone()).await;
    let url = "/harbour/dash/said-video=152000-51200.dash";
    for (cache, kinds) in [("bypassed;off", 3.0), ("bypassed;off", 1.0)] {
        fetch(server.address, url).await;
        let [listings, reads] = by_kind(&counting.take());
        assert!(listings.0 + reads.0 >= kinds);
        let said =
            format!("cache=\"{cache}\" storage_requests={} storage_bytes={}", listings.0 + reads.0, reads.1);
        while log::lines(&[url, &said]).is_empty() {
            tokio::task::yield_now().await;
        }
    }
}

#[tokio::test]
async fn debug_headers_change_nothing_else() {
    let plain = Server::start(library()).await;
    let config = OriginConfig { debug_headers: true, ..crate::server::config() };
    let counting = Arc::new(Counting::new(library(), Duration::ZERO));
    let debug = Server::with(counting.clone(), config, None).await;
    let added = ["server-timing", "timing-allow-origin", "latemux-cache", "latemux-storage-requests"];
    let fragmented = fragmented_segment(0).await;
    for (url, cold, warm) in [
        ("/harbour/.mpd", "filled", "hit_memory"),
        (SEGMENT, "bypassed;off", "bypassed;off"),
        (&fragmented, "bypassed;off", "bypassed;off"),
        ("/harbour/dash/x-video=152000.dash", "hit_memory", "hit_memory"),
        ("/", "none", "none"),
        ("/nope", "none", "none"),
    ] {
        for cache in [cold, warm] {
            let expected = get(plain.address, url).await;
            let response = get(debug.address, url).await;
            assert_eq!(response.header("latemux-cache"), cache, "{url}");
            let requests = counting.take().len();
            assert_eq!(response.header("latemux-storage-requests"), requests.to_string(), "{url}");
            assert_eq!(requests > 0, ["filled", "bypassed;off"].contains(&cache), "{url}");
            let timing = response.header("server-timing").to_owned();
            for entry in timing.split(", ") {
                let (name, dur) = entry.split_once(";dur=").unwrap();
                assert!(["route", "title", "plan", "read"].contains(&name), "{timing}");
                assert!(dur.parse::<f64>().unwrap() < 60_000.0 && dur.split('.').nth(1).unwrap().len() == 3);
            }
            let stages = if cache.starts_with("bypassed") { 4 } else { 1 };
            assert!(timing.split(", ").count() >= stages, "{url}: {timing}");
            assert_eq!((response.status, &response.body), (expected.status, &expected.body));
            let mut headers = response.lasting_headers();
            for name in added {
                assert!(
                    headers.remove(name).is_some() && expected.headers.get(name).is_none(),
                    "{url}: {name}"
                );
            }
            let exposed = response.header("access-control-expose-headers").to_owned();
            assert_eq!(
                exposed,
                format!(
                    "{}, Latemux-Cache, Latemux-Storage-Requests",
                    expected.header("access-control-expose-headers")
                )
            );
            headers.insert(
                "access-control-expose-headers",
                expected.headers["access-control-expose-headers"].clone(),
            );
            assert_eq!(headers, expected.lasting_headers(), "{url}");
        }
    }
}

#[tokio::test]
async fn the_public_address_serves_no_admin_urls() {
    let server = Server::start(library()).await;
    for url in ["/metrics", "/purge?base=harbour"] {
        assert_eq!(get(server.address, url).await.status, 404, "{url}");
        let posted = send(server.address, Method::POST, url, &[]).await.unwrap();
        assert_eq!(posted.status, 405, "{url}");
    }
    for url in ["/", "/harbour/.mpd", "/api/library", "/healthz", "/nope"] {
        assert_eq!(get(server.admin, url).await.status, 404, "{url}");
    }
    for url in ["/metrics", "/healthz/live", "/healthz/ready"] {
        let response = get(server.admin, url).await;
        assert_eq!(
            (response.status.as_u16(), response.header("access-control-allow-origin")),
            (200, ""),
            "{url}"
        );
        let head = send(server.admin, Method::HEAD, url, &[]).await.unwrap();
        assert_eq!((head.status.as_u16(), head.body.len()), (200, 0));
        assert_eq!(send(server.admin, Method::POST, url, &[]).await.unwrap().status, 405);
    }
    assert_eq!(get(server.admin, "/purge?base=harbour").await.status, 405);
    // Responses of the admin address are not counted.
    assert!(!scrape(&server).await.keys().any(|name| name.contains("page")));
}

#[tokio::test]
async fn metrics_are_served_while_draining() {
    let faults = Faults::default();
    let mut server = Server::start(faults.over(library())).await;
    fetch(server.address, SEGMENT).await;
    let gate = Gate::new();
    faults.set([Fault::WaitAfter(1000, gate.clone())]);
    let body = open(server.address, Method::GET, SEGMENT, &[]).await.unwrap().into_body();
    assert_eq!(get(server.admin, "/healthz/ready").await.status, 200);
    server.shut_down();
    while get(server.admin, "/healthz/ready").await.status != 503 {
        tokio::task::yield_now().await;
    }
    assert_eq!(get(server.admin, "/healthz/live").await.status, 200);
    assert_eq!(value(&scrape(&server).await, "latemux_requests_in_flight", &[]), 1.0);
    gate.open();
    body.collect().await.unwrap();
    server.stopped().await;
}

async fn purge(admin: SocketAddr, base: &str, headers: &[(&str, &str)]) -> FullResponse {
    send(admin, Method::POST, &format!("/purge?base={base}"), headers).await.unwrap()
}

#[tokio::test]
async fn only_a_purged_title_is_read_again() {
    let counting = Arc::new(Counting::new(library(), Duration::ZERO));
    let server = Server::start(counting.clone()).await;
    let manifests = ["/harbour/.mpd", "/harbour/.m3u8", "/buoy.mp4/.mpd"];
    for url in manifests {
        fetch(server.address, url).await;
    }
    let cold = counting.take().len();
    // A page of another site may not purge.
    assert_eq!(purge(server.admin, "harbour", &[("origin", "https://evil.example")]).await.status, 403);
    fetch(server.address, "/harbour/.mpd").await;
    assert!(counting.take().is_empty());

    let response = purge(server.admin, "%2Fharbour", &[]).await;
    assert_eq!(response.status, 200);
    let said = "{\"base\":\"harbour\",\"titles\":1,\"indexes\":5,\"indexes_on_disk\":0,\"manifests\":2,\"ranges\":0}\n";
    assert_eq!(std::str::from_utf8(&response.body).unwrap(), said);
    fetch(server.address, "/buoy.mp4/.mpd").await;
    assert!(counting.take().is_empty(), "another title was read again");
    fetch(server.address, "/harbour/.mpd").await;
    assert!(counting.take().len() >= 6 && cold > 6);
    fetch(server.address, "/harbour/.m3u8").await;
    assert!(counting.take().is_empty(), "the title was read twice");

    for (base, status) in [("nothing", 200), ("%ff", 400)] {
        assert_eq!(purge(server.admin, base, &[]).await.status, status);
    }
    assert_eq!(send(server.admin, Method::POST, "/purge", &[]).await.unwrap().status, 400);
}

#[tokio::test]
async fn the_operators_table_lists_every_metric() {
    let server = Server::start(library()).await;
    everything(&server).await;
    let table = include_str!("../../../../docs/operating.md");
    let text = get(server.admin, "/metrics").await.body;
    let text = std::str::from_utf8(&text).unwrap();
    let mut families = 0;
    for family in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")) {
        let (name, kind) = family.split_once(' ').unwrap();
        let suffix = match kind {
            "counter" => "_total",
            "info" => "_info",
            _ => "",
        };
        assert!(table.contains(&format!("`{name}{suffix}`")), "{name}{suffix}");
        families += 1;
    }
    assert!(families > 25, "{families}");
}
