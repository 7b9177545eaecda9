//! Manifests, kept in memory in the forms that were requested: as text, or compressed. Making a
//! manifest takes all samples of a title.

use crate::{
    Error,
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
use flate2::{Compression, write::GzEncoder};
use futures_util::FutureExt;
use http::{HeaderValue, Response, header, request::Parts};
use latemux_index::media::fragment_samples::NoFragments;
use latemux_packager::{Address, Part, Plan, Planned, plan::NoCuts, plan_protected};
use quick_cache::Equivalent;
use std::{
    io::Write,
    sync::{Arc, OnceLock},
};

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
    plain_head: OnceLock<(Option<HeaderValue>, ResponseHead)>,
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
        if let Some((known, head)) = self.plain_head.get().filter(|_| is_plain)
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
            let _ = self.plain_head.set((cache_control, head.clone()));
        }
        Ok(head.respond_from(&self.bytes))
    }

    /// Returns the compressed form, or the same manifest if compression does not make it shorter.
    fn compressed(self) -> Self {
        match compress(&self.bytes).filter(|gzip| gzip.len() < self.bytes.len()) {
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
    /// Shared with the work on a compressed form, which waits here for the plan of its text.
    in_flight: Arc<SingleFlight<ManifestKey, Result<Arc<Manifest>, Error>>>,
    work: Arc<WorkQueue>,
    recent: Arc<RecentValues>,
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
        Self { memory, in_flight: Arc::new(SingleFlight::new()), work, recent }
    }

    /// Removes the manifests of a title, given by its ID. Returns their number, each form counted.
    pub(crate) fn purge(&self, title: u64) -> u64 {
        self.memory.remove_where(|ManifestKey(id, ..)| *id == title)
    }

    /// Returns what metrics show of the manifests.
    pub(crate) fn watch(&self) -> CacheWatch {
        self.memory.watch("manifests", self.in_flight.joins())
    }

    /// Returns the manifest at an address of a title, from memory if it is there. It is compressed
    /// if the client accepts that. A range always refers to the uncompressed text.
    pub(crate) async fn get(
        &self,
        title: &Arc<LoadedTitle>,
        address: &Address,
        request: &Parts,
    ) -> Result<Arc<Manifest>, Error> {
        let is_gzip = accepts_gzip(&request.headers) && !request.headers.contains_key(header::RANGE);
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
            true => self.make_compressed(title, key.clone()).await,
            false => plan_once(&self.in_flight, self.work.clone(), title, key.clone()).await,
        };
        self.recent.forget(objects.iter().map(|object| object.id));
        let manifest = made?;
        self.memory.insert(key, manifest.clone());
        Ok(manifest)
    }

    /// Compresses the text of a manifest, which is planned unless it is in memory. Requests for the
    /// text itself share that plan.
    fn make_compressed(
        &self,
        title: Arc<LoadedTitle>,
        key: ManifestKey,
    ) -> impl Future<Output = Result<Arc<Manifest>, Error>> {
        let ManifestKey(id, address, _) = &key;
        let known = self.memory.peek(&ManifestKeyRef(*id, address, false));
        let text = ManifestKey(*id, address.clone(), false);
        let in_flight = self.in_flight.clone();
        let work = self.work.clone();
        let start = move || {
            async move {
                let amount = title.manifest_work();
                let text = match known {
                    Some(text) => text,
                    None => plan_once(&in_flight, work.clone(), title, text).await?,
                };
                let compress = move || Arc::new(Manifest::clone(&text).compressed());
                do_work(&work, amount, compress).await
            }
            .boxed()
        };
        self.in_flight.run(key, start)
    }
}

/// Plans the text of a manifest, together with all requests that need it in either form.
async fn plan_once(
    in_flight: &SingleFlight<ManifestKey, Result<Arc<Manifest>, Error>>,
    work: Arc<WorkQueue>,
    title: Arc<LoadedTitle>,
    key: ManifestKey,
) -> Result<Arc<Manifest>, Error> {
    let address = key.1.clone();
    let start = move || {
        async move {
            let amount = title.manifest_work();
            let plan = move || plan_text(&title, &address).map(Arc::new);
            do_work(&work, amount, plan).await?
        }
        .boxed()
    };
    in_flight.run(key, start).await
}

/// Does work on a manifest: at once if it is quick, and else in the queue.
async fn do_work<T: Send + 'static>(
    queue: &WorkQueue,
    amount: Option<Work>,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    match amount {
        None => do_at_once(work),
        Some(amount) => queue.run(amount, work).await,
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

/// Compresses text. The gzip header has neither time nor name, so every node sends the same bytes.
fn compress(text: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 4), Compression::default());
    encoder.write_all(text).ok()?;
    // Without the unused part of the buffer, which would be kept as well.
    encoder.finish().ok().map(|gzip| Bytes::from(gzip.into_boxed_slice()))
}
