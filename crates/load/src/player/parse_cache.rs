//! Parsed manifests, lists of segments and init segments, which all players share.

use bytes::Bytes;
use latemux_client::{
    check::Init,
    failure::{Failure, Reason},
    manifest::{self, Deferred, ManifestError},
    presentation::{MediaKind, Presentation, Resource, Segments},
};
use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, PoisonError},
};
use url::Url;

/// The maximum number of entries of each kind. A full map is emptied before an entry is added.
const MAX: usize = 4096;

/// Manifests, lists of segments and init segments, by their resource and the hash of their bytes.
#[derive(Debug, Default)]
pub(crate) struct ParseCache {
    hasher: RandomState,
    presentations: Map<Presentation>,
    segments: Map<Segments>,
    inits: Map<Init>,
}

type Map<T> = Mutex<HashMap<(Resource, usize, u64), Arc<T>>>;

impl ParseCache {
    fn get<T>(
        &self,
        map: &Map<T>,
        resource: Resource,
        body: &[u8],
        read: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<Arc<T>, Failure> {
        let key = (resource, body.len(), self.hasher.hash_one(body));
        if let Some(known) = map.lock().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Ok(known.clone());
        }
        let made = Arc::new(read()?);
        let mut map = map.lock().unwrap_or_else(PoisonError::into_inner);
        if map.len() >= MAX {
            map.clear();
        }
        // If several players parsed the same bytes at the same time, one result is kept.
        Ok(map.entry(key).or_insert(made).clone())
    }

    /// Returns the presentation of a manifest. Its text is left out unless `with_text` is true.
    /// `with_text` must be the same in each call.
    pub(crate) fn presentation(
        &self,
        url: &Url,
        body: &[u8],
        with_text: bool,
    ) -> Result<Arc<Presentation>, Failure> {
        self.get(&self.presentations, Resource { url: url.clone(), range: None }, body, || {
            let mut read = manifest::read(url, body).map_err(|why| failure(url, &why))?;
            read.sets.retain(|set| with_text || set.kind != MediaKind::Text);
            Ok(read)
        })
    }

    /// Returns the segments that a deferred list names.
    pub(crate) fn segments(
        &self,
        deferred: &Deferred,
        url: &Url,
        body: &[u8],
    ) -> Result<Arc<Segments>, Failure> {
        let read = || deferred.read(url, body).map_err(|why| failure(url, &why));
        self.get(&self.segments, deferred.resource.clone(), body, read)
    }

    /// Returns an init segment.
    pub(crate) fn init(&self, resource: &Resource, body: &[u8]) -> Result<Arc<Init>, Failure> {
        self.get(&self.inits, resource.clone(), body, || Init::read(&Bytes::copy_from_slice(body)))
    }
}

fn failure(url: &Url, why: &ManifestError) -> Failure {
    Failure::new(Reason::Manifest(why.reason()), format!("{url}: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MASTER: &str = "#EXTM3U\n\
        #EXT-X-MEDIA:TYPE=SUBTITLES,GROUP-ID=\"s\",NAME=\"en\",URI=\"t.m3u8\"\n\
        #EXT-X-STREAM-INF:BANDWIDTH=1,RESOLUTION=1x1,SUBTITLES=\"s\"\nv.m3u8\n";

    fn url(path: &str) -> Url {
        Url::parse("http://a/").unwrap().join(path).unwrap()
    }

    #[test]
    fn equal_bytes_at_one_url_are_parsed_once() {
        let cache = ParseCache::default();
        let get = |path: &str, body: &str| cache.presentation(&url(path), body.as_bytes(), true).unwrap();
        let first = get("a", MASTER);
        assert!(Arc::ptr_eq(&first, &get("a", MASTER)));
        assert!(!Arc::ptr_eq(&first, &get("b", MASTER)), "addresses are relative to the URL");
        assert!(!Arc::ptr_eq(&first, &get("a", &format!("{MASTER}\n"))), "other bytes");
    }

    #[test]
    fn text_is_left_out_unless_wanted() {
        let sets = |with_text: bool| {
            let cache = ParseCache::default();
            cache.presentation(&url("a"), MASTER.as_bytes(), with_text).unwrap().sets.len()
        };
        assert_eq!((sets(true), sets(false)), (2, 1));
    }

    #[test]
    fn failures_have_the_reason_of_the_manifest_and_are_not_kept() {
        let cache = ParseCache::default();
        let failure = cache.presentation(&url("a"), b"<html/>", true).unwrap_err();
        assert_eq!(failure.reason, Reason::Manifest("manifest_invalid"));
        assert!(failure.detail.starts_with("http://a/a: "), "{}", failure.detail);
        assert!(cache.init(&Resource { url: url("i"), range: None }, b"").is_err());
        assert!(cache.presentations.lock().unwrap().is_empty() && cache.inits.lock().unwrap().is_empty());
    }

    #[test]
    fn a_full_cache_is_emptied() {
        let cache = ParseCache::default();
        for entry in 0..=MAX {
            cache.presentation(&url(&entry.to_string()), MASTER.as_bytes(), false).unwrap();
        }
        assert_eq!(cache.presentations.lock().unwrap().len(), 1);
    }
}
