//! The player page: files built into the binary.

use crate::{
    Error,
    http::respond::{Coding, Representation, ResponseHead, decide, etag, no_cache},
    read::body::Body,
};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, header, request::Parts};
use rust_embed::RustEmbed;
use std::borrow::Cow;

/// The files built by `make web`. Empty in a build without them.
#[derive(RustEmbed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct Files;

/// Page served by a build without the player page.
const PLACEHOLDER: &str = include_str!("../../../../web/placeholder.html");

/// Restricts the page to files of this server, so that it plays without other hosts and no other
/// site can inject anything.
const POLICY: &str = "default-src 'self'; media-src 'self' blob:; worker-src 'self' blob:; img-src 'self' data: blob:; \
                      style-src 'self' 'unsafe-inline'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'";

/// Responds with a file of the page.
///
/// # Errors
/// Returns [`Error::NoSuchUrl`] if there is no such file, and the errors of [`decide`].
pub(crate) fn respond(request: &Parts, path: &str) -> Result<Response<Body>, Error> {
    let (bytes, hash) = match Files::get(path) {
        Some(file) => {
            let bytes = match file.data {
                Cow::Borrowed(bytes) => Bytes::from_static(bytes),
                Cow::Owned(bytes) => Bytes::from(bytes),
            };
            (bytes, file.metadata.sha256_hash())
        }
        // A build with the page has another hash, and within a build the placeholder never changes.
        None if path == "index.html" => (Bytes::from_static(PLACEHOLDER.as_bytes()), [0; 32]),
        None => return Err(Error::NoSuchUrl),
    };
    let digest = hash.first_chunk::<16>().map_or(0, |b| u128::from_be_bytes(*b));
    let representation = Representation {
        content_type: content_type(path),
        length: bytes.len() as u64,
        etag: Some(etag(digest, "")),
        cache_control: no_cache(),
        coding: Coding::Fixed,
    };
    let mut response = small(decide(request, &representation)?, &bytes);
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(HeaderName::from_static("referrer-policy"), HeaderValue::from_static("no-referrer"));
    Ok(response)
}

/// Makes a response whose bytes are in memory.
pub(crate) fn small(head: ResponseHead, bytes: &Bytes) -> Response<Body> {
    let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(bytes.len());
    let body = head.window.clone().map(|w| Body::full(bytes.slice(index(w.start)..index(w.end))));
    head.respond(body.unwrap_or_else(Body::empty))
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
