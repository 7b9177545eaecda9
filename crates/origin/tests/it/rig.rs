//! An origin with a range cache over storage that fails as told, and what every answer must be.

use crate::{
    caching::smooth_and_hds,
    crowd::Crumbling,
    server::{Server, crawl, key, library},
};
use bytes::Bytes;
use futures_util::future::join_all;
use http::Request;
use http_body_util::BodyExt;
use latemux_cache::{Cache, Config, DiskConfig, DiskFaults, Records, records};
use latemux_index::media::Samples;
use latemux_origin::{Origin, OriginConfig, Resources};
use latemux_storage::{
    InFlight, Key, Memory, Options, Storage, StorageClient, Want,
    counters::Counters,
    fault::{Fault, Faulty},
};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

/// Where bytes are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tiers {
    /// In memory alone.
    Memory,
    /// On disk, with so little memory that nearly all is read from there again.
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
                disk: Some(DiskConfig { retry: Duration::ZERO, ..DiskConfig::new(dir, 64 << 20) }),
                ..Config::default()
            },
        }
    }
}

/// What a client got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Got {
    /// A whole answer of this version of the library; of the first it equals where the body is the same in several.
    Right(usize),
    /// An error, with its reason.
    Refused(u16, String),
    /// An answer that broke off.
    Aborted,
}

impl Got {
    pub(crate) fn is_right(&self) -> bool {
        matches!(self, Self::Right(_))
    }
}

/// What each URL's body is, for each version of the library.
#[derive(Debug, Default, Clone)]
pub(crate) struct Oracle(pub(crate) BTreeMap<String, Vec<Bytes>>);

impl Oracle {
    /// What an origin without a cache answers over storage that does as it should. Segments and inits only: a manifest says the same of
    /// several versions.
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
                let answer = origin.respond(Request::get(url).body(()).unwrap()).await;
                assert_eq!(answer.status(), 200, "{url}");
                let body = answer.into_body().collect().await.unwrap().to_bytes();
                bodies.entry(url.clone()).or_default().push(body);
            }
        }
        Self(bodies)
    }

    pub(crate) fn urls(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    /// Which version a whole body is of.
    pub(crate) fn version(&self, url: &str, body: &Bytes) -> usize {
        let version = self.0[url].iter().position(|right| right == body);
        version.unwrap_or_else(|| panic!("{url}: {} wrong bytes", body.len()))
    }

    /// An init segment: it needs the index alone.
    pub(crate) fn init(&self) -> &str {
        let init = |url: &&String| url.contains("/dash/") && url.matches('-').count() == 1;
        self.urls().find(init).unwrap()
    }

    /// A dozen URLs from all over.
    fn sample(&self) -> impl Iterator<Item = &String> {
        self.urls().step_by(self.0.len().div_ceil(12))
    }

    /// One URL of each kind: through a transform, of slices, with a head of its own.
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

/// Which fault befalls the next reads and listings, in turn or as a function says.
type Choice = Box<dyn FnMut(&Key, Option<&Want>) -> Fault + Send>;

/// Faults that are set while the origin runs.
#[derive(Clone)]
pub(crate) struct Storm(Arc<Mutex<Choice>>);

impl Storm {
    pub(crate) fn set(&self, choice: impl FnMut(&Key, Option<&Want>) -> Fault + Send + 'static) {
        *self.0.lock().unwrap() = Box::new(choice);
    }

    /// This fault for each read of media: of a range, once its title is known.
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
    /// Where indexes outlive the process, if they do.
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
        // Every manifest is compared with storage.
        let config = OriginConfig { recheck_after: Duration::ZERO, ..crate::server::config() };
        Self::with(tiers, memory, InFlight { max: 8, ..InFlight::default() }, config, |_| {})
    }

    pub(crate) fn with(
        tiers: Tiers,
        memory: Arc<Memory>,
        in_flight: InFlight,
        config: OriginConfig,
        change: impl FnOnce(&mut Config),
    ) -> Self {
        let storm = Storm(Arc::new(Mutex::new(Box::new(|_, _| Fault::None))));
        let choose = storm.clone();
        let crumbling = Arc::new(Crumbling(memory.clone()));
        let faulty = Faulty::new(crumbling, move |_, key, want| (choose.0.lock().unwrap())(key, want));
        let client = StorageClient::new(Arc::new(faulty), &Options { in_flight, ..Options::default() });
        let counters = client.counters().clone();
        let storage: Arc<dyn Storage> = Arc::new(client);
        let dir = tempfile::tempdir().unwrap();
        let (mut limits, disk_faults) = (tiers.config(dir.path()), DiskFaults::new());
        change(&mut limits);
        let cache = Cache::open_failing(limits, disk_faults.clone()).unwrap();
        let resources = Resources { cache: Some(cache.clone()), ..Resources::default() };
        let origin = Origin::with_resources(storage.clone(), resources, config.clone());
        let indexes = None;
        Self { memory, storm, cache, indexes, disk_faults, origin, storage, counters, config, tiers, dir }
    }

    /// Has indexes kept on disk too.
    pub(crate) async fn keep_indexes(&mut self) {
        let indexes = Records::open(records::Config::new(self.dir.path().join("indexes"), 1 << 20)).unwrap();
        indexes.recovered().await;
        let resources = Resources {
            cache: Some(self.cache.clone()),
            indexes: Some(indexes.clone()),
            ..Resources::default()
        };
        self.origin = Origin::with_resources(self.storage.clone(), resources, self.config.clone());
        self.indexes = Some(indexes);
    }

    /// Asks for a URL and compares what comes. However long it takes by a clock that is paused, it ends.
    pub(crate) async fn get(&self, oracle: &Oracle, url: &str) -> Got {
        let answer = async {
            let answer = self.origin.respond(Request::get(url).body(()).unwrap()).await;
            let (head, body) = answer.into_parts();
            let length: usize = head.headers["content-length"].to_str().unwrap().parse().unwrap();
            let Ok(body) = body.collect().await else { return Got::Aborted };
            let body = body.to_bytes();
            assert_eq!(body.len(), length, "{url}");
            if head.status == 200 {
                return Got::Right(oracle.version(url, &body));
            }
            let json: serde_json::Value = serde_json::from_slice(&body).unwrap();
            Got::Refused(head.status.as_u16(), json["reason"].as_str().unwrap().to_owned())
        };
        let ended = tokio::time::timeout(Duration::from_secs(3600), answer).await;
        ended.unwrap_or_else(|_| panic!("{url}: waits for ever"))
    }

    pub(crate) async fn get_all(&self, oracle: &Oracle, urls: &[String]) -> Vec<Got> {
        join_all(urls.iter().map(|url| self.get(oracle, url))).await
    }

    /// Asks for a manifest, whatever it says.
    pub(crate) async fn manifest(&self, title: &str) -> u16 {
        let url = format!("/{title}/.mpd");
        let answer = self.origin.respond(Request::get(url).body(()).unwrap()).await;
        let status = answer.status().as_u16();
        let _ = answer.into_body().collect().await;
        status
    }

    /// Waits until nothing is under way, and nothing was left behind: a place, room, memory. What is read ahead may begin anew meanwhile.
    pub(crate) async fn idle(&self) {
        let mut looks = 0;
        loop {
            self.cache.flush().await;
            let (cache, storage) = (self.cache.figures(), self.counters.figures());
            let under_way = cache.fetches + storage.in_flight + storage.queued;
            let held =
                cache.reserved_bytes + cache.room_bytes + cache.unit_bytes.abs_diff(cache.cached_bytes);
            if (under_way, held) == (0, 0) {
                let limit = self.cache.limits().memory + cache.disk_units * 128 + 8 * 2048;
                assert!(cache.memory_bytes <= limit, "{cache:?}");
                return;
            }
            looks += 1;
            // An index may be under way for as long as that is borne.
            assert!(looks < 20_000, "never idle: {cache:?} {storage:?}");
            // With a clock that is paused this costs nothing, and lets timers pass that only wait.
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// All is well with storage again: every answer is right, from storage, from the cache, and from what the disk holds after a
    /// restart; and nothing was left behind.
    pub(crate) async fn is_sound(&mut self, oracle: &Oracle, titles: &[&str], version: usize) {
        self.storm.heal();
        self.disk_faults.heal();
        // What was under way when it healed may fail yet, and whoever comes along with it.
        tokio::time::sleep(Duration::from_millis(10)).await;
        self.idle().await;
        for title in titles {
            assert_eq!(self.manifest(title).await, 200);
        }
        for round in 0..3 {
            for url in oracle.sample() {
                // A body may be the same in several versions.
                let right = oracle.version(url, &oracle.0[url][version]);
                assert_eq!(self.get(oracle, url).await, Got::Right(right), "{url}, round {round}");
            }
            self.idle().await;
            if round == 1 {
                self.restart().await;
            }
        }
    }

    /// Another process over the same folder.
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
    /// A thread that hangs would outlive a test that failed.
    fn drop(&mut self) {
        self.disk_faults.heal();
    }
}

/// The same file with the last byte of every sample of its tables changed: same size, same index, other media.
pub(crate) async fn relabelled(file: &Bytes, label: u8) -> Bytes {
    relabelled_from(file, 0, label).await
}

/// The same of samples that end behind a byte.
pub(crate) async fn relabelled_from(file: &Bytes, from: usize, label: u8) -> Bytes {
    let memory = Arc::new(Memory::new());
    memory.put(key("x.mp4"), file.clone());
    let loaded = Origin::new(memory, crate::server::config()).title("x.mp4").await.unwrap();
    let mut changed = file.to_vec();
    for track in &loaded.title.tracks {
        let Samples::Table(table) = &loaded.title.track(track).samples else { panic!("tables") };
        for sample in table.range(0..table.len()) {
            let last = usize::try_from(sample.offset + u64::from(sample.size) - 1).unwrap();
            changed[last] ^= if last < from { 0 } else { label };
        }
    }
    changed.into()
}

/// The library with other bytes in place of one object.
pub(crate) fn library_with(name: &str, bytes: Bytes) -> Arc<Memory> {
    let memory = library();
    memory.put(key(name), bytes);
    memory
}
