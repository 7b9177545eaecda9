//! Rows that count requests and bytes.

use crate::{
    Bench,
    catalogue::{PROTOCOLS, Protocol, Title},
    connection::Connection,
    media::Layout,
    nginx::{self, Request},
    origin::Origin,
    report::{Limit, Report},
    restart::on_disk,
};
use std::collections::BTreeSet;

/// A configuration that caches indexes but no media.
const INDEX_ONLY: &str = "[cache]\nmemory = \"0\"";

/// Requests the manifests and init segments of one protocol, so that its segments are measured with
/// the index in memory.
fn prepare(connection: &mut Connection, protocol: &Protocol) {
    for url in &protocol.others {
        connection.get(url);
    }
}

/// Requests all segments, checks their bytes, and returns the number of bytes received.
fn play(connection: &mut Connection, protocol: &Protocol) -> u64 {
    let bodies = protocol.segments().map(|segment| {
        let response = connection.get(&segment.url);
        assert_eq!((response.length, response.digest), (segment.length, segment.digest), "{}", segment.url);
        response.length
    });
    bodies.sum()
}

/// Returns the requests to storage while `work` runs, and its result.
fn storage_requests<T>(bench: &Bench, origin: &Origin, work: impl FnOnce() -> T) -> (Vec<Request>, T) {
    origin.quiet();
    let mark = bench.nginx.mark();
    let done = work();
    origin.quiet();
    (bench.nginx.since(mark), done)
}

fn has_limits(title: &Title) -> bool {
    Layout::MEASURED.contains(&title.layout)
}

/// Counts the storage requests for each media segment with a cached index and no other cache.
pub(crate) fn requests(bench: &Bench, report: &mut Report) {
    for title in bench.titles() {
        for protocol in &title.protocols {
            let origin = bench.origin(INDEX_ONLY);
            let mut connection = Connection::to(origin.address);
            prepare(&mut connection, protocol);
            let (requests, _) = storage_requests(bench, &origin, || play(&mut connection, protocol));
            let most = if title.layout.is_separate() && protocol.is_muxed() { 2.0 } else { 1.0 };
            let limit = if has_limits(title) { Limit::AtMost(most) } else { Limit::None };
            let what = format!("{}, {}", title.layout.name(), protocol.name);
            let note = format!("{} for {} segments", requests.len(), protocol.count());
            report.line(&what, requests.len() as f64 / protocol.count() as f64, "requests", limit, &note);
        }
    }
}

/// Divides the bytes of samples by the bytes that storage sent, for a whole title played once with
/// only its index cached.
pub(crate) fn efficiency(bench: &Bench, report: &mut Report) {
    for title in bench.titles() {
        for protocol in &title.protocols {
            let origin = bench.origin("");
            let mut connection = Connection::to(origin.address);
            prepare(&mut connection, protocol);
            let (requests, sent) = storage_requests(bench, &origin, || play(&mut connection, protocol));
            let read = nginx::bytes(&requests) as f64;
            let limit = if has_limits(title) { Limit::AtLeast(0.98) } else { Limit::None };
            let note = format!(
                "{} requests for {} segments; bytes out by bytes in {:.3}",
                requests.len(),
                protocol.count(),
                sent as f64 / read
            );
            let what = format!("{}, {}", title.layout.name(), protocol.name);
            report.line(&what, title.media as f64 / read, "", limit, &note);
        }
    }
}

/// Divides the bytes of samples by the bytes that storage sent, for one segment of each of many
/// titles, with video and audio of one rendition.
pub(crate) fn random(bench: &Bench, report: &mut Report) {
    const PLACES: usize = 60;
    let seed = 0x5eed_u64;
    let mut state = seed;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).unwrap() % below
    };
    let mut all_media = 0;
    let mut all_read = 0;
    for title in bench.titles().iter().filter(|title| has_limits(title)) {
        let origin = bench.origin("");
        let mut connection = Connection::to(origin.address);
        let copies: Vec<_> = (0..PLACES)
            .map(|n| bench.library.title(title.layout, &format!("random{n}-{:?}", title.layout)).path)
            .collect();
        for copy in &copies {
            connection.get(&format!("/{copy}/.mpd"));
        }
        let (requests, media) = storage_requests(bench, &origin, || {
            let mut media = 0;
            for copy in &copies {
                let protocol = &title.protocols[random(PROTOCOLS.len())];
                let videos: Vec<_> = protocol.tracks.iter().filter(|track| track.video).collect();
                let rendition = random(videos.len());
                let place = random(videos[rendition].segments.len());
                let sound = protocol.tracks.iter().find(|track| track.audio && !track.video);
                let sound = sound.filter(|_| !videos[rendition].audio);
                for track in sound.into_iter().chain([videos[rendition]]) {
                    let segment = &track.segments[place];
                    let response = connection.get(&segment.url.replacen(&title.path, copy, 1));
                    assert_eq!(response.length, segment.length, "{}", segment.url);
                }
                media += title.payload(rendition, true, place);
            }
            media
        });
        let read = nginx::bytes(&requests);
        (all_media, all_read) = (all_media + media, all_read + read);
        let note = format!("{} requests for {PLACES} places; seed {seed:#x}", requests.len());
        let what = format!("{}, any protocol", title.layout.name());
        // Between the last video frame of a segment and its last audio frame, an interleaved MP4
        // has the first video frames of the next segment, with its large key frame. One request for
        // a segment fetches these too. A player that continues needs them.
        let limit = if title.layout == Layout::Interleaved { Limit::None } else { Limit::AtLeast(0.97) };
        report.line(&what, media as f64 / read as f64, "", limit, &note);
    }
    report.line(
        "random titles of all these",
        all_media as f64 / all_read as f64,
        "",
        Limit::AtLeast(0.97),
        "",
    );
}

/// Plays one protocol after another, with the same segment duration and with others, and after a
/// restart.
pub(crate) fn pairs(bench: &Bench, report: &mut Report) {
    for title in bench.titles().iter().filter(|title| has_limits(title)) {
        let mut requests = Vec::new();
        let mut guilty = BTreeSet::new();
        for first in &title.protocols {
            let origin = bench.origin("");
            let mut connection = Connection::to(origin.address);
            title.protocols.iter().for_each(|protocol| prepare(&mut connection, protocol));
            play(&mut connection, first);
            for second in title.protocols.iter().filter(|second| second.name != first.name) {
                let (more, _) = storage_requests(bench, &origin, || play(&mut connection, second));
                if !more.is_empty() {
                    guilty.insert(format!("{} after {}", second.name, first.name));
                }
                requests.extend(more);
            }
        }
        let what = format!("{}, 20 ordered pairs", title.layout.name());
        expect_no_requests(report, &what, &requests, &guilty);
    }
    let other_cuts: Vec<(u32, Vec<Title>)> = [2, 6, 10]
        .map(|seconds| {
            let config = format!("segment_duration = \"{seconds}s\"\n{INDEX_ONLY}");
            let origin = Origin::start(&bench.nginx.location(), &config, &[]);
            (seconds, bench.library.titles().iter().map(|stored| Title::of(&origin, stored)).collect())
        })
        .into();
    for (n, title) in bench.titles().iter().enumerate().filter(|(_, title)| has_limits(title)) {
        let mut requests = Vec::new();
        let mut guilty = BTreeSet::new();
        for first in &title.protocols {
            let dir = tempfile::tempdir_in(bench.library.root().parent().unwrap()).unwrap();
            let cache = format!("[cache]\ndir = \"{}\"\ndisk = \"1GiB\"", dir.path().display());
            let origin = bench.origin(&cache);
            let mut connection = Connection::to(origin.address);
            prepare(&mut connection, first);
            play(&mut connection, first);
            origin.quiet();
            origin.stop();
            for (seconds, titles) in &other_cuts {
                let origin = bench.origin(&format!("segment_duration = \"{seconds}s\"\n{cache}"));
                let mut connection = Connection::to(origin.address);
                titles[n].protocols.iter().for_each(|protocol| prepare(&mut connection, protocol));
                for second in &titles[n].protocols {
                    let (more, _) = storage_requests(bench, &origin, || play(&mut connection, second));
                    if !more.is_empty() {
                        guilty.insert(format!("{} of {seconds} s after {}", second.name, first.name));
                    }
                    requests.extend(more);
                }
                origin.stop();
            }
        }
        let what = format!("{}, of 2, 6, 10 s after a restart", title.layout.name());
        expect_no_requests(report, &what, &requests, &guilty);
    }
}

fn expect_no_requests(report: &mut Report, what: &str, requests: &[Request], guilty: &BTreeSet<String>) {
    for request in requests.iter().take(8) {
        println!("    unexpected request: {}", request.line);
    }
    let few: Vec<_> = guilty.iter().take(4).cloned().collect();
    report.line(what, requests.len() as f64, "requests", Limit::AtMost(0.0), &few.join(", "));
    report.line(what, nginx::bytes(requests) as f64, "bytes", Limit::AtMost(0.0), "");
}

/// Divides the bytes cached after five protocols by the source bytes that they need.
pub(crate) fn bytes(bench: &Bench, report: &mut Report) {
    for title in bench.titles().iter().filter(|title| has_limits(title)) {
        let dir = tempfile::tempdir_in(bench.library.root().parent().unwrap()).unwrap();
        let origin = bench.origin(&format!("[cache]\ndir = \"{}\"\ndisk = \"1GiB\"", dir.path().display()));
        let mut connection = Connection::to(origin.address);
        for protocol in &title.protocols {
            prepare(&mut connection, protocol);
            play(&mut connection, protocol);
        }
        origin.quiet();
        let used = (title.media + title.fragments) as f64;
        let memory = origin.metric("latemux_cache_bytes", &["cache=\"range\"", "tier=\"memory\""]);
        origin.stop();
        let disk = on_disk(dir.path()) as f64;
        for (tier, kept) in [("memory", memory), ("disk", disk)] {
            let what = format!("{}, in {tier}", title.layout.name());
            report.line(
                &what,
                kept / used,
                "",
                Limit::AtMost(1.02),
                &format!("{kept:.0} of {used:.0} bytes"),
            );
        }
    }
}

/// Counts the storage requests for manifests and init segments with a cached index.
pub(crate) fn manifests(bench: &Bench, report: &mut Report) {
    for title in bench.titles() {
        let origin = bench.origin("");
        let mut connection = Connection::to(origin.address);
        connection.get(&format!("/{}/.mpd", title.path));
        let (requests, count) = storage_requests(bench, &origin, || {
            let urls = title.protocols.iter().flat_map(|protocol| &protocol.others);
            urls.map(|url| connection.get(url)).count()
        });
        let what = format!("{}, five protocols", title.layout.name());
        report.line(
            &what,
            requests.len() as f64,
            "requests",
            Limit::AtMost(0.0),
            &format!("for {count} responses"),
        );
    }
}
