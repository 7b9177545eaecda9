//! The player page: files built into the binary.

use crate::{
    Error,
    http::respond::{Coding, Head, Representation, decide, etag, no_cache},
    read::body::Body,
};
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Response, header, request::Parts};
use rust_embed::RustEmbed;
use std::borrow::Cow;

/// What `make web` built; nothing where it has not run.
#[derive(RustEmbed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct Files;

/// Stands in for the page in a build without it.
const PLACEHOLDER: &str = include_str!("../../../../web/placeholder.html");

/// All of it comes from here: the page plays where no other host can be reached, and nothing else can be slipped in.
const POLICY: &str = "default-src 'self'; media-src 'self' blob:; worker-src 'self' blob:; img-src 'self' data: blob:; \
                      style-src 'self' 'unsafe-inline'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'";

/// A file of the page.
///
/// # Errors
/// [`Error::NoSuchUrl`], or what the request's conditions say.
pub(crate) fn respond(request: &Parts, path: &str) -> Result<Response<Body>, Error> {
    let (bytes, hash) = match Files::get(path) {
        Some(file) => {
            let bytes = match file.data {
                Cow::Borrowed(bytes) => Bytes::from_static(bytes),
                Cow::Owned(bytes) => Bytes::from(bytes),
            };
            (bytes, file.metadata.sha256_hash())
        }
        // Never changes within a build, and a build with the page differs in its hash.
        None if path == "index.html" => (Bytes::from_static(PLACEHOLDER.as_bytes()), [0; 32]),
        None => return Err(Error::NoSuchUrl),
    };
    let digest = hash.first_chunk::<16>().map_or(0, |b| u128::from_be_bytes(*b));
    let representation = Representation {
        content_type: content_type(path),
        length: u64::try_from(bytes.len()).unwrap_or(u64::MAX),
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

/// An answer whose bytes are at hand.
pub(crate) fn small(head: Head, bytes: &Bytes) -> Response<Body> {
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
