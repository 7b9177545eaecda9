//! The state that all requests share, made once.

use crate::{
    config::OriginConfig,
    health::Health,
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
    title::indexer::Indexer,
    title::library::Library,
    title::loading_memory::LoadingMemory,
    title::storages::Storages,
    title::titles::Titles,
    title::unpacked::RecentValues,
    title::work_queue::WorkQueue,
    title::workers::Workers,
};
use arc_swap::ArcSwap;
use latemux_cache::{Cache, Records, SegmentCache};
use latemux_packager::address::nginx_vod::Settings;
use latemux_storage::{Options, Storage, write::ConditionalPut};
use std::{
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};
use tokio::runtime::Handle;

/// Time in which a client must take something so that its response keeps its source bytes and its
/// requests to storage while others wait for them. A client that takes nothing is noticed after at
/// most twice this time.
const PAUSE_AFTER: Duration = Duration::from_millis(250);
/// Time between two probes of storage after it has failed.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);

/// Resources of an origin besides its storage.
#[derive(Debug, Default)]
pub struct Resources {
    /// Range cache for media.
    pub cache: Option<Cache>,
    /// Disk store for indexes and cuts, so that they outlive the process.
    pub indexes: Option<Records>,
    /// The served storage, for writing index MP4s. Used only if `index.write` is configured.
    pub write: Option<Arc<dyn ConditionalPut>>,
    /// Options for opening other storages that index MP4s and server manifests refer to.
    pub source_options: Options,
    /// The runtime whose blocking threads parse large indexes and make large titles and manifests.
    /// If there is none, the runtime that serves does this.
    pub workers: Option<Handle>,
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
    pub(crate) health: Arc<Health>,
    /// The storage that is served, whose failures count for the health of this process.
    storage: Arc<dyn Storage>,
}

/// State that stays when the configuration is replaced.
struct Kept {
    metrics: Arc<Metrics>,
    responses: Arc<ResponseMemory>,
    connections: Arc<Connections>,
    health: Arc<Health>,
}

impl Kept {
    fn new(resources: &Resources, config: &OriginConfig) -> Self {
        let metrics = Arc::new(Metrics::default());
        if let Some(cache) = resources.cache.as_ref().filter(|cache| cache.limits().dir.is_some()) {
            let _ = metrics.disk.set(cache.clone());
        }
        let _ = metrics.back_ends.set(resources.source_options.registry.clone());
        let limits = resources.cache.as_ref().map(Cache::limits);
        let (unit, pinnable) = limits.map_or((0, 0), |limits| (limits.unit, limits.pinnable()));
        let responses = ResponseMemory::new(config.memory.responses, unit, pinnable);
        let connections = Connections::new(responses.clone(), &config.http);
        let _ = metrics.clients.set(watch_clients(responses.clone(), connections.clone()));
        Self { metrics, responses, connections, health: Arc::default() }
    }
}

impl App {
    pub(crate) fn new(storage: Arc<dyn Storage>, resources: Resources, config: OriginConfig) -> Self {
        Self::with(Kept::new(&resources, &config), storage, resources, config)
    }

    /// Returns the state for a new configuration. It keeps the connections, the counters, the
    /// health and the memory of responses of this one.
    pub(crate) fn reconfigured(
        &self,
        storage: Arc<dyn Storage>,
        resources: Resources,
        config: OriginConfig,
    ) -> Self {
        let kept = Kept {
            metrics: self.metrics.clone(),
            responses: self.responses.clone(),
            connections: self.connections.clone(),
            health: self.health.clone(),
        };
        Self::with(kept, storage, resources, config)
    }

    fn with(kept: Kept, storage: Arc<dyn Storage>, resources: Resources, config: OriginConfig) -> Self {
        let Resources { cache, indexes, write, source_options, workers } = resources;
        let Kept { metrics, responses, connections, health } = kept;
        let mut watches: Vec<_> = cache.iter().flat_map(watch_ranges).collect();
        let budget = config.memory.segments;
        let segments = (budget > 0).then(|| Arc::new(SegmentCache::new(budget)));
        if let Some(segments) = segments.clone() {
            watches.push(CacheWatch::new(move || snapshot_of_segments(&segments, budget)));
        }
        let is_cached = cache.is_some();
        let in_flight = source_options.max_in_flight;
        let meter = StorageMeter::new(metrics.storage.clone(), health.clone());
        let storages = Storages::new(meter, cache, source_options);
        let index_target = write.filter(|_| config.index.write);
        let index_target = index_target.map(|target| (target, metrics.index_files.clone()));
        // Indexing and making titles wait for most of the memory. Values of recent indexes take the
        // rest without waiting, or are not kept.
        let for_values = config.memory.loading / 16;
        let loading = LoadingMemory::new(config.memory.loading - for_values);
        let recent = Arc::new(RecentValues::new(for_values));
        let workers = Workers::new(workers);
        let work = Arc::new(WorkQueue::new(loading.clone(), workers.clone()));
        let cuts = Cuts::new(config.memory.cuts, indexes.clone(), metrics.stated_cuts.clone());
        let replaces = index_target.is_some();
        let indexer = Indexer::new(&storage, &config, &storages, loading, recent.clone(), workers, replaces);
        let titles = Titles::new(&storage, &config, &storages, indexes, index_target, indexer, work.clone());
        let fragments = Fragments::new(config.memory.fragments);
        let manifests = Manifests::new(config.memory.manifests, work, recent);
        watches.extend(titles.watch().chain([fragments.watch(), cuts.watch(), manifests.watch()]));
        metrics.watch(watches);
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
            library: Arc::new(Library::new(
                storages.counted(storage.clone(), ReadPurpose::Manifest),
                &config,
            )),
            storage,
            metrics,
            clients: Arc::new(ClientAddresses::new(&config.http)),
            responses,
            connections,
            health,
            config,
        }
    }

    /// Returns why this process should get no new requests, or `None` if it should.
    pub(crate) fn unready(&self) -> Option<&'static str> {
        self.health.unready(self.config.unready_after)
    }
}

/// Lets responses whose clients are slow give back memory and requests to storage while others need
/// them. Runs for as long as it is polled.
pub(crate) async fn pause_stalled(app: &ArcSwap<App>) {
    let mut ticks = tokio::time::interval(PAUSE_AFTER);
    loop {
        ticks.tick().await;
        let app = app.load_full();
        if app.responses.is_scarce() || app.metrics.is_storage_queued() {
            app.responses.pause_stalled().await;
        }
    }
}

/// Asks storage from time to time after it has failed, since a process that is unready gets no
/// requests by which it could find out that storage works again. Runs for as long as it is polled.
pub(crate) async fn probe_storage(app: &ArcSwap<App>) {
    let mut is_ready = true;
    loop {
        tokio::time::sleep(PROBE_INTERVAL).await;
        let app = app.load_full();
        if app.health.failing_for().is_none() && is_ready {
            continue;
        }
        let answered = latemux_storage::check(&*app.storage).await;
        if !answered.as_ref().is_err_and(latemux_storage::StorageError::is_fault) {
            app.health.record_answer();
        }
        let was_ready = std::mem::replace(&mut is_ready, app.unready() != Some("storage_failing"));
        match answered {
            Err(error) if was_ready && !is_ready => tracing::error!(
                reason = "storage_failing",
                "{error}: until storage answers, /healthz/ready gives status 503"
            ),
            _ if is_ready && !was_ready => tracing::info!("storage answers again: ready"),
            _ => {}
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
