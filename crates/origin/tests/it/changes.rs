//! Objects that change while they are served: no response mixes bytes of two versions.

use crate::{
    client::{fetch, get, send},
    server::{Faults, Server, key, library, sample},
};
use http::Method;
use latemux_origin::OriginConfig;
use latemux_storage::{Memory, StorageError, counting::Counting, fault::Fault};
use latemux_testmedia::rewrite::{Variant, progressive};
use std::{sync::Arc, time::Duration};

const FILE: &str = "harbour/video-360p.mp4";
const SEGMENT: &str = "/harbour/dash/x-video=152000-51200.dash";

/// Returns the same media with every sample at another offset.
fn moved() -> Vec<u8> {
    progressive(&sample(FILE), Variant { moov_last: true, wide_mdat: true, ..Variant::default() })
}

#[tokio::test]
async fn a_changed_object_is_indexed_again_before_the_response_starts() {
    for url in [SEGMENT, "/harbour/x-audio_eng=48000-video=152000-3.ts"] {
        let memory = library();
        let counting = Arc::new(Counting::new(memory.clone(), Duration::ZERO));
        // Long enough for storage to respond first, however busy the machine is.
        let mut config = crate::server::config();
        config.read.first_byte_wait = Duration::from_secs(10);
        let server = Server::with(counting.clone(), config, None).await;
        let before = get(server.address, url).await;
        memory.put(key(FILE), moved());
        let fresh = get(Server::start(memory).await.address, url).await;
        drop(counting.take());
        let after = get(server.address, url).await;
        assert_eq!((after.status, after.lasting_headers()), (fresh.status, fresh.lasting_headers()), "{url}");
        // The media is the same, so the bytes must be. At the old offsets, other bytes would be
        // read.
        assert_eq!((&after.body, &after.body), (&fresh.body, &before.body), "{url}");
        assert_ne!(after.header("etag"), before.header("etag"));
        assert!(counting.take().len() > 1);
        // Later requests take no more reads than before.
        get(server.address, url).await;
        assert!(counting.take().len() <= 2, "more than one read per object");
    }
}

#[tokio::test]
async fn a_change_in_the_middle_of_a_response_aborts_it() {
    crate::log::keep();
    let faults = Faults::default();
    let server = Server::start(faults.over(library())).await;
    let url = "/harbour/dash/x-video=152000-102400.dash";
    let whole = fetch(server.address, url).await;
    faults.set([Fault::BreakAfter(10_000, StorageError::Changed(FILE.to_owned()))]);
    send(server.address, Method::GET, url, &[]).await.expect_err("the response must be aborted");
    assert!(crate::log::access(url).await.contains("status=200 reason=\"source_changed\""));
    assert_eq!(fetch(server.address, url).await, whole);
}

#[tokio::test]
async fn an_object_that_keeps_changing_is_refused_as_changed() {
    let faults = Faults::default();
    let server = Server::start(faults.over(library())).await;
    fetch(server.address, "/lighthouse.mp4/.mpd").await;
    let changed = || Fault::Error(StorageError::Changed("lighthouse.mp4".to_owned()));
    let url = {
        let urls = crate::server::crawl(server.address, "/lighthouse.mp4").await;
        urls.into_iter().find(|u| u.ends_with("-1.ts")).unwrap()
    };
    // Faults of the segment's read, of the comparison, of the new index's two reads (head and
    // tail), and of the segment's second read.
    faults.set([changed(), changed(), Fault::None, Fault::None, changed()]);
    let response = get(server.address, &url).await;
    assert_eq!((response.status.as_u16(), response.reason().as_str()), (503, "source_changed"));
    assert_eq!(response.header("retry-after"), "1");
    assert_eq!(get(server.address, &url).await.status, 200);
}

fn always_compared() -> OriginConfig {
    OriginConfig { recheck_after: Duration::ZERO, ..crate::server::config() }
}

#[tokio::test]
async fn manifests_follow_files_that_come_and_go() {
    let memory = library();
    let server = Server::with(memory.clone(), always_compared(), None).await;
    let first = get(server.address, "/harbour/.mpd").await;
    memory.remove(&key("harbour/audio-fra.mp4"));
    let without = get(server.address, "/harbour/.mpd").await;
    assert!(first.body.len() > without.body.len());
    assert_ne!(first.header("etag"), without.header("etag"));
    memory.put(key("harbour/audio-fra.mp4"), sample("harbour/audio-fra.mp4"));
    let again = get(server.address, "/harbour/.mpd").await;
    assert_eq!((again.lasting_headers(), again.body), (first.lasting_headers(), first.body));
    memory.put(key(FILE), moved());
    let moved = get(server.address, "/harbour/.mpd").await;
    assert_ne!(moved.header("etag"), again.headers["etag"].to_str().unwrap());
    let list = "/harbour/video-,360p,180p,.mp4.urlset/.mpd";
    assert_eq!(get(server.address, list).await.status, 200);
    memory.remove(&key(FILE));
    let gone = get(server.address, list).await;
    assert_eq!((gone.status.as_u16(), gone.reason().as_str()), (404, "source_not_found"));
}

#[tokio::test]
async fn a_recently_compared_title_needs_no_storage_for_manifests() {
    let counting = Arc::new(Counting::new(library(), Duration::ZERO));
    let server = Server::start(counting.clone()).await;
    fetch(server.address, "/harbour/.mpd").await;
    drop(counting.take());
    for url in ["/harbour/.mpd", "/harbour/.m3u8", "/harbour/x-video=81000.m3u8"] {
        fetch(server.address, url).await;
    }
    assert_eq!(counting.take(), []);
}

/// Without a pinned version, bytes of the new object would be served with the index of the old one.
#[tokio::test]
async fn every_read_of_media_is_pinned_to_a_version() {
    let memory = Arc::new(Memory::new());
    memory.put(key("a.mp4"), sample("lighthouse.mp4"));
    let server = Server::start(memory.clone()).await;
    fetch(server.address, "/a.mp4/.mpd").await;
    memory.put(key("a.mp4"), sample("buoy.mp4"));
    let urls = crate::server::crawl(Server::start(library()).await.address, "/lighthouse.mp4").await;
    let url = urls.into_iter().find(|u| u.ends_with("-2.ts")).unwrap().replace("lighthouse.mp4/", "a.mp4/");
    let response = get(server.address, &url).await;
    assert_eq!((response.status.as_u16(), response.reason().as_str()), (404, "no_such_track"));
}
