//! Indexes on disk: a restart reads none of them, and believes none before storage said that it still is its object's.

use crate::{
    client::{Answer, fetch, get, send},
    server::{HARBOUR, Server, crawl, index_file, key, library, sample},
};
use bytes::Bytes;
use http::Method;
use latemux_cache::{Cache, DiskConfig, Records, records};
use latemux_origin::{Origin, Resources};
use latemux_storage::{Memory, Storage, Want, counting::Counting, counting::Request};
use latemux_testmedia::rewrite::{Variant, progressive};
use std::{collections::BTreeMap, fs, net::SocketAddr, path::Path, sync::Arc, time::Duration};
use tempfile::TempDir;

/// Muxed, moov last; a folder of separate files; indexed by `sidx`; scanned; an index MP4 and its media.
const TITLES: [&str; 5] =
    ["lighthouse.mp4", "harbour", "fragmented.mp4", "ferry.mp4", "lighthouse.index.mp4"];
const BUDGET: u64 = 1 << 20;

fn titles() -> Arc<Memory> {
    let memory = library();
    memory.put(key("lighthouse.index.mp4"), index_file(&sample("lighthouse.mp4"), "lighthouse.mp4"));
    memory
}

/// An origin that keeps what it can below a folder.
struct Node {
    server: Server,
    cache: Cache,
    indexes: Records,
}

impl Node {
    async fn start(storage: Arc<dyn Storage>, dir: &Path, budget: u64) -> Self {
        let config = latemux_cache::Config {
            memory: 64 << 20,
            disk: Some(DiskConfig::new(dir, 64 << 20)),
            ..latemux_cache::Config::default()
        };
        let cache = Cache::open(config).unwrap();
        let indexes = Records::open(records::Config::new(dir.join("indexes"), budget)).unwrap();
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

async fn all(server: SocketAddr, title: &str) -> BTreeMap<String, Answer> {
    let mut answers = BTreeMap::new();
    for url in crawl(server, &format!("/{title}")).await {
        let answer = get(server, &url).await;
        assert_eq!(answer.status, 200, "{url}");
        answers.insert(url, answer);
    }
    assert!(answers.len() > 10, "{title}");
    answers
}

fn same(title: &str, one: &BTreeMap<String, Answer>, other: &BTreeMap<String, Answer>) {
    assert!(one.keys().eq(other.keys()), "{title}");
    for (url, answer) in one {
        let found = &other[url];
        assert_eq!((answer.lasting_headers(), &answer.body), (found.lasting_headers(), &found.body), "{url}");
    }
}

/// Whether a request is more than a look whether an object still is what it was.
fn reads(request: &&Request) -> bool {
    !matches!(request.want, None | Some(Want::Head(1)))
}

#[tokio::test]
async fn a_restart_reads_no_index() {
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
        // The segments' bytes are from disk as well.
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
    let files = u64::try_from(TITLES.len() - 1 + HARBOUR.len()).unwrap();
    assert_eq!(node.metric("latemux_cache_hits_total{cache=\"objects\",tier=\"disk\"}").await, files);
    assert_eq!(node.metric("latemux_cache_entries{cache=\"objects\",tier=\"disk\"}").await, files);
    node.stop().await;
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_all_files_are_looked_at_at_once() {
    let dir = TempDir::new().unwrap();
    for restart in [false, true] {
        let indexes = Records::open(records::Config::new(dir.path(), BUDGET)).unwrap();
        indexes.recovered().await;
        let counting = Arc::new(Counting::new(titles(), Duration::from_millis(100)));
        let resources = Resources { indexes: Some(indexes.clone()), ..Resources::default() };
        let origin = Origin::with_resources(counting.clone(), resources, crate::server::config());
        for title in TITLES {
            origin.title(title).await.unwrap();
            // A folder is listed first.
            let deepest = if title == "harbour" { 2 } else { 1 };
            let (depth, requests) = (counting.depth(), counting.take());
            if restart {
                assert_eq!(requests.iter().filter(reads).count(), 0, "{title}: {requests:#?}");
                assert_eq!(depth, deepest, "{title}: {requests:#?}");
            }
        }
        indexes.close().await;
    }
}

/// The same media, every sample at another place.
fn moved(name: &str) -> Vec<u8> {
    progressive(&sample(name), Variant { moov_last: true, wide_mdat: true, ..Variant::default() })
}

#[tokio::test]
async fn what_was_replaced_meanwhile_is_indexed_anew() {
    let dir = TempDir::new().unwrap();
    let node = Node::start(titles(), dir.path(), BUDGET).await;
    for title in TITLES {
        all(node.address(), title).await;
    }
    node.stop().await;

    let changed = || {
        let memory = titles();
        let (video, audio) = ("harbour/video-360p.mp4", "harbour/audio-eng.mp4");
        memory.put(key(video), moved(video));
        // As long as it was, which no listing tells.
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
        assert_eq!(read == 0, restart == 1, "{read}: what was indexed anew is kept");
        node.stop().await;
    }

    // An index MP4 whose media was replaced is as stale as it would be without anything kept.
    let memory = changed();
    memory.put(key("lighthouse.mp4"), sample("lighthouse.mp4"));
    let node = Node::start(memory.clone(), dir.path(), BUDGET).await;
    assert_eq!(get(node.address(), "/lighthouse.index.mp4/.mpd").await.reason(), "index_stale");
    memory.remove(&key("ferry.mp4"));
    assert_eq!(get(node.address(), "/ferry.mp4/.mpd").await.reason(), "source_not_found");
    node.stop().await;
}

#[tokio::test]
async fn what_is_damaged_on_disk_is_not_believed() {
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
        assert_eq!(fs::read(&path).unwrap(), whole, "and it is there again");
    }
}

#[tokio::test]
async fn no_more_than_the_budget_is_kept() {
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
async fn a_folder_that_goes_away_costs_no_answer() {
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

/// What a purge says was forgotten.
async fn purge(node: &Node, base: &str) -> serde_json::Value {
    let path = format!("/purge?base={base}");
    let answer = send(node.server.admin, Method::POST, &path, &[]).await.unwrap();
    assert_eq!(answer.status, 200);
    serde_json::from_slice(&answer.body).unwrap()
}

#[tokio::test]
async fn what_is_purged_is_read_anew_from_index_to_media() {
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
    assert_eq!(counting.take().iter().filter(reads).count(), 0, "another title");
    all(node.address(), "harbour").await;
    assert_eq!(counting.take().iter().filter(reads).count(), cold["harbour"], "all of it");
    node.stop().await;

    // A title that this process never heard of.
    let node = Node::start(counting.clone(), dir.path(), BUDGET).await;
    for title in TITLES {
        let said = purge(&node, title).await;
        assert_eq!((count(&said, "titles"), count(&said, "indexes")), (0, 0), "{said}");
        assert_eq!(count(&said, "indexes_on_disk"), if title == "harbour" { 5 } else { 1 }, "{said}");
        assert!(count(&said, "ranges") > 0, "{said}");
        drop(counting.take());
        all(node.address(), title).await;
        let again = counting.take().iter().filter(reads).count();
        // What was cold of the index MP4 first found its media read for the media's own title.
        let media = if title == "lighthouse.index.mp4" { cold["lighthouse.mp4"] } else { 0 };
        assert!(again >= cold[title] && again <= cold[title] + media, "{title}: {again} of {}", cold[title]);
    }
    node.stop().await;
}

#[tokio::test]
async fn what_is_purged_is_not_found_by_the_next_process() {
    for killed in [false, true] {
        let (dir, copy) = (TempDir::new().unwrap(), TempDir::new().unwrap());
        let counting = Arc::new(Counting::new(titles(), Duration::ZERO));
        let node = Node::start(counting.clone(), dir.path(), BUDGET).await;
        for title in ["harbour", "lighthouse.mp4"] {
            all(node.address(), title).await;
        }
        drop(counting.take());
        node.cache.flush().await;
        assert!(purge(&node, "harbour").await["ranges"].as_u64().unwrap() > 10);
        // A process that is killed now leaves this.
        for file in std::fs::read_dir(dir.path()).unwrap().map(Result::unwrap) {
            if file.file_type().unwrap().is_file() {
                std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
            }
        }
        node.stop().await;
        let next = Node::start(counting.clone(), if killed { copy.path() } else { dir.path() }, BUDGET).await;
        let media = |request: &latemux_storage::counting::Request| matches!(&request.want, Some(Want::Range(range)) if range.end - range.start > 1000);
        all(next.address(), "lighthouse.mp4").await;
        let indexing = if killed { 1 } else { 0 };
        assert!(counting.take().iter().filter(|r| media(r)).count() <= indexing, "another title");
        all(next.address(), "harbour").await;
        assert!(counting.take().iter().filter(|r| media(r)).count() > 10, "all of it, killed: {killed}");
        let text = String::from_utf8(fetch(next.server.admin, "/metrics").await.to_vec()).unwrap();
        for reason in ["queue_full", "disk_failed", "shutdown"] {
            let line = format!("latemux_cache_disk_dropped_total{{reason=\"{reason}\"}} 0");
            assert!(text.contains(&line), "{reason}: {text}");
        }
        next.stop().await;
    }
}
