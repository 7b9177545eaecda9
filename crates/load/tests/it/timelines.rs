//! Presentations of several timelines, and text: manifests written by hand over streams that ffmpeg made.

use crate::{
    capturing::{captured, of_bytes, same_content},
    playing::{classes, fixed, plan, played, sound},
    server::{Asked, Pipes, Reply, files},
    streams::{dash, hls},
};
use latemux_load::{player::Behaviour, results::Results};
use latemux_testmedia::probe::Stream;
use mp4_atom::{Any, Codec, DecodeMaybe as _};
use std::{fs, path::PathBuf};

/// Folders of streams below names of their own, and documents.
fn served(folders: Vec<(&'static str, PathBuf)>, documents: Vec<(&'static str, String)>) -> Pipes {
    let folders: Vec<_> = folders.into_iter().map(|(name, folder)| (name, files(folder))).collect();
    Pipes::new(move |asked| {
        if let Some((_, document)) = documents.iter().find(|(name, _)| asked.path == *name) {
            return Reply::ok(document.clone());
        }
        let below = folders.iter().find_map(|(name, files)| {
            let path = asked.path.strip_prefix(name)?.to_owned();
            Some(files(&Asked { path, ..asked.clone() }))
        });
        below.unwrap_or_else(|| Reply::status(404))
    })
}

/// What was shown, in seconds.
fn shown(results: &Results) -> f64 {
    f64::from(u32::try_from(results.players.shown / 1000).unwrap()) / 1000.0
}

/// The period of a manifest by ffmpeg, below a folder, with attributes of its own.
fn period(folder: &std::path::Path, name: &str, attributes: &str) -> String {
    let mpd = fs::read_to_string(folder.join("index.mpd")).unwrap();
    let (_, behind) = mpd.split_once("<Period").unwrap();
    let (_, inside) = behind.split_once('>').unwrap();
    let (inside, _) = inside.split_once("</Period>").unwrap();
    format!("<Period {attributes}><BaseURL>{name}/</BaseURL>{inside}</Period>")
}

fn mpd(periods: &[String]) -> String {
    format!(
        r#"<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static" mediaPresentationDuration="PT24S">{}</MPD>"#,
        periods.concat()
    )
}

/// The packets of one behind those of the other, which begin at a time in ticks of the stream.
fn twice(streams: &[Stream], later: impl Fn(&Stream) -> i64) -> Vec<Stream> {
    streams
        .iter()
        .map(|stream| {
            let mut both = stream.clone();
            let by = later(stream);
            both.packets.extend(stream.packets.iter().cloned().map(|mut packet| {
                (packet.dts, packet.pts) = (packet.dts + by, packet.pts + by);
                packet
            }));
            both
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn periods_are_played_one_behind_the_other() {
    let (one, two) = (dash("template-timeline", ""), dash("list", "-use_template 0"));
    let first = period(&one, "a", r#"duration="PT12S""#);
    let second = period(&two, "b", "");
    let server = served(
        vec![("/a", one.clone()), ("/b", two.clone())],
        vec![("/m.mpd", mpd(&[first.clone(), second])), ("/wrong.mpd", mpd(&[first, late(&one)]))],
    );
    let results = sound(&server, "m.mpd", u64::MAX).await;
    let audio = results.requests["dash.audio"].count;
    let expected = [("dash.audio", audio), ("dash.init", 4), ("dash.manifest", 1), ("dash.video", 12)];
    assert_eq!(classes(&results), expected);
    assert!((23.9..24.1).contains(&shown(&results)), "{}", shown(&results));

    // Segments whose times are not those of their period.
    let (results, wrong) = played(&server, &plan("wrong.mpd"), fixed(u64::MAX)).await;
    let errors = &results.requests["dash.video"].errors;
    assert_eq!((errors.get("wrong_time"), errors.len()), (Some(&6), 1), "{wrong:?}");
}

/// The second period, whose media time 0 is said to be elsewhere.
fn late(folder: &std::path::Path) -> String {
    period(folder, "a", "")
        .replace("<SegmentTemplate ", r#"<SegmentTemplate presentationTimeOffset="12800000" "#)
        .replace(r#"t="0""#, r#"t="12800000""#)
}

#[tokio::test(start_paused = true)]
async fn periods_are_captured_one_behind_the_other() {
    let folder = dash("template-timeline", "");
    let source = mpd(&[period(&folder, "a", r#"duration="PT12S""#)]);
    let both = mpd(&[period(&folder, "a", r#"duration="PT12S""#), period(&folder, "a", "")]);
    let server = served(vec![("/a", folder)], vec![("/one.mpd", source), ("/two.mpd", both)]);
    let (done, one, _) = captured(&server, "one.mpd").await;
    done.unwrap();
    let (done, two, _) = captured(&server, "two.mpd").await;
    done.unwrap();
    let expected = twice(&of_bytes(&one), |stream| 12 * i64::from(stream.timescale));
    same_content("periods", &of_bytes(&two), &expected, 48_000.0);
}

/// The sample entries of the first track, and which of them each of its fragments has.
fn entries(bytes: &[u8]) -> (Vec<Codec>, Vec<Codec>) {
    let (mut rest, mut entries, mut used) = (bytes, Vec::new(), Vec::new());
    while let Some(found) = Any::decode_maybe(&mut rest).unwrap() {
        match found {
            Any::Moov(moov) => entries.clone_from(&moov.trak[0].mdia.minf.stbl.stsd.codecs),
            Any::Moof(moof) => {
                let of_track = moof.traf.iter().filter(|traf| traf.tfhd.track_id == 1);
                let index = of_track.map(|traf| traf.tfhd.sample_description_index.unwrap_or(1));
                used.extend(index.map(|index| entries[usize::try_from(index - 1).unwrap()].clone()));
            }
            _ => {}
        }
    }
    (entries, used)
}

#[tokio::test(start_paused = true)]
async fn periods_of_other_codings_and_edits_are_captured_as_one() {
    // The one presents its pictures from two frames on, for they are decoded in another order; the other has no such order, nor such an edit.
    let (one, two) = (dash("template-timeline", ""), dash("in-order", "-bf 0"));
    let (a, b) = (period(&one, "a", r#"duration="PT12S""#), period(&two, "b", r#"duration="PT12S""#));
    let both = [mpd(&[a.clone(), b.clone()]), mpd(&[b.clone(), a.clone()])];
    let server = served(
        vec![("/a", one), ("/b", two)],
        vec![
            ("/a.mpd", mpd(&[a])),
            ("/b.mpd", mpd(&[b])),
            ("/ab.mpd", both[0].clone()),
            ("/ba.mpd", both[1].clone()),
        ],
    );
    let mut alone = Vec::new();
    for path in ["a.mpd", "b.mpd"] {
        let (done, bytes, _) = captured(&server, path).await;
        done.unwrap();
        alone.push(bytes);
    }
    for (path, [first, second]) in [("ab.mpd", [0, 1]), ("ba.mpd", [1, 0])] {
        let (done, bytes, _) = captured(&server, path).await;
        done.unwrap();
        let (known, used) = entries(&bytes);
        let ((one, _), (other, _)) = (entries(&alone[first]), entries(&alone[second]));
        assert_ne!(one, other, "the codings differ");
        assert_eq!(known, [one.clone(), other.clone()].concat(), "{path}");
        assert_eq!(used, [vec![one[0].clone(); 6], vec![other[0].clone(); 6]].concat(), "{path}");
        let (first, second) = (of_bytes(&alone[first]), of_bytes(&alone[second]));
        let found = of_bytes(&bytes);
        assert_eq!(found.len(), first.len());
        for ((found, first), second) in found.iter().zip(&first).zip(&second) {
            // What is shown, and when: 12 s later what the second shows.
            let shown = |stream: &Stream, later: i64| -> Vec<(i64, String)> {
                let later = later * i64::from(stream.timescale);
                stream.packets.iter().map(|p| (p.pts + later, p.hash.clone())).collect()
            };
            assert_eq!(
                shown(found, 0),
                [shown(first, 0), shown(second, 12)].concat(),
                "{path} {}",
                found.kind
            );
        }
    }
}

/// The segments of a playlist by ffmpeg, below a folder.
fn lines(folder: &std::path::Path, name: &str) -> String {
    let text = fs::read_to_string(folder.join("index.m3u8")).unwrap();
    let kept = text.lines().filter(|line| {
        line.starts_with("#EXTINF") || line.starts_with("#EXT-X-MAP") || !line.starts_with('#')
    });
    kept.map(|line| match line.split_once("URI=\"") {
        Some((before, file)) => format!("{before}URI=\"{name}/{file}\n"),
        None if line.starts_with('#') => format!("{line}\n"),
        None => format!("{name}/{line}\n"),
    })
    .collect()
}

fn playlist(parts: &[String], between: &str) -> String {
    format!("#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:2\n{}#EXT-X-ENDLIST\n", parts.join(between))
}

#[tokio::test(start_paused = true)]
async fn discontinuities_are_played_and_captured() {
    for (name, folder, inits) in
        [("ts", hls("ts", ""), 0), ("cmaf", hls("cmaf", "-hls_segment_type fmp4"), 2)]
    {
        let (a, b) = (lines(&folder, "a"), lines(&folder, "b"));
        // Durations that are said to be less than they are.
        let less = [&a, &b].map(|lines| lines.replace("#EXTINF:2.0", "#EXTINF:1.9"));
        let server = served(
            vec![("/a", folder.clone()), ("/b", folder)],
            vec![
                ("/one.m3u8", playlist(std::slice::from_ref(&a), "")),
                ("/two.m3u8", playlist(&[a.clone(), b.clone()], "#EXT-X-DISCONTINUITY\n")),
                ("/less.m3u8", playlist(&less, "#EXT-X-DISCONTINUITY\n")),
                ("/silent.m3u8", playlist(&[a, b], "")),
            ],
        );
        let results = sound(&server, "two.m3u8", u64::MAX).await;
        let asked: u64 = classes(&results).iter().map(|(_, count)| count).sum();
        assert_eq!((asked, results.requests["hls.muxed"].count), (13 + inits, 12), "{name}");
        assert!((23.9..24.1).contains(&shown(&results)), "{name}: {}", shown(&results));
        // Times that begin anew without a word.
        let (results, wrong) = played(&server, &plan("silent.m3u8"), fixed(u64::MAX)).await;
        assert_eq!(results.requests["hls.muxed"].errors.get("wrong_time"), Some(&6), "{name}: {wrong:?}");

        let (done, one, _) = captured(&server, "one.m3u8").await;
        done.unwrap();
        let one = of_bytes(&one);
        for path in ["two.m3u8", "less.m3u8"] {
            let (done, two, _) = captured(&server, path).await;
            done.unwrap();
            let two = of_bytes(&two);
            // Where the second begins follows from durations that are rounded: near the end of the first, and not before it.
            let video = &two[0];
            let begin =
                |stream: &Stream, at: usize| stream.packets[at].pts * 1000 / i64::from(stream.timescale);
            let offset = begin(video, one[0].packets.len()) - begin(video, 0);
            assert!((12_000..=12_100).contains(&offset), "{name}: {path}: {offset}");
            let expected = twice(&one, |stream| offset * i64::from(stream.timescale) / 1000);
            same_content(name, &two, &expected, 500.0);
        }
        let (done, ..) = captured(&server, "silent.m3u8").await;
        assert!(done.unwrap_err().to_string().starts_with("wrong_time"), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn behind_a_discontinuity_streams_may_have_other_pids() {
    let other = "-hls_segment_options mpegts_start_pid=768:mpegts_pmt_start_pid=4608";
    let (one, two) = (hls("ts", ""), hls("ts-pids", other));
    let packet = |folder: &PathBuf| fs::read(folder.join("index0.ts")).unwrap()[..188 * 3].to_vec();
    assert_ne!(packet(&one), packet(&two), "ffmpeg took the option");
    let (a, b) = (lines(&one, "a"), lines(&two, "b"));
    let server = served(
        vec![("/a", one), ("/b", two)],
        vec![
            ("/same.m3u8", playlist(&[a.clone(), a.clone()], "#EXT-X-DISCONTINUITY\n")),
            ("/other.m3u8", playlist(&[a, b], "#EXT-X-DISCONTINUITY\n")),
        ],
    );
    let results = sound(&server, "other.m3u8", u64::MAX).await;
    assert_eq!(results.requests["hls.muxed"].count, 12);
    let mut files = Vec::new();
    for path in ["same.m3u8", "other.m3u8"] {
        let (done, bytes, _) = captured(&server, path).await;
        done.unwrap();
        files.push(bytes);
    }
    assert!(files[0] == files[1]);
}

/// Plays it with text; nothing may go wrong but what is said.
async fn with_text(server: &Pipes, path: &str) -> (Results, Vec<String>) {
    let behaviour = Behaviour { text: true, ..fixed(u64::MAX) };
    let (results, wrong) = played(server, &plan(path), behaviour).await;
    assert_eq!((results.players.finished, results.players.stalls.count()), (1, 0), "{path}: {wrong:?}");
    (results, wrong.into_keys().collect())
}

#[tokio::test(start_paused = true)]
async fn text_is_fetched_by_those_who_want_it() {
    let (video, stream) = (dash("template-timeline", ""), hls("ts", ""));
    let vtt =
        "WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:126000,LOCAL:00:00:00.000\n\n00:01.000 --> 00:02.000\nGood morning\n"
            .to_owned();
    let inside = period(&video, "a", "");
    let text = |name: &str, mime: &str| {
        let set = format!(
            r#"<AdaptationSet mimeType="{mime}"><BaseURL>../{name}</BaseURL><Representation id="text"/></AdaptationSet></Period>"#
        );
        mpd(&[inside.replace("</Period>", &set)]).replace("PT24S", "PT12S")
    };
    let master = "#EXTM3U\n#EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"s\",NAME=\"en\",URI=\"text.m3u8\"\n\
        #EXT-X-STREAM-INF:BANDWIDTH=300000,RESOLUTION=320x180,SUBTITLES=\"s\"\nb/index.m3u8\n";
    let media =
        "#EXTM3U\n#EXT-X-TARGETDURATION:6\n#EXTINF:6,\ngood.vtt\n#EXTINF:6,\nbad.vtt\n#EXT-X-ENDLIST\n";
    let server = served(
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
        // Nobody else asks for it.
        let (results, wrong) = played(&server, &plan(path), fixed(u64::MAX)).await;
        assert!(wrong.is_empty(), "{path}: {wrong:?}");
        assert!(!results.requests.contains_key(class), "{path}");
    }
}
