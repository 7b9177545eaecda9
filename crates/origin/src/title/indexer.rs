//! Indexes files: reads their indexes from storage and finds the objects that hold their media.

use crate::{
    Error,
    config::{IndexConfig, OriginConfig},
    title::index_reader::{IndexReader, read_whole},
    title::indexed::{CutBox, IndexedFile, IndexedObject, PinnedObject},
    title::loading_memory::LoadingMemory,
    title::references::{ObjectRef, References},
    title::resolve::{index_key, indexed_stem, is_media},
    title::storages::Storages,
    title::unpacked::RecentValues,
    title::workers::Workers,
};
use futures_util::{
    FutureExt,
    future::{BoxFuture, try_join_all},
};
use latemux_index::{IndexError, MediaIndex, locate::limits::Limits, media::stamp::MEDIA_HEAD};
use latemux_packager::text_file;
use latemux_storage::{ReadRequest, Storage, StorageError, Version};
use latemux_text::{TextFormat, limits::FILE_BYTES};
use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

/// Least memory that is counted for reading and parsing, in bytes.
const LEAST_MEMORY: u64 = 1 << 20;

/// Reads and parses indexes. It caches none.
#[derive(Debug)]
pub(crate) struct Indexer {
    limits: Limits,
    pub(crate) references: References,
    /// Memory for index bytes while they are read and parsed.
    memory: LoadingMemory,
    /// Values of the columns of recent indexes.
    pub(super) recent: Arc<RecentValues>,
    /// Most objects in one file.
    max_objects: usize,
    /// True if outdated index MP4s are replaced, as an index writer does.
    replaces_outdated: bool,
    next_id: AtomicU64,
    pub(crate) workers: Workers,
}

impl Indexer {
    /// Creates an indexer. With `replaces_outdated`, it indexes the media itself where an index MP4
    /// of this program describes another version of it.
    pub(crate) fn new(
        storage: &Arc<dyn Storage>,
        config: &OriginConfig,
        storages: &Storages,
        memory: LoadingMemory,
        recent: Arc<RecentValues>,
        workers: Workers,
        replaces_outdated: bool,
    ) -> Self {
        let IndexConfig { head, tail, ahead, max_index, .. } = config.index;
        Self {
            limits: Limits { head, tail, ahead, max_index },
            references: References::new(&config.sources, storages.clone(), storage),
            memory,
            recent,
            max_objects: config.max_objects,
            replaces_outdated,
            next_id: AtomicU64::new(0),
            workers,
        }
    }

    /// Checks that a file and the media it points to have the versions that were indexed.
    pub(crate) async fn check_unchanged(&self, file: &IndexedFile) -> Result<(), StorageError> {
        let media = file.parts.iter().filter(|(location, _)| location.is_some());
        let media = media.map(|(_, object)| (object.source(), object.version()));
        self.check_versions([(&file.file, &file.version)].into_iter().chain(media)).await
    }

    /// Checks that objects have these versions.
    pub(crate) async fn check_versions(
        &self,
        objects: impl Iterator<Item = (&ObjectRef, &Version)>,
    ) -> Result<(), StorageError> {
        // Each body is dropped at once. An open body holds a request slot of the storage, for which
        // another of these reads may wait.
        let checks = objects.map(|(object, version)| async move {
            object.storage.read(ReadRequest::head(&object.key, 1).pinned(version)).await.map(drop)
        });
        try_join_all(checks).await.map(drop)
    }

    /// Indexes a file and finds the objects that hold its media. `listed` is the file's size in
    /// bytes according to a listing, which saves round trips.
    pub(crate) async fn index_file(
        &self,
        file: &ObjectRef,
        listed: Option<u64>,
    ) -> Result<IndexedFile, Error> {
        let (version, index) = self.index(file, listed).await?;
        let is_replaceable = |media: &ObjectRef| {
            self.replaces_outdated
                && !file.is_elsewhere()
                && index_key(&media.key).as_ref() == Some(&file.key)
        };
        let replaceable = self.own_media(file, &index).filter(is_replaceable);
        let parts = index.by_location();
        if parts.len() > self.max_objects {
            return Err(Error::TooManyObjects { count: parts.len(), limit: self.max_objects });
        }
        let parts = parts.into_iter().map(|(location, part)| async {
            let object = match &location {
                None => self.object(file.clone(), version.clone(), part, (file, &version)),
                Some(location) => {
                    let media = self.references.find(file, location)?;
                    let (of_media, part) = self.pair(file, part, &media, None).await?;
                    self.object(media, of_media, part, (file, &version))
                }
            };
            Ok::<_, Error>((location, object))
        });
        match (try_join_all(parts).await, replaceable) {
            (Err(Error::Index { error: IndexError::Stale(_), .. }), Some(media)) => {
                let (version, index) = self.index(&media, None).await?;
                if *index.locations() != [None] {
                    return Err(Error::Internal("an index MP4 points to another index MP4"));
                }
                let object = self.object(media.clone(), version.clone(), index, (&media, &version));
                Ok(IndexedFile::new(media, version, vec![(None, object)]))
            }
            (parts, _) => Ok(IndexedFile::new(file.clone(), version, parts?)),
        }
    }

    /// Pairs the index of an index MP4 with its media, and returns the media's version. If
    /// `version` is given, the media must have it. This takes one round trip, because size and
    /// version come with the first bytes. Fails if the index was made from another version of the
    /// media.
    pub(crate) async fn pair(
        &self,
        file: &ObjectRef,
        index: MediaIndex,
        media: &ObjectRef,
        version: Option<&Version>,
    ) -> Result<(Version, MediaIndex), Error> {
        let request = ReadRequest::head(&media.key, MEDIA_HEAD).pinned_to(version);
        let (meta, head) = read_whole(&*media.storage, request, &media.to_string()).await?;
        let paired = self.workers.run(move || index.of_media(meta.size, &head.bytes)).await?;
        Ok((meta.version, paired.map_err(|error| Error::index(file.to_string(), error))?))
    }

    pub(crate) fn object(
        &self,
        source: ObjectRef,
        version: Version,
        mut index: MediaIndex,
        (file, of_file): (&ObjectRef, &Version),
    ) -> Arc<IndexedObject> {
        let id = self.next_id.fetch_add(1, Relaxed);
        self.recent.keep(id, index.take_unpacked());
        // Media that was indexed by the index MP4 beside it has a place in another file.
        let place = index.cut_box.as_deref().filter(|_| *file != source);
        let cut_box = place.map(|place| {
            let version = of_file.clone();
            let has_warned = AtomicBool::new(false);
            Box::new(CutBox { place: *place, version, differs: Arc::default(), has_warned })
        });
        let pinned = Arc::new(PinnedObject { source, version });
        Arc::new(IndexedObject { pinned, index: Arc::new(index), file: file.clone(), cut_box, id })
    }

    /// Drops the unpacked copies of the columns of objects. From now on, requests decode columns.
    pub(crate) fn forget_values(&self, objects: &[Arc<IndexedObject>]) {
        self.recent.forget(objects.iter().map(|object| object.id));
    }

    fn reader<'a>(&self, object: &'a ObjectRef) -> IndexReader<'a> {
        IndexReader::new(&*object.storage, &object.key, object.to_string(), self.limits)
            .with_workers(self.workers.clone())
    }

    /// Reads the index of an object. `listed` is the object's size in bytes according to a listing,
    /// which saves round trips.
    pub(crate) async fn index(
        &self,
        object: &ObjectRef,
        listed: Option<u64>,
    ) -> Result<(Version, MediaIndex), Error> {
        if let Some(format) = TextFormat::of_name(object.key.as_str()) {
            return self.index_text(object, format).await;
        }
        let reader = self.reader(object).keeping_values();
        let mut reader = match listed {
            Some(size) => reader.with_listed_size(size),
            None => reader,
        };
        self.finish(&mut reader, object).await
    }

    /// Reads a file of text, which becomes its own index.
    async fn index_text(
        &self,
        object: &ObjectRef,
        format: TextFormat,
    ) -> Result<(Version, MediaIndex), Error> {
        let limit = FILE_BYTES as u64;
        // The text, its cues and the samples made of them.
        let memory = self.memory.grant(LEAST_MEMORY + 4 * limit).await;
        let request = ReadRequest::head(&object.key, limit);
        let (meta, read) = read_whole(&*object.storage, request, &object.to_string()).await?;
        let name = object.key.as_str().to_owned();
        let indexed = match meta.size > limit {
            true => {
                let detail = format!("the text has {} bytes, more than {limit}", meta.size);
                Err(IndexError::Text { reason: "text_too_large", detail })
            }
            false => self.workers.run(move || text_file::index(format, &name, &read.bytes)).await?,
        };
        drop(memory);
        Ok((meta.version, indexed.map_err(|error| Error::index(object.to_string(), error))?))
    }

    /// Reads all sample tables of a version of an object.
    pub(crate) async fn full_tables<'a>(
        &self,
        object: &'a ObjectRef,
        version: Version,
    ) -> Result<IndexReader<'a>, Error> {
        let mut reader = self.reader(object).for_full_tables().pinned(version);
        self.finish(&mut reader, object).await?;
        Ok(reader)
    }

    /// Takes steps of a reader until the index is complete.
    async fn finish(
        &self,
        reader: &mut IndexReader<'_>,
        object: &ObjectRef,
    ) -> Result<(Version, MediaIndex), Error> {
        let mut was_scanning = false;
        loop {
            // A step holds no memory while it waits for some, so steps cannot deadlock.
            // The tables made of the bytes take less than the bytes.
            let memory = self.memory.grant((2 * reader.next_bytes()).max(LEAST_MEMORY)).await;
            let index = reader.step().await?;
            drop(memory);
            let version = reader.version().ok_or(Error::Internal("an index without a version"))?;
            if let Some(index) = index {
                return Ok((version.clone(), index));
            }
            if reader.is_scanning() && !std::mem::replace(&mut was_scanning, true) {
                if !reader.is_for_full_tables()
                    && let Some(index) = self.index_beside(object, version).await
                {
                    return Ok((version.clone(), index));
                }
                tracing::warn!(
                    reason = "scan",
                    object = %object,
                    "the file has no usable sidx or mfra: every fragment is read once"
                );
            }
        }
    }

    /// Returns the index in the index MP4 beside a media file that has no index of its own. It
    /// saves reading every `moof` of the media.
    ///
    /// Only an index MP4 that this program wrote from this version of the media is used. The result
    /// equals the index that a scan of the media gives, and is cached like one. Errors are ignored,
    /// because the index can always be rebuilt from the media file. Index MP4s themselves, and
    /// media outside the served storage, have no index MP4. The future is boxed because this
    /// function and [`Self::index`] call each other.
    fn index_beside<'a>(
        &'a self,
        media: &'a ObjectRef,
        version: &'a Version,
    ) -> BoxFuture<'a, Option<MediaIndex>> {
        async move {
            let path = media.key.as_str();
            if media.is_elsewhere() || !is_media(path) || indexed_stem(path).is_some() {
                return None;
            }
            let file = self.references.served(index_key(&media.key)?);
            let found = match self.index(&file, None).await {
                Ok((_, index)) if self.own_media(&file, &index).as_ref() == Some(media) => {
                    self.pair(&file, index, media, Some(version)).await
                }
                Ok(_) => return None,
                Err(error) => Err(error),
            };
            match found {
                Ok((_, index)) => Some(MediaIndex { stamp: None, cut_box: None, ..index }),
                Err(Error::Storage(StorageError::NotFound(_))) => None,
                Err(error) => {
                    tracing::debug!(reason = error.reason(), object = %file, "index MP4 not used: {error}");
                    None
                }
            }
        }
        .boxed()
    }

    /// Returns the media of an index MP4 that this program wrote.
    pub(crate) fn own_media(&self, file: &ObjectRef, index: &MediaIndex) -> Option<ObjectRef> {
        index.stamp.as_ref()?;
        let [Some(location)] = &*index.locations() else { return None };
        self.references.find(file, location).ok()
    }
}
