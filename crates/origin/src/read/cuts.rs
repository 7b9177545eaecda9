//! Cuts of video that is encrypted: where its slices begin, found when a segment is first requested
//! and kept in memory and on disk. An index MP4 may state them.

use crate::{
    Error,
    observe::metrics::{CacheWatch, StatedCuts},
    observe::trace::record_outcome,
    read::fetch::Fetch,
    read::stated_cuts,
    title::cut_records::{self, CutRecord, record_number},
    title::indexed::IndexedObject,
    title::loaded_title::LoadedTitle,
    title::memory_cache::MemoryCache,
};
use latemux_cache::Records;
use latemux_packager::{
    PackError,
    plan::{CutSamples, KnownCuts, NeedsCuts, SourceRange},
};
use latemux_protect::FoundCuts;
use latemux_storage::{Outcome, Tier};
use std::sync::{Arc, Mutex, PoisonError};

/// Cuts kept in memory and on disk. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Cuts {
    /// By the object's ID, which no other version of it has, and the number of the record.
    memory: MemoryCache<(u64, u64), Arc<CutRecord>>,
    records: Option<Records>,
    /// Held while a record in memory gets further cuts.
    changing: Arc<Mutex<()>>,
    /// Counts look-ups in index MP4s.
    stated: Arc<StatedCuts>,
}

impl Cuts {
    pub(crate) fn new(capacity: u64, records: Option<Records>, stated: Arc<StatedCuts>) -> Self {
        let memory = MemoryCache::new(capacity, |_, record: &Arc<CutRecord>| record.heap_bytes());
        Self { memory, records, changing: Arc::default(), stated }
    }

    /// Returns what metrics show of the cuts. Their number of joins is always 0.
    pub(crate) fn watch(&self) -> CacheWatch {
        self.memory.watch("cuts", Arc::default())
    }

    /// Returns the known cuts of a title, for planning.
    pub(crate) fn of<'a>(&'a self, title: &'a LoadedTitle) -> TitleCuts<'a> {
        TitleCuts { cuts: self, objects: &title.objects, found: None }
    }

    /// Reads from disk the record with the cuts of samples, and keeps it in memory. Returns `None`
    /// for a record that is in memory, because it then has all cuts that are on disk.
    async fn read(&self, object: &IndexedObject, samples: &CutSamples) -> Option<Arc<CutRecord>> {
        let number = record_number(samples);
        let name = (object.id, number);
        if self.memory.peek(&name).is_some() {
            return None;
        }
        let record = cut_records::read(self.records.as_ref()?, object, number).await?;
        Some(self.change(name, |known| record.joined(known)))
    }

    /// Keeps the cuts of samples in memory and on disk, there beside those that were read from it:
    /// memory may have evicted these.
    fn keep(
        &self,
        object: &IndexedObject,
        samples: &CutSamples,
        cuts: FoundCuts,
        on_disk: Option<Arc<CutRecord>>,
    ) {
        let is_checked = cuts.is_checked();
        let number = record_number(samples);
        let on_disk = on_disk.unwrap_or_default();
        let changed = |known: &CutRecord| CutRecord::clone(&on_disk).joined(known).with(samples, cuts);
        let record = self.change((object.id, number), changed);
        if let Some(records) = self.records.as_ref().filter(|_| is_checked) {
            cut_records::write(records, object, number, record);
        }
    }

    /// Changes a record in memory, and returns it.
    fn change(&self, name: (u64, u64), changed: impl FnOnce(&CutRecord) -> CutRecord) -> Arc<CutRecord> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.memory.peek(&name).unwrap_or_default();
        let record = Arc::new(changed(&known));
        self.memory.insert(name, record.clone());
        record
    }
}

/// Known cuts of a title. Those found through this value stay known even if the memory cache evicts
/// them.
#[derive(Debug)]
pub(crate) struct TitleCuts<'a> {
    cuts: &'a Cuts,
    objects: &'a [Arc<IndexedObject>],
    found: Option<(CutSamples, FoundCuts)>,
}

impl KnownCuts for TitleCuts<'_> {
    fn get(&self, samples: &CutSamples) -> Option<FoundCuts> {
        if let Some((of, cuts)) = &self.found
            && of == samples
        {
            return Some(cuts.clone());
        }
        let record = self.cuts.memory.get(&(self.objects.get(samples.object)?.id, record_number(samples)))?;
        record.get(samples).filter(|found| is_usable(found)).cloned()
    }
}

/// Returns false for cuts of an index MP4 in which some were wrong.
fn is_usable(found: &FoundCuts) -> bool {
    found.is_checked() || !found.check.as_ref().is_some_and(|check| check.differs())
}

impl TitleCuts<'_> {
    /// Finds the cuts of samples: on disk, in the index MP4, or in the media, which then stays in
    /// `fetch` for the body.
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
        let of = needs.name();
        let object = self.objects.get(of.object).ok_or(Error::Internal("no such object"))?;
        let on_disk = self.cuts.read(object, &of).await;
        if let Some(cuts) = on_disk.as_ref().and_then(|record| record.get(&of)) {
            record_outcome(Outcome::Hit(Tier::Disk));
            self.found = Some((of, cuts.clone()));
            return Ok(());
        }
        let largest = needs.places().iter().map(|(_, size)| u64::from(*size)).max().unwrap_or(0);
        // Each sample is held until it was compared with the cuts.
        if largest <= limit
            && let Some(cuts) = stated_cuts::find(object, &needs, &self.cuts.stated).await
        {
            self.cuts.keep(object, &of, cuts.clone(), on_disk);
            self.found = Some((of, cuts));
            return Ok(());
        }
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
        let cuts = FoundCuts::in_media(Arc::new(cuts));
        self.cuts.keep(object, &of, cuts.clone(), on_disk);
        self.found = Some((of, cuts));
        Ok(())
    }
}
