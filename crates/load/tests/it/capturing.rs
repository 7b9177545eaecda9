//! What is captured is what was served, packet for packet, as ffprobe sees both.

use crate::{
    server::{Pipes, Reply, files},
    streams::{dash, hls, hls_group},
};
use latemux_load::capture::{CaptureError, capture};
use latemux_testmedia::probe::{Stream, probe};
use std::{fs, path::Path};
use url::Url;

async fn captured(server: &Pipes, path: &str) -> (Result<(), CaptureError>, Vec<u8>, Vec<serde_json::Value>) {
    let (mut out, mut trace) = (Vec::new(), Vec::new());
    let url = Url::parse("http://origin.example/").unwrap().join(path).unwrap();
    let done = capture(&server.client(), &url, u64::MAX, &mut out, &mut trace).await.map(|_| ());
    let lines = String::from_utf8(trace).unwrap();
    (done, out, lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect())
}

/// What ffprobe finds in files one behind the other.
fn joined(folder: &Path, names: &[String]) -> Vec<Stream> {
    let bytes: Vec<u8> = names.iter().flat_map(|name| fs::read(folder.join(name)).unwrap()).collect();
    of_bytes(&bytes)
}

fn of_bytes(bytes: &[u8]) -> Vec<Stream> {
    let file = tempfile::Builder::new().suffix(".mp4").tempfile().unwrap();
    fs::write(file.path(), bytes).unwrap();
    probe(file.path(), &[]).streams
}

/// Packets but for where they lie in the file.
fn same(ours: &[Stream], theirs: &[Stream]) {
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
async fn dash_and_its_requests() {
    let folder = dash("template-timeline", "");
    let server = Pipes::new(files(folder.clone()));
    let (done, out, trace) = captured(&server, "index.mpd").await;
    done.unwrap();
    let of = |stream: usize, count: usize| {
        let mut names = vec![format!("init-stream{stream}.m4s")];
        names.extend((1..=count).map(|n| format!("chunk-stream{stream}-{n:05}.m4s")));
        joined(&folder, &names)
    };
    same(&of_bytes(&out), &[of(0, 6), of(2, 7)].concat());

    let asked: Vec<String> = server.asked().into_iter().map(|asked| asked.path).collect();
    let traced: Vec<String> = trace
        .iter()
        .map(|line| Url::parse(line["url"].as_str().unwrap()).unwrap().path().to_owned())
        .collect();
    assert_eq!(traced, asked);
    let bytes: u64 = trace.iter().map(|line| line["bytes"].as_u64().unwrap()).sum();
    assert_eq!(bytes, server.sent());
}

#[tokio::test(start_paused = true)]
async fn dash_of_ranges_and_hls() {
    let folder = dash("list-ranges", "-single_file 1");
    let (done, out, trace) = captured(&Pipes::new(files(folder.clone())), "index.mpd").await;
    done.unwrap();
    assert!(trace.iter().all(|line| line["what"] == "manifest" || line["range"].is_string()));
    let video = joined(&folder, &["index-stream0.mp4".to_owned()]);
    // What stands in its list behind the end of the period is not played.
    same(&of_bytes(&out)[..1], &video);

    let folder = hls("cmaf", "-hls_segment_type fmp4");
    let (done, out, _) = captured(&Pipes::new(files(folder.clone())), "index.m3u8").await;
    done.unwrap();
    let mut names = vec!["init.mp4".to_owned()];
    names.extend((0..6).map(|n| format!("index{n}.m4s")));
    same(&of_bytes(&out), &joined(&folder, &names));

    let folder = hls_group("group-cmaf", "-hls_segment_type fmp4");
    let (done, out, _) = captured(&Pipes::new(files(folder.clone())), "index.m3u8").await;
    done.unwrap();
    let of = |stream: usize| {
        let mut names = vec![format!("init_{stream}.mp4")];
        names.extend((0..7).map(|n| format!("{stream}{n}.m4s")).filter(|name| folder.join(name).exists()));
        joined(&folder, &names)
    };
    same(&of_bytes(&out), &[of(0), of(2)].concat());
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_kept_is_said_and_what_was_stays() {
    let (done, out, _) = captured(&Pipes::new(files(hls("ts", ""))), "index.m3u8").await;
    assert!(matches!(done, Err(CaptureError::Unsupported("hls"))), "{done:?}");
    assert!(out.is_empty());

    let inner = files(dash("template-timeline", ""));
    let server =
        Pipes::new(
            move |asked| {
                if asked.path.contains("stream0-00004") { Reply::status(500) } else { inner(asked) }
            },
        );
    let (done, out, trace) = captured(&server, "index.mpd").await;
    assert!(done.unwrap_err().to_string().starts_with("status_500: "));
    assert!(trace.last().unwrap()["error"].as_str().unwrap().starts_with("status_500"));
    assert_eq!(of_bytes(&out)[0].packets.len(), 150, "three segments of 2 s at 25 frames per second");
}
