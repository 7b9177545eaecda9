//! Readers for the manifests of all protocols.
//!
//! Manifests come from a server under test. Every count is bounded before memory is allocated for
//! it, and no manifest makes this crate panic.

mod dash;
mod dash_segments;
mod hds;
mod hds_bootstrap;
mod hls;
mod limits;
mod mpd;
mod reference;
mod smooth;
mod xml;

pub use crate::{manifest_error::ManifestError, presentation::deferred::Deferred};
pub use limits::{MAX_BYTES, MAX_SEGMENTS};

use crate::presentation::Presentation;
use url::Url;
use xml::document;

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
        "MPD" => dash::read(url, &document(text)?),
        "SmoothStreamingMedia" => smooth::read(url, &document(text)?),
        "manifest" => hds::read(url, &document(text)?),
        "" => Err(ManifestError::invalid("neither a playlist nor XML")),
        other => Err(ManifestError::invalid(format!("not a manifest: XML whose root element is {other}"))),
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
