//! Servers that do wrong, each of which is reported as exactly that, and once.

use crate::{
    playing::{fixed, plan, played},
    server::{Asked, Pipes, Reply, files},
    streams::{dash, hds, hls},
};
use futures_util::future::BoxFuture;
use latemux_load::{
    failure::Failure,
    http::{Client, ClientOptions, Connect, Connection, Server, Stream},
    presentation::Resource,
};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _, duplex},
    time::{Instant, sleep},
};
use url::Url;

/// Plays what is in a folder, where the answer to `path` is spoilt; gives the errors by class and reason.
async fn spoilt(
    folder: PathBuf,
    manifest: &str,
    path: &'static str,
    spoil: impl Fn(&Asked, &mut Reply) + Send + Sync + 'static,
) -> Vec<(String, String, u64)> {
    let inner = files(folder);
    let server = Pipes::new(move |asked| {
        let mut reply = inner(asked);
        if asked.path == path {
            spoil(asked, &mut reply);
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
async fn at_the_level_of_http() {
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
async fn a_connection_closed_while_it_was_idle_is_no_error() {
    let inner = files(hls("ts", ""));
    // Every answer is complete, and every connection ends with it.
    let server = Pipes::new(move |asked| Reply { cut: Some(usize::MAX), ..inner(asked) });
    let (results, wrong) = played(&server, &plan("index.m3u8"), fixed(u64::MAX)).await;
    assert_eq!((wrong, results.players.finished), (BTreeMap::new(), 1));
    assert_eq!(server.connections(), 7);
}

/// Answers one request of each connection. A second later it says something nobody asked for and leaves, or it stays and says nothing more.
struct Once {
    says: &'static str,
    then: Option<&'static str>,
    connections: AtomicU64,
}

impl Connect for Once {
    fn connect(&self, _: Server) -> BoxFuture<'static, Result<Box<dyn Stream>, Failure>> {
        self.connections.fetch_add(1, Relaxed);
        let (says, then) = (self.says, self.then);
        let (ours, mut theirs) = duplex(4096);
        tokio::spawn(async move {
            let _ = theirs.read(&mut [0; 4096]).await;
            let _ = theirs.write_all(says.as_bytes()).await;
            sleep(Duration::from_secs(if then.is_some() { 1 } else { 3600 })).await;
            let _ = theirs.write_all(then.unwrap_or_default().as_bytes()).await;
        });
        Box::pin(async move { Ok(Box::new(ours) as Box<dyn Stream>) })
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_cannot_be_used_again_is_not() {
    let late = "HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    for (says, then) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", Some(late)),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok", None),
        ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", None),
    ] {
        let server = Arc::new(Once { says, then, connections: AtomicU64::new(0) });
        let url = Url::parse("http://origin.example/").unwrap();
        let mut options = ClientOptions::default();
        options.hosts.allow_server(&url);
        let client = Client::new(server.clone(), options);
        let (mut connection, resource) = (Connection::default(), Resource { url, range: None });
        for _ in 0..2 {
            let mut body = Vec::new();
            let mut keep = |piece: &[u8]| {
                body.extend_from_slice(piece);
                Ok(())
            };
            client.get(&mut connection, &resource, Instant::now(), &mut keep).await.unwrap();
            assert_eq!(body, b"ok", "{says:?}");
            sleep(Duration::from_secs(2)).await;
        }
        assert_eq!(server.connections.load(Relaxed), 2, "{says:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn ranges_that_are_not_those_asked_for() {
    let folder = || dash("list-ranges", "-single_file 1");
    let second = |asked: &Asked| asked.range.is_some_and(|(first, _)| first > 2000);
    let all = spoilt(folder(), "index.mpd", "/index-stream0.mp4", move |asked, reply| {
        if second(asked) {
            *reply = Reply::ok(vec![0; 100_000]);
        }
    });
    let expected = vec![("dash.video".to_owned(), "wrong_range".to_owned(), 5)];
    assert_eq!(all.await, expected, "all in place of a part");
    let other = spoilt(folder(), "index.mpd", "/index-stream0.mp4", move |asked, reply| {
        if second(asked) {
            reply.headers = vec![("Content-Range".into(), "bytes 0-99/1000".into())];
        }
    });
    assert_eq!(other.await, expected);
    let less = spoilt(folder(), "index.mpd", "/index-stream0.mp4", move |asked, reply| {
        if second(asked) {
            reply.body.pop();
        }
    });
    assert_eq!(less.await, vec![("dash.video".to_owned(), "wrong_length".to_owned(), 5)]);
}

#[tokio::test(start_paused = true)]
async fn media_of_another_time() {
    let other = std::fs::read(cmaf().join("chunk-stream0-00004.m4s")).unwrap();
    // Segment 4 in place of 3: neither begins where it should, and the real one follows a stranger.
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

    // 60 ms too early: within what a manifest may be rounded, but not where the segment before it ended.
    let early = spoilt(cmaf(), "index.mpd", SEGMENT, |_, reply| {
        let at = reply.body.windows(4).position(|w| w == b"tfdt").unwrap() + 8;
        let time = u64::from_be_bytes(reply.body[at..at + 8].try_into().unwrap()) - 768;
        reply.body[at..at + 8].copy_from_slice(&time.to_be_bytes());
    });
    assert_eq!(early.await, once("dash.video", "timeline_gap"));
}

#[tokio::test(start_paused = true)]
async fn media_that_is_damaged() {
    let cut = spoilt(cmaf(), "index.mpd", SEGMENT, |_, reply| reply.body.truncate(7000)).await;
    assert_eq!(cut, once("dash.video", "bad_boxes"), "whole for HTTP, not for the media");
    let text =
        spoilt(cmaf(), "index.mpd", SEGMENT, |_, reply| reply.body = b"<html>Not found, but 200".to_vec())
            .await;
    assert_eq!(text, once("dash.video", "bad_boxes"));
    let empty = spoilt(cmaf(), "index.mpd", SEGMENT, |_, reply| reply.body.clear()).await;
    assert_eq!(empty, once("dash.video", "bad_boxes"));
    let longer = spoilt(cmaf(), "index.mpd", SEGMENT, |_, reply| {
        // The last sample says that it is larger than its mdat.
        let at = reply.body.windows(4).position(|w| w == b"trun").unwrap();
        let size = u32::from_be_bytes(reply.body[at - 4..at].try_into().unwrap()) as usize;
        let end = at - 4 + size;
        reply.body[end - 16..end].fill(0x7f);
    });
    assert_eq!(longer.await, once("dash.video", "bad_boxes"));

    let sync = spoilt(hls("ts", ""), "index.m3u8", "/index2.ts", |_, reply| reply.body[188 * 9] = 0x46).await;
    assert_eq!(sync, once("hls.muxed", "bad_ts"));
    let lost = spoilt(hls("ts", ""), "index.m3u8", "/index2.ts", |_, reply| {
        reply.body.drain(188 * 9..188 * 10);
    });
    assert_eq!(lost.await, once("hls.muxed", "ts_continuity"));
    let table = spoilt(hls("ts", ""), "index.m3u8", "/index2.ts", |_, reply| {
        // A bit of the program map's first stream.
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
    assert_eq!(tag.await, once("hds.muxed", "bad_flv"), "the size behind the last tag");
}

#[tokio::test(start_paused = true)]
async fn manifests_that_cannot_be_played() {
    let cases: [(&str, Reply); 6] = [
        ("manifest_invalid", Reply::ok("<html>no</html>")),
        ("manifest_unsupported", Reply::ok("#EXTM3U\n#EXTINF:2,\na.ts\n")),
        // One that never ends.
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
        let server = Pipes::new(move |_| reply.clone());
        let (results, _) = played(&server, &plan("m"), fixed(0)).await;
        assert_eq!(results.requests["manifest"].errors, BTreeMap::from([(reason.to_owned(), 1)]));
        assert_eq!(results.players.failed, 1);
    }
}

#[tokio::test(start_paused = true)]
async fn segments_on_another_host_are_not_asked_for() {
    let server = Pipes::new(|_| {
        Reply::ok(
            "#EXTM3U\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\nhttp://elsewhere.example/a.ts\n#EXT-X-ENDLIST\n",
        )
    });
    let (results, wrong) = played(&server, &plan("m"), fixed(0)).await;
    assert_eq!(results.requests["hls.muxed"].errors["host_not_allowed"], 1);
    assert!(wrong["host_not_allowed"][0].contains("--allow-host elsewhere.example:80"), "{wrong:?}");
    assert_eq!(server.asked().len(), 1);
}
