//! Indexes on disk: after a restart, no index is read from media, and each one is compared with
//! storage before it is used.

use crate::{
    client::{FullResponse, fetch, get, send},
    server::{HARBOUR, Server, crawl, index_file, key, library, sample},
};
use bytes::Bytes;
use http::Method;
use latemux_cache::{Cache, DiskConfig, Records};
use latemux_origin::{Origin, Resources};
use latemux_storage::{Memory, Storage, Want, counting::Counting, counting::Request};
use latemux_testmedia::rewrite::{Variant, progressive};
use std::{collections::BTreeMap, fs, net::SocketAddr, path::Path, sync::Arc, time::Duration};
use tempfile::TempDir;

/// A muxed file with `moov` last, a folder of separate files, a file with `sidx`, a scanned file,
/// and an index MP4 with its media.
const TITLES: [&str; 5] =
    ["lighthouse.mp4", "harbour", "fragmented.mp4", "ferry.mp4", "lighthouse.index.mp4"];
const BUDGET: u64 = 1 << 20;

fn titles() -> Arc<Memory> {
    let memory = library();
    memory.put(key("lighthouse.index.mp4"), index_file(&sample("lighthouse.mp4"), "lighthouse.mp4"));
    memory
}

/// An origin with a range cache and an index store in a folder.
struct Node {
    server: Server,
    cache: Cache,
    indexes: Records,
}

impl Node {
    async fn start(storage: Arc<dyn Storage>, dir: &Path, budget: u64) -> Self {
        let config = latemux_cache::Config {
            memory: 64 << 20,
            dir: Some(dir.to_owned()),
            disk: 64 << 20,
            ..latemux_cache::Config::default()
        };
        let cache = Cache::open(config).unwrap();
        let indexes = Records::open(DiskConfig::new(dir.join("indexes"), budget)).unwrap();
        cache.recovered().await;
        indexes.recovered().await;
        let resources =
            Resources { cache: Some(cache.clone()), indexes: Some(indexes.clone()), ..Resources::default() };
        let origin = Origin::with_resources(storage, resources, crate::server::config());
        Self { server: Server::of(origin, None).await, cache, indexes }
    }

    async fn stop(self) {
        self.server.stopped().await;
        self.indexes.close().await;
        self.cache.close().await;
    }

    fn address(&self) -> SocketAddr {
        self.server.address
    }

    async fn metric(&self, name: &str) -> u64 {
        let text = String::from_utf8(fetch(self.server.admin, "/metrics").await.to_vec()).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().parse().unwrap()
    }
}

async fn all(server: SocketAddr, title: &str) -> BTreeMap<String, FullResponse> {
    let mut responses = BTreeMap::new();
    for url in crawl(server, &format!("/{title}")).await {
        let response = get(server, &url).await;
        assert_eq!(response.status, 200, "{url}");
        responses.insert(url, response);
    }
    assert!(responses.len() > 10, "{title}");
    responses
}

fn same(title: &str, one: &BTreeMap<String, FullResponse>, other: &BTreeMap<String, FullResponse>) {
    assert!(one.keys().eq(other.keys()), "{title}");
    for (url, response) in one {
        let found = &other[url];
        assert_eq!(
            (response.lasting_headers(), &response.body),
            (found.lasting_headers(), &found.body),
            "{url}"
        );
    }
}

/// Returns true for a request that does more than compare an object's version.
fn reads(request: &&Request) -> bool {
    !matches!(request.want, None | Some(Want::Head(1)))
}

#[tokio::test]
async fn after_a_restart_no_index_is_read_from_media() {
    let dir = TempDir::new().unwrap();
    let node = Node::start(titles(), dir.path(), BUDGET).await;
    let mut before = BTreeMap::new();
    for title in TITLES {
        before.insert(title, all(node.address(), title).await);
    }
    assert_eq!(node.metric("latemux_cache_hits_total{cache=\"objects\",tier=\"disk\"}").await, 0);
    node.stop().await;

    let counting = Arc::new(Counting::new(titles(), Duration::ZERO));
    let node = Node::start(counting.clone(), dir.path(), BUDGET).await;
    for title in TITLES {
        // The bytes of segments come from disk as well.
        same(title, &before[title], &all(node.address(), title).await);
        let requests = counting.take();
        assert_eq!(requests.iter().filter(reads).count(), 0, "{title}: {requests:#?}");
        let looks = match title {
            "harbour" => HARBOUR.len(),
            "lighthouse.index.mp4" => 2,
            _ => 1,
        };
        assert_eq!(requests.iter().filter(|r| r.want.is_some()).count(), looks, "{title}: {requests:#?}");
    }
    let files = (TITLES.len() - 1 + HARBOUR.len()) as u64;
    assert_eq!(node.metric("latemux_cache_hits_total{cache=\"objects\",tier=\"disk\"}").await, files);
    assert_eq!(node.metric("latemux_cache_entries{cache=\"objects\",tier=\"disk\"}").await, files);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_all_files_are_compared_in_one_round_trip() {
    let dir = TempDir::new().unwrap();
    for restart in [false, true] {
        let indexes = Records::open(DiskConfig::new(dir.path(), BUDGET)).unwrap();
        indexes.recovered().await;
        let counting = Arc::new(Counting::new(titles(), Duration::from_millis(100)));
        let resources = Resources { indexes: Some(indexes.clone()), ..Resources::default() };
        let origin = Origin::with_resources(counting.clone(), resources, crate::server::config());
        for title in TITLES {
            origin.title(title).await.unwrap();
            // A folder must be listed first.
            let deepest = if title == "harbour" { 2 } else { 1 };
            let depth = counting.depth();
            let requests = counting.take();
            if restart {
                assert_eq!(requests.iter().filter(reads).count(), 0, "{title}: {requests:#?}");
                assert_eq!(depth, deepest, "{title}: {requests:#?}");
            }
        }
        indexes.close().await;
    }
}

/// Returns the same media with every sample at another offset.
fn moved(name: &str) -> Vec<u8> {
    progressive(&sample(name), Variant { moov_last: true, wide_mdat: true, ..Variant::default() })
}

#[tokio::test]
async fn objects_replaced_between_processes_are_indexed_again() {
    let dir = TempDir::new().unwrap();
    let node = Node::start(titles(), dir.path(), BUDGET).await;
    for title in TITLES {
        all(node.address(), title).await;
    }
    node.stop().await;

    let changed = || {
        let memory = titles();
        let video = "harbour/video-360p.mp4";
        let audio = "harbour/audio-eng.mp4";
        memory.put(key(video), moved(video));
        // The size is unchanged, so that a listing does not show the change.
        memory.put(key(audio), {
            let mut bytes = sample(audio).to_vec();
            let last = bytes.len() - 1;
            bytes[last] ^= 1;
            bytes
        });
        let lighthouse = Bytes::from(moved("lighthouse.mp4"));
        memory.put(key("lighthouse.index.mp4"), index_file(&lighthouse, "lighthouse.mp4"));
        memory.put(key("lighthouse.mp4"), lighthouse);
        memory
    };
    let fresh = {
        let server = Server::start(changed()).await;
        let mut fresh = BTreeMap::new();
        for title in TITLES {
            fresh.insert(title, all(server.address, title).await);
        }
        fresh
    };
    let counting = Arc::new(Counting::new(changed(), Duration::ZERO));
    for restart in 0..2 {
        let node = Node::start(counting.clone(), dir.path(), BUDGET).await;
        for title in TITLES {
            same(title, &fresh[title], &all(node.address(), title).await);
        }
        let read = counting.take().iter().filter(reads).count();
        assert_eq!(read == 0, restart == 1, "{read} reads: a new index must be kept on disk");
        node.stop().await;
    }

    // An index MP4 whose media was replaced is refused, as it is without an index on disk.
    let memory = changed();
    memory.put(key("lighthouse.mp4"), sample("lighthouse.mp4"));
    let node = Node::start(memory.clone(), dir.path(), BUDGET).await;
    assert_eq!(get(node.address(), "/lighthouse.index.mp4/.mpd").await.reason(), "index_stale");
    memory.remove(&key("ferry.mp4"));
    assert_eq!(get(node.address(), "/ferry.mp4/.mpd").await.reason(), "source_not_found");
    node.stop().await;
}

#[tokio::test]
async fn damaged_indexes_on_disk_are_discarded() {
    let dir = TempDir::new().unwrap();
    let node = Node::start(titles(), dir.path(), BUDGET).await;
    let before = all(node.address(), "lighthouse.mp4").await;
    node.stop().await;
    let path = {
        let files = fs::read_dir(dir.path().join("indexes")).unwrap().map(|entry| entry.unwrap().path());
        files.into_iter().find(|path| path.extension().is_some()).unwrap()
    };
    let whole = fs::read(&path).unwrap();
    let flipped = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x10;
        bytes
    };
    let torn = whole[..whole.len() / 2].to_vec();
    let len = whole.len();
    for bytes in [Vec::new(), torn, flipped(8), flipped(len / 3), flipped(len / 2), flipped(len - 1)] {
        fs::write(&path, bytes).unwrap();
        let counting = Arc::new(Counting::new(titles(), Duration::ZERO));
        let node = Node::start(counting.clone(), dir.path(), BUDGET).await;
        same("lighthouse.mp4", &before, &all(node.address(), "lighthouse.mp4").await);
        let read = counting.take().iter().filter(reads).count();
        assert!(read > 0 && node.indexes.figures().discarded == 1, "{read}");
        node.stop().await;
        assert_eq!(fs::read(&path).unwrap(), whole, "the index is written again");
    }
}

#[tokio::test]
async fn indexes_on_disk_stay_within_the_budget() {
    let dir = TempDir::new().unwrap();
    let node = Node::start(titles(), dir.path(), 20 << 10).await;
    for title in TITLES {
        fetch(node.address(), &format!("/{title}/.mpd")).await;
        node.indexes.flush().await;
        let files = fs::read_dir(dir.path().join("indexes")).unwrap();
        let bytes: u64 = files.map(|entry| entry.unwrap().metadata().unwrap().len()).sum();
        assert!(bytes <= 20 << 10, "{bytes}");
    }
    let figures = node.indexes.figures();
    assert!(figures.evictions > 0 && figures.values > 1, "{figures:?}");
    node.stop().await;
}

#[tokio::test]
async fn a_removed_index_folder_fails_no_request() {
    let dir = TempDir::new().unwrap();
    let node = Node::start(titles(), dir.path(), BUDGET).await;
    let indexes = dir.path().join("indexes");
    fs::remove_dir_all(&indexes).unwrap();
    fs::write(&indexes, "in its place").unwrap();
    for title in TITLES {
        all(node.address(), title).await;
    }
    node.indexes.flush().await;
    let figures = node.indexes.figures();
    assert!(figures.values == 0 && figures.dropped > 0, "{figures:?}");
    node.stop().await;
}

/// Purges a title and returns the counts.
async fn purge(node: &Node, base: &str) -> serde_json::Value {
    let path = format!("/purge?base={base}");
    let response = send(node.server.admin, Method::POST, &path, &[]).await.unwrap();
    assert_eq!(response.status, 200);
    serde_json::from_slice(&response.body).unwrap()
}

#[tokio::test]
async fn a_purged_title_is_read_again_from_storage() {
    let dir = TempDir::new().unwrap();
    let counting = Arc::new(Counting::new(titles(), Duration::ZERO));
    let node = Node::start(counting.clone(), dir.path(), BUDGET).await;
    let mut cold = BTreeMap::new();
    for title in TITLES {
        all(node.address(), title).await;
        cold.insert(title, counting.take().iter().filter(reads).count());
    }
    node.cache.flush().await;
    let said = purge(&node, "harbour").await;
    let count = |said: &serde_json::Value, what: &str| said[what].as_u64().unwrap();
    assert_eq!((count(&said, "indexes"), count(&said, "indexes_on_disk")), (5, 5), "{said}");
    assert!(count(&said, "ranges") > 10, "{said}");
    drop(counting.take());
    all(node.address(), "lighthouse.mp4").await;
    assert_eq!(counting.take().iter().filter(reads).count(), 0, "another title is purged too");
    all(node.address(), "harbour").await;
    assert_eq!(counting.take().iter().filter(reads).count(), cold["harbour"], "not all is purged");
    node.stop().await;

    // Titles that this process has not loaded.
    let node = Node::start(counting.clone(), dir.path(), BUDGET).await;
    for title in TITLES {
        let said = purge(&node, title).await;
        assert_eq!((count(&said, "titles"), count(&said, "indexes")), (0, 0), "{said}");
        assert_eq!(count(&said, "indexes_on_disk"), if title == "harbour" { 5 } else { 1 }, "{said}");
        assert!(count(&said, "ranges") > 0, "{said}");
        drop(counting.take());
        all(node.address(), title).await;
        let again = counting.take().iter().filter(reads).count();
        // The first load of the index MP4 found its media cached for the media's own title.
        let media = if title == "lighthouse.index.mp4" { cold["lighthouse.mp4"] } else { 0 };
        assert!(again >= cold[title] && again <= cold[title] + media, "{title}: {again} of {}", cold[title]);
    }
    node.stop().await;
}

#[tokio::test]
async fn a_prefix_purges_titles_that_this_process_has_not_loaded() {
    let dir = TempDir::new().unwrap();
    let counting = Arc::new(Counting::new(titles(), Duration::ZERO));
    let node = Node::start(counting.clone(), dir.path(), BUDGET).await;
    for title in ["harbour", "lighthouse.mp4"] {
        all(node.address(), title).await;
    }
    node.stop().await;
    let node = Node::start(counting.clone(), dir.path(), BUDGET).await;
    let response = send(node.server.admin, Method::POST, "/purge?prefix=harb", &[]).await.unwrap();
    let said: serde_json::Value = serde_json::from_slice(&response.body).unwrap();
    assert_eq!((said["titles"].as_u64(), said["indexes_on_disk"].as_u64()), (Some(0), Some(5)), "{said}");
    assert!(said["ranges"].as_u64().unwrap() > 10, "{said}");
    drop(counting.take());
    all(node.address(), "lighthouse.mp4").await;
    assert_eq!(counting.take().iter().filter(reads).count(), 0, "another title is purged too");
    all(node.address(), "harbour").await;
    assert!(counting.take().iter().filter(reads).count() > 10);
    node.stop().await;
}

#[tokio::test]
async fn a_purged_title_is_not_found_by_the_next_process() {
    for killed in [false, true] {
        let dir = TempDir::new().unwrap();
        let copy = TempDir::new().unwrap();
        let counting = Arc::new(Counting::new(titles(), Duration::ZERO));
        let node = Node::start(counting.clone(), dir.path(), BUDGET).await;
        for title in ["harbour", "lighthouse.mp4"] {
            all(node.address(), title).await;
        }
        drop(counting.take());
        node.cache.flush().await;
        assert!(purge(&node, "harbour").await["ranges"].as_u64().unwrap() > 10);
        // The copy is what a process that is killed now leaves.
        for file in std::fs::read_dir(dir.path()).unwrap().map(Result::unwrap) {
            if file.file_type().unwrap().is_file() {
                std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
            }
        }
        node.stop().await;
        let next = Node::start(counting.clone(), if killed { copy.path() } else { dir.path() }, BUDGET).await;
        let media = |request: &Request| match &request.want {
            Some(Want::Range(range)) => range.end - range.start > 1000,
            _ => false,
        };
        all(next.address(), "lighthouse.mp4").await;
        let indexing = if killed { 1 } else { 0 };
        assert!(
            counting.take().iter().filter(|r| media(r)).count() <= indexing,
            "another title is purged too"
        );
        all(next.address(), "harbour").await;
        assert!(
            counting.take().iter().filter(|r| media(r)).count() > 10,
            "not all is purged, killed: {killed}"
        );
        let text = String::from_utf8(fetch(next.server.admin, "/metrics").await.to_vec()).unwrap();
        for reason in ["queue_full", "disk_failed", "shutdown"] {
            let line = format!("latemux_cache_disk_dropped_total{{reason=\"{reason}\"}} 0");
            assert!(text.contains(&line), "{reason}: {text}");
        }
        next.stop().await;
    }
}
