//! Headers that state how far a response may be trusted to be current.

use crate::{config::CacheControlConfig, observe::metrics::Metrics, title::checks::Checks};
use http::{HeaderMap, HeaderValue, header::WARNING};
use latemux_packager::plan::Class;
use std::sync::atomic::Ordering::Relaxed;

/// The `Warning` of a manifest whose title storage does not confirm (RFC 7234, 5.5.2).
const STALE: HeaderValue = HeaderValue::from_static("111 - \"Revalidation Failed\"");

/// Returns the `Cache-Control` of a response. While a title is unsettled, nothing of it may be
/// cached, because other tracks may give the same segments other bytes.
pub(crate) fn cache_control(
    configured: &CacheControlConfig,
    checks: &Checks,
    class: Class,
) -> Option<HeaderValue> {
    if checks.is_unsettled() {
        return Some(HeaderValue::from_static("no-store"));
    }
    configured.of(class)
}

/// Warns the client if storage did not confirm the title of a manifest, and counts that.
pub(crate) fn warn_if_stale(metrics: &Metrics, checks: &Checks, headers: &mut HeaderMap) {
    if checks.is_stale() {
        metrics.stale_manifests.fetch_add(1, Relaxed);
        headers.insert(WARNING, STALE);
    }
}
