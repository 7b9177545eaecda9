//! Servers with one fault. Players report exactly that fault, once.

use crate::playing::{fixed, plan, played};
use latemux_testmedia::{
    memory_server::{MemoryServer, Reply, Request, files},
    streams::{dash, hds, hls, packed_audio},
};
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// Plays a title in a folder, with the responses for `path` changed by `spoil`. Returns the
/// failures by class and reason.
async fn spoilt(
    folder: PathBuf,
    manifest: &str,
    path: &'static str,
    spoil: impl Fn(&Request, &mut Reply) + Send + Sync + 'static,
) -> Vec<(String, String, u64)> {
    spoilt_response(files(folder), manifest, path, spoil).await
}

/// Like [`spoilt`], for the responses of a handler.
async fn spoilt_response(
    inner: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    manifest: &str,
    path: &'static str,
    spoil: impl Fn(&Request, &mut Reply) + Send + Sync + 'static,
) -> Vec<(String, String, u64)> {
    let server = MemoryServer::new(move |request| {
        let mut reply = inner(request);
        if request.path == path {
            spoil(request, &mut reply);
        }
        reply
    });
    let (results, _) = played(&server, &plan(manifest), fixed(u64::MAX)).await;
    results
        .requests
        .iter()
        .flat_map(|(class, requests)| {
            requests.errors.iter().map(move |(reason, count)| (class.clone(), reason.clone(), *count))
        })
        .collect()
}

fn once(class: &str, reason: &str) -> Vec<(String, String, u64)> {
    vec![(class.to_owned(), reason.to_owned(), 1)]
}

fn cmaf() -> PathBuf {
    dash("template-timeline", "")
}

const SEGMENT: &str = "/chunk-stream0-00003.m4s";

#[tokio::test(start_paused = true)]
async fn faults_of_http_are_reported() {
    let short = spoilt(cmaf(), "index.mpd", SEGMENT, |_, reply| reply.cut = Some(5000)).await;
    assert_eq!(short, once("dash.video", "short_body"));
    let longer = spoilt(cmaf(), "index.mpd", SEGMENT, |_, reply| {
        reply.promised = Some(reply.body.len() + 1);
        reply.cut = Some(usize::MAX);
    });
    assert_eq!(longer.await, once("dash.video", "short_body"), "one byte");
    let broken = spoilt(cmaf(), "index.mpd", SEGMENT, |_, reply| *reply = Reply::status(500)).await;
    assert_eq!(broken, once("dash.video", "status_500"));
    let closed = spoilt(cmaf(), "index.mpd", SEGMENT, |_, reply| reply.cut = Some(0)).await;
    assert_eq!(closed, once("dash.video", "closed"));
    let slow = spoilt(cmaf(), "index.mpd", SEGMENT, |_, reply| reply.delay = Duration::from_secs(31)).await;
    assert_eq!(slow, once("dash.video", "timeout"));
    let no_http = spoilt(cmaf(), "index.mpd", SEGMENT, |_, reply| {
        reply.headers.push(("a b".into(), "\u{1}".into()));
    });
    assert_eq!(no_http.await, once("dash.video", "bad_response"));
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_closes_while_idle_is_not_a_failure() {
    let inner = files(hls("ts", ""));
    // Each response is complete, and ends its connection.
    let server = MemoryServer::new(move |request| Reply { cut: Some(usize::MAX), ..inner(request) });
    let (results, wrong) = played(&server, &plan("index.m3u8"), fixed(u64::MAX)).await;
    assert_eq!((wrong, results.players.finished), (BTreeMap::new(), 1));
    assert_eq!(server.connections(), 7);
}

#[tokio::test(start_paused = true)]
async fn wrong_ranges_are_reported() {
    let folder = || dash("list-ranges", "-single_file 1");
    let second = |request: &Request| request.range.is_some_and(|(first, _)| first > 2000);
    let all = spoilt(folder(), "index.mpd", "/index-stream0.mp4", move |request, reply| {
        if second(request) {
            *reply = Reply::ok(vec![0; 100_000]);
        }
    });
    let expected = vec![("dash.video".to_owned(), "wrong_range".to_owned(), 5)];
    assert_eq!(all.await, expected, "the whole file instead of a range");
    let other = spoilt(folder(), "index.mpd", "/index-stream0.mp4", move |request, reply| {
        if second(request) {
            reply.headers = vec![("Content-Range".into(), "bytes 0-99/1000".into())];
        }
    });
    assert_eq!(other.await, expected);
    let less = spoilt(folder(), "index.mpd", "/index-stream0.mp4", move |request, reply| {
        if second(request) {
            reply.body.pop();
        }
    });
    assert_eq!(less.await, vec![("dash.video".to_owned(), "wrong_length".to_owned(), 5)]);
}

#[tokio::test(start_paused = true)]
async fn media_at_another_time_is_reported() {
    let other = std::fs::read(cmaf().join("chunk-stream0-00004.m4s")).unwrap();
    // Segment 4 instead of 3 begins too late. The next segment is not compared with it.
    let swapped = spoilt(cmaf(), "index.mpd", SEGMENT, move |_, reply| reply.body = other.clone()).await;
    assert_eq!(swapped, once("dash.video", "wrong_time"));

    let other = std::fs::read(hls("ts", "").join("index4.ts")).unwrap();
    let ts =
        spoilt(hls("ts", ""), "index.m3u8", "/index2.ts", move |_, reply| reply.body = other.clone()).await;
    assert_eq!(ts, once("hls.muxed", "wrong_time"));

    let other = std::fs::read(hds().join("stream0Seg1-Frag5")).unwrap();
    let flv =
        spoilt(hds(), "index.f4m", "/stream0Seg1-Frag3", move |_, reply| reply.body = other.clone()).await;
    assert_eq!(flv, once("hds.muxed", "wrong_time"));

    // 60 ms too early: within the rounding of a manifest, but not where the previous segment ended.
    let early = spoilt(cmaf(), "index.mpd", SEGMENT, |_, reply| {
        let at = reply.body.windows(4).position(|w| w == b"tfdt").unwrap() + 8;
        let time = u64::from_be_bytes(reply.body[at..at + 8].try_into().unwrap()) - 768;
        reply.body[at..at + 8].copy_from_slice(&time.to_be_bytes());
    });
    assert_eq!(early.await, once("dash.video", "timeline_gap"));
}

#[tokio::test(start_paused = true)]
async fn damaged_media_is_reported() {
    let cut = spoilt(cmaf(), "index.mpd", SEGMENT, |_, reply| reply.body.truncate(7000)).await;
    assert_eq!(cut, once("dash.video", "bad_boxes"), "complete for HTTP, but not for the media");
    let text =
        spoilt(cmaf(), "index.mpd", SEGMENT, |_, reply| reply.body = b"<html>Not found, but 200".to_vec())
            .await;
    assert_eq!(text, once("dash.video", "bad_boxes"));
    let empty = spoilt(cmaf(), "index.mpd", SEGMENT, |_, reply| reply.body.clear()).await;
    assert_eq!(empty, once("dash.video", "bad_boxes"));
    let longer = spoilt(cmaf(), "index.mpd", SEGMENT, |_, reply| {
        // The last sample is larger than its mdat.
        let at = reply.body.windows(4).position(|w| w == b"trun").unwrap();
        let size = u32::from_be_bytes(reply.body[at - 4..at].try_into().unwrap()) as usize;
        let end = at - 4 + size;
        reply.body[end - 16..end].fill(0x7f);
    });
    assert_eq!(longer.await, once("dash.video", "bad_boxes"));

    let place = |body: &[u8], kind: &[u8; 4]| body.windows(4).position(|w| w == kind).unwrap();
    let earlier = spoilt(cmaf(), "index.mpd", SEGMENT, move |_, reply| {
        // The samples begin within the moof.
        let at = place(&reply.body, b"trun") + 12;
        reply.body[at..at + 4].copy_from_slice(&8_u32.to_be_bytes());
    });
    assert_eq!(earlier.await, once("dash.video", "bad_boxes"));
    let head = spoilt(cmaf(), "index.mpd", SEGMENT, move |_, reply| {
        let media = place(&reply.body, b"mdat") - 4;
        reply.body.truncate(media);
    });
    assert_eq!(head.await, once("dash.video", "bad_boxes"), "a moof without its mdat");
    let none = spoilt(cmaf(), "index.mpd", SEGMENT, move |_, reply| {
        let head = place(&reply.body, b"moof") - 4;
        reply.body.truncate(head);
    });
    assert_eq!(none.await, once("dash.video", "bad_boxes"), "intact boxes without media");
    let stranger = spoilt(cmaf(), "index.mpd", SEGMENT, move |_, reply| {
        let track = place(&reply.body, b"tfhd") + 8;
        reply.body[track + 3] = 9;
    });
    assert_eq!(stranger.await, once("dash.video", "bad_boxes"), "a track that is not in the init segment");

    let sync = spoilt(hls("ts", ""), "index.m3u8", "/index2.ts", |_, reply| reply.body[188 * 9] = 0x46).await;
    assert_eq!(sync, once("hls.muxed", "bad_ts"));
    let lost = spoilt(hls("ts", ""), "index.m3u8", "/index2.ts", |_, reply| {
        reply.body.drain(188 * 9..188 * 10);
    });
    assert_eq!(lost.await, once("hls.muxed", "ts_continuity"));
    let table = spoilt(hls("ts", ""), "index.m3u8", "/index2.ts", |_, reply| {
        // One bit of the first stream in the program map.
        let at = reply.body.chunks(188).position(|p| p[1] == 0x50 && p[2] == 0).unwrap();
        reply.body[at * 188 + 18] ^= 1;
    });
    assert_eq!(table.await, once("hls.muxed", "bad_ts"));
    let part = spoilt(hls("ts", ""), "index.m3u8", "/index2.ts", |_, reply| {
        reply.body.pop();
    });
    assert_eq!(part.await, once("hls.muxed", "bad_ts"));

    let tag = spoilt(hds(), "index.f4m", "/stream0Seg1-Frag3", |_, reply| {
        let end = reply.body.len();
        reply.body[end - 1] ^= 1;
    });
    assert_eq!(tag.await, once("hds.muxed", "bad_flv"), "the size after the last tag");
    let end = spoilt(hds(), "index.f4m", "/stream0Seg1-Frag3", move |_, reply| {
        // Intact boxes whose last tag is cut.
        let at = place(&reply.body, b"mdat") - 4;
        let end = reply.body.len() - 2;
        reply.body.truncate(end);
        let size = u32::try_from(end - at).unwrap();
        reply.body[at..at + 4].copy_from_slice(&size.to_be_bytes());
    });
    assert_eq!(end.await, once("hds.muxed", "bad_flv"));
}

#[tokio::test(start_paused = true)]
async fn repeated_fragments_and_packets_are_reported() {
    // The times go back and forth within a segment that begins and ends correctly.
    let other = std::fs::read(cmaf().join("chunk-stream0-00005.m4s")).unwrap();
    let gap = spoilt(cmaf(), "index.mpd", SEGMENT, move |_, reply| {
        reply.body = [reply.body.as_slice(), &other, &reply.body].concat();
    });
    assert_eq!(gap.await, once("dash.video", "timeline_gap"));

    // A packet may be sent twice, but not three times (§2.4.3.3).
    for (times, expected) in [(1, vec![]), (2, once("hls.muxed", "ts_continuity"))] {
        let again = spoilt(hls("ts", ""), "index.m3u8", "/index2.ts", move |_, reply| {
            let packet = reply.body[188 * 9..188 * 10].to_vec();
            reply.body.splice(188 * 10..188 * 10, packet.repeat(times));
        });
        assert_eq!(again.await, expected, "{times}");
    }
    let no_tables = spoilt(hls("ts", ""), "index.m3u8", "/index2.ts", |_, reply| {
        let table = |packet: &[u8]| matches!((packet[1] & 0x1f, packet[2]), (0 | 0x10, 0));
        reply.body = reply.body.chunks(188).filter(|packet| !table(packet)).flatten().copied().collect();
    });
    assert_eq!(no_tables.await, once("hls.muxed", "bad_ts"));
}

#[tokio::test(start_paused = true)]
async fn damaged_packed_audio_is_reported() {
    let of = |spoil: fn(&mut Vec<u8>)| async move {
        let spoil = move |_: &Request, reply: &mut Reply| spoil(&mut reply.body);
        let title = packed_audio();
        let packed = move |request: &Request| match request.path.as_str() {
            "/0.aac" => Reply::ok(title.segments[0].clone()),
            "/1.aac" => Reply::ok(title.segments[1].clone()),
            _ => Reply::ok(title.playlist),
        };
        spoilt_response(packed, "index.m3u8", "/1.aac", spoil).await
    };
    assert_eq!(of(|_| ()).await, []);
    let wrong = once("hls.muxed", "bad_audio");
    // After the tag of 73 bytes, the first frame states its length.
    let second = |body: &mut Vec<u8>| {
        let size = usize::from(body[73 + 3] & 3) << 11
            | usize::from(body[73 + 4]) << 3
            | usize::from(body[73 + 5] >> 5);
        body[73 + size] = 0;
    };
    assert_eq!(of(second).await, wrong, "a frame without sync word");
    assert_eq!(of(|body| body.truncate(body.len() - 5)).await, wrong, "the last frame is cut");
    assert_eq!(of(|body| drop(body.drain(..10))).await, wrong, "no tag");
    assert_eq!(of(|body| body.truncate(73)).await, wrong, "no frames");
}

#[tokio::test(start_paused = true)]
async fn manifests_that_cannot_be_played_are_reported() {
    let cases: [(&str, Reply); 6] = [
        ("manifest_invalid", Reply::ok("<html>no</html>")),
        ("manifest_unsupported", Reply::ok("#EXTM3U\n#EXTINF:2,\na.ts\n")),
        // A manifest of more than 16 MiB.
        ("body_too_large", Reply::ok(vec![b' '; (16 << 20) + 1])),
        ("status_404", Reply::status(404)),
        ("redirects", Reply { headers: vec![("Location".into(), "/again".into())], ..Reply::status(302) }),
        (
            "host_not_allowed",
            Reply {
                headers: vec![("Location".into(), "http://elsewhere.example/x".into())],
                ..Reply::status(302)
            },
        ),
    ];
    for (reason, reply) in cases {
        let server = MemoryServer::new(move |_| reply.clone());
        let (results, _) = played(&server, &plan("m"), fixed(0)).await;
        assert_eq!(results.requests["manifest"].errors, BTreeMap::from([(reason.to_owned(), 1)]));
        assert_eq!(results.players.failed, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn segments_on_another_host_are_not_requested() {
    let server = MemoryServer::new(|_| {
        Reply::ok(
            "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\nhttp://elsewhere.example/a.ts\n#EXT-X-ENDLIST\n",
        )
    });
    let (results, wrong) = played(&server, &plan("m"), fixed(0)).await;
    assert_eq!(results.requests["hls.muxed"].errors["host_not_allowed"], 1);
    assert!(wrong["host_not_allowed"][0].contains("--allow-host elsewhere.example:80"), "{wrong:?}");
    assert_eq!(server.requests().len(), 1);
}
