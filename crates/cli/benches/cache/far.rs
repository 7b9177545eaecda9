//! Rows with a round trip of 40 ms to storage.

use crate::{
    Bench,
    catalogue::{Protocol, Title, Track},
    connection::{Connection, Response},
    media::Layout,
    origin::Origin,
    report::{Limit, Report},
};
use latemux_testmedia::{
    net::{Distance, Link},
    recipe,
};
use std::{
    net::SocketAddr,
    path::PathBuf,
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

const AWAY: Duration = Duration::from_millis(40);
const RENDITIONS: usize = 8;
const ROUNDS: usize = 15;
/// Number of processes whose first request is measured.
const STARTS: usize = 5;
/// Time from the start of a process to its first request, in which it opens connections.
const SETTLED: Duration = Duration::from_millis(500);

/// A server behind a long link.
pub(crate) struct Far {
    link: Link,
    // Dropped after the link, whose drop ends tasks of this runtime.
    _runtime: Runtime,
}

impl Far {
    /// Adds a round trip to a server, and a limit of the rate in bytes per second.
    pub(crate) fn away(server: SocketAddr, round_trip: Duration, rate: Option<u64>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let distance = Distance { round_trip, rate, burst: 32 << 10 };
        let link = runtime.block_on(Link::to(server, distance)).unwrap();
        Self { link, _runtime: runtime }
    }

    /// Returns the location for `latemux serve`.
    pub(crate) fn location(&self) -> String {
        format!("http://{}/", self.link.address)
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.link.address
    }
}

/// Measures the manifest of a title with eight renditions that is not indexed yet.
pub(crate) fn manifest(bench: &Bench, report: &mut Report) {
    let far = Far::away(bench.nginx.address(), AWAY, None);
    let clip = |n: usize, more: &str| {
        let width = 128 + 32 * n;
        let height = 72 + 18 * n;
        // In half of the files, the moov is first.
        let place = if n.is_multiple_of(2) { "-movflags +faststart" } else { "" };
        recipe::avc("bench-cache-far", &format!("{width}x{height}"), &format!("{more} {place}"))
    };
    let hours = |n: usize| {
        let place = if n.is_multiple_of(2) { "-movflags +faststart" } else { "" };
        let loops = format!("-stream_loop 599 -i {} -c copy {place}", clip(n, "").display());
        recipe::make("bench-cache-far-hours", "mp4", &loops)
    };
    let short: Vec<PathBuf> = (1..=RENDITIONS).map(|n| clip(n, "")).collect();
    let long: Vec<PathBuf> = (1..=RENDITIONS).map(hours).collect();
    for (what, files, limit, first_limit) in [
        ("12 s", &short, Limit::AtMost(100.0), Limit::AtMost(130.0)),
        ("two hours", &long, Limit::None, Limit::None),
    ] {
        let list: String = (1..=RENDITIONS).map(|n| format!(",{n}")).collect();
        for round in 0..ROUNDS + STARTS {
            for (n, file) in (1..).zip(files) {
                bench.library.link(file, &format!("far-{what}{round}-{n}.mp4").replace(' ', "-"));
            }
        }
        let url = |round: usize| format!("/far-{what}{round}-{list},.mp4.urlset/.mpd").replace(' ', "-");
        let mut firsts = Vec::new();
        for start in 0..STARTS {
            let origin = Origin::start(&far.location(), "", &bench.with);
            std::thread::sleep(SETTLED);
            let mut connection = Connection::to(origin.address);
            firsts.push(connection.get(&url(ROUNDS + start)).whole);
        }
        let origin = Origin::start(&far.location(), "", &bench.with);
        let mut connection = Connection::to(origin.address);
        let mark = bench.nginx.mark();
        let times: Vec<_> = (0..ROUNDS).map(|round| connection.get(&url(round)).whole).collect();
        let requests = bench.nginx.since(mark).len() / ROUNDS;
        let most = |times: &[Duration]| ms(times.iter().copied().max().unwrap());
        let what = format!("DASH, {RENDITIONS} renditions of {what}");
        let note = format!("median of {ROUNDS}, most {:.1}; {requests} requests", most(&times));
        report.line(&what, ms(median(&times)), "ms", limit, &note);
        let note = format!("median of {STARTS} processes, most {:.1}", most(&firsts));
        let first = format!("{what}, first request of a process");
        report.line(&first, ms(median(&firsts)), "ms", first_limit, &note);
    }
}

/// State of the index when a segment is requested.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// All samples are indexed.
    Samples,
    /// Only the positions of fragments are known. Their `moof`s are read with the media, and the
    /// head of a response needs them.
    Fragments,
}

/// Measures an uncached segment of 2 MB: its head, and the whole segment compared with a plain GET
/// of as many bytes over an open connection.
pub(crate) fn segment(bench: &Bench, report: &mut Report) {
    // The links of the published tests, and no link, where only the additional hop is measured.
    for (line, rate) in
        [("1 Gbit/s", Some(125_000_000)), ("100 Mbit/s", Some(12_500_000)), ("no limit", None)]
    {
        let far = Far::away(bench.nginx.address(), AWAY, rate);
        for title in bench.titles().iter().filter(|title| Layout::MEASURED.contains(&title.layout)) {
            let fragmented = title.fragments > 0;
            for protocol in &title.protocols {
                // A slow link allows fewer rounds.
                if line != "1 Gbit/s" && !matches!(protocol.name, "DASH" | "HLS TS") {
                    continue;
                }
                // Each round reads another copy. Fragments are not cached, so a second read of them
                // is uncached again.
                let prefix =
                    format!("far-{:?}-{}-{line}", title.layout, protocol.name).replace([' ', '/'], "-");
                let cold = Cold { bench, far: &far, title, protocol, prefix };
                let config = if fragmented { "[cache]\nmemory = \"0\"" } else { "" };
                let origin = Origin::start(&far.location(), config, &bench.with);
                let knowns: &[Known] =
                    if fragmented { &[Known::Fragments, Known::Samples] } else { &[Known::Samples] };
                for known in knowns {
                    cold.measure(report, &origin, line, *known);
                }
            }
        }
    }
}

struct Cold<'a> {
    bench: &'a Bench,
    far: &'a Far,
    title: &'a Title,
    protocol: &'a Protocol,
    prefix: String,
}

impl Cold<'_> {
    fn measure(&self, report: &mut Report, origin: &Origin, line: &str, known: Known) {
        let Self { bench, far, title, protocol, prefix } = self;
        let copy = bench.library.title(title.layout, prefix);
        let url = |path: &str| path.replacen(&title.path, &copy.path, 1);
        let mut connection = Connection::to(origin.address);
        protocol.others.iter().for_each(|other| {
            connection.get(&url(other));
        });
        let source = bench.library.muxed();
        let size = source.metadata().unwrap().len();
        bench.library.link(source, &format!("{prefix}-plain.mp4"));
        let mut plain = Connection::to(far.address());
        // The highest rendition.
        let videos: Vec<&Track> = protocol.tracks.iter().filter(|track| track.video).collect();
        let largest = |n: &usize| videos[*n].segments.iter().map(|segment| segment.length).max();
        let rendition = (0..videos.len()).max_by_key(largest).unwrap();
        let track = videos[rendition];
        // The last segment is shorter in some protocols.
        let segments = &track.segments[..track.segments.len() - 1];
        let (mut responses, mut plains): (Vec<Response>, Vec<Response>) = (Vec::new(), Vec::new());
        for (n, segment) in segments.iter().enumerate() {
            let response = connection.get(&url(&segment.url));
            assert_eq!(
                (response.length, response.digest),
                (segment.length, segment.digest),
                "{}",
                segment.url
            );
            origin.quiet();
            // As many bytes as the samples have. A TS segment has more.
            let length = title.payload(rendition, track.audio, n);
            let start = (n as u64 * length) % (size - length);
            let plain_response = plain.request(&format!("/{prefix}-plain.mp4"), Some(start..start + length));
            assert_eq!((plain_response.status, plain_response.length), (206, length));
            responses.push(response);
            plains.push(plain_response);
        }
        // The first round only opened connections.
        let times = |responses: &[Response], of: fn(&Response) -> Duration| -> Vec<Duration> {
            responses.iter().skip(1).map(of).collect()
        };
        let head = times(&responses, |response| response.first);
        let whole = times(&responses, |response| response.whole);
        let direct = times(&plains, |response| response.whole);
        let unknown = if known == Known::Fragments { ", fragments not read before" } else { "" };
        let what = format!("{}, {}, {line}{unknown}", title.layout.name(), protocol.name);
        let note = format!("median of {}, most {:.2}", head.len(), ms(head.iter().copied().max().unwrap()));
        let limit = |limit| if known == Known::Fragments { Limit::None } else { limit };
        report.line(&format!("head: {what}"), ms(median(&head)), "ms", limit(Limit::AtMost(2.0)), &note);
        let limit = if line == "no limit" { Limit::None } else { Limit::AtMost(1.05) };
        let whole = ms(median(&whole));
        let direct = ms(median(&direct));
        let note = format!("{whole:.1} ms, plain GET {direct:.1} ms");
        report.line(&format!("whole by plain GET: {what}"), whole / direct, "", limit, &note);
    }
}

/// Returns the median of the times.
pub(crate) fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort_unstable();
    times[times.len() / 2]
}

pub(crate) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

/// Returns the time that `work` took, and its result.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let begun = Instant::now();
    let done = work();
    (begun.elapsed(), done)
}
