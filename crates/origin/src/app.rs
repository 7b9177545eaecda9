//! The state that all requests share, made once.

use crate::{
    config::OriginConfig,
    http::client_address::ClientAddresses,
    http::connections::Connections,
    http::manifests::Manifests,
    observe::meter::StorageMeter,
    observe::metrics::{CacheSnapshot, CacheWatch, ClientFigures, ClientWatch, Metrics, ReadPurpose},
    read::cuts::Cuts,
    read::first_byte_wait::FirstByteWait,
    read::fragments::Fragments,
    read::prefetch::Prefetch,
    read::room::ResponseMemory,
    read::segment::SegmentBodies,
    title::library::Library,
    title::loading_memory::LoadingMemory,
    title::storages::Storages,
    title::titles::Titles,
    title::work_queue::WorkQueue,
};
use latemux_cache::{Cache, Records, SegmentCache};
use latemux_packager::address::nginx_vod::Settings;
use latemux_storage::{Options, Storage, write::ConditionalPut};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

/// Time in which a client must take something so that its response keeps its source bytes and its
/// requests to storage while others wait for them. A client that takes nothing is noticed after at
/// most twice this time.
const PAUSE_AFTER: Duration = Duration::from_millis(250);

/// Resources of an origin besides its storage.
#[derive(Debug, Default)]
pub struct Resources {
    /// Range cache for media.
    pub cache: Option<Cache>,
    /// Disk store for indexes, so that they outlive the process.
    pub indexes: Option<Records>,
    /// The served storage, for writing index MP4s. Used only if `index.write` is configured.
    pub write: Option<Arc<dyn ConditionalPut>>,
    /// Options for opening other storages that index MP4s and server manifests refer to.
    pub source_options: Options,
}

/// State that outlives a request.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) config: OriginConfig,
    /// Settings of URLs in the form of nginx-vod-module.
    pub(crate) nginx_vod: Arc<Settings>,
    pub(crate) library: Arc<Library>,
    pub(crate) titles: Arc<Titles>,
    pub(crate) fragments: Fragments,
    pub(crate) cuts: Cuts,
    pub(crate) manifests: Manifests,
    pub(crate) bodies: SegmentBodies,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) clients: Arc<ClientAddresses>,
    /// Memory for responses on their way to clients.
    pub(crate) responses: Arc<ResponseMemory>,
    /// Connections of the public listener.
    pub(crate) connections: Arc<Connections>,
    draining: AtomicBool,
    /// True while storage has not been reached since the start.
    unreached: AtomicBool,
}

impl App {
    pub(crate) fn new(storage: Arc<dyn Storage>, resources: Resources, config: OriginConfig) -> Self {
        let Resources { cache, indexes, write, source_options } = resources;
        let metrics = Arc::new(Metrics::default());
        if let Some(cache) = &cache {
            watch_ranges(cache).into_iter().for_each(|watch| metrics.watch(watch));
            if cache.limits().dir.is_some() {
                let _ = metrics.disk.set(cache.clone());
            }
        }
        let budget = config.memory.segments;
        let segments = (budget > 0).then(|| Arc::new(SegmentCache::new(budget)));
        if let Some(segments) = segments.clone() {
            metrics.watch(CacheWatch::new(move || snapshot_of_segments(&segments, budget)));
        }
        let _ = metrics.back_ends.set(source_options.registry.clone());
        let is_cached = cache.is_some();
        let limits = cache.as_ref().map(Cache::limits);
        let (unit, pinnable) = limits.map_or((0, 0), |limits| (limits.unit, limits.pinnable()));
        let responses = ResponseMemory::new(config.memory.responses, unit, pinnable);
        let connections = Connections::new(responses.clone(), &config.http);
        let _ = metrics.clients.set(watch_clients(responses.clone(), connections.clone()));
        let in_flight = source_options.max_in_flight;
        let storages = Storages::new(StorageMeter::new(metrics.storage.clone()), cache, source_options);
        let index_target = write.filter(|_| config.index.write);
        let index_target = index_target.map(|target| (target, metrics.index_files.clone()));
        let loading = LoadingMemory::new(config.memory.loading);
        let work = Arc::new(WorkQueue::new(loading.clone()));
        let titles = Titles::new(&storage, &config, &storages, indexes, index_target, loading, work.clone());
        let fragments = Fragments::new(config.memory.fragments);
        let cuts = Cuts::new(config.memory.cuts);
        let manifests = Manifests::new(config.memory.manifests, work);
        for cache in titles.watch().chain([fragments.watch(), cuts.watch(), manifests.watch()]) {
            metrics.watch(cache);
        }
        let counts = metrics.prefetches.clone();
        let prefetch = Prefetch::new(&config, (fragments.clone(), cuts.clone()), in_flight, counts);
        Self {
            titles: Arc::new(titles),
            fragments,
            cuts,
            manifests,
            bodies: SegmentBodies {
                first_byte_wait: FirstByteWait::new(config.read.first_byte_wait),
                prefetch: prefetch.filter(|_| is_cached),
                finished: segments,
            },
            nginx_vod: Arc::new(config.urls.nginx_vod.settings()),
            library: Arc::new(Library::new(storages.counted(storage, ReadPurpose::Manifest), &config)),
            draining: AtomicBool::new(false),
            unreached: AtomicBool::new(false),
            metrics,
            clients: Arc::new(ClientAddresses::new(&config.http)),
            responses,
            connections,
            config,
        }
    }

    /// Lets responses whose clients are slow give back memory and requests to storage while others
    /// need them. Runs for as long as it is polled.
    pub(crate) async fn pause_stalled(&self) {
        let mut ticks = tokio::time::interval(PAUSE_AFTER);
        loop {
            ticks.tick().await;
            if self.responses.is_scarce() || self.metrics.is_storage_queued() {
                self.responses.pause_stalled();
            }
        }
    }

    /// Makes `/healthz/ready` fail from now on, so that load balancers send no new requests.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Relaxed);
    }

    /// Makes `/healthz/ready` fail for as long as storage has not been reached.
    pub(crate) fn set_storage_reached(&self, is_reached: bool) {
        self.unreached.store(!is_reached, Relaxed);
    }

    /// Returns why this process should get no new requests, or `None` if it should.
    pub(crate) fn unready(&self) -> Option<&'static str> {
        if self.draining.load(Relaxed) {
            Some("draining")
        } else {
            self.unreached.load(Relaxed).then_some("storage_unreached")
        }
    }
}

/// Returns what metrics show of clients.
fn watch_clients(responses: Arc<ResponseMemory>, connections: Arc<Connections>) -> ClientWatch {
    ClientWatch(Box::new(move || ClientFigures {
        response_bytes: responses.used(),
        response_limit: responses.limit(),
        pauses: responses.pauses(),
        evicted: connections.evicted.load(Relaxed),
        refused: connections.refused.load(Relaxed),
    }))
}

/// Returns what metrics show of the range cache: memory, then disk.
fn watch_ranges(cache: &Cache) -> [CacheWatch; 2] {
    let memory = cache.clone();
    let disk = cache.clone();
    [
        CacheWatch::new(move || {
            let figures = memory.figures();
            CacheSnapshot {
                cache: "range",
                tier: "memory",
                bytes: figures.memory_bytes,
                limit: memory.limits().memory,
                entries: figures.cached_units,
                hits: figures.hits_memory,
                misses: figures.filled,
                joins: figures.joined,
                evictions: figures.evictions,
            }
        }),
        CacheWatch::new(move || {
            let figures = disk.figures();
            CacheSnapshot {
                cache: "range",
                tier: "disk",
                bytes: figures.disk_bytes,
                limit: disk.limits().dir.as_ref().map_or(0, |_| disk.limits().disk),
                entries: figures.disk_units,
                hits: figures.hits_disk,
                misses: figures.filled,
                joins: 0,
                evictions: figures.disk_evictions,
            }
        }),
    ]
}

/// Returns what metrics show of the cache of finished segments.
fn snapshot_of_segments(segments: &SegmentCache, limit: u64) -> CacheSnapshot {
    let figures = segments.figures();
    CacheSnapshot {
        cache: "segment",
        tier: "memory",
        bytes: figures.bytes,
        limit,
        entries: figures.segments,
        hits: figures.hits,
        misses: figures.misses,
        joins: 0,
        evictions: figures.evictions,
    }
}
