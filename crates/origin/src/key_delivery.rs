//! Delivers keys to players: to all of them for demonstrations, or to those that send a token.

use crate::{
    Error,
    app::App,
    http::respond::{Representation, decide},
    read::body::Body,
    title::checks::Freshness,
};
use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::Bytes;
use http::{HeaderValue, Method, Response, request::Parts};
use http_body_util::{BodyExt, Limited};
use latemux_packager::{Protection, address::KeyAddress};
use latemux_protect::KeyId;
use serde::Deserialize;
use std::time::Duration;

/// Responds to a request for a key.
pub(crate) async fn respond(
    app: &App,
    request: &Parts,
    wanted: &KeyAddress,
) -> Result<Response<Body>, Error> {
    if app.config.drm.iter().all(|rule| rule.serve_keys.is_none()) {
        return Err(Error::NoSuchUrl);
    }
    let title = app.titles.load(&wanted.base, Freshness::Any).await?;
    let keys = title.keys()?.ok_or(Error::NoSuchUrl)?;
    keys.check_access(&request.headers, &request.uri)?;
    let (content_type, bytes) = match wanted.id {
        Some(id) => {
            let key = keys.protection.key(id).ok_or(Error::NoSuchKey)?;
            ("application/octet-stream", Bytes::copy_from_slice(key.key().expose()))
        }
        None => {
            let licence = request.extensions.get().ok_or(Error::BadLicenceRequest)?;
            ("application/json", licence_of(&keys.protection, licence)?.into())
        }
    };
    let no_store = Some(HeaderValue::from_static("no-store"));
    let representation = Representation::fixed(content_type, bytes.len() as u64, None, no_store);
    Ok(decide(request, &representation)?.respond_from(&bytes))
}

/// Most bytes of the body of a licence request: enough for some hundreds of KIDs.
const MAX_LICENCE_REQUEST: usize = 16 << 10;
/// Longest wait for the body of a licence request.
const LICENCE_REQUEST_WAIT: Duration = Duration::from_secs(5);

/// The body of a request for a licence of Clear Key.
#[derive(Debug, Clone)]
pub(crate) struct LicenceRequest(Bytes);

/// Reads the body of a request for a licence, and adds it to the request's extensions. Bodies of
/// other requests are not read.
pub(crate) async fn with_licence_request<B: BodyExt>(request: http::Request<B>) -> http::Request<()>
where
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (mut parts, body) = request.into_parts();
    if parts.method == Method::POST && KeyAddress::is_licence(parts.uri.path()) {
        let body = Box::pin(Limited::new(body, MAX_LICENCE_REQUEST).collect());
        if let Ok(Ok(body)) = tokio::time::timeout(LICENCE_REQUEST_WAIT, body).await {
            parts.extensions.insert(LicenceRequest(body.to_bytes()));
        }
    }
    http::Request::from_parts(parts, ())
}

/// A request for a licence (Encrypted Media Extensions §9.1.3).
#[derive(Deserialize)]
struct WantedKeys {
    kids: Vec<String>,
}

/// Returns the licence with those of the requested keys that the title has (Encrypted Media
/// Extensions §9.1.4). Fails with [`Error::BadLicenceRequest`] for a request of another form, with
/// [`Error::NoSuchKey`] if the title has none of the keys.
fn licence_of(protection: &Protection, request: &LicenceRequest) -> Result<String, Error> {
    let wanted: WantedKeys = serde_json::from_slice(&request.0).map_err(|_| Error::BadLicenceRequest)?;
    let mut keys = Vec::new();
    for kid in wanted.kids {
        let bytes = URL_SAFE_NO_PAD.decode(kid.trim_end_matches('=')).ok();
        let bytes: [u8; 16] =
            bytes.and_then(|bytes| bytes.try_into().ok()).ok_or(Error::BadLicenceRequest)?;
        let Some(key) = KeyId::new(bytes).and_then(|id| protection.key(id)) else { continue };
        let id = URL_SAFE_NO_PAD.encode(bytes);
        let secret = URL_SAFE_NO_PAD.encode(key.key().expose());
        keys.push(format!(r#"{{"kty":"oct","kid":"{id}","k":"{secret}"}}"#));
    }
    if keys.is_empty() {
        return Err(Error::NoSuchKey);
    }
    Ok(format!(r#"{{"keys":[{}],"type":"temporary"}}"#, keys.join(",")))
}
