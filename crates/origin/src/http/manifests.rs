//! Manifests, kept in memory both as text and compressed. Making a manifest takes all samples of a
//! title.

use crate::{
    Error,
    http::respond::{Coding, Representation, ResponseHead, accepts_gzip, decide, etag, is_plain},
    observe::metrics::CacheWatch,
    read::body::Body,
    title::memory_cache::MemoryCache,
    title::single_flight::SingleFlight,
    title::titles::LoadedTitle,
    title::work_queue::WorkQueue,
};
use bytes::{Bytes, BytesMut};
use flate2::{Compression, write::GzEncoder};
use futures_util::FutureExt;
use http::{HeaderValue, Response, header, request::Parts};
use latemux_index::media::fragment_samples::NoFragments;
use latemux_packager::{Address, Part, Plan, Planned, plan};
use quick_cache::Equivalent;
use std::{
    io::Write,
    sync::{Arc, OnceLock},
};

/// Estimate of the memory that the head of a response takes, in bytes. Most take less.
const HEAD: usize = 2 << 10;

/// A manifest.
#[derive(Debug)]
pub(crate) struct Manifest {
    content_type: &'static str,
    digest: u128,
    text: EncodedManifest,
    /// `None` if compression does not make the manifest shorter.
    gzip: Option<EncodedManifest>,
}

/// A manifest in one content coding.
#[derive(Debug)]
struct EncodedManifest {
    bytes: Bytes,
    /// Head of the response to plain requests, with its `Cache-Control`. The first such request
    /// sets it.
    plain_head: OnceLock<(Option<HeaderValue>, ResponseHead)>,
}

impl EncodedManifest {
    fn new(bytes: Bytes) -> Self {
        Self { bytes, plain_head: OnceLock::new() }
    }

    fn weight(&self) -> usize {
        self.bytes.len() + HEAD
    }
}

impl Manifest {
    fn weight(&self) -> usize {
        self.text.weight() + self.gzip.as_ref().map_or(0, EncodedManifest::weight)
    }

    /// Responds with the manifest, compressed if the client accepts that. A range always refers to
    /// the uncompressed text.
    pub(crate) fn respond(
        &self,
        request: &Parts,
        cache_control: Option<HeaderValue>,
    ) -> Result<Response<Body>, Error> {
        let compressed = self
            .gzip
            .as_ref()
            .filter(|_| accepts_gzip(&request.headers) && !request.headers.contains_key(header::RANGE));
        let (encoded, coding, variant) = match compressed {
            Some(gzip) => (gzip, Coding::Gzip, "-gz"),
            None => (&self.text, Coding::Identity, ""),
        };
        // All plain requests get the same head, so the head is made only once.
        let is_plain = is_plain(request);
        if let Some((known, head)) = encoded.plain_head.get().filter(|_| is_plain)
            && *known == cache_control
        {
            return Ok(head.clone().respond_from(&encoded.bytes));
        }
        let representation = Representation {
            content_type: self.content_type,
            length: encoded.bytes.len() as u64,
            etag: Some(etag(self.digest, variant)),
            cache_control: cache_control.clone(),
            coding,
        };
        let head = decide(request, &representation)?;
        if is_plain {
            let _ = encoded.plain_head.set((cache_control, head.clone()));
        }
        Ok(head.respond_from(&encoded.bytes))
    }
}

/// Manifests in memory, by title and address.
#[derive(Debug)]
pub(crate) struct Manifests {
    memory: MemoryCache<ManifestKey, Arc<Manifest>>,
    in_flight: SingleFlight<ManifestKey, Result<Arc<Manifest>, Error>>,
    work: Arc<WorkQueue>,
}

/// ID of a title and address of the manifest in it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ManifestKey(u64, Address);

/// Borrowed form of [`ManifestKey`], for lookups.
#[derive(Hash)]
struct ManifestKeyRef<'a>(u64, &'a Address);

impl Equivalent<ManifestKey> for ManifestKeyRef<'_> {
    fn equivalent(&self, key: &ManifestKey) -> bool {
        self.0 == key.0 && *self.1 == key.1
    }
}

impl Manifests {
    pub(crate) fn new(capacity: u64, work: Arc<WorkQueue>) -> Self {
        let memory =
            MemoryCache::new(capacity, |_: &ManifestKey, manifest: &Arc<Manifest>| manifest.weight());
        Self { memory, in_flight: SingleFlight::new(), work }
    }

    /// Removes the manifests of a title, given by its ID. Returns their number.
    pub(crate) fn purge(&self, title: u64) -> u64 {
        self.memory.remove_where(|ManifestKey(id, _)| *id == title)
    }

    /// Returns what metrics show of the manifests.
    pub(crate) fn watch(&self) -> CacheWatch {
        self.memory.watch("manifests", self.in_flight.joins())
    }

    /// Returns the manifest at an address of a title, from memory if it is there.
    pub(crate) async fn get(
        &self,
        title: &Arc<LoadedTitle>,
        address: &Address,
    ) -> Result<Arc<Manifest>, Error> {
        if let Some(manifest) = self.memory.get(&ManifestKeyRef(title.id, address)) {
            return Ok(manifest);
        }
        let key = ManifestKey(title.id, address.clone());
        let title = title.clone();
        let address = address.clone();
        let work = self.work.clone();
        let start = move || {
            async move { work.run(title.manifest_work(), move || make(&title, &address)).await?.map(Arc::new) }
                .boxed()
        };
        // Boxed so that requests which find the manifest in memory do not carry this large future.
        let manifest = Box::pin(self.in_flight.run(key.clone(), start)).await?;
        self.memory.insert(key, manifest.clone());
        Ok(manifest)
    }
}

fn make(title: &LoadedTitle, address: &Address) -> Result<Manifest, Error> {
    let Planned::Ready(plan) = plan(&title.title, address, &NoFragments)? else {
        return Err(Error::Internal("a manifest that needs media"));
    };
    let text = text_of(&plan)?;
    let gzip = compress(&text).filter(|gzip| gzip.len() < text.len()).map(EncodedManifest::new);
    let text = EncodedManifest::new(text);
    Ok(Manifest { content_type: plan.content_type, digest: plan.digest, text, gzip })
}

fn text_of(plan: &Plan) -> Result<Bytes, Error> {
    let mut text = BytesMut::new();
    for part in &plan.parts {
        match part {
            Part::Inline(bytes) if plan.parts.len() == 1 => return Ok(bytes.clone()),
            Part::Inline(bytes) => text.extend_from_slice(bytes),
            Part::Source(_) => return Err(Error::Internal("a manifest that needs media")),
        }
    }
    Ok(text.freeze())
}

/// Compresses text. The gzip header has neither time nor name, so every node sends the same bytes.
fn compress(text: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 4), Compression::default());
    encoder.write_all(text).ok()?;
    encoder.finish().ok().map(Bytes::from)
}
