//! Bytes are sent as they arrive, and reads end when their client leaves.

use crate::{
    client::{fetch, get, open},
    log,
    server::{Faults, Server, fragmented_segment, key, last_moof_end, library},
};
use futures_util::StreamExt;
use http::Method;
use http_body_util::BodyExt;
use latemux_cache::{Cache, Config};
use latemux_origin::{Origin, OriginConfig, Resources};
use latemux_storage::{
    Read, Storage, Want,
    altered::Altered,
    counting::Counting,
    fault::{Fault, Gate},
};
use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

/// A segment made of source slices, and one made by a transform.
const SEGMENTS: [&str; 2] = ["/harbour/dash/x-video=152000-51200.dash", "/harbour/x-video=152000-2.ts"];

#[tokio::test]
async fn the_start_of_a_segment_is_sent_before_its_end_is_read() {
    let calm = Server::start(library()).await;
    let cold_fragment = fragmented_segment(1).await;
    let moofs = last_moof_end(1);
    // For a segment of unknown fragments, the head is sent once the last of their `moof`s has
    // arrived.
    for (url, read, sent) in [
        (SEGMENTS[0], 20_000, 20_000),
        (SEGMENTS[1], 20_000, 18_000),
        (cold_fragment.as_str(), moofs + 1000, usize::try_from(moofs / 2).unwrap()),
    ] {
        let whole = fetch(calm.address, url).await;
        let faults = Faults::default();
        let server = Server::start(faults.over(library())).await;
        let base = url.split('/').nth(1).unwrap();
        fetch(server.address, &format!("/{base}/.mpd")).await;
        let gate = Gate::new();
        faults.set([Fault::WaitAfter(read, gate.clone())]);
        let response = open(server.address, Method::GET, url, &[]).await.unwrap();
        assert_eq!(response.headers()["content-length"], whole.len().to_string());
        let mut body = response.into_body();
        let mut got = Vec::new();
        // Bytes from storage are sent although the rest has not arrived.
        while got.len() < sent {
            got.extend_from_slice(&body.frame().await.unwrap().unwrap().into_data().unwrap());
        }
        assert!(got.len() < whole.len());
        gate.open();
        got.extend_from_slice(&body.collect().await.unwrap().to_bytes());
        assert_eq!(got, whole, "{url}");
    }
}

struct Live(Arc<AtomicUsize>);

impl Live {
    fn one(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, SeqCst);
        Self(count.clone())
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

/// Counts in `live` the reads in flight: those being opened, and those whose body is held.
pub(crate) fn watched(inner: Arc<dyn Storage>, live: &Arc<AtomicUsize>) -> Arc<dyn Storage> {
    let live = live.clone();
    let watch = move || {
        let live = Live::one(&live);
        // The body's closure owns the count and drops it with the body.
        move |read: Read| Read { body: read.body.inspect(move |_| _ = &live).boxed(), ..read }
    };
    Arc::new(Altered::new(inner, watch))
}

pub(crate) async fn until(mut reached: impl FnMut() -> bool) {
    while !reached() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_reads() {
    let live = Arc::new(AtomicUsize::new(0));
    let faults = Faults::default();
    let storage = watched(faults.over(library()), &live);
    let server = Server::start(storage).await;
    for base in ["harbour", "fragmented.mp4"] {
        fetch(server.address, &format!("/{base}/.mpd")).await;
    }
    until(|| live.load(SeqCst) == 0).await;
    let cold_fragment = fragmented_segment(1).await;
    let stalls = [20_000, 20_000, last_moof_end(1) + 1000];
    for (url, stall) in [SEGMENTS[0], SEGMENTS[1], &cold_fragment].into_iter().zip(stalls) {
        // The client leaves in the middle of the body.
        faults.set([Fault::StallAfter(stall)]);
        let mut body = open(server.address, Method::GET, url, &[]).await.unwrap().into_body();
        body.frame().await.unwrap().unwrap();
        assert_eq!(live.load(SeqCst), 1, "{url}");
        drop(body);
        until(|| live.load(SeqCst) == 0).await;
        // The client leaves before storage responds.
        faults.set([Fault::Silence]);
        let request = tokio::spawn({
            let address = server.address;
            let url = url.to_owned();
            async move { open(address, Method::GET, &url, &[]).await }
        });
        until(|| live.load(SeqCst) == 1).await;
        request.abort();
        drop(request);
        until(|| live.load(SeqCst) == 0).await;
    }
}

/// Remote storage takes a round trip to respond. Bytes made from the index are sent before.
#[tokio::test]
async fn the_start_of_a_segment_does_not_wait_for_remote_storage() {
    let memory = library();
    for url in SEGMENTS {
        let faults = Faults::default();
        let server = Server::start(faults.over(memory.clone())).await;
        let whole = fetch(server.address, url).await;
        let gate = Gate::new();
        faults.set([Fault::Wait(gate.clone())]);
        let response = open(server.address, Method::GET, url, &[]).await.unwrap();
        assert_eq!(response.headers()["content-length"], whole.len().to_string());
        let mut body = response.into_body();
        let mut got = body.frame().await.unwrap().unwrap().into_data().unwrap().to_vec();
        assert!(!got.is_empty() && got.len() < 2000, "{url}: {}", got.len());
        gate.open();
        got.extend_from_slice(&body.collect().await.unwrap().to_bytes());
        assert_eq!(got, whole, "{url}");
    }
}

#[tokio::test]
async fn a_late_refusal_makes_the_next_request_index_again() {
    let memory = library();
    let faults = Faults::default();
    let server = Server::start(faults.over(memory.clone())).await;
    let url = "/lighthouse.mp4/dash/x-video=102000-0.dash";
    let url = url.replace("video=102000", &first_video(server.address).await);
    fetch(server.address, &url).await;
    let gate = Gate::new();
    faults.set([Fault::Wait(gate.clone())]);
    let response = open(server.address, Method::GET, &url, &[]).await.unwrap();
    assert_eq!(response.status(), 200);
    memory.remove(&key("lighthouse.mp4"));
    gate.open();
    response.into_body().collect().await.expect_err("the response must be aborted");
    let next = get(server.address, &url).await;
    assert_eq!((next.status.as_u16(), next.reason().as_str()), (404, "source_not_found"));
}

/// Returns the name of a video track of the lighthouse.
async fn first_video(address: std::net::SocketAddr) -> String {
    let urls = crate::server::crawl(address, "/lighthouse.mp4").await;
    let name =
        urls.iter().find_map(|url| Some(&url[url.find("-video")? + 1..]).filter(|_| url.contains("/dash/")));
    let name = name.unwrap();
    name[..name.find(['-', '.']).unwrap()].to_owned()
}

/// Otherwise a scan that takes longer than players wait would start again with each retry and never
/// end.
#[tokio::test]
async fn indexing_goes_on_when_its_client_leaves() {
    let counting = Arc::new(Counting::new(library(), Duration::ZERO));
    let faults = Faults::default();
    let server = Server::start(faults.over(counting.clone())).await;
    let gate = Gate::new();
    faults.set([Fault::Wait(gate.clone())]);
    let request = tokio::spawn({
        let address = server.address;
        async move { open(address, Method::GET, "/lighthouse.mp4/.mpd", &[]).await }
    });
    gate.reached(1).await;
    request.abort();
    let _ = request.await;
    // A second request waits for the same index.
    let other = tokio::spawn({
        let address = server.address;
        async move { fetch(address, "/lighthouse.mp4/.mpd").await }
    });
    gate.open();
    other.await.unwrap();
    let heads = counting.take().into_iter().filter(|r| matches!(r.want, Some(Want::Head(_))));
    assert!(heads.map(|r| r.want).filter(|w| *w != Some(Want::Head(1))).count() <= 1);
}

/// Requests to storage are counted when they are made. The head of the response states their number
/// although no byte has arrived.
#[tokio::test]
async fn a_head_sent_early_counts_the_requests_to_storage() {
    let faults = Faults::default();
    let counting = Arc::new(Counting::new(faults.over(library()), Duration::ZERO));
    let cache = Cache::open(Config { memory: 64 << 20, ..Config::default() }).unwrap();
    let config = OriginConfig { debug_headers: true, ..crate::server::config() };
    let resources = Resources { cache: Some(cache), ..Resources::default() };
    let server = Server::of(Origin::with_resources(counting.clone(), resources, config), None).await;
    fetch(server.address, "/harbour/.mpd").await;
    drop(counting.take());
    // A segment of one object, and one of two.
    for (url, reads) in [(SEGMENTS[0], 1), ("/harbour/x-audio_eng=48000-video=152000-3.ts", 2)] {
        let gate = Gate::new();
        faults.set([Fault::Wait(gate.clone()), Fault::Wait(gate.clone())]);
        let response = open(server.address, Method::GET, url, &[]).await.unwrap();
        let said = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
        assert_eq!(
            (said("latemux-cache"), said("latemux-storage-requests")),
            ("filled".to_owned(), reads.to_string())
        );
        // A second request joins the fetch and makes none of its own.
        let joined = open(server.address, Method::GET, url, &[]).await.unwrap();
        assert_eq!(
            (&joined.headers()["latemux-cache"], &joined.headers()["latemux-storage-requests"]),
            (&"joined".parse().unwrap(), &"0".parse().unwrap())
        );
        gate.open();
        faults.set([]);
        let whole = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(joined.into_body().collect().await.unwrap().to_bytes(), whole);
        assert_eq!(counting.take().len(), reads);
        let warm = get(server.address, url).await;
        assert_eq!(
            (warm.header("latemux-cache"), warm.header("latemux-storage-requests")),
            ("hit_memory", "0")
        );
        assert_eq!(warm.body, whole);
    }
}

#[tokio::test]
async fn a_fetch_is_logged_with_the_request_that_started_it() {
    log::keep();
    let counting = Arc::new(Counting::new(library(), Duration::ZERO));
    let cache = Cache::open(Config { memory: 64 << 20, ..Config::default() }).unwrap();
    let resources = Resources { cache: Some(cache), ..Resources::default() };
    let server =
        Server::of(Origin::with_resources(counting.clone(), resources, crate::server::config()), None).await;
    fetch(server.address, "/harbour/.mpd").await;
    drop(counting.take());
    let url = "/harbour/dash/fetched-video=152000-51200.dash";
    fetch(server.address, url).await;
    let line = log::access(url).await;
    let bytes: u64 = counting.take().iter().map(|request| request.bytes).sum();
    assert!(line.contains(&format!("cache=\"filled\" storage_requests=1 storage_bytes={bytes}")), "{line}");
}
