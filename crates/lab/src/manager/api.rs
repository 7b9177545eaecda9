//! The workflow API over HTTP.

use super::{Manager, Refusal};
use crate::nbmp::MAX_DOCUMENT;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{
    Method, Request, Response,
    body::{Bytes, Incoming},
    header::{ALLOW, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, LOCATION, RETRY_AFTER},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use std::{convert::Infallible, io, sync::Arc, time::Duration};
use tokio::{net::TcpListener, sync::Semaphore, time::timeout};

/// The path of all workflows.
const WORKFLOWS: &str = "/v2/workflows";

/// The media type of workflow documents. A page of another origin may not send it (CORS), so a
/// browser on this machine starts no workflows.
const MEDIA_TYPE: &str = "application/mpeg-nbmp-wdd+json";

/// The longest time in which a request must arrive.
const REQUEST_WAIT: Duration = Duration::from_secs(30);

/// The most connections at a time.
const MAX_CONNECTIONS: usize = 64;

/// Serves the workflow API. Drop the future to stop.
///
/// # Errors
/// If the listener fails, for instance because it is not on a loopback address.
pub async fn serve(listener: std::net::TcpListener, manager: Arc<Manager>) -> io::Result<()> {
    if !listener.local_addr()?.ip().is_loopback() {
        return Err(io::Error::other("the workflow API is served on loopback addresses only"));
    }
    listener.set_nonblocking(true)?;
    let listener = TcpListener::from_std(listener)?;
    let connections = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let permit = Arc::clone(&connections).acquire_owned().await.map_err(io::Error::other)?;
        let Ok((stream, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let manager = Arc::clone(&manager);
        tokio::spawn(async move {
            let answer = service_fn(|request| respond(request, &manager));
            let mut server = http1::Builder::new();
            server.timer(TokioTimer::new()).header_read_timeout(REQUEST_WAIT);
            // The client has closed the connection, or sent something else than HTTP.
            let _ = server.serve_connection(TokioIo::new(stream), answer).await;
            drop(permit);
        });
    }
}

async fn respond(request: Request<Incoming>, manager: &Manager) -> Result<Response<Full<Bytes>>, Infallible> {
    Ok(answer(request, manager).await.unwrap_or_else(|refusal| refused(&refusal)))
}

async fn answer(request: Request<Incoming>, manager: &Manager) -> Result<Response<Full<Bytes>>, Refusal> {
    check_host(request.headers())?;
    let path = request.uri().path().to_owned();
    let rest = path.strip_prefix(WORKFLOWS).ok_or_else(|| Refusal::new(404, "unknown path"))?;
    let id = match rest.strip_prefix('/') {
        None if rest.is_empty() => None,
        Some("") => None,
        Some(id) if !id.contains('/') => Some(id),
        _ => return Err(Refusal::new(404, "unknown path")),
    };
    match (request.method(), id) {
        (&Method::POST, None) => {
            let created = manager.create(&document(request).await?)?;
            let id = serde_json::from_str::<serde_json::Value>(&created).unwrap_or_default();
            let id = id["general"]["id"].as_str().unwrap_or_default().to_owned();
            let mut response = with(201, MEDIA_TYPE, created);
            if let Ok(location) = HeaderValue::try_from(format!("{WORKFLOWS}/{id}")) {
                response.headers_mut().insert(LOCATION, location);
            }
            Ok(response)
        }
        (&Method::GET, Some(id)) => Ok(with(200, MEDIA_TYPE, manager.get(id)?)),
        (&Method::DELETE, Some(id)) => {
            manager.delete(id).await?;
            Ok(with(204, MEDIA_TYPE, String::new()))
        }
        (method, id) => {
            let mut response = refused(&Refusal::new(405, format!("{method} is not supported")));
            let allowed = if id.is_some() { "GET, DELETE" } else { "POST" };
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
            Ok(response)
        }
    }
}

/// Refuses requests for another host: a name that leads to this machine may belong to anybody.
fn check_host(headers: &HeaderMap) -> Result<(), Refusal> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|digit| digit.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<std::net::IpAddr>();
    match name == "localhost" || address.is_ok_and(|address| address.is_loopback()) {
        true => Ok(()),
        false => Err(Refusal::new(403, "the Host is not localhost or a loopback address")),
    }
}

/// Reads the document of a request.
async fn document(request: Request<Incoming>) -> Result<Bytes, Refusal> {
    let media_type = request.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    if media_type.is_none_or(|value| value.split(';').next().map(str::trim) != Some(MEDIA_TYPE)) {
        return Err(Refusal::new(415, format!("the Content-Type is not {MEDIA_TYPE}")));
    }
    let body = Limited::new(request.into_body(), MAX_DOCUMENT).collect();
    match timeout(REQUEST_WAIT, body).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
            Err(Refusal::new(413, format!("the document has more than {MAX_DOCUMENT} bytes")))
        }
        Ok(Err(_)) => Err(Refusal::new(400, "the document is not complete")),
        Err(_) => Err(Refusal::new(408, "the document does not arrive")),
    }
}

fn with(status: u16, media_type: &'static str, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

/// Returns the response to a request that is refused (RFC 9457).
fn refused(refusal: &Refusal) -> Response<Full<Bytes>> {
    let Refusal { status, detail, retry_after } = refusal;
    let body = json!({ "status": status, "detail": detail }).to_string();
    let mut response = with(*status, "application/problem+json", body);
    if let Some(seconds) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(*seconds));
    }
    response
}
