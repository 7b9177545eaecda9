//! Players and requests that fetch in chunks, over several connections.

use crate::playing::{fixed, plan, played, single_plan};
use latemux_load::{
    player::{Behaviour, Chunking},
    report::summary,
    results::{Part, Recorder, Run, fairness},
    run::{Arrivals, Competing, CompetingPlan, Plan, SinglePlan, Style, run_single},
};
use latemux_streams::{ChunkTimeout, Settings};
use latemux_testmedia::{
    memory_server::{MemoryServer, Reply, Request, files},
    streams::dash,
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
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
async fn segments_are_truncated_at_the_end_of_their_play_out_time() {
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

#[tokio::test(start_paused = true)]
async fn gaps_beyond_the_play_out_time_are_noted() {
    let server = MemoryServer::new(title());
    let mut behaviour = chunked(5, true);
    if let Some(chunking) = &mut behaviour.chunking {
        chunking.settings.gap = Duration::from_secs(10);
    }
    let (results, _) = played(&server, &plan("index.mpd"), behaviour).await;
    assert!(results.streams.long_gaps > 0, "{:?}", results.streams);
    let mut part = Part::new("0/1".to_owned(), 0, BTreeMap::new());
    (part.complete, part.results) = (true, results);
    let text = summary(&Run::single(part));
    assert!(text.contains("note: the gap is not shorter than the play-out time of"), "{text}");
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
