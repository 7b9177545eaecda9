//! Titles by their base, kept in memory.

use crate::{
    Error,
    config::OriginConfig,
    observe::metrics::{CacheWatch, IndexFiles, ReadPurpose},
    title::index_store::{IndexStore, PurgeCounts},
    title::index_writer::IndexWriter,
    title::indexed::{IndexedFile, IndexedObject},
    title::indexer::Indexer,
    title::manifest_tracks::{ChosenTracks, Sources, manifest_sources},
    title::memory_cache::MemoryCache,
    title::references::ObjectRef,
    title::renditions::{FileFacts, contradiction},
    title::resolve::{ResolveLimits, Resolved, is_list, resolve},
    title::single_flight::SingleFlight,
    title::storages::Storages,
};
use futures_util::{FutureExt, future::join_all};
use latemux_cache::Records;
use latemux_index::{
    IndexError, MediaIndex, Title,
    title::{ObjectOrder, TitleProblem},
};
use latemux_packager::carry::{Protocol, carries, problems};
use latemux_quantity::millis;
use latemux_storage::{Key, Storage, write::ConditionalPut};
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

/// A title with the objects it was made of.
#[derive(Debug)]
pub struct LoadedTitle {
    /// Base of the title in URLs.
    pub base: String,
    /// The title.
    pub title: Arc<Title>,
    /// Objects of the title, in the order of [`Title::objects`].
    pub objects: Arc<[Arc<IndexedObject>]>,
    /// For each object, the 1-based number of the requested file it came from: the media file
    /// itself or an index MP4 that points to the object.
    pub files: Arc<[u32]>,
    /// Tracks that a server manifest chose.
    chosen: Option<ChosenTracks>,
    /// Number of this version of the title, unique in this process.
    pub(crate) id: u64,
    /// Time of the last comparison with storage, in ms since [`Titles::started`].
    checked: AtomicU64,
    /// True if a read failed because of its object after the head of a response was sent.
    is_doubtful: AtomicBool,
}

/// Titles kept in memory.
#[derive(Debug)]
pub(crate) struct Titles {
    storage: Arc<dyn Storage>,
    store: Arc<IndexStore>,
    memory: MemoryCache<String, Arc<LoadedTitle>>,
    loads: SingleFlight<String, Result<Arc<LoadedTitle>, Error>>,
    segment_duration: Duration,
    limits: ResolveLimits,
    recheck_after: Duration,
    load_timeout: Duration,
    started: Instant,
    next_id: AtomicU64,
}

/// Condition for using a title from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Freshness {
    /// No condition. Reads of media are pinned to the versions from which the title was made, so an
    /// outdated title cannot give wrong bytes.
    Any,
    /// The title was compared with storage less than [`OriginConfig::recheck_after`] before this
    /// time, at which the request began.
    RecentAt(Instant),
    /// The title is compared with storage now.
    Current,
}

impl Titles {
    pub(crate) fn new(
        storage: &Arc<dyn Storage>,
        config: &OriginConfig,
        storages: &Storages,
        records: Option<Records>,
        index_target: Option<(Arc<dyn ConditionalPut>, Arc<IndexFiles>)>,
    ) -> Self {
        let indexer = Arc::new(Indexer::new(storage, config, storages, index_target.is_some()));
        let writer =
            index_target.map(|(target, counts)| Arc::new(IndexWriter::new(indexer.clone(), target, counts)));
        Self {
            store: Arc::new(IndexStore::new(indexer, config, records, writer)),
            storage: storages.counted(storage.clone(), ReadPurpose::Manifest),
            memory: MemoryCache::new(config.memory.index / 2, |base: &String, title: &Arc<LoadedTitle>| {
                base.len() + title.heap_bytes()
            }),
            loads: SingleFlight::new(),
            segment_duration: config.segment_duration,
            limits: ResolveLimits { max_files: config.max_objects, any_extension: config.any_extension },
            recheck_after: config.recheck_after,
            load_timeout: config.load_timeout,
            started: Instant::now(),
            next_id: AtomicU64::new(0),
        }
    }

    /// Returns the title of a base. A title in memory is used if it is fresh enough.
    pub(crate) async fn load(
        self: &Arc<Self>,
        base: &str,
        freshness: Freshness,
    ) -> Result<Arc<LoadedTitle>, Error> {
        if let Some(title) = self.memory.get(base)
            && self.is_fresh(&title, freshness)
        {
            return Ok(title);
        }
        let this = self.clone();
        let owned = base.to_owned();
        let load = move || {
            async move {
                let after = this.load_timeout;
                let loaded = tokio::time::timeout(after, this.load_now(&owned)).await;
                loaded.unwrap_or_else(|_| Err(Error::LoadTimedOut { base: owned, after }))
            }
            .boxed()
        };
        // Boxed so that requests which find the title in memory do not carry this large future.
        Box::pin(self.loads.run(base.to_owned(), load)).await
    }

    fn is_fresh(&self, title: &LoadedTitle, freshness: Freshness) -> bool {
        if title.is_doubtful.load(Relaxed) {
            return false;
        }
        match freshness {
            Freshness::Any => true,
            Freshness::RecentAt(began) => {
                let age = self.ms(began).saturating_sub(title.checked.load(Relaxed));
                Duration::from_millis(age) < self.recheck_after
            }
            Freshness::Current => false,
        }
    }

    /// Removes a title, the indexes of its files and their cached media. Returns the title's ID if
    /// it was in memory. A load in flight may put its result back.
    pub(crate) async fn purge(&self, base: &str) -> (Option<u64>, PurgeCounts) {
        let known = self.memory.peek(base);
        self.memory.remove(base);
        let mut files = match &known {
            Some(title) => title.objects.iter().map(|object| object.file.clone()).collect(),
            // An earlier process may have left indexes and media on disk.
            None => self.files_of(base).await,
        };
        let mut counts = PurgeCounts::default();
        while let Some(file) = files.pop() {
            if !files.contains(&file) {
                self.store.purge(&file, &mut counts).await;
            }
        }
        self.store.indexer.references.storages().record_purges().await;
        (known.map(|title| title.id), counts)
    }

    /// Returns the files that a base names, or none if storage fails.
    async fn files_of(&self, base: &str) -> Vec<ObjectRef> {
        let references = &self.store.indexer.references;
        match resolve(&*self.storage, base, self.limits).await {
            Ok(Resolved::Files(files)) => files.into_iter().map(|key| references.served(key)).collect(),
            Ok(Resolved::Folder(files)) => files.into_iter().map(|(key, _)| references.served(key)).collect(),
            Ok(Resolved::Manifest { key, manifest }) => {
                let from = references.served(key);
                let files = manifest.elements.iter().map(|element| references.find(&from, &element.src));
                files.filter_map(Result::ok).collect()
            }
            Err(_) => Vec::new(),
        }
    }

    /// Returns what metrics show of titles and indexes.
    pub(crate) fn watch(&self) -> impl Iterator<Item = CacheWatch> {
        [self.memory.watch("titles", self.loads.joins())].into_iter().chain(self.store.watch())
    }

    async fn load_now(self: &Arc<Self>, base: &str) -> Result<Arc<LoadedTitle>, Error> {
        let checked = self.ms(Instant::now());
        let sources = match resolve(&*self.storage, base, self.limits).await? {
            Resolved::Files(files) => {
                let files = files.into_iter().map(|key| (key, None));
                usable_sources(self.load_files(files).await)?
            }
            Resolved::Folder(files) => {
                let loaded = self.load_files(files.iter().cloned()).await;
                let names = files.iter().map(|(key, _)| key.split().1);
                check_one_film(base, names.zip(&loaded))?;
                usable_sources(loaded)?
            }
            Resolved::Manifest { key, manifest } => manifest_sources(&self.store, &key, &manifest).await?,
        };
        let Sources { objects, files, left_out, chosen } = sources;
        let limit = self.limits.max_files;
        if objects.len() > limit {
            return Err(Error::TooManyObjects { count: objects.len(), limit });
        }
        if let Some(known) = self.memory.peek(base)
            && known.objects.iter().map(|o| o.id).eq(objects.iter().map(|o| o.id))
            && *known.files == *files
            && known.chosen == chosen
        {
            known.checked.store(checked, Relaxed);
            known.is_doubtful.store(false, Relaxed);
            return Ok(known);
        }
        let mut indexes: Vec<Arc<MediaIndex>> = objects.iter().map(|o| o.index.clone()).collect();
        let duration = self.segment_duration;
        let tracks = chosen.clone();
        let order = if is_list(base) { ObjectOrder::Listed } else { ObjectOrder::ByName };
        let made = tokio::task::spawn_blocking(move || match tracks {
            None => Title::of_objects(indexes, order, duration),
            Some(chosen) => {
                chosen.set_languages(&mut indexes);
                Title::of_tracks(indexes, chosen.tracks, duration)
            }
        });
        let made = made.await.map_err(|_| Error::Internal("making a title panicked"))?;
        let title = made.map_err(|error| Error::index(base, with_names(error, &objects)))?;
        let uncarried = problems(&title);
        let title = title.with_problems(left_out).with_problems(uncarried);
        log_problems(base, &title);
        let loaded = Arc::new(LoadedTitle {
            base: base.to_owned(),
            title: Arc::new(title),
            objects: objects.into(),
            files: files.into(),
            chosen,
            id: self.next_id.fetch_add(1, Relaxed),
            checked: AtomicU64::new(checked),
            is_doubtful: AtomicBool::new(false),
        });
        self.memory.insert(base.to_owned(), loaded.clone());
        Ok(loaded)
    }

    /// Indexes files, all at one time. Each comes with its size in bytes if a listing gave it.
    async fn load_files(
        &self,
        files: impl Iterator<Item = (Key, Option<u64>)>,
    ) -> Vec<Result<Arc<IndexedFile>, Error>> {
        let files: Vec<_> =
            files.map(|(key, listed)| (self.store.indexer.references.served(key), listed)).collect();
        join_all(files.iter().map(|(file, listed)| self.store.current(file, *listed))).await
    }

    /// Returns a time as milliseconds since [`Self::started`].
    fn ms(&self, when: Instant) -> u64 {
        millis(when.saturating_duration_since(self.started))
    }
}

impl LoadedTitle {
    /// Makes the next request compare the title with storage first.
    pub(crate) fn mark_doubtful(&self) {
        self.is_doubtful.store(true, Relaxed);
    }

    /// Returns the bytes of memory this title holds, objects included.
    fn heap_bytes(&self) -> usize {
        let tracks = self.title.tracks().iter().map(|t| {
            size_of_val(t)
                + t.name.stem.len()
                + size_of_val::<[u32]>(&t.cuts)
                + size_of_val::<[i64]>(&t.times)
                + size_of_val::<[u32]>(&t.grid_segments)
        });
        let objects = self.objects.iter().map(|o| o.heap_bytes());
        let grid = size_of_val(self.title.grid().starts.as_slice());
        size_of::<Self>() + grid + tracks.sum::<usize>() + objects.sum::<usize>()
    }
}

/// Checks that the usable files of a folder are renditions of one film.
fn check_one_film<'a>(
    base: &str,
    files: impl Iterator<Item = (&'a str, &'a Result<Arc<IndexedFile>, Error>)>,
) -> Result<(), Error> {
    let usable = files.filter_map(|(name, file)| Some((name, file.as_ref().ok()?)));
    let facts: Vec<_> = usable
        .map(|(name, file)| FileFacts::new(name, file.objects().map(|object| &*object.index)))
        .collect();
    match contradiction(&facts) {
        Some(why) => Err(Error::NotOneTitle { base: base.to_owned(), why }),
        None => Ok(()),
    }
}

/// Adds the name of the object to each problem of a title of several objects.
fn with_names(error: IndexError, objects: &[Arc<IndexedObject>]) -> IndexError {
    let IndexError::Refused(mut problems) = error else { return error };
    if objects.len() > 1 {
        for problem in &mut problems {
            let object = problem.object.and_then(|number| objects.get(number));
            if let Some(object) = object {
                problem.detail = format!("{}: {}", object.key(), problem.detail);
            }
        }
    }
    IndexError::Refused(problems)
}

/// Collects the files of a title that can be served. An unusable file is left out, which gives the
/// same title on every node, unless no video remains: the file may have held it. A failure of
/// storage fails the title instead, because another node, or the same node a moment later, may not
/// have it.
fn usable_sources(files: Vec<Result<Arc<IndexedFile>, Error>>) -> Result<Sources, Error> {
    let mut sources = Sources::default();
    let mut first = None;
    for (number, file) in (1..).zip(files) {
        match file {
            Ok(file) => sources.add(number, &file),
            Err(error @ (Error::Index { .. } | Error::LocationRefused { .. })) => {
                let detail = format!("left out: {error}");
                sources.left_out.push(TitleProblem { object: None, reason: error.reason(), detail });
                first.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    match first {
        Some(error) if !sources.has_video() => Err(error),
        _ => Ok(sources),
    }
}

/// Logs, once per load, the problems of a title and the tracks that each protocol leaves out.
fn log_problems(base: &str, title: &Title) {
    for problem in title.problems() {
        tracing::warn!(title = base, reason = problem.reason, "{}", problem.detail);
    }
    for track in title.tracks() {
        for protocol in Protocol::ALL {
            if let Err(why) = carries(protocol, title.track(track)) {
                tracing::warn!(
                    title = base,
                    track = %track.name,
                    reason = "cannot_carry",
                    "left out of {protocol:?}: {why}"
                );
            }
        }
    }
}
