//! `capture` against `serve`: ffprobe finds the same packets in the captured file as in the source.

use crate::{
    server::{Server, samples},
    tools::{latemux, said},
};
use latemux_testmedia::{
    probe::{Probe, Stream, probe},
    recipe,
};
use std::{fs, path::Path};

/// Largest difference of times from those of the source, in seconds, apart from a constant. It
/// comes from rounding to the timescale of the protocol.
const EXACT: f64 = 0.0;
const TS: f64 = 1.1 / 90_000.0;
const SMOOTH: f64 = 2.2e-7;
const HDS: f64 = 0.0021;

fn data(stream: &Stream) -> Vec<(u64, bool, String)> {
    stream.packets.iter().map(|p| (p.size, p.key, p.hash.clone())).collect()
}

#[expect(clippy::cast_precision_loss, reason = "ticks of seconds")]
fn times(stream: &Stream) -> Vec<(f64, f64)> {
    let seconds = |ticks: i64| ticks as f64 / f64::from(stream.timescale);
    stream.packets.iter().map(|p| (seconds(p.dts), seconds(p.pts))).collect()
}

/// Checks that `ours` has the packets of `theirs`, at the same times, or all later by one amount.
///
/// `early` is the time by which ffprobe presents the video of the source too late. That happens in
/// fragments with negative composition offsets, because ffprobe decodes no frame after its
/// presentation time.
fn check_same(what: &str, ours: &Probe, theirs: &Probe, kinds: &[&str], tolerance: f64, early: f64) {
    assert_eq!(ours.streams.len(), kinds.len(), "{what}");
    assert_eq!(ours.warnings, "", "{what}");
    let mut later: Vec<f64> = Vec::new();
    for kind in kinds {
        let ours = ours.first(kind);
        let theirs = theirs.first(kind);
        assert_eq!(ours.codec, theirs.codec, "{what}");
        assert!(ours.packets.len() > 20, "{what} {kind}: {}", ours.packets.len());
        assert!(
            data(ours) == data(theirs),
            "{what} {kind}: {} packets of {}",
            ours.packets.len(),
            theirs.packets.len()
        );
        for ((dts, pts), (their_dts, their_pts)) in times(ours).into_iter().zip(times(theirs)) {
            later.push(pts - their_pts + if *kind == "video" { early } else { 0.0 });
            let reorder = ((pts - dts) - (their_pts - their_dts)).abs();
            // If no time may be negative, the decoding times of all frames are lower by a constant.
            assert!(
                tolerance > EXACT || reorder == 0.0,
                "{what} {kind}: {dts} {pts} for {their_dts} {their_pts}"
            );
        }
    }
    let least = later.iter().copied().fold(f64::INFINITY, f64::min);
    let most = later.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    assert!(most - least <= tolerance && least.abs() < 0.2, "{what}: later by {least} to {most} s");
}

fn captured(server: &Server, path: &str, out: &Path) -> Probe {
    let url = format!("http://{}/{path}", server.address);
    let trace = out.with_extension("jsonl");
    let output = latemux(&["capture", &url, "-o", out.to_str().unwrap(), "--trace", trace.to_str().unwrap()]);
    assert!(output.status.success(), "{path}: {}", said(&output));
    let lines = fs::read_to_string(&trace).unwrap().lines().count();
    assert!(lines > 3, "{path}: {lines}");
    probe(out, &[])
}

#[test]
fn captured_files_have_the_packets_of_the_source() {
    let server = Server::start(&samples(), &[], &[]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.mp4");
    for title in ["lighthouse.mp4", "ferry.mp4", "buoy.mp4"] {
        let source = probe(&Path::new(&samples()).join(title), &[]);
        let kinds: Vec<&str> = source.streams.iter().map(|stream| stream.kind.as_str()).collect();
        let of = |manifest: &str, tolerance| {
            let what = format!("{title}/{manifest}");
            let early = if title == "ferry.mp4" && tolerance > EXACT { 0.04 } else { 0.0 };
            check_same(&what, &captured(&server, &what, &out), &source, &kinds, tolerance, early);
        };
        of(".mpd", EXACT);
        of(".m3u8?hls_fmp4", EXACT);
        of(".m3u8", TS);
        of("Manifest", SMOOTH);
        // HDS cannot carry HEVC.
        if title != "buoy.mp4" {
            of(".f4m", HDS);
        }
    }
}

/// A name, the arguments of ffmpeg, and manifests with their rounding in seconds.
type Case<'a> = (&'a str, String, &'a [(&'a str, f64)]);

#[test]
fn codecs_outside_cmaf_are_captured() {
    let folder = tempfile::tempdir().unwrap();
    let avc = "-c:v libx264 -preset ultrafast -bf 2 -g 25 -pix_fmt yuv420p -threads 1";
    let hevc = "-c:v libx265 -preset ultrafast -x265-params log-level=none:pools=none:frame-threads=1:keyint=25 -tag:v hvc1 -pix_fmt yuv420p";
    let aac = "-c:a aac -b:a 64k -ac 2";
    let high = "-c:v libx264 -preset medium -profile:v high10 -pix_fmt yuv420p10le -g 25 -threads 1";
    let cases: [Case<'_>; 6] = [
        ("ac3", format!("{avc} -c:a ac3 -b:a 96k -ac 2"), &[(".m3u8", TS)]),
        ("eac3", format!("{high} -c:a eac3 -b:a 96k -ac 2"), &[(".m3u8", TS), ("Manifest", SMOOTH)]),
        ("mp3", format!("{avc} -c:a libmp3lame -ar 44100 -b:a 64k"), &[(".m3u8", TS), (".f4m", HDS)]),
        (
            "mono",
            format!("{avc} -c:a aac -ar 22050 -ac 1 -b:a 32k"),
            &[(".m3u8", TS), ("Manifest", SMOOTH), (".f4m", HDS)],
        ),
        ("hevc", format!("{hevc} {aac}"), &[("Manifest", SMOOTH)]),
        ("sound", format!("-vn {aac}"), &[(".m3u8", TS), ("Manifest", SMOOTH), (".f4m", HDS)]),
    ];
    for (name, codecs, _) in &cases {
        fs::copy(
            recipe::coded(&format!("capture-{name}"), codecs),
            folder.path().join(format!("{name}.mp4")),
        )
        .unwrap();
    }
    let server = Server::start(folder.path().to_str().unwrap(), &["--segment-duration", "2s"], &[]);
    let out = folder.path().join("out.mp4");
    for (name, _, manifests) in cases {
        let source = probe(&folder.path().join(format!("{name}.mp4")), &[]);
        let kinds: Vec<&str> = source.streams.iter().map(|stream| stream.kind.as_str()).collect();
        for (manifest, tolerance) in manifests {
            let what = format!("{name}.mp4/{manifest}");
            check_same(&what, &captured(&server, &what, &out), &source, &kinds, *tolerance, 0.0);
        }
    }
}

#[test]
fn streams_are_captured_in_their_own_container() {
    let server = Server::start(&samples(), &[], &[]);
    let folder = tempfile::tempdir().unwrap();
    let source = probe(&Path::new(&samples()).join("lighthouse.mp4"), &[]);
    for (manifest, name) in [(".m3u8", "out.ts"), (".f4m", "out.flv")] {
        let found = captured(&server, &format!("lighthouse.mp4/{manifest}"), &folder.path().join(name));
        for kind in ["video", "audio"] {
            assert_eq!(found.first(kind).packets.len(), source.first(kind).packets.len(), "{name} {kind}");
        }
    }
    for (manifest, name, why) in [
        (".mpd", "no.ts", "this dash stream cannot be saved as .ts"),
        (".m3u8", "no.flv", "this hls stream cannot be saved as .flv"),
        ("gone/.mpd", "no.mp4", "status_404"),
    ] {
        let url = format!("http://{}/lighthouse.mp4/{manifest}", server.address);
        let refused = latemux(&["capture", &url, "-o", folder.path().join(name).to_str().unwrap()]);
        assert_eq!(refused.status.code(), Some(1));
        assert!(said(&refused).contains(why) && said(&refused).lines().count() == 1, "{}", said(&refused));
        assert!(
            fs::read_dir(folder.path()).unwrap().all(|entry| !entry
                .unwrap()
                .file_name()
                .to_str()
                .unwrap()
                .starts_with("no"))
        );
    }
}

#[test]
fn a_capture_named_mkv_was_an_mp4() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["cap.mkv", "cap.webm", "cap.mov", "cap.m3u8"] {
        // Nothing is requested: no server listens at this address.
        let out = folder.path().join(name);
        let refused = latemux(&["capture", "http://127.0.0.1:1/.mpd", "-o", out.to_str().unwrap()]);
        assert_eq!(refused.status.code(), Some(1));
        for container in [name, ".mp4", ".ts", ".flv"] {
            assert!(said(&refused).contains(container), "{}", said(&refused));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{name}");
    }
    let server = Server::start(&samples(), &[], &[]);
    let url = format!("http://{}/lighthouse.mp4/.mpd", server.address);
    for name in ["cap", "cap.MP4", "cap.m4v"] {
        let out = folder.path().join(name);
        let captured = latemux(&["capture", &url, "-o", out.to_str().unwrap()]);
        assert!(captured.status.success(), "{}", said(&captured));
        assert_eq!(fs::read(out).unwrap()[4..8], *b"ftyp", "{name}");
    }
}

/// Returns the samples of the data track in a file, one after the other.
fn documents(file: &Path) -> String {
    let output = std::process::Command::new("ffmpeg")
        .args(["-v", "error", "-i"])
        .arg(file)
        .args(["-map", "0:d", "-c", "copy", "-f", "data", "-"])
        .output()
        .expect("ffmpeg is installed (make tools)");
    assert!(output.status.success(), "{}", said(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn text_is_captured_on_request() {
    let folder = tempfile::tempdir().unwrap();
    let title = folder.path().join("subtitled");
    fs::create_dir(&title).unwrap();
    fs::write(
        folder.path().join("t.srt"),
        "1\n00:00:00,500 --> 00:00:02,000\nGood morning\n\n2\n00:00:03,000 --> 00:00:05,000\nGood night\n\n",
    )
    .unwrap();
    let text = title.join("text.mp4");
    let ffmpeg = [
        "-v",
        "error",
        "-i",
        folder.path().join("t.srt").to_str().unwrap(),
        "-c:s",
        "ttml",
        text.to_str().unwrap(),
    ]
    .iter()
    .fold(std::process::Command::new("ffmpeg"), |mut command, arg| {
        command.arg(arg);
        command
    })
    .output()
    .expect("ffmpeg is installed (make tools)");
    assert!(ffmpeg.status.success(), "{}", said(&ffmpeg));
    fs::copy(
        recipe::coded("capture-text", "-c:v libx264 -preset ultrafast -g 25 -threads 1 -an"),
        title.join("video.mp4"),
    )
    .unwrap();
    let source = probe(&text, &[]);
    let server = Server::start(folder.path().to_str().unwrap(), &["--segment-duration", "2s"], &[]);
    let out = folder.path().join("out.mp4");
    for manifest in [".mpd", ".m3u8?hls_fmp4", "Manifest"] {
        let url = format!("http://{}/subtitled/{manifest}", server.address);
        let without = captured(&server, &format!("subtitled/{manifest}"), &out);
        assert_eq!(without.streams.len(), 1, "{manifest}");
        let output = latemux(&["capture", &url, "-o", out.to_str().unwrap(), "--text"]);
        if manifest.starts_with(".m3u8") {
            // HLS has it as segments of WebVTT, which are no track.
            assert!(said(&output).contains("text in separate documents cannot be captured"), "{manifest}");
        } else {
            assert!(output.status.success(), "{manifest}: {}", said(&output));
            let found = probe(&out, &[]);
            let kept = found.first("data");
            if manifest == ".mpd" {
                assert_eq!(
                    kept.packets.first().map(|p| &p.hash),
                    source.first("data").packets.first().map(|p| &p.hash),
                );
            }
            // Documents of Smooth Streaming are made anew from the cues of the source.
            let documents = documents(&out);
            for cue in ["Good morning", "Good night"] {
                assert_eq!(documents.matches(cue).count(), 1, "{manifest}: {cue} in {documents}");
            }
        }
        for (more, there) in [(&["--text"][..], true), (&[], false)] {
            let output = latemux(&[&["load", &url, "--sequence"], more].concat());
            assert!(output.status.success(), "{manifest}: {}", said(&output));
            assert_eq!(said(&output).contains(".text "), there, "{manifest}: {}", said(&output));
        }
    }
}
