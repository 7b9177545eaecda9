//! Long reads of storage 40 ms away, which are split among several requests, below a range cache.

use crate::{
    caching::segments,
    client::fetch,
    crowd::PiecewiseStorage,
    server::{Server, config, library},
};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future::BoxFuture};
use http::Request;
use http_body_util::BodyExt;
use latemux_cache::{Cache, Config};
use latemux_origin::{Origin, Resources};
use latemux_storage::{
    ListRequest, Listing, Options, Read, ReadRequest, Storage, StorageClient, StorageError, StreamCount,
    Want, counting::Counting,
};
use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::sleep;

const ROUND_TRIP: Duration = Duration::from_millis(40);
const TITLE: &str = "lighthouse.mp4";

/// A storage behind a long path.
#[derive(Debug)]
struct Far {
    inner: PiecewiseStorage,
    /// Number of requests that wait for their responses, and the largest number so far.
    waiting: AtomicUsize,
    most: AtomicUsize,
}

impl Storage for Far {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        async move {
            self.most.fetch_max(self.waiting.fetch_add(1, Relaxed) + 1, Relaxed);
            sleep(ROUND_TRIP).await;
            self.waiting.fetch_sub(1, Relaxed);
            let mut read = self.inner.read(request).await?;
            let paced = |piece| async move {
                sleep(Duration::from_millis(1)).await;
                piece
            };
            read.body = read.body.then(paced).boxed();
            Ok(read)
        }
        .boxed()
    }

    fn list<'a>(&'a self, request: ListRequest<'a>) -> BoxFuture<'a, Result<Listing, StorageError>> {
        self.inner.list(request)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// An origin with a range cache over far storage.
struct World {
    far: Arc<Far>,
    counting: Arc<Counting>,
    cache: Cache,
    origin: Origin,
}

impl World {
    /// Opens the title, without any of its media.
    async fn new(streams: usize) -> Self {
        let inner = PiecewiseStorage(library());
        let far = Arc::new(Far { inner, waiting: AtomicUsize::new(0), most: AtomicUsize::new(0) });
        let counting = Arc::new(Counting::new(far.clone(), Duration::ZERO));
        let streams = StreamCount::AtMost(streams);
        let options = Options { streams, chunk: 1 << 10, ..Options::default() };
        let client = Arc::new(StorageClient::new(counting.clone(), &options));
        let cache = Cache::open(Config { memory: 64 << 20, ..Config::default() }).unwrap();
        let resources = Resources { cache: Some(cache.clone()), ..Resources::default() };
        let origin = Origin::with_resources(client, resources, config());
        let world = Self { far, counting, cache, origin };
        world.get(&format!("/{TITLE}/.mpd")).await;
        world.far.most.store(0, Relaxed);
        world
    }

    /// Requests a URL. Returns the body, and the media ranges that were read for it, in order.
    async fn get(&self, url: &str) -> (Bytes, Vec<Range<u64>>) {
        let response = self.origin.respond(Request::get(url).body(()).unwrap()).await;
        assert_eq!(response.status(), 200, "{url}");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        self.cache.flush().await;
        let range = |request: latemux_storage::counting::Request| match request.want {
            Some(Want::Range(range)) => Some(range),
            _ => None,
        };
        let mut ranges: Vec<_> = self.counting.take().into_iter().filter_map(range).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        (body, ranges)
    }
}

/// Joins ranges that follow each other.
fn joined(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match joined.last_mut() {
            Some(last) if last.end == range.start => last.end = range.end,
            _ => joined.push(range.clone()),
        }
    }
    joined
}

#[tokio::test]
async fn a_cold_segment_is_read_by_several_requests_and_cached_in_the_same_units() {
    let calm = Server::start(library()).await;
    let urls = segments(calm.address, TITLE).await;
    let mut expected = Vec::new();
    for url in &urls["DASH"] {
        expected.push(fetch(calm.address, url).await);
    }
    tokio::time::pause();
    let (one, four) = (World::new(1).await, World::new(4).await);
    let mut most_requests = 0;
    for (url, expected) in urls["DASH"].iter().zip(&expected) {
        let (plain, plain_ranges) = one.get(url).await;
        let (split, split_ranges) = four.get(url).await;
        assert!(plain == *expected && split == *expected, "{url}: other bytes");
        assert_eq!(joined(&split_ranges), joined(&plain_ranges), "{url}: other ranges");
        let (plain, split) = (one.cache.figures(), four.cache.figures());
        assert_eq!(
            (split.cached_bytes, split.cached_units),
            (plain.cached_bytes, plain.cached_units),
            "{url}"
        );
        assert!(plain_ranges.len() <= 1, "{url}: {plain_ranges:?}");
        most_requests = most_requests.max(split_ranges.len());
    }
    assert_eq!((one.far.most.load(Relaxed), four.far.most.load(Relaxed)), (1, 4), "requests at one time");
    assert_eq!(most_requests, 4);
    assert!(four.cache.figures().cached_units > 0);
    // Other protocols find the same bytes.
    for url in urls["HLS CMAF"].iter().chain(&urls["HLS TS"]).chain(&urls["DASH"]) {
        assert_eq!(four.get(url).await.1, [], "{url}");
    }
}
