//! The indexes of objects, remembered: who asks first reads them, all others wait for that or find them.

use crate::{
    Error, OriginConfig,
    config::IndexConfig,
    observe::metrics::{CacheWatch, ReadPurpose},
    observe::trace::carried,
    title::flight::Flights,
    title::media::Media,
    title::memo::Memo,
    title::places::{Place, Places},
    title::write_index::IndexWriter,
};
use bytes::{Bytes, BytesMut};
use futures_util::{
    FutureExt, StreamExt,
    future::{join, join_all, try_join_all},
};
use latemux_cache::Records;
use latemux_index::{
    IndexError, MediaIndex,
    locate::{Locator, Step, limits::Limits, read_buffer::ObjectBytes},
    media::stamp::MEDIA_HEAD,
};
use latemux_storage::{Key, ObjectMeta, ReadRequest, Storage, StorageError, Version, Want};
use std::{
    future::Future,
    iter,
    ops::AddAssign,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::sync::Semaphore;

/// One object whose index is known. Immutable: a changed object is another one.
#[derive(Debug)]
pub struct Object {
    /// Where it is.
    pub key: Key,
    /// The version the index was made from: every read of its media names it.
    pub version: Version,
    /// Its index.
    pub index: Arc<MediaIndex>,
    /// Where it is, if not in the storage that is served.
    pub(crate) elsewhere: Option<Place>,
    /// The index MP4 its index was read from, and that one's version, if not from the object itself.
    pub(crate) indexed_by: Option<(Place, Version)>,
    /// Unlike that of any other object, or version of it, in this process.
    pub(crate) id: u64,
}

/// What one file gives: itself, or the media objects an index MP4 points to, each with the tracks whose media it has.
pub(crate) type Parts = Arc<[Arc<Object>]>;

/// A file as it was read now.
#[derive(Debug)]
pub(crate) struct Loaded {
    /// Which file: the one asked for, or the media of one that is of an older version of it and will be written anew.
    pub(crate) place: Place,
    /// The file's own.
    pub(crate) version: Version,
    /// What it gives, each with where the file says its media is; none for the file itself.
    pub(crate) parts: Vec<(Option<Arc<str>>, Arc<Object>)>,
}

/// How much was forgotten.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Forgotten {
    /// In memory.
    pub(crate) indexes: u64,
    pub(crate) indexes_on_disk: u64,
    /// Pieces of media, in memory and on disk.
    pub(crate) ranges: u64,
}

impl AddAssign for Forgotten {
    fn add_assign(&mut self, more: Self) {
        self.indexes += more.indexes;
        self.indexes_on_disk += more.indexes_on_disk;
        self.ranges += more.ranges;
    }
}

/// Remembered objects.
#[derive(Debug)]
pub(crate) struct Objects {
    /// The one that is served.
    storage: Arc<dyn Storage>,
    pub(crate) limits: Limits,
    memo: Memo<Place, Parts>,
    flights: Flights<Place, Result<Parts, Error>>,
    pub(crate) places: Places,
    /// What outlives the process.
    pub(crate) records: Option<Records>,
    /// Writes index MP4s.
    pub(crate) writer: Option<IndexWriter>,
    /// Index bytes that may be read at one time, in units of [`LOADING_UNIT`].
    loading: Semaphore,
    loading_units: u32,
    load_timeout: Duration,
    /// Most objects in one title.
    pub(crate) max_objects: usize,
    next_id: AtomicU64,
}

/// Bytes per permit: a `u32` of them is 16 TiB.
const LOADING_UNIT: u64 = 4096;

impl Objects {
    pub(crate) fn new(
        storage: &Arc<dyn Storage>,
        config: &OriginConfig,
        media: &Media,
        records: Option<Records>,
        writer: Option<IndexWriter>,
    ) -> Self {
        let units = u32::try_from(config.memory.loading / LOADING_UNIT).unwrap_or(u32::MAX).max(1);
        let IndexConfig { head, tail, ahead, max_index, .. } = config.index;
        let limits = Limits { head, tail, ahead, max_index };
        Self {
            storage: media.meter().over(storage.clone(), ReadPurpose::Index),
            limits,
            // Titles hold their objects too: each memo gets half.
            memo: Memo::new(config.memory.index / 2, |place: &Place, parts: &Parts| {
                size_of::<Place>()
                    + place.key.as_str().len()
                    + parts.iter().map(|o| o.heap_bytes()).sum::<usize>()
            }),
            flights: Flights::new(),
            places: Places::new(&config.sources, media.clone()),
            records,
            writer,
            loading: Semaphore::new(usize::try_from(units).unwrap_or(1).min(Semaphore::MAX_PERMITS)),
            loading_units: units,
            load_timeout: config.load_timeout,
            max_objects: config.max_objects,
            next_id: AtomicU64::new(0),
        }
    }

    /// A file of the storage that is served.
    pub(crate) fn served(&self, key: Key) -> Place {
        Place::served(self.storage.clone(), key)
    }

    /// The file an object was found by.
    pub(crate) fn file_of(&self, object: &Object) -> Place {
        match (&object.indexed_by, &object.elsewhere) {
            (Some((place, _)), _) | (None, Some(place)) => place.clone(),
            (None, None) => self.served(object.key.clone()),
        }
    }

    /// Forgets what a file gave, and what is kept of the media it points to.
    pub(crate) async fn forget(&self, place: &Place) -> Forgotten {
        let known = self.memo.peek(place);
        let on_disk = self.last_known(place).await;
        let mut forgotten = Forgotten {
            indexes: u64::from(self.memo.remove(place)),
            indexes_on_disk: u64::from(self.forget_persisted(place)),
            ..Forgotten::default()
        };
        for object in known.iter().chain(&on_disk).flat_map(|parts| parts.iter()) {
            let storage = object.elsewhere.as_ref().map_or(&self.storage, |place| &place.storage);
            forgotten.ranges += self.places.media().forget(&**storage, &object.key, &object.version);
        }
        forgotten
    }

    /// What is remembered, for metrics.
    pub(crate) fn watch(&self) -> CacheWatch {
        self.memo.watch("objects", self.flights.joins())
    }

    /// What a file gives: remembered and, as one small read of each object confirms, unchanged; or indexed now, which takes fewer round
    /// trips where a listing told its size, in bytes.
    pub(crate) async fn current(self: &Arc<Self>, key: &Place, listed: Option<u64>) -> Result<Parts, Error> {
        if let Some(parts) = self.memo.get(key) {
            match self.unchanged(key, &parts).await {
                Ok(()) => return Ok(parts),
                Err(StorageError::Changed(_)) => {
                    self.memo.remove(key);
                    self.forget_persisted(key);
                }
                Err(error) => {
                    self.memo.remove(key);
                    return Err(error.into());
                }
            }
        }
        if self.flights.is_running(key) {
            return self.fly(key.clone(), listed).await;
        }
        // What was begun is finished, whoever leaves: a scan that outlasts a player's patience would never end otherwise.
        let leader = tokio::spawn(carried(self.fly(key.clone(), listed)));
        leader.await.unwrap_or(Err(Error::Internal("indexing broke off")))
    }

    /// Compares the file and the media it points to with what is remembered.
    pub(crate) async fn unchanged(&self, place: &Place, parts: &Parts) -> Result<(), StorageError> {
        let index = parts.iter().find_map(|object| object.indexed_by.as_ref());
        let index = index.map(|(_, version)| (place.storage.clone(), &place.key, version));
        let media = parts.iter().map(|object| {
            let storage = object.elsewhere.as_ref().map_or(&self.storage, |place| &place.storage);
            (storage.clone(), &object.key, &object.version)
        });
        // Each answer is let go at once: whoever kept them all would hold places that the last of them may wait for.
        let checks = index.into_iter().chain(media).map(|(storage, key, version)| async move {
            storage.read(ReadRequest::head(key, 1).pinned(version)).await.map(drop)
        });
        try_join_all(checks).await.map(drop)
    }

    /// Waits for the indexing of an object that is under way, or begins it.
    fn fly(
        self: &Arc<Self>,
        key: Place,
        listed: Option<u64>,
    ) -> impl Future<Output = Result<Parts, Error>> + Send + use<> {
        let this = self.clone();
        async move {
            let (loader, wanted) = (this.clone(), key.clone());
            let load = move || {
                async move {
                    let after = loader.load_timeout;
                    let loaded = tokio::time::timeout(after, loader.load(&wanted, listed)).await;
                    loaded.unwrap_or_else(|_| Err(Error::LoadTimedOut { base: wanted.to_string(), after }))
                }
                .boxed()
            };
            this.flights.run(key, load).await
        }
    }

    async fn load(self: &Arc<Self>, place: &Place, listed: Option<u64>) -> Result<Parts, Error> {
        let parts = match self.persisted(place, listed).await? {
            Some(parts) => parts,
            None => {
                let loaded = match self.parts(place, listed).await {
                    // Replaced between two reads of its index: once more, from the start.
                    Err(Error::Storage(StorageError::Changed(_))) => self.parts(place, None).await?,
                    other => other?,
                };
                let parts = loaded.parts.iter().map(|(_, object)| object.clone()).collect();
                self.persist(loaded);
                parts
            }
        };
        if let [only] = &*parts {
            self.offer_index(only);
        }
        self.memo.insert(place.clone(), parts.clone());
        Ok(parts)
    }

    async fn parts(&self, place: &Place, listed: Option<u64>) -> Result<Loaded, Error> {
        let (version, index) = self.index(place, listed).await?;
        let to_be_indexed = self.to_be_indexed(place, &index);
        let parts = index.by_location();
        if parts.len() > self.max_objects {
            return Err(Error::TooManyObjects { count: parts.len(), limit: self.max_objects });
        }
        let parts = parts.into_iter().map(|(location, part)| async {
            let object = match &location {
                None => self.object(place, version.clone(), part, None),
                Some(location) => self.media(place, &version, location, part).await?,
            };
            Ok::<_, Error>((location, object))
        });
        match (try_join_all(parts).await, to_be_indexed) {
            (Err(Error::Index { error: IndexError::Stale(_), .. }), Some(media)) => {
                let (version, index) = self.index(&media, None).await?;
                if *index.locations() != [None] {
                    return Err(Error::Internal("an index MP4 of an index MP4"));
                }
                let object = self.object(&media, version.clone(), index, None);
                Ok(Loaded { place: media, version, parts: vec![(None, object)] })
            }
            (parts, _) => Ok(Loaded { place: place.clone(), version, parts: parts? }),
        }
    }

    /// The object that the tracks of an index MP4 have their media in.
    async fn media(
        &self,
        place: &Place,
        version: &Version,
        location: &str,
        index: MediaIndex,
    ) -> Result<Arc<Object>, Error> {
        let media = self.places.find(place, location)?;
        let (of, paired) = self.paired(index, &media, None).await?;
        let index = paired.map_err(|error| Error::index(place.to_string(), error))?;
        Ok(self.object(&media, of, index, Some((place.clone(), version.clone()))))
    }

    /// What an index MP4 says of an object, of that version if one is named, and which version that is; an error where the index was made
    /// of another one. One round trip: the object's size and version come with its first bytes.
    pub(crate) async fn paired(
        &self,
        index: MediaIndex,
        media: &Place,
        version: Option<&Version>,
    ) -> Result<(Version, Result<MediaIndex, IndexError>), Error> {
        let (meta, head) = self.read(media, &Want::Head(MEDIA_HEAD), version).await?;
        let paired = tokio::task::spawn_blocking(move || index.of_media(meta.size, &head.bytes));
        Ok((meta.version, paired.await.map_err(|_| Error::Internal("pairing broke off"))?))
    }

    pub(crate) fn object(
        &self,
        place: &Place,
        version: Version,
        index: MediaIndex,
        indexed_by: Option<(Place, Version)>,
    ) -> Arc<Object> {
        Arc::new(Object {
            key: place.key.clone(),
            version,
            index: Arc::new(index),
            elsewhere: place.is_elsewhere().then(|| place.clone()),
            indexed_by,
            id: self.next_id.fetch_add(1, Relaxed),
        })
    }

    /// Reads the index of an object, which takes fewer round trips where a listing told its size.
    pub(crate) async fn index(
        &self,
        key: &Place,
        listed: Option<u64>,
    ) -> Result<(Version, MediaIndex), Error> {
        let locator = Locator::new(self.limits);
        let first = locator.first_reads(listed);
        let wants = iter::once(Want::Head(first.head)).chain(first.tail.map(Want::Range)).collect();
        let (version, _, index) = self.locate(key, locator, wants, None).await?;
        Ok((version, index))
    }

    /// Gives a locator what it wants, of that version if one is named: the reads of one step at once, each step a round trip.
    pub(crate) async fn locate(
        &self,
        key: &Place,
        mut locator: Locator,
        mut wants: Vec<Want>,
        mut version: Option<Version>,
    ) -> Result<(Version, Locator, MediaIndex), Error> {
        let mut scanning = false;
        loop {
            let room = self.room_for(&wants).await?;
            let mut reads = wants.iter().map(|want| self.read(key, want, version.as_ref()));
            let mut got = Vec::with_capacity(wants.len());
            if version.is_none() {
                let first = reads.next().ok_or(Error::Internal("nothing to read"))?;
                let (head, guesses) = join(first, join_all(reads)).await;
                let (object, bytes) = head?;
                got.push(bytes);
                // Listings may be old: what is not of this version, or not there, is read when it turns out to be needed.
                let same = guesses.into_iter().flatten().filter(|(guess, _)| guess.version == object.version);
                got.extend(same.map(|(_, bytes)| bytes));
                version = Some(object.version);
            } else {
                got.extend(try_join_all(reads).await?.into_iter().map(|(_, bytes)| bytes));
            }
            let Some(version) = version.clone() else { return Err(Error::Internal("no read to index by")) };
            let size = version.size;
            // Parsing a large moov takes milliseconds that no other request should wait for.
            let parsed = tokio::task::spawn_blocking(move || {
                let step = locator.step(size, got);
                (locator, step)
            });
            let (next, step) = parsed.await.map_err(|_| Error::Internal("indexing broke off"))?;
            locator = next;
            drop(room);
            match step.map_err(|error| Error::index(key.to_string(), error))? {
                Step::Read(more) => wants = more.into_iter().map(Want::Range).collect(),
                Step::Scan(more) => {
                    if !std::mem::replace(&mut scanning, true) {
                        if !locator.is_for_full_tables()
                            && let Some(index) = self.index_beside(key, &version).await
                        {
                            return Ok((version, locator, index));
                        }
                        tracing::warn!(
                            reason = "scan",
                            object = %key,
                            "neither sidx nor mfra: every fragment is looked at, once"
                        );
                    }
                    wants = more.into_iter().map(Want::Range).collect();
                }
                Step::Done(index) => return Ok((version, locator, *index)),
            }
        }
    }

    /// Waits until as many bytes may be in memory. One step holds one permit, and none while it waits: no two loads can
    /// wait for each other.
    async fn room_for(&self, wants: &[Want]) -> Result<tokio::sync::SemaphorePermit<'_>, Error> {
        let bytes = wants.iter().map(|want| match want {
            Want::Head(len) => *len,
            Want::Range(range) => range.end.saturating_sub(range.start),
        });
        let units = bytes.fold(0_u64, u64::saturating_add).div_ceil(LOADING_UNIT);
        let units = u32::try_from(units).unwrap_or(u32::MAX).min(self.loading_units);
        self.loading.acquire_many(units).await.map_err(|_| Error::Internal("closed"))
    }

    pub(crate) async fn read(
        &self,
        place: &Place,
        want: &Want,
        pin: Option<&Version>,
    ) -> Result<(ObjectMeta, ObjectBytes), StorageError> {
        let mut read = place.storage.read(ReadRequest::new(&place.key, want.clone()).pinned_to(pin)).await?;
        let promised = read.range.end.saturating_sub(read.range.start);
        let mut frames = Vec::new();
        let mut received = 0_u64;
        while let Some(frame) = read.body.next().await {
            let frame = frame?;
            received = received.saturating_add(u64::try_from(frame.len()).unwrap_or(u64::MAX));
            if received > promised {
                break;
            }
            frames.push(frame);
        }
        if received != promised {
            let detail = format!("{received} bytes or more where {promised} were promised");
            return Err(StorageError::BadResponse { key: place.to_string(), detail });
        }
        Ok((read.object, ObjectBytes { offset: read.range.start, bytes: joined(frames) }))
    }
}

impl Object {
    /// Bytes of memory this holds.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.key.as_str().len() + self.index.heap_bytes()
    }
}

/// One piece of many; a single frame as it is.
fn joined(mut frames: Vec<Bytes>) -> Bytes {
    if frames.len() == 1 {
        return frames.pop().unwrap_or_default();
    }
    let mut whole = BytesMut::with_capacity(frames.iter().map(Bytes::len).sum());
    for frame in frames {
        whole.extend_from_slice(&frame);
    }
    whole.freeze()
}
