//! Status and headers of a response: conditions, ranges, caching and CORS (RFC 9110, RFC 9111).

use crate::{Error, read::body::Body};
use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode,
    header::{self, AsHeaderName},
    request::Parts,
};
use std::ops::Range;

/// A resource in the form in which a response may send it: whole, in part, or only its head.
#[derive(Debug, Clone)]
pub(crate) struct Representation {
    pub(crate) content_type: &'static str,
    /// Exact length in bytes, after content coding.
    pub(crate) length: u64,
    pub(crate) etag: Option<Etag>,
    /// Value of `Cache-Control`. `None` sends no such header.
    pub(crate) cache_control: Option<HeaderValue>,
    pub(crate) coding: Coding,
}

impl Representation {
    /// Returns a representation without content coding, of a resource that has no other.
    pub(crate) fn fixed(
        content_type: &'static str,
        length: u64,
        etag: Option<Etag>,
        cache_control: Option<HeaderValue>,
    ) -> Self {
        Self { content_type, length, etag, cache_control, coding: Coding::Fixed }
    }
}

/// Content coding of a representation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coding {
    /// The resource has only this form.
    Fixed,
    /// No coding, chosen by `Accept-Encoding`. Another client may get gzip.
    Identity,
    /// gzip, chosen by `Accept-Encoding`.
    Gzip,
}

/// The head of a response, and the range of the representation that follows as its body.
#[derive(Debug, Clone)]
pub(crate) struct ResponseHead {
    status: StatusCode,
    headers: HeaderMap,
    /// Range of the representation that is the body. `None` if the response has no body.
    pub(crate) window: Option<Range<u64>>,
}

/// A strong ETag, quotes included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Etag {
    text: [u8; Self::MAX_LEN],
    len: usize,
}

impl Etag {
    /// Room for two quotes, 32 digits, and a suffix for the content coding.
    const MAX_LEN: usize = 40;

    /// Puts text and suffix in quotes. Each piece is left out if it does not fit.
    fn quoted(text: &[u8], suffix: &str) -> Self {
        let mut etag = Self { text: [0; Self::MAX_LEN], len: 0 };
        for part in [b"\"", text, suffix.as_bytes(), b"\""] {
            if let Some(room) = etag.text.get_mut(etag.len..etag.len + part.len()) {
                room.copy_from_slice(part);
                etag.len += part.len();
            }
        }
        etag
    }

    fn as_bytes(&self) -> &[u8] {
        self.text.get(..self.len).unwrap_or_default()
    }
}

/// Returns the ETag of a digest. `suffix` distinguishes content codings.
pub(crate) fn etag(digest: u128, suffix: &str) -> Etag {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 32];
    for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(digest.to_be_bytes()) {
        *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    }
    Etag::quoted(&text, suffix)
}

/// Returns the `Cache-Control` of a resource that may change at any time.
#[expect(clippy::unnecessary_wraps, reason = "the type of the field that takes it")]
pub(crate) fn no_cache() -> Option<HeaderValue> {
    Some(HeaderValue::from_static("no-cache"))
}

/// Returns true for a GET of the whole resource without conditions. For a given representation,
/// [`decide`] returns the same head to all such requests.
pub(crate) fn is_plain(request: &Parts) -> bool {
    let is_condition = |name: &HeaderName| {
        *name == header::RANGE || *name == header::IF_NONE_MATCH || *name == header::IF_MATCH
    };
    request.method == Method::GET && !request.headers.keys().any(is_condition)
}

/// Evaluates the request's conditions in the order of RFC 9110 §13.2.2.
pub(crate) fn decide(request: &Parts, this: &Representation) -> Result<ResponseHead, Error> {
    let headers = &request.headers;
    if headers.contains_key(header::IF_MATCH)
        && !matches_etag(headers, header::IF_MATCH, this, Compare::Strong)
    {
        return Err(Error::PreconditionFailed);
    }
    let mut head = HeaderMap::with_capacity(12);
    allow_any_origin(&mut head);
    if let Some(etag) = &this.etag {
        put(&mut head, header::ETAG, etag.as_bytes());
    }
    if let Some(value) = &this.cache_control {
        head.insert(header::CACHE_CONTROL, value.clone());
    }
    if this.coding != Coding::Fixed {
        head.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    if matches_etag(headers, header::IF_NONE_MATCH, this, Compare::Weak) {
        return Ok(ResponseHead { status: StatusCode::NOT_MODIFIED, headers: head, window: None });
    }
    head.insert(header::ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    head.insert(header::CONTENT_TYPE, HeaderValue::from_static(this.content_type));
    if this.coding == Coding::Gzip {
        head.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    let range = requested_range(request, this)?;
    let (status, window) = match range {
        Some(range) => {
            let value = format!("bytes {}-{}/{}", range.start, range.end - 1, this.length);
            put(&mut head, header::CONTENT_RANGE, value.as_bytes());
            (StatusCode::PARTIAL_CONTENT, range)
        }
        None => (StatusCode::OK, 0..this.length),
    };
    put(&mut head, header::CONTENT_LENGTH, decimal(window.end - window.start, &mut [0; 20]));
    let window = (request.method != Method::HEAD).then_some(window);
    Ok(ResponseHead { status, headers: head, window })
}

/// Returns the head of a 304 response if the ETag alone decides on it. The length of `this` need
/// not be known yet.
pub(crate) fn not_modified(request: &Parts, this: &Representation) -> Result<Option<ResponseHead>, Error> {
    if ![header::IF_MATCH, header::IF_NONE_MATCH].iter().any(|name| request.headers.contains_key(name)) {
        return Ok(None);
    }
    match decide(request, this) {
        Ok(head) => Ok((head.status == StatusCode::NOT_MODIFIED).then_some(head)),
        Err(Error::RangeNotSatisfiable { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl ResponseHead {
    /// Adds a body whose bytes are in memory. `whole` is the whole representation.
    pub(crate) fn respond_from(self, whole: &Bytes) -> Response<Body> {
        let index = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(whole.len());
        let body = self.window.clone().map(|w| Body::full(whole.slice(index(w.start)..index(w.end))));
        self.respond(body.unwrap_or_else(Body::empty))
    }

    /// Adds the body.
    pub(crate) fn respond(self, body: Body) -> Response<Body> {
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers;
        response
    }
}

/// Makes the response to a failed request. Its body is one line of JSON.
pub(crate) fn error_response(error: &Error, method: &Method) -> Response<Body> {
    let (status, _) = error.status();
    let mut head = HeaderMap::with_capacity(8);
    allow_any_origin(&mut head);
    head.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    head.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Error::RangeNotSatisfiable { length } = error {
        put(&mut head, header::CONTENT_RANGE, format!("bytes */{length}").as_bytes());
    }
    if matches!(error, Error::MethodNotAllowed) {
        head.insert(header::ALLOW, HeaderValue::from_static(METHODS));
    }
    if matches!(error, Error::KeyDenied) {
        head.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(seconds) = error.retry_after() {
        head.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    let body = error.body();
    head.insert(header::CONTENT_LENGTH, HeaderValue::from(body.len()));
    let body = if method == Method::HEAD { Body::empty() } else { Body::full(body.into()) };
    ResponseHead { status, headers: head, window: None }.respond(body)
}

/// Supported methods.
const METHODS: &str = "GET, HEAD, OPTIONS";

/// Makes the response to OPTIONS. Pages of any site may request anything (Fetch standard §3.2).
pub(crate) fn options_response() -> Response<Body> {
    let mut head = HeaderMap::with_capacity(6);
    allow_any_origin(&mut head);
    head.insert(header::ALLOW, HeaderValue::from_static(METHODS));
    // Requests for licences are posted.
    let methods = HeaderValue::from_static("GET, HEAD, OPTIONS, POST");
    head.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    head.insert(
        header::ACCESS_CONTROL_ALLOW_HEADERS,
        HeaderValue::from_static(
            "Range, If-Match, If-None-Match, If-Range, Accept, Authorization, Cache-Control, Content-Type, \
             Origin, *",
        ),
    );
    head.insert(header::ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static("86400"));
    ResponseHead { status: StatusCode::NO_CONTENT, headers: head, window: None }.respond(Body::empty())
}

fn allow_any_origin(head: &mut HeaderMap) {
    head.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
    head.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("Accept-Ranges, Content-Length, Content-Range, Date, ETag, Server-Timing"),
    );
}

/// Writes a number in decimal digits. `HeaderValue::from(number)` would allocate once more.
fn decimal(mut number: u64, digits: &mut [u8; 20]) -> &[u8] {
    let mut first = digits.len();
    for (at, digit) in digits.iter_mut().enumerate().rev() {
        *digit = b'0' + u8::try_from(number % 10).unwrap_or(0);
        number /= 10;
        first = at;
        if number == 0 {
            break;
        }
    }
    digits.get(first..).unwrap_or_default()
}

fn put(head: &mut HeaderMap, name: HeaderName, value: &[u8]) {
    // The values are ASCII that this module makes.
    if let Ok(value) = HeaderValue::from_bytes(value) {
        head.insert(name, value);
    }
}

/// Comparison of ETags (RFC 9110 §8.8.3.2).
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compare {
    Strong,
    Weak,
}

/// Returns true if a header's list of ETags has the ETag of this representation, or is `*`.
fn matches_etag(
    headers: &HeaderMap,
    name: impl AsHeaderName,
    this: &Representation,
    compare: Compare,
) -> bool {
    let is_ours = |tag: &str| this.etag.as_ref().is_some_and(|etag| tag.as_bytes() == etag.as_bytes());
    let values = headers.get_all(name).into_iter().filter_map(|v| v.to_str().ok());
    values.flat_map(|v| v.split(',')).map(str::trim).any(|tag| match tag.strip_prefix("W/") {
        Some(weak) => compare == Compare::Weak && is_ours(weak),
        None => tag == "*" || is_ours(tag),
    })
}

/// Returns the range that a GET requests. Returns `None`, for the whole representation, if there is
/// no range, more than one, or one that cannot be parsed (RFC 9110 §14.2).
fn requested_range(request: &Parts, this: &Representation) -> Result<Option<Range<u64>>, Error> {
    if request.method != Method::GET {
        return Ok(None);
    }
    let Some(range) = request.headers.get(header::RANGE).and_then(|v| v.to_str().ok()) else {
        return Ok(None);
    };
    // A date never matches, because no response has a Last-Modified.
    if let Some(condition) = request.headers.get(header::IF_RANGE)
        && Some(condition.as_bytes()) != this.etag.as_ref().map(Etag::as_bytes)
    {
        return Ok(None);
    }
    let length = this.length;
    match parse_range(range) {
        None => Ok(None),
        Some((Some(first), _)) if first >= length => Err(Error::RangeNotSatisfiable { length }),
        Some((Some(first), last)) => {
            let end = last.map_or(length, |last| last.saturating_add(1).min(length));
            Ok(Some(first..end))
        }
        Some((None, Some(suffix))) if suffix > 0 && length > 0 => {
            Ok(Some(length.saturating_sub(suffix)..length))
        }
        Some((None, _)) => Err(Error::RangeNotSatisfiable { length }),
    }
}

/// Parses `bytes=FIRST-[LAST]` or `bytes=-SUFFIX`.
fn parse_range(value: &str) -> Option<(Option<u64>, Option<u64>)> {
    let (unit, set) = value.split_once('=')?;
    if !unit.trim().eq_ignore_ascii_case("bytes") {
        return None;
    }
    let (first, last) = set.trim().split_once('-')?;
    let number = |text: &str| match text {
        "" => Some(None),
        // A number too large for a `u64` lies beyond the end of any representation.
        digits if digits.bytes().all(|b| b.is_ascii_digit()) => {
            Some(Some(digits.parse().unwrap_or(u64::MAX)))
        }
        _ => None,
    };
    match (number(first)?, number(last)?) {
        (None, None) => None,
        (Some(first), Some(last)) if last < first => None,
        range => Some(range),
    }
}

/// Returns true if the client accepts gzip (RFC 9110 §12.5.3).
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|v| v.to_str().ok());
    let mut accepts_any = false;
    for item in values.flat_map(|v| v.as_bytes().split(|&byte| byte == b',')) {
        let mut parts = item.splitn(2, |&byte| byte == b';').map(<[u8]>::trim_ascii);
        let coding = parts.next().unwrap_or_default();
        let is_any = coding == b"*";
        if !is_any && !coding.eq_ignore_ascii_case(b"gzip") && !coding.eq_ignore_ascii_case(b"x-gzip") {
            continue;
        }
        let quality = parts.next().and_then(|parameters| parameters.strip_prefix(b"q="));
        let quality = quality.map_or(Some(1.0), |q| str::from_utf8(q).ok()?.trim().parse::<f32>().ok());
        let is_accepted = quality.is_some_and(|q| q > 0.0);
        if !is_any {
            return is_accepted;
        }
        accepts_any = is_accepted;
    }
    accepts_any
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, headers: &[(&str, &str)]) -> Parts {
        let mut builder = http::Request::builder().method(method).uri("/");
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        builder.body(()).unwrap().into_parts().0
    }

    fn hundred() -> Representation {
        Representation::fixed("video/mp4", 100, Some(Etag::quoted(b"a", "")), None)
    }

    #[test]
    fn an_etag_holds_every_digit_of_its_digest() {
        let text = |digest, variant| String::from_utf8(etag(digest, variant).as_bytes().to_vec()).unwrap();
        for digest in [0, 1, u128::MAX, 0x0123_4567_89ab_cdef_fedc_ba98_7654_3210] {
            assert_eq!(text(digest, "-gz"), format!("\"{digest:032x}-gz\""));
            assert_eq!(text(digest, ""), format!("\"{digest:032x}\""));
        }
    }

    fn decided(headers: &[(&str, &str)]) -> (u16, Option<Range<u64>>) {
        match decide(&request("GET", headers), &hundred()) {
            Ok(head) => (head.status.as_u16(), head.window),
            Err(error) => (error.status().0.as_u16(), None),
        }
    }

    #[test]
    fn ranges_are_read_as_rfc_9110_says() {
        for (range, status, window) in [
            ("bytes=0-0", 206, Some(0..1)),
            ("bytes=10-", 206, Some(10..100)),
            ("bytes=10-1000", 206, Some(10..100)),
            ("bytes=-1", 206, Some(99..100)),
            ("bytes=-1000", 206, Some(0..100)),
            ("bytes=0-99999999999999999999999", 206, Some(0..100)),
            ("bytes=100-", 416, None),
            ("bytes=99999999999999999999999-", 416, None),
            ("bytes=-0", 416, None),
            ("bytes=5-4", 200, Some(0..100)),
            ("bytes=a-b", 200, Some(0..100)),
            ("bytes=+1-2", 200, Some(0..100)),
            ("bytes=-", 200, Some(0..100)),
            ("bytes=0-1,5-6", 200, Some(0..100)),
            ("frames=0-1", 200, Some(0..100)),
        ] {
            assert_eq!(decided(&[("range", range)]), (status, window), "{range}");
        }
    }

    #[test]
    fn conditions_are_evaluated_in_order() {
        let whole = Some(0..100);
        for (headers, status, window) in [
            (&[("if-none-match", "\"a\"")][..], 304, None),
            (&[("if-none-match", "W/\"a\"")], 304, None),
            (&[("if-none-match", "\"b\", \"a\"")], 304, None),
            (&[("if-none-match", "*")], 304, None),
            (&[("if-none-match", "\"b\"")], 200, whole.clone()),
            (&[("if-none-match", "\"a\""), ("range", "bytes=200-")], 304, None),
            (&[("if-match", "\"b\"")], 412, None),
            (&[("if-match", "W/\"a\"")], 412, None),
            (&[("if-match", "\"a\"")], 200, whole.clone()),
            (&[("if-match", "*")], 200, whole.clone()),
            (&[("if-match", "\"b\""), ("if-none-match", "\"a\"")], 412, None),
            (&[("if-range", "\"a\""), ("range", "bytes=0-1")], 206, Some(0..2)),
            (&[("if-range", "\"b\""), ("range", "bytes=0-1")], 200, whole.clone()),
            (&[("if-range", "W/\"a\""), ("range", "bytes=0-1")], 200, whole.clone()),
            (&[("if-range", "Sat, 01 Jan 2000 00:00:00 GMT"), ("range", "bytes=0-1")], 200, whole.clone()),
        ] {
            assert_eq!(decided(headers), (status, window), "{headers:?}");
        }
    }

    #[test]
    fn head_has_the_headers_of_get_and_ignores_ranges() {
        let get = decide(&request("GET", &[]), &hundred()).unwrap();
        let head = decide(&request("HEAD", &[("range", "bytes=0-1")]), &hundred()).unwrap();
        assert_eq!((get.status, &get.headers), (head.status, &head.headers));
        assert_eq!(head.window, None);
    }

    #[test]
    fn gzip_is_accepted_only_if_its_quality_is_not_zero() {
        for (accept, is_accepted) in [
            ("gzip", true),
            ("br, gzip;q=0.5", true),
            ("gzip;q=0", false),
            ("gzip;q=0.000, *", false),
            ("*", true),
            ("*;q=0", false),
            ("identity", false),
            ("GZIP", true),
            ("gzip;q=x", false),
        ] {
            assert_eq!(
                accepts_gzip(&request("GET", &[("accept-encoding", accept)]).headers),
                is_accepted,
                "{accept}"
            );
        }
    }
}
