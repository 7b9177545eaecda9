//! Objects on any HTTP server that supports byte ranges.

mod ahead;
pub(crate) mod client;
mod connection;
pub(crate) mod fetch;
mod framing;
mod index_page;
mod response_head;
pub(crate) mod retry;
mod timed;

use crate::{Key, ListRequest, Listing, Read, ReadRequest, Storage, StorageError};
use client::Client;
use fetch::{BuiltRequest, Fetch, RequestBuilder, RequestSpec};
use futures_util::{FutureExt, future::BoxFuture};
use http::header::{ACCEPT, CONTENT_TYPE, IF_MATCH, RANGE, USER_AGENT};
use http::{Method, StatusCode};
use object_store::client::{HttpRequest, HttpRequestBody};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use std::sync::Arc;
use url::Url;

/// All characters except the unreserved ones of RFC 3986, 2.3. Servers decode them once.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Largest directory listing in bytes.
const INDEX_PAGE: usize = 8 * 1024 * 1024;
/// Least number of names that a larger listing has, if their lines have the usual length.
const LISTED_NAMES: usize = 50_000;
const AGENT: &str = concat!("latemux/", env!("CARGO_PKG_VERSION"));

/// Objects below an `http` or `https` address.
///
/// Redirects are not followed: the configuration decides where bytes come from, not the response of
/// a server. A query in the address, such as a token, is sent with each request and never shown.
#[derive(Debug)]
pub struct HttpServer {
    fetch: Arc<Fetch>,
    base: Base,
}

#[derive(Clone)]
struct Base {
    /// Address of the folder, including its last `/`.
    folder: String,
    query: String,
}

impl std::fmt::Debug for Base {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.folder)
    }
}

impl Base {
    fn address(&self, key: &Key, folder: bool) -> String {
        let mut address = self.folder.clone();
        for (i, segment) in key.as_str().split('/').enumerate() {
            if i > 0 {
                address.push('/');
            }
            address.extend(utf8_percent_encode(segment, ENCODED));
        }
        if folder && !key.as_str().is_empty() {
            address.push('/');
        }
        address + &self.query
    }

    fn finish(
        &self,
        key: &Key,
        request: http::request::Builder,
        folder: bool,
    ) -> Result<HttpRequest, StorageError> {
        let request = request.uri(self.address(key, folder)).header(USER_AGENT, AGENT);
        // An address that is too long for a request line names no object.
        request.body(HttpRequestBody::empty()).map_err(|_| StorageError::NotFound(key.to_string()))
    }
}

impl RequestBuilder for Base {
    fn build<'a>(&'a self, key: &'a Key, spec: RequestSpec) -> BuiltRequest<'a> {
        async move {
            let mut request = http::Request::builder().method(Method::HEAD);
            if let Some((start, end)) = spec.range {
                // The last byte is inclusive; `bytes=0-` extends to the end (RFC 9110, 14.1.2).
                let last = end.map(|end| (end - 1).to_string()).unwrap_or_default();
                request = request.method(Method::GET).header(RANGE, format!("bytes={start}-{last}"));
            }
            if let Some(etag) = spec.if_match {
                request = request.header(IF_MATCH, etag);
            }
            self.finish(key, request, false)
        }
        .boxed()
    }
}

impl HttpServer {
    /// Creates the storage of the folder at `address`.
    pub(crate) fn new(address: &Url, client: Client) -> Self {
        let mut folder = address.clone();
        folder.set_query(None);
        folder.set_fragment(None);
        let mut folder = folder.to_string();
        if !folder.ends_with('/') {
            folder.push('/');
        }
        let query = address.query().map(|query| format!("?{query}")).unwrap_or_default();
        let base = Base { folder, query };
        Self { fetch: Arc::new(Fetch::new(client, base.clone())), base }
    }

    async fn list_now(&self, list: ListRequest<'_>) -> Result<Listing, StorageError> {
        let folder = list.folder;
        let request = http::Request::builder().header(ACCEPT, "application/json, text/html");
        let request = self.base.finish(folder, request, true)?;
        let failed = |failure: client::Failure| failure.into_error(folder.as_str());
        let (head, page) = match self.fetch.client.document(request, INDEX_PAGE).await {
            Ok(response) => response.into_parts(),
            Err(client::Failure::TooLong(_)) => {
                return Err(StorageError::FolderTooLarge { key: folder.to_string(), limit: LISTED_NAMES });
            }
            Err(failure) => return Err(failed(failure)),
        };
        let cannot_list = || StorageError::CannotList(folder.to_string());
        match head.status {
            StatusCode::OK => {}
            // Statuses that servers use for a folder that may not be listed.
            StatusCode::FORBIDDEN | StatusCode::METHOD_NOT_ALLOWED => return Err(cannot_list()),
            status if status.is_redirection() => return Err(cannot_list()),
            status => return Err(failed(client::Failure::Status(status))),
        }
        let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let listing = index_page::parse(kind, &page).ok_or_else(cannot_list)?;
        listing.cut(list)
    }
}

impl Storage for HttpServer {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        self.fetch.read(request).boxed()
    }

    fn list<'a>(&'a self, request: ListRequest<'a>) -> BoxFuture<'a, Result<Listing, StorageError>> {
        self.list_now(request).boxed()
    }

    fn describe(&self) -> String {
        self.base.folder.clone()
    }
}
