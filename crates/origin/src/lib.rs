//! The HTTP origin: the only library crate that uses storage, index and packager together.
//!
//! ```text
//! client ──HTTP──► route ──► title ──► plan ──► read ──► respond ──HTTP──► client
//! ```
//!
//! The functions of `serve` follow these stages. `app` holds the state that outlives a request:
//! titles, indexes, fragments and manifests in memory, each bounded in bytes.
//!
//! - `route`: from a URL to the resource that it requests
//! - `title`: from a base to a title: its files, their indexes, and the caches of both
//! - `read`: reads from storage, and the response bodies made of them
//! - `http`: connections and their limits, responses, manifests, the player page
//! - `observe`: access log, debug headers, metrics
//! - `keys`: keys of encrypted titles; `key_delivery` serves them
//! - `health`: the causes for which this process should get no requests
//! - `error`: the one table from errors to status codes
//! - `api`: library and health, as JSON
//! - `admin`: metrics, health and purging on an address of their own
//! - `offline`: segments for commands that write files
//!
//! The packager makes the plans.

mod admin;
mod api;
mod app;
pub mod config;
pub mod error;
mod health;
mod http;
mod key_delivery;
mod keys;
mod observe;
mod offline;
mod read;
mod route;
mod serve;
mod title;

pub use admin::token::AdminToken;
pub use app::Resources;
pub use config::OriginConfig;
pub use error::Error;
pub use http::listen::{Listener, listen, listen_unix, listen_unix_for_all};
pub use http::tls::{Tls, TlsError};
pub use offline::SegmentBytes;
pub use title::cut_box_maker::{CutBoxMade, MediaOfIndex, make_cut_box};
pub use title::index_reader::IndexReader;
pub use title::indexed::IndexedObject;
pub use title::loaded_title::LoadedTitle;
pub use title::references::relative_url;

use crate::http::{connections::Connection, host::check_host, respond::error_response, server::Server};
use ::http::{HeaderValue, Version, header, request::Parts};
use app::{App, pause_stalled, probe_storage};
use arc_swap::ArcSwap;
use latemux_storage::{Storage, client::on_behalf_of};
use observe::{access::AccessLog, metrics::Reloaded, trace::Trace};
use read::{body::Body, charge::Charge};
use route::is_health_check;
use std::{future::Future, io, net::IpAddr, sync::Arc};
use title::checks::Freshness;
use tokio::{sync::watch, task::JoinSet};

/// Checks that the keys of all rules of a configuration can be read.
///
/// # Errors
/// A sentence for the operator that names the rule. It holds no key.
pub fn check_keys(config: &OriginConfig) -> Result<(), String> {
    keys::KeyRules::new(&config.drm).check()
}

/// An origin over one storage. Clones share all state.
#[derive(Debug, Clone)]
pub struct Origin {
    /// The state for the current configuration. Each request loads it once.
    app: Arc<ArcSwap<App>>,
}

impl Origin {
    /// Creates an origin without a range cache. It reads nothing until the first request.
    pub fn new(storage: Arc<dyn Storage>, config: OriginConfig) -> Self {
        Self::with_resources(storage, Resources::default(), config)
    }

    /// Creates an origin with resources besides its storage, such as a range cache.
    pub fn with_resources(storage: Arc<dyn Storage>, resources: Resources, config: OriginConfig) -> Self {
        Self { app: Arc::new(ArcSwap::from_pointee(App::new(storage, resources, config))) }
    }

    /// Replaces the storage and the configuration for all requests that follow, also those on open
    /// connections. Responses that have begun go on as they are. Titles in memory are loaded anew.
    ///
    /// Some settings keep their values: [`config::HttpConfig::max_connections`],
    /// [`config::HttpConfig::max_connections_per_address`] and [`config::MemoryConfig::responses`].
    pub fn reconfigure(&self, storage: Arc<dyn Storage>, resources: Resources, config: OriginConfig) {
        let app = self.app.load_full().reconfigured(storage, resources, config);
        self.app.store(Arc::new(app));
    }

    /// Counts a reload of the configuration in the metrics: one that was carried out, or refused
    /// because of a mistake.
    pub fn count_reload(&self, was_accepted: bool) {
        let result = if was_accepted { Reloaded::Reloaded } else { Reloaded::Refused };
        self.app().metrics.reloads.count(result);
    }

    fn app(&self) -> Arc<App> {
        self.app.load_full()
    }

    /// Serves a listener until `shutdown` resolves. Open responses then get at most
    /// [`config::HttpConfig::drain_timeout`] to end.
    ///
    /// # Errors
    /// Returns no error today. A later version may return one for a listener that can no longer
    /// accept connections.
    pub async fn serve(
        &self,
        listener: impl Into<Listener>,
        tls: Option<Tls>,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        self.serve_all(vec![listener.into()], tls, shutdown).await
    }

    /// Serves several listeners at once, like [`serve`](Self::serve).
    ///
    /// # Errors
    /// Returns no error today, like [`serve`](Self::serve).
    pub async fn serve_all(
        &self,
        listeners: Vec<Listener>,
        tls: Option<Tls>,
        shutdown: impl Future<Output = ()>,
    ) -> io::Result<()> {
        let live = self.app.clone();
        let current = move || {
            let app = live.load_full();
            let live = live.clone();
            Server {
                handler: move |request: ::http::Request<hyper::body::Incoming>,
                               connection: Arc<Connection>| {
                    let app = live.load_full();
                    async move {
                        let request = key_delivery::with_licence_request(request).await;
                        respond(&app, request, Some(&*connection)).await
                    }
                },
                config: app.config.http.clone(),
                metrics: app.metrics.clone(),
                clients: app.clients.clone(),
                connections: app.connections.clone(),
                tls: tls.clone(),
            }
        };
        let (stop, stopped) = watch::channel(());
        let drain = async {
            shutdown.await;
            self.app().health.drain();
            drop(stop);
        };
        let run = |listener| {
            let mut stopped = stopped.clone();
            Server::run(current.clone(), listener, async move {
                // Nothing is sent: the channel closes.
                let _ = stopped.changed().await;
            })
        };
        // Connections are accepted on the threads that serve them. A thread of its own would accept
        // many of them before these threads have begun to serve one.
        let served = listeners.into_iter().map(run).collect::<JoinSet<()>>().join_all();
        tokio::select! {
            _ = async { tokio::join!(served, drain) } => Ok(()),
            () = pause_stalled(&self.app) => Ok(()),
            () = probe_storage(&self.app) => Ok(()),
        }
    }

    /// Responds to one request without a listener. The body reads from storage as it is polled, and
    /// ends early only with an error.
    pub async fn respond<B>(
        &self,
        request: ::http::Request<B>,
    ) -> ::http::Response<impl hyper::body::Body<Data = bytes::Bytes, Error = Error> + Send + Unpin + use<B>>
    {
        respond(&self.app(), request, None).await.0
    }

    /// Serves metrics, health and purging on a listener of their own, until the future is dropped.
    /// Without a token, anyone who can reach the listener may purge, so its address must not be
    /// public.
    pub async fn serve_admin(&self, listener: impl Into<Listener>, token: Option<AdminToken>) {
        admin::serve(self.app.clone(), listener.into(), token).await;
    }

    /// Makes `/healthz/ready` fail, and then waits for [`config::HttpConfig::drain_delay`], so that
    /// load balancers can take this process out of use before [`Self::serve`] is told to stop.
    pub async fn drain(&self) {
        let app = self.app();
        app.health.drain();
        tokio::time::sleep(app.config.http.drain_delay).await;
    }

    /// Sets whether storage has been reached since the start. Until then, `/healthz/ready` fails.
    /// An origin starts as if it had been.
    pub fn set_storage_reached(&self, is_reached: bool) {
        self.app().health.set_storage_reached(is_reached);
    }

    /// Returns the title of a base (decoded, as it stands in URLs), from memory or storage.
    ///
    /// # Errors
    /// Returns the error that a client would get for the title's manifests.
    pub async fn title(&self, base: &str) -> Result<Arc<LoadedTitle>, Error> {
        let app = self.app();
        let loaded = app.titles.load(base, Freshness::Recent).await?;
        app.titles.forget_values(&loaded);
        Ok(loaded)
    }
}

/// Responds to a request, with an error response if it fails. The request is logged once the body
/// of the response has ended. `connection` is the one on which the request came, if any. Also
/// returns what the response keeps in memory.
async fn respond<B>(
    app: &App,
    request: ::http::Request<B>,
    connection: Option<&Connection>,
) -> (::http::Response<Body>, Arc<Charge>) {
    let trace = Trace::start(app.metrics.clone(), app.config.debug_headers);
    let client = connection.map(|connection| app.clients.find(connection.peer, request.headers()));
    let mut log = AccessLog::start(trace.clone(), request.into_parts().0, client);
    let admitted = match connection.zip(client) {
        Some((connection, client)) => admit(app, log.request(), connection, client),
        // Requests without a connection come from this process itself.
        None => Ok(Arc::default()),
    };
    let (charge, result) = match admitted {
        Ok(charge) => {
            let served = trace.scope(serve::serve(app, log.request(), &charge));
            let result = on_behalf_of(charge.client(), served).await;
            (charge, result)
        }
        Err(refusal) => (Arc::default(), Err(refusal)),
    };
    let mut response = result.unwrap_or_else(|error| {
        log.record_error_response(&error);
        error_response(&error, &log.request().method)
    });
    if app.config.debug_headers {
        trace.add_debug_headers(response.headers_mut());
    }
    if connection.is_some_and(|connection| connection.is_reserved)
        && log.request().version <= Version::HTTP_11
    {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    log.record_status(response.status());
    (response.map(|body| body.logged(log, charge.clone())), charge)
}

/// Admits a request within the limits for its client. Health checks have none.
fn admit(app: &App, request: &Parts, connection: &Connection, client: IpAddr) -> Result<Arc<Charge>, Error> {
    check_host(request)?;
    let is_health_check = is_health_check(request.uri.path());
    if connection.is_reserved && !is_health_check {
        return Err(Error::TooManyConnections);
    }
    let share = if client == connection.peer {
        connection.room.peer().clone()
    } else {
        app.connections.share_of(client)
    };
    let charge = Charge::begin(connection.room.clone(), share, app.config.http.max_requests_per_address);
    if is_health_check { Ok(charge.unwrap_or_default()) } else { charge }
}
