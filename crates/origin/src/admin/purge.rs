//! `POST /purge`: removes titles from all caches.

use crate::{app::App, title::index_store::PurgeCounts};
use http::Uri;
use percent_encoding::percent_decode_str;
use serde::Serialize;

/// Titles to purge.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum PurgeRequest {
    /// The title of a base.
    Base(String),
    /// All titles and files whose names begin with this text. It is empty for all there are.
    Prefix(String),
}

impl PurgeRequest {
    /// Parses the query of a URL: `base=…` or `prefix=…`. A prefix for everything is written as
    /// `/`, so that a variable without a value in a script does not purge everything.
    pub(super) fn parse(uri: &Uri) -> Option<Self> {
        let mut pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
        let (name, value) = pairs.find(|(name, _)| matches!(*name, "base" | "prefix"))?;
        let value = percent_decode_str(value).decode_utf8().ok()?;
        match name {
            "base" => Some(Self::Base(value.trim_matches('/').to_owned())),
            _ if value.is_empty() => None,
            _ => Some(Self::Prefix(value.trim_start_matches('/').to_owned())),
        }
    }
}

/// Number of entries that were purged, by kind.
#[derive(Debug, Serialize)]
pub(super) struct Purged {
    #[serde(skip_serializing_if = "Option::is_none")]
    base: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<String>,
    titles: u64,
    indexes: u64,
    indexes_on_disk: u64,
    manifests: u64,
    ranges: u64,
}

pub(super) async fn purge(app: &App, request: PurgeRequest) -> Purged {
    let (titles, counts) = match &request {
        PurgeRequest::Base(base) => app.titles.purge(base).await,
        PurgeRequest::Prefix(prefix) => app.titles.purge_prefix(prefix).await,
    };
    let manifests = titles.iter().map(|id| app.manifests.purge(*id)).sum();
    let (base, prefix) = match request {
        PurgeRequest::Base(base) => (Some(base), None),
        PurgeRequest::Prefix(prefix) => (None, Some(prefix)),
    };
    let titles = titles.len() as u64;
    let PurgeCounts { indexes, indexes_on_disk, ranges } = counts;
    tracing::info!(
        reason = "purge",
        base,
        prefix,
        titles,
        indexes,
        indexes_on_disk,
        manifests,
        ranges,
        "purged"
    );
    Purged { base, prefix, titles, indexes, indexes_on_disk, manifests, ranges }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purge_names_a_base_or_a_prefix() {
        let parse = |query: &str| PurgeRequest::parse(&format!("/purge?{query}").parse().unwrap());
        let base = |text: &str| Some(PurgeRequest::Base(text.to_owned()));
        let prefix = |text: &str| Some(PurgeRequest::Prefix(text.to_owned()));
        for (query, expected) in [
            ("base=harbour", base("harbour")),
            ("base=%2Fa%20b%2F", base("a b")),
            ("x=y&base=a", base("a")),
            ("prefix=series/", prefix("series/")),
            ("prefix=%2Fseries%2Fa", prefix("series/a")),
            ("prefix=/", prefix("")),
            ("prefix=", None),
            ("base=%ff", None),
            ("prefix=%ff", None),
            ("bases=a", None),
            ("", None),
        ] {
            assert_eq!(parse(query), expected, "{query}");
        }
    }
}
