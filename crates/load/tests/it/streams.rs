//! Players and requests that fetch in chunks, over several connections.

use crate::playing::{fixed, plan, played, single_plan};
use latemux_load::{
    player::{Behaviour, Chunking},
    report::summary,
    results::{Part, Recorder, Results, Run, fairness},
    run::{Arrivals, Competing, CompetingPlan, Plan, SinglePlan, Style, run_single},
};
use latemux_streams::{ChunkTimeout, Settings};
use latemux_testmedia::{
    memory_server::{MemoryServer, Reply, Request, files},
    streams::dash,
};
use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{sync::watch, time::Instant};

fn settings(streams: usize, chunk: u64) -> Settings {
    Settings { streams, chunk, gap: Duration::ZERO, timeout: ChunkTimeout::Adaptive }
}

fn chunked(streams: usize, truncate: bool) -> Behaviour {
    let chunking = Some(Chunking { settings: settings(streams, 2000), truncate });
    Behaviour { chunking, ..fixed(u64::MAX) }
}

/// Serves a title, and cuts ranges off at the end of a file, as servers do.
fn title() -> impl Fn(&Request) -> Reply + Send + Sync + 'static {
    let inner = files(dash("template-timeline", ""));
    move |request| {
        let Some((first, last)) = request.range else { return inner(request) };
        let whole = inner(&Request { range: None, ..request.clone() });
        let length = whole.body.len();
        let range = |text| vec![("Content-Range".to_owned(), text)];
        let Some(part) = whole.body.get(first..=last.min(length - 1)) else {
            return Reply { headers: range(format!("bytes */{length}")), ..Reply::status(416) };
        };
        let headers = range(format!("bytes {first}-{}/{length}", first + part.len() - 1));
        Reply { status: 206, headers, ..Reply::ok(part) }
    }
}

#[tokio::test(start_paused = true)]
async fn players_fetch_video_in_chunks_and_check_it() {
    let plain = MemoryServer::new(title());
    let (whole, wrong) = played(&plain, &plan("index.mpd"), fixed(u64::MAX)).await;
    assert_eq!(wrong, BTreeMap::new());
    let server = MemoryServer::new(title());
    let (results, wrong) = played(&server, &plan("index.mpd"), chunked(3, false)).await;
    assert_eq!((wrong, results.players.finished), (BTreeMap::new(), 1));
    // Each segment counts as one request, whatever the number of its chunks.
    let video = |results: &latemux_load::results::Results| {
        (results.requests["dash.video"].count, results.requests["dash.video"].bytes)
    };
    assert_eq!(video(&results), video(&whole));
    let streams = &results.streams;
    assert_eq!((streams.resources, streams.bytes), video(&results));
    let chunks = server.requests().iter().filter(|request| request.range.is_some()).count() as u64;
    assert!(streams.requests == chunks && chunks > 2 * streams.resources, "{streams:?}");
    assert_eq!((streams.truncated, streams.missing, streams.duplicated), (0, 0, 0));
    assert_eq!((streams.opened, server.connections()), (3, 5), "one for the manifest, one for audio");
    assert_eq!(streams.goodput.count(), streams.resources);
}

#[tokio::test(start_paused = true)]
async fn segments_are_truncated_when_their_duration_is_over() {
    let inner = title();
    let server = MemoryServer::new(move |request| {
        let mut reply = inner(request);
        // The third chunk of the third segment takes longer than its 2 s.
        let is_late = request.range.is_some_and(|(first, _)| first == 4000);
        if request.path.contains("stream0-00003") && is_late {
            reply.delay = Duration::from_secs(6);
        }
        reply
    });
    let (results, wrong) = played(&server, &plan("index.mpd"), chunked(3, true)).await;
    assert_eq!((wrong, results.players.finished), (BTreeMap::new(), 1), "truncation is no failure");
    let streams = &results.streams;
    assert_eq!(streams.truncated, 1);
    assert!(streams.missing > 0 && streams.duplicated == 0, "{streams:?}");
    assert!(results.players.quality.max() < 2000, "a truncated segment lowers the quality");
    // The same server stalls a player that waits.
    let inner = title();
    let server = MemoryServer::new(move |request| {
        let mut reply = inner(request);
        let is_late = request.range.is_some_and(|(first, _)| first == 4000);
        if request.path.contains("stream0-00003") && is_late {
            reply.delay = Duration::from_secs(6);
        }
        reply
    });
    let (results, _) = played(&server, &plan("index.mpd"), chunked(3, false)).await;
    assert_eq!((results.streams.truncated, results.players.stalls.count()), (0, 1));
}

/// Returns the summary of results.
fn summarised(results: Results) -> String {
    let mut part = Part::new("0/1".to_owned(), 0, BTreeMap::new());
    (part.complete, part.results) = (true, results);
    summary(&Run::single(part))
}

/// Returns the lines of the summary that are about disturbances, and the reasons of failures.
async fn noted(
    behaviour: Behaviour,
    spoil: impl Fn(&Request, &mut Reply) + Send + Sync + 'static,
) -> (Vec<String>, Vec<String>) {
    let inner = title();
    let server = MemoryServer::new(move |request| {
        let mut reply = inner(request);
        if request.range.is_some() {
            spoil(request, &mut reply);
        }
        reply
    });
    let (results, wrong) = played(&server, &plan("index.mpd"), behaviour).await;
    let text = summarised(results);
    let notes = text.lines().filter_map(|line| line.strip_prefix("note: ")).map(str::to_owned).collect();
    (notes, wrong.into_keys().map(|reason| reason.to_string()).collect())
}

#[tokio::test(start_paused = true)]
async fn gaps_longer_than_a_segment_are_noted() {
    let mut behaviour = chunked(5, true);
    if let Some(chunking) = &mut behaviour.chunking {
        chunking.settings.gap = Duration::from_secs(10);
    }
    let (notes, _) = noted(behaviour, |_, _| {}).await;
    let expected = "the gap is not shorter than the duration of ";
    assert!(notes.iter().any(|note| note.starts_with(expected)), "{notes:?}");
}

#[tokio::test(start_paused = true)]
async fn servers_that_do_not_do_all_that_streams_need_are_noted_in_one_line_each() {
    // The only requests beyond the end are those before the first length is known.
    let beyond_end = "requests beyond the end of a segment whose length was not known yet, ";
    let (notes, wrong) = noted(chunked(5, false), |_, _| {}).await;
    let is_quiet = notes.iter().all(|note| note.contains(beyond_end));
    assert!(is_quiet && notes.len() <= 1 && wrong.is_empty(), "{notes:?} {wrong:?}");
    let (notes, wrong) = noted(chunked(5, false), |_, reply| reply.cut = Some(usize::MAX)).await;
    let closes = notes.iter().filter(|note| note.starts_with("the server does not keep connections: "));
    assert!(closes.count() == 1 && wrong.is_empty(), "{notes:?} {wrong:?}");
    // The manifest and audio have a connection each.
    let (notes, wrong) = noted(chunked(5, false), |request, reply| {
        reply.delay = Duration::from_millis(50);
        if request.connection > 4 {
            *reply = Reply::status(503);
        }
    })
    .await;
    let fewer = "the server allows fewer connections: ";
    let fewer = notes.iter().filter(|note| note.starts_with(fewer) && note.contains(" of the 5 streams "));
    assert!(fewer.count() == 1 && wrong.is_empty(), "{notes:?} {wrong:?}");
    // One chunk takes long, over whichever connection it is requested first.
    let is_first = AtomicBool::new(true);
    let (notes, wrong) = noted(chunked(3, false), move |request, reply| {
        if request.range.is_some_and(|(first, _)| first == 4000) && is_first.swap(false, Relaxed) {
            reply.delay = Duration::from_secs(20);
        }
    })
    .await;
    let timed_out = "chunks that timed out: 1, 100 % of them on the slowest connection of each player";
    assert!(notes.iter().any(|note| note == timed_out) && wrong.is_empty(), "{notes:?} {wrong:?}");
}

#[tokio::test(start_paused = true)]
async fn failures_of_chunks_have_one_line_each() {
    let failed = |spoil: fn(&Request, &mut Reply)| async move {
        let inner = title();
        let server = MemoryServer::new(move |request| {
            let mut reply = inner(request);
            if request.range.is_some() {
                spoil(request, &mut reply);
            }
            reply
        });
        let (results, wrong) = played(&server, &plan("index.mpd"), chunked(3, false)).await;
        assert!(results.streams.given_up == 0, "{:?}", results.streams);
        wrong
    };
    let whole = failed(|_, reply| *reply = Reply::ok(vec![0; 9000])).await;
    let details = |wrong: &BTreeMap<_, Vec<String>>| wrong.values().flatten().cloned().collect::<Vec<_>>();
    let lines = details(&whole);
    assert!(whole.len() == 1 && whole.contains_key("wrong_range"), "{whole:?}");
    assert!(lines.iter().all(|line| line.contains("does not answer byte ranges, which chunks need")));
    let changed = failed(|request, reply| {
        let version = request.range.is_some_and(|(first, _)| first >= 4000);
        reply.headers.push(("ETag".to_owned(), format!("\"{version}\"")));
    })
    .await;
    let lines = details(&changed);
    assert!(changed.len() == 1 && changed.contains_key("changed"), "{changed:?}");
    assert!(lines.iter().all(|line| line.ends_with(" changed between two of its chunks")), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn segments_of_cmaf_are_requested_in_order_of_importance() {
    let inner = title();
    let server = MemoryServer::new(move |request| {
        let path = request.path.split('?').next().unwrap_or_default().to_owned();
        inner(&Request { path, ..request.clone() })
    });
    let behaviour = Behaviour { by_priority: true, ..fixed(u64::MAX) };
    let (_, wrong) = played(&server, &plan("index.mpd"), behaviour).await;
    assert_eq!(wrong, BTreeMap::new());
    let requests = server.requests();
    let (ordered, others): (Vec<_>, Vec<_>) =
        requests.iter().map(|request| &request.path).partition(|path| path.ends_with("?order=priority"));
    assert!(ordered.len() > 4 && ordered.iter().all(|path| path.contains("/chunk-stream")), "{ordered:?}");
    let is_segment = |path: &&&String| path.contains("/chunk-stream") || path.contains('?');
    assert_eq!(others.iter().filter(is_segment).count(), 0, "{others:?}");
    assert!(others.len() >= 3, "the manifest and the init segments: {others:?}");
}

#[tokio::test(start_paused = true)]
async fn plain_players_are_compared_with_plain_downloads() {
    let inner = title();
    let server =
        MemoryServer::new(move |request| Reply { delay: Duration::from_millis(20), ..inner(request) });
    let duration = Some(Duration::from_secs(600));
    let plain = Plan { style: Style::Sequence, duration, ..plan("index.mpd") };
    let competing = Competing::start(server.client(), CompetingPlan::Titles(plain.clone()));
    let (mut results, _) = played(&server, &Plan { duration: None, ..plain }, fixed(u64::MAX)).await;
    results.competing = competing.end().await;
    // Both have one connection at a time; the downloads also fetch audio, whose segments are small.
    let ratio = results.fairness().unwrap();
    assert!((1.0..3.0).contains(&ratio), "{ratio}");
    let text = summarised(results);
    assert!(text.contains("competing downloads: 1, with ") && !text.contains("streams: "), "{text}");
    assert!(text.contains(&format!("fairness ratio {ratio:.2} (1 is fair)")), "{text}");
}

#[tokio::test(start_paused = true)]
async fn downloads_beside_the_streams_give_the_fairness_ratio() {
    let body = vec![7; 100_000];
    let server = MemoryServer::new(move |request| {
        let delay = Duration::from_millis(100);
        let Some((first, last)) = request.range else { return Reply { delay, ..Reply::ok(body.clone()) } };
        let part = body.get(first..=last.min(body.len() - 1)).unwrap_or_default();
        let range = format!("bytes {first}-{}/{}", first + part.len().max(1) - 1, body.len());
        Reply { status: 206, headers: vec![("Content-Range".into(), range)], delay, ..Reply::ok(part) }
    });
    let chunking = Some(settings(2, 25_000));
    let plan = SinglePlan { chunking, requests: Some(20), ..single_plan(&["x"]) };
    let plain = SinglePlan { concurrency: 3, ..single_plan(&["x"]) };
    let competing = Competing::start(server.client(), CompetingPlan::Urls(plain));
    let recorder = Arc::new(Recorder::new(Instant::now()));
    let (_stop, stopped) = watch::channel(false);
    run_single(server.client(), recorder.clone(), &plan, stopped).await;
    let results = recorder.results();
    assert_eq!((results.streams.requests, results.streams.bytes), (80, 2_000_000));
    assert_eq!(results.total().count, 20, "the downloads are not among the requests of the run");
    let competing = competing.end().await;
    assert_eq!((competing.downloads, competing.requests.failed()), (3, 0));
    // Two chunks of 25 kB in 100 ms against 100 kB in 100 ms.
    let ratio = fairness(&results.streams, &competing).unwrap();
    assert!((ratio - 0.5).abs() < 0.05, "{ratio}");
}

#[tokio::test(start_paused = true)]
async fn titles_are_downloaded_beside_players() {
    let inner = title();
    let server =
        MemoryServer::new(move |request| Reply { delay: Duration::from_millis(20), ..inner(request) });
    let duration = Some(Duration::from_secs(600));
    let arrivals = Arrivals::Closed;
    let style = Style::Sequence;
    let plain = Plan { players: 2, style, arrivals, duration, ..plan("index.mpd") };
    let competing = Competing::start(server.client(), CompetingPlan::Titles(plain));
    let (results, wrong) = played(&server, &plan("index.mpd"), chunked(2, false)).await;
    assert_eq!((wrong, results.players.started), (BTreeMap::new(), 1));
    let competing = competing.end().await;
    assert_eq!((competing.downloads, competing.requests.failed()), (2, 0));
    assert!(competing.bytes > results.total().bytes, "{competing:?}");
    assert!(fairness(&results.streams, &competing).is_some());
}
