//! The player page: files built into the binary.

use crate::{
    Error,
    http::respond::{Representation, decide, etag, no_cache},
    read::body::Body,
};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, header, request::Parts};
use rust_embed::RustEmbed;
use std::borrow::Cow;

/// The files that `make web` builds. There are none in a build without them.
#[derive(RustEmbed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct Files;

/// Page served by a build without the player page.
const PLACEHOLDER: &str = include_str!("../../../../web/placeholder.html");

/// Content security policy of the page. The page may load only files of this server.
const POLICY: &str = "default-src 'self'; media-src 'self' blob:; worker-src 'self' blob:; img-src 'self' data: blob:; \
                      style-src 'self' 'unsafe-inline'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'";

/// Responds with a file of the page.
pub(crate) fn respond(request: &Parts, path: &str) -> Result<Response<Body>, Error> {
    let (bytes, hash) = match Files::get(path) {
        Some(file) => {
            let bytes = match file.data {
                Cow::Borrowed(bytes) => Bytes::from_static(bytes),
                Cow::Owned(bytes) => Bytes::from(bytes),
            };
            (bytes, file.metadata.sha256_hash())
        }
        // Any constant will do: the placeholder never changes within a build, and the hash of a
        // real page differs from it.
        None if path == "index.html" => (Bytes::from_static(PLACEHOLDER.as_bytes()), [0; 32]),
        None => return Err(Error::NoSuchUrl),
    };
    let digest = hash.first_chunk::<16>().map_or(0, |b| u128::from_be_bytes(*b));
    let etag = Some(etag(digest, ""));
    let representation = Representation::fixed(content_type(path), bytes.len() as u64, etag, no_cache());
    let mut response = decide(request, &representation)?.respond_from(&bytes);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(HeaderName::from_static("referrer-policy"), HeaderValue::from_static("no-referrer"));
    Ok(response)
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "json" | "map" => "application/json",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "wasm" => "application/wasm",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
