//! Players of streams that ffmpeg made request all segments without failures, and play them in real
//! time.

use latemux_client::http::{Client, ClientOptions};
use latemux_load::{
    player::{Abr, Behaviour, Session, Trace},
    results::{Counts, Recorder, Results},
    run::{Arrivals, Plan, Popularity, Shard, SinglePlan, Step, Style, plateaus, run, run_single},
};
use latemux_testmedia::{
    memory_server::{MemoryServer, Reply, files, smooth_files},
    streams::{dash, hds, hls, hls_group, packaged, smooth},
};

use std::{collections::BTreeMap, sync::Arc, time::Duration};
use tokio::{sync::watch, time::Instant};
use url::Url;

pub(crate) fn plan(path: &str) -> Plan {
    Plan {
        urls: vec![Url::parse("http://origin.example/").unwrap().join(path).unwrap()],
        style: Style::Watch,
        players: 1,
        ramp: Duration::ZERO,
        arrivals: Arrivals::Closed,
        duration: None,
        popularity: Popularity::InTurn,
        steps: Vec::new(),
        shard: Shard::default(),
        seed: 1,
    }
}

pub(crate) fn fixed(rate: u64) -> Behaviour {
    Behaviour { abr: Abr::Fixed(rate), ..Behaviour::default() }
}

/// Runs a plan to its end. Returns the results, and descriptions of failures.
pub(crate) async fn played(
    server: &MemoryServer,
    plan: &Plan,
    behaviour: Behaviour,
) -> (Results, BTreeMap<String, Vec<String>>) {
    let recorder = Arc::new(Recorder::new(Instant::now()));
    let session = Arc::new(Session::new(server.client(), recorder.clone(), behaviour));
    let (_stop, stopped) = watch::channel(false);
    run(session, plan, stopped).await;
    (recorder.results(), recorder.examples())
}

/// Plays a title once with one player, and asserts that nothing fails.
pub(crate) async fn play_without_failure(server: &MemoryServer, path: &str, rate: u64) -> Results {
    let (results, wrong) = played(server, &plan(path), fixed(rate)).await;
    assert_eq!(wrong, BTreeMap::new(), "{path}");
    let players = &results.players;
    assert_eq!((players.started, players.finished, players.failed), (1, 1, 0), "{path}");
    assert_eq!((players.startup.count(), players.stalls.count()), (1, 0), "{path}");
    let total = results.total();
    assert_eq!((total.latency.count(), total.first_byte.count()), (total.count, total.count), "{path}");
    assert_eq!(
        (total.count, total.bytes),
        (server.requests().len().try_into().unwrap(), server.body_bytes()),
        "{path}"
    );
    results
}

pub(crate) fn classes(results: &Results) -> Vec<(&str, u64)> {
    results.requests.iter().map(|(class, requests)| (class.as_str(), requests.count)).collect()
}

/// Asserts that 12 s were played, apart from the priming samples of AAC.
fn assert_twelve_seconds(results: &Results) {
    let shown = results.players.shown;
    assert!((11_900_000..12_150_000).contains(&shown), "{shown}");
}

#[tokio::test(start_paused = true)]
async fn dash_is_played_with_every_kind_of_addressing() {
    let ways = [
        ("template-timeline", ""),
        ("template-duration", "-use_timeline 0"),
        ("list", "-use_template 0"),
        ("list-ranges", "-single_file 1"),
    ];
    for (name, how) in ways {
        let server = MemoryServer::new(files(dash(name, how)));
        let start = Instant::now();
        let results = play_without_failure(&server, "index.mpd", u64::MAX).await;
        let audio = results.requests["dash.audio"].count;
        let expected = [("dash.audio", audio), ("dash.init", 2), ("dash.manifest", 1), ("dash.video", 6)];
        assert_eq!(classes(&results), expected, "{name}");
        assert!((6..=7).contains(&audio), "{name}: {audio}");
        assert_twelve_seconds(&results);
        assert!((11.9..12.2).contains(&start.elapsed().as_secs_f64()), "playback is in real time");
        assert_eq!(server.connections(), 2, "one for video, one for audio");
    }
}

#[tokio::test(start_paused = true)]
async fn dash_is_played_by_times_in_addresses() {
    // Video alone: ffmpeg's manifest and its files disagree about the start of audio.
    let how = "-map 0:v -f dash -seg_duration 2 -media_seg_name chunk-$Time$.m4s {}/index.mpd";
    let server = MemoryServer::new(files(packaged("template-time", how)));
    let results = play_without_failure(&server, "index.mpd", u64::MAX).await;
    assert_eq!(classes(&results), [("dash.init", 1), ("dash.manifest", 1), ("dash.video", 6)]);
    assert!(server.counts().contains_key("/chunk-25600.m4s"), "{:?}", server.counts());
    assert_twelve_seconds(&results);
}

#[tokio::test(start_paused = true)]
async fn dash_is_played_from_one_file_with_an_index() {
    // An MP4 with a sidx by ffmpeg, and a manifest for it written by hand.
    let folder = packaged(
        "sidx",
        "-map 0:v -movflags frag_keyframe+empty_moov+default_base_moof+global_sidx {}/v.mp4",
    );
    let file = std::fs::read(folder.join("v.mp4")).unwrap();
    let at = |kind: &[u8]| file.windows(4).position(|w| w == kind).unwrap() - 4;
    let sidx = at(b"sidx");
    let moof = at(b"moof");
    let mpd = format!(
        r#"<MPD mediaPresentationDuration="PT12S"><Period><AdaptationSet mimeType="video/mp4"><Representation id="v" bandwidth="1">
        <BaseURL>v.mp4</BaseURL><SegmentBase indexRange="{sidx}-{}"/></Representation></AdaptationSet></Period></MPD>"#,
        moof - 1
    );
    let files = files(folder);
    let server =
        MemoryServer::new(
            move |request| if request.path == "/m.mpd" { Reply::ok(mpd.clone()) } else { files(request) },
        );
    let results = play_without_failure(&server, "m.mpd", u64::MAX).await;
    assert_eq!(
        classes(&results),
        [("dash.index", 1), ("dash.init", 1), ("dash.manifest", 1), ("dash.video", 6)]
    );
    assert_twelve_seconds(&results);
}

#[tokio::test(start_paused = true)]
async fn hls_is_played_with_every_kind_of_segment() {
    let cases = [
        ("ts", hls("ts", ""), "hls.muxed", 0),
        ("ts-ranges", hls("ts-ranges", "-hls_flags single_file"), "hls.muxed", 0),
        ("cmaf", hls("cmaf", "-hls_segment_type fmp4"), "hls.muxed", 1),
        ("cmaf-ranges", hls("cmaf-ranges", "-hls_segment_type fmp4 -hls_flags single_file"), "hls.muxed", 1),
        ("group-cmaf", hls_group("group-cmaf", "-hls_segment_type fmp4"), "hls.video", 2),
        ("group-ts", hls_group("group-ts", ""), "hls.video", 0),
    ];
    for (name, folder, class, inits) in cases {
        let server = MemoryServer::new(files(folder));
        let results = play_without_failure(&server, "index.m3u8", u64::MAX).await;
        assert_eq!(results.requests[class].count, 6, "{name}");
        assert_eq!(results.requests.get("hls.init").map_or(0, |r| r.count), inits, "{name}");
        assert_twelve_seconds(&results);
    }
}

#[tokio::test(start_paused = true)]
async fn audio_alone_is_played() {
    let hls = "-vn -f hls -hls_time 2 -hls_playlist_type vod {}/index.m3u8";
    let dash = "-vn -f dash -seg_duration 2 {}/index.mpd";
    for (name, how, manifest, class) in
        [("hls", hls, "index.m3u8", "hls.muxed"), ("dash", dash, "index.mpd", "dash.audio")]
    {
        let server = MemoryServer::new(files(packaged(&format!("sound-{name}"), how)));
        let results = play_without_failure(&server, manifest, u64::MAX).await;
        assert!((6..=7).contains(&results.requests[class].count), "{name}: {:?}", classes(&results));
        assert_twelve_seconds(&results);
        // Without another rendition, quality is the best possible.
        assert_eq!((results.players.bitrate.count(), results.players.quality.max()), (1, 2000), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn smooth_streaming_and_hds_are_played() {
    let server = MemoryServer::new(smooth_files(smooth(), "800000", "586667"));
    let results = play_without_failure(&server, "Manifest", u64::MAX).await;
    assert_eq!(classes(&results), [("smooth.audio", 6), ("smooth.manifest", 1), ("smooth.video", 6)]);
    assert_twelve_seconds(&results);

    let server = MemoryServer::new(files(hds()));
    let results = play_without_failure(&server, "index.f4m", u64::MAX).await;
    assert_eq!(classes(&results), [("hds.bootstrap", 1), ("hds.manifest", 1), ("hds.muxed", 6)]);
    assert_twelve_seconds(&results);
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_names_missing_fragments_makes_the_player_fail() {
    let server = MemoryServer::new(files(smooth()));
    let (results, _) = played(&server, &plan("Manifest"), fixed(u64::MAX)).await;
    let video = &results.requests["smooth.video"];
    assert_eq!(video.errors, BTreeMap::from([("status_404".to_owned(), video.count)]));
    assert_eq!(results.players.failed, 1);
}

#[tokio::test(start_paused = true)]
async fn renditions_are_switched_without_gaps() {
    let folder = dash("template-timeline", "");
    for (abr, switches) in [
        (Abr::Fixed(0), 0..=0),
        (Abr::Trace(Arc::new(Trace::parse("0 max\n4 min\n8 max").unwrap())), 2..=2),
        // From the lowest to the highest, once the throughput is known.
        (Abr::Throughput, 1..=1),
        (Abr::Buffer, 0..=1),
        (Abr::Random, 0..=5),
    ] {
        let server = MemoryServer::new(files(folder.clone()));
        let behaviour = Behaviour { abr: abr.clone(), ..Behaviour::default() };
        let (results, wrong) = played(&server, &plan("index.mpd"), behaviour).await;
        assert_eq!(wrong, BTreeMap::new(), "{abr}");
        assert!(switches.contains(&results.players.switches), "{abr}: {}", results.players.switches);
        assert_eq!(results.requests["dash.video"].count, 6);
        if matches!(abr, Abr::Trace(_)) {
            // Four segments of 300 kbit/s, two of a third of that, and two changes: 4 + ⅔ − 2 × ⅔,
            // of 6.
            assert!(
                (1553..=1558).contains(&results.players.quality.max()),
                "{}",
                results.players.quality.max()
            );
        }
        let low = server.counts().iter().filter(|(path, _)| path.starts_with("/chunk-stream1")).count();
        match abr {
            Abr::Fixed(_) => assert_eq!(low, 6),
            Abr::Trace(_) => assert_eq!(low, 2),
            Abr::Throughput => assert_eq!(low, 1),
            _ => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_buffer_paces_requests() {
    let server = MemoryServer::new(files(dash("template-timeline", "")));
    let start = Instant::now();
    let when = Arc::new(std::sync::Mutex::new(Vec::new()));
    let inner = files(dash("template-timeline", ""));
    let seen = when.clone();
    let paced = MemoryServer::new(move |request| {
        if request.path.contains("chunk-stream0") {
            seen.lock().unwrap().push(start.elapsed().as_secs_f64());
        }
        inner(request)
    });
    drop(server);
    let behaviour = Behaviour { max_buffer: 4.0, ..fixed(u64::MAX) };
    let (results, wrong) = played(&paced, &plan("index.mpd"), behaviour).await;
    assert_eq!((wrong, results.players.stalls.count()), (BTreeMap::new(), 0));
    // Three at once, then one whenever less than 4 s are buffered.
    let times: Vec<f64> = when.lock().unwrap().clone();
    let expected = [0.0, 0.0, 0.0, 2.0, 4.0, 6.0];
    assert_eq!(times.len(), expected.len());
    for (time, expected) in times.iter().zip(expected) {
        assert!((time - expected).abs() < 0.1, "{times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_server_causes_stalls() {
    let inner = files(dash("template-timeline", ""));
    let server = MemoryServer::new(move |request| {
        let mut reply = inner(request);
        // 2 s of video take 3 s.
        if request.path.contains("chunk-stream0") {
            reply.delay = Duration::from_secs(3);
        }
        reply
    });
    let (results, wrong) = played(&server, &plan("index.mpd"), fixed(u64::MAX)).await;
    assert_eq!(wrong, BTreeMap::new(), "slow responses are not failures");
    let players = &results.players;
    assert!((2_990..3_100).contains(&(players.startup.max() / 1000)), "{}", players.startup.max());
    assert_eq!(players.stalls.count(), 5, "before each further segment");
    assert!((990..1_100).contains(&(players.stalls.max() / 1000)), "{}", players.stalls.max());
    let sum = |count: fn(&Counts) -> u64| results.seconds.iter().map(count).sum::<u64>();
    let total = results.total();
    assert_eq!((sum(|s| s.stalls), sum(|s| s.requests), sum(|s| s.errors)), (5, total.count, 0));
    // Six segments of 3 s each, in microseconds.
    assert!((17_900_000..18_500_000).contains(&sum(|s| s.latency)), "{}", sum(|s| s.latency));
    assert_twelve_seconds(&results);
    // Six segments of quality 1, minus 3 s and 5 × 1 s of waiting, divided by six: -1/3.
    assert!((650..670).contains(&players.quality.max()), "{}", players.quality.max());
    let latency = &results.requests["dash.video"].latency;
    assert!((2_990_000..3_100_000).contains(&latency.quantile(0.5)), "{}", latency.quantile(0.5));
}

#[tokio::test(start_paused = true)]
async fn delays_of_the_generator_are_part_of_latency() {
    let server = MemoryServer::new(files(dash("template-timeline", "")));
    // The second player is due at 5 s. The buffer of the first one has room at 2 s, and then every
    // 2 s.
    let plan = Plan { players: 2, ramp: Duration::from_secs(10), ..plan("index.mpd") };
    let behaviour = Behaviour { max_buffer: 4.0, ..fixed(u64::MAX) };
    let recorder = Arc::new(Recorder::new(Instant::now()));
    let session = Arc::new(Session::new(server.client(), recorder.clone(), behaviour));
    let (_stop, stopped) = watch::channel(false);
    let running = tokio::spawn(async move { run(session, &plan, stopped).await });
    // Twice, the clock jumps over a due time, as if the generator had been suspended for half a
    // second.
    let mut lags = Vec::new();
    for (wait, jump) in [(1.9, 0.6), (2.4, 0.7)] {
        tokio::time::sleep(Duration::from_secs_f64(wait)).await;
        tokio::time::advance(Duration::from_secs_f64(jump)).await;
        tokio::time::sleep(Duration::from_millis(1)).await;
        let results = recorder.results();
        lags.push((results.lag.max() / 10_000, results.total().latency.max() / 10_000));
        if lags.len() == 2 {
            assert_eq!(results.players.started, 2);
        }
    }
    running.await.unwrap();
    // Audio segments are a little shorter, so that audio was due a little earlier.
    assert!((49..=59).contains(&lags[0].0) && (49..=59).contains(&lags[0].1), "{lags:?}");
    let results = recorder.results();
    assert!((590_000..=610_000).contains(&results.lag.max()), "{}", results.lag.max());
    assert!((590_000..=610_000).contains(&results.players.startup.max()), "{:?}", results.players.startup);
    assert_eq!((results.total().failed(), results.players.finished), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn requests_in_flight_at_the_end_are_awaited() {
    let inner = files(dash("template-timeline", ""));
    let server = MemoryServer::new(move |request| Reply { delay: Duration::from_secs(4), ..inner(request) });
    let plan = Plan {
        players: 3,
        ramp: Duration::from_secs(3),
        duration: Some(Duration::from_secs(10)),
        ..plan("index.mpd")
    };
    let start = Instant::now();
    let (results, wrong) = played(&server, &plan, fixed(u64::MAX)).await;
    assert_eq!((wrong, results.players.stopped), (BTreeMap::new(), 3));
    // The last requests were sent at 8, 9 and 10 s.
    assert!((13.9..14.1).contains(&start.elapsed().as_secs_f64()), "{:?}", start.elapsed());
    let total = results.total();
    assert_eq!(
        (total.count, total.bytes),
        (server.requests().len().try_into().unwrap(), server.body_bytes())
    );
}

#[tokio::test(start_paused = true)]
async fn seeks_cause_waits_but_no_stalls() {
    let server = MemoryServer::new(files(dash("template-timeline", "")));
    let behaviour = Behaviour { seek_rate: 30.0, ..fixed(u64::MAX) };
    let plan = Plan { players: 20, ..plan("index.mpd") };
    let (results, wrong) = played(&server, &plan, behaviour).await;
    assert_eq!(wrong, BTreeMap::new());
    let players = &results.players;
    assert_eq!((players.finished, players.stalls.count()), (20, 0));
    assert!(players.seeks.count() > 20, "{}", players.seeks.count());
    assert!(results.requests["dash.video"].count > 6 * 20, "segments that were dropped are fetched again");
}

#[tokio::test(start_paused = true)]
async fn players_of_a_ramp_start_again_until_the_end() {
    let server = MemoryServer::new(files(hls("ts", "")));
    let plan = Plan {
        players: 10,
        ramp: Duration::from_secs(10),
        duration: Some(Duration::from_secs(60)),
        ..plan("index.m3u8")
    };
    let start = Instant::now();
    let (results, wrong) = played(&server, &plan, fixed(u64::MAX)).await;
    assert_eq!(wrong, BTreeMap::new());
    assert!((59.9..60.1).contains(&start.elapsed().as_secs_f64()));
    let players = &results.players;
    // Player n begins at n s and again every 12 s.
    assert_eq!((players.started, players.finished, players.stopped), (50, 40, 10));
    let came: u64 = results.seconds[..10].iter().map(|second| second.came).sum();
    assert_eq!(came, 10);
    let watched: f64 = (0..10).map(|n| 60.0 - f64::from(n)).sum();
    let shown = std::time::Duration::from_micros(players.shown).as_secs_f64();
    assert!((watched - 8.0..watched + 1.0).contains(&shown), "{shown} of {watched}");
    assert_eq!(results.total().bytes, server.body_bytes());
}

#[tokio::test(start_paused = true)]
async fn two_shards_add_up_to_the_unsharded_run() {
    let folder = dash("template-timeline", "");
    let plan = Plan { players: 9, ramp: Duration::from_secs(6), ..plan("index.mpd") };
    let behaviour = Behaviour { abr: Abr::Random, seek_rate: 6.0, ..Behaviour::default() };
    // In paused time, each run measures the same.
    let mut parts = Vec::new();
    for shard in ["0/1", "0/2", "1/2"] {
        let server = MemoryServer::new(files(folder.clone()));
        let plan = Plan { shard: shard.parse().unwrap(), ..plan.clone() };
        let (results, wrong) = played(&server, &plan, behaviour.clone()).await;
        assert_eq!(wrong, BTreeMap::new());
        parts.push(results);
    }
    let mut merged = parts[1].clone();
    merged.merge(&parts[2]).unwrap();
    assert_ne!(parts[1].players, parts[2].players);
    assert_eq!(merged, parts[0]);
    let text = |results: &Results| serde_json::to_string(results).unwrap();
    assert_eq!(text(&merged), text(&parts[0]));
    assert_eq!(serde_json::from_str::<Results>(&text(&merged)).unwrap(), parts[0]);
}

#[tokio::test(start_paused = true)]
async fn a_sequence_alternates_between_audio_and_video() {
    let server = MemoryServer::new(files(dash("template-duration", "-use_timeline 0")));
    let plan = Plan { style: Style::Sequence, ..plan("index.mpd") };
    let (results, wrong) = played(&server, &plan, fixed(u64::MAX)).await;
    assert_eq!((wrong, results.players.finished), (BTreeMap::new(), 1));
    let order: Vec<String> =
        server.requests().into_iter().map(|request| request.path).filter(|p| p.contains("chunk")).collect();
    let expected: Vec<String> =
        (1..=6).flat_map(|k| [2, 0].map(|stream| format!("/chunk-stream{stream}-{k:05}.m4s"))).collect();
    assert_eq!(order[..12], expected);
    assert_eq!(server.connections(), 1);
}

/// Returns a plan of requests over one connection.
pub(crate) fn single_plan(paths: &[&str]) -> SinglePlan {
    let base = Url::parse("http://origin.example/").unwrap();
    SinglePlan {
        urls: paths.iter().map(|path| base.join(path).unwrap()).collect(),
        popularity: Popularity::InTurn,
        concurrency: 1,
        requests: None,
        rate: None,
        duration: None,
        steps: Vec::new(),
        ramp: Duration::ZERO,
        chunking: None,
        shard: Shard::default(),
        seed: 1,
    }
}

/// Makes the requests of a plan, and returns the results.
async fn requested(client: Client, plan: &SinglePlan) -> Results {
    let recorder = Recorder::new(Instant::now()).with_plateaus(plateaus(&plan.steps, plan.ramp));
    let recorder = Arc::new(recorder);
    let (_stop, stopped) = watch::channel(false);
    run_single(client, recorder.clone(), plan, stopped).await;
    recorder.results()
}

#[tokio::test(start_paused = true)]
async fn single_urls_are_requested_over_all_connections() {
    let server =
        MemoryServer::new(|_| Reply { delay: Duration::from_millis(20), ..Reply::ok(vec![7; 5000]) });
    let mut plan = SinglePlan { concurrency: 10, requests: Some(1000), ..single_plan(&["x"]) };
    let (_stop, stopped) = watch::channel(false);
    let recorder = Arc::new(Recorder::new(Instant::now()));
    let start = Instant::now();
    run_single(server.client(), recorder.clone(), &plan, stopped.clone()).await;
    let results = recorder.results();
    assert_eq!((results.total().count, results.total().bytes), (1000, 5_000_000));
    assert_eq!((server.connections(), start.elapsed().as_secs()), (10, 2));

    // A shard makes its share of the requests.
    plan.shard = "1/3".parse().unwrap();
    let recorder = Arc::new(Recorder::new(Instant::now()));
    run_single(server.client(), recorder.clone(), &plan, stopped).await;
    assert_eq!(recorder.results().total().count, 333);
}

#[tokio::test(start_paused = true)]
async fn a_pause_of_the_server_delays_all_requests_that_were_due() {
    let first = Arc::new(std::sync::atomic::AtomicBool::new(true));
    let server = MemoryServer::new(move |_| {
        let pause = first.swap(false, std::sync::atomic::Ordering::Relaxed);
        Reply { delay: Duration::from_millis(if pause { 1000 } else { 1 }), ..Reply::ok("x") }
    });
    let plan = SinglePlan { requests: Some(200), rate: Some(100.0), ..single_plan(&["x"]) };
    let (_stop, stopped) = watch::channel(false);
    let recorder = Arc::new(Recorder::new(Instant::now()));
    run_single(server.client(), recorder.clone(), &plan, stopped).await;
    let latency = recorder.results().total().latency;
    // One response took a second, and those that were due meanwhile followed a millisecond apart:
    // the 50th request was due at 500 ms and ended at 1050 ms.
    assert!((990_000..1_010_000).contains(&latency.max()), "{}", latency.max());
    assert!((530_000..570_000).contains(&latency.quantile(0.75)), "{}", latency.quantile(0.75));
}

#[tokio::test(start_paused = true)]
async fn a_run_at_a_fixed_rate_lasts_no_longer_than_its_duration() {
    let server = MemoryServer::new(|_| Reply::ok("x"));
    let mut plan = SinglePlan { rate: Some(20.0), concurrency: 50, ..single_plan(&["x"]) };
    plan.duration = Some(Duration::from_secs(5));
    let start = Instant::now();
    assert_eq!(requested(server.client(), &plan).await.total().count, 100);
    // The last request is due at 4.95 s. Idle connections do not wait for later ones.
    assert_eq!(start.elapsed().as_millis() / 10, 495);
}

#[tokio::test(start_paused = true)]
async fn popular_urls_are_requested_more_often() {
    let server = MemoryServer::new(|_| Reply::ok("x"));
    let mut plan = single_plan(&["a", "b", "c"]);
    plan.popularity = Popularity::Zipf(1.0);
    (plan.requests, plan.concurrency) = (Some(1100), 7);
    assert_eq!(requested(server.client(), &plan).await.total().count, 1100);
    let counts = server.counts();
    // Shares of 6, 3 and 2 elevenths; the standard deviation is at most 17.
    for (path, expected) in [("/a", 600), ("/b", 300), ("/c", 200)] {
        assert!(counts[path].abs_diff(expected) < 70, "{counts:?}");
    }
    // Three machines choose what one machine chooses.
    let parts = MemoryServer::new(|_| Reply::ok("x"));
    for shard in ["0/3", "1/3", "2/3"] {
        plan.shard = shard.parse().unwrap();
        requested(parts.client(), &plan).await;
    }
    assert_eq!(parts.counts(), counts);
}

#[tokio::test(start_paused = true)]
async fn each_play_of_a_player_chooses_a_title_by_popularity() {
    let mut plan = plan("index.m3u8?a");
    plan.urls.push(plan.urls[0].join("?b").unwrap());
    plan.popularity = Popularity::Zipf(1.0);
    (plan.style, plan.players, plan.duration) = (Style::Sequence, 2, Some(Duration::from_secs(5)));
    let slow = MemoryServer::new({
        let inner = files(hls("ts", ""));
        move |request| {
            let path = request.path.split('?').next().unwrap_or_default().to_owned();
            let request = latemux_testmedia::memory_server::Request { path, ..request.clone() };
            Reply { delay: Duration::from_millis(5), ..inner(&request) }
        }
    });
    played(&slow, &plan, fixed(0)).await;
    let counts = slow.counts();
    let plays = |query: &str| counts.get(&format!("/index.m3u8?{query}")).copied().unwrap_or(0);
    // A player that kept its title would leave one of them alone, or both halves equal.
    assert!(plays("a") > plays("b") && plays("b") > 3, "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn steps_hold_their_number_of_connections() {
    let server = MemoryServer::new(|_| Reply { delay: Duration::from_millis(10), ..Reply::ok("x") });
    let mut plan = single_plan(&["x"]);
    let step = |level, seconds| Step { level, duration: Duration::from_secs(seconds) };
    plan.steps = vec![step(1, 4), step(4, 2), step(2, 4)];
    plan.ramp = Duration::from_secs(1);
    let results = requested(server.client(), &plan).await;
    let steps: Vec<_> = results.steps.iter().map(|s| (s.level, s.from, s.until, s.requests.count)).collect();
    // 100 requests a second on each connection; the second of each ramp is left out.
    assert_eq!(steps, [(1, 1000, 4000, 300), (4, 5000, 6000, 400), (2, 7000, 10_000, 600)]);
    let per_second: Vec<u64> = results.seconds.iter().map(|second| second.requests).collect();
    assert_eq!((per_second[3], per_second[5], per_second[9]), (100, 400, 200), "{per_second:?}");
}

#[tokio::test(start_paused = true)]
async fn steps_hold_their_number_of_players() {
    let server = MemoryServer::new(files(hls("ts", "")));
    let mut plan = plan("index.m3u8");
    let step = |level, seconds| Step { level, duration: Duration::from_secs(seconds) };
    plan.steps = vec![step(2, 10), step(5, 10), step(1, 10)];
    plan.duration = Some(Duration::from_secs(30));
    let (results, wrong) = played(&server, &plan, fixed(0)).await;
    assert_eq!(wrong, BTreeMap::new());
    let mut playing = 0;
    let players: Vec<u64> = results
        .seconds
        .iter()
        .map(|second| {
            playing = playing + second.came - second.left;
            playing
        })
        .collect();
    assert_eq!((players[5], players[15], players[25]), (2, 5, 1), "{players:?}");
}

#[tokio::test(start_paused = true)]
async fn each_request_opens_a_connection_if_none_are_kept() {
    let server = MemoryServer::new(|_| Reply::ok("x"));
    let mut options = ClientOptions { keep_alive: false, ..ClientOptions::default() };
    options.hosts.allow_server(&Url::parse("http://origin.example/").unwrap());
    let client = Client::new(Arc::new(server.clone()), options);
    let plan = SinglePlan { requests: Some(20), concurrency: 3, ..single_plan(&["x"]) };
    assert_eq!(requested(client.clone(), &plan).await.total().failed(), 0);
    assert_eq!((server.connections(), client.opened()), (20, 20));
    let kept = server.client();
    requested(kept.clone(), &plan).await;
    assert_eq!((server.connections(), kept.opened()), (23, 3));
}
