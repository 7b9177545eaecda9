//! Captured files hold the packets that were served, as ffprobe reads both.

use latemux_capture::{CaptureError, CaptureOptions, OutputFormat, capture};
use latemux_testmedia::{
    memory_server::{MemoryServer, Reply, files, smooth_files},
    probe::{Stream, probe},
    recipe,
    streams::{dash, hds, hls, hls_group, packed_audio, repackaged},
};
use std::{fs, path::Path};
use url::Url;

pub(crate) async fn captured(
    server: &MemoryServer,
    path: &str,
) -> (Result<(), CaptureError>, Vec<u8>, Vec<serde_json::Value>) {
    captured_as(server, path, OutputFormat::Mp4).await
}

async fn captured_as(
    server: &MemoryServer,
    path: &str,
    format: OutputFormat,
) -> (Result<(), CaptureError>, Vec<u8>, Vec<serde_json::Value>) {
    let mut out = Vec::new();
    let mut trace = Vec::new();
    let options = CaptureOptions { rate: u64::MAX, format, text: false };
    let url = Url::parse("http://origin.example/").unwrap().join(path).unwrap();
    let done = capture(&server.client(), &url, options, &mut out, &mut trace).await.map(|_| ());
    let lines = String::from_utf8(trace).unwrap();
    (done, out, lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// Returns the streams that ffprobe finds in the concatenation of files.
fn concatenated(folder: &Path, names: &[String]) -> Vec<Stream> {
    let bytes: Vec<u8> = names.iter().flat_map(|name| fs::read(folder.join(name)).unwrap()).collect();
    probe_bytes(&bytes)
}

pub(crate) fn probe_bytes(bytes: &[u8]) -> Vec<Stream> {
    let file = tempfile::Builder::new().suffix(".mp4").tempfile().unwrap();
    fs::write(file.path(), bytes).unwrap();
    probe(file.path(), &[]).streams
}

/// Asserts that both have the same packets, apart from their offsets in the file.
fn assert_same_packets(ours: &[Stream], theirs: &[Stream]) {
    assert_eq!(ours.len(), theirs.len());
    for (a, b) in ours.iter().zip(theirs) {
        assert_eq!((&a.kind, &a.codec, a.timescale), (&b.kind, &b.codec, b.timescale));
        let packets = |stream: &Stream| -> Vec<_> {
            stream.packets.iter().map(|p| (p.dts, p.pts, p.size, p.key, p.hash.clone())).collect()
        };
        assert!(a.packets.len() > 100, "{}", a.packets.len());
        assert_eq!(packets(a), packets(b), "{}", a.kind);
    }
}

#[tokio::test(start_paused = true)]
async fn a_dash_title_is_captured_and_its_requests_are_listed() {
    let folder = dash("template-timeline", "");
    let server = MemoryServer::new(files(folder.clone()));
    let (done, out, trace) = captured(&server, "index.mpd").await;
    done.unwrap();
    let of = |stream: usize, count: usize| {
        let mut names = vec![format!("init-stream{stream}.m4s")];
        names.extend((1..=count).map(|n| format!("chunk-stream{stream}-{n:05}.m4s")));
        concatenated(&folder, &names)
    };
    assert_same_packets(&probe_bytes(&out), &[of(0, 6), of(2, 7)].concat());

    let requested: Vec<String> = server.requests().into_iter().map(|request| request.path).collect();
    let traced: Vec<String> = trace
        .iter()
        .map(|line| Url::parse(line["url"].as_str().unwrap()).unwrap().path().to_owned())
        .collect();
    assert_eq!(traced, requested);
    let bytes: u64 = trace.iter().map(|line| line["bytes"].as_u64().unwrap()).sum();
    assert_eq!(bytes, server.body_bytes());
}

#[tokio::test(start_paused = true)]
async fn dash_of_byte_ranges_and_hls_of_fragments_are_captured() {
    let folder = dash("list-ranges", "-single_file 1");
    let (done, out, trace) = captured(&MemoryServer::new(files(folder.clone())), "index.mpd").await;
    done.unwrap();
    assert!(trace.iter().all(|line| line["what"] == "manifest" || line["range"].is_string()));
    let video = concatenated(&folder, &["index-stream0.mp4".to_owned()]);
    // The list names audio segments after the end of the period, which are not played.
    assert_same_packets(&probe_bytes(&out)[..1], &video);

    let folder = hls("cmaf", "-hls_segment_type fmp4");
    let (done, out, _) = captured(&MemoryServer::new(files(folder.clone())), "index.m3u8").await;
    done.unwrap();
    let mut names = vec!["init.mp4".to_owned()];
    names.extend((0..6).map(|n| format!("index{n}.m4s")));
    assert_same_packets(&probe_bytes(&out), &concatenated(&folder, &names));

    let folder = hls_group("group-cmaf", "-hls_segment_type fmp4");
    let (done, out, _) = captured(&MemoryServer::new(files(folder.clone())), "index.m3u8").await;
    done.unwrap();
    let of = |stream: usize| {
        let mut names = vec![format!("init_{stream}.mp4")];
        names.extend((0..7).map(|n| format!("{stream}{n}.m4s")).filter(|name| folder.join(name).exists()));
        concatenated(&folder, &names)
    };
    assert_same_packets(&probe_bytes(&out), &[of(0), of(2)].concat());
}

/// Returns decode time, presentation time, sync flag and hash of all packets. Times are in ticks of
/// `scale` since the first presentation time.
fn content(stream: &Stream, scale: f64) -> Vec<(i64, i64, bool, String)> {
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "ticks of seconds")]
    let time = |ticks: i64| (ticks as f64 / f64::from(stream.timescale) * scale).round() as i64;
    let first = time(stream.packets[0].pts);
    stream.packets.iter().map(|p| (time(p.dts) - first, time(p.pts) - first, p.key, p.hash.clone())).collect()
}

/// Asserts that both have the same packets at the same times, counted from the first packet.
pub(crate) fn assert_same_content(what: &str, ours: &[Stream], theirs: &[Stream], scale: f64) {
    assert_same_with_delay(what, ours, theirs, scale, 0);
}

/// Like [`assert_same_content`], with the decode times of video later by `later` ticks of `scale`.
fn assert_same_with_delay(what: &str, ours: &[Stream], theirs: &[Stream], scale: f64, later: i64) {
    assert_eq!(ours.len(), theirs.len(), "{what}");
    for (ours, theirs) in ours.iter().zip(theirs) {
        assert_eq!((&ours.kind, &ours.codec), (&theirs.kind, &theirs.codec), "{what}");
        let later = if ours.kind == "video" { later } else { 0 };
        let ours = content(ours, scale);
        let theirs = content(theirs, scale);
        assert_eq!(ours.len(), theirs.len(), "{what}");
        for (ours, theirs) in ours.iter().zip(&theirs) {
            let near = (ours.0 - later - theirs.0).abs() <= 1 && (ours.1 - theirs.1).abs() <= 1;
            assert!(near && (ours.2, &ours.3) == (theirs.2, &theirs.3), "{what}: {ours:?} for {theirs:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn streams_without_fragments_are_captured_as_their_source_packets() {
    let avc = recipe::AVC;
    let hevc = "-c:v libx265 -preset ultrafast -x265-params log-level=none:info=0:pools=none:frame-threads=1:keyint=25 -tag:v hvc1 -pix_fmt yuv420p";
    for (name, codecs) in [
        ("aac", format!("{avc} -c:a aac -b:a 64k -ac 2")),
        ("ac3", format!("{avc} -c:a ac3 -b:a 96k -ac 2")),
        ("eac3", format!("{hevc} -c:a eac3 -b:a 96k -ac 2")),
        ("mp3", format!("{avc} -c:a libmp3lame -ar 44100 -b:a 64k")),
    ] {
        let source = recipe::coded(&format!("capture-{name}"), &codecs);
        let theirs = probe(&source, &[]).streams;
        let how = "-f hls -hls_time 2 -hls_playlist_type vod {}/index.m3u8";
        let folder = repackaged(&format!("copied-{name}"), &source, how);
        let (done, out, trace) = captured(&MemoryServer::new(files(folder.clone())), "index.m3u8").await;
        done.unwrap();
        assert_same_content(name, &probe_bytes(&out), &theirs, 90_000.0);
        assert!(trace.len() > 3);
        // With a .ts output the packets are unchanged.
        let (done, out, _) =
            captured_as(&MemoryServer::new(files(folder.clone())), "index.m3u8", OutputFormat::Ts).await;
        done.unwrap();
        let names: Vec<String> = (0..trace.len() - 1).map(|n| format!("index{n}.ts")).collect();
        assert!(
            out == names.iter().flat_map(|name| fs::read(folder.join(name)).unwrap()).collect::<Vec<u8>>()
        );
    }
    let source = recipe::coded("capture-aac", &format!("{avc} -c:a aac -b:a 64k -ac 2"));
    let theirs = probe(&source, &[]).streams;
    let folder = repackaged("copied-hds", &source, "-f hds -min_frag_duration 2000000 {}");
    let (done, out, _) = captured(&MemoryServer::new(files(folder)), "index.f4m").await;
    done.unwrap();
    assert_same_content("hds", &probe_bytes(&out), &theirs, 1000.0);
    let folder = repackaged("copied-smooth", &source, "-f smoothstreaming -min_frag_duration 2000000 {}");
    let (done, out, _) =
        captured(&MemoryServer::new(smooth_files(folder, "800000", "586667")), "Manifest").await;
    done.unwrap();
    // ffmpeg writes composition offsets from minus one frame on, which shift the decode times that
    // ffprobe reports.
    assert_same_with_delay("smooth", &probe_bytes(&out), &theirs, 10_000_000.0, 400_000);
}

#[tokio::test(start_paused = true)]
async fn packed_audio_is_captured_across_a_wrap_of_its_time_stamps() {
    let title = packed_audio();
    let source = title.source.clone();
    let server = MemoryServer::new(move |request| match request.path.as_str() {
        "/0.aac" => Reply::ok(title.segments[0].clone()),
        "/1.aac" => Reply::ok(title.segments[1].clone()),
        _ => Reply::ok(title.playlist),
    });
    let (done, out, _) = captured(&server, "index.m3u8").await;
    done.unwrap();
    let theirs = probe(&source, &[]).streams;
    assert_same_content("packed audio", &probe_bytes(&out), &theirs[1..], 48_000.0);
}

#[tokio::test(start_paused = true)]
async fn unsupported_outputs_are_refused_and_failures_keep_whole_fragments() {
    for (server, manifest, format, why) in [
        (files(hls("ts", "")), "index.m3u8", OutputFormat::Flv, "this hls stream cannot be saved as .flv"),
        (files(hds()), "index.f4m", OutputFormat::Ts, "this hds stream cannot be saved as .ts"),
        (
            files(hls_group("group-ts", "")),
            "index.m3u8",
            OutputFormat::Ts,
            "audio and video in separate segments",
        ),
    ] {
        let (done, out, _) = captured_as(&MemoryServer::new(server), manifest, format).await;
        assert!(done.as_ref().is_err_and(|error| error.to_string().contains(why)), "{done:?}");
        assert!(out.is_empty());
    }

    let inner = files(dash("template-timeline", ""));
    let server = MemoryServer::new(move |request| {
        if request.path.contains("stream0-00004") { Reply::status(500) } else { inner(request) }
    });
    let (done, out, trace) = captured(&server, "index.mpd").await;
    assert!(done.unwrap_err().to_string().starts_with("status_500: "));
    assert!(trace.last().unwrap()["error"].as_str().unwrap().starts_with("status_500"));
    assert_eq!(probe_bytes(&out)[0].packets.len(), 150, "three segments of 2 s at 25 frames per second");
}
