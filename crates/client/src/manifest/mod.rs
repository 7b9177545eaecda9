//! Readers for the manifests of all protocols.
//!
//! Manifests come from a server under test. Every count is bounded before memory is allocated for
//! it, and no manifest makes this crate panic.

mod dash;
mod dash_segments;
mod hds;
mod hds_bootstrap;
mod hls;
mod smooth;
mod template;

pub(crate) use template::Template;

use crate::presentation::{ByteRange, Presentation, Resource, Segments};
use roxmltree::{Document, ParsingOptions};
use url::Url;

/// The maximum number of bytes of a manifest, playlist or segment index.
pub const MAX_BYTES: usize = 16 << 20;

/// The maximum number of segments of a rendition.
pub const MAX_SEGMENTS: usize = 1 << 18;

/// The maximum number of renditions of a set.
pub(crate) const MAX_RENDITIONS: usize = 512;

/// The maximum number of segments of all renditions together.
pub(crate) const MAX_ALL_SEGMENTS: usize = 1 << 20;

/// The reason why a manifest cannot be played.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// The manifest is damaged, or does not follow its standard.
    #[error("{0}")]
    Invalid(String),
    /// The manifest is valid, but uses a feature that is not supported.
    #[error("{0} is not supported")]
    Unsupported(String),
    /// The manifest exceeds a limit.
    #[error("more than {limit} {what}")]
    TooMuch {
        /// The kind of items of which there are too many.
        what: &'static str,
        /// The maximum number of such items.
        limit: usize,
    },
}

impl ManifestError {
    /// Returns the stable name for reports.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "manifest_invalid",
            Self::Unsupported(_) => "manifest_unsupported",
            Self::TooMuch { .. } => "manifest_too_large",
        }
    }

    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid(what.into())
    }

    /// Refuses a time, a byte or a segment number that is too large for any media.
    pub(crate) fn beyond(what: &str) -> Self {
        Self::Invalid(format!("{what} that is too large"))
    }

    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        Self::Unsupported(what.into())
    }
}

/// Reads a manifest. Its content determines the protocol. `url` is its address after redirects.
///
/// # Errors
/// - [`ManifestError::Invalid`] if the text is not a manifest, or the manifest is damaged.
/// - [`ManifestError::Unsupported`] for live presentations and other unsupported features.
/// - [`ManifestError::TooMuch`] if a limit is exceeded.
pub fn read(url: &Url, body: &[u8]) -> Result<Presentation, ManifestError> {
    if body.len() > MAX_BYTES {
        return Err(ManifestError::TooMuch { what: "bytes", limit: MAX_BYTES });
    }
    let text = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let text = std::str::from_utf8(text).map_err(|_| ManifestError::invalid("not UTF-8"))?.trim_start();
    if text.starts_with("#EXTM3U") {
        return hls::read(url, text);
    }
    match root_name(text) {
        "MPD" => dash::read(url, text),
        "SmoothStreamingMedia" => smooth::read(url, &document(text)?),
        "manifest" => hds::read(url, &document(text)?),
        "" => Err(ManifestError::invalid("neither a playlist nor XML")),
        other => Err(ManifestError::invalid(format!("not a manifest: XML whose root element is {other}"))),
    }
}

/// A list of segments that must be fetched separately.
#[derive(Debug, Clone)]
pub struct Deferred {
    /// The address of the list.
    pub resource: Resource,
    reader: Reader,
}

#[derive(Debug, Clone)]
pub(crate) enum Reader {
    /// An HLS media playlist.
    MediaPlaylist,
    /// The `sidx` of a DASH representation.
    SegmentIndex(dash_segments::OneFile),
    /// HDS bootstrap information, with the fragments' address without their numbers.
    Bootstrap(Url),
}

impl Deferred {
    pub(crate) const fn new(resource: Resource, reader: Reader) -> Self {
        Self { resource, reader }
    }

    /// Reads the list. `url` is its address after redirects.
    pub fn read(&self, url: &Url, body: &[u8]) -> Result<Segments, ManifestError> {
        if body.len() > MAX_BYTES {
            return Err(ManifestError::TooMuch { what: "bytes", limit: MAX_BYTES });
        }
        match &self.reader {
            Reader::MediaPlaylist => {
                let text = std::str::from_utf8(body).map_err(|_| ManifestError::invalid("not UTF-8"))?;
                hls::media_playlist(url, text)
            }
            Reader::SegmentIndex(file) => file.read(self.resource.range, body),
            Reader::Bootstrap(fragments) => hds_bootstrap::read(fragments, body),
        }
    }
}

/// Returns the name of the root element without its namespace prefix; empty if there is no element.
fn root_name(text: &str) -> &str {
    let mut rest = text;
    while let Some((_, tag)) = rest.split_once('<') {
        if let Some(comment) = tag.strip_prefix("!--") {
            rest = comment.split_once("-->").map_or("", |(_, behind)| behind);
        } else if tag.starts_with(['?', '!']) {
            rest = tag;
        } else {
            let name = tag.split(|c: char| c.is_whitespace() || c == '>' || c == '/').next();
            return name.and_then(|name| name.rsplit(':').next()).unwrap_or_default();
        }
    }
    ""
}

/// Parses XML. Documents with a DTD are refused, so that entities cannot expand.
fn document(text: &str) -> Result<Document<'_>, ManifestError> {
    let options = ParsingOptions {
        allow_dtd: false,
        nodes_limit: 4 * u32::try_from(MAX_SEGMENTS).unwrap_or(u32::MAX),
        ..ParsingOptions::default()
    };
    Document::parse_with_options(text, options).map_err(|error| ManifestError::invalid(error.to_string()))
}

/// Resolves a reference in a manifest.
fn join(base: &Url, reference: &str) -> Result<Url, ManifestError> {
    let url = base.join(reference.trim());
    let url = url.map_err(|error| ManifestError::invalid(format!("{reference}: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(ManifestError::unsupported(format!("the URL scheme {}", url.scheme())));
    }
    Ok(url)
}

fn range(text: &str) -> Result<ByteRange, ManifestError> {
    ByteRange::parse(text).ok_or_else(|| ManifestError::invalid(format!("{text} is not a byte range")))
}

/// The number of segments that a presentation may still have.
#[derive(Debug)]
struct SegmentBudget(usize);

impl Default for SegmentBudget {
    fn default() -> Self {
        Self(MAX_ALL_SEGMENTS)
    }
}

impl SegmentBudget {
    /// Subtracts `count` segments of one rendition. Fails if a limit is exceeded.
    fn take(&mut self, count: u64) -> Result<usize, ManifestError> {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        if count > MAX_SEGMENTS {
            return Err(ManifestError::TooMuch { what: "segments of a rendition", limit: MAX_SEGMENTS });
        }
        let left = self.0.checked_sub(count);
        self.0 = left.ok_or(ManifestError::TooMuch { what: "segments", limit: MAX_ALL_SEGMENTS })?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_found_after_declarations_and_comments() {
        assert_eq!(root_name("<?xml version='1.0'?>\n<!-- <MPD> --><MPD a='b'>"), "MPD");
        assert_eq!(root_name("<f:manifest>"), "manifest");
        assert_eq!(root_name("<!-- endless"), "");
        assert_eq!(root_name("hello"), "");
    }

    #[test]
    fn bodies_that_are_not_manifests_are_refused() {
        let url = Url::parse("http://a/b").unwrap();
        let why = |body: &[u8]| read(&url, body).unwrap_err();
        assert_eq!(why(b"<html><body>Not found").reason(), "manifest_invalid");
        assert_eq!(why(b"").reason(), "manifest_invalid");
        assert_eq!(why(&[0xff, 0xfe]).reason(), "manifest_invalid");
        assert_eq!(why(&vec![b' '; MAX_BYTES + 1]).reason(), "manifest_too_large");
        let bomb = br#"<!DOCTYPE x [<!ENTITY a "aaaa">]><SmoothStreamingMedia>&a;</SmoothStreamingMedia>"#;
        assert_eq!(why(bomb).reason(), "manifest_invalid");
    }
}
