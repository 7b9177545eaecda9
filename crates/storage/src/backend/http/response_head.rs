//! Checks that the head of a response is valid and fits the request (RFC 9110).

use super::client::Failure;
use crate::{ObjectMeta, StorageError, Version, Want};
use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, DATE, ETAG, HeaderMap, HeaderName, LAST_MODIFIED,
    RETRY_AFTER,
};
use http::{StatusCode, response};
use std::ops::Range;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The checked head of a valid response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ResponseHead {
    pub(crate) object: ObjectMeta,
    /// The requested bytes.
    pub(crate) range: Range<u64>,
    /// True if the body is exactly the requested bytes. A server that ignores ranges sends others
    /// before and after them.
    pub(crate) is_exact: bool,
    /// Bytes of the body before the requested ones; 0 unless the server ignores ranges.
    pub(crate) skip: u64,
}

/// Maximum number of bytes that are read and discarded because the server ignores ranges. Two
/// ranges of one object are merged only if they are no further apart.
pub(crate) const MAX_SKIPPED: u64 = 1 << 20;

/// The error of an invalid or unsuccessful response, and whether a retry may help.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) error: StorageError,
    pub(crate) may_retry: bool,
    /// `Retry-After`.
    pub(crate) wait: Option<Duration>,
}

impl From<StorageError> for Refusal {
    fn from(error: StorageError) -> Self {
        Self { error, may_retry: false, wait: None }
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok().map(str::trim)
}

fn bad(key: &str, detail: impl Into<String>) -> StorageError {
    StorageError::BadResponse { key: key.to_owned(), detail: detail.into() }
}

/// Returns the version that a response belongs to. A weak ETag does not promise equal bytes (RFC
/// 9110, 8.8.1) and cannot be used with `If-Match` (13.1.1), so it is ignored.
fn version(headers: &HeaderMap, size: u64) -> Version {
    let etag = text(headers, ETAG).filter(|etag| !etag.is_empty() && !etag.starts_with("W/"));
    if let Some(etag) = etag {
        return Version { etag: Some(etag.into()), size, modified: None };
    }
    let modified = text(headers, LAST_MODIFIED)
        .and_then(|date| httpdate::parse_http_date(date).ok())
        .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
        .and_then(|since| i64::try_from(since.as_secs()).ok());
    Version { etag: None, size, modified }
}

/// Parses `bytes 0-99/1234` (RFC 9110, 14.4) into range and size, which is `None` for `*`.
fn content_range(text: &str) -> Option<(Range<u64>, Option<u64>)> {
    let (range, size) = text.strip_prefix("bytes")?.trim_start().split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let range = digits(first)?..digits(last)?.checked_add(1)?;
    let size = if size.trim() == "*" { None } else { Some(digits(size)?) };
    (range.start < range.end && size.is_none_or(|size| range.end <= size)).then_some((range, size))
}

/// Parses decimal digits only: `str::parse` would accept a sign.
fn digits(text: &str) -> Option<u64> {
    let text = text.trim();
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Returns the wait of `Retry-After`: seconds or a date (RFC 9110, 10.2.3). A date is compared with
/// the date of the response rather than with the system clock, since the two may differ.
#[expect(
    clippy::disallowed_methods,
    reason = "for servers that send a date in Retry-After but no Date header"
)]
pub(crate) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let wait = text(headers, RETRY_AFTER)?;
    if let Some(seconds) = digits(wait) {
        return Some(Duration::from_secs(seconds));
    }
    let date = |text| httpdate::parse_http_date(text).ok();
    let now = text(headers, DATE).and_then(date).unwrap_or_else(SystemTime::now);
    Some(date(wait)?.duration_since(now).unwrap_or_default())
}

/// Returns the codings of a body that is not sent as it is stored (RFC 9110, 8.4). Some S3 services
/// keep the `aws-chunked` of an upload with the object, although they send the object without it.
pub(crate) fn content_coding(headers: &HeaderMap) -> Option<String> {
    let plain = |coding: &[u8]| {
        let coding = coding.trim_ascii();
        [b"".as_slice(), b"identity", b"aws-chunked"].iter().any(|name| coding.eq_ignore_ascii_case(name))
    };
    let mut codings = headers.get_all(CONTENT_ENCODING).iter();
    let coded = codings.find(|value| !value.as_bytes().split(|byte| *byte == b',').all(plain))?;
    Some(String::from_utf8_lossy(coded.as_bytes()).into_owned())
}

/// Checks the head of a response to `want`. `Head(0)` and empty ranges are requested with the HEAD
/// method, everything else with GET and a range.
pub(crate) fn check_head(
    key: &str,
    want: &Want,
    pin: Option<&Version>,
    head: &response::Parts,
) -> Result<ResponseHead, Refusal> {
    let range = match head.status {
        StatusCode::OK => None,
        StatusCode::PARTIAL_CONTENT => {
            let stated =
                text(&head.headers, CONTENT_RANGE).ok_or_else(|| bad(key, "206 without Content-Range"))?;
            let (range, size) = content_range(stated)
                .ok_or_else(|| bad(key, format!("Content-Range {stated:?} is invalid")))?;
            let size =
                size.ok_or_else(|| bad(key, "Content-Range does not contain the size of the object"))?;
            Some((range, size))
        }
        _ => return Err(refusal(key, want, pin, head)),
    };
    if let Some(coding) = content_coding(&head.headers) {
        return Err(Failure::Coded(coding).into_error(key).into());
    }
    let size = match &range {
        Some((_, size)) => *size,
        None => text(&head.headers, CONTENT_LENGTH).and_then(digits).ok_or_else(|| {
            bad(key, "the response with status 200 does not contain the size of the object")
        })?,
    };
    let version = version(&head.headers, size);
    if pin.is_some_and(|pin| *pin != version) {
        return Err(StorageError::Changed(key.to_owned()).into());
    }
    let wanted = want.within(size).ok_or_else(|| StorageError::OutOfRange(key.to_owned()))?;
    let length = text(&head.headers, CONTENT_LENGTH).and_then(digits);
    let skip = match &range {
        Some((range, _)) if *range != wanted => {
            let detail = format!("requested bytes {wanted:?}, got bytes {range:?}");
            return Err(bad(key, detail).into());
        }
        Some((range, _)) if length.is_some_and(|length| length != range.end - range.start) => {
            let detail = format!("bytes {range:?} cannot have a length of {}", length.unwrap_or_default());
            return Err(bad(key, detail).into());
        }
        None if wanted.start > MAX_SKIPPED && !wanted.is_empty() => {
            return Err(bad(key, "the server ignores byte ranges").into());
        }
        None if !wanted.is_empty() => wanted.start,
        _ => 0,
    };
    Ok(ResponseHead { object: ObjectMeta { size, version }, range: wanted, is_exact: range.is_some(), skip })
}

fn refusal(key: &str, want: &Want, pin: Option<&Version>, head: &response::Parts) -> Refusal {
    let status = head.status;
    let name = key.to_owned();
    match status {
        StatusCode::PRECONDITION_FAILED => StorageError::Changed(name).into(),
        // Without If-Match, a server can only report that the range is missing. The pinned version
        // had it.
        StatusCode::RANGE_NOT_SATISFIABLE => match pin {
            Some(pin) if want.within(pin.size).is_some_and(|range| !range.is_empty()) => {
                StorageError::Changed(name)
            }
            _ => StorageError::OutOfRange(name),
        }
        .into(),
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let wait = retry_after(&head.headers);
            let error = StorageError::Throttled { key: name, retry_after: wait };
            Refusal { error, may_retry: true, wait }
        }
        _ if status.is_server_error() || status == StatusCode::REQUEST_TIMEOUT => {
            let detail = format!("answered {status}");
            Refusal { error: StorageError::Unavailable { key: name, detail }, may_retry: true, wait: None }
        }
        _ => Failure::Status(status).into_error(key).into(),
    }
}

#[cfg(test)]
#[path = "response_head_tests.rs"]
mod tests;
