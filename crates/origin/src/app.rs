//! The wiring: what a request may use, made once.

use crate::{OriginConfig, fragments::Fragments, manifests::Manifests, titles::Titles};
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
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) titles: Arc<Titles>,
    pub(crate) fragments: Fragments,
    pub(crate) manifests: Manifests,
    draining: AtomicBool,
}

impl App {
    pub(crate) fn new(storage: Arc<dyn Storage>, config: OriginConfig) -> Self {
        Self {
            titles: Arc::new(Titles::new(storage.clone(), &config)),
            fragments: Fragments::new(config.memory.fragments),
            manifests: Manifests::new(config.memory.manifests),
            nginx_vod: Arc::new(config.urls.nginx_vod.settings()),
            draining: AtomicBool::new(false),
            storage,
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
