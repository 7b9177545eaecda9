//! Objects in S3 and compatible services, Google Cloud Storage and Azure Blob Storage.
//!
//! `object_store` knows how each service is addressed, signed and listed, where credentials come
//! from and when they expire. Reads take another way: its client hands us the signed request
//! instead of sending it, and the code for plain HTTP sends it and reads the response. All services
//! therefore share one data path, with one set of timeouts, retries, checks and errors, and no byte
//! is copied on it. Listings and credentials are fetched by `object_store` over the same
//! connections.

use super::http::client::{Client, Failure};
use super::http::fetch::{BuiltRequest, Fetch, RequestBuilder, RequestSpec, error_code};
use crate::listing::PAGE;
use crate::{Key, ListRequest, Listing, PageToken, Read, ReadRequest, Storage, StorageError};
use futures_util::{FutureExt, future::BoxFuture};
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpResponseBody,
    HttpService,
};
use object_store::list::{PaginatedListOptions, PaginatedListStore};
use object_store::path::Path;
use object_store::{
    ClientOptions, Extensions, GetOptions, GetRange, MultipartUpload, ObjectStore, PutMode, PutPayload,
    RetryConfig, UpdateVersion,
};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::timeout;

/// Largest listing or credentials in bytes. It exceeds a page of 1000 keys of 1024 bytes.
const MAX_DOCUMENT: usize = 16 * 1024 * 1024;

/// Objects in a bucket, below a prefix.
#[derive(Debug)]
pub struct Bucket {
    fetch: Arc<Fetch>,
    service: Service,
    /// `s3://bucket/prefix`.
    name: String,
}

#[derive(Debug, Clone)]
struct Service {
    objects: Arc<dyn ObjectStore>,
    lists: Arc<dyn Lists>,
    prefix: Key,
    /// Longest time to sign a request. It may wait for requests for credentials, one after another.
    sign_timeout: Duration,
    /// Variables of the environment that may hold the credentials.
    variables: &'static str,
}

trait Lists: PaginatedListStore + std::fmt::Debug {}
impl<T: PaginatedListStore + std::fmt::Debug> Lists for T {}

/// Receives a signed request instead of sending it.
#[derive(Debug, Clone, Default)]
struct Capture(Arc<Mutex<Option<HttpRequest>>>);

/// The error that ends a captured request. `object_store` does not retry its kind, "unknown".
#[derive(Debug, thiserror::Error)]
#[error("the request was signed, not sent")]
struct Captured;

/// Marks a listing, whose errors are passed on unchanged. Other requests are for credentials:
/// `object_store` interprets their statuses itself, to try the next source of credentials. The flag
/// is set when the listing is sent.
#[derive(Debug, Clone, Default)]
struct SentListing(Arc<AtomicBool>);

/// Connects `object_store` to our client.
#[derive(Debug, Clone)]
pub(crate) struct Connector(pub(crate) Client);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(self.clone()))
    }
}

impl HttpService for Connector {
    fn call<'life, 'future>(&'life self, request: HttpRequest) -> Call<'future>
    where
        'life: 'future,
        Self: 'future,
    {
        async move {
            if let Some(Capture(slot)) = request.extensions().get().cloned() {
                *slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(request);
                return Err(HttpError::new(HttpErrorKind::Unknown, Captured));
            }
            let failed = |failure: Failure| {
                // The kind is not retried, because all retries were made already.
                HttpError::new(HttpErrorKind::Unknown, failure)
            };
            let listing = request.extensions().get::<SentListing>().cloned();
            if let Some(SentListing(is_sent)) = &listing {
                is_sent.store(true, Relaxed);
            }
            let (head, body) = self.0.document(request, MAX_DOCUMENT).await.map_err(failed)?.into_parts();
            if listing.is_some() && !head.status.is_success() {
                let code = error_code(&body).map(str::to_owned);
                return Err(failed(match code {
                    Some(code) => Failure::Code(head.status, code),
                    None => Failure::Status(head.status),
                }));
            }
            Ok(HttpResponse::from_parts(head, HttpResponseBody::from(body)))
        }
        .boxed()
    }
}

/// The future that `#[async_trait]` makes of `HttpService::call`.
type Call<'a> = BoxFuture<'a, Result<HttpResponse, HttpError>>;

/// Disables the retries of `object_store`: [`Client::document`] retries.
pub(crate) fn no_retries() -> RetryConfig {
    RetryConfig { max_retries: 0, ..RetryConfig::default() }
}

/// Returns our own error if it is among the causes of an `object_store` error.
fn error(key: &Key, e: &object_store::Error) -> StorageError {
    let mut source: Option<&(dyn Error + 'static)> = Some(e);
    while let Some(inner) = source {
        if let Some(failure) = inner.downcast_ref::<Failure>() {
            return failure.clone().into_error(key.as_str());
        }
        source = inner.source();
    }
    StorageError::BadResponse { key: key.to_string(), detail: e.to_string() }
}

/// Names the variables that hold the credentials of a service, by the address of a bucket.
fn variables(address: &str) -> &'static str {
    match address.split("://").next() {
        Some("gs") => "GOOGLE_APPLICATION_CREDENTIALS",
        Some("az") => {
            "AZURE_STORAGE_ACCOUNT_KEY, or AZURE_CLIENT_ID, AZURE_CLIENT_SECRET and AZURE_TENANT_ID"
        }
        _ => "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    }
}

/// Converts the error of a request that was not sent because there are no credentials for it.
/// `variables` are those that could hold them.
fn no_credentials(key: &Key, e: &object_store::Error, variables: &str) -> StorageError {
    let key_text = key.to_string();
    match error(key, e) {
        StorageError::BadResponse { detail, .. } => {
            let detail = format!("no credentials: set {variables} ({detail})");
            StorageError::WrongCredentials { key: key_text, detail }
        }
        StorageError::Unavailable { detail, .. } => {
            let detail =
                format!("no credentials: set {variables}, or make their source reachable ({detail})");
            StorageError::Unavailable { key: key_text, detail }
        }
        other => other,
    }
}

/// Converts the error of an upload. `object_store` itself interprets and quotes the responses.
pub(crate) fn upload_error(key: &Key, e: &object_store::Error) -> StorageError {
    match (error(key, e), e) {
        (StorageError::BadResponse { .. }, object_store::Error::NotFound { .. }) => {
            StorageError::NotFound(key.to_string())
        }
        (
            StorageError::BadResponse { .. },
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. },
        ) => StorageError::Denied(key.to_string()),
        (StorageError::BadResponse { key, detail }, _) => {
            let detail: String = detail.split_whitespace().collect::<Vec<_>>().join(" ");
            StorageError::BadResponse { key, detail: detail.chars().take(300).collect() }
        }
        (known, _) => known,
    }
}

impl Service {
    /// Returns the full name of a key. Fails with [`StorageError::NotFound`] if the services do not
    /// allow it.
    fn path(&self, key: &Key) -> Result<Path, StorageError> {
        let prefix = self.prefix.as_str();
        let full = if prefix.is_empty() { key.to_string() } else { format!("{prefix}/{key}") };
        Path::parse(full).map_err(|_| StorageError::NotFound(key.to_string()))
    }
}

impl RequestBuilder for Service {
    fn build<'a>(&'a self, key: &'a Key, spec: RequestSpec) -> BuiltRequest<'a> {
        async move {
            let path = self.path(key)?;
            let capture = Capture::default();
            let mut extensions = Extensions::new();
            extensions.insert(capture.clone());
            let range =
                spec.range.map(|(start, end)| end.map_or(GetRange::Offset(start), |end| (start..end).into()));
            let options = GetOptions {
                head: range.is_none(),
                range,
                if_match: spec.if_match,
                extensions,
                ..GetOptions::default()
            };
            let Ok(response) = timeout(self.sign_timeout, self.objects.get_opts(&path, options)).await else {
                tracing::warn!(%key, after = ?self.sign_timeout, "timed out waiting for credentials");
                return Err(StorageError::TimedOut { key: key.to_string(), after: self.sign_timeout });
            };
            let signed = capture.0.lock().unwrap_or_else(PoisonError::into_inner).take();
            signed.ok_or_else(|| match response {
                // Before a request is signed, only the credentials can fail.
                Err(e) => {
                    tracing::warn!(%key, error = %e, "no credentials");
                    no_credentials(key, &e, self.variables)
                }
                Ok(_) => {
                    let detail = "object_store did not hand the request over".to_owned();
                    StorageError::BadResponse { key: key.to_string(), detail }
                }
            })
        }
        .boxed()
    }
}

impl Bucket {
    /// Creates a bucket. `name` is shown to people; `prefix` precedes all our keys.
    pub(crate) fn new<S>(service: S, prefix: Key, name: String, client: Client) -> Self
    where
        S: ObjectStore + PaginatedListStore,
    {
        let service = Arc::new(service);
        let sign_timeout = client.document_timeout();
        let variables = variables(&name);
        let objects = Arc::clone(&service) as _;
        let service = Service { objects, lists: service, prefix, sign_timeout, variables };
        let fetch = Arc::new(Fetch::new(client, service.clone()));
        Self { fetch, service, name }
    }

    async fn list_now(&self, request: ListRequest<'_>) -> Result<Listing, StorageError> {
        let folder = request.folder;
        let path = self.service.path(folder)?;
        let prefix = if path.as_ref().is_empty() { String::new() } else { format!("{path}/") };
        let mut extensions = Extensions::new();
        let sent = SentListing::default();
        extensions.insert(sent.clone());
        let options = PaginatedListOptions {
            delimiter: Some("/".into()),
            page_token: request.after.map(|token| token.as_str().to_owned()),
            max_keys: Some(request.limit.min(PAGE)),
            extensions,
            ..PaginatedListOptions::default()
        };
        let page = self.service.lists.list_paginated((!prefix.is_empty()).then_some(&prefix), options).await;
        let page = page.map_err(|e| match sent.0.load(Relaxed) {
            true => error(folder, &e),
            false => no_credentials(folder, &e, self.service.variables),
        })?;
        // Sorted by name. A folder and an object may have the same name.
        let below = |path: &Path| {
            let name = path.as_ref().strip_prefix(&prefix)?;
            Key::root().join(name).map(|_| name.to_owned())
        };
        let objects = page.result.objects.iter().filter_map(|o| Some((below(&o.location)?, o.size)));
        let objects: BTreeMap<_, _> = objects.collect();
        let folders: BTreeSet<_> = page.result.common_prefixes.iter().filter_map(below).collect();
        let next = page.page_token.map(PageToken::new);
        let objects = objects.into_iter().collect();
        Listing { objects, folders: folders.into_iter().collect(), next }.or_not_found(request)
    }

    /// Stores an object with one request, completely or not at all.
    ///
    /// # Errors
    /// The [`StorageError`] that corresponds to the response of the service.
    pub async fn put(&self, key: &Key, bytes: bytes::Bytes) -> Result<(), StorageError> {
        self.put_payload(key, bytes.into()).await
    }

    pub(crate) async fn put_payload(&self, key: &Key, bytes: PutPayload) -> Result<(), StorageError> {
        let path = self.service.path(key)?;
        let options = object_store::PutOptions::default();
        self.service.objects.put_opts(&path, bytes, options).await.map_err(|e| upload_error(key, &e))?;
        Ok(())
    }

    /// Stores an object with one request if none of that name exists. With `over`, replaces the
    /// object that has this `ETag`, or any object if it names none. Returns false if the condition
    /// is not met.
    pub(crate) async fn put_over(
        &self,
        key: &Key,
        bytes: bytes::Bytes,
        over: Option<Option<&str>>,
    ) -> Result<bool, StorageError> {
        let path = self.service.path(key)?;
        let mode = match over {
            None => PutMode::Create,
            Some(Some(etag)) => {
                PutMode::Update(UpdateVersion { e_tag: Some(etag.to_owned()), version: None })
            }
            Some(None) => PutMode::Overwrite,
        };
        match self.service.objects.put_opts(&path, bytes.into(), mode.into()).await {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. } | object_store::Error::Precondition { .. }) => {
                Ok(false)
            }
            Err(e) => Err(upload_error(key, &e)),
        }
    }

    pub(crate) async fn begin(&self, key: &Key) -> Result<Box<dyn MultipartUpload>, StorageError> {
        let path = self.service.path(key)?;
        let options = object_store::PutMultipartOptions::default();
        self.service.objects.put_multipart_opts(&path, options).await.map_err(|e| upload_error(key, &e))
    }

    /// Removes an object, for tests.
    ///
    /// # Errors
    /// The [`StorageError`] that corresponds to the response of the service.
    #[cfg(any(test, feature = "testing"))]
    pub async fn remove(&self, key: &Key) -> Result<(), StorageError> {
        use object_store::ObjectStoreExt;
        let path = self.service.path(key)?;
        self.service.objects.delete(&path).await.map_err(|e| error(key, &e))
    }
}

impl Storage for Bucket {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        self.fetch.read(request).boxed()
    }

    fn list<'a>(&'a self, request: ListRequest<'a>) -> BoxFuture<'a, Result<Listing, StorageError>> {
        self.list_now(request).boxed()
    }

    fn describe(&self) -> String {
        self.name.clone()
    }
}

#[cfg(test)]
#[path = "object_tests.rs"]
mod tests;
