//! A read over HTTP: the request, its retries, and a body that is resumed where it broke off.

use super::client::{Client, Failure, ResponseBody, is_throttling, settings_error};
use super::response_head::{self, Refusal, ResponseHead};
use super::retry::Budget;
use crate::counters::{Counters, increment};
use crate::{Key, Read, ReadRequest, StorageError, Version, Want};
use bytes::{Buf, Bytes};
use futures_util::{StreamExt, future::BoxFuture, stream};
use http::header::LOCATION;
use http::{StatusCode, response};
use object_store::client::HttpRequest;
use percent_encoding::percent_decode_str;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use tokio::time::Instant;

/// The parameters of one request.
#[derive(Debug, Clone)]
pub(crate) struct RequestSpec {
    /// First byte and, unless the range extends to the end of the object, one past the last byte.
    /// `None` requests with the HEAD method.
    pub(crate) range: Option<(u64, Option<u64>)>,
    /// `If-Match`.
    pub(crate) if_match: Option<String>,
}

/// A request that is being built.
pub(crate) type BuiltRequest<'a> = BoxFuture<'a, Result<HttpRequest, StorageError>>;

impl RequestSpec {
    fn new(want: &Want, pin: Option<&Version>) -> Self {
        // Servers count in i64, so a larger end means the end of the object.
        let bounded = |end: u64| (end <= i64::MAX.unsigned_abs()).then_some(end);
        let range = match want {
            Want::Head(0) => None,
            Want::Head(bytes) => Some((0, bounded(*bytes))),
            Want::Range(range) if range.is_empty() => None,
            Want::Range(range) => Some((range.start, bounded(range.end))),
        };
        Self { range, if_match: pin.and_then(|pin| pin.etag.as_deref()).map(str::to_owned) }
    }
}

/// Builds requests for objects, with the address and, where there are credentials, a signature. A
/// retry builds its request anew, so it never carries expired credentials.
pub(crate) trait RequestBuilder: Send + Sync + std::fmt::Debug {
    fn build<'a>(&'a self, key: &'a Key, spec: RequestSpec) -> BuiltRequest<'a>;
}

#[derive(Debug)]
pub(crate) struct Fetch {
    pub(crate) client: Client,
    requests: Box<dyn RequestBuilder>,
    warned: WarnedOnce,
}

/// Warnings that are logged only once for each back end.
#[derive(Debug, Default)]
struct WarnedOnce {
    no_etag: AtomicBool,
    no_ranges: AtomicBool,
}

impl WarnedOnce {
    fn check(&self, key: &Key, head: &response::Parts, response: &ResponseHead, counters: &Counters) {
        let first = |said: &AtomicBool| !said.swap(true, Relaxed);
        let version = &response.object.version;
        if version.etag.is_none() && first(&self.no_etag) {
            let by = if version.modified.is_some() { "size and modification time" } else { "size alone" };
            tracing::warn!(%key, "storage sends no strong ETag: versions are distinguished by {by}");
        }
        let part = response.range.end - response.range.start < response.object.size;
        if head.status == StatusCode::OK && part && !response.range.is_empty() {
            increment(&counters.ranges_ignored);
            if first(&self.no_ranges) {
                tracing::warn!(%key, "storage ignores byte ranges, so more is read than requested");
            }
        }
    }
}

/// Maximum number of bytes read of an error document.
const ERROR_DOCUMENT: usize = 16 * 1024;

impl Fetch {
    pub(crate) fn new(client: Client, requests: impl RequestBuilder + 'static) -> Self {
        Self { client, requests: Box::new(requests), warned: WarnedOnce::default() }
    }

    pub(crate) async fn read(self: &Arc<Self>, request: ReadRequest<'_>) -> Result<Read, StorageError> {
        let ReadRequest { key, want, version: pin, .. } = request;
        // The root is not an object, although many servers respond with a page.
        if key.as_str().is_empty() {
            return Err(StorageError::NotFound(String::new()));
        }
        let mut budget = self.client.account.budget();
        let response = self.request(key, &want, pin, &mut budget).await;
        let (response, body) = match (response, &want) {
            // An empty object has no first byte, so its size and version are requested with HEAD.
            (Err(StorageError::OutOfRange(_)), Want::Head(1..)) => {
                let (response, body) = self.request(key, &Want::Head(0), pin, &mut budget).await?;
                if response.object.size > 0 {
                    let detail = "answered 416 to a range inside the object".to_owned();
                    return Err(StorageError::BadResponse { key: key.to_string(), detail });
                }
                (response, body)
            }
            (response, _) => response?,
        };
        let ResponseHead { object, range, is_exact, skip } = response;
        let transfer = Transfer {
            fetch: Arc::clone(self),
            key: key.clone(),
            version: object.version.clone(),
            body,
            is_exact,
            skip,
            at: range.start,
            end: range.end,
            budget,
        };
        let body = stream::try_unfold(transfer, Transfer::next).boxed();
        Ok(Read { object, range, body, is_in_memory: false })
    }

    /// Sends a request until there is a response or the budget is used up.
    async fn request(
        &self,
        key: &Key,
        want: &Want,
        pin: Option<&Version>,
        budget: &mut Budget,
    ) -> Result<(ResponseHead, ResponseBody), StorageError> {
        if matches!(want, Want::Range(range) if range.start > range.end) {
            return Err(StorageError::OutOfRange(key.to_string()));
        }
        loop {
            let begun = Instant::now();
            let Refusal { error, may_retry, wait } = match self.request_once(key, want, pin).await {
                Ok(response) => return Ok(response),
                Err(refusal) => refusal,
            };
            if !may_retry {
                return Err(error);
            }
            let Some(wait) = budget.spend(begun.elapsed(), wait) else { return Err(error) };
            tracing::debug!(%key, %error, ?wait, "retrying");
            tokio::time::sleep(wait).await;
        }
    }

    async fn request_once(
        &self,
        key: &Key,
        want: &Want,
        pin: Option<&Version>,
    ) -> Result<(ResponseHead, ResponseBody), Refusal> {
        let request = self.requests.build(key, RequestSpec::new(want, pin)).await?;
        let address = request.uri().clone();
        self.client.keep_connections(&address);
        let (head, body) = match self.client.send(request).await {
            Ok(response) => response,
            Err(failure) => {
                let may_retry = failure.may_retry();
                return Err(Refusal { error: failure.into_error(key.as_str()), may_retry, wait: None });
            }
        };
        match response_head::check_head(key.as_str(), want, pin, &head) {
            Ok(response) => {
                self.warned.check(key, &head, &response, &self.client.account.counters);
                Ok((response, body))
            }
            Err(refusal) if head.status.is_redirection() => {
                let to = head.headers.get(LOCATION).and_then(|to| to.to_str().ok()).unwrap_or_default();
                // Web servers redirect in this way if the name belongs to a folder.
                if is_folder_redirect(to, address.path()) {
                    return Err(StorageError::NotFound(key.to_string()).into());
                }
                // A query may contain a signature.
                let to = to.split('?').next().unwrap_or_default();
                tracing::warn!(%key, status = %head.status, to, "redirects are not followed");
                Err(refusal)
            }
            Err(refusal) => Err(self.with_error_code(key, head.status, body, refusal).await),
        }
    }

    /// Adds the code of the error document, whose reading also frees the connection.
    async fn with_error_code(
        &self,
        key: &Key,
        status: StatusCode,
        body: ResponseBody,
        mut refusal: Refusal,
    ) -> Refusal {
        if status.is_success() {
            return refusal;
        }
        if is_throttling(status) {
            increment(&self.client.account.counters.throttled);
        }
        let timeout_after = Duration::from_secs(1);
        let document = tokio::time::timeout(timeout_after, self.client.whole(body, ERROR_DOCUMENT)).await;
        let document = match document {
            Ok(Err(failure @ Failure::Surplus)) => return failure.into_error(key.as_str()).into(),
            document => document.ok().and_then(Result::ok).unwrap_or_default(),
        };
        let Some(code) = error_code(&document) else { return refusal };
        if let Some(error) = settings_error(key.as_str(), code) {
            refusal.error = error;
        }
        match &mut refusal.error {
            StorageError::Denied(_) | StorageError::WrongCredentials { .. } => {
                tracing::warn!(%key, code, "storage denies access");
            }
            StorageError::Unavailable { detail, .. } | StorageError::BadResponse { detail, .. } => {
                *detail = format!("{detail} ({code})");
            }
            _ => {}
        }
        refusal
    }
}

/// Returns true if a redirect only adds a `/` to the requested path. The paths are compared
/// decoded, because servers encode them differently.
fn is_folder_redirect(to: &str, path: &str) -> bool {
    let to = to.split(['?', '#']).next().unwrap_or_default();
    let decoded = |text| percent_decode_str(text).decode_utf8_lossy();
    to.strip_suffix('/').is_some_and(|to| decoded(to).ends_with(&*decoded(path)))
}

/// Returns the code in an error document of S3, GCS or Azure: `<Error><Code>SlowDown</Code>…`.
pub(crate) fn error_code(document: &[u8]) -> Option<&str> {
    let text = std::str::from_utf8(document).ok()?;
    let (_, rest) = text.split_once("<Code>")?;
    let (code, _) = rest.split_once("</Code>")?;
    (code.len() <= 64 && code.bytes().all(|b| b.is_ascii_alphanumeric())).then_some(code)
}

struct Transfer {
    fetch: Arc<Fetch>,
    key: Key,
    version: Version,
    body: ResponseBody,
    /// True if the body has no bytes but the requested ones.
    is_exact: bool,
    /// Bytes of the body that precede the next byte and were not requested.
    skip: u64,
    /// Positions in the object of the next byte, and of the byte after the last.
    at: u64,
    end: u64,
    budget: Budget,
}

impl Transfer {
    async fn next(mut self) -> Result<Option<(Bytes, Self)>, StorageError> {
        loop {
            let left = self.end.saturating_sub(self.at);
            if left == 0 {
                return Ok(None);
            }
            match self.fetch.client.frame(&mut self.body).await {
                Ok(Some(mut data)) => {
                    let before = usize::try_from(self.skip).unwrap_or(usize::MAX).min(data.len());
                    data.advance(before);
                    self.skip -= before as u64;
                    if data.is_empty() {
                        continue;
                    }
                    if data.len() as u64 >= left {
                        self.check_last(data.len() as u64 - left).await?;
                        // Dropping a body that has more bytes closes its connection.
                        data.truncate(usize::try_from(left).unwrap_or(usize::MAX));
                    }
                    self.at += data.len() as u64;
                    return Ok(Some((data, self)));
                }
                Ok(None) => self.resume(Failure::Broken("the body ended early".to_owned())).await?,
                Err(failure @ Failure::Broken(_)) => self.resume(failure).await?,
                Err(failure) => return Err(failure.into_error(self.key.as_str())),
            }
        }
    }

    /// Checks before the last bytes are passed on that the body has no more than these, unless the
    /// server ignores ranges. `surplus` more have arrived with them.
    async fn check_last(&mut self, surplus: u64) -> Result<(), StorageError> {
        if !self.is_exact || (surplus == 0 && self.body.is_end()) {
            return Ok(());
        }
        let followed = match surplus {
            0 => self.fetch.client.frame(&mut self.body).await,
            _ => Err(Failure::Surplus),
        };
        match followed {
            // All bytes of the range are here, even if the end of the body is not.
            Ok(None) | Err(Failure::Broken(_)) => Ok(()),
            Ok(Some(_)) => Err(Failure::Surplus.into_error(self.key.as_str())),
            Err(failure) => Err(failure.into_error(self.key.as_str())),
        }
    }

    /// Requests the rest of the same version. A size alone does not identify a version, so a read
    /// of such a version fails with the original error.
    async fn resume(&mut self, failure: Failure) -> Result<(), StorageError> {
        let error = failure.into_error(self.key.as_str());
        let wait = if self.version.is_reliable() { self.budget.spend(Duration::ZERO, None) } else { None };
        let Some(wait) = wait else { return Err(error) };
        tracing::debug!(key = %self.key, %error, at = self.at, ?wait, "requesting the rest of a body");
        tokio::time::sleep(wait).await;
        let rest = Want::Range(self.at..self.end);
        let (response, body) =
            self.fetch.request(&self.key, &rest, Some(&self.version), &mut self.budget).await?;
        increment(&self.fetch.client.account.counters.resumed);
        (self.body, self.skip, self.is_exact) = (body, response.skip, response.is_exact);
        Ok(())
    }
}
