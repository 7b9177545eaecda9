//! Titles whose media another file refers to: index MP4s and server manifests.

use crate::{
    client::{fetch, get},
    server::{HARBOUR, Server, crawl, key, library, sample},
};
use bytes::Bytes;
use latemux_index::{
    MediaIndex,
    locate::{Locator, limits::Limits},
};
use latemux_origin::{OriginConfig, config::SourcesConfig};
use latemux_packager::manifest::server::{ManifestTrack, write};
use latemux_storage::{Folder, Memory, counting::Counting};
use latemux_testmedia::{origin::run, recipe};
use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

/// Returns the index and all sample tables of an object.
fn read(object: &Bytes) -> (Locator, MediaIndex) {
    let mut locator = Locator::for_full_tables(Limits::default());
    let index = run(&mut locator, object).unwrap();
    (locator, index)
}

fn index_file(object: &Bytes, location: &str) -> Bytes {
    read(object).0.full_tables().unwrap().index_file(location, None).unwrap()
}

/// Returns a server manifest of all tracks of some files.
fn manifest(files: &[(&str, &Bytes)]) -> String {
    let indexes: Vec<(&str, MediaIndex)> =
        files.iter().map(|(name, object)| (*name, read(object).1)).collect();
    let tracks =
        indexes.iter().flat_map(|(src, index)| index.tracks.iter().map(|track| ManifestTrack { src, track }));
    write(&tracks.collect::<Vec<_>>())
}

/// Asserts that all URLs under one base give the same bytes under another.
async fn same(at: SocketAddr, one: &str, other: &str, at_least: usize) {
    let urls = crawl(at, one).await;
    assert!(urls.len() >= at_least, "{one}: {} URLs", urls.len());
    for url in urls {
        let twin = url.replacen(one, other, 1);
        let left = fetch(at, &url).await;
        let right = fetch(at, &twin).await;
        if url.contains(".m") && !url.ends_with(".m4s") {
            let text = |bytes: &Bytes| String::from_utf8_lossy(bytes).into_owned();
            assert_eq!(text(&left), text(&right), "{url} and {twin}");
        }
        assert!(left == right, "{url} and {twin}: {} and {} bytes", left.len(), right.len());
    }
}

/// Asserts the same of the manifests of Smooth Streaming and HDS, and of one Smooth fragment of
/// each track.
async fn smooth_and_hds(at: SocketAddr, one: &str, other: &str) {
    let manifest = fetch(at, &format!("{one}/Manifest")).await;
    assert!(manifest == fetch(at, &format!("{other}/Manifest")).await);
    assert!(fetch(at, &format!("{one}/.f4m")).await == fetch(at, &format!("{other}/.f4m")).await);
    let text = String::from_utf8_lossy(&manifest).into_owned();
    let value = |text: &str, name: &str| -> String {
        text.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap().to_owned()
    };
    let streams: Vec<&str> = text.split("<StreamIndex").skip(1).collect();
    assert_eq!(streams.len(), 2);
    for stream in streams {
        let url = value(stream, "Url").replace("{bitrate}", &value(stream, "Bitrate"));
        let url = url.replace("{start time}", &value(stream, " t"));
        let left = fetch(at, &format!("{one}/{url}")).await;
        let right = fetch(at, &format!("{other}/{url}")).await;
        assert!(left == right && left.len() > 1000, "{url}");
    }
}

#[tokio::test]
async fn index_mp4s_and_server_manifests_give_the_bytes_of_the_media() {
    let memory = library();
    for name in ["lighthouse.mp4", "buoy.mp4"] {
        let media = sample(name);
        let stem = name.trim_end_matches(".mp4");
        let index = index_file(&media, &format!("store/{name}"));
        memory.put(key(&format!("index/{name}")), index.clone());
        memory.put(key(&format!("index/store/{name}")), media.clone());
        memory.put(key(&format!("ism/{stem}.ism")), manifest(&[(name, &media)]));
        memory.put(key(&format!("ism/{name}")), media.clone());
        memory.put(key(&format!("both/{stem}.ism")), manifest(&[("x.index.mp4", &index)]));
        memory.put(key("both/x.index.mp4"), index);
        memory.put(key(&format!("both/store/{name}")), media.clone());
        let server = Server::start(memory.clone()).await;
        same(server.address, &format!("/{name}"), &format!("/index/{name}"), 10).await;
        same(server.address, &format!("/{name}"), &format!("/ism/{stem}.ism"), 10).await;
        same(server.address, &format!("/{name}"), &format!("/both/{stem}.ism"), 10).await;
        if name == "lighthouse.mp4" {
            smooth_and_hds(server.address, "/lighthouse.mp4", "/both/lighthouse.ism").await;
        }
    }
    let objects: Vec<Bytes> = HARBOUR.iter().map(|name| sample(&format!("harbour/{name}"))).collect();
    let files: Vec<(&str, &Bytes)> = HARBOUR.iter().copied().zip(&objects).collect();
    memory.put(key("harbour/harbour.ism"), manifest(&files));
    let server = Server::start(memory).await;
    same(server.address, "/harbour", "/harbour/harbour.ism", 100).await;
}

#[tokio::test]
async fn fragmented_and_plain_media_give_the_same_bytes_with_and_without_an_index_mp4() {
    let plain = recipe::avc("sources-plain", "192x108", "-movflags +faststart");
    // Without `delay_moov` the fragmented file has no edit list, and so another timing.
    let args = "-c copy -movflags +frag_keyframe+delay_moov+default_base_moof+global_sidx";
    let fragmented = recipe::make("sources-fragmented", "mp4", &format!("-i {} {args}", plain.display()));
    let [plain, fragmented] = [plain, fragmented].map(|path| Bytes::from(std::fs::read(path).unwrap()));
    let memory = Memory::new();
    for (folder, media) in [("plain", &plain), ("fragmented", &fragmented)] {
        memory.put(key(&format!("{folder}/t.mp4")), media.clone());
        memory.put(key(&format!("{folder}/t.ism")), smil(&element("video", "t.mp4", 165_000, 1, "")));
        memory.put(key(&format!("{folder}-index/t.mp4")), index_file(media, "media"));
        memory.put(key(&format!("{folder}-index/media")), media.clone());
    }
    let server = Server::start(Arc::new(memory)).await;
    let at = server.address;
    same(at, "/plain/t.mp4", "/plain-index/t.mp4", 10).await;
    same(at, "/plain/t.mp4", "/fragmented-index/t.mp4", 10).await;
    // The index of a fragmented file tells segment sizes only approximately, so that bit rates in
    // manifests and track names differ. With the names of a server manifest, segments are the same.
    let mut seen = 0;
    for url in crawl(at, "/fragmented/t.ism").await {
        if !url.contains(".m3u8") && !url.ends_with(".mpd") {
            assert!(
                fetch(at, &url).await == fetch(at, &url.replace("/fragmented/", "/plain/")).await,
                "{url}"
            );
            seen += 1;
        }
    }
    assert!(seen > 8, "{seen}");
}

#[tokio::test]
async fn a_cold_manifest_through_an_index_mp4_takes_two_round_trips() {
    let memory = Memory::new();
    let media = sample("lighthouse.mp4");
    memory.put(key("x.index.mp4"), index_file(&media, "x.mp4"));
    memory.put(key("x.mp4"), media);
    let counting = Arc::new(Counting::new(Arc::new(memory), Duration::ZERO));
    let server = Server::start(counting.clone()).await;
    fetch(server.address, "/x.index.mp4/.mpd").await;
    assert_eq!((counting.depth(), counting.take().len()), (2, 2));
}

fn element(kind: &str, src: &str, rate: u32, id: u32, more: &str) -> String {
    format!(
        "<{kind} src=\"{src}\" systemBitrate=\"{rate}\"{more}><param name=\"trackID\" value=\"{id}\"/></{kind}>\n"
    )
}

fn smil(elements: &str) -> String {
    format!(
        "<smil xmlns=\"http://www.w3.org/2001/SMIL20/Language\"><body><switch>\n{elements}</switch></body></smil>"
    )
}

#[tokio::test]
async fn a_server_manifest_sets_track_names_and_bit_rates() {
    let memory = library();
    let video = |name: &str| element("video", name, 700_000, 1, "");
    let audio = |name: &str, language: &str| element("audio", name, 96_000, 1, language);
    let elements = [
        video("video-360p.mp4"),
        video("video-180p.mp4"),
        element("video", "video-234p.mp4", 300_000, 1, ""),
        audio("audio-eng.mp4", " systemLanguage=\"deu\""),
        audio("audio-fra.mp4", ""),
        audio("audio-fra.mp4", ""),
    ];
    memory.put(key("harbour/t.ism"), smil(&elements.concat()));
    let server = Server::start(memory).await;
    let text = fetch(server.address, "/harbour/t.ism/.mpd").await;
    let text = std::str::from_utf8(&text).unwrap();
    let ids: Vec<&str> = text.split("<Representation").skip(1).filter_map(|r| r.split('"').nth(1)).collect();
    let mut sorted = ids.clone();
    sorted.sort_unstable();
    assert_eq!(
        sorted,
        [
            "audio_deu=96000",
            "audio_fra=96000",
            "audio_fra_1=96000",
            "video=300000",
            "video=700000",
            "video=700000-trick",
            "video_1=700000"
        ]
    );
    // The first element in the manifest's order keeps the name without a number.
    let size = |name: &str| {
        let at = format!("/harbour/t.ism/dash/t-{name}-0.dash");
        async move { get(server.address, &at).await.body.len() }
    };
    assert!(size("video=700000").await > size("video_1=700000").await);
}

#[tokio::test]
async fn a_language_that_only_the_server_manifest_states_is_used() {
    let memory = library();
    let media = recipe::aac("sources-und", "und", "");
    memory.put(key("und.mp4"), std::fs::read(media).unwrap());
    memory.put(key("t.ism"), smil(&element("audio", "und.mp4", 96_000, 1, " systemLanguage=\"swe\"")));
    let server = Server::start(memory).await;
    let response = get(server.address, "/t.ism/.mpd").await;
    let text = String::from_utf8_lossy(&response.body).into_owned();
    assert!(text.contains("lang=\"swe\"") || text.contains("lang=\"sv\""), "{text}");
}

#[tokio::test]
async fn unusable_server_manifests_are_refused_with_the_wrong_element() {
    let memory = library();
    let audio = element("audio", "lighthouse.mp4", 96_000, 2, "");
    let stale = index_file(&sample("lighthouse.mp4"), "buoy.mp4");
    memory.put(key("stale.index.mp4"), stale);
    memory.put(key("out.index.mp4"), index_file(&sample("lighthouse.mp4"), "/etc/passwd"));
    memory.put(key("broken.mp4"), "broken broken broken broken");
    let large = vec![b' '; 100 << 20];
    let cases: Vec<(&str, Bytes, u16, &str, &str)> = vec![
        (
            "wrong",
            smil(&element("video", "buoy.mp4", 1, 7, "")).into(),
            422,
            "wrong_track_id",
            "there is no track 7",
        ),
        (
            "kind",
            smil(&element("video", "lighthouse.mp4", 1, 2, "")).into(),
            422,
            "wrong_track_id",
            "track 2 is audio",
        ),
        ("gone", smil(&element("video", "gone.mp4", 1, 1, "")).into(), 404, "source_not_found", "gone.mp4"),
        (
            "out",
            smil(&element("video", "../x.mp4", 1, 1, "")).into(),
            422,
            "location_refused",
            "leaves the storage",
        ),
        (
            "abs",
            smil(&element("video", "http://h/x.mp4", 1, 1, "")).into(),
            422,
            "location_refused",
            "not allowed",
        ),
        (
            "via",
            smil(&element("video", "out.index.mp4", 1, 1, "")).into(),
            422,
            "location_refused",
            "out.index.mp4: it points to a location that is refused: it is outside the allowed folders",
        ),
        (
            "old",
            smil(&element("video", "stale.index.mp4", 1, 1, "")).into(),
            422,
            "index_stale",
            "made from another version of its media",
        ),
        ("bad", smil(&element("video", "broken.mp4", 1, 1, "")).into(), 415, "not_mp4", "broken.mp4"),
    ];
    for (name, body, ..) in &cases {
        // The wrong element follows a right one. The error must name the wrong one.
        let text =
            String::from_utf8(body.to_vec()).unwrap().replace("<switch>\n", &format!("<switch>\n{audio}"));
        memory.put(key(&format!("{name}.ism")), text);
    }
    memory.put(key("large.ism"), large);
    memory.put(key("dtd.ism"), "<!DOCTYPE smil [<!ENTITY a \"b\">]><smil>&a;</smil>");
    memory.put(key("nosrc.ism"), smil("<video systemBitrate=\"1\"/>"));
    let server = Server::start(memory).await;
    for (name, _, status, reason, detail) in cases {
        let response = get(server.address, &format!("/{name}.ism/.mpd")).await;
        let text = String::from_utf8_lossy(&response.body).into_owned();
        assert_eq!(
            (response.status.as_u16(), response.reason().as_str()),
            (status, reason),
            "{name}: {text}"
        );
        assert!(text.contains("in line 3: ") && text.contains(detail), "{name}: {text}");
        assert!(text.contains(&format!("{name}.ism: <video src=")), "{text}");
    }
    for (name, reason) in
        [("large", "manifest_too_large"), ("dtd", "manifest_malformed"), ("nosrc", "manifest_malformed")]
    {
        let response = get(server.address, &format!("/{name}.ism/.m3u8")).await;
        assert_eq!((response.status.as_u16(), response.reason().as_str()), (422, reason), "{name}");
    }
    for (name, reason) in [("stale", "index_stale"), ("out", "location_refused")] {
        let response = get(server.address, &format!("/{name}.index.mp4/.mpd")).await;
        assert_eq!((response.status.as_u16(), response.reason().as_str()), (422, reason), "{name}");
    }
}

#[tokio::test]
async fn an_unusable_index_mp4_in_a_folder_is_left_out() {
    let memory = library();
    memory.put(key("harbour/z.index.mp4"), index_file(&sample("lighthouse.mp4"), "../lighthouse.mp4"));
    let server = Server::start(memory).await;
    assert_eq!(get(server.address, "/harbour/.mpd").await.status, 200);
}

#[tokio::test]
async fn changes_of_manifest_media_and_index_are_noticed() {
    let memory = library();
    let config = OriginConfig { recheck_after: Duration::ZERO, ..crate::server::config() };
    let media = sample("lighthouse.mp4");
    memory.put(key("i/x.index.mp4"), index_file(&media, "x.mp4"));
    memory.put(key("i/x.mp4"), media.clone());
    memory.put(key("t.ism"), smil(&element("audio", "i/x.index.mp4", 96_000, 2, "")));
    let server = Server::with(memory.clone(), config, None).await;
    let at = server.address;
    assert_eq!(get(at, "/t.ism/dash/t-audio_eng=96000.dash").await.status, 200);
    assert_eq!(get(at, "/t.ism/dash/t-audio_eng=96000-0.dash").await.status, 200);

    // A new server manifest.
    memory.put(key("t.ism"), smil(&element("audio", "i/x.index.mp4", 97_000, 2, "")));
    assert_eq!(get(at, "/t.ism/.mpd").await.status, 200);
    assert_eq!(get(at, "/t.ism/dash/t-audio_eng=96000.dash").await.status, 404);
    assert_eq!(get(at, "/t.ism/dash/t-audio_eng=97000-0.dash").await.status, 200);

    // New media under an outdated index MP4. A segment's read is pinned, so that it finds the
    // change too.
    memory.put(key("i/x.mp4"), sample("ferry.mp4"));
    let response = get(at, "/t.ism/dash/t-audio_eng=97000-0.dash").await;
    assert_eq!((response.status.as_u16(), response.reason().as_str()), (422, "index_stale"));

    // A new index MP4.
    memory.put(key("i/x.index.mp4"), index_file(&media, "y.mp4"));
    memory.put(key("i/y.mp4"), media);
    assert_eq!(get(at, "/t.ism/.mpd").await.status, 200);
    assert_eq!(get(at, "/t.ism/dash/t-audio_eng=97000-0.dash").await.status, 200);
}

#[tokio::test]
async fn media_in_an_allowed_folder_is_served() {
    let elsewhere = tempfile::tempdir().unwrap();
    let served = tempfile::tempdir().unwrap();
    let root = elsewhere.path().canonicalize().unwrap();
    let put = |folder: &Path, name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    let media = sample("lighthouse.mp4");
    put(&root, "lighthouse.mp4", &media);
    let location = format!("{}/lighthouse.mp4", root.display());
    put(served.path(), "x.mp4", &index_file(&media, &location));
    put(served.path(), "lighthouse.mp4", &media);
    let start = |allow: Vec<String>| {
        let sources = SourcesConfig { allow };
        let config = OriginConfig { sources, ..crate::server::config() };
        Server::with(Arc::new(Folder::new(served.path()).unwrap()), config, None)
    };
    let refused = start(Vec::new()).await;
    assert_eq!(get(refused.address, "/x.mp4/.mpd").await.reason(), "location_refused");
    let allowed = start(vec![root.to_str().unwrap().to_owned()]).await;
    let at = allowed.address;
    let segments =
        crawl(at, "/x.mp4").await.into_iter().filter(|u| u.ends_with(".dash") || u.ends_with(".ts"));
    let mut seen = 0;
    for url in segments {
        let twin = url.replace("x-", "lighthouse-").replace("/x.mp4", "/lighthouse.mp4");
        assert!(fetch(at, &url).await == fetch(at, &twin).await, "{url}");
        seen += 1;
    }
    assert!(seen > 5, "{seen}");
}
