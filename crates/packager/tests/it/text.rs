//! Timed text in another form than it is stored in, as ffmpeg reads it.

use crate::{
    media::avc_aac,
    oracles::moov,
    player::{BASE, fetch, multivariant, play},
};
use bytes::Bytes;
use latemux_index::media::TrackKind;
use latemux_packager::{Address, Resource, plan::following};
use latemux_testmedia::{
    origin::Origin,
    recipe::{folder, make},
};
use std::{
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

const TARGET: Duration = Duration::from_secs(2);

/// Subtitles with a gap, two that touch, one over a cut of the grid, and signs that are markup.
const SUBRIP: &str = "1
00:00:00,500 --> 00:00:01,900
One & two

2
00:00:03,250 --> 00:00:05,125
<i>Over</i> a cut

3
00:00:05,125 --> 00:00:06,001
Two
lines

4
00:00:07,999 --> 00:00:08,500
é 😀
";

/// Makes a file of text in a coding of ffmpeg.
fn text(codec: &str) -> PathBuf {
    let source = folder().join(format!("text-{}.srt", std::process::id()));
    fs::write(&source, SUBRIP).unwrap();
    let args = format!("-i {} -c:s {codec} -metadata:s:s:0 language=eng", source.display());
    let path = make(&format!("text-{codec}"), "mp4", &args);
    let _ = fs::remove_file(source);
    path
}

/// Returns the cues that ffmpeg reads in a WebVTT or SubRip file: each with its times and lines.
fn cues(format: &str, text: &[u8]) -> Vec<String> {
    let mut ffmpeg = Command::new("ffmpeg")
        .args(["-v", "error", "-f", format, "-i", "pipe:0", "-f", "srt", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("ffmpeg is installed (make tools)");
    ffmpeg.stdin.take().unwrap().write_all(text).unwrap();
    let out = String::from_utf8(ffmpeg.wait_with_output().unwrap().stdout).unwrap();
    let blocks = out.trim().split("\n\n").filter(|block| !block.is_empty());
    blocks.map(|block| block.split_once('\n').unwrap().1.to_owned()).collect()
}

/// Returns the times of a cue in microseconds.
fn times(cue: &str) -> (u64, u64) {
    let micros = |time: &str| {
        let mut fields = time.split([':', ',', '.']).map(|field| field.trim().parse::<u64>().unwrap());
        let mut next = || fields.next().unwrap();
        (((next() * 60 + next()) * 60 + next()) * 1000 + next()) * 1000
    };
    let (start, end) = cue.lines().next().unwrap().split_once(" --> ").unwrap();
    (micros(start), micros(end))
}

#[test]
fn hls_segments_of_webvtt_hold_every_cue_once() {
    let want = cues("srt", SUBRIP.as_bytes());
    assert_eq!(want.len(), 4);
    for codec in ["mov_text", "ttml"] {
        let mut origin = Origin::open(&[avc_aac(), text(codec)], TARGET);
        // ffmpeg writes TTML without markup.
        let plain = |cue: &String| cue.replace("<i>", "").replace("</i>", "");
        let want = if codec == "ttml" { want.iter().map(plain).collect() } else { want.clone() };
        for (query, mpegts) in [("", 900_000), ("?hls_fmp4", 0)] {
            let (master, playlist) = multivariant(&mut origin, query);
            assert!(!master.contains("wvtt") && !master.contains("stpp"), "{master}");
            let all = playlist.variants.iter().filter(|variant| !variant.is_i_frame);
            assert!(all.clone().all(|variant| variant.subtitles.as_deref() == Some("subtitles")), "{master}");
            let subtitles = playlist.alternatives.iter().find(|a| a.group_id == "subtitles").unwrap();
            let played = play(&mut origin, subtitles.uri.as_ref().unwrap());
            assert!(played.init.is_none(), "{}", played.text);
            let (mut got, mut start, mut bits) = (Vec::new(), 0, 0.0_f64);
            for (segment, duration) in played.segments.iter().zip(&played.durations) {
                let head = format!("WEBVTT\nX-TIMESTAMP-MAP=MPEGTS:{mpegts},LOCAL:00:00:00.000\n");
                assert!(segment.starts_with(head.as_bytes()));
                for cue in cues("webvtt", segment) {
                    let (from, until) = times(&cue);
                    assert!(from + 1000 > start && until <= start + duration + 1000, "{codec}: {cue}");
                    got.push(cue);
                }
                start += duration;
                bits = bits.max(segment.len() as f64 * 8e6 / (*duration).max(1) as f64);
            }
            assert_eq!(got, want, "{codec}{query}");
            // One rendition of text is counted in the variants.
            let lowest = all.map(|variant| variant.bandwidth).min().unwrap();
            assert!(lowest as f64 > bits, "{lowest} {bits}");
        }
    }
}

#[test]
fn joined_segments_hold_the_same_cues() {
    let mut origin = Origin::open(&[avc_aac(), text("mov_text")], TARGET);
    let name = origin.names(TrackKind::Text)[0].clone();
    let url = format!("{BASE}x-{name}.m3u8?hls_minimum_fragment_length=4");
    let played = play(&mut origin, url.strip_prefix(BASE).unwrap());
    let got: Vec<String> = played.segments.iter().flat_map(|segment| cues("webvtt", segment)).collect();
    assert_eq!(got, cues("srt", SUBRIP.as_bytes()));
    let plain = play(&mut origin, &format!("x-{name}.m3u8"));
    assert!(played.segments.len() < plain.segments.len(), "{}", played.text);
}

#[test]
fn text_segments_are_media_with_one_form_of_url() {
    let mut origin = Origin::open(&[avc_aac(), text("ttml")], TARGET);
    let name = origin.names(TrackKind::Text)[0].clone();
    assert_eq!(name.stem, "textstream_eng");
    let response = fetch(&mut origin, &format!("{BASE}x-{name}-1.webvtt")).unwrap();
    assert_eq!(response.content_type, "text/vtt");
    let beside_cmaf = fetch(&mut origin, &format!("{BASE}hls/x-{name}-1.webvtt")).unwrap();
    assert_ne!(response.digest, beside_cmaf.digest, "their times differ");
    let video = origin.names(TrackKind::Video)[0].clone();
    for url in [format!("x-{video}-1.webvtt"), format!("x-{name}-99.webvtt"), format!("x-{name}-1.ts")] {
        assert!(fetch(&mut origin, &format!("{BASE}{url}")).is_err(), "{url}");
    }
    let mut tx3g = Origin::open(&[avc_aac(), text("mov_text")], TARGET);
    let name = tx3g.names(TrackKind::Text)[0].clone();
    let first = Address::parse(&format!("{BASE}hls/x-{name}-1.webvtt"), None).unwrap();
    let next = following(&tx3g.title, &first).unwrap();
    assert_eq!(next.to_url(), format!("{BASE}hls/x-{name}-2.webvtt"));
    assert!(fetch(&mut tx3g, &next.to_url()).is_ok());
}

#[test]
fn dash_sends_3gpp_text_as_webvtt_in_mp4() {
    let mut origin = Origin::open(&[avc_aac(), text("mov_text")], TARGET);
    let name = origin.names(TrackKind::Text)[0].clone();
    let mpd = origin.text(&Resource::DashManifest(Default::default()));
    assert!(mpd.contains("codecs=\"wvtt\""), "{mpd}");
    let init = origin.get(&Resource::DashInit(name.clone())).unwrap().bytes;
    let moov = moov(&init);
    assert_eq!(moov.trak[0].mdia.hdlr.handler.to_string(), "text");
    assert!(init.windows(14).any(|window| window == b"\0\0\0\x0EvttCWEBVTT"));
    let mut file = init;
    let mut sizes = 0;
    for number in 1..=origin.segment_count(&name) {
        let segment = origin.get(&Resource::DashSegment(name.clone(), number)).unwrap();
        assert_eq!(segment.content_type, "application/mp4");
        sizes += segment.bytes.len() as u64;
        file.extend_from_slice(&segment.bytes);
    }
    let track = origin.title.find(&name).unwrap();
    let stated =
        latemux_packager::sizes::segment_sizes(&origin.title, track, latemux_packager::carry::Protocol::Dash);
    assert!(stated.iter().sum::<u64>() >= sizes, "{stated:?} {sizes}");
    // As a source, the result has the cues of the original.
    let mut again = Origin::of(vec![fs::read(avc_aac()).unwrap().into(), Bytes::from(file)], TARGET).unwrap();
    let text = again.names(TrackKind::Text)[0].clone();
    let played = play(&mut again, &format!("x-{text}.m3u8"));
    let got: Vec<String> = played.segments.iter().flat_map(|segment| cues("webvtt", segment)).collect();
    assert_eq!(got, cues("srt", SUBRIP.as_bytes()));
}

#[test]
fn smooth_sends_text_as_documents_whose_times_count_from_their_fragment() {
    let mut origin = Origin::open(&[avc_aac(), text("mov_text")], TARGET);
    let name = origin.names(TrackKind::Text)[0].clone();
    let manifest = origin.text(&Resource::SmoothManifest);
    let document = roxmltree::Document::parse(&manifest).unwrap();
    let stream = document.descendants().find(|node| node.attribute("Subtype") == Some("SUBT")).unwrap();
    assert!(stream.descendants().any(|node| node.attribute("FourCC") == Some("TTML")), "{manifest}");
    let chunks = stream.children().filter(|node| node.has_tag_name("c"));
    let (mut time, mut got) = (0, Vec::new());
    for chunk in chunks {
        time = chunk.attribute("t").map_or(time, |t| t.parse::<u64>().unwrap());
        let fragment = origin.get(&Resource::SmoothFragment(name.clone(), time)).unwrap();
        let ttml = fragment.bytes.windows(5).position(|window| window == b"<?xml").unwrap();
        let ttml = String::from_utf8(fragment.bytes[ttml..].to_vec()).unwrap();
        let ttml = roxmltree::Document::parse(&ttml).unwrap();
        for p in ttml.descendants().filter(|node| node.has_tag_name("p")) {
            let at = |name: &str| time / 10 + times(&format!("{} --> {0}", p.attribute(name).unwrap())).0;
            let lines: Vec<&str> =
                p.descendants().filter_map(|node| node.text().filter(|_| node.is_text())).collect();
            got.push((at("begin"), at("end"), lines.join("|")));
        }
        time += chunk.attribute("d").map_or(0, |d| d.parse::<u64>().unwrap());
    }
    // All times of Smooth Streaming are later by a constant.
    let delay = got[0].0 - 500_000;
    assert!(delay < 200_000, "{delay}");
    let want = [
        (500_000, 1_900_000, "One & two"),
        (3_250_000, 5_125_000, "Over| a cut"),
        (5_125_000, 6_001_000, "Two|lines"),
        (7_999_000, 8_500_000, "é 😀"),
    ];
    assert_eq!(got.len(), want.len(), "{got:?}");
    for (got, want) in got.iter().zip(want) {
        assert!(
            (got.0 - delay).abs_diff(want.0) <= 1000 && (got.1 - delay).abs_diff(want.1) <= 1000,
            "{got:?}"
        );
        assert_eq!(got.2, want.2);
    }
}
