//! Prefetched segments: the next segment needs no request to storage, and prefetching ends.

use crate::{
    caching::{TITLES, segments},
    client::{fetch, get, open},
    server::{Faults, Server, crawl_from, library},
};
use bytes::Bytes;
use http::Method;
use http_body_util::BodyExt;
use latemux_cache::{Cache, Config};
use latemux_origin::{Origin, OriginConfig, Resources};
use latemux_storage::{
    Options, Storage, StorageError, Want,
    counting::Counting,
    fault::{Fault, Gate},
};
use std::{collections::BTreeMap, sync::Arc, time::Duration};

const FILE: &str = "harbour/video-360p.mp4";

struct Prefetching {
    segments: u32,
    open: usize,
    in_flight: usize,
    cached: bool,
}

const ONE: Prefetching = Prefetching { segments: 1, open: 16, in_flight: 512, cached: true };

async fn node(storage: Arc<dyn Storage>, prefetching: Prefetching) -> Server {
    let mut config = OriginConfig { debug_headers: true, ..crate::server::config() };
    config.read.prefetch = prefetching.segments;
    config.read.prefetch_open = prefetching.open;
    let cache =
        prefetching.cached.then(|| Cache::open(Config { memory: 64 << 20, ..Config::default() }).unwrap());
    let source_options = Options { max_in_flight: prefetching.in_flight, ..Options::default() };
    Server::of(
        Origin::with_resources(storage, Resources { cache, source_options, ..Resources::default() }, config),
        None,
    )
    .await
}

async fn outcomes(server: &Server) -> BTreeMap<String, u64> {
    let text = String::from_utf8(fetch(server.admin, "/metrics").await.to_vec()).unwrap();
    let lines = text.lines().filter_map(|line| line.strip_prefix("latemux_prefetches_total{outcome=\""));
    lines
        .map(|line| line.split_once("\"} ").unwrap())
        .map(|(word, count)| (word.to_owned(), count.parse().unwrap()))
        .filter(|(_, count)| *count > 0)
        .collect()
}

async fn until(server: &Server, word: &str, count: u64) {
    while outcomes(server).await.get(word).copied().unwrap_or(0) < count {
        tokio::task::yield_now().await;
    }
}

/// Returns the segments of each representation, in order.
fn in_order(urls: &[String]) -> Vec<Vec<String>> {
    let mut lists: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
    for url in urls {
        let path = url.split('?').next().unwrap();
        let stem =
            [".dash", ".m4s", ".ts", ")"].iter().find_map(|end| path.strip_suffix(end)).unwrap_or(path);
        let name = stem.trim_end_matches(|c: char| c.is_ascii_digit());
        let number = stem[name.len()..].parse().unwrap();
        lists.entry(name.to_owned()).or_default().push((number, url.clone()));
    }
    lists.values_mut().for_each(|list| list.sort());
    lists.into_values().map(|list| list.into_iter().map(|(_, url)| url).collect()).collect()
}

fn media(counting: &Counting) -> usize {
    counting.take().iter().filter(|r| matches!(r.want, Some(Want::Range(_)))).count()
}

#[tokio::test]
async fn the_next_segment_is_in_the_cache_already() {
    let calm = Server::start(library()).await;
    let mut checked = 0;
    for title in TITLES {
        for (protocol, urls) in segments(calm.address, title).await {
            for list in in_order(&urls).iter().filter(|list| list.len() > 1) {
                let server = node(library(), ONE).await;
                let last = list.len() - 1;
                for (number, url) in (0..).zip(list) {
                    let response = get(server.address, url).await;
                    assert_eq!(response.body, fetch(calm.address, url).await, "{url}");
                    if number > 0 {
                        let found =
                            (response.header("latemux-cache"), response.header("latemux-storage-requests"));
                        assert_eq!(found, ("hit_memory", "0"), "{protocol} {url}");
                        checked += 1;
                    }
                    let so_far = u64::try_from((number + 1).min(last)).unwrap();
                    until(&server, "read", so_far).await;
                }
                // No segment follows the last one.
                assert_eq!(outcomes(&server).await, BTreeMap::from([("read".to_owned(), last as u64)]));
            }
        }
    }
    assert!(checked > 100, "{checked}");
}

/// Joined segments skip numbers, and clips begin and end with other segments.
#[tokio::test]
async fn prefetching_follows_the_segments_of_the_selection() {
    let calm = Server::start(library()).await;
    let mut checked = 0;
    for query in
        ["hls_minimum_fragment_length=5", "hls_fmp4&hls_minimum_fragment_length=5", "vbegin=3&vend=11"]
    {
        let urls = crawl_from(calm.address, &[format!("/lighthouse.mp4/.m3u8?{query}")]).await;
        let media = |url: &String| {
            let stem = url.split('?').next().unwrap().rsplit_once(['.']).unwrap().0;
            let number = stem.rsplit_once('-').is_some_and(|(_, n)| n.bytes().all(|c| c.is_ascii_digit()));
            number && !url.contains("/keyframes/") && !url.contains(".m3u8")
        };
        let urls: Vec<String> = urls.into_iter().filter(media).collect();
        for list in in_order(&urls).iter().filter(|list| list.len() > 1) {
            let server = node(library(), ONE).await;
            for (number, url) in (0..).zip(list) {
                let response = get(server.address, url).await;
                assert_eq!(response.body, fetch(calm.address, url).await, "{url}");
                if number > 0 {
                    assert_eq!(response.header("latemux-cache"), "hit_memory", "{url} of {list:?}");
                    checked += 1;
                }
                until(&server, "read", u64::try_from((number + 1).min(list.len() - 1)).unwrap()).await;
            }
        }
    }
    assert!(checked > 5, "{checked}");
}

/// Returns the video segments of a title, in order.
async fn video() -> Vec<String> {
    let calm = Server::start(library()).await;
    let urls = segments(calm.address, "harbour").await;
    let lists = in_order(&urls["DASH"]);
    lists.into_iter().find(|list| list[0].contains("-video=152000-")).unwrap()
}

#[tokio::test]
async fn no_more_segments_are_prefetched_than_configured() {
    let list = video().await;
    assert!(list.len() > 5);
    let counting = Arc::new(Counting::new(library(), Duration::ZERO));
    let server = node(counting.clone(), Prefetching { segments: 3, ..ONE }).await;
    fetch(server.address, "/harbour/.mpd").await;
    drop(counting.take());
    fetch(server.address, &list[0]).await;
    until(&server, "read", 3).await;
    assert_eq!(media(&counting), 4);
    for url in &list[1..4] {
        assert_eq!(get(server.address, url).await.header("latemux-cache"), "hit_memory", "{url}");
    }
    // The runs that these requests started are over. No cached segment was read again.
    until(&server, "read", 3 + list[2..].len().min(3) as u64).await;
    let most = list.len() - 4;
    assert!(media(&counting) <= most);
}

#[tokio::test]
async fn nothing_is_prefetched_unless_configured() {
    let list = video().await;
    assert_eq!(crate::server::config().read.prefetch, 0);
    for prefetching in [
        Prefetching { segments: 0, ..ONE },
        Prefetching { cached: false, ..ONE },
        Prefetching { open: 0, ..ONE },
        // Storage that takes fewer than eight requests at one time has none to spare.
        Prefetching { in_flight: 7, ..ONE },
    ] {
        let counting = Arc::new(Counting::new(library(), Duration::ZERO));
        let server = node(counting.clone(), prefetching).await;
        fetch(server.address, "/harbour/.mpd").await;
        drop(counting.take());
        for url in &list[..2] {
            fetch(server.address, url).await;
            assert_eq!(media(&counting), 1, "{url}");
        }
        assert!(outcomes(&server).await.is_empty());
    }
    // A range request and a HEAD request start no prefetch.
    let counting = Arc::new(Counting::new(library(), Duration::ZERO));
    let server = node(counting.clone(), ONE).await;
    fetch(server.address, "/harbour/.mpd").await;
    drop(counting.take());
    crate::client::get_with(server.address, &list[0], &[("range", "bytes=0-9")]).await;
    crate::client::send(server.address, Method::HEAD, &list[0], &[]).await.unwrap();
    assert!(outcomes(&server).await.is_empty() && media(&counting) <= 1);
}

/// Returns a server that has loaded the title, and whose next reads of media have these faults.
async fn server_with_faults(faults: impl IntoIterator<Item = Fault>, prefetching: Prefetching) -> Server {
    let all = Faults::default();
    let server = node(all.over(library()), prefetching).await;
    fetch(server.address, "/harbour/.mpd").await;
    all.set(faults);
    server
}

#[tokio::test]
async fn prefetches_at_one_time_are_limited() {
    let list = video().await;
    let gate = Gate::new();
    let server =
        server_with_faults([Fault::None, Fault::Wait(gate.clone())], Prefetching { open: 1, ..ONE }).await;
    fetch(server.address, &list[0]).await;
    gate.reached(1).await;
    // While that prefetch waits, segments of another track are served without one of their own.
    for url in ["/harbour/dash/x-video=81000-51200.dash", "/harbour/dash/x-video=81000-102400.dash"] {
        assert_eq!(get(server.address, url).await.status, 200);
    }
    assert_eq!(outcomes(&server).await, BTreeMap::from([("no_room".to_owned(), 2)]));
    gate.open();
    until(&server, "read", 1).await;
    fetch(server.address, &list[1]).await;
    until(&server, "read", 2).await;
}

#[tokio::test]
async fn a_client_that_leaves_ends_its_prefetch() {
    let list = video().await;
    let gate = Gate::new();
    let body = Gate::new();
    let faults = [Fault::WaitAfter(1000, body.clone()), Fault::Wait(gate.clone())];
    let server = server_with_faults(faults, Prefetching { segments: 5, ..ONE }).await;
    let mut response = open(server.address, Method::GET, &list[0], &[]).await.unwrap();
    let first = response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert_ne!(first, Bytes::new());
    gate.reached(1).await;
    drop(response);
    until(&server, "abandoned", 1).await;
    gate.open();
    body.open();
    // The next client is served as usual, and its prefetch goes on.
    fetch(server.address, &list[0]).await;
    until(&server, "read", 1).await;
}

#[tokio::test]
async fn a_failed_prefetch_affects_no_response() {
    let list = video().await;
    let detail = "injected".to_owned();
    let refused = StorageError::Unavailable { key: FILE.to_owned(), detail };
    let server = server_with_faults([Fault::None, Fault::Error(refused)], ONE).await;
    let calm = Server::start(library()).await;
    fetch(server.address, &list[0]).await;
    until(&server, "failed", 1).await;
    for url in &list[1..] {
        assert_eq!(fetch(server.address, url).await, fetch(calm.address, url).await, "{url}");
    }
}
