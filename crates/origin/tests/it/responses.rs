//! Conditions, ranges, compression and CORS, for every kind of resource of a title.

use crate::{
    client::{fetch, get, get_with, send},
    server::{Server, crawl, fragmented_segment, key, library},
};
use flate2::read::GzDecoder;
use http::Method;
use latemux_storage::{Memory, counting::Counting};
use latemux_testmedia::{
    fragmented::{self, Fragmented, Index},
    recipe,
};
use std::{io::Read, sync::Arc, time::Duration};

/// URLs of each kind: DASH manifest, init and segment, HLS multivariant, media and I-frame
/// playlist, TS and CMAF, of sources with sample tables and with fragments.
const KINDS: [&str; 12] = [
    "/harbour/.mpd",
    "/harbour/dash/x-video=152000.dash",
    "/harbour/dash/x-video=152000-51200.dash",
    "/harbour/.m3u8",
    "/harbour/x-audio_eng=48000-video=81000.m3u8",
    "/harbour/keyframes/x-video=81000.m3u8",
    "/harbour/x-audio_eng=48000-video=81000-3.ts",
    "/harbour/x-audio_fra=48000-2.ts",
    "/harbour/hls/x-audio_eng=48000-1.m4s",
    "/harbour/keyframes/x-video=81000-2.ts",
    "/fragmented.mp4/.m3u8",
    "/fragmented.mp4/.mpd",
];

async fn all_kinds(server: &Server) -> Vec<String> {
    let mut urls: Vec<String> = KINDS.iter().map(ToString::to_string).collect();
    // Segments of a fragmented source, found without knowing its track names.
    let fragmented = crawl(server.address, "/fragmented.mp4").await;
    for extension in [".ts", ".m4s", ".dash"] {
        urls.extend(fragmented.iter().filter(|url| url.ends_with(extension)).take(2).cloned());
    }
    urls
}

#[tokio::test]
async fn every_range_is_a_slice_of_the_whole_body() {
    let server = Server::start(library()).await;
    let at = server.address;
    for url in all_kinds(&server).await {
        let whole = get(at, &url).await;
        assert_eq!(whole.status, 200, "{url}");
        let len = whole.body.len();
        assert_eq!(whole.header("content-length"), len.to_string(), "{url}");
        assert_eq!(whole.header("accept-ranges"), "bytes");
        let middle = len / 2;
        for (range, from, to) in [
            ("bytes=0-0".to_owned(), 0, 1),
            (format!("bytes={middle}-{}", middle + 9), middle, (middle + 10).min(len)),
            (format!("bytes={middle}-"), middle, len),
            ("bytes=-7".to_owned(), len - 7, len),
            (format!("bytes={}-{}", len - 1, len * 2), len - 1, len),
            ("bytes=1-".to_owned(), 1, len),
        ] {
            let part = get_with(at, &url, &[("range", &range)]).await;
            assert_eq!(part.status, 206, "{url} {range}");
            assert_eq!(part.body, whole.body.slice(from..to), "{url} {range}");
            assert_eq!(part.header("content-range"), format!("bytes {from}-{}/{len}", to - 1));
            assert_eq!(part.header("content-length"), (to - from).to_string());
            assert_eq!(part.header("etag"), whole.header("etag"));
        }
        let beyond = get_with(at, &url, &[("range", &format!("bytes={len}-"))]).await;
        assert_eq!(
            (beyond.status.as_u16(), beyond.reason().as_str()),
            (416, "range_not_satisfiable"),
            "{url}"
        );
        assert_eq!(beyond.header("content-range"), format!("bytes */{len}"));
        let several = get_with(at, &url, &[("range", "bytes=0-1,4-5")]).await;
        assert_eq!((several.status.as_u16(), &several.body), (200, &whole.body), "{url}");
        let stale = get_with(at, &url, &[("range", "bytes=0-1"), ("if-range", "\"other\"")]).await;
        assert_eq!((stale.status.as_u16(), &stale.body), (200, &whole.body), "{url}");
    }
}

#[tokio::test]
async fn head_has_the_headers_of_get_and_reads_no_media() {
    let counting = Arc::new(Counting::new(library(), Duration::ZERO));
    let server = Server::start(counting.clone()).await;
    for url in all_kinds(&server).await {
        let get = get(server.address, &url).await;
        drop(counting.take());
        let head = send(server.address, Method::HEAD, &url, &[]).await.unwrap();
        assert_eq!((head.status, head.lasting_headers()), (get.status, get.lasting_headers()), "{url}");
        assert!(head.body.is_empty());
        assert_eq!(counting.take(), [], "{url}: HEAD reads from storage");
        let same = get_with_etag(server.address, &url, get.header("etag")).await;
        assert_eq!((same.status.as_u16(), same.body.len()), (304, 0), "{url}");
        assert_eq!(same.header("etag"), get.header("etag"));
        assert_eq!(same.header("cache-control"), get.header("cache-control"));
        assert_eq!(counting.take(), [], "{url}: 304 reads from storage");
        let other = get_with(server.address, &url, &[("if-match", "\"other\"")]).await;
        assert_eq!((other.status.as_u16(), other.reason().as_str()), (412, "precondition_failed"));
    }
}

async fn get_with_etag(server: std::net::SocketAddr, url: &str, etag: &str) -> crate::client::FullResponse {
    get_with(server, url, &[("if-none-match", etag)]).await
}

/// TS of a source with NAL lengths of two bytes: the length of a segment depends on its media,
/// which is read before the response starts.
#[tokio::test]
async fn segments_whose_length_depends_on_media_are_served_like_others() {
    for index in [Index::Neither, Index::Sidx] {
        let stored = |nal_lengths| {
            let memory = Memory::new();
            let fragments = Fragmented { index, nal_lengths, ..Fragmented::default() };
            memory.put(key("x.mp4"), fragmented::fragmented(&plain_fragments(), fragments));
            Arc::new(memory)
        };
        let long = Server::start(stored(4)).await;
        let ts = |urls: Vec<String>| urls.into_iter().filter(|url| url.ends_with(".ts")).collect::<Vec<_>>();
        let long_urls = ts(crawl(long.address, "/x.mp4").await);
        let urls = ts(crawl(Server::start(stored(2)).await.address, "/x.mp4").await);
        assert_eq!((urls.len(), urls.len() >= 6), (long_urls.len(), true), "{urls:?}");
        for (url, long_url) in urls.iter().zip(&long_urls) {
            // The bytes equal those of a source with lengths of four bytes, whether a range, a HEAD
            // or a whole GET comes first.
            let whole = fetch(long.address, long_url).await;
            let len = whole.len();
            let range = format!("bytes={}-{}", len / 3, len - 9);
            for first in 0..3 {
                let counting = Arc::new(Counting::new(stored(2), Duration::ZERO));
                let server = Server::start(counting.clone()).await;
                let at = server.address;
                let mut etags = Vec::new();
                for n in 0..3 {
                    let (status, response) = match (first + n) % 3 {
                        0 => (200, get(at, url).await),
                        1 => (206, get_with(at, url, &[("range", &range)]).await),
                        _ => (200, send(at, Method::HEAD, url, &[]).await.unwrap()),
                    };
                    let expected = match (first + n) % 3 {
                        0 => &whole[..],
                        1 => &whole[len / 3..len - 8],
                        _ => &[],
                    };
                    assert_eq!(response.status, status, "{url}");
                    assert!(response.body == expected, "{url}");
                    let said = if status == 206 { expected.len() } else { len };
                    assert_eq!(response.header("content-length"), said.to_string(), "{url}");
                    if status == 206 {
                        let part = format!("bytes {}-{}/{len}", len / 3, len - 9);
                        assert_eq!(response.header("content-range"), part);
                    }
                    etags.push(response.header("etag").to_owned());
                }
                etags.dedup();
                assert_eq!(etags.len(), 1, "{url}");
                let beyond = get_with(at, url, &[("range", &format!("bytes={len}-"))]).await;
                assert_eq!(beyond.status, 416);
                assert_eq!(beyond.header("content-range"), format!("bytes */{len}"));
                // HEAD needs the length and so the media. Conditions that the ETag decides need
                // neither.
                drop(counting.take());
                send(at, Method::HEAD, url, &[]).await.unwrap();
                assert_ne!(counting.take(), [], "{url}");
                assert_eq!(get_with_etag(at, url, &etags[0]).await.status, 304);
                assert_eq!(get_with(at, url, &[("if-match", "\"other\"")]).await.status, 412);
                assert_eq!(counting.take(), [], "{url}");
            }
        }
    }
}

/// Returns a fragmented file, to be rewritten with other indexes and NAL lengths.
fn plain_fragments() -> Vec<u8> {
    let flags = "-movflags frag_keyframe+delay_moov+default_base_moof+skip_trailer";
    std::fs::read(recipe::avc_aac("fragments", flags)).unwrap()
}

#[tokio::test]
async fn head_of_an_unknown_fragment_reads_its_moof_and_little_more() {
    let url = fragmented_segment(2).await;
    let counting = Arc::new(Counting::new(library(), Duration::ZERO));
    let server = Server::start(counting.clone()).await;
    fetch(server.address, "/fragmented.mp4/.mpd").await;
    drop(counting.take());
    let head = send(server.address, Method::HEAD, &url, &[]).await.unwrap();
    assert_eq!(counting.take().len(), 1);
    let get = get(server.address, &url).await;
    assert_eq!((head.status, head.lasting_headers()), (get.status, get.lasting_headers()), "{url}");
}

#[tokio::test]
async fn manifests_are_compressed_for_clients_that_accept_gzip() {
    let server = Server::start(library()).await;
    let at = server.address;
    for url in ["/harbour/.mpd", "/harbour/x-audio_eng=48000-video=81000.m3u8"] {
        let plain = get(at, url).await;
        let gzip = get_with(at, url, &[("accept-encoding", "br;q=1.0, gzip;q=0.8")]).await;
        assert_eq!((plain.header("vary"), gzip.header("vary")), ("Accept-Encoding", "Accept-Encoding"));
        assert_eq!((plain.header("content-encoding"), gzip.header("content-encoding")), ("", "gzip"));
        assert_ne!(plain.header("etag"), gzip.header("etag"));
        assert!(gzip.body.len() < plain.body.len());
        assert_eq!(gzip.header("content-length"), gzip.body.len().to_string());
        let mut text = Vec::new();
        GzDecoder::new(&gzip.body[..]).read_to_end(&mut text).unwrap();
        assert_eq!(text, plain.body);
        let same =
            get_with(at, url, &[("accept-encoding", "gzip"), ("if-none-match", gzip.header("etag"))]).await;
        assert_eq!(same.status, 304);
        let head = send(at, Method::HEAD, url, &[("accept-encoding", "gzip")]).await.unwrap();
        assert_eq!(head.lasting_headers(), gzip.lasting_headers());
        let part = get_with(at, url, &[("accept-encoding", "gzip"), ("range", "bytes=0-9")]).await;
        assert_eq!((part.header("content-encoding"), &part.body[..]), ("", &plain.body[..10]));
    }
    let segment = get_with(at, "/harbour/dash/x-video=152000-0.dash", &[("accept-encoding", "gzip")]).await;
    assert_eq!((segment.header("content-encoding"), segment.header("vary")), ("", ""));
}

#[tokio::test]
async fn pages_of_any_origin_may_read_all_responses() {
    let server = Server::start(library()).await;
    for url in ["/harbour/.mpd", "/harbour/dash/x-video=152000-0.dash", "/no/such.mp4/.mpd", "/api/library"] {
        let response = get(server.address, url).await;
        assert_eq!(response.header("access-control-allow-origin"), "*", "{url}");
        for name in ["Content-Length", "Content-Range", "ETag"] {
            assert!(response.header("access-control-expose-headers").contains(name), "{url} {name}");
        }
        let preflight = [("origin", "http://page"), ("access-control-request-headers", "range")];
        let options = send(server.address, Method::OPTIONS, url, &preflight).await.unwrap();
        assert_eq!((options.status.as_u16(), options.body.len()), (204, 0));
        assert!(options.header("access-control-allow-methods").contains("GET"));
        assert!(options.header("access-control-allow-headers").contains("Range"));
    }
}

#[tokio::test]
async fn cache_control_is_configured_by_class() {
    let mut config = crate::server::config();
    config.cache_control.manifest = Some("max-age=1".parse().unwrap());
    config.cache_control.init = Some("max-age=2".parse().unwrap());
    config.cache_control.media = None;
    let server = Server::with(library(), config, None).await;
    for (url, value) in [
        ("/harbour/.mpd", "max-age=1"),
        ("/harbour/dash/x-video=152000.dash", "max-age=2"),
        ("/harbour/dash/x-video=152000-0.dash", ""),
        ("/harbour/nothing", "no-store"),
    ] {
        assert_eq!(get(server.address, url).await.header("cache-control"), value, "{url}");
    }
}
