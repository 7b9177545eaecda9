//! The HTTP origin: the only crate that knows storage, index and packager.
//!
//! ```text
//! client ──HTTP──► route ──► resolve ──► index ──► plan ──► read ranges ──► package ──► response body
//! ```
//!
//! `serve` reads like that line. What outlives a request is in `app`: remembered indexes (`index`), titles
//! (`titles`), samples of fragments (`fragments`) and manifests (`manifests`), each bounded in bytes.
//!
//! - `route`: every URL in one function
//! - `persisted`: indexes that outlive the process
//! - `write_index`: index MP4s written beside their media
//! - `resolve`: which objects a base names
//! - `manifest_tracks`: which tracks the elements of a server manifest name
//! - `places`: where names in files lead, and whether they may
//! - `fetch`, `reader`: the byte ranges of a response, by few requests to storage that start at once
//! - `prefetch`: the same of segments that are not asked for yet
//! - `body`: the response's bytes, polled by the connection
//! - `gather`: frames that are ready together, sent by one write
//! - `offline`: segments without a client, for files of them
//! - `respond`: conditions, ranges, caching, CORS
//! - `error`: the one table from errors to status codes
//! - `server`, `stall`, `streams`, `tls`: connections and their limits
//! - `trace`, `metrics`, `access`: what happened for one request, and for all of them
//! - `admin`: the address where that can be read
//! - `page`, `library`: the player page and what it lists

mod admin;
mod app;
pub mod config;
pub mod error;
mod http;
mod observe;
mod read;
mod route;
mod serve;
mod title;

pub use config::OriginConfig;
pub use error::Error;
pub use http::listen::listen;
pub use http::tls::{Tls, TlsError};
pub use read::offline::SegmentBytes;
pub use title::index::Object;
pub use title::places::{Place, relative_url};
pub use title::titles::LoadedTitle;

use crate::http::server::Server;
use app::App;
use latemux_cache::{Cache, Records};
use latemux_storage::{Options, Storage, write::ConditionalPut};
use std::{future::Future, io, sync::Arc};
use title::titles::Fresh;
use tokio::net::TcpListener;

/// What an origin may use besides its storage.
#[derive(Debug, Default)]
pub struct Means {
    /// Keeps what is read of media.
    pub cache: Option<Cache>,
    /// Keeps indexes for the next process.
    pub indexes: Option<Records>,
    /// Where index MP4s can be written: the storage that is served. Nothing is unless the configuration says so (`index.write`).
    pub write: Option<Arc<dyn ConditionalPut>>,
    /// How what index MP4s and server manifests name elsewhere is reached.
    pub elsewhere: Options,
}

/// An origin over one storage. Cheap to clone: clones share all that is remembered.
#[derive(Debug, Clone)]
pub struct Origin {
    app: Arc<App>,
}

impl Origin {
    /// An origin that has read nothing yet.
    #[must_use]
    pub fn new(storage: Arc<dyn Storage>, config: OriginConfig) -> Self {
        Self::with(storage, Means::default(), config)
    }

    /// The same, with means of its own.
    #[must_use]
    pub fn with(storage: Arc<dyn Storage>, means: Means, config: OriginConfig) -> Self {
        Self { app: Arc::new(App::new(storage, means, config)) }
    }

    /// Serves a listener until `shutdown` resolves, then lets open answers end within the configured time.
    ///
    /// # Errors
    /// None today; a listener that can no longer accept may become one.
    pub async fn serve(
        &self,
        listener: TcpListener,
        tls: Option<Tls>,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let app = self.app.clone();
        let server = Server {
            handler: move |request| {
                let app = app.clone();
                async move { serve::handle(&app, request).await }
            },
            config: self.app.config.http.clone(),
            metrics: self.app.metrics.clone(),
            tls,
        };
        let drain = async {
            shutdown.await;
            self.app.drain();
        };
        server.run(listener, drain).await;
        Ok(())
    }

    /// Answers one request that came some other way than over a listener of [`Self::serve`]. The body reads as it is polled, and
    /// ends early only with an error.
    pub async fn answer<B>(
        &self,
        request: ::http::Request<B>,
    ) -> ::http::Response<impl hyper::body::Body<Data = bytes::Bytes, Error = Error> + Send + Unpin + use<B>>
    {
        serve::handle(&self.app, request).await
    }

    /// Serves metrics, health and purging on a listener of their own, for as long as the future is polled. Whoever reaches it
    /// may read and purge: it belongs on an address that clients do not reach.
    pub async fn serve_admin(&self, listener: TcpListener) {
        admin::serve(self.app.clone(), listener).await;
    }

    /// The title of a base (decoded, as it stands in URLs), read from storage where it is not remembered.
    ///
    /// # Errors
    /// What a client would be told.
    pub async fn title(&self, base: &str) -> Result<Arc<LoadedTitle>, Error> {
        self.app.titles.load(base, Fresh::Recent).await
    }
}
