//! An origin with a range cache over storage with injected faults, and the expected bodies.

use crate::{
    caching::smooth_and_hds,
    crowd::PiecewiseStorage,
    server::{Server, crawl, key, library},
};
use bytes::Bytes;
use futures_util::future::join_all;
use http::Request;
use http_body_util::BodyExt;
use latemux_cache::{Cache, Config, DiskConfig, DiskFaults, Records};
use latemux_index::media::Samples;
use latemux_origin::{Origin, OriginConfig, Resources};
use latemux_storage::{
    Key, Memory, Options, Storage, StorageClient, Want,
    counters::Counters,
    fault::{Fault, Faulty},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Tiers of the range cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tiers {
    /// Memory only.
    Memory,
    /// Disk, with so little memory that nearly all bytes are read from disk.
    Disk,
}

pub(crate) const TIERS: [Tiers; 2] = [Tiers::Memory, Tiers::Disk];

impl Tiers {
    pub(crate) fn config(self, dir: &std::path::Path) -> Config {
        match self {
            Self::Memory => Config { memory: 64 << 20, ..Config::default() },
            Self::Disk => Config {
                memory: 160 << 10,
                unit: 8 << 10,
                dir: Some(dir.to_owned()),
                disk: 64 << 20,
                disk_retry: Duration::ZERO,
                ..Config::default()
            },
        }
    }
}

/// Result of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FetchResult {
    /// A complete body of this version of the library, or of the first version with the same body.
    Right(usize),
    /// An error, with its reason.
    Refused(u16, String),
    /// A response that was aborted.
    Aborted,
}

impl FetchResult {
    pub(crate) fn is_right(&self) -> bool {
        matches!(self, Self::Right(_))
    }
}

/// Expected bodies by URL, one for each version of the library.
#[derive(Debug, Default, Clone)]
pub(crate) struct Oracle(pub(crate) BTreeMap<String, Vec<Bytes>>);

impl Oracle {
    /// Collects the bodies that an origin without a cache gives over storage without faults. It
    /// collects segments and inits only, because manifests are the same for several versions.
    pub(crate) async fn of(versions: &[Arc<Memory>], titles: &[&str]) -> Self {
        let mut urls = Vec::new();
        let first = Server::start(versions[0].clone()).await;
        for title in titles {
            for url in crawl(first.address, &format!("/{title}")).await {
                if !url.contains(".m3u8") && !url.contains(".mpd") && !url.contains("/keyframes/") {
                    urls.push(url);
                }
            }
            urls.extend(smooth_and_hds(first.address, title).await.into_values().flatten());
        }
        let mut bodies = BTreeMap::<String, Vec<Bytes>>::new();
        for memory in versions {
            let origin = Origin::new(memory.clone(), crate::server::config());
            for url in &urls {
                let response = origin.respond(Request::get(url).body(()).unwrap()).await;
                assert_eq!(response.status(), 200, "{url}");
                let body = response.into_body().collect().await.unwrap().to_bytes();
                bodies.entry(url.clone()).or_default().push(body);
            }
        }
        Self(bodies)
    }

    pub(crate) fn urls(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Returns the version of a complete body, and panics if there is none.
    pub(crate) fn version(&self, url: &str, body: &Bytes) -> usize {
        let version = self.0[url].iter().position(|right| right == body);
        version.unwrap_or_else(|| panic!("{url}: {} wrong bytes", body.len()))
    }

    /// Returns the URL of an init segment, which is made from the index alone.
    pub(crate) fn init(&self) -> &str {
        let init = |url: &&String| url.contains("/dash/") && url.matches('-').count() == 1;
        self.urls().find(init).unwrap()
    }

    /// Returns about a dozen URLs, spread over all.
    fn sample(&self) -> impl Iterator<Item = &String> {
        self.urls().step_by(self.0.len().div_ceil(12))
    }

    /// Returns one URL of each kind: TS, DASH video and DASH audio.
    pub(crate) fn some(&self) -> Vec<String> {
        let kinds: [fn(&str) -> bool; 3] = [
            |url| url.ends_with(".ts"),
            |url| url.contains("/dash/") && url.contains("-video="),
            |url| url.contains("/dash/") && url.contains("-audio"),
        ];
        let pick = |kind: &fn(&str) -> bool| {
            let mut urls: Vec<_> = self.urls().filter(|url| kind(url)).collect();
            urls.sort_by_key(|url| std::cmp::Reverse(self.0[*url][0].len()));
            urls.first().map(|url| (*url).clone())
        };
        kinds.iter().filter_map(pick).collect()
    }
}

/// Chooses the fault of each read and listing.
type Choice = Box<dyn FnMut(&Key, Option<&Want>) -> Fault + Send>;

/// Faults that are set while the origin runs.
#[derive(Clone)]
pub(crate) struct Storm(Arc<Mutex<Choice>>);

impl Storm {
    pub(crate) fn set(&self, choice: impl FnMut(&Key, Option<&Want>) -> Fault + Send + 'static) {
        *self.0.lock().unwrap() = Box::new(choice);
    }

    /// Sets a fault for each read of media. Reads of ranges are of media once the title is loaded.
    pub(crate) fn media(&self, fault: Fault) {
        self.set(move |_, want| match want {
            Some(Want::Range(_)) => fault.clone(),
            _ => Fault::None,
        });
    }

    pub(crate) fn heal(&self) {
        self.set(|_, _| Fault::None);
    }
}

/// An origin, its cache and its storage.
pub(crate) struct Rig {
    pub(crate) memory: Arc<Memory>,
    pub(crate) storm: Storm,
    pub(crate) cache: Cache,
    /// Indexes on disk, if they are kept.
    indexes: Option<Records>,
    pub(crate) disk_faults: DiskFaults,
    pub(crate) origin: Origin,
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) config: OriginConfig,
    pub(crate) tiers: Tiers,
    pub(crate) dir: tempfile::TempDir,
}

impl Rig {
    pub(crate) fn new(tiers: Tiers, memory: Arc<Memory>) -> Self {
        // Each manifest request compares the title with storage.
        let config = OriginConfig { recheck_after: Duration::ZERO, ..crate::server::config() };
        Self::with(tiers, memory, &Options { max_in_flight: 8, ..Options::default() }, config, |_| {})
    }

    pub(crate) fn with(
        tiers: Tiers,
        memory: Arc<Memory>,
        options: &Options,
        config: OriginConfig,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let storm = Storm(Arc::new(Mutex::new(Box::new(|_, _| Fault::None))));
        let choose = storm.clone();
        let piecewise = Arc::new(PiecewiseStorage(memory.clone()));
        let faulty = Faulty::new(piecewise, move |_, key, want| (choose.0.lock().unwrap())(key, want));
        let client = StorageClient::new(Arc::new(faulty), options);
        let counters = client.counters().clone();
        let storage: Arc<dyn Storage> = Arc::new(client);
        let dir = tempfile::tempdir().unwrap();
        let mut limits = tiers.config(dir.path());
        let disk_faults = DiskFaults::new();
        change(&mut limits);
        let cache = Cache::open_failing(limits, disk_faults.clone()).unwrap();
        let resources = Resources { cache: Some(cache.clone()), ..Resources::default() };
        let origin = Origin::with_resources(storage.clone(), resources, config.clone());
        let indexes = None;
        Self { memory, storm, cache, indexes, disk_faults, origin, storage, counters, config, tiers, dir }
    }

    /// Keeps indexes on disk too.
    pub(crate) async fn keep_indexes(&mut self) {
        let indexes = Records::open(DiskConfig::new(self.dir.path().join("indexes"), 1 << 20)).unwrap();
        indexes.recovered().await;
        let resources = Resources {
            cache: Some(self.cache.clone()),
            indexes: Some(indexes.clone()),
            ..Resources::default()
        };
        self.origin = Origin::with_resources(self.storage.clone(), resources, self.config.clone());
        self.indexes = Some(indexes);
    }

    /// Requests a URL and checks the response. It panics if the request does not end within an
    /// hour.
    pub(crate) async fn get(&self, oracle: &Oracle, url: &str) -> FetchResult {
        let response = async {
            let response = self.origin.respond(Request::get(url).body(()).unwrap()).await;
            let (head, body) = response.into_parts();
            let length: usize = head.headers["content-length"].to_str().unwrap().parse().unwrap();
            let Ok(body) = body.collect().await else { return FetchResult::Aborted };
            let body = body.to_bytes();
            assert_eq!(body.len(), length, "{url}");
            if head.status == 200 {
                return FetchResult::Right(oracle.version(url, &body));
            }
            let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
            FetchResult::Refused(head.status.as_u16(), json["reason"].as_str().unwrap().to_owned())
        };
        let ended = tokio::time::timeout(Duration::from_secs(3600), response).await;
        ended.unwrap_or_else(|_| panic!("{url}: the request does not end"))
    }

    pub(crate) async fn get_all(&self, oracle: &Oracle, urls: &[String]) -> Vec<FetchResult> {
        join_all(urls.iter().map(|url| self.get(oracle, url))).await
    }

    /// Requests a manifest and returns its status.
    pub(crate) async fn manifest(&self, title: &str) -> u16 {
        let url = format!("/{title}/.mpd");
        let response = self.origin.respond(Request::get(url).body(()).unwrap()).await;
        let status = response.status().as_u16();
        let _ = response.into_body().collect().await;
        status
    }

    /// Requests manifests of a title until storage has confirmed it.
    async fn confirm(&self, title: &str) {
        for _ in 0..100 {
            let request = Request::get(format!("/{title}/.mpd")).body(()).unwrap();
            let response = self.origin.respond(request).await;
            assert_eq!(response.status(), 200);
            if !response.headers().contains_key("warning") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{title}: storage works, but does not confirm the title");
    }

    /// Waits until no fetch is in flight, and no permits or memory are held. Prefetches may start
    /// meanwhile.
    pub(crate) async fn idle(&self) {
        let mut rounds = 0;
        loop {
            self.cache.flush().await;
            let cache = self.cache.figures();
            let storage = self.counters.figures();
            let in_flight = cache.fetches + storage.in_flight + storage.queued;
            let held =
                cache.reserved_bytes + cache.room_bytes + cache.unit_bytes.abs_diff(cache.cached_bytes);
            if (in_flight, held) == (0, 0) {
                let limit = self.cache.limits().memory + cache.disk_units * 128 + 8 * 2048;
                assert!(cache.memory_bytes <= limit, "{cache:?}");
                return;
            }
            rounds += 1;
            // An index may be in flight until its timeout.
            assert!(rounds < 20_000, "never idle: {cache:?} {storage:?}");
            // With a paused clock this takes no time, and lets timers end.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Ends all faults and checks that every response is right: from storage, from the cache, and
    /// from disk after a restart. Checks that nothing is leaked.
    pub(crate) async fn check_recovered(&mut self, oracle: &Oracle, titles: &[&str], version: usize) {
        self.storm.heal();
        self.disk_faults.heal();
        // Reads that were in flight may still fail, with all requests that joined them.
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.idle().await;
        for title in titles {
            self.confirm(title).await;
        }
        for round in 0..3 {
            for url in oracle.sample() {
                // Several versions may have the same body.
                let right = oracle.version(url, &oracle.0[url][version]);
                assert_eq!(self.get(oracle, url).await, FetchResult::Right(right), "{url}, round {round}");
            }
            self.idle().await;
            if round == 1 {
                self.restart().await;
            }
        }
    }

    /// Replaces the origin and the cache, like a new process over the same folder.
    pub(crate) async fn restart(&mut self) {
        self.cache.close().await;
        let cache =
            Cache::open_failing(self.tiers.config(self.dir.path()), self.disk_faults.clone()).unwrap();
        cache.recovered().await;
        let resources = Resources { cache: Some(cache.clone()), ..Resources::default() };
        self.origin = Origin::with_resources(self.storage.clone(), resources, self.config.clone());
        self.cache = cache;
        if let Some(indexes) = self.indexes.take() {
            indexes.close().await;
            self.keep_indexes().await;
        }
    }
}

impl Drop for Rig {
    /// Ends hanging disk threads, which would outlive a failed test.
    fn drop(&mut self) {
        self.disk_faults.heal();
    }
}

/// Returns a file with the last byte of every sample changed: same size, same index, other media.
pub(crate) async fn relabelled(file: &Bytes, label: u8) -> Bytes {
    relabelled_from(file, 0, label).await
}

/// Changes only samples that end at the offset `from` or later.
pub(crate) async fn relabelled_from(file: &Bytes, from: usize, label: u8) -> Bytes {
    let memory = Arc::new(Memory::new());
    memory.put(key("x.mp4"), file.clone());
    let loaded = Origin::new(memory, crate::server::config()).title("x.mp4").await.unwrap();
    let mut changed = file.to_vec();
    for track in loaded.title.tracks() {
        let Samples::Table(table) = &loaded.title.track(track).samples else { panic!("tables") };
        for sample in table.range(0..table.len()) {
            let last = usize::try_from(sample.offset + u64::from(sample.size) - 1).unwrap();
            changed[last] ^= if last < from { 0 } else { label };
        }
    }
    changed.into()
}

/// Returns the library with one object replaced.
pub(crate) fn library_with(name: &str, bytes: Bytes) -> Arc<Memory> {
    let memory = library();
    memory.put(key(name), bytes);
    memory
}
