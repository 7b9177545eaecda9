//! Parsed manifests, lists of segments and init segments, which all players share.

use bytes::Bytes;
use latemux_client::{
    check::Init,
    failure::{Failure, Reason},
    manifest::{self, Deferred, ManifestError},
    presentation::{MediaKind, Presentation, Segments},
};
use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, PoisonError},
};
use url::Url;

/// The maximum number of entries of each kind. When it is reached, all of them are dropped.
const MAX: usize = 4096;

/// Manifests, lists of segments and init segments, by their URL and the hash of their bytes.
#[derive(Debug, Default)]
pub(crate) struct ParseCache {
    hasher: RandomState,
    presentations: Map<Presentation>,
    segments: Map<Segments>,
    inits: Map<Init>,
}

type Map<T> = Mutex<HashMap<(Url, usize, u64), Arc<T>>>;

impl ParseCache {
    fn get<T>(
        &self,
        map: &Map<T>,
        url: &Url,
        body: &[u8],
        read: impl FnOnce() -> Result<T, Failure>,
    ) -> Result<Arc<T>, Failure> {
        let key = (url.clone(), body.len(), self.hasher.hash_one(body));
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

    /// Returns the presentation of a manifest, without text unless `with_text`, which must be the same in
    /// each call.
    pub(crate) fn presentation(
        &self,
        url: &Url,
        body: &[u8],
        with_text: bool,
    ) -> Result<Arc<Presentation>, Failure> {
        self.get(&self.presentations, url, body, || {
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
        // Several representations may have their index in one file, at different ranges.
        let mut key = deferred.resource.url.clone();
        key.set_fragment(deferred.resource.range.map(|range| range.to_string()).as_deref());
        self.get(&self.segments, &key, body, || deferred.read(url, body).map_err(|why| failure(url, &why)))
    }

    /// Returns an init segment.
    pub(crate) fn init(&self, url: &Url, body: &[u8]) -> Result<Arc<Init>, Failure> {
        self.get(&self.inits, url, body, || Init::read(&Bytes::copy_from_slice(body)))
    }
}

fn failure(url: &Url, why: &ManifestError) -> Failure {
    Failure::new(Reason::Manifest(why.reason()), format!("{url}: {why}"))
}
