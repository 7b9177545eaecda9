use super::{MAX_SKIPPED, ResponseHead, check_head, content_range, retry_after};
use crate::{StorageError, Version, Want};
use http::{HeaderMap, Response, response::Parts};
use std::time::Duration;

fn head(status: u16, headers: &[(&str, &str)]) -> Parts {
    let response = Response::builder().status(status);
    headers.iter().fold(response, |r, (name, value)| r.header(*name, *value)).body(()).unwrap().into_parts().0
}

fn ok(want: &Want, pin: Option<&Version>, head: &Parts) -> ResponseHead {
    check_head("k", want, pin, head).unwrap()
}

fn error(want: &Want, pin: Option<&Version>, head: &Parts) -> StorageError {
    check_head("k", want, pin, head).unwrap_err().error
}

#[test]
fn content_ranges() {
    for (text, parsed) in [
        ("bytes 0-0/1", Some((0..1, Some(1)))),
        ("bytes 5-9/*", Some((5..10, None))),
        ("bytes  5-9 / 20 ", Some((5..10, Some(20)))),
        ("bytes */20", None),
        ("bytes 9-5/20", None),
        ("bytes 5-20/20", None),
        ("bytes 5-9", None),
        ("bytes +5-9/20", None),
        ("bytes 0-18446744073709551615/1", None),
        ("items 0-0/1", None),
        ("", None),
    ] {
        assert_eq!(content_range(text), parsed, "{text:?}");
    }
}

#[test]
fn retry_after_in_both_forms() {
    let at = |value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert("retry-after", value.parse().unwrap());
        // The server's clock need not agree with ours.
        headers.insert("date", "Sun, 06 Nov 1994 08:49:30 GMT".parse().unwrap());
        retry_after(&headers)
    };
    assert_eq!(at("120"), Some(Duration::from_secs(120)));
    assert_eq!(at("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::from_secs(7)));
    assert_eq!(at("Sun, 06 Nov 1994 08:49:00 GMT"), Some(Duration::ZERO));
    assert_eq!(at("soon"), None);
}

#[test]
fn only_a_strong_etag_is_a_version() {
    let date = ("last-modified", "Sun, 06 Nov 1994 08:49:37 GMT");
    let version = |headers: &[(&str, &str)]| {
        let range = ("content-range", "bytes 0-9/100");
        ok(&Want::Head(10), None, &head(206, &[&[range], headers].concat())).object.version
    };
    let etag = Some("\"x\"".into());
    let modified = Some(784_111_777);
    assert_eq!(version(&[("etag", "\"x\""), date]), Version { etag, size: 100, modified: None });
    assert_eq!(version(&[("etag", "W/\"x\""), date]), Version { etag: None, size: 100, modified });
    assert_eq!(version(&[date]), Version { etag: None, size: 100, modified });
    assert_eq!(version(&[]), Version { etag: None, size: 100, modified: None });
    assert_eq!(version(&[("last-modified", "yesterday")]), Version { etag: None, size: 100, modified: None });
}

#[test]
fn the_response_must_have_the_requested_range() {
    let partial = |range: &str| head(206, &[("content-range", range)]);
    assert_eq!(ok(&Want::Range(5..10), None, &partial("bytes 5-9/100")).range, 5..10);
    assert_eq!(ok(&Want::Head(500), None, &partial("bytes 0-99/100")).range, 0..100);
    for range in ["bytes 4-9/100", "bytes 5-8/100", "bytes 5-10/100", "bytes 5-9/*", "nonsense"] {
        let e = error(&Want::Range(5..10), None, &partial(range));
        assert!(matches!(e, StorageError::BadResponse { .. }), "{range}: {e:?}");
    }
    assert!(matches!(error(&Want::Range(5..10), None, &head(206, &[])), StorageError::BadResponse { .. }));
    // The response of a server to a range that ends behind the object.
    assert!(matches!(error(&Want::Range(5..10), None, &partial("bytes 5-7/8")), StorageError::OutOfRange(_)));
}

#[test]
fn servers_without_ranges() {
    let whole = head(200, &[("content-length", "100"), ("etag", "\"x\"")]);
    assert_eq!(ok(&Want::Head(10), None, &whole).range, 0..10);
    assert_eq!(ok(&Want::Head(500), None, &whole).range, 0..100);
    assert_eq!(ok(&Want::Range(0..10), None, &whole).range, 0..10);
    let skipping = ok(&Want::Range(1..10), None, &whole);
    assert_eq!((skipping.range, skipping.skip), (1..10, 1));
    let large = head(200, &[("content-length", "9999999"), ("etag", "\"x\"")]);
    let far = |start| Want::Range(start..start + 10);
    assert_eq!(ok(&far(MAX_SKIPPED), None, &large).skip, MAX_SKIPPED);
    assert!(matches!(error(&far(MAX_SKIPPED + 1), None, &large), StorageError::BadResponse { .. }));
    assert_eq!(ok(&Want::Range(5_000_000..5_000_000), None, &large).skip, 0, "asked by HEAD");
    assert!(matches!(error(&Want::Range(0..101), None, &whole), StorageError::OutOfRange(_)));
    assert!(matches!(error(&Want::Head(10), None, &head(200, &[])), StorageError::BadResponse { .. }));
}

#[test]
fn pins_are_compared_with_every_response() {
    let response = head(206, &[("content-range", "bytes 0-9/100"), ("etag", "\"x\"")]);
    let pin = |etag: Option<&str>, size| Version { etag: etag.map(Into::into), size, modified: None };
    ok(&Want::Head(10), Some(&pin(Some("\"x\""), 100)), &response);
    for pin in [pin(Some("\"y\""), 100), pin(Some("\"x\""), 101), pin(None, 100)] {
        assert!(matches!(error(&Want::Head(10), Some(&pin), &response), StorageError::Changed(_)), "{pin:?}");
    }
    let gone = head(416, &[]);
    assert!(matches!(error(&Want::Range(0..10), None, &gone), StorageError::OutOfRange(_)));
    assert!(matches!(error(&Want::Range(0..10), Some(&pin(None, 100)), &gone), StorageError::Changed(_)));
    assert!(matches!(error(&Want::Range(0..10), Some(&pin(None, 9)), &gone), StorageError::OutOfRange(_)));
}

#[test]
fn every_status_has_its_error() {
    for status in 200..600 {
        let Err(refusal) = check_head("k", &Want::Head(10), None, &head(status, &[])) else {
            panic!("{status} without headers must not be a valid response")
        };
        let (reason, again) = match status {
            404 | 410 => ("source_not_found", false),
            401 | 403 => ("storage_denied", false),
            412 => ("source_changed", false),
            416 => ("source_range", false),
            429 | 503 => ("storage_throttled", true),
            408 | 500..=599 => ("storage_unavailable", true),
            _ => ("storage_bad_answer", false),
        };
        assert_eq!((refusal.error.reason(), refusal.may_retry), (reason, again), "{status}");
    }
}
