//! What a segment takes of the allocator: a count of its own test binary, for nothing else may allocate meanwhile.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
#![allow(clippy::print_stdout, reason = "figures for people")]

use latemux_cache::{Cache, Config};
use latemux_origin::{Origin, OriginConfig, Resources};
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
use tokio::net::TcpListener;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Most allocations for one segment, request to last byte; in an interleaved file too, where it is some hundred slices.
const MOST: usize = 40;
const TIMES: usize = 50;

/// Asks for a URL over and over on one connection; what each answer took, and how long it was.
fn cost(stream: &mut TcpStream, url: &str) -> (Stats, usize) {
    let request = format!("GET {url} HTTP/1.1\r\nhost: test\r\n\r\n");
    let mut buffer = vec![0; 64 << 10];
    let mut length = 0;
    let mut ask = |stream: &mut TcpStream| {
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
    // What is remembered is remembered then.
    (0..5).for_each(|_| ask(stream));
    let region = Region::new(ALLOCATOR);
    (0..TIMES).for_each(|_| ask(stream));
    (region.change(), length)
}

#[test]
fn few_and_none_that_grows_with_the_segment() {
    let source = Memory::new();
    let titles = [
        ("small.mp4", recipe::avc("allocations-small", "64x36", "")),
        ("large.mp4", recipe::avc("allocations-large", "640x360", "-crf 8")),
        ("muxed.mp4", recipe::avc_aac("allocations-muxed", "-crf 8")),
    ];
    for (name, file) in &titles {
        source.put(Key::new(name).unwrap(), fs::read(file).unwrap());
    }
    // One thread serves, this one asks.
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let cache = Some(Cache::open(Config { memory: 256 << 20, ..Config::default() }).unwrap());
    let resources = Resources { cache, ..Resources::default() };
    let origin = Origin::with_resources(Arc::new(source), resources, OriginConfig::default());
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    let serving = origin.clone();
    runtime.spawn(async move { serving.serve(listener, None, std::future::pending()).await });
    let mut stream = TcpStream::connect(address).unwrap();
    let mut costs = Vec::new();
    for (name, _) in &titles {
        let track = runtime.block_on(origin.title(name)).unwrap().title.tracks[0].name.clone();
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
    // As many samples: what is written of them is the same, what is sent of them is not.
    assert!(large.1 < small.1 + 8_000, "{large:?} {small:?}");
}
