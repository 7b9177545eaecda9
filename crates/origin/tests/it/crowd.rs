//! Many more clients than requests that storage allows.

use crate::{
    client::{fetch, get},
    rig::Tiers,
    server::{Server, crawl, fragmented, index_file, key, library, sample},
};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use latemux_cache::Cache;
use latemux_origin::{Origin, Resources};
use latemux_storage::{
    ListRequest, Listing, Options, Read, ReadRequest, Storage, StorageClient, StorageError,
};
use std::{
    collections::HashMap,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

/// A storage whose bodies arrive in small pieces with pauses, as over a network, so that reads
/// overlap.
#[derive(Debug)]
pub(crate) struct PiecewiseStorage(pub(crate) Arc<dyn Storage>);

impl Storage for PiecewiseStorage {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        async move {
            tokio::task::yield_now().await;
            let mut read = self.0.read(request).await?;
            let pieces = |frame: Result<Bytes, StorageError>| {
                let frame = frame.unwrap();
                let starts = (0..frame.len()).step_by(10_000);
                stream::iter(starts.map(move |at| frame.slice(at..frame.len().min(at + 10_000)))).then(
                    |piece| async {
                        tokio::task::yield_now().await;
                        Ok(piece)
                    },
                )
            };
            read.body = read.body.flat_map(pieces).boxed();
            Ok(read)
        }
        .boxed()
    }

    fn list<'a>(&'a self, request: ListRequest<'a>) -> BoxFuture<'a, Result<Listing, StorageError>> {
        self.0.list(request)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

/// A response made of several reads must not hold the permit of one while it waits for another.
#[tokio::test]
async fn one_connection_to_storage_suffices_for_every_response() {
    let memory = library();
    memory.put(key("index.index.mp4"), index_file(&sample("lighthouse.mp4"), "lighthouse.mp4"));
    let options =
        Options { max_in_flight: 1, queue_timeout: Duration::from_secs(1000), ..Options::default() };
    let client = StorageClient::new(Arc::new(PiecewiseStorage(memory)), &options);
    for base in ["/harbour", "/lighthouse.mp4", "/ferry.mp4", "/fragmented.mp4", "/index.index.mp4"] {
        // A new origin for each URL, so that no fragment is known.
        let server = Server::start(Arc::new(client.clone())).await;
        for url in crawl(server.address, base).await {
            let server = Server::start(Arc::new(client.clone())).await;
            let response = tokio::time::timeout(Duration::from_secs(60), fetch(server.address, &url)).await;
            response.unwrap_or_else(|_| panic!("{url}: the response waits for itself"));
        }
    }
}

/// Sends 2,000 requests at once for titles that are not indexed yet, over 8 connections to storage:
/// progressive and fragmented, muxed and separate, in all protocols. Each one gets a response with
/// the right bytes, so none waits for another for ever.
async fn two_thousand_cold_requests(cache: Option<Cache>) {
    let memory = library();
    memory.put(key("copy.mp4"), fragmented());
    let mut right = HashMap::new();
    {
        let server = Server::start(memory.clone()).await;
        for base in ["/harbour", "/lighthouse.mp4", "/ferry.mp4", "/fragmented.mp4", "/copy.mp4"] {
            for url in crawl(server.address, base).await {
                right.insert(url.clone(), fetch(server.address, &url).await);
            }
        }
    }
    // Manifests need processor time and are cached. They are requested so that some requests index
    // their title.
    let manifest = |url: &&String| url.contains(".m3u8") || url.contains(".mpd");
    let mut urls: Vec<_> = right.keys().filter(|url| !manifest(url)).collect();
    urls.sort();
    let options =
        Options { max_in_flight: 8, queue_timeout: Duration::from_secs(1000), ..Options::default() };
    let client = StorageClient::new(Arc::new(PiecewiseStorage(memory)), &options);
    let counters = client.counters().clone();
    let mut config = crate::server::config();
    config.read.open = 8;
    let resources = Resources { cache: cache.clone(), ..Resources::default() };
    let server = Server::of(Origin::with_resources(Arc::new(client), resources, config), None).await;
    let responded = AtomicUsize::new(0);
    let all = urls.into_iter().cycle().take(2000).map(|url| {
        let address = server.address;
        let right = &right;
        let responded = &responded;
        async move {
            let response = get(address, url).await;
            assert!(response.status == 200 && response.body == right[url], "{url}: {}", response.status);
            responded.fetch_add(1, Relaxed);
        }
    });
    let mut all = pin!(futures_util::future::join_all(all));
    let mut before = 0;
    // Even on a slow machine, at least one response ends within a minute unless there is a
    // deadlock.
    while tokio::time::timeout(Duration::from_secs(60), &mut all).await.is_err() {
        let now = responded.load(Relaxed);
        assert!(now > before, "no response ended in a minute after {now}: {:?}", counters.figures());
        before = now;
    }
    let figures = counters.figures();
    assert_eq!((figures.busy, figures.in_flight, figures.queued), (0, 0, 0), "{figures:?}");
    assert!(figures.waited > 0, "{figures:?}");
    let Some(cache) = cache else { return };
    while cache.figures().fetches > 0 {
        tokio::task::yield_now().await;
    }
    cache.flush().await;
    let figures = cache.figures();
    assert_eq!((figures.reserved_bytes, figures.room_bytes), (0, 0), "{figures:?}");
    assert!(
        figures.memory_bytes <= cache.limits().memory + figures.disk_units * 128 + 64 * 1024,
        "{figures:?}"
    );
}

#[tokio::test]
async fn two_thousand_cold_requests_over_eight_connections() {
    two_thousand_cold_requests(None).await;
}

#[tokio::test]
async fn two_thousand_cold_requests_through_a_cache() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(Tiers::Memory.config(dir.path())).unwrap();
    two_thousand_cold_requests(Some(cache)).await;
}

/// Most units are evicted before every request that waits for them has read them.
#[tokio::test]
async fn two_thousand_cold_requests_through_a_tiny_cache_and_a_disk() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(Tiers::Disk.config(dir.path())).unwrap();
    two_thousand_cold_requests(Some(cache)).await;
}
