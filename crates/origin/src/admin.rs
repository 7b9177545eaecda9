//! The admin address: metrics, health checks and purging, on a listener of its own. The public
//! listener serves none of these URLs, except for health checks.

mod purge;
pub(crate) mod token;

use crate::{
    app::App,
    http::host::check_host,
    http::listen::{Listener, Stream},
    http::pace::PaceLimits,
    http::refusal::ExplainedRefusals,
    http::stall::StallTimeout,
    observe::metrics,
    read::body::Body,
};
use arc_swap::ArcSwap;
use http::{HeaderValue, Method, Request, Response, StatusCode, header, request::Parts};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use purge::{PurgeRequest, purge};
use serde::Serialize;
use std::{convert::Infallible, sync::Arc, time::Duration};
use token::AdminToken;
use tokio::sync::Semaphore;

/// Most connections at one time: enough for a few scrapers, a load balancer and an operator.
const MAX_CONNECTIONS: usize = 64;
/// Pause after a failure to accept a connection.
const PAUSE: Duration = Duration::from_millis(50);

/// Serves for as long as the future is polled, also while the public listener drains. Connections
/// end with the runtime.
pub(crate) async fn serve(app: Arc<ArcSwap<App>>, listener: Listener, token: Option<AdminToken>) {
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let admin = Arc::new(Admin { app, token });
    // The semaphore is never closed.
    while let Ok(slot) = slots.clone().acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(reason = "accept", error = error.to_string(), "admin");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let admin = admin.clone();
        tokio::spawn(async move {
            admin.connection(stream).await;
            drop(slot);
        });
    }
}

/// What all connections share.
#[derive(Debug)]
struct Admin {
    app: Arc<ArcSwap<App>>,
    /// Token that requests need, except for health checks.
    token: Option<AdminToken>,
}

impl Admin {
    async fn connection(&self, stream: Stream) {
        let app = self.app.load_full();
        let config = &app.config.http;
        let pace = PaceLimits { stall_timeout: config.stall_timeout, min_rate: 0 };
        let stream = StallTimeout::new(stream, config.header_timeout, pace, None);
        let stream = ExplainedRefusals::unobserved(stream);
        let service = service_fn(|request: Request<hyper::body::Incoming>| async move {
            Ok::<_, Infallible>(self.respond(&request.into_parts().0).await)
        });
        let mut builder = http1::Builder::new();
        builder.timer(TokioTimer::new()).header_read_timeout(config.header_timeout);
        if let Err(error) = builder.serve_connection(TokioIo::new(stream), service).await {
            tracing::debug!(reason = "connection", "admin: {error}");
        }
    }

    /// Responds to every URL of the admin address.
    async fn respond(&self, request: &Parts) -> Response<Body> {
        let app = self.app.load_full();
        if let Err(error) = check_host(request) {
            return status(StatusCode::BAD_REQUEST, &error.to_string());
        }
        let path = request.uri.path();
        let is_health = matches!(path, "/healthz/live" | "/healthz/ready");
        if !is_health && self.token.as_ref().is_some_and(|token| !token.is_in(&request.headers)) {
            let mut response = status(StatusCode::UNAUTHORIZED, "the request needs the admin token");
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            return response;
        }
        let allowed = if path == "/purge" { "POST" } else { "GET, HEAD" };
        match (path, &request.method) {
            ("/metrics", &Method::GET | &Method::HEAD) => {
                respond(StatusCode::OK, metrics::CONTENT_TYPE, metrics::expose(&app.metrics))
            }
            ("/healthz/live", &Method::GET | &Method::HEAD) => status(StatusCode::OK, "ok"),
            ("/healthz/ready", &Method::GET | &Method::HEAD) => match app.unready() {
                Some(why) => status(StatusCode::SERVICE_UNAVAILABLE, why),
                None => status(StatusCode::OK, "ok"),
            },
            // Browsers send Origin. A page must not be able to purge from an operator's machine.
            ("/purge", &Method::POST) if request.headers.contains_key(header::ORIGIN) => {
                status(StatusCode::FORBIDDEN, "purging from a web page is not allowed")
            }
            ("/purge", &Method::POST) => match PurgeRequest::parse(&request.uri) {
                Some(wanted) => json(StatusCode::OK, &purge(&app, wanted).await),
                None => status(
                    StatusCode::BAD_REQUEST,
                    "name a title or a prefix: /purge?base=PATH or /purge?prefix=PATH",
                ),
            },
            ("/metrics" | "/healthz/live" | "/healthz/ready" | "/purge", _) => {
                let mut response = status(StatusCode::METHOD_NOT_ALLOWED, "method not allowed");
                response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(allowed));
                response
            }
            _ => status(StatusCode::NOT_FOUND, "no such URL"),
        }
    }
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
