//! Indexes of files, kept in memory and on disk. Requests that need the same index share one load.
//!
//! A persisted index is compared with storage before it is used.

use crate::{
    Error,
    config::OriginConfig,
    observe::metrics::{CacheSnapshot, CacheWatch},
    observe::trace::record_outcome,
    title::background::spawn_in_turn,
    title::cut_records,
    title::index_record::{IndexRecord, record_name},
    title::index_writer::IndexWriter,
    title::indexed::{IndexedFile, IndexedObject, KeptFile},
    title::indexer::Indexer,
    title::memory_cache::MemoryCache,
    title::quick_work::do_at_once,
    title::references::ObjectRef,
    title::refused::{Refused, weight},
    title::single_flight::SingleFlight,
};
use futures_util::FutureExt;
use latemux_cache::Records;
use latemux_storage::{Key, Outcome, StorageError, Tier, Version, turns::Turns};
use std::{collections::HashSet, future::Future, sync::Arc, time::Duration};

/// Numbers of entries that a purge removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PurgeCounts {
    /// Indexes in memory.
    pub(crate) indexes: u64,
    pub(crate) indexes_on_disk: u64,
    /// Units of the range cache, in memory and on disk.
    pub(crate) ranges: u64,
}

/// Returns the part of `memory.index` that is for titles, and for the files they are made of.
pub(crate) fn memory_of_titles(config: &OriginConfig) -> u64 {
    config.memory.index - memory_of_files(config) - memory_of_resting(config)
}

/// Returns the part of `memory.index` that is for resting titles.
pub(crate) fn memory_of_resting(config: &OriginConfig) -> u64 {
    config.memory.index / 8
}

/// Returns the part of `memory.index` that is for files without a title. Titles in memory count
/// their files.
fn memory_of_files(config: &OriginConfig) -> u64 {
    config.memory.index / 8
}

/// Largest record that is decoded at once, in bytes. That takes some 50 µs.
const QUICK_RECORD: usize = 128 << 10;

/// Indexes of files, kept in memory and on disk.
#[derive(Debug)]
pub(crate) struct IndexStore {
    pub(crate) indexer: Arc<Indexer>,
    /// Writes index MP4s, if that is configured.
    writer: Option<Arc<IndexWriter>>,
    memory: MemoryCache<ObjectRef, KeptFile>,
    loads: SingleFlight<ObjectRef, Result<Arc<IndexedFile>, Error>>,
    refused: Refused<ObjectRef>,
    /// Indexes and cuts on disk, which outlive the process.
    records: Option<Records>,
    load_timeout: Duration,
    /// Turns of the tasks that load indexes and compare titles with storage.
    pub(crate) turns: Arc<Turns>,
}

impl IndexStore {
    pub(crate) fn new(
        indexer: Arc<Indexer>,
        config: &OriginConfig,
        records: Option<Records>,
        writer: Option<Arc<IndexWriter>>,
    ) -> Self {
        let capacity = memory_of_files(config);
        Self {
            indexer,
            writer,
            memory: MemoryCache::new(capacity, |key: &ObjectRef, file: &KeptFile| {
                key.heap_bytes() + file.heap_bytes()
            }),
            loads: SingleFlight::new(),
            refused: Refused::new(config.recheck_after, |file, (_, error)| {
                size_of::<ObjectRef>() + file.key.as_str().len() + weight(error)
            }),
            records,
            load_timeout: config.load_timeout,
            turns: Arc::default(),
        }
    }

    /// Returns what metrics show of the indexes in memory and on disk.
    pub(crate) fn watch(&self) -> impl Iterator<Item = CacheWatch> {
        let memory = self.memory.watch("objects", self.loads.joins());
        let disk = self.records.clone().map(|records| {
            CacheWatch::new(move || {
                let figures = records.figures();
                CacheSnapshot {
                    cache: "objects",
                    tier: "disk",
                    bytes: figures.bytes,
                    limit: records.limit(),
                    entries: figures.values,
                    hits: figures.hits,
                    misses: figures.misses,
                    joins: 0,
                    evictions: figures.evictions,
                }
            })
        });
        [memory].into_iter().chain(disk)
    }

    /// Returns the error of a file that is remembered as missing or refused.
    pub(crate) fn check_refused(&self, file: &ObjectRef) -> Result<(), Error> {
        self.refused.check(file)
    }

    /// Removes an index from memory alone, as if others had needed its place.
    #[cfg(test)]
    pub(crate) fn forget_in_memory(&self, file: &ObjectRef) -> bool {
        self.memory.remove(file)
    }

    /// Returns the index of a file. A known index is used if small reads of the file and its media
    /// confirm that both are unchanged. `listed` is the file's size in bytes according to a
    /// listing, which saves round trips.
    pub(crate) async fn current(
        self: &Arc<Self>,
        file: &ObjectRef,
        listed: Option<u64>,
    ) -> Result<Arc<IndexedFile>, Error> {
        let mut has_changed = false;
        let known = self.memory.get(file).and_then(|kept| kept.get()).filter(|known| !known.is_unsettled());
        if let Some(known) = known {
            match self.indexer.check_unchanged(&known).await {
                Ok(()) => return Ok(known),
                Err(StorageError::Changed(_)) => {
                    self.memory.remove(file);
                    self.remove_record(file);
                    has_changed = true;
                }
                Err(error) => {
                    if matches!(error, StorageError::NotFound(_)) {
                        self.memory.remove(file);
                    }
                    let error = error.into();
                    self.refused.remember(file.clone(), &error);
                    return Err(error);
                }
            }
        }
        if !has_changed {
            self.check_refused(file)?;
        }
        let loaded = self.load_in_background(file, listed).await;
        // Storage failed, but not before it told that the object is another one.
        loaded.map_err(|error| match has_changed && error.is_outage() {
            true => StorageError::Changed(file.to_string()).into(),
            false => error,
        })
    }

    /// Returns the index of a file in memory, without counting a hit or a miss.
    fn known(&self, file: &ObjectRef) -> Option<Arc<IndexedFile>> {
        self.memory.peek(file)?.get()
    }

    /// Leaves the memory of files to a title in memory that is made of them.
    pub(crate) fn leave_to_title(&self, files: &[Arc<IndexedFile>]) {
        for file in files {
            let is_other = |known: Arc<IndexedFile>| !Arc::ptr_eq(&known, file);
            if !self.known(&file.file).is_some_and(is_other) {
                self.memory.insert(file.file.clone(), KeptFile::OfTitle(Arc::downgrade(file)));
            }
        }
    }

    /// Loads the index of a file in a task that continues if its client leaves. Otherwise a scan
    /// that takes longer than players wait would start again with each retry and never finish.
    async fn load_in_background(
        self: &Arc<Self>,
        file: &ObjectRef,
        listed: Option<u64>,
    ) -> Result<Arc<IndexedFile>, Error> {
        if self.loads.is_running(file) {
            return self.shared_load(file.clone(), listed).await;
        }
        let load = spawn_in_turn(&self.turns, self.shared_load(file.clone(), listed));
        load.await.unwrap_or(Err(Error::Internal("indexing panicked")))
    }

    /// Returns true if memory has the same version of each of these objects. An object that is
    /// known to have changed is no longer in memory.
    pub(crate) fn holds(&self, objects: &[Arc<IndexedObject>]) -> bool {
        let is_held = |object: &Arc<IndexedObject>| {
            let file = self.known(&object.file)?;
            Some(file.objects().any(|held| held.equals(object)))
        };
        objects.iter().all(|object| is_held(object) == Some(true))
    }

    /// Joins the load of a file that is in flight, or starts one.
    fn shared_load(
        self: &Arc<Self>,
        file: ObjectRef,
        listed: Option<u64>,
    ) -> impl Future<Output = Result<Arc<IndexedFile>, Error>> + Send + use<> {
        let this = self.clone();
        async move {
            let store = this.clone();
            let wanted = file.clone();
            let load = move || {
                async move {
                    let after = store.load_timeout;
                    let loaded = tokio::time::timeout(after, store.load(&wanted, listed)).await;
                    let loaded = loaded
                        .unwrap_or_else(|_| Err(Error::LoadTimedOut { base: wanted.to_string(), after }));
                    loaded.inspect_err(|error| store.refused.remember(wanted, error))
                }
                .boxed()
            };
            this.loads.run(file, load).await
        }
    }

    /// Loads the index of a file from disk, or reads it from storage.
    async fn load(&self, file: &ObjectRef, listed: Option<u64>) -> Result<Arc<IndexedFile>, Error> {
        let loaded = match self.load_record(file, listed).await? {
            Some(known) => known,
            None => {
                let indexed = match self.indexer.index_file(file, listed).await {
                    // The object was replaced between two reads of its index. Start again, once.
                    Err(Error::Storage(StorageError::Changed(_))) => {
                        self.indexer.index_file(file, None).await?
                    }
                    // Wrong bytes from storage look like a track that cannot be served.
                    Ok(indexed) if indexed.lacks_media() => {
                        let again = self.indexer.index_file(file, None).await?;
                        if again.left_out() < indexed.left_out() { again } else { indexed }
                    }
                    other => other?,
                };
                self.keep(file, indexed)
            }
        };
        if let (Some(writer), [(_, object)]) = (&self.writer, &*loaded.parts) {
            writer.offer(object);
        }
        self.memory.insert(file.clone(), KeptFile::Alone(loaded.clone()));
        Ok(loaded)
    }

    /// Keeps a new index on disk, unless it lacks tracks. If the known index of the file is the
    /// same, returns that one.
    fn keep(&self, file: &ObjectRef, indexed: IndexedFile) -> Arc<IndexedFile> {
        if let Some(known) = self.known(file).filter(|known| known.equals(&indexed)) {
            return known;
        }
        let indexed = Arc::new(indexed);
        // Text is read again: an index on disk has no media.
        let is_text = indexed.objects().any(|object| object.index.inline.is_some());
        if !indexed.lacks_tracks() && !is_text {
            self.write_record(&indexed);
        }
        indexed
    }

    /// Loads an index that this process or an earlier one has written to disk. One small read of
    /// the file and of each media object checks that they still have the versions that the index
    /// describes. If the listed size differs, the index is discarded without these reads.
    async fn load_record(
        &self,
        file: &ObjectRef,
        listed: Option<u64>,
    ) -> Result<Option<Arc<IndexedFile>>, Error> {
        let Some(record) = self.read_record(file).await else { return Ok(None) };
        if listed.is_some_and(|size| size != record.version.size) {
            self.remove_record(file);
            return Ok(None);
        }
        let known = self.file_of_record(file, record)?;
        match self.indexer.check_unchanged(&known).await {
            Ok(()) => {
                record_outcome(Outcome::Hit(Tier::Disk));
                Ok(Some(Arc::new(known)))
            }
            Err(StorageError::Changed(_) | StorageError::NotFound(_)) => {
                self.remove_record(file);
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn read_record(&self, file: &ObjectRef) -> Option<IndexRecord> {
        let records = self.records.as_ref()?;
        let name = record_name(file);
        let bytes = records.get(&name).await?;
        let decoded = match bytes.len() <= QUICK_RECORD {
            true => do_at_once(|| IndexRecord::decode(&bytes)),
            false => self.indexer.workers.run(move || IndexRecord::decode(&bytes)).await,
        };
        match decoded.ok()? {
            Ok(record) => Some(record),
            Err(error) => {
                // Usually another version of this program wrote it.
                tracing::debug!(reason = error.reason(), object = %file, "index on disk not used: {error}");
                records.discard(&name);
                None
            }
        }
    }

    fn file_of_record(&self, file: &ObjectRef, record: IndexRecord) -> Result<IndexedFile, Error> {
        let indexer = &self.indexer;
        let of_file = (file, &record.version);
        let parts = record.parts.into_iter().map(|(location, version, index)| match location {
            None => Ok((None, indexer.object(file.clone(), version, index, of_file))),
            // The configuration may have changed since, so the location is checked again.
            Some(location) => {
                let media = indexer.references.find(file, &location)?;
                Ok((Some(location.into()), indexer.object(media, version, index, of_file)))
            }
        });
        let parts = parts.collect::<Result<_, Error>>()?;
        Ok(IndexedFile::new(file.clone(), record.version, parts))
    }

    /// Writes the index of a file to disk in the background. It is not written if a version has
    /// neither ETag nor modification time, because a later process could not detect a change.
    fn write_record(&self, file: &Arc<IndexedFile>) {
        let Some(records) = &self.records else { return };
        let mut versions = file.objects().map(|object| object.version()).chain([&file.version]);
        if versions.all(Version::is_reliable) {
            let weight = file.heap_bytes() as u64;
            let indexed = file.clone();
            records.put(record_name(&file.file), weight, move || IndexRecord::encode(&indexed));
        }
    }

    /// Removes the index of a file from disk. Returns true if there was one.
    fn remove_record(&self, file: &ObjectRef) -> bool {
        self.records.as_ref().is_some_and(|records| records.forget(&record_name(file)))
    }

    /// Returns the files of the served storage whose key begins with `prefix`, and whose indexes
    /// are in memory or on disk.
    pub(crate) async fn files_below(&self, prefix: &str) -> HashSet<ObjectRef> {
        let references = &self.indexer.references;
        let is_below = |file: &ObjectRef| !file.is_elsewhere() && file.key.as_str().starts_with(prefix);
        let mut files: HashSet<ObjectRef> = self.memory.keys_where(is_below).into_iter().collect();
        if let Some(records) = &self.records {
            let folder = record_name(&references.served(Key::root()));
            let begin = [&folder, prefix.as_bytes()].concat();
            let names = records.names(move |name| name.starts_with(&begin)).await;
            let keys = names.iter().filter_map(|name| str::from_utf8(name.get(folder.len()..)?).ok());
            files.extend(keys.filter_map(Key::new).map(|key| references.served(key)));
        }
        files
    }

    /// Removes the index of a file from memory and disk, and its media from the range cache. Adds
    /// the numbers to `counts`.
    pub(crate) async fn purge(&self, file: &ObjectRef, counts: &mut PurgeCounts) {
        let in_memory = self.known(file);
        self.refused.forget(file);
        // The record also names media to purge, even if the file has changed since.
        let on_disk = self.read_record(file).await;
        let on_disk = on_disk.and_then(|record| self.file_of_record(file, record).ok()).map(Arc::new);
        counts.indexes += u64::from(self.memory.remove(file) && in_memory.is_some());
        counts.indexes_on_disk += u64::from(self.remove_record(file));
        let storages = self.indexer.references.storages();
        for object in in_memory.iter().chain(&on_disk).flat_map(|known| known.objects()) {
            counts.ranges += storages.purge(&*object.source().storage, object.key(), object.version());
            if let Some(records) = &self.records {
                cut_records::remove(records, object);
            }
        }
    }
}
