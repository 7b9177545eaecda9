//! Writes index MP4s beside their media: in the background, one at a time, once for each version of
//! an object.
//!
//! An index MP4 is written only if serving it gives the same bytes as serving the media itself.
//! This excludes media whose fragments are indexed by `sidx` or `mfra`, because its track names
//! would change while it is played.

use crate::{
    Error,
    observe::metrics::{IndexFiles, Written},
    title::indexed::IndexedObject,
    title::indexer::Indexer,
    title::memory_cache::MemoryCache,
    title::references::{ObjectRef, relative_url},
    title::resolve::{index_key, index_name, indexed_stem, is_media},
};
use latemux_index::media::IndexSource;
use latemux_storage::{
    Key, Listing, StorageError, Version, list_all,
    write::{ConditionalPut, WriteError},
};
use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::sync::Semaphore;

/// Most objects that wait for their index MP4. Further ones are offered again when they are loaded
/// again.
const QUEUE_LIMIT: usize = 256;
/// Time without any attempt after a failed write.
const PAUSE: Duration = Duration::from_secs(60);
/// Longest time for which a listing is reused, because files of one folder often follow each other.
const LISTING_AGE: Duration = Duration::from_secs(10);
/// Most names in a folder beside whose media index MP4s are written.
const MAX_NAMES: usize = 100_000;
/// Bytes of memory for the versions that were handled already.
const HANDLED_BYTES: u64 = 4 << 20;

/// Writes index MP4s.
#[derive(Debug)]
pub(crate) struct IndexWriter {
    indexer: Arc<Indexer>,
    /// The served storage, for writing.
    target: Arc<dyn ConditionalPut>,
    counts: Arc<IndexFiles>,
    /// One permit, held while an index MP4 is made and written.
    turn: Semaphore,
    /// Number of objects that wait or are being handled.
    queued: AtomicUsize,
    /// Versions of objects that were handled or are queued.
    handled: MemoryCache<(Key, Version), ()>,
    /// The last folder listed, with the time of the listing.
    listed: Mutex<Option<(Key, Instant, Arc<Listing>)>>,
    /// End of the pause after a failed write.
    paused_until: Mutex<Option<Instant>>,
    /// True if a failed write was logged and none has succeeded since.
    has_warned: AtomicBool,
}

impl IndexWriter {
    pub(crate) fn new(
        indexer: Arc<Indexer>,
        target: Arc<dyn ConditionalPut>,
        counts: Arc<IndexFiles>,
    ) -> Self {
        Self {
            indexer,
            target,
            counts,
            turn: Semaphore::new(1),
            queued: AtomicUsize::new(0),
            handled: MemoryCache::new(HANDLED_BYTES, |(key, version): &(Key, Version), ()| {
                key.as_str().len() + version.etag.as_deref().map_or(0, str::len)
            }),
            listed: Mutex::default(),
            paused_until: Mutex::default(),
            has_warned: AtomicBool::new(false),
        }
    }

    /// Writes the index MP4 of an object in the background if the object should have one.
    pub(crate) fn offer(self: &Arc<Self>, object: &Arc<IndexedObject>) {
        let is_served = !object.source().is_elsewhere() && *object.source() == object.file;
        let is_fully_indexed = matches!(object.index.source, IndexSource::SampleTables | IndexSource::Scan);
        let name = object.key().as_str();
        if !is_served
            || !is_fully_indexed
            || !is_media(name)
            || indexed_stem(name).is_some()
            || self.is_paused()
        {
            return;
        }
        let version = (object.key().clone(), object.version().clone());
        if self.handled.peek(&version).is_some() {
            return;
        }
        if self.queued.fetch_add(1, Relaxed) >= QUEUE_LIMIT {
            self.queued.fetch_sub(1, Relaxed);
            return;
        }
        self.handled.insert(version, ());
        let this = self.clone();
        let object = object.clone();
        tokio::spawn(async move {
            let turn = this.turn.acquire().await;
            if this.is_paused() {
                this.allow_retry(&object);
            } else {
                let result = this.write(&object).await;
                this.report(&object, result);
            }
            drop(turn);
            this.queued.fetch_sub(1, Relaxed);
        });
    }

    /// Returns the result, and the length of a written index MP4 in bytes.
    async fn write(&self, object: &IndexedObject) -> Result<(Written, usize), Error> {
        let media = object.source();
        let (folder, name) = media.key.split();
        let Some(key) = index_key(&media.key) else { return Ok((Written::Ambiguous, 0)) };
        let listing = self.listing(media, &folder).await?;
        let own = index_name(name);
        let shares_name = |other: &str| is_media(other) && other != name && index_name(other) == own;
        if listing.objects.iter().any(|(other, _)| shares_name(other) && *other != own) {
            return Ok((Written::Ambiguous, 0));
        }
        let outdated = match listing.objects.iter().find(|(other, _)| *other == own) {
            Some((_, size)) => match self.outdated_version(&key, *size, object).await? {
                Some(version) => Some(version),
                None => return Ok((Written::Present, 0)),
            },
            None => None,
        };
        let read = self.indexer.full_tables(media, object.version().clone()).await?;
        let locator = read.into_locator();
        let name = name.to_owned();
        let made = self.indexer.workers.run(move || {
            locator.full_tables().map(|tables| tables.index_file(&relative_url(&name), Some(&name)))
        });
        let bytes = made.await?.ok_or(Error::Internal("no sample tables were read"))?;
        let bytes = bytes.map_err(|error| Error::index(object.key().as_str(), error))?;
        let len = bytes.len();
        let written = match (self.target.put_over(&key, bytes, outdated.as_ref()).await, outdated) {
            (Ok(true), None) => Written::Created,
            (Ok(true), Some(_)) => Written::Replaced,
            (Ok(false), _) => Written::LostRace,
            (Err(error), _) => {
                self.pause(object.key(), &error);
                return Ok((Written::Failed, 0));
            }
        };
        *self.listed() = None;
        Ok((written, len))
    }

    fn listed(&self) -> MutexGuard<'_, Option<(Key, Instant, Arc<Listing>)>> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn listing(&self, media: &ObjectRef, folder: &Key) -> Result<Arc<Listing>, StorageError> {
        let known = self.listed().clone();
        if let Some((of, when, listing)) = known
            && of == *folder
            && when.elapsed() < LISTING_AGE
        {
            return Ok(listing);
        }
        let when = Instant::now();
        let listing = Arc::new(list_all(&*media.storage, folder, MAX_NAMES).await?);
        *self.listed() = Some((folder.clone(), when, listing.clone()));
        Ok(listing)
    }

    /// Returns the version of the index MP4 at `key` if this program wrote it for another version
    /// of the media. Returns `None` if it is up to date or was written by another program.
    async fn outdated_version(
        &self,
        key: &Key,
        size: u64,
        object: &IndexedObject,
    ) -> Result<Option<Version>, Error> {
        let file = self.indexer.references.served(key.clone());
        let (version, index) = match self.indexer.index(&file, Some(size)).await {
            // This program writes no index MP4 that it cannot read.
            Err(Error::Index { .. }) => return Ok(None),
            other => other?,
        };
        if self.indexer.own_media(&file, &index).as_ref() != Some(object.source()) {
            return Ok(None);
        }
        match self.indexer.pair(&file, index, object.source(), Some(object.version())).await {
            Err(Error::Index { .. }) => Ok(Some(version)),
            other => other.map(|_| None),
        }
    }

    fn is_paused(&self) -> bool {
        let until = *self.paused_until.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    /// Lets this version of an object be offered again.
    fn allow_retry(&self, object: &IndexedObject) {
        self.handled.remove(&(object.key().clone(), object.version().clone()));
    }

    /// Starts a pause after a failed write. The first failure after a success is logged.
    fn pause(&self, key: &Key, error: &WriteError) {
        *self.paused_until.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + PAUSE);
        if !self.has_warned.swap(true, Relaxed) {
            let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
            tracing::warn!(
                reason = "index_not_written",
                object = %key,
                retry = ?PAUSE,
                "index MP4s cannot be written beside their media: {error}: {cause}"
            );
        }
    }

    /// Counts and logs the result for an object. A failed object may be offered again.
    fn report(&self, object: &IndexedObject, result: Result<(Written, usize), Error>) {
        let key = object.key();
        let (written, bytes) = result.unwrap_or_else(|error| {
            // Requests for the media report the same error.
            tracing::debug!(reason = error.reason(), object = %key, "no index MP4 written: {error}");
            (Written::Failed, 0)
        });
        match written {
            Written::Created | Written::Replaced => {
                self.has_warned.store(false, Relaxed);
                tracing::info!(reason = "index_written", object = %key, bytes, "index MP4 written");
            }
            Written::Failed => self.allow_retry(object),
            Written::Present | Written::LostRace | Written::Ambiguous => {}
        }
        self.counts.count(written);
    }
}
