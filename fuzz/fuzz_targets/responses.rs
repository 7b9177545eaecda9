//! Reads arbitrary bytes as what storage sends on a connection. The end of a response must not
//! depend on the pieces in which it arrives, and a head that is accepted must state exactly the
//! bytes that were requested.
//!
//! The first ten bytes are the request: pieces, method, wanted range and pinned size.
#![no_main]

#[path = "../../crates/storage/src/error.rs"]
#[allow(dead_code, reason = "the checks need some of it")]
mod error;
#[path = "../../crates/storage/src/backend/http/framing.rs"]
#[allow(dead_code, reason = "the checks need some of it")]
mod framing;
#[path = "../../crates/storage/src/object.rs"]
#[allow(dead_code, reason = "the checks need some of it")]
mod object;
#[path = "../../crates/storage/src/read.rs"]
#[allow(dead_code, reason = "the checks need some of it")]
mod read;
#[path = "../../crates/storage/src/backend/http/response_head.rs"]
#[allow(dead_code, reason = "the checks need some of it")]
mod response_head;

/// Stands for the module of the storage client, which sends requests.
mod client {
    use crate::StorageError;
    use http::StatusCode;

    pub(crate) enum Failure {
        Coded(String),
        Status(StatusCode),
    }

    impl Failure {
        pub(crate) fn into_error(self, key: &str) -> StorageError {
            let detail = match self {
                Self::Coded(coding) => coding,
                Self::Status(status) => status.to_string(),
            };
            StorageError::BadResponse { key: key.to_owned(), detail }
        }
    }
}

pub(crate) use error::StorageError;
pub(crate) use object::{Key, ObjectMeta, Version};
pub(crate) use read::Want;

use framing::Framing;
use http::{HeaderMap, HeaderName, HeaderValue, Response, header, response::Parts};
use libfuzzer_sys::fuzz_target;
use response_head::{MAX_SKIPPED, ResponseHead, check_head};

fuzz_target!(|data: &[u8]| {
    let Some((request, bytes)) = data.split_at_checked(10) else { return };
    let method: &[u8] = if request[1] & 1 == 1 { b"HEAD / HTTP/1.1" } else { b"GET / HTTP/1.1" };
    let own = received(method, bytes, bytes.len().max(1));
    assert!(own <= bytes.len());
    assert_eq!(own, received(method, bytes, usize::from(request[0]) + 1));
    let Some(head) = parse(bytes) else { return };
    let number = |at: usize| u64::from(u16::from_be_bytes([request[at], request[at + 1]]));
    let want = match request[1] >> 1 & 1 {
        0 => Want::Head(number(2)),
        _ => Want::Range(number(2) << 8..(number(2) << 8) + number(4)),
    };
    let pin = Version { etag: Some("\"e\"".into()), size: number(6), modified: None };
    let pin = Some(pin).filter(|_| request[8] & 1 == 1);
    if let Ok(accepted) = check_head("k", &want, pin.as_ref(), &head) {
        check(&want, pin.as_ref(), &head, &accepted);
    }
});

/// Returns the number of bytes that belong to the response, if all arrive in pieces.
fn received(request: &[u8], bytes: &[u8], piece: usize) -> usize {
    let mut framing = Framing::new();
    assert_eq!(framing.received(bytes), 0, "a response without a request");
    framing.sent(request);
    let own = bytes.chunks(piece).map(|piece| framing.received(piece)).sum();
    assert!(own == bytes.len() || framing.is_idle(), "surplus bytes before the end of a response");
    own
}

fn parse(bytes: &[u8]) -> Option<Parts> {
    let mut headers = [httparse::EMPTY_HEADER; 100];
    let mut response = httparse::Response::new(&mut headers);
    if !response.parse(bytes).is_ok_and(|status| status.is_complete()) {
        return None;
    }
    let mut map = HeaderMap::new();
    for header in response.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes()).ok()?;
        map.append(name, HeaderValue::from_bytes(header.value).ok()?);
    }
    let mut parts = Response::builder().status(response.code?).body(()).ok()?.into_parts().0;
    parts.headers = map;
    Some(parts)
}

/// Asserts that an accepted head states what was requested.
fn check(want: &Want, pin: Option<&Version>, head: &Parts, accepted: &ResponseHead) {
    let ResponseHead { object, range, is_exact, skip } = accepted;
    assert_eq!(want.within(object.size).as_ref(), Some(range));
    assert!(range.start <= range.end && range.end <= object.size);
    assert!(pin.is_none_or(|pin| *pin == object.version));
    let text = |name| Some(head.headers.get(name)?.to_str().ok()?.trim());
    let length: Option<u64> = text(header::CONTENT_LENGTH).and_then(|length| length.parse().ok());
    let coded = head.headers.get_all(header::CONTENT_ENCODING).iter();
    assert!(coded.into_iter().all(|coding| !coding.as_bytes().to_ascii_lowercase().ends_with(b"gzip")));
    if *is_exact {
        assert_eq!((head.status.as_u16(), *skip), (206, 0));
        let stated = text(header::CONTENT_RANGE).expect("a range");
        let numbers = stated.split(|c: char| !c.is_ascii_digit()).filter(|number| !number.is_empty());
        let numbers: Vec<u64> = numbers.map(|number| number.parse().expect("a number")).collect();
        assert_eq!(numbers, [range.start, range.end - 1, object.size], "{stated:?}");
        assert!(length.is_none_or(|length| length == range.end - range.start), "{length:?}");
    } else {
        assert_eq!((head.status.as_u16(), length), (200, Some(object.size)));
        assert!(*skip <= MAX_SKIPPED && skip + (range.end - range.start) <= object.size);
    }
}
