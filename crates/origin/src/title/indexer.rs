//! Indexes files: reads their indexes from storage and finds the objects that hold their media.

use crate::{
    Error,
    config::{IndexConfig, OriginConfig},
    observe::metrics::Read,
    title::index_reader::{IndexReader, IndexStep, ReadIndex, read_whole},
    title::indexed::{IndexedFile, IndexedObject},
    title::references::{ObjectRef, References},
    title::resolve::{index_key, indexed_stem, is_media},
    title::storages::Storages,
};
use futures_util::{
    FutureExt,
    future::{BoxFuture, try_join_all},
};
use latemux_index::{IndexError, MediaIndex, external::MEDIA_HEAD, locate::Limits};
use latemux_storage::{Key, Storage, StorageError, Version, Want};
use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Bytes per permit of [`Indexer::memory`]: a `u32` of them is 16 TiB.
const PERMIT_BYTES: u64 = 4096;

/// Reads and parses indexes. It remembers nothing.
#[derive(Debug)]
pub(crate) struct Indexer {
    /// The served storage.
    storage: Arc<dyn Storage>,
    limits: Limits,
    pub(crate) references: References,
    /// Index bytes that may be in memory at one time while they are read and parsed, in units of
    /// [`PERMIT_BYTES`].
    memory: Semaphore,
    memory_permits: u32,
    /// Most objects in one file.
    max_objects: usize,
    /// True if outdated index MP4s are replaced, as an index writer does.
    replaces_outdated: bool,
    next_id: AtomicU64,
}

impl Indexer {
    /// Creates an indexer. With `replaces_outdated`, it indexes the media itself where an index MP4
    /// of this program describes another version of it.
    pub(crate) fn new(
        storage: &Arc<dyn Storage>,
        config: &OriginConfig,
        storages: &Storages,
        replaces_outdated: bool,
    ) -> Self {
        let permits = u32::try_from(config.memory.loading / PERMIT_BYTES).unwrap_or(u32::MAX).max(1);
        let IndexConfig { head, tail, ahead, max_index, .. } = config.index;
        Self {
            storage: storages.counted(storage.clone(), Read::Index),
            limits: Limits { head, tail, ahead, max_index },
            references: References::new(&config.sources, storages.clone()),
            memory: Semaphore::new((permits as usize).min(Semaphore::MAX_PERMITS)),
            memory_permits: permits,
            max_objects: config.max_objects,
            replaces_outdated,
            next_id: AtomicU64::new(0),
        }
    }

    /// Returns a reference to an object of the served storage.
    pub(crate) fn served(&self, key: Key) -> ObjectRef {
        ObjectRef::served(self.storage.clone(), key)
    }

    /// Returns the storage in which an object's index is read.
    pub(crate) fn storage_of<'a>(&'a self, object: &'a IndexedObject) -> &'a Arc<dyn Storage> {
        object.elsewhere.as_ref().map_or(&self.storage, |place| &place.storage)
    }

    /// Returns the file that an object was found by.
    pub(crate) fn file_of(&self, object: &IndexedObject) -> ObjectRef {
        match (&object.indexed_by, &object.elsewhere) {
            (Some((file, _)), _) | (None, Some(file)) => file.clone(),
            (None, None) => self.served(object.key.clone()),
        }
    }

    /// Checks that a file and the media it points to have the versions that were indexed.
    ///
    /// # Errors
    /// [`StorageError::Changed`] for another version, and any other failure of the reads.
    pub(crate) async fn check_unchanged(&self, file: &IndexedFile) -> Result<(), StorageError> {
        let index = file.objects().find_map(|object| object.indexed_by.as_ref());
        let index = index.map(|(index, version)| (&index.storage, &index.key, version));
        let media = file.objects().map(|object| (self.storage_of(object), &object.key, &object.version));
        // Each body is dropped at once: a held body occupies a request slot of the storage that
        // the last of these reads may be waiting for.
        let checks = index.into_iter().chain(media).map(|(storage, key, version)| async move {
            storage.read(key, Want::Head(1), Some(version)).await.map(drop)
        });
        try_join_all(checks).await.map(drop)
    }

    /// Indexes a file and finds the objects that hold its media. `listed` is the file's size in
    /// bytes as told by a listing: it saves round trips.
    ///
    /// # Errors
    /// - [`Error::Storage`] for a failed read
    /// - [`Error::Index`] for a file without a usable index, or an index MP4 of another version of
    ///   its media
    /// - [`Error::LocationRefused`] for a location that may not be read
    /// - [`Error::TooManyObjects`] for more objects than one title may have
    pub(crate) async fn index_file(
        &self,
        file: &ObjectRef,
        listed: Option<u64>,
    ) -> Result<IndexedFile, Error> {
        let (version, index) = self.index(file, listed).await?;
        let replaceable = self.media_of_replaceable(file, &index);
        let parts = index.by_location();
        if parts.len() > self.max_objects {
            return Err(Error::TooManyObjects { count: parts.len(), limit: self.max_objects });
        }
        let parts = parts.into_iter().map(|(location, part)| async {
            let object = match &location {
                None => self.object(file, version.clone(), part, None),
                Some(location) => self.media_object(file, &version, location, part).await?,
            };
            Ok::<_, Error>((location, object))
        });
        match (try_join_all(parts).await, replaceable) {
            (Err(Error::Index { error: IndexError::Stale(_), .. }), Some(media)) => {
                let (version, index) = self.index(&media, None).await?;
                if *index.locations() != [None] {
                    return Err(Error::Internal("an index MP4 points to another index MP4"));
                }
                let object = self.object(&media, version.clone(), index, None);
                Ok(IndexedFile { file: media, version, parts: vec![(None, object)] })
            }
            (parts, _) => Ok(IndexedFile { file: file.clone(), version, parts: parts? }),
        }
    }

    /// Makes the object that holds the media of some tracks of an index MP4.
    async fn media_object(
        &self,
        file: &ObjectRef,
        version: &Version,
        location: &str,
        index: MediaIndex,
    ) -> Result<Arc<IndexedObject>, Error> {
        let media = self.references.find(file, location)?;
        let (media_version, paired) = self.pair(index, &media, None).await?;
        let index = paired.map_err(|error| Error::index(file.to_string(), error))?;
        Ok(self.object(&media, media_version, index, Some((file.clone(), version.clone()))))
    }

    /// Pairs the index in an index MP4 with its media, of a given version if there is one. Returns
    /// the media's version, and an index error if the index was made from another version. It takes
    /// one round trip: the object's size and version come with its first bytes.
    pub(crate) async fn pair(
        &self,
        index: MediaIndex,
        media: &ObjectRef,
        version: Option<&Version>,
    ) -> Result<(Version, Result<MediaIndex, IndexError>), Error> {
        let want = Want::Head(MEDIA_HEAD);
        let (meta, head) = read_whole(&*media.storage, &media.key, &media.to_string(), want, version).await?;
        let paired = tokio::task::spawn_blocking(move || index.of_media(meta.size, &head.bytes));
        let paired = paired.await.map_err(|_| Error::Internal("pairing an index with its media panicked"))?;
        Ok((meta.version, paired))
    }

    pub(crate) fn object(
        &self,
        object: &ObjectRef,
        version: Version,
        index: MediaIndex,
        indexed_by: Option<(ObjectRef, Version)>,
    ) -> Arc<IndexedObject> {
        Arc::new(IndexedObject {
            key: object.key.clone(),
            version,
            index: Arc::new(index),
            elsewhere: object.is_elsewhere().then(|| object.clone()),
            indexed_by,
            id: self.next_id.fetch_add(1, Relaxed),
        })
    }

    /// Reads the index of an object. `listed` is its size in bytes as told by a listing: it saves
    /// round trips.
    pub(crate) async fn index(
        &self,
        object: &ObjectRef,
        listed: Option<u64>,
    ) -> Result<(Version, MediaIndex), Error> {
        let name = object.to_string();
        let mut reader = IndexReader::new(&*object.storage, &object.key, name, self.limits);
        if let Some(size) = listed {
            reader = reader.with_listed_size(size);
        }
        loop {
            reader = match self.step(reader).await? {
                IndexStep::Done(read) => return Ok((read.version, read.index)),
                IndexStep::Read(next) => next,
                IndexStep::Scan(next) => {
                    if let Some(version) = next.version()
                        && let Some(index) = self.index_beside(object, version).await
                    {
                        return Ok((version.clone(), index));
                    }
                    log_scan(object);
                    next
                }
            }
        }
    }

    /// Reads all sample tables of a version of an object.
    pub(crate) async fn full_tables(
        &self,
        object: &ObjectRef,
        version: Version,
    ) -> Result<Box<ReadIndex>, Error> {
        let name = object.to_string();
        let reader = IndexReader::for_full_tables(&*object.storage, &object.key, name, self.limits);
        let mut reader = reader.pinned(version);
        loop {
            reader = match self.step(reader).await? {
                IndexStep::Done(read) => return Ok(read),
                IndexStep::Read(next) => next,
                IndexStep::Scan(next) => {
                    log_scan(object);
                    next
                }
            }
        }
    }

    /// Takes a step of a reader once its bytes may be in memory.
    async fn step<'a>(&self, reader: IndexReader<'a>) -> Result<IndexStep<'a>, Error> {
        // One step holds one permit, and none while it waits: no two readers can deadlock.
        let _permit = self.memory_for(reader.next_bytes()).await?;
        reader.step().await
    }

    async fn memory_for(&self, bytes: u64) -> Result<SemaphorePermit<'_>, Error> {
        let permits = u32::try_from(bytes.div_ceil(PERMIT_BYTES)).unwrap_or(u32::MAX);
        let permits = self.memory.acquire_many(permits.min(self.memory_permits)).await;
        permits.map_err(|_| Error::Internal("the semaphore of the indexer is closed"))
    }

    /// Returns the index in the index MP4 beside a media file that has no index of its own. It saves
    /// reading every `moof` of the media.
    ///
    /// Only an index MP4 that this program wrote from this version of the media is used. The result
    /// is the same index that a scan of the media gives, and is kept like one. Errors are ignored:
    /// the index can always be rebuilt from the media file. The future is boxed because the index of
    /// an index MP4 is read by [`Self::index`] too.
    fn index_beside<'a>(
        &'a self,
        media: &'a ObjectRef,
        version: &'a Version,
    ) -> BoxFuture<'a, Option<MediaIndex>> {
        async move {
            let file = self.file_beside(media)?;
            match self.index_in_file_beside(&file, media, version).await {
                Ok(index) => index,
                Err(Error::Storage(StorageError::NotFound(_))) => None,
                Err(error) => {
                    tracing::debug!(reason = error.reason(), object = %file, "index MP4 not used: {error}");
                    None
                }
            }
        }
        .boxed()
    }

    /// Returns the index MP4 that a media file may have. There is none for an index MP4 itself, nor
    /// for media outside the served storage.
    fn file_beside(&self, media: &ObjectRef) -> Option<ObjectRef> {
        let path = media.key.as_str();
        if media.is_elsewhere() || !is_media(path) || indexed_stem(path).is_some() {
            return None;
        }
        Some(self.served(index_key(&media.key)?))
    }

    async fn index_in_file_beside(
        &self,
        file: &ObjectRef,
        media: &ObjectRef,
        version: &Version,
    ) -> Result<Option<MediaIndex>, Error> {
        let (_, index) = self.index(file, None).await?;
        if !self.is_own_index(file, &index, media) {
            return Ok(None);
        }
        let (_, paired) = self.pair(index, media, Some(version)).await?;
        let index = paired.map_err(|error| Error::index(file.to_string(), error))?;
        Ok(Some(MediaIndex { stamp: None, ..index }))
    }

    /// Returns true if an index MP4 was written by this program for the given media.
    pub(crate) fn is_own_index(&self, file: &ObjectRef, index: &MediaIndex, media: &ObjectRef) -> bool {
        let [Some(location)] = &*index.locations() else { return false };
        index.stamp.is_some() && self.references.find(file, location).is_ok_and(|found| found == *media)
    }

    /// Returns the media of an index MP4 that this program wrote and may replace.
    fn media_of_replaceable(&self, file: &ObjectRef, index: &MediaIndex) -> Option<ObjectRef> {
        if !self.replaces_outdated || file.is_elsewhere() || index.stamp.is_none() {
            return None;
        }
        let [Some(location)] = &*index.locations() else { return None };
        let media = self.references.find(file, location).ok()?;
        (index_key(&media.key)? == file.key).then_some(media)
    }
}

fn log_scan(object: &ObjectRef) {
    tracing::warn!(
        reason = "scan",
        object = %object,
        "the file has neither sidx nor mfra: every fragment is read once"
    );
}
