//! Index MP4s written beside their media: in the background, one at a time, once for each version of an object.
//!
//! Only of media whose index MP4 is served as the media itself is, to the bit: of fragments that `sidx` or `mfra` index, the names of
//! tracks would be others, in the middle of a presentation.

use crate::{
    Error,
    observe::metrics::IndexFiles,
    title::index::{Object, Objects},
    title::memo::Memo,
    title::places::{Place, relative_url},
    title::resolve::{index_key, index_name, indexed_stem, is_media},
};
use latemux_index::{MediaIndex, locate::Locator, media::IndexSource};
use latemux_storage::{
    Key, Listing, StorageError, Version, Want,
    write::{ConditionalPut, WriteError},
};
use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};
use tokio::sync::Semaphore;

/// Objects that may wait for their turn; others have theirs when they are loaded again.
const WAITING: usize = 256;
/// How long nothing is tried after something could not be written.
const REST: Duration = Duration::from_secs(60);
/// How old a listing may be: many files of one folder are looked at one after the other.
const LISTING_AGE: Duration = Duration::from_secs(10);
/// Bytes for remembering what needs no second look.
const REMEMBERED: u64 = 4 << 20;

/// What became of an index MP4 that could be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// There was none.
    New,
    /// In place of one that was of another version of the media.
    Anew,
    /// There is one, ours or somebody else's.
    Present,
    /// Another one was faster.
    Taken,
    /// It would stand for another file too.
    Ambiguous,
    /// It could not be made or written.
    Failed,
}

impl Written {
    pub(crate) const ALL: [(Self, &'static str); 6] = [
        (Self::New, "new"),
        (Self::Anew, "anew"),
        (Self::Present, "present"),
        (Self::Taken, "taken"),
        (Self::Ambiguous, "ambiguous"),
        (Self::Failed, "failed"),
    ];
}

/// Writes index MP4s.
#[derive(Debug)]
pub(crate) struct IndexWriter {
    place: Arc<dyn ConditionalPut>,
    counts: Arc<IndexFiles>,
    turn: Semaphore,
    waiting: AtomicUsize,
    seen: Memo<(Key, Version), ()>,
    listed: Mutex<Option<(Key, Instant, Arc<Listing>)>>,
    /// Nothing is written before that.
    rest: Mutex<Option<Instant>>,
    said: AtomicBool,
}

/// Why there is no index MP4.
#[derive(Debug, thiserror::Error)]
enum Unwritten {
    /// Nobody's fault, or the source's: said where it is served.
    #[error(transparent)]
    Unread(#[from] Error),
    #[error(transparent)]
    Refused(#[from] WriteError),
}

impl From<StorageError> for Unwritten {
    fn from(error: StorageError) -> Self {
        Self::Unread(error.into())
    }
}

impl IndexWriter {
    pub(crate) fn new(place: Arc<dyn ConditionalPut>, counts: Arc<IndexFiles>) -> Self {
        Self {
            place,
            counts,
            turn: Semaphore::new(1),
            waiting: AtomicUsize::new(0),
            seen: Memo::new(REMEMBERED, |(key, version): &(Key, Version), ()| {
                key.as_str().len() + version.etag.as_deref().map_or(0, str::len)
            }),
            listed: Mutex::default(),
            rest: Mutex::default(),
            said: AtomicBool::new(false),
        }
    }

    fn is_resting(&self) -> bool {
        let rest = *self.rest.lock().unwrap_or_else(PoisonError::into_inner);
        rest.is_some_and(|until| Instant::now() < until)
    }

    /// Takes note of what became of it, and says what an operator should know.
    fn ended(&self, key: &Key, version: &Version, end: Result<(Written, usize), Unwritten>) {
        let again = || _ = self.seen.remove(&(key.clone(), version.clone()));
        let written = match end {
            Ok((written, bytes)) => {
                if matches!(written, Written::New | Written::Anew) {
                    self.said.store(false, Relaxed);
                    tracing::info!(reason = "index_written", object = %key, bytes, "an index MP4 is beside it now");
                }
                written
            }
            Err(Unwritten::Unread(error)) => {
                tracing::debug!(reason = error.reason(), object = %key, "no index MP4 of it: {error}");
                again();
                Written::Failed
            }
            Err(Unwritten::Refused(error)) => {
                *self.rest.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + REST);
                if !self.said.swap(true, Relaxed) {
                    let why = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                    tracing::warn!(
                        reason = "index_not_written",
                        object = %key,
                        retry = ?REST,
                        "index MP4s cannot be written beside their media: {error}: {why}"
                    );
                }
                again();
                Written::Failed
            }
        };
        self.counts.count(written);
    }
}

impl Objects {
    /// Has the index MP4 of an object written, by and by, if it is one that should have it.
    pub(crate) fn offer_index(self: &Arc<Self>, object: &Arc<Object>) {
        let Some(writer) = &self.writer else { return };
        let served = object.elsewhere.is_none() && object.indexed_by.is_none();
        let whole = matches!(object.index.source, IndexSource::SampleTables | IndexSource::Scan);
        let name = object.key.as_str();
        if !served || !whole || !is_media(name) || indexed_stem(name).is_some() || writer.is_resting() {
            return;
        }
        let seen = (object.key.clone(), object.version.clone());
        if writer.seen.peek(&seen).is_some() {
            return;
        }
        if writer.waiting.fetch_add(1, Relaxed) >= WAITING {
            writer.waiting.fetch_sub(1, Relaxed);
            return;
        }
        writer.seen.insert(seen, ());
        let (this, object) = (self.clone(), object.clone());
        tokio::spawn(async move {
            let Some(writer) = &this.writer else { return };
            let turn = writer.turn.acquire().await;
            if writer.is_resting() {
                writer.seen.remove(&(object.key.clone(), object.version.clone()));
            } else {
                let end = this.write_index(writer, &object).await;
                writer.ended(&object.key, &object.version, end);
            }
            drop(turn);
            writer.waiting.fetch_sub(1, Relaxed);
        });
    }

    async fn write_index(
        &self,
        writer: &IndexWriter,
        object: &Object,
    ) -> Result<(Written, usize), Unwritten> {
        let media = self.served(object.key.clone());
        let (folder, name) = object.key.split();
        let Some(key) = index_key(&object.key) else { return Ok((Written::Ambiguous, 0)) };
        let listing = self.listing(writer, &media, &folder).await?;
        let own = index_name(name);
        let beside = |other: &str| is_media(other) && other != name && index_name(other) == own;
        if listing.objects.iter().any(|(other, _)| beside(other) && *other != own) {
            return Ok((Written::Ambiguous, 0));
        }
        let over = match listing.objects.iter().find(|(other, _)| *other == own) {
            Some((_, size)) => match self.stale(&self.served(key.clone()), *size, &media, object).await? {
                Some(version) => Some(version),
                None => return Ok((Written::Present, 0)),
            },
            None => None,
        };
        let locator = Locator::for_full_tables(self.limits.for_full_tables());
        let wants = vec![Want::Head(locator.first_reads(None).head)];
        let (_, locator, _) = self.locate(&media, locator, wants, Some(object.version.clone())).await?;
        let (name, source) = (name.to_owned(), object.key.to_string());
        let made = tokio::task::spawn_blocking(move || {
            let tables = locator.full_tables()?;
            Some(tables.index_file(&relative_url(&name), Some(&name)))
        });
        let made = made.await.map_err(|_| Error::Internal("making an index MP4 broke off"))?;
        let bytes = made.ok_or(Error::Internal("no tables were read"))?;
        let bytes = bytes.map_err(|error| Error::index(source, error))?;
        let len = bytes.len();
        let written = match (writer.place.put_over(&key, bytes, over.as_ref()).await?, over) {
            (true, None) => Written::New,
            (true, Some(_)) => Written::Anew,
            (false, _) => Written::Taken,
        };
        *writer.listed.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok((written, len))
    }

    async fn listing(
        &self,
        writer: &IndexWriter,
        media: &Place,
        folder: &Key,
    ) -> Result<Arc<Listing>, StorageError> {
        let known = writer.listed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((of, when, listing)) = known
            && of == *folder
            && when.elapsed() < LISTING_AGE
        {
            return Ok(listing);
        }
        let when = Instant::now();
        let listing = Arc::new(media.storage.list(folder).await?);
        *writer.listed.lock().unwrap_or_else(PoisonError::into_inner) =
            Some((folder.clone(), when, listing.clone()));
        Ok(listing)
    }

    /// The version of an index MP4 that was written here for this media, when that was another version. `None` where it is good, or
    /// somebody else's.
    async fn stale(
        &self,
        place: &Place,
        size: u64,
        media: &Place,
        object: &Object,
    ) -> Result<Option<Version>, Error> {
        let (version, index) = match self.index(place, Some(size)).await {
            // What is no index at all is not ours.
            Err(Error::Index { .. }) => return Ok(None),
            other => other?,
        };
        if !self.is_ours(place, &index, media) {
            return Ok(None);
        }
        let (_, paired) = self.paired(index, media, Some(&object.version)).await?;
        Ok(paired.is_err().then_some(version))
    }

    /// Whether an index MP4 was written by this program for the media beside it.
    pub(crate) fn is_ours(&self, place: &Place, index: &MediaIndex, media: &Place) -> bool {
        let [Some(location)] = &*index.locations() else { return false };
        index.stamp.is_some() && self.places.find(place, location).is_ok_and(|found| found == *media)
    }

    /// Of an index MP4 whose media was replaced, the media, where its index MP4 is to be written anew.
    pub(crate) fn to_be_indexed(&self, place: &Place, index: &MediaIndex) -> Option<Place> {
        self.writer.as_ref().filter(|_| !place.is_elsewhere())?;
        let [Some(location)] = &*index.locations() else { return None };
        let media = self.places.find(place, location).ok()?;
        (index.stamp.is_some() && index_key(&media.key)? == place.key).then_some(media)
    }
}
