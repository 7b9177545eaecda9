//! Long reads of storage 40 ms away, over one connection and over several.

use crate::{
    keep,
    server::{FILE, Server},
};
use futures_util::StreamExt as _;
use latemux_link::network::{Enclosure, Host, Line, Network};
use latemux_storage::{Key, Options, ReadRequest, StreamCount};
use std::{fmt::Write as _, ops::Range, sync::Arc, time::Duration};
use tokio::time::Instant;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

const AWAY: Duration = Duration::from_millis(40);
/// Bytes of a read: a segment.
const SEGMENT: usize = 2_000_000;
/// Reads in which the number of streams is chosen, and the measured ones after them.
const CHOOSING: usize = 24;
const ROUNDS: usize = 21;
/// Bytes per second of the line: 1 Gbit/s.
const RATE: u64 = 125_000_000;
/// Share of a time by which a measurement may be off.
const NOISE: f64 = 0.08;
/// The most time over kept connections, compared with one request.
const MOST_KEPT: f64 = 1.0 + NOISE;
/// The most time to the first byte, compared with one request.
const MOST_FIRST_BYTE: f64 = 1.0 + NOISE;

/// A way of reading that is judged.
struct Setting {
    streams: StreamCount,
    kib: u64,
    /// The most time over fresh connections, compared with one request. TCP needs 9 round trips for
    /// the plain read, and 7 for a third or a quarter of it.
    most_fresh: f64,
}

fn settings() -> [Setting; 2] {
    [
        Setting { streams: StreamCount::Auto, kib: Options::default().chunk >> 10, most_fresh: 0.6 },
        Setting { streams: StreamCount::AtMost(4), kib: 512, most_fresh: 0.95 },
    ]
}

/// Medians of reads, in milliseconds.
#[derive(Clone, Copy)]
struct Times {
    whole: f64,
    first_byte: f64,
}

/// The storage, seen from the host that reads.
struct Storage<'a> {
    reader: &'a Host,
    location: String,
    media: Arc<[u8]>,
}

/// Measures reads with fresh and with kept connections. Returns false if they are too slow.
pub(crate) fn run(enclosure: &Enclosure) -> bool {
    let mut network = Network::new(enclosure);
    let host = network.host("storage").unwrap();
    let reader = network.host("origin").unwrap();
    let line = Line { rate: Some(RATE), round_trip: AWAY, ..Line::default() };
    let cable = network.connect(&host, &reader, line).unwrap();
    let media = media((CHOOSING + ROUNDS) * SEGMENT);
    let _server = Server::of_media(&host, &media);
    let storage = Storage { reader: &reader, location: format!("http://{}/", cable.first), media };
    let mut csv = "connections,streams,chunk_bytes,median_ms,first_byte_ms,by_one_request\n".to_owned();
    let mut passed = true;
    for (connections, reuse) in [("fresh", false), ("kept", true)] {
        let mut row = |streams: StreamCount, chunk: u64, times: Times, plain: Times| {
            let Times { whole, first_byte } = times;
            let ratio = whole / plain.whole;
            let row = format!("{connections},{streams},{chunk},{whole:.1},{first_byte:.1},{ratio:.2}");
            println!("{row}");
            writeln!(csv, "{row}").unwrap();
        };
        let options = |streams, chunk| Options {
            streams,
            chunk,
            reuse_connections: reuse,
            connections_ahead: 0,
            ..Options::default()
        };
        let chunk = Options::default().chunk;
        let plain = storage.measure(options(StreamCount::AtMost(1), chunk));
        row(StreamCount::AtMost(1), chunk, plain, plain);
        for Setting { streams, kib, most_fresh } in settings() {
            let times = storage.measure(options(streams, kib << 10));
            row(streams, kib << 10, times, plain);
            let most = if reuse { MOST_KEPT } else { most_fresh };
            let name = format!("{connections}, {streams} x {kib} KiB");
            passed &= holds(&name, times.whole / plain.whole, most);
            let name = format!("{name}, first byte");
            passed &= holds(&name, times.first_byte / plain.first_byte, MOST_FIRST_BYTE);
        }
    }
    keep("storage", &csv);
    passed
}

fn holds(name: &str, ratio: f64, most: f64) -> bool {
    let holds = ratio <= most;
    println!("{} {name}: {ratio:.2}, at most {most:.2}", if holds { "ok  " } else { "MISS" });
    holds
}

/// Returns bytes that differ from place to place.
fn media(bytes: usize) -> Arc<[u8]> {
    let words = (0..bytes.div_ceil(8) as u64).map(|word| xxh3_64(&word.to_le_bytes()).to_le_bytes());
    let mut media: Vec<u8> = words.flatten().collect();
    media.truncate(bytes);
    media.into()
}

impl Storage<'_> {
    /// Reads segment after segment.
    fn measure(&self, options: Options) -> Times {
        let (location, media) = (self.location.clone(), Arc::clone(&self.media));
        let reads = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(reads(&location, &media, &options))
        };
        self.reader.thread(reads).unwrap().join().unwrap().unwrap()
    }
}

/// Reads segment after segment, and checks the bytes. The first reads choose the number of streams.
async fn reads(location: &str, media: &[u8], options: &Options) -> Times {
    let storage = latemux_storage::open(location, options).unwrap();
    let key = Key::new(FILE).unwrap();
    let version = storage.read(ReadRequest::head(&key, 1)).await.unwrap().object.version;
    let (mut wholes, mut firsts) = (Vec::new(), Vec::new());
    for round in 0..CHOOSING + ROUNDS {
        let Range { start, end } = round * SEGMENT..(round + 1) * SEGMENT;
        let begun = Instant::now();
        let request = ReadRequest::range(&key, start as u64..end as u64).pinned(&version);
        let mut read = storage.read(request).await.unwrap();
        let mut frames = Vec::new();
        let mut first = None;
        while let Some(frame) = read.body.next().await {
            first.get_or_insert_with(|| begun.elapsed());
            frames.push(frame.unwrap());
        }
        let whole = begun.elapsed();
        let mut digest = Xxh3::new();
        frames.iter().for_each(|frame| digest.update(frame));
        assert_eq!(digest.digest(), xxh3_64(&media[start..end]), "other bytes in segment {round}");
        if round >= CHOOSING {
            wholes.push(whole);
            firsts.push(first.unwrap());
        }
    }
    Times { whole: median(wholes), first_byte: median(firsts) }
}

/// Returns the median in milliseconds.
fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1000.0
}
