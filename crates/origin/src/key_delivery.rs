//! Delivery of keys to players, for demonstrations and for players behind a login of one's own.

use crate::{
    Error,
    app::App,
    http::respond::{Representation, decide},
    read::body::Body,
    title::checks::Freshness,
};
use bytes::Bytes;
use http::{HeaderValue, Response, request::Parts};
use latemux_packager::address::KeyAddress;

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
    let key = keys.protection.key(wanted.id).ok_or(Error::NoSuchKey)?;
    let bytes = Bytes::copy_from_slice(key.key().expose());
    let no_store = Some(HeaderValue::from_static("no-store"));
    let representation =
        Representation::fixed("application/octet-stream", bytes.len() as u64, None, no_store);
    Ok(decide(request, &representation)?.respond_from(&bytes))
}
