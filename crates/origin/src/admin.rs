//! The admin address: metrics, health checks and purging, on a listener of its own. The public
//! listener serves none of these URLs, except for health checks.

use crate::{
    app::App, http::listen::Acceptor, http::stall::StallTimeout, observe::metrics, read::body::Body,
    title::index_store::PurgeCounts,
};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use percent_encoding::percent_decode_str;
use serde::Serialize;
use std::{convert::Infallible, sync::Arc};
use tokio::net::{TcpListener, TcpStream};

/// Most connections at one time: enough for a few scrapers, a load balancer and an operator.
const MAX_CONNECTIONS: usize = 64;

/// Serves for as long as the future is polled, also while the public listener drains. Connections
/// end with the runtime.
pub(crate) async fn serve(app: Arc<App>, listener: TcpListener) {
    let mut acceptor = Acceptor::new(listener, MAX_CONNECTIONS);
    loop {
        let Some((stream, _, slot)) = acceptor.accept().await else { continue };
        let app = app.clone();
        tokio::spawn(async move {
            connection(&app, stream).await;
            drop(slot);
        });
    }
}

async fn connection(app: &Arc<App>, stream: TcpStream) {
    let config = &app.config.http;
    let stream = StallTimeout::new(stream, config.header_timeout, config.stall_timeout);
    let service = service_fn(|request: Request<hyper::body::Incoming>| async move {
        Ok::<_, Infallible>(handle(app, request.method(), request.uri(), request.headers()).await)
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(config.header_timeout);
    if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(reason = "connection", "admin: {error}");
    }
}

/// Responds to every URL of the admin address.
async fn handle(app: &App, method: &Method, uri: &Uri, headers: &HeaderMap) -> Response<Body> {
    let allowed = if uri.path() == "/purge" { "POST" } else { "GET, HEAD" };
    match (uri.path(), method) {
        ("/metrics", &Method::GET | &Method::HEAD) => {
            respond(StatusCode::OK, metrics::CONTENT_TYPE, metrics::expose(&app.metrics))
        }
        ("/healthz/live", &Method::GET | &Method::HEAD) => status(StatusCode::OK, "ok"),
        ("/healthz/ready", &Method::GET | &Method::HEAD) => match app.unready() {
            Some(why) => status(StatusCode::SERVICE_UNAVAILABLE, why),
            None => status(StatusCode::OK, "ok"),
        },
        // Browsers send Origin. A page must not be able to purge from an operator's machine.
        ("/purge", &Method::POST) if headers.contains_key(header::ORIGIN) => {
            status(StatusCode::FORBIDDEN, "purging from a web page is not allowed")
        }
        ("/purge", &Method::POST) => match purge_base(uri) {
            Some(base) => json(StatusCode::OK, &purge(app, base).await),
            None => status(StatusCode::BAD_REQUEST, "name a title: /purge?base=PATH"),
        },
        ("/metrics" | "/healthz/live" | "/healthz/ready" | "/purge", _) => {
            let mut response = status(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
            response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
            response
        }
        _ => status(StatusCode::NOT_FOUND, "no such URL"),
    }
}

/// Returns the base that the query names, decoded.
fn purge_base(uri: &Uri) -> Option<String> {
    let value = uri.query()?.split('&').find_map(|pair| pair.strip_prefix("base="))?;
    let base = percent_decode_str(value).decode_utf8().ok()?;
    Some(base.trim_matches('/').to_owned())
}

/// Number of entries that were purged, by kind.
#[derive(Debug, Serialize)]
struct Purged {
    base: String,
    titles: u64,
    indexes: u64,
    indexes_on_disk: u64,
    manifests: u64,
    ranges: u64,
}

async fn purge(app: &App, base: String) -> Purged {
    let (title, PurgeCounts { indexes, indexes_on_disk, ranges }) = app.titles.purge(&base).await;
    let manifests = title.map_or(0, |id| app.manifests.purge(id));
    tracing::info!(reason = "purge", title = base, indexes, indexes_on_disk, manifests, ranges, "purged");
    Purged { base, titles: u64::from(title.is_some()), indexes, indexes_on_disk, manifests, ranges }
}

fn status(code: StatusCode, word: &str) -> Response<Body> {
    #[derive(Serialize)]
    struct Status<'a> {
        status: &'a str,
    }
    json(code, &Status { status: word })
}

fn json(code: StatusCode, value: &impl Serialize) -> Response<Body> {
    let mut line = serde_json::to_string(value).unwrap_or_default();
    line.push('\n');
    respond(code, "application/json", line)
}

fn respond(code: StatusCode, content_type: &'static str, text: String) -> Response<Body> {
    let mut response = Response::new(Body::full(text.into()));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}
