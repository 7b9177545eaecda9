//! Long reads of storage 40 ms away, over one connection and over several.

use crate::{
    keep,
    server::{FILE, Server},
};
use futures_util::StreamExt as _;
use latemux_link::network::{Enclosure, Line, Network};
use latemux_storage::{Key, Options, ReadRequest, StreamCount};
use std::{fmt::Write as _, time::Duration};
use tokio::time::Instant;

const AWAY: Duration = Duration::from_millis(40);
/// Bytes of a read: a segment.
const SEGMENT: u64 = 2_000_000;
const ROUNDS: usize = 21;
/// Bytes per second of the line: 1 Gbit/s.
const RATE: u64 = 125_000_000;
/// The most time over fresh connections, compared with one request.
const MOST_FRESH: f64 = 0.6;
/// The same over kept connections.
const MOST_KEPT: f64 = 1.05;

/// Measures reads with fresh and with kept connections. Returns false if they are too slow.
pub(crate) fn run(enclosure: &Enclosure) -> bool {
    let mut network = Network::new(enclosure);
    let host = network.host("storage").unwrap();
    let client = network.host("origin").unwrap();
    let line = Line { rate: Some(RATE), round_trip: AWAY, ..Line::default() };
    let cable = network.connect(&host, &client, line).unwrap();
    let _server = Server::start(&host, SEGMENT * (ROUNDS as u64 + 10));
    let location = format!("http://{}/", cable.first);
    let mut csv = "connections,streams,chunk_bytes,median_ms,first_byte_ms,by_one_request\n".to_owned();
    let mut passed = true;
    for (connections, reuse, most) in [("fresh", false, MOST_FRESH), ("kept", true, MOST_KEPT)] {
        let mut one = None;
        let mut best = f64::INFINITY;
        let settings = [
            (StreamCount::AtMost(1), 512),
            (StreamCount::Auto, 512),
            (StreamCount::AtMost(4), 512),
            (StreamCount::AtMost(8), 256),
            (StreamCount::AtMost(16), 128),
        ];
        for (streams, kib) in settings {
            let options = Options {
                streams,
                chunk: kib << 10,
                reuse_connections: reuse,
                connections_ahead: 0,
                ..Options::default()
            };
            let location = location.clone();
            let reads = move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(reads(&location, &options))
            };
            let (whole, first) = client.thread(reads).unwrap().join().unwrap().unwrap();
            let ratio = whole / *one.get_or_insert(whole);
            best = best.min(if streams == StreamCount::AtMost(1) { best } else { ratio });
            let row = format!("{connections},{streams},{},{whole:.1},{first:.1},{ratio:.2}", kib << 10);
            println!("{row}");
            writeln!(csv, "{row}").unwrap();
        }
        let holds = best <= most;
        passed &= holds;
        println!("{} {connections}: {best:.2}, at most {most}", if holds { "ok  " } else { "MISS" });
    }
    keep("storage", &csv);
    passed
}

/// Returns the medians of the time of a whole read and of the time to its first byte, in
/// milliseconds. The first reads choose the number of streams.
async fn reads(location: &str, options: &Options) -> (f64, f64) {
    let storage = latemux_storage::open(location, options).unwrap();
    let key = Key::new(FILE).unwrap();
    let version = storage.read(ReadRequest::head(&key, 1)).await.unwrap().object.version;
    let mut wholes = Vec::new();
    let mut firsts = Vec::new();
    for round in 0..ROUNDS as u64 + 7 {
        let begun = Instant::now();
        let request = ReadRequest::range(&key, round * SEGMENT..(round + 1) * SEGMENT).pinned(&version);
        let mut read = storage.read(request).await.unwrap();
        let mut bytes = 0;
        let mut first = None;
        while let Some(frame) = read.body.next().await {
            first.get_or_insert_with(|| begun.elapsed());
            bytes += frame.unwrap().len() as u64;
        }
        assert_eq!(bytes, SEGMENT);
        if round >= 7 {
            wholes.push(begun.elapsed());
            firsts.push(first.unwrap());
        }
    }
    let median = |times: &mut Vec<Duration>| {
        times.sort_unstable();
        times[times.len() / 2].as_secs_f64() * 1000.0
    };
    (median(&mut wholes), median(&mut firsts))
}
