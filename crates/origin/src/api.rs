//! JSON responses that are not about one title: the library and health.

use crate::{
    Error,
    app::App,
    http::page,
    http::respond::{Coding, Representation, decide, no_cache},
    read::body::Body,
    title::library::find_titles,
};
use bytes::Bytes;
use http::{Response, StatusCode, request::Parts};

/// Responds with the titles of the storage.
pub(crate) async fn library(app: &App, request: &Parts) -> Result<Response<Body>, Error> {
    let library = find_titles(&*app.storage).await?;
    let json =
        serde_json::to_vec(&library).map_err(|_| Error::Internal("the library cannot be written as JSON"))?;
    respond(request, &json.into())
}

/// Responds that the process lives. To a readiness check, it responds with 503 while draining.
pub(crate) fn health(app: &App, request: &Parts, is_readiness: bool) -> Result<Response<Body>, Error> {
    let is_refused = is_readiness && app.is_draining();
    let text: &[u8] = if is_refused { b"{\"status\":\"draining\"}\n" } else { b"{\"status\":\"ok\"}\n" };
    let mut response = respond(request, &Bytes::from_static(text))?;
    if is_refused {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    Ok(response)
}

fn respond(request: &Parts, json: &Bytes) -> Result<Response<Body>, Error> {
    let representation = Representation {
        content_type: "application/json",
        length: json.len() as u64,
        etag: None,
        cache_control: no_cache(),
        coding: Coding::Fixed,
    };
    Ok(page::small(decide(request, &representation)?, json))
}
