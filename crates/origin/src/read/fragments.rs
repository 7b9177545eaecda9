//! Samples of fragments, read from their `moof`s when a segment needs them and kept in memory.

use crate::{
    Error, observe::metrics::CacheWatch, read::fetch::Fetch, title::indexed::IndexedObject,
    title::loaded_title::LoadedTitle, title::memory_cache::MemoryCache,
};
use bytes::Bytes;
use latemux_index::{
    locate::fragment_reader::{FragmentReader, FragmentStep},
    locate::limits::MOOF_READ,
    media::fragment_samples::{FragmentSamples, KnownFragments},
};
use latemux_packager::plan::{Needs, SourceRange};
use std::{collections::BTreeMap, sync::Arc};

/// Fragments kept in memory, by the object's ID and the fragment's offset in it. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Fragments {
    memory: MemoryCache<(u64, u64), Arc<FragmentSamples>>,
}

impl Fragments {
    pub(crate) fn new(capacity: u64) -> Self {
        Self { memory: MemoryCache::new(capacity, |_, samples: &Arc<FragmentSamples>| samples.heap_bytes()) }
    }

    /// Returns what metrics show of the fragments. Their number of joins is always 0: no request
    /// waits for a fragment that another one reads.
    pub(crate) fn watch(&self) -> CacheWatch {
        self.memory.watch("fragments", Arc::default())
    }

    /// Returns the known fragments of a title, for planning.
    pub(crate) fn of<'a>(&'a self, title: &'a LoadedTitle) -> TitleFragments<'a> {
        TitleFragments { memory: &self.memory, objects: &title.objects, read: BTreeMap::new() }
    }
}

/// Known fragments of a title. Fragments read through this value stay known even if the memory
/// cache evicts them.
#[derive(Debug)]
pub(crate) struct TitleFragments<'a> {
    memory: &'a MemoryCache<(u64, u64), Arc<FragmentSamples>>,
    objects: &'a [Arc<IndexedObject>],
    /// Fragments read through this value, by the object's index and the fragment's offset.
    read: BTreeMap<(usize, u64), Arc<FragmentSamples>>,
}

impl KnownFragments for TitleFragments<'_> {
    fn get(&self, object: usize, offset: u64) -> Option<Arc<FragmentSamples>> {
        if let Some(samples) = self.read.get(&(object, offset)) {
            return Some(samples.clone());
        }
        self.memory.get(&(self.objects.get(object)?.id, offset))
    }
}

impl TitleFragments<'_> {
    /// Reads the `moof`s of the fragments that a plan needs.
    pub(crate) async fn read(&mut self, needs: Needs, moofs: &mut MoofReads<'_>) -> Result<(), Error> {
        if let MoofReads::WithMedia(fetch) = moofs {
            fetch.set_reach(needs.reach);
            fetch.start(&needs.fragments)?;
            fetch.opened().await?;
        }
        for fragment in &needs.fragments {
            self.read_one(fragment, moofs).await?;
        }
        Ok(())
    }

    async fn read_one(&mut self, fragment: &SourceRange, moofs: &mut MoofReads<'_>) -> Result<(), Error> {
        let object = self.objects.get(fragment.object).ok_or(Error::Internal("a fragment of no object"))?;
        let malformed = |error| Error::index(object.key().as_str(), error);
        let mut reader = FragmentReader::new(object.index.clone(), fragment.range.clone());
        let mut step = reader.feed(fragment.range.start, &Bytes::new()).map_err(malformed)?;
        let samples = loop {
            match step {
                FragmentStep::Done(samples) => break Arc::new(samples),
                FragmentStep::Need { from, len } => {
                    let bytes = moofs.bytes(fragment, from, len).await?;
                    step = reader.feed(from, &bytes).map_err(malformed)?;
                }
            }
        };
        self.memory.insert((object.id, fragment.range.start), samples.clone());
        self.read.insert((fragment.object, fragment.range.start), samples);
        Ok(())
    }
}

/// Reads of `moof`s.
pub(crate) enum MoofReads<'a> {
    /// One request to storage reads a `moof` and the media after it. The media stays in the fetch.
    WithMedia(&'a mut Fetch),
    /// Each `moof` is read by a fetch of its own, without its media.
    Alone(&'a (dyn Fn() -> Fetch + Sync)),
}

impl MoofReads<'_> {
    /// Returns the same reads for a shorter time.
    pub(crate) fn reborrow(&mut self) -> MoofReads<'_> {
        match self {
            Self::WithMedia(fetch) => MoofReads::WithMedia(fetch),
            Self::Alone(new_fetch) => MoofReads::Alone(*new_fetch),
        }
    }

    /// Returns the fetch for media that is needed before a plan is complete. `own` is the place for
    /// a fetch of its own.
    pub(crate) fn of_media<'f>(&'f mut self, own: &'f mut Option<Fetch>) -> &'f mut Fetch {
        match self {
            Self::WithMedia(fetch) => fetch,
            Self::Alone(new_fetch) => own.insert(new_fetch()),
        }
    }

    /// Returns at least `len` bytes of the fragment's object from the offset `from` on.
    async fn bytes(&mut self, fragment: &SourceRange, from: u64, len: u64) -> Result<Bytes, Error> {
        let object = fragment.object;
        match self {
            Self::WithMedia(fetch) => fetch.bytes(object, from, len).await,
            Self::Alone(new_fetch) => {
                let mut fetch = new_fetch();
                let range = from..(from + len.max(MOOF_READ)).min(fragment.range.end);
                fetch.start(&[SourceRange { object, range }])?;
                fetch.bytes(object, from, len).await
            }
        }
    }
}
