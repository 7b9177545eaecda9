//! The identity of a resource that is fetched in chunks. Chunks of two versions are never mixed.

use crate::{
    failure::{Failure, Reason},
    presentation::ByteRange,
};
use http::{HeaderValue, Response, StatusCode, header};
use url::Url;

/// The version of a resource, as its first response states it.
#[derive(Debug, Default)]
pub(super) struct Entity {
    known: Option<Version>,
    /// The length of the resource in bytes, once it is known.
    pub(super) length: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Version {
    tag: Option<HeaderValue>,
    modified: Option<HeaderValue>,
    /// The length of the whole file.
    total: u64,
}

impl Entity {
    /// Returns the entity tag with which further chunks are requested. `If-Match` needs a strong
    /// one (RFC 9110 §13.1.1); others are only compared.
    pub(super) fn strong_tag(&self) -> Option<HeaderValue> {
        let tag = self.known.as_ref()?.tag.as_ref()?;
        (!tag.as_bytes().starts_with(b"W/")).then(|| tag.clone())
    }

    /// Checks the head of a response to the request for a range, and returns the length of its
    /// body. `is_whole` is true if the resource ends with the file.
    ///
    /// # Errors
    /// - [`Reason::Changed`] if the version is not that of the first response.
    /// - [`Reason::WrongRange`] if the response has another range, or the whole file.
    /// - [`Reason::Status`] for any other status, and 416 if the range is beyond the end.
    pub(super) fn accept<T>(
        &mut self,
        url: &Url,
        range: ByteRange,
        is_whole: bool,
        response: &Response<T>,
    ) -> Result<u64, Failure> {
        let field = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
        let given = field(header::CONTENT_RANGE);
        match response.status() {
            StatusCode::PARTIAL_CONTENT => {}
            StatusCode::PRECONDITION_FAILED => return Err(changed(url)),
            StatusCode::RANGE_NOT_SATISFIABLE => {
                let total = given.and_then(|given| given.strip_prefix("bytes */")?.parse().ok());
                return Err(self.beyond_end(url, is_whole, total));
            }
            status if status.is_success() => {
                // Servers may ignore a range beyond the end (RFC 9110 §15.5.17).
                let total = field(header::CONTENT_LENGTH).and_then(|total| total.parse::<u64>().ok());
                if total.is_some_and(|total| total <= range.first) {
                    return Err(self.beyond_end(url, is_whole, total));
                }
                let why = format!(
                    "{url}: {status} for the range {range}: the server does not answer byte ranges, which chunks need"
                );
                return Err(Failure::new(Reason::WrongRange, why));
            }
            status => return Err(Failure::new(Reason::Status(status.as_u16()), url.to_string())),
        }
        let parsed = given.and_then(|given| given.strip_prefix("bytes ")?.split_once('/'));
        let parsed = parsed.and_then(|(part, total)| Some((ByteRange::parse(part)?, total.parse().ok()?)));
        let (part, total): (ByteRange, u64) = parsed.ok_or_else(|| wrong_range(url, given, range))?;
        // The last chunk ends with the file.
        let last = range.last.min(total.saturating_sub(1));
        if (part.first, part.last) != (range.first, last) {
            return Err(wrong_range(url, given, range));
        }
        let headers = response.headers();
        let tag = headers.get(header::ETAG);
        let modified = headers.get(header::LAST_MODIFIED);
        let version = Version { tag: tag.cloned(), modified: modified.cloned(), total };
        if *self.known.get_or_insert_with(|| version.clone()) != version {
            return Err(changed(url));
        }
        if is_whole {
            if self.length.is_some_and(|length| length != total) {
                return Err(changed(url));
            }
            self.length = Some(total);
        }
        Ok(part.length())
    }

    /// Returns true if a response has stated the version.
    pub(super) const fn is_known(&self) -> bool {
        self.known.is_some()
    }

    /// Returns the failure of a request beyond the end of a file of `total` bytes.
    fn beyond_end(&mut self, url: &Url, is_whole: bool, total: Option<u64>) -> Failure {
        if self.known.as_ref().is_some_and(|known| total.is_some_and(|total| total != known.total)) {
            return changed(url);
        }
        // The end is known before the first chunk has arrived.
        if is_whole && total.is_some_and(|total| total > 0) {
            self.length = self.length.or(total);
        }
        Failure::new(Reason::Status(StatusCode::RANGE_NOT_SATISFIABLE.as_u16()), url.to_string())
    }
}

fn changed(url: &Url) -> Failure {
    Failure::new(Reason::Changed, format!("{url} changed between two of its chunks"))
}

fn wrong_range(url: &Url, given: Option<&str>, range: ByteRange) -> Failure {
    let given = given.unwrap_or("no Content-Range");
    Failure::new(Reason::WrongRange, format!("{url}: {given} for the range {range}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: ByteRange = ByteRange { first: 100, last: 199 };

    fn accept(entity: &mut Entity, status: u16, fields: &[(&str, &str)]) -> Result<u64, Reason> {
        let mut response = Response::builder().status(status);
        for (name, value) in fields {
            response = response.header(*name, *value);
        }
        let url = Url::parse("http://a/b").unwrap();
        entity.accept(&url, RANGE, true, &response.body(()).unwrap()).map_err(|failure| failure.reason)
    }

    #[test]
    fn ranges_must_be_those_requested() {
        for (range, expected) in [
            ("bytes 100-199/1000", Ok(100)),
            ("bytes 100-149/150", Ok(50)),
            ("bytes 100-149/1000", Err(Reason::WrongRange)),
            ("bytes 0-199/1000", Err(Reason::WrongRange)),
            ("bytes 100-299/1000", Err(Reason::WrongRange)),
            ("bytes 100-199/*", Err(Reason::WrongRange)),
            ("bytes 100-199/50", Err(Reason::WrongRange)),
            ("100-199", Err(Reason::WrongRange)),
        ] {
            let mut entity = Entity::default();
            assert_eq!(accept(&mut entity, 206, &[("content-range", range)]), expected, "{range}");
        }
        let mut entity = Entity::default();
        assert_eq!(accept(&mut entity, 206, &[]), Err(Reason::WrongRange));
        assert_eq!(accept(&mut entity, 200, &[]), Err(Reason::WrongRange));
        assert_eq!(accept(&mut entity, 503, &[]), Err(Reason::Status(503)));
        assert_eq!(accept(&mut entity, 412, &[]), Err(Reason::Changed));
    }

    #[test]
    fn the_end_is_known_from_a_response_beyond_it() {
        let mut entity = Entity::default();
        assert_eq!(accept(&mut entity, 416, &[("content-range", "bytes */80")]), Err(Reason::Status(416)));
        assert_eq!(entity.length, Some(80));
        // A file of another length is another one.
        assert_eq!(accept(&mut entity, 206, &[("content-range", "bytes 100-199/300")]), Err(Reason::Changed));
    }

    #[test]
    fn the_whole_file_in_place_of_a_range_beyond_its_end_is_no_wrong_range() {
        for (length, expected) in [("80", Reason::Status(416)), ("101", Reason::WrongRange)] {
            let mut entity = Entity::default();
            assert_eq!(accept(&mut entity, 200, &[("content-length", length)]), Err(expected));
            assert_eq!(entity.length, (expected != Reason::WrongRange).then_some(80));
        }
    }

    #[test]
    fn an_end_that_moves_is_a_change() {
        let mut entity = Entity::default();
        accept(&mut entity, 206, &[("content-range", "bytes 100-149/150")]).unwrap();
        assert_eq!(accept(&mut entity, 416, &[("content-range", "bytes */150")]), Err(Reason::Status(416)));
        assert_eq!(accept(&mut entity, 416, &[("content-range", "bytes */90")]), Err(Reason::Changed));
    }

    #[test]
    fn versions_are_never_mixed() {
        let whole = ("content-range", "bytes 100-199/1000");
        for (first, second) in [
            ([whole, ("etag", "\"a\"")], [whole, ("etag", "\"b\"")]),
            ([whole, ("etag", "W/\"a\"")], [whole, ("etag", "W/\"b\"")]),
            ([whole, ("last-modified", "x")], [whole, ("last-modified", "y")]),
            ([whole, ("etag", "\"a\"")], [("content-range", "bytes 100-199/1001"), ("etag", "\"a\"")]),
            ([whole, ("etag", "\"a\"")], [whole, whole]),
        ] {
            let mut entity = Entity::default();
            assert_eq!(accept(&mut entity, 206, &first), Ok(100));
            assert_eq!(accept(&mut entity, 206, &first), Ok(100));
            assert_eq!(accept(&mut entity, 206, &second), Err(Reason::Changed), "{second:?}");
        }
    }

    #[test]
    fn only_strong_tags_are_conditions() {
        for (tag, expected) in [("\"a\"", Some("\"a\"")), ("W/\"a\"", None)] {
            let mut entity = Entity::default();
            assert_eq!(entity.strong_tag(), None);
            accept(&mut entity, 206, &[("content-range", "bytes 100-199/1000"), ("etag", tag)]).unwrap();
            assert_eq!(entity.strong_tag().as_ref().map(HeaderValue::as_bytes), expected.map(str::as_bytes));
        }
    }
}
