//! References to other resources: URLs and byte ranges.

use crate::{manifest_error::ManifestError, presentation::ByteRange};
use url::Url;

/// Resolves a reference in a manifest.
pub(super) fn join(base: &Url, reference: &str) -> Result<Url, ManifestError> {
    let url = base.join(reference.trim());
    let url = url.map_err(|error| ManifestError::invalid(format!("{reference}: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(ManifestError::unsupported(format!("the URL scheme {}", url.scheme())));
    }
    Ok(url)
}

pub(super) fn range(text: &str) -> Result<ByteRange, ManifestError> {
    ByteRange::parse(text).ok_or_else(|| ManifestError::invalid(format!("{text} is not a byte range")))
}
