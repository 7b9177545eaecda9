//! Bad URLs and bad media: each has a status, a one-line body with a stable reason, and a log line
//! with the same reason.

use crate::{
    client::{get, open, send},
    log,
    server::{Server, fragmented, key, library, sample},
};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use latemux_storage::Memory;
use latemux_testmedia::{
    quicktime::{QuickTime, quarter_turn, quicktime},
    recipe,
};
use std::{net::SocketAddr, sync::Arc};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

async fn expect_error(server: SocketAddr, path: &str, status: u16, reason: &str) {
    let response = get(server, path).await;
    assert_eq!((response.status.as_u16(), response.reason().as_str()), (status, reason), "{path}");
    assert_eq!(response.header("content-type"), "application/json");
    let line = log::access(path).await;
    assert!(line.contains(&format!("status={status} reason=\"{reason}\"")), "{line}");
    let head = send(server, Method::HEAD, path, &[]).await.unwrap();
    assert_eq!((head.lasting_headers(), head.body.len()), (response.lasting_headers(), 0), "{path}");
}

#[tokio::test]
async fn missing_resources_are_refused_with_their_reason() {
    log::keep();
    let memory = library();
    memory.put(key("notes/readme.txt"), "no media");
    memory.put(key("presentation.ism"), "<smil/>");
    let server = Server::start(memory).await;
    let at = server.address;
    for (path, status, reason) in [
        ("/missing.mp4/.mpd", 404, "source_not_found"),
        ("/missing/.m3u8", 404, "source_not_found"),
        ("/harbour/video-,360p,999p,.mp4.urlset/.mpd", 404, "source_not_found"),
        ("/notes/.mpd", 404, "no_media"),
        ("/notes/readme.txt/.mpd", 404, "unknown_extension"),
        ("/notes/missing.txt/.mpd", 404, "unknown_extension"),
        ("/presentation.ism/.mpd", 422, "manifest_malformed"),
        ("/missing.ism/.mpd", 404, "source_not_found"),
        ("/harbour", 404, "no_such_url"),
        ("/harbour/video-360p.mp4", 404, "no_such_url"),
        ("/harbour/x.html", 404, "no_such_url"),
        ("/favicon.ico", 404, "no_such_url"),
        ("/harbour/dash/x-video=1.dash", 404, "no_such_track"),
        ("/harbour/dash/x-nothing=152000-0.dash", 404, "no_such_track"),
        ("/harbour/dash/x-video=152000-51201.dash", 404, "no_such_segment"),
        ("/harbour/dash/x-video=152000-999999999999999999.dash", 404, "no_such_segment"),
        ("/harbour/dash/x-video=152000-13.m4s", 404, "no_such_segment"),
        ("/harbour/dash/x-video=152000-0.m4s", 404, ""),
        ("/harbour/hls/x-video=152000-4294967295.m4s", 404, "no_such_segment"),
        ("/harbour/x-video=152000-13.ts", 404, "no_such_segment"),
        ("/harbour/keyframes/x-video=152000-13.ts", 404, "no_such_segment"),
        ("/harbour/x-video=1.m3u8", 404, "no_such_track"),
    ] {
        if reason.is_empty() {
            assert_eq!(get(at, path).await.status, status, "{path}");
        } else {
            expect_error(at, path, status, reason).await;
        }
    }
}

/// Sends a request target that HTTP clients would refuse to send.
async fn raw(server: SocketAddr, target: &[u8]) -> String {
    let mut stream = tokio::net::TcpStream::connect(server).await.unwrap();
    stream
        .write_all(&[b"GET ", target, b" HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"].concat())
        .await
        .unwrap();
    let mut response = Vec::new();
    stream.read_to_end(&mut response).await.unwrap();
    String::from_utf8_lossy(&response).into_owned()
}

#[tokio::test]
async fn no_path_leaves_the_served_folder() {
    let outside = tempfile::tempdir().unwrap();
    let root = outside.path().join("root");
    std::fs::create_dir(&root).unwrap();
    std::fs::write(outside.path().join("secret.mp4"), sample("buoy.mp4")).unwrap();
    std::fs::write(root.join("open.mp4"), sample("buoy.mp4")).unwrap();
    let server = Server::start(Arc::new(latemux_storage::Folder::new(&root).unwrap())).await;
    assert!(raw(server.address, b"/open.mp4/.mpd").await.starts_with("HTTP/1.1 200"));
    let absolute = format!("/{}/.mpd", outside.path().join("secret.mp4").display());
    for target in [
        "/../secret.mp4/.mpd",
        "/open.mp4/../../secret.mp4/.mpd",
        "/%2e%2e/secret.mp4/.mpd",
        "/%2E%2E/secret.mp4/.mpd",
        "/.%2e/secret.mp4/.mpd",
        "/..%2fsecret.mp4/.mpd",
        "/..%2Fsecret.mp4/.mpd",
        "/%2e%2e%2fsecret.mp4/.mpd",
        "/..%5csecret.mp4/.mpd",
        "/..\\secret.mp4/.mpd",
        "/%252e%252e/secret.mp4/.mpd",
        "/%c0%ae%c0%ae/secret.mp4/.mpd",
        "/open.mp4%00/.mpd",
        "/%2e/open.mp4/.mpd",
        "/./open.mp4/.mpd",
        "//open.mp4/.mpd",
        "/x,..,y,/secret.mp4.urlset/.mpd",
        "/,../secret,x,.mp4.urlset/.mpd",
        "/,..%2fsecret,x,.mp4.urlset/.mpd",
        "/_/../../Cargo.toml",
        "/_/%2e%2e/Cargo.toml",
        "/%0d%0ainjected: yes/.mpd",
        &absolute,
    ] {
        let response = raw(server.address, target.as_bytes()).await;
        let status = response.split(' ').nth(1).unwrap_or("");
        assert!(matches!(status, "400" | "404"), "{target}: {response}");
        assert!(
            !response.contains("mp4a") && !response.to_lowercase().contains("\ninjected"),
            "{target}: {response}"
        );
    }
    for target in [&b"/\xff\xfe.mp4/.mpd"[..], b"/a\0b/.mpd", b"/a b.mp4/.mpd"] {
        let response = raw(server.address, target).await;
        assert!(response.starts_with("HTTP/1.1 4"), "{response}");
    }
}

/// curl and many players do not escape the quotes and brackets of a filter.
#[tokio::test]
async fn filters_as_they_are_written_in_the_documents_were_refused() {
    let server = Server::start(library()).await;
    for (raw_target, escaped) in [
        ("/harbour/.m3u8?filter=type==\"audio\"", "/harbour/.m3u8?filter=type==%22audio%22"),
        (
            "/harbour/.mpd?filter=(type==\"audio\")||(type==\"video\"&&MaxHeight<=240)",
            "/harbour/.mpd?filter=(type==%22audio%22)%7C%7C(type==%22video%22%26%26MaxHeight%3C=240)",
        ),
    ] {
        let response = raw(server.address, raw_target.as_bytes()).await;
        assert!(response.starts_with("HTTP/1.1 200 "), "{response}");
        let expected = get(server.address, escaped).await;
        assert_eq!(response.split_once("\r\n\r\n").unwrap().1.as_bytes(), expected.body, "{raw_target}");
    }
}

/// hyper refuses these without calling the origin.
#[tokio::test]
async fn requests_that_hyper_refuses_had_no_body_and_no_log_line() {
    log::keep();
    let server = Server::start(library()).await;
    let long = format!("/{}", "a".repeat(20_000));
    for (target, status, reason) in [
        ("/harbour/.m3u8 /x", 400, "bad_request"),
        ("/harbour/.m3u8?filter=type==\u{1}", 400, "bad_request"),
        (&long, 431, "head_too_large"),
    ] {
        let response = raw(server.address, target.as_bytes()).await;
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert!(
            head.contains("content-type: application/json") && head.contains("connection: close"),
            "{head}"
        );
        assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
        let json: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(json["reason"], reason, "{body}");
        let line = log::lines(&[" access: ", &format!("status={status} reason=\"{reason}\"")]);
        assert!(!line.is_empty(), "no line for {target}");
    }
    let metrics = get(server.admin, "/metrics").await;
    let metrics = String::from_utf8(metrics.body.to_vec()).unwrap();
    for line in [
        "latemux_refusals_total{reason=\"bad_request\"} 2",
        "latemux_refusals_total{reason=\"head_too_large\"} 1",
        "latemux_responses_total{protocol=\"other\",class=\"other\",status=\"4xx\"} 3",
    ] {
        assert!(metrics.contains(line), "{line} in {metrics}");
    }
}

#[tokio::test]
async fn other_methods_are_not_allowed() {
    let server = Server::start(library()).await;
    for method in [Method::POST, Method::PUT, Method::DELETE, Method::PATCH] {
        let response = send(server.address, method, "/harbour/.mpd", &[]).await.unwrap();
        assert_eq!((response.status.as_u16(), response.reason().as_str()), (405, "method_not_allowed"));
        assert_eq!(response.header("allow"), "GET, HEAD, OPTIONS");
    }
}

/// Returns the offset of the first box of this type.
fn find(file: &[u8], code: &[u8; 4]) -> usize {
    file.windows(4).position(|w| w == code).unwrap() - 4
}

fn with(file: &Bytes, at: usize, bytes: &[u8]) -> Bytes {
    let mut changed = file.to_vec();
    changed[at..at + bytes.len()].copy_from_slice(bytes);
    changed.into()
}

#[tokio::test]
async fn damaged_and_unsupported_media_is_refused_with_its_reason() {
    log::keep();
    let good = sample("harbour/video-360p.mp4");
    let fragments = fragmented();
    let encrypted = recipe::make(
        "encrypted",
        "mp4",
        &format!(
            "-f lavfi -i testsrc2=size=192x108:rate=25:duration=2 {} -encryption_scheme cenc-aes-ctr \
             -encryption_key 000102030405060708090a0b0c0d0e0f -encryption_kid a0a1a2a3a4a5a6a7a8a9aaabacadaeaf",
            recipe::AVC
        ),
    );
    let box_at = |code| find(&good, code);
    let no_sync = {
        // A sync sample table without entries.
        let at = box_at(b"stss");
        with(&good, at + 12, &[0; 4])
    };
    let cases: Vec<(&str, Bytes, u16, &str)> = vec![
        ("empty", Bytes::new(), 415, "not_mp4"),
        ("text", Bytes::from_static(b"This is a text, not a film. It goes on for a while."), 415, "not_mp4"),
        ("zeros", vec![0; 100_000].into(), 415, "not_mp4"),
        ("ftyp-only", good.slice(..find(&good, b"moov")), 422, ""),
        ("cut-in-moov", good.slice(..find(&good, b"moov") + 500), 422, "truncated"),
        ("cut-in-media", good.slice(..good.len() / 2), 422, "truncated"),
        ("moov-too-long", with(&good, box_at(b"moov"), &0x7fff_0000_u32.to_be_bytes()), 422, ""),
        ("moov-too-short", with(&good, box_at(b"moov"), &9_u32.to_be_bytes()), 422, ""),
        ("trak-too-long", with(&good, box_at(b"trak"), &0x00ff_ffff_u32.to_be_bytes()), 422, ""),
        ("stts-count", with(&good, box_at(b"stts") + 12, &[0xff; 4]), 422, "malformed"),
        ("stsz-count", with(&good, box_at(b"stsz") + 16, &[0xff; 4]), 422, "malformed"),
        ("stsc-count", with(&good, box_at(b"stsc") + 12, &[0xff; 4]), 422, "malformed"),
        ("stco-count", with(&good, box_at(b"stco") + 12, &[0xff; 4]), 422, "malformed"),
        ("stco-beyond", with(&good, box_at(b"stco") + 16, &[0xf0; 4]), 422, ""),
        ("no-stsz", with(&good, box_at(b"stsz") + 4, b"free"), 422, "malformed"),
        ("no-stts", with(&good, box_at(b"stts") + 4, b"free"), 422, "malformed"),
        ("zero-timescale", with(&good, box_at(b"mdhd") + 20, &[0; 4]), 422, "malformed"),
        ("no-sync", no_sync, 422, "no_sync_sample"),
        ("no-trak", with(&good, box_at(b"trak") + 4, b"free"), 422, ""),
        ("unknown-codec", with(&good, box_at(b"stsd") + 20, b"zzzz"), 415, "unsupported_codec"),
        ("encrypted", std::fs::read(encrypted).unwrap().into(), 415, "encrypted_source"),
        ("fragments-cut", fragments.slice(..fragments.len() / 2), 422, ""),
        ("sidx-lies", with(&fragments, find(&fragments, b"sidx") + 32, &[0x7f, 0xff, 0xff, 0xff]), 422, ""),
    ];
    let memory = Memory::new();
    for (name, bytes, ..) in &cases {
        memory.put(key(&format!("bad/{name}.mp4")), bytes.clone());
    }
    let server = Server::start(Arc::new(memory)).await;
    let mut wrong = Vec::new();
    for (name, _, status, reason) in &cases {
        let path = format!("/bad/{name}.mp4/.mpd");
        let response = get(server.address, &path).await;
        let got = response.status.as_u16();
        if got == 200 {
            wrong.push(format!("{name}: 200"));
            continue;
        }
        let found = response.reason();
        let line = log::access(&path).await;
        assert!(line.contains(&format!("status={got} reason=\"{found}\"")), "{line}");
        if got != *status || (!reason.is_empty() && found != *reason) {
            wrong.push(format!("{name}: {got} {found}, not {status} {reason}: {:?}", response.body));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test]
async fn a_damaged_file_among_others_is_left_out_and_logged() {
    log::keep();
    let memory = library();
    memory.put(key("harbour/video-left-out.mp4"), sample("harbour/video-360p.mp4").slice(..700));
    let server = Server::start(memory).await;
    let whole = get(Server::start(library()).await.address, "/harbour/.mpd").await;
    let response = get(server.address, "/harbour/.mpd").await;
    assert_eq!((response.status.as_u16(), response.body), (200, whole.body));
    assert_eq!(log::lines(&[" WARN ", "reason=\"truncated\"", "video-left-out.mp4"]).len(), 1);
}

/// Returns AVC and AAC that are encrypted.
fn encrypted(codecs: &str) -> Bytes {
    let file = recipe::make(
        "encrypted",
        "mp4",
        &format!(
            "-f lavfi -i testsrc2=size=192x108:rate=25:duration=2 -f lavfi -i sine=duration=2 {codecs} \
             -encryption_scheme cenc-aes-ctr -encryption_key 000102030405060708090a0b0c0d0e0f \
             -encryption_kid a0a1a2a3a4a5a6a7a8a9aaabacadaeaf"
        ),
    );
    std::fs::read(file).unwrap().into()
}

/// The audio beside them can be served.
#[tokio::test]
async fn a_title_whose_only_video_cannot_be_served_was_audio_only() {
    log::keep();
    let memory = library();
    let audio = sample("harbour/audio-eng.mp4");
    let encrypted = encrypted(&format!("{} {}", recipe::AVC, recipe::AAC));
    memory.put(key("encrypted-film/video.mp4"), encrypted.clone());
    memory.put(key("encrypted-film/audio.mp4"), audio.clone());
    memory.put(key("cut-film/video.mp4"), sample("harbour/video-360p.mp4").slice(..700));
    memory.put(key("cut-film/audio.mp4"), audio);
    memory.put(key("both.mp4"), encrypted);
    let server = Server::start(memory).await;
    for path in ["/encrypted-film/.mpd", "/encrypted-film/.m3u8", "/encrypted-film/Manifest"] {
        let response = get(server.address, path).await;
        assert_eq!(
            (response.status.as_u16(), response.reason().as_str()),
            (415, "encrypted_source"),
            "{path}"
        );
        let body = String::from_utf8(response.body.to_vec()).unwrap();
        assert!(body.contains("encrypted-film/video.mp4: track 1 (video, avc1): encrypted (cenc)"), "{body}");
    }
    expect_error(server.address, "/cut-film/.mpd", 422, "truncated").await;
    let body = get(server.address, "/both.mp4/.mpd").await.body;
    let body = String::from_utf8(body.to_vec()).unwrap();
    let both = "track 1 (video, avc1): encrypted (cenc); track 2 (audio, mp4a): encrypted (cenc)";
    assert!(body.contains(both), "{body}");
}

#[tokio::test]
async fn a_manifest_whose_track_is_encrypted_was_served_without_it() {
    log::keep();
    let memory = library();
    memory.put(key("harbour/locked.mp4"), encrypted(&format!("{} {}", recipe::AVC, recipe::AAC)));
    let ism = r#"<smil xmlns="http://www.w3.org/2001/SMIL20/Language"><body><switch>
        <video src="video-360p.mp4" systemBitrate="300000"><param name="trackID" value="1"/></video>
        <audio src="locked.mp4" systemBitrate="96000"><param name="trackID" value="2"/></audio>
    </switch></body></smil>"#;
    memory.put(key("harbour/film.ism"), ism);
    let server = Server::start(memory).await;
    expect_error(server.address, "/harbour/film.ism/.mpd", 415, "encrypted_source").await;
}

#[tokio::test]
async fn rotation_that_protocols_cannot_state_was_not_reported() {
    log::keep();
    let file = std::fs::read(recipe::avc_aac("turned", "")).unwrap();
    let options = QuickTime { matrix: Some(quarter_turn(180)), ..QuickTime::default() };
    let memory = Memory::new();
    memory.put(key("turned.mp4"), quicktime(&file, options));
    let server = Server::start(Arc::new(memory)).await;
    assert_eq!(get(server.address, "/turned.mp4/.mpd").await.status, 200);
    let words = [" WARN ", "reason=\"rotation_lost\"", "rotated by 90°", "HLS TS, Smooth Streaming, HDS"];
    assert_eq!(log::lines(&words).len(), 1);
}

#[tokio::test]
async fn tracks_that_a_protocol_leaves_out_are_logged_once() {
    log::keep();
    let memory = Memory::new();
    let file =
        recipe::coded("vp9-aac", "-c:v libvpx-vp9 -deadline realtime -cpu-used 8 -g 50 -b:v 100k -c:a aac");
    memory.put(key("left-out-of-ts.mp4"), std::fs::read(file).unwrap());
    let server = Server::start(Arc::new(memory)).await;
    for _ in 0..3 {
        assert_eq!(get(server.address, "/left-out-of-ts.mp4/.m3u8").await.status, 200);
    }
    for protocol in ["HlsTs", "Smooth", "Hds"] {
        let words = [" WARN ", "reason=\"cannot_carry\"", "left-out-of-ts.mp4", "vp09", protocol];
        assert_eq!(log::lines(&words).len(), 1, "{protocol}");
    }
    let urls = crate::server::crawl(server.address, "/left-out-of-ts.mp4").await;
    let video =
        urls.iter().find_map(|u| Some(u.split_once("-video=")?.1.split(['-', '.']).next()?.to_owned()));
    expect_error(
        server.address,
        &format!("/left-out-of-ts.mp4/x-video={}-1.ts", video.unwrap()),
        415,
        "cannot_carry",
    )
    .await;
}

/// The range of a request does not apply to an error response.
#[tokio::test]
async fn a_range_request_that_fails_gets_the_whole_error() {
    let server = Server::start(library()).await;
    let response =
        open(server.address, Method::GET, "/missing.mp4/.mpd", &[("range", "bytes=0-0")]).await.unwrap();
    assert_eq!(response.status(), 404);
    assert!(!response.into_body().collect().await.unwrap().to_bytes().is_empty());
}
