//! Cuts of video that is encrypted: where its slices begin, found when a segment is first requested
//! and kept in memory.

use crate::{
    Error, observe::metrics::CacheWatch, read::fetch::Fetch, title::indexed::IndexedObject,
    title::memory_cache::MemoryCache, title::titles::LoadedTitle,
};
use latemux_packager::{
    PackError,
    plan::{CutSamples, KnownCuts, NeedsCuts, SourceRange},
};
use latemux_protect::PackedCuts;
use std::sync::Arc;

/// Cuts kept in memory, by the object's ID, which no other version of it has, and the digest of the
/// samples. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Cuts {
    memory: MemoryCache<(u64, u128), Arc<PackedCuts>>,
}

impl Cuts {
    pub(crate) fn new(capacity: u64) -> Self {
        Self { memory: MemoryCache::new(capacity, |_, cuts: &Arc<PackedCuts>| cuts.heap_bytes()) }
    }

    /// Returns what metrics show of the cuts. Their number of joins is always 0.
    pub(crate) fn watch(&self) -> CacheWatch {
        self.memory.watch("cuts", Arc::default())
    }

    /// Returns the known cuts of a title, for planning.
    pub(crate) fn of<'a>(&'a self, title: &'a LoadedTitle) -> TitleCuts<'a> {
        TitleCuts { memory: &self.memory, objects: &title.objects, found: None }
    }
}

/// Known cuts of a title. Those found through this value stay known even if the memory cache evicts
/// them.
#[derive(Debug)]
pub(crate) struct TitleCuts<'a> {
    memory: &'a MemoryCache<(u64, u128), Arc<PackedCuts>>,
    objects: &'a [Arc<IndexedObject>],
    found: Option<(CutSamples, Arc<PackedCuts>)>,
}

impl KnownCuts for TitleCuts<'_> {
    fn get(&self, samples: &CutSamples) -> Option<Arc<PackedCuts>> {
        if let Some((of, cuts)) = &self.found
            && of == samples
        {
            return Some(cuts.clone());
        }
        self.memory.get(&(self.objects.get(samples.object)?.id, samples.digest))
    }
}

impl TitleCuts<'_> {
    /// Reads samples and finds their cuts. The media stays in `fetch` for the body.
    ///
    /// # Errors
    /// [`Error::Pack`] for samples that cannot be cut, or of more than `limit` bytes; errors of
    /// storage.
    pub(crate) async fn find(
        &mut self,
        mut needs: NeedsCuts,
        fetch: &mut Fetch,
        limit: u64,
    ) -> Result<(), Error> {
        let samples: Vec<SourceRange> = needs.samples().collect();
        let total = samples.iter().map(|sample| sample.range.end - sample.range.start).sum::<u64>();
        if total > limit {
            let error = PackError::TooLarge("more video is needed to encrypt it than may be held");
            return Err(error.into());
        }
        fetch.charge().require(total)?;
        fetch.set_reach(needs.reach().to_vec());
        fetch.start(&samples)?;
        fetch.opened().await?;
        for SourceRange { object, range } in samples {
            let len = range.end - range.start;
            if len == 0 {
                needs.cut(&[])?;
                continue;
            }
            let bytes = fetch.bytes(object, range.start, len).await?;
            let wanted = usize::try_from(len).unwrap_or(usize::MAX).min(bytes.len());
            needs.cut(bytes.get(..wanted).unwrap_or_default())?;
        }
        let (of, cuts) = needs.finish();
        let cuts = Arc::new(cuts);
        if let Some(object) = self.objects.get(of.object) {
            self.memory.insert((object.id, of.digest), cuts.clone());
        }
        self.found = Some((of, cuts));
        Ok(())
    }
}
