//! The JSON responses of the library and of health checks.

use crate::{
    Error,
    app::App,
    http::respond::{Representation, decide, no_cache},
    read::body::Body,
};
use bytes::Bytes;
use http::{Response, StatusCode, request::Parts};

/// Responds with a page of a folder.
pub(crate) async fn library(app: &App, request: &Parts) -> Result<Response<Body>, Error> {
    let page = app.library.parse(request.uri.query())?;
    let json = app.library.page(page).await?;
    respond(request, &json)
}

/// Responds to a health check. A readiness check gets status 503 with the reason for which this
/// process should get no new requests, if there is one.
pub(crate) fn health(app: &App, request: &Parts, is_readiness: bool) -> Result<Response<Body>, Error> {
    let unready = app.unready().filter(|_| is_readiness);
    let text = format!("{{\"status\":\"{}\"}}\n", unready.unwrap_or("ok"));
    let mut response = respond(request, &Bytes::from(text))?;
    if unready.is_some() {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    Ok(response)
}

fn respond(request: &Parts, json: &Bytes) -> Result<Response<Body>, Error> {
    let representation = Representation::fixed("application/json", json.len() as u64, None, no_cache());
    Ok(decide(request, &representation)?.respond_from(json))
}
