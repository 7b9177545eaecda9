//! Manifests, remembered as text and compressed: they are made from every sample of a title.

use crate::{
    Error,
    http::respond::{ResponseHead, is_plain},
    observe::metrics::CacheWatch,
    title::flight::Flights,
    title::memo::Memo,
    title::titles::LoadedTitle,
};
use bytes::{Bytes, BytesMut};
use flate2::{Compression, write::GzEncoder};
use futures_util::FutureExt;
use http::request::Parts;
use latemux_index::media::fragment_samples::NoFragments;
use latemux_packager::{Address, Part, Plan, Planned, plan};
use quick_cache::Equivalent;
use std::{
    io::Write,
    sync::{Arc, OnceLock},
};

/// Bytes that a head takes in memory, generously.
const HEAD: usize = 2 << 10;

/// A manifest.
#[derive(Debug)]
pub(crate) struct Manifest {
    pub(crate) content_type: &'static str,
    pub(crate) digest: u128,
    pub(crate) text: Form,
    /// Where that is shorter.
    pub(crate) gzip: Option<Form>,
}

/// What is sent of it to those who take it so.
#[derive(Debug)]
pub(crate) struct Form {
    pub(crate) bytes: Bytes,
    /// The head for requests that are plain, once there was one.
    plain: OnceLock<ResponseHead>,
}

impl Form {
    fn new(bytes: Bytes) -> Self {
        Self { bytes, plain: OnceLock::new() }
    }

    /// Bytes it takes in memory.
    fn weight(&self) -> usize {
        self.bytes.len() + HEAD
    }

    /// The head of the answer to a request, which `decide` says: for all plain ones the same, so that it is asked once.
    pub(crate) fn head(
        &self,
        request: &Parts,
        decide: impl FnOnce() -> Result<ResponseHead, Error>,
    ) -> Result<ResponseHead, Error> {
        match self.plain.get() {
            Some(head) if is_plain(request) => Ok(head.clone()),
            _ => {
                let head = decide()?;
                if is_plain(request) {
                    let _ = self.plain.set(head.clone());
                }
                Ok(head)
            }
        }
    }
}

/// Remembered manifests by title and what was asked of it.
#[derive(Debug)]
pub(crate) struct Manifests {
    memo: Memo<Key, Arc<Manifest>>,
    flights: Flights<Key, Result<Arc<Manifest>, Error>>,
}

/// A title, by its id, and what of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key(u64, Address);

/// The same, to look for one.
#[derive(Hash)]
struct Sought<'a>(u64, &'a Address);

impl Equivalent<Key> for Sought<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.0 == key.0 && *self.1 == key.1
    }
}

impl Manifests {
    pub(crate) fn new(capacity: u64) -> Self {
        let weigh = |_: &Key, m: &Arc<Manifest>| m.text.weight() + m.gzip.as_ref().map_or(0, Form::weight);
        Self { memo: Memo::new(capacity, weigh), flights: Flights::new() }
    }

    /// Forgets the manifests of a title, by its id; how many.
    pub(crate) fn forget(&self, title: u64) -> u64 {
        self.memo.remove_where(|Key(id, _)| *id == title)
    }

    /// What is remembered, for metrics.
    pub(crate) fn watch(&self) -> CacheWatch {
        self.memo.watch("manifests", self.flights.joins())
    }

    /// The manifest at an address of a title.
    pub(crate) async fn get(
        &self,
        loaded: &Arc<LoadedTitle>,
        address: &Address,
    ) -> Result<Arc<Manifest>, Error> {
        if let Some(manifest) = self.memo.get(&Sought(loaded.id, address)) {
            return Ok(manifest);
        }
        let key = Key(loaded.id, address.clone());
        let (loaded, address) = (loaded.clone(), address.clone());
        let start = move || {
            async move {
                // A long title's manifest takes milliseconds that no other request should wait for.
                let made = tokio::task::spawn_blocking(move || make(&loaded, &address)).await;
                made.unwrap_or(Err(Error::Internal("making a manifest broke off"))).map(Arc::new)
            }
            .boxed()
        };
        // Boxed: most requests find the manifest, and should not have to carry room for this.
        let manifest = Box::pin(self.flights.run(key.clone(), start)).await?;
        self.memo.insert(key, manifest.clone());
        Ok(manifest)
    }
}

fn make(loaded: &LoadedTitle, address: &Address) -> Result<Manifest, Error> {
    match plan(&loaded.title, address, &NoFragments)? {
        Planned::Ready(plan) => {
            let text = text_of(&plan)?;
            let gzip = compress(&text).filter(|gzip| gzip.len() < text.len()).map(Form::new);
            Ok(Manifest { content_type: plan.content_type, digest: plan.digest, text: Form::new(text), gzip })
        }
        Planned::Needs(_) | Planned::NeedsMedia(_) => Err(Error::Internal("a manifest that needs media")),
    }
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

/// The same bytes for the same text on every node: no time, no name in the header.
fn compress(text: &[u8]) -> Option<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(text.len() / 4), Compression::default());
    encoder.write_all(text).ok()?;
    encoder.finish().ok().map(Bytes::from)
}
