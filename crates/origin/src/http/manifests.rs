//! Manifests, kept in memory in the forms that were requested: as text, or compressed. Making a
//! manifest takes all samples of a title.

use crate::{
    Error,
    http::gzip::Compressors,
    http::respond::{Coding, Representation, ResponseHead, accepts_gzip, decide, etag, is_plain},
    observe::metrics::CacheWatch,
    read::body::Body,
    title::loaded_title::LoadedTitle,
    title::memory_cache::MemoryCache,
    title::quick_work::do_at_once,
    title::single_flight::SingleFlight,
    title::unpacked::RecentValues,
    title::work_queue::{Work, WorkQueue},
};
use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use http::{HeaderValue, Response, header, request::Parts};
use latemux_index::media::fragment_samples::NoFragments;
use latemux_packager::{Address, Part, Plan, Planned, plan::NoCuts, plan_protected};
use quick_cache::Equivalent;
use std::sync::{Arc, OnceLock};

/// Estimate of the memory that the head of a response takes, in bytes. Most take less.
const HEAD: usize = 2 << 10;

/// A manifest in one form: as text, or compressed.
#[derive(Debug, Clone)]
pub(crate) struct Manifest {
    content_type: &'static str,
    /// The digest of the text.
    digest: u128,
    is_gzip: bool,
    bytes: Bytes,
    /// Set by the first plain request.
    is_requested: OnceLock<()>,
    /// Head of the response to plain requests, with its `Cache-Control`. The second such request
    /// sets it: most titles of a large catalogue are requested once, and a head takes 1.4 kB.
    plain_head: OnceLock<Box<(Option<HeaderValue>, ResponseHead)>>,
}

impl Manifest {
    fn weight(&self) -> usize {
        self.bytes.len() + HEAD
    }

    /// Responds with the manifest. It must have the form of that [`Manifests::get`] chooses for the
    /// request.
    pub(crate) fn respond(
        &self,
        request: &Parts,
        cache_control: Option<HeaderValue>,
    ) -> Result<Response<Body>, Error> {
        // All plain requests get the same head, so the head is made only once.
        let is_plain = is_plain(request);
        if let Some((known, head)) = self.plain_head.get().filter(|_| is_plain).map(|head| &**head)
            && *known == cache_control
        {
            return Ok(head.clone().respond_from(&self.bytes));
        }
        let (coding, variant) = if self.is_gzip { (Coding::Gzip, "-gz") } else { (Coding::Identity, "") };
        let representation = Representation {
            content_type: self.content_type,
            length: self.bytes.len() as u64,
            etag: Some(etag(self.digest, variant)),
            cache_control: cache_control.clone(),
            coding,
        };
        let head = decide(request, &representation)?;
        if is_plain && self.is_requested.set(()).is_err() {
            let _ = self.plain_head.set(Box::new((cache_control, head.clone())));
        }
        Ok(head.respond_from(&self.bytes))
    }

    /// Returns the compressed form, or the same manifest if compression does not make it shorter.
    fn compressed(self, compressors: &Compressors) -> Self {
        match compressors.gzip(&self.bytes).filter(|gzip| gzip.len() < self.bytes.len()) {
            Some(bytes) => Self {
                is_gzip: true,
                bytes,
                is_requested: OnceLock::new(),
                plain_head: OnceLock::new(),
                ..self
            },
            None => self,
        }
    }
}

/// Manifests in memory, by title, address and form. Each form is made when it is first requested.
#[derive(Debug)]
pub(crate) struct Manifests {
    memory: MemoryCache<ManifestKey, Arc<Manifest>>,
    making: Arc<Making>,
    recent: Arc<RecentValues>,
}

/// Makes manifests: each once for all requests that need it at the same time.
#[derive(Debug)]
struct Making {
    /// The work on a compressed form waits here for its text, which other requests may share.
    in_flight: SingleFlight<ManifestKey, Result<Arc<Manifest>, Error>>,
    work: Arc<WorkQueue>,
    compressors: Arc<Compressors>,
}

/// ID of a title, address of the manifest in it, and true for the compressed form.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ManifestKey(u64, Address, bool);

/// Borrowed form of [`ManifestKey`], for lookups.
#[derive(Hash)]
struct ManifestKeyRef<'a>(u64, &'a Address, bool);

impl Equivalent<ManifestKey> for ManifestKeyRef<'_> {
    fn equivalent(&self, key: &ManifestKey) -> bool {
        self.0 == key.0 && *self.1 == key.1 && self.2 == key.2
    }
}

impl Manifests {
    pub(crate) fn new(capacity: u64, work: Arc<WorkQueue>, recent: Arc<RecentValues>) -> Self {
        let memory =
            MemoryCache::new(capacity, |_: &ManifestKey, manifest: &Arc<Manifest>| manifest.weight());
        let compressors = Arc::new(Compressors::new());
        let making = Making { in_flight: SingleFlight::new(), work, compressors };
        Self { memory, making: Arc::new(making), recent }
    }

    /// Removes the manifests of a title, given by its ID. Returns their number, each form counted.
    pub(crate) fn purge(&self, title: u64) -> u64 {
        self.memory.remove_where(|ManifestKey(id, ..)| *id == title)
    }

    /// Returns what metrics show of the manifests.
    pub(crate) fn watch(&self) -> CacheWatch {
        self.memory.watch("manifests", self.making.in_flight.joins())
    }

    /// Returns the manifest at an address of a title, given by its ID, if it is in memory in the
    /// form that the request needs.
    pub(crate) fn known(&self, title: u64, address: &Address, request: &Parts) -> Option<Arc<Manifest>> {
        let key = ManifestKeyRef(title, address, wants_gzip(request));
        // A manifest that is not there counts as a miss once it is made.
        self.memory.peek(&key).and_then(|_| self.memory.get(&key))
    }

    /// Returns the manifest at an address of a title, from memory if it is there. It is compressed
    /// if the client accepts that.
    pub(crate) async fn get(
        &self,
        title: &Arc<LoadedTitle>,
        address: &Address,
        request: &Parts,
    ) -> Result<Arc<Manifest>, Error> {
        let is_gzip = wants_gzip(request);
        if let Some(manifest) = self.memory.get(&ManifestKeyRef(title.id, address, is_gzip)) {
            return Ok(manifest);
        }
        // Boxed so that requests which find the manifest in memory do not carry this large future.
        let key = ManifestKey(title.id, address.clone(), is_gzip);
        Box::pin(self.make(title.clone(), key)).await
    }

    /// Makes a manifest, together with other requests for it.
    async fn make(&self, title: Arc<LoadedTitle>, key: ManifestKey) -> Result<Arc<Manifest>, Error> {
        let objects = title.objects.clone();
        let made = match key.2 {
            true => {
                let known = self.memory.peek(&ManifestKeyRef(key.0, &key.1, false));
                self.making.clone().compressed(title, key.clone(), known).await
            }
            false => self.making.text(title, key.clone(), None).await,
        };
        self.recent.forget(objects.iter().map(|object| object.id));
        let manifest = made?;
        self.memory.insert(key, manifest.clone());
        Ok(manifest)
    }
}

/// Returns true if a request is for the compressed form of a manifest. A range always refers to the
/// uncompressed text.
fn wants_gzip(request: &Parts) -> bool {
    accepts_gzip(&request.headers) && !request.headers.contains_key(header::RANGE)
}

/// The place for the compressed form of a manifest, which is empty until it has been made.
type Compressed = Arc<OnceLock<Arc<Manifest>>>;

impl Making {
    /// Makes the compressed form of a manifest, together with its text unless that is `known`.
    async fn compressed(
        self: Arc<Self>,
        title: Arc<LoadedTitle>,
        key: ManifestKey,
        known: Option<Arc<Manifest>>,
    ) -> Result<Arc<Manifest>, Error> {
        let text_key = ManifestKey(key.0, key.1.clone(), false);
        let this = self.clone();
        let start = move || {
            async move {
                let compressed = Compressed::default();
                let text = match known {
                    Some(text) => text,
                    None => this.text(title.clone(), text_key, Some(compressed.clone())).await?,
                };
                if let Some(compressed) = compressed.get() {
                    return Ok(compressed.clone());
                }
                // The text was made for requests that do not accept gzip.
                let compressors = this.compressors.clone();
                let compress = move || Arc::new(Manifest::clone(&text).compressed(&compressors));
                this.run(title.manifest_work(), compress).await
            }
            .boxed()
        };
        self.in_flight.run(key, start).await
    }

    /// Plans the text of a manifest, together with all requests that need it in either form. The
    /// same work compresses it too, if the first of these requests gives a place for the result.
    async fn text(
        self: &Arc<Self>,
        title: Arc<LoadedTitle>,
        key: ManifestKey,
        compressed: Option<Compressed>,
    ) -> Result<Arc<Manifest>, Error> {
        let address = key.1.clone();
        let this = self.clone();
        let start = move || {
            async move {
                let amount = title.manifest_work();
                let compressors = this.compressors.clone();
                let make = move || {
                    let text = plan_text(&title, &address)?;
                    if let Some(compressed) = compressed {
                        let _ = compressed.set(Arc::new(text.clone().compressed(&compressors)));
                    }
                    Ok(Arc::new(text))
                };
                this.run(amount, make).await?
            }
            .boxed()
        };
        self.in_flight.run(key, start).await
    }

    /// Does work on a manifest: at once if it is quick, and else in the queue.
    async fn run<T: Send + 'static>(
        &self,
        amount: Option<Work>,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        match amount {
            None => do_at_once(work),
            Some(amount) => self.work.run(amount, work).await,
        }
    }
}

/// Plans the text of a manifest.
fn plan_text(title: &LoadedTitle, address: &Address) -> Result<Manifest, Error> {
    let protection = title.protection()?;
    let Planned::Ready(plan) = plan_protected(&title.title, address, &NoFragments, &NoCuts, protection)?
    else {
        return Err(Error::Internal("a manifest that needs media"));
    };
    Ok(Manifest {
        content_type: plan.content_type,
        digest: plan.digest,
        is_gzip: false,
        bytes: text_of(&plan)?,
        is_requested: OnceLock::new(),
        plain_head: OnceLock::new(),
    })
}

fn text_of(plan: &Plan) -> Result<Bytes, Error> {
    let mut text = BytesMut::new();
    for part in &plan.parts {
        match part {
            // A text that grew while it was written holds more memory than it needs.
            Part::Inline(bytes) if plan.parts.len() == 1 => return Ok(Bytes::copy_from_slice(bytes)),
            Part::Inline(bytes) => text.extend_from_slice(bytes),
            Part::Source(_) => return Err(Error::Internal("a manifest that needs media")),
        }
    }
    Ok(text.freeze())
}
