//! Allocations for one segment, and the memory of a title. A test binary of its own, because
//! nothing else may allocate meanwhile: each test is a process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "prints figures")]

use bytes::Bytes;
use latemux_cache::{Cache, Config};
use latemux_origin::{
    Origin, OriginConfig, Resources,
    config::{DrmRule, KeysConfig},
};
use latemux_packager::{Address, Resource};
use latemux_storage::{Key, Memory};
use latemux_testmedia::recipe;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};
use std::{
    alloc::System,
    fs,
    io::{Read, Write},
    net::TcpStream,
    sync::Arc,
};
use tokio::{net::TcpListener, runtime::Runtime};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Most allocations for one segment, from the request to the last byte. It holds for interleaved
/// files too, whose segments are some hundred slices.
const MOST: usize = 40;
/// The same for an encrypted segment.
const MOST_ENCRYPTED: usize = 60;
const TIMES: usize = 50;

/// Requests a URL many times on one connection. Returns the allocations of all requests, and the
/// length of the body.
fn cost(stream: &mut TcpStream, url: &str) -> (Stats, usize) {
    let request = format!("GET {url} HTTP/1.1\r\nhost: test\r\n\r\n");
    let mut buffer = vec![0; 64 << 10];
    let mut length = 0;
    let mut request_once = |stream: &mut TcpStream| {
        stream.write_all(request.as_bytes()).unwrap();
        let mut have = 0;
        let head = loop {
            have += stream.read(&mut buffer[have..]).unwrap();
            if let Some(end) = buffer[..have].windows(4).position(|w| w == b"\r\n\r\n") {
                break end + 4;
            }
        };
        let text = std::str::from_utf8(&buffer[..head]).unwrap();
        assert!(text.starts_with("HTTP/1.1 200"), "{text}");
        let name = "content-length: ";
        let from = text.find(name).unwrap() + name.len();
        length = text[from..].split('\r').next().unwrap().parse().unwrap();
        let mut left = length - (have - head);
        while left > 0 {
            left -= stream.read(&mut buffer).unwrap();
        }
    };
    // Fills the caches.
    (0..5).for_each(|_| request_once(stream));
    let region = Region::new(ALLOCATOR);
    (0..TIMES).for_each(|_| request_once(stream));
    (region.change(), length)
}

/// Most bytes of memory for a title of two minutes, its file, its index, and what remains of it
/// when it leaves memory. Sizes of samples take most of them.
const MOST_OF_A_TITLE: usize = 15_100;
const TITLES: usize = 40;

/// Returns the bytes that the caches of titles, resting titles and files count, from the metrics.
fn counted(admin: std::net::SocketAddr) -> usize {
    let mut stream = TcpStream::connect(admin).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("latemux_cache_bytes{"));
    let caches = ["\"titles\"", "\"resting\"", "\"objects\""];
    let of_titles = lines.filter(|line| caches.iter().any(|cache| line.contains(cache)));
    of_titles.map(|line| line.rsplit(' ').next().unwrap().parse::<usize>().unwrap()).sum()
}

/// The index of a title was counted twice, but held once, so that half of the memory stayed unused.
#[test]
fn a_title_in_memory_is_counted_once_and_as_it_is() {
    let inputs = "-f lavfi -i testsrc2=size=64x36:rate=25:duration=120 \
                  -f lavfi -i sine=frequency=440:sample_rate=48000:duration=120";
    let args = format!("{inputs} {} {}", recipe::AVC, recipe::AAC);
    let film = Bytes::from(fs::read(recipe::make("allocations-two-minutes", "mp4", &args)).unwrap());
    let source = Memory::new();
    let name = |number: usize| format!("film-{number:02}.mp4");
    (0..=TITLES).for_each(|number| drop(source.put(Key::new(&name(number)).unwrap(), film.clone())));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let origin = Origin::new(Arc::new(source), OriginConfig::default());
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let admin = listener.local_addr().unwrap();
    let serving = origin.clone();
    runtime.spawn(async move { serving.serve_admin(listener, None).await });
    let load = |number| drop(runtime.block_on(origin.title(&name(number))).unwrap());
    load(0);
    let counted_before = counted(admin);
    let region = Region::new(ALLOCATOR);
    (1..=TITLES).for_each(load);
    let change = region.change();
    let held = (change.bytes_allocated - change.bytes_deallocated) / TITLES;
    let counted = (counted(admin) - counted_before) / TITLES;
    println!("{held} B held and {counted} B counted for each title");
    // The caches count what they hold, except for the room of some small lists.
    assert!(counted.abs_diff(held) * 100 <= 3 * held, "{held} B held, but {counted} B counted");
    assert!(held <= MOST_OF_A_TITLE, "{held} B");
}

/// Serves a storage with a range cache. One thread serves; the caller is the client.
fn serve(source: Arc<Memory>, config: OriginConfig) -> (Runtime, Origin, TcpStream) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let cache = Some(Cache::open(Config { memory: 256 << 20, ..Config::default() }).unwrap());
    let resources = Resources { cache, ..Resources::default() };
    let origin = Origin::with_resources(source, resources, config);
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let serving = origin.clone();
    runtime.spawn(async move { serving.serve(listener, None, std::future::pending()).await });
    (runtime, origin, TcpStream::connect(address).unwrap())
}

#[test]
fn a_segment_takes_few_allocations_whatever_its_length() {
    let source = Memory::new();
    let titles = [
        ("small.mp4", recipe::avc("allocations-small", "64x36", "")),
        ("large.mp4", recipe::avc("allocations-large", "640x360", "-crf 8")),
        ("muxed.mp4", recipe::avc_aac("allocations-muxed", "-crf 8")),
    ];
    for (name, file) in &titles {
        source.put(Key::new(name).unwrap(), fs::read(file).unwrap());
    }
    let (runtime, origin, mut stream) = serve(Arc::new(source), OriginConfig::default());
    let mut costs = Vec::new();
    for (name, _) in &titles {
        let track = runtime.block_on(origin.title(name)).unwrap().title.tracks()[0].name.clone();
        let (stats, length) =
            cost(&mut stream, &Address::new(*name, Resource::DashSegment(track, 2)).to_url());
        let count = (stats.allocations + stats.reallocations) / TIMES;
        let bytes = stats.bytes_allocated / TIMES;
        println!("{name}: {length} B in {count} allocations of {bytes} B together");
        costs.push((count, bytes, length));
    }
    let [small, large, muxed] = costs[..] else { unreachable!() };
    assert!(large.2 > 20 * small.2, "{large:?} {small:?}");
    for (count, bytes, length) in [small, large] {
        assert!(count <= MOST, "{count} allocations");
        assert!(bytes < 30_000, "{bytes} B allocated for {length} B");
    }
    assert!(muxed.0 <= MOST && muxed.1 < 60_000, "{muxed:?}");
    // Both titles have the same number of samples, so that only the bytes sent differ.
    assert!(large.1 < small.1 + 8_000, "{large:?} {small:?}");
}

#[test]
fn an_encrypted_segment_takes_few_allocations_in_each_scheme() {
    let source = Memory::new();
    let titles = [
        ("small.mp4", recipe::avc("allocations-small", "64x36", "")),
        ("middle.mp4", recipe::avc("allocations-middle", "640x360", "-crf 28")),
        ("large.mp4", recipe::avc("allocations-large", "640x360", "-crf 8")),
        ("muxed.mp4", recipe::avc_aac("allocations-muxed", "-crf 8")),
    ];
    for (name, file) in &titles {
        source.put(Key::new(name).unwrap(), fs::read(file).unwrap());
    }
    let source = Arc::new(source);
    let keys = tempfile::NamedTempFile::new().unwrap();
    let entry = format!(r#"{{"keys":[{{"kid":"{}","key":"{}"}}]}}"#, "1".repeat(32), "2".repeat(32));
    fs::write(keys.path(), entry).unwrap();
    let scheme = |name: &str| Some(name.to_owned());
    let rule = |dash, hls_fmp4, hls_ts| DrmRule {
        titles: vec!["**".to_owned()],
        dash: scheme(dash),
        hls_fmp4: scheme(hls_fmp4),
        hls_ts: scheme(hls_ts),
        serve_keys: scheme("open"),
        keys: KeysConfig { file: Some(keys.path().to_owned()), ..KeysConfig::default() },
        ..DrmRule::default()
    };
    let config = |rule| OriginConfig { drm: vec![rule], ..OriginConfig::default() };
    let mut excess = Vec::new();
    for rule in [rule("cenc", "cbcs", "sample-aes"), rule("cbcs", "aes-128", "aes-128")] {
        let schemes = [&rule.dash, &rule.hls_fmp4, &rule.hls_ts].map(|name| name.clone().unwrap());
        let (runtime, origin, mut stream) = serve(source.clone(), config(rule));
        for (name, _) in &titles {
            let title = runtime.block_on(origin.title(name)).unwrap();
            let tracks: Vec<_> = title.title.tracks().iter().map(|track| track.name.clone()).collect();
            let [dash, cmaf, ts] = &schemes;
            let mut segments: Vec<_> = tracks
                .iter()
                .flat_map(|track| {
                    [
                        (dash, Resource::DashSegment(track.clone(), 2)),
                        (cmaf, Resource::HlsSegment(vec![track.clone()], 2)),
                        (ts, Resource::HlsTsSegment(vec![track.clone()], 2)),
                    ]
                })
                .collect();
            segments.extend((tracks.len() > 1).then(|| (ts, Resource::HlsTsSegment(tracks.clone(), 2))));
            for (scheme, resource) in segments {
                let url = Address::new(*name, resource).to_url();
                let (stats, length) = cost(&mut stream, &url);
                let count = (stats.allocations + stats.reallocations) / TIMES;
                println!("{url}, {scheme}: {length} B in {count} allocations");
                if count > MOST_ENCRYPTED {
                    excess.push(format!("{url}, {scheme}: {count} allocations"));
                }
            }
        }
    }
    assert!(excess.is_empty(), "{excess:#?}");
}
