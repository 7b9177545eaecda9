//! Players of presentations with several timelines, and of text. The manifests are written by hand
//! for streams that ffmpeg made.

use crate::playing::{classes, fixed, plan, play_without_failure, played};
use latemux_load::{player::Behaviour, results::Results};
use latemux_testmedia::{
    memory_server::{MemoryServer, folders_and_documents},
    streams::{dash, dash_of_periods, dash_period, hls, hls_of_segment_lines, hls_segment_lines},
};

/// Returns the media played, in seconds.
fn shown(results: &Results) -> f64 {
    f64::from(u32::try_from(results.players.shown / 1000).unwrap()) / 1000.0
}

#[tokio::test(start_paused = true)]
async fn periods_are_played_one_after_the_other() {
    let one = dash("template-timeline", "");
    let two = dash("list", "-use_template 0");
    let first = dash_period(&one, "a", r#"duration="PT12S""#);
    let second = dash_period(&two, "b", "");
    let server = folders_and_documents(
        vec![("/a", one.clone()), ("/b", two.clone())],
        vec![
            ("/m.mpd", dash_of_periods(&[first.clone(), second])),
            ("/wrong.mpd", dash_of_periods(&[first, misplaced(&one)])),
        ],
    );
    let results = play_without_failure(&server, "m.mpd", u64::MAX).await;
    let audio = results.requests["dash.audio"].count;
    let expected = [("dash.audio", audio), ("dash.init", 4), ("dash.manifest", 1), ("dash.video", 12)];
    assert_eq!(classes(&results), expected);
    assert!((23.9..24.1).contains(&shown(&results)), "{}", shown(&results));

    // Segments whose times are not those of their period.
    let (results, wrong) = played(&server, &plan("wrong.mpd"), fixed(u64::MAX)).await;
    let errors = &results.requests["dash.video"].errors;
    assert_eq!((errors.get("wrong_time"), errors.len()), (Some(&6), 1), "{wrong:?}");
}

/// Returns a second period with a wrong offset of its media time.
fn misplaced(folder: &std::path::Path) -> String {
    dash_period(folder, "a", "")
        .replace("<SegmentTemplate ", r#"<SegmentTemplate presentationTimeOffset="12800000" "#)
        .replace(r#"t="0""#, r#"t="12800000""#)
}

#[tokio::test(start_paused = true)]
async fn times_may_restart_only_at_a_discontinuity() {
    for (name, folder, inits) in
        [("ts", hls("ts", ""), 0), ("cmaf", hls("cmaf", "-hls_segment_type fmp4"), 2)]
    {
        let a = hls_segment_lines(&folder, "a");
        let b = hls_segment_lines(&folder, "b");
        let server = folders_and_documents(
            vec![("/a", folder.clone()), ("/b", folder)],
            vec![
                ("/two.m3u8", hls_of_segment_lines(&[a.clone(), b.clone()], "#EXT-X-DISCONTINUITY\n")),
                ("/silent.m3u8", hls_of_segment_lines(&[a, b], "")),
            ],
        );
        let results = play_without_failure(&server, "two.m3u8", u64::MAX).await;
        let requests: u64 = classes(&results).iter().map(|(_, count)| count).sum();
        assert_eq!((requests, results.requests["hls.muxed"].count), (13 + inits, 12), "{name}");
        assert!((23.9..24.1).contains(&shown(&results)), "{name}: {}", shown(&results));
        // Times that restart without a discontinuity.
        let (results, wrong) = played(&server, &plan("silent.m3u8"), fixed(u64::MAX)).await;
        assert_eq!(results.requests["hls.muxed"].errors.get("wrong_time"), Some(&6), "{name}: {wrong:?}");
    }
}

/// Plays a title with text to its end. Returns the results and the reasons of failures.
async fn with_text(server: &MemoryServer, path: &str) -> (Results, Vec<String>) {
    let behaviour = Behaviour { text: true, ..fixed(u64::MAX) };
    let (results, wrong) = played(server, &plan(path), behaviour).await;
    assert_eq!((results.players.finished, results.players.stalls.count()), (1, 0), "{path}: {wrong:?}");
    (results, wrong.into_keys().collect())
}

#[tokio::test(start_paused = true)]
async fn text_is_fetched_only_if_enabled() {
    let video = dash("template-timeline", "");
    let stream = hls("ts", "");
    let vtt =
        "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:126000,LOCAL:00:00:00.000\n\n00:01.000 --> 00:02.000\nGood morning\n"
            .to_owned();
    let inside = dash_period(&video, "a", "");
    let text = |name: &str, mime: &str| {
        let set = format!(
            r#"<AdaptationSet mimeType="{mime}"><BaseURL>../{name}</BaseURL><Representation id="text"/></AdaptationSet></Period>"#
        );
        dash_of_periods(&[inside.replace("</Period>", &set)]).replace("PT24S", "PT12S")
    };
    let master = "#EXTM3U\n#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"s\",NAME=\"en\",URI=\"text.m3u8\"\n\
        #EXT-X-STREAM-INF:BANDWIDTH=300000,RESOLUTION=320x180,SUBTITLES=\"s\"\nb/index.m3u8\n";
    let media =
        "#EXTM3U\n#EXT-X-TARGETDURATION:6\n#EXTINF:6,\ngood.vtt\n#EXTINF:6,\nbad.vtt\n#EXT-X-ENDLIST\n";
    let server = folders_and_documents(
        vec![("/a", video), ("/b", stream)],
        vec![
            ("/vtt.mpd", text("good.vtt", "text/vtt")),
            ("/ttml.mpd", text("good.ttml", "application/ttml+xml")),
            ("/bad.mpd", text("bad.vtt", "application/ttml+xml")),
            ("/index.m3u8", master.to_owned()),
            ("/text.m3u8", media.to_owned()),
            ("/good.vtt", vtt.clone()),
            ("/bad.vtt", vtt.replace("WEBVTT", "<html>")),
            ("/good.ttml", "<tt xmlns='http://www.w3.org/ns/ttml'><body><div/></body></tt>".to_owned()),
        ],
    );
    for (path, texts, wrong) in [
        ("vtt.mpd", 1, vec![]),
        ("ttml.mpd", 1, vec![]),
        ("bad.mpd", 1, vec!["bad_text"]),
        ("index.m3u8", 2, vec!["bad_text"]),
    ] {
        let (results, found) = with_text(&server, path).await;
        let class = if path == "index.m3u8" { "hls.text" } else { "dash.text" };
        assert_eq!(
            (results.requests[class].count, found),
            (texts, wrong.into_iter().map(str::to_owned).collect()),
            "{path}"
        );
        // Without the option, text is not requested.
        let (results, wrong) = played(&server, &plan(path), fixed(u64::MAX)).await;
        assert!(wrong.is_empty(), "{path}: {wrong:?}");
        assert!(!results.requests.contains_key(class), "{path}");
    }
}
