//! The wiring: what a request may use, made once.

use crate::{
    Means, OriginConfig,
    fragments::Fragments,
    manifests::Manifests,
    media::Media,
    metrics::{CacheSnapshot, CacheWatch, Metrics, Read},
    patience::Patience,
    prefetch::Prefetch,
    titles::Titles,
    write_index::IndexWriter,
};
use latemux_cache::{Cache, SegmentCache};
use latemux_packager::address::nginx_vod::Settings;
use latemux_storage::Storage;
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

/// All that outlives a request.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) config: OriginConfig,
    /// As the configuration says.
    pub(crate) nginx_vod: Arc<Settings>,
    /// The storage that is served, where it is listed.
    pub(crate) storage: Arc<dyn Storage>,
    /// The same, where media is read.
    pub(crate) media: Arc<dyn Storage>,
    pub(crate) titles: Arc<Titles>,
    pub(crate) fragments: Fragments,
    /// Of a segment's head, with storage.
    pub(crate) patience: Patience,
    pub(crate) manifests: Manifests,
    /// Reads ahead, where that is wanted and there is a range cache.
    pub(crate) prefetch: Option<Prefetch>,
    /// Finished segments, where they are kept.
    pub(crate) segments: Option<Arc<SegmentCache>>,
    pub(crate) metrics: Arc<Metrics>,
    draining: AtomicBool,
}

impl App {
    pub(crate) fn new(storage: Arc<dyn Storage>, means: Means, config: OriginConfig) -> Self {
        let Means { cache, indexes, write, elsewhere } = means;
        let metrics = Arc::new(Metrics::default());
        let meter = metrics.storage_meter();
        if let Some(cache) = &cache {
            range_cache(cache).into_iter().for_each(|watch| metrics.watch(watch));
            if cache.limits().disk.is_some() {
                metrics.show_disk(cache.clone());
            }
        }
        let budget = config.memory.segments;
        let segments = (budget > 0).then(|| Arc::new(SegmentCache::new(budget)));
        if let Some(segments) = segments.clone() {
            metrics.watch(CacheWatch::new(move || finished(&segments, budget)));
        }
        metrics.show_back_ends(elsewhere.registry.clone());
        let (is_cached, in_flight) = (cache.is_some(), elsewhere.in_flight.max);
        let media = Media::new(meter.clone(), cache, elsewhere);
        let writer = write.filter(|_| config.index.write);
        let writer = writer.map(|place| IndexWriter::new(place, metrics.index_files.clone()));
        let titles = Titles::new(&storage, &config, &media, indexes, writer);
        let fragments = Fragments::new(config.memory.fragments);
        let manifests = Manifests::new(config.memory.manifests);
        for cache in titles.watch().into_iter().chain([fragments.watch(), manifests.watch()]) {
            metrics.watch(cache);
        }
        let media = media.over(storage.clone());
        let counts = metrics.prefetches.clone();
        let prefetch = Prefetch::new(&config, media.clone(), fragments.clone(), in_flight, counts);
        Self {
            titles: Arc::new(titles),
            prefetch: prefetch.filter(|_| is_cached),
            fragments,
            manifests,
            segments,
            patience: Patience::new(config.read.patience),
            nginx_vod: Arc::new(config.urls.nginx_vod.settings()),
            draining: AtomicBool::new(false),
            media,
            storage: meter.over(storage, Read::Manifest),
            metrics,
            config,
        }
    }

    /// No new work is wanted: say so to whoever asks `/healthz/ready`.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Relaxed)
    }
}

/// The range cache as metrics show it: memory, then disk.
fn range_cache(cache: &Cache) -> [CacheWatch; 2] {
    let (memory, disk) = (cache.clone(), cache.clone());
    [
        CacheWatch::new(move || {
            let (figures, limits) = (memory.figures(), memory.limits());
            CacheSnapshot {
                cache: "range",
                tier: "memory",
                bytes: figures.memory_bytes,
                limit: limits.memory,
                entries: figures.cached_units,
                hits: figures.hits_memory,
                misses: figures.filled,
                joins: figures.joined,
                evictions: figures.evictions,
            }
        }),
        CacheWatch::new(move || {
            let (figures, limits) = (disk.figures(), disk.limits());
            CacheSnapshot {
                cache: "range",
                tier: "disk",
                bytes: figures.disk_bytes,
                limit: limits.disk.as_ref().map_or(0, |disk| disk.bytes),
                entries: figures.disk_units,
                hits: figures.hits_disk,
                misses: figures.filled,
                joins: 0,
                evictions: figures.disk_evictions,
            }
        }),
    ]
}

/// Finished segments as metrics show them.
fn finished(segments: &SegmentCache, limit: u64) -> CacheSnapshot {
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
