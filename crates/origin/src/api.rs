//! The JSON responses of the library and of health checks.

use crate::{
    Error,
    app::App,
    http::respond::{Representation, decide, no_cache},
    read::body::Body,
    title::library::find_titles,
};
use bytes::Bytes;
use http::{Response, StatusCode, request::Parts};
use latemux_storage::Storage;
use std::time::Duration;
use tokio::{sync::Mutex, time::Instant};

/// Responds with the titles of the storage.
pub(crate) async fn library(app: &App, request: &Parts) -> Result<Response<Body>, Error> {
    let json = app.library.get(&*app.storage).await?;
    respond(request, &json)
}

/// The library as JSON, kept for some time: finding it may take hundreds of listings.
#[derive(Debug)]
pub(crate) struct LibraryCache {
    /// The text and the time at which it was made. Only one request at a time makes it.
    made: Mutex<Option<(Instant, Bytes)>>,
    kept_for: Duration,
}

impl LibraryCache {
    pub(crate) fn new(kept_for: Duration) -> Self {
        Self { made: Mutex::new(None), kept_for }
    }

    async fn get(&self, storage: &dyn Storage) -> Result<Bytes, Error> {
        let mut made = self.made.lock().await;
        if let Some((_, json)) = made.as_ref().filter(|(since, _)| since.elapsed() < self.kept_for) {
            return Ok(json.clone());
        }
        let library = find_titles(storage).await?;
        let unwritable = |_| Error::Internal("the library cannot be written as JSON");
        let json = Bytes::from(serde_json::to_vec(&library).map_err(unwritable)?);
        *made = Some((Instant::now(), json.clone()));
        Ok(json)
    }
}

/// Responds to a health check. A readiness check gets status 503 while the process drains, and
/// while storage has not been reached since the start.
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
