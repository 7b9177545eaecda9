//! Timed text in another form than it is stored in, as ffmpeg reads it.

use crate::{
    media::avc_aac,
    oracles::moov,
    player::{BASE, fetch, multivariant, play},
};
use bytes::Bytes;
use latemux_index::media::TrackKind;
use latemux_packager::{Address, Resource, plan::following, selection::DashText, text_file};
use latemux_testmedia::{
    origin::{NAME, Origin},
    recipe::{folder, make},
    subtitles::two_hours,
};
use latemux_text::TextFormat;
use proptest::prelude::*;
use std::{
    collections::BTreeSet,
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
            let mut got = Vec::new();
            let mut start = 0;
            let mut bits = 0.0_f64;
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
fn a_run_states_the_size_of_a_lone_sample_with_two_cues() {
    const CUES: &str =
        "1\n00:00:00,000 --> 00:00:02,000\nFirst\n\n2\n00:00:00,000 --> 00:00:02,000\nSecond\n";
    let mut origin = with_text_file("eng.srt", CUES.as_bytes());
    let name = origin.names(TrackKind::Text)[0].clone();
    let segments = (1..=origin.segment_count(&name)).map(|n| Resource::DashSegment(name.clone(), n));
    for resource in segments.collect::<Vec<_>>() {
        let segment = origin.get(&resource).unwrap().bytes;
        let trun = segment.windows(4).position(|window| window == b"trun").unwrap() + 4;
        let fields: Vec<u32> = segment[trun..]
            .chunks_exact(4)
            .map(|field| u32::from_be_bytes(field.try_into().unwrap()))
            .collect();
        assert_eq!(fields[1], 1, "samples in the run");
        // ISO/IEC 14496-12 §8.8.8: sample-size-present. Without it, Shaka Player reads one cue.
        assert_eq!(fields[0] & 0x200, 0x200);
    }
}

/// Makes a file of TTML with a document in each of several fragments.
fn fragmented_ttml() -> PathBuf {
    let mut origin = with_text_file("eng.srt", SUBRIP.as_bytes());
    let name = origin.names(TrackKind::Text)[0].clone();
    let segments = (1..=origin.segment_count(&name)).map(|n| Resource::DashSegment(name.clone(), n));
    let resources: Vec<_> = std::iter::once(Resource::DashInit(name.clone())).chain(segments).collect();
    assert!(resources.len() > 3);
    let mut file = Vec::new();
    for resource in resources {
        let mut address = Address::new(NAME, resource);
        address.selection.text = DashText::Stpp;
        file.extend(origin.get_address(&address).unwrap().bytes);
    }
    let path = folder().join(format!("text-fragmented-{}.mp4", std::process::id()));
    fs::write(&path, file).unwrap();
    path
}

/// Fetches what a manifest of Smooth Streaming lists of the only text, and returns times in
/// microseconds and texts of its cues.
fn smooth_cues(origin: &mut Origin, query: &str) -> Vec<(u64, u64, String)> {
    let manifest = fetch(origin, &format!("{BASE}Manifest{query}")).unwrap().bytes;
    let manifest = String::from_utf8(manifest).unwrap();
    let document = roxmltree::Document::parse(&manifest).unwrap();
    let stream = document.descendants().find(|node| node.attribute("Subtype") == Some("SUBT")).unwrap();
    let level = stream.children().find(|node| node.attribute("FourCC") == Some("TTML")).unwrap();
    let url = stream.attribute("Url").unwrap().replace("{bitrate}", level.attribute("Bitrate").unwrap());
    let mut time = 0;
    let mut got = Vec::new();
    for chunk in stream.children().filter(|node| node.has_tag_name("c")) {
        time = chunk.attribute("t").map_or(time, |t| t.parse::<u64>().unwrap());
        let fragment = fetch(origin, &format!("{BASE}{}", url.replace("{start time}", &time.to_string())));
        let fragment = fragment.unwrap().bytes;
        let ttml = fragment.windows(5).position(|window| window == b"<?xml").unwrap();
        let ttml = String::from_utf8(fragment[ttml..].to_vec()).unwrap();
        let ttml = roxmltree::Document::parse(&ttml).unwrap();
        for p in ttml.descendants().filter(|node| node.has_tag_name("p")) {
            let at = |name: &str| time / 10 + times(&format!("{} --> {0}", p.attribute(name).unwrap())).0;
            let lines: Vec<&str> =
                p.descendants().filter_map(|node| node.text().filter(|_| node.is_text())).collect();
            got.push((at("begin"), at("end"), lines.join("|")));
        }
        time += chunk.attribute("d").map_or(0, |d| d.parse::<u64>().unwrap());
        // The next fragment goes on with a cue, so this one must not show it any longer.
        assert!(got.iter().all(|(_, until, _)| *until <= time / 10 + 1000), "{got:?}");
    }
    got
}

#[test]
fn smooth_ends_the_parts_of_a_cue_with_their_fragments() {
    const CUES: &str = "1\n00:00:01,000 --> 00:00:08,000\nLong\n\n2\n00:00:03,000 --> 00:00:05,000\nShort\n";
    let mut origin = with_text_file("eng.srt", CUES.as_bytes());
    let got = smooth_cues(&mut origin, "");
    let long: Vec<_> = got.iter().filter(|(_, _, text)| text == "Long").collect();
    assert!(long.len() > 1, "{got:?}");
    assert!(long.windows(2).all(|pair| pair[0].1.abs_diff(pair[1].0) <= 1000), "{got:?}");
}

#[test]
fn smooth_sends_text_as_documents_whose_times_count_from_their_fragment() {
    let all = [
        (500_000, 1_900_000, "One & two"),
        (3_250_000, 5_125_000, "Over| a cut"),
        (5_125_000, 6_001_000, "Two|lines"),
        (7_999_000, 8_500_000, "é 😀"),
    ];
    let fragmented = fragmented_ttml();
    // Each with the part of the title, its start in microseconds, and its cues. ffmpeg writes TTML
    // as one sample, which no clip that begins later has.
    let cases = [
        (text("mov_text"), "", 0, &all[..]),
        (text("mov_text"), "?vbegin=4", 4_000_000, &all[2..]),
        (text("ttml"), "", 0, &all[..]),
        (fragmented.clone(), "", 0, &all[..]),
        (fragmented.clone(), "?vbegin=4", 4_000_000, &all[2..]),
    ];
    for (file, query, start, want) in cases {
        let mut origin = Origin::open(&[avc_aac(), file.clone()], TARGET);
        let got = smooth_cues(&mut origin, query);
        let what = format!("{}{query}: {got:?}", file.display());
        assert_eq!(got.len(), want.len(), "{what}");
        // All times of Smooth Streaming are later by a constant.
        let delay = got[0].0 + start - want[0].0;
        assert!(delay < 200_000, "{what}");
        for ((from, until, text), want) in got.iter().zip(want) {
            let is_near = |time: u64, want: u64| (time + start - delay).abs_diff(want) <= 1000;
            // ffmpeg writes TTML without markup.
            let is_same = text == want.2 || text.replace('|', "") == want.2.replace('|', "");
            assert!(is_near(*from, want.0) && is_near(*until, want.1) && is_same, "{what}");
        }
    }
    let _ = fs::remove_file(fragmented);
}

/// Opens the film with a file of text beside it.
fn with_text_file(name: &str, text: &[u8]) -> Origin {
    Origin::open(&[avc_aac()], TARGET).with_text(name, text, TARGET)
}

/// Fetches what an MPD with `?text=stpp` lists of the only text, and returns its documents.
fn ttml_documents(origin: &mut Origin) -> Vec<String> {
    let name = origin.names(TrackKind::Text)[0].clone();
    let mpd = String::from_utf8(fetch(origin, &format!("{BASE}.mpd?text=stpp")).unwrap().bytes).unwrap();
    let document = roxmltree::Document::parse(&mpd).unwrap();
    let set = document.descendants().find(|node| node.attribute("contentType") == Some("text")).unwrap();
    let template = set.children().find(|node| node.tag_name().name() == "SegmentTemplate").unwrap();
    let codecs = set.descendants().find_map(|node| node.attribute("codecs"));
    assert_eq!(codecs, Some("stpp.ttml.im1t"), "{mpd}");
    let url = |attribute: &str| {
        let url = template.attribute(attribute).unwrap();
        assert!(url.ends_with("?text=stpp"), "{url}");
        url.replace("$RepresentationID$", &name.to_string())
    };
    // Only text depends on its form.
    assert_eq!(mpd.matches("?text=stpp").count(), 2, "{mpd}");
    let init = fetch(origin, &format!("{BASE}{}", url("initialization"))).unwrap().bytes;
    let trak = moov(&init).trak[0].clone();
    assert_eq!(trak.mdia.hdlr.handler.to_string(), "subt");
    assert!(init.windows(4).any(|window| window == b"stpp"));
    let scale = u64::from(trak.mdia.mdhd.timescale);
    let mut documents = Vec::new();
    let mut time = 0;
    for s in template.descendants().filter(|node| node.tag_name().name() == "S") {
        let number = |name: &str| s.attribute(name).map(|value| value.parse::<u64>().unwrap());
        time = number("t").unwrap_or(time);
        for _ in 0..=number("r").unwrap_or(0) {
            let media = url("media").replace("$Time$", &time.to_string());
            let segment = fetch(origin, &format!("{BASE}{media}")).unwrap();
            assert_eq!(segment.content_type, "application/mp4");
            let mdat = segment.bytes.windows(4).position(|window| window == b"mdat").unwrap();
            let text = String::from_utf8(segment.bytes[mdat + 4..].to_vec()).unwrap();
            let until = time + number("d").unwrap();
            let millis = |ticks: u64| ticks * 1000 / scale;
            for p in roxmltree::Document::parse(&text).unwrap().descendants().filter(|n| n.has_tag_name("p"))
            {
                let at = |name: &str| times(&format!("{} --> {0}", p.attribute(name).unwrap())).0 / 1000;
                assert!(at("begin") >= millis(time) && at("end") <= millis(until) + 1, "{text}");
            }
            documents.push(text);
            time = until;
        }
    }
    documents
}

/// Returns times in milliseconds and texts of the cues in documents. Cues that touch are one.
fn shown(documents: &[String]) -> Vec<(u64, u64, String)> {
    let mut all: Vec<(u64, u64, String)> = Vec::new();
    for text in documents {
        let document = roxmltree::Document::parse(text).unwrap();
        for p in document.descendants().filter(|node| node.has_tag_name("p")) {
            let at = |name: &str| times(&format!("{} --> {0}", p.attribute(name).unwrap())).0 / 1000;
            let lines: Vec<&str> =
                p.descendants().filter_map(|node| node.text().filter(|_| node.is_text())).collect();
            let begin = at("begin");
            let end = at("end");
            let lines = lines.join("|");
            match all.iter_mut().find(|cue| cue.1 == begin && cue.2 == lines) {
                Some(before) => before.1 = end,
                None => all.push((begin, end, lines)),
            }
        }
    }
    all
}

#[test]
fn dash_sends_all_text_as_ttml_on_request() {
    let want = [
        (500, 1900, "One & two".to_owned()),
        (3250, 5125, "Over| a cut".to_owned()),
        (5125, 6001, "Two|lines".to_owned()),
        (7999, 8500, "é 😀".to_owned()),
    ];
    let mut stored = Origin::open(&[avc_aac(), text("mov_text")], TARGET);
    assert_eq!(shown(&ttml_documents(&mut stored)), want);
    let mut file = with_text_file("eng.srt", SUBRIP.as_bytes());
    assert_eq!(shown(&ttml_documents(&mut file)), want);
    let name = file.names(TrackKind::Text)[0].clone();
    let get = |origin: &mut Origin, url: String| fetch(origin, &format!("{BASE}{url}")).unwrap();
    let plain = get(&mut file, format!("dash/x-{name}-1.m4s"));
    let ttml = get(&mut file, format!("dash/x-{name}-1.m4s?text=stpp"));
    assert_ne!(plain.digest, ttml.digest);
    let inits = ["", "?text=stpp"].map(|query| get(&mut file, format!("dash/x-{name}.dash{query}")).digest);
    assert_ne!(inits[0], inits[1]);
    // TTML that is stored stays as it is, under the URLs it has without the parameter.
    let mut stpp = Origin::open(&[avc_aac(), text("ttml")], TARGET);
    let mpd = get(&mut stpp, ".mpd?text=stpp".to_owned());
    assert!(!String::from_utf8(mpd.bytes).unwrap().contains("?text=stpp"));
}

/// Runs a program of Python with `ttconv`, which `make tools` installs. `None` where it is not.
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
fn ttconv(program: &str, input: &str) -> Option<String> {
    let installed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../e2e/.venv/bin/python3");
    let python = std::env::var("LATEMUX_PYTHON").unwrap_or_else(|_| installed.to_owned());
    let is_there = Command::new(&python).args(["-c", "import ttconv"]).stderr(Stdio::null()).status();
    if !is_there.is_ok_and(|status| status.success()) {
        println!("skipped: ttconv is not installed (make tools)");
        return None;
    }
    let mut child = Command::new(python)
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{input}");
    Some(String::from_utf8(out.stdout).unwrap())
}

/// Reads a TTML document, and writes SubRip.
const TTML_TO_SRT: &str = "
import sys, xml.etree.ElementTree as et
import ttconv.imsc.reader as reader, ttconv.srt.writer as writer
tree = et.ElementTree(et.fromstring(sys.stdin.buffer.read()))
sys.stdout.reconfigure(encoding='utf-8')
print(writer.from_model(reader.to_model(tree)))
";
/// Reads SubRip, and writes a TTML document.
const SRT_TO_TTML: &str = "
import sys, io
import ttconv.imsc.writer as writer, ttconv.srt.reader as reader
sys.stdout.reconfigure(encoding='utf-8')
writer.from_model(reader.to_model(io.TextIOWrapper(sys.stdin.buffer, 'utf-8'))).write(sys.stdout, encoding='unicode')
";

#[test]
fn ttconv_reads_the_ttml_that_is_made_and_writes_ttml_that_is_read() {
    let mut origin = with_text_file("eng.srt", SUBRIP.as_bytes());
    let mut got = Vec::new();
    for document in ttml_documents(&mut origin) {
        let Some(srt) = ttconv(TTML_TO_SRT, &document) else { return };
        got.extend(cues("srt", srt.as_bytes()));
    }
    // ttconv puts each run of text into a line of its own tags, and cuts at every change.
    let plain = |cue: &String| cue.replace("<i>", "").replace("</i>", "");
    let merged = |all: Vec<String>| {
        let mut joined: Vec<((u64, u64), String)> = Vec::new();
        for cue in all.iter().map(plain) {
            let lines = cue.split_once('\n').unwrap().1.to_owned();
            let (start, end) = times(&cue);
            match joined.last_mut() {
                Some((at, before)) if at.1 == start && *before == lines => at.1 = end,
                _ => joined.push(((start, end), lines)),
            }
        }
        joined
    };
    let want = merged(cues("srt", SUBRIP.as_bytes()));
    assert_eq!(merged(got), want);

    let Some(ttml) = ttconv(SRT_TO_TTML, SUBRIP) else { return };
    let mut origin = with_text_file("eng.ttml", ttml.as_bytes());
    let name = origin.names(TrackKind::Text)[0].clone();
    let played = play(&mut origin, &format!("x-{name}.m3u8"));
    let got: Vec<String> = played.segments.iter().flat_map(|segment| cues("webvtt", segment)).collect();
    assert_eq!(merged(got), want, "{ttml}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    /// ffmpeg reads the cues of the file and those of all segments.
    #[test]
    fn the_segments_of_a_text_file_hold_all_its_cues_and_no_others(
        cues_of in proptest::collection::vec((0_u64..11_500, 1_u64..6000, "[a-z]{1,5}"), 1..12),
    ) {
        let mut file = "WEBVTT\n".to_owned();
        let stamp = |ms: u64| format!("00:00:{:02}.{:03}", ms / 1000, ms % 1000);
        for (place, (start, length, text)) in cues_of.iter().enumerate() {
            let end = stamp(start + length);
            file += &format!("\n{place}\n{} --> {end}\n{text} {place}\n", stamp(*start));
        }
        let mut origin = with_text_file("eng.vtt", file.as_bytes());
        let name = origin.names(TrackKind::Text)[0].clone();
        let want: BTreeSet<String> = cues("webvtt", file.as_bytes()).into_iter().collect();
        for query in ["", "?hls_fmp4"] {
            let played = play(&mut origin, &format!("x-{name}.m3u8{query}"));
            let mut got = BTreeSet::new();
            let mut start = 0;
            for (segment, duration) in played.segments.iter().zip(&played.durations) {
                let held = cues("webvtt", segment);
                for cue in &held {
                    let (from, until) = times(cue);
                    prop_assert!(from < start + duration + 1000 && until + 1000 > start, "{cue}");
                }
                got.extend(held);
                start += duration;
            }
            prop_assert_eq!(&got, &want);
        }
    }
}

#[test]
fn a_long_text_file_is_held_in_twice_its_size() {
    let file = two_hours();
    let index = text_file::index(TextFormat::SubRip, "eng.srt", file.as_bytes()).unwrap();
    assert!(index.heap_bytes() <= 2 * file.len(), "{} of {}", index.heap_bytes(), file.len());
}
