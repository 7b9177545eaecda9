//! Crawls the URLs of nginx-vod-module: manifests of this form name URLs of this form, whose bodies
//! are those of the native form, to the byte.

use crate::{
    client::Answer,
    crawl::{NATIVE, crawl},
    server::{Server, samples},
};
use latemux_testmedia::probe::probe;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

const MANIFESTS: [&str; 4] = [
    "application/vnd.apple.mpegurl",
    "application/dash+xml",
    "application/vnd.ms-sstr+xml",
    "application/f4m+xml",
];

/// Returns the manifests where players of a title start.
fn entries(title: &str, parameters: &str) -> Vec<String> {
    ["hls/master.m3u8", "hls/master.m3u8?hls_fmp4", "dash/manifest.mpd", "mss/manifest", "hds/manifest.f4m"]
        .iter()
        .map(|entry| {
            let (prefix, name) = entry.split_once('/').expect("two parts");
            format!("/{prefix}{title}{parameters}/{name}")
        })
        .collect()
}

/// Returns the ETags and bodies of all segments found, without those of I-frames in DASH, which the
/// other form does not have.
fn segments(found: &BTreeMap<String, Answer>) -> BTreeMap<&str, &[u8]> {
    let media = found.iter().filter(|(url, a)| {
        let kind = a.headers["content-type"].as_str();
        let is_trick = url.contains("/keyframes/") && url.contains(".dash");
        !MANIFESTS.contains(&kind) && kind != "video/abst" && !is_trick
    });
    media.map(|(_, a)| (a.headers["etag"].as_str(), a.body.as_slice())).collect()
}

#[test]
fn every_url_in_manifests_has_the_bytes_of_the_native_form() {
    let server = Server::start(&samples(), &["--nginx-vod-urls"], &[]);
    let list = "/harbour/,audio-eng,audio-fra,video-180p,video-234p,video-360p,.mp4.urlset";
    for title in ["/lighthouse.mp4", "/ferry.mp4", "/buoy.mp4", "/harbour", list] {
        let native = crawl(server.address, &NATIVE.map(|entry| format!("{title}/{entry}")));
        let theirs = crawl(server.address, &entries(title, ""));
        for url in theirs.keys() {
            let below = ["/hls", "/dash", "/mss", "/hds"]
                .iter()
                .any(|prefix| url.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(title)));
            assert!(
                below && (url.starts_with("/mss") || !url.replace("hls_fmp4", "").contains("=")),
                "{url} is of another form"
            );
        }
        let one = segments(&theirs);
        let other = segments(&native);
        assert!(one.len() > 15, "{title}: {} segments", one.len());
        assert!(one.keys().eq(other.keys()), "{title}: other segments");
        assert!(one == other, "{title}: other bytes");
    }
    assert!(!server.stop().contains("panicked"));
}

#[test]
fn a_selection_applies_to_every_url_in_its_manifests() {
    let server = Server::start(&samples(), &["--nginx-vod-urls"], &[]);
    let all = crawl(server.address, &entries("/harbour", ""));
    let some = crawl(server.address, &entries("/harbour", "/tracks/f4-v1-f2-a1"));
    let all = segments(&all);
    let some = segments(&some);
    assert!(some.len() > 15 && some.len() < all.len(), "{} of {}", some.len(), all.len());
    // Except for video muxed with that audio, which the manifests of the whole title do not name.
    let known: BTreeSet<_> = all.keys().collect();
    let unknown = some.keys().filter(|etag| !known.contains(etag)).count();
    assert!(unknown > 0 && unknown < some.len() / 2, "{unknown} of {}", some.len());
    assert!(some.iter().all(|(etag, bytes)| all.get(etag).is_none_or(|known| known == bytes)));
}

#[test]
fn a_clip_has_the_segments_of_the_native_form() {
    let server = Server::start(&samples(), &["--nginx-vod-urls"], &[]);
    for title in ["/lighthouse.mp4", "/harbour"] {
        let mut native = Vec::new();
        for entry in [".mpd?", ".m3u8?", ".m3u8?hls_fmp4&", "Manifest?"] {
            native.push(format!("{title}/{entry}vbegin=3&vend=9.5"));
        }
        let entries = entries(title, "/clipFrom/3000/clipTo/9500");
        let entries: Vec<_> = entries.into_iter().filter(|entry| !entry.contains(".f4m")).collect();
        let native = crawl(server.address, &native);
        let theirs = crawl(server.address, &entries);
        assert!(theirs.keys().all(|url| url.contains("/clipFrom/3000/clipTo/9500/")));
        let one = segments(&theirs);
        let other = segments(&native);
        assert!(one.len() > 10, "{title}: {} segments", one.len());
        assert!(one == other, "{title}: other bytes");
        // Complete segments are those of the whole title.
        let whole = crawl(server.address, &NATIVE.map(|entry| format!("{title}/{entry}")));
        let whole = segments(&whole);
        assert!(one.keys().any(|etag| whole.contains_key(etag)), "{title}: none is whole");
        assert!(one.keys().any(|etag| !whole.contains_key(etag)), "{title}: none is cut");
        // The native form of HDS expresses a clip in another way.
        let hds = crawl(server.address, &[format!("/hds{title}/clipFrom/3000/clipTo/9500/manifest.f4m")]);
        assert!(!segments(&hds).is_empty());
    }
}

/// ffprobe demuxes the same packets from CMAF playlists as from the file.
#[test]
fn a_player_gets_the_packets_of_the_source() {
    let server = Server::start(&samples(), &["--nginx-vod-urls"], &[]);
    let source = probe(Path::new(&format!("{}/lighthouse.mp4", samples())), &[]);
    for (kind, name) in [("video", "index-v1.m3u8"), ("audio", "index-a1.m3u8")] {
        let url = format!("http://{}/hls/lighthouse.mp4/{name}?hls_fmp4", server.address);
        let served = probe(Path::new(&url), &[]);
        let data = |probe: &latemux_testmedia::probe::Probe| -> Vec<String> {
            probe.first(kind).packets.iter().map(|packet| packet.hash.clone()).collect()
        };
        assert!(data(&source).len() > 100);
        assert!(data(&served) == data(&source), "{kind}: other packets");
    }
}
