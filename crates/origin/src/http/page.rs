//! The player page: files built into the binary, compressed.

use crate::{
    Error,
    http::respond::{Coding, Representation, accepts_gzip, decide, etag, no_cache},
    read::body::Body,
};
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{HeaderName, HeaderValue, Response, header, request::Parts};
use std::{io::Read, sync::OnceLock};

/// A file of the page.
struct File {
    path: &'static str,
    /// Hash of its text.
    digest: u128,
    gzip: &'static [u8],
    /// Its text, since the first client that does not accept gzip.
    plain: OnceLock<Bytes>,
}

// `FILES`: what `make web` builds. There are none in a build without it.
include!(concat!(env!("OUT_DIR"), "/page_files.rs"));

impl File {
    const fn new(path: &'static str, digest: u128, gzip: &'static [u8]) -> Self {
        Self { path, digest, gzip, plain: OnceLock::new() }
    }

    fn plain(&self) -> Bytes {
        let decompress = || {
            let mut plain = Vec::new();
            // The build has compressed it, so it is well-formed.
            let _ = GzDecoder::new(self.gzip).read_to_end(&mut plain);
            plain.into()
        };
        self.plain.get_or_init(decompress).clone()
    }
}

/// Page served by a build without the player page.
const PLACEHOLDER: &str = include_str!("../../../../web/placeholder.html");

/// Content security policy of the page. The page may load only files of this server.
const POLICY: &str = "default-src 'self'; media-src 'self' blob: data:; worker-src 'self' blob:; img-src 'self' data: blob:; \
                      style-src 'self' 'unsafe-inline'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'";

/// Responds with a file of the page.
pub(crate) fn respond(request: &Parts, path: &str) -> Result<Response<Body>, Error> {
    let file = FILES.iter().find(|file| file.path == path);
    // Ranges count bytes of the text.
    let is_gzip = accepts_gzip(&request.headers) && !request.headers.contains_key(header::RANGE);
    let (bytes, digest, coding) = match file {
        Some(file) if is_gzip => (Bytes::from_static(file.gzip), file.digest, Coding::Gzip),
        Some(file) => (file.plain(), file.digest, Coding::Identity),
        // Any constant will do: the placeholder never changes within a build, and the hash of a
        // real page differs from it.
        None if path == "index.html" => (Bytes::from_static(PLACEHOLDER.as_bytes()), 0, Coding::Fixed),
        None => return Err(Error::NoSuchUrl),
    };
    let representation = Representation {
        content_type: content_type(path),
        length: bytes.len() as u64,
        etag: Some(etag(digest, if coding == Coding::Gzip { "-gz" } else { "" })),
        cache_control: no_cache(),
        coding,
    };
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
