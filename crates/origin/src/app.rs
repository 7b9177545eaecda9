//! The wiring: what a request may use, made once.

use crate::{
    OriginConfig,
    fragments::Fragments,
    manifests::Manifests,
    metrics::{Metrics, Read},
    titles::Titles,
};
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
    pub(crate) manifests: Manifests,
    pub(crate) metrics: Arc<Metrics>,
    draining: AtomicBool,
}

impl App {
    pub(crate) fn new(storage: &Arc<dyn Storage>, config: OriginConfig) -> Self {
        let metrics = Arc::new(Metrics::default());
        let meter = metrics.storage_meter();
        let titles = Titles::new(storage, &config, &meter);
        let fragments = Fragments::new(config.memory.fragments);
        let manifests = Manifests::new(config.memory.manifests);
        for cache in titles.watch().into_iter().chain([fragments.watch(), manifests.watch()]) {
            metrics.watch(cache);
        }
        Self {
            titles: Arc::new(titles),
            fragments,
            manifests,
            nginx_vod: Arc::new(config.urls.nginx_vod.settings()),
            draining: AtomicBool::new(false),
            media: meter.over(storage, Read::Media),
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
