//! Titles by their base, kept in memory.

use crate::{
    Error,
    config::OriginConfig,
    keys::KeyRules,
    observe::log_sampler::LogSampler,
    observe::metrics::{CacheWatch, IndexFiles, ReadPurpose},
    title::background::spawn_in_turn,
    title::checks::{Checks, Freshness, is_suspect},
    title::index_store::{IndexStore, PurgeCounts, memory_of_resting, memory_of_titles},
    title::index_writer::IndexWriter,
    title::indexed::{IndexedFile, IndexedObject},
    title::indexer::Indexer,
    title::loaded_title::LoadedTitle,
    title::manifest_tracks::manifest_sources,
    title::memory_cache::MemoryCache,
    title::quick_work::{do_at_once, is_quick},
    title::references::ObjectRef,
    title::refused::{Refused, weight},
    title::resolve::{ResolveLimits, Resolved, is_list, resolve},
    title::resting::{RestingTitle, RestingTitles},
    title::single_flight::SingleFlight,
    title::sources::{Sources, check_one_film, is_left_out, usable_sources},
    title::storages::Storages,
    title::tile_names::set_tiles,
    title::waiting_inputs::Input,
    title::work_queue::{Work, WorkQueue},
};
use futures_util::{FutureExt, StreamExt, future::join_all, stream};
use latemux_cache::Records;
use latemux_index::{IndexError, MediaIndex, Title, title::ObjectOrder};
use latemux_packager::carry::{Protocol, carries, problems};
use latemux_storage::{Key, Storage, write::ConditionalPut};
use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};
use tokio::time::{Instant, timeout};

/// Longest time that a request waits until a known title is compared with storage. Then the title
/// is used as it is, and the comparison continues.
const CHECK_WAIT: Duration = Duration::from_secs(1);
/// The same after a comparison that failed.
const FAILING_CHECK_WAIT: Duration = Duration::from_millis(100);

/// Most log lines at once for one kind of problem in titles. After these, one a second is written.
const PROBLEM_LINES: u32 = 64;

/// Most files of a list that are indexed at one time.
const LIST_LOADS: usize = 8;

/// Titles kept in memory.
#[derive(Debug)]
pub(crate) struct Titles {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) store: Arc<IndexStore>,
    memory: MemoryCache<String, Arc<LoadedTitle>>,
    /// What remains of titles that have left this memory.
    pub(super) resting: RestingTitles,
    loads: SingleFlight<String, Result<Arc<LoadedTitle>, Error>>,
    refused: Refused<String>,
    work: Arc<WorkQueue>,
    problem_lines: LogSampler,
    segment_duration: Duration,
    pub(super) limits: ResolveLimits,
    pub(super) recheck_after: Duration,
    pub(super) stale_if_error: Duration,
    pub(super) load_timeout: Duration,
    next_id: AtomicU64,
    keys: KeyRules,
}

impl Titles {
    pub(crate) fn new(
        storage: &Arc<dyn Storage>,
        config: &OriginConfig,
        storages: &Storages,
        records: Option<Records>,
        index_target: Option<(Arc<dyn ConditionalPut>, Arc<IndexFiles>)>,
        indexer: Indexer,
        work: Arc<WorkQueue>,
    ) -> Self {
        let indexer = Arc::new(indexer);
        let writer =
            index_target.map(|(target, counts)| Arc::new(IndexWriter::new(indexer.clone(), target, counts)));
        Self {
            store: Arc::new(IndexStore::new(indexer, config, records, writer)),
            storage: storages.counted(storage.clone(), ReadPurpose::Manifest),
            memory: MemoryCache::new(memory_of_titles(config), |base: &String, title: &Arc<LoadedTitle>| {
                base.len() + title.heap_bytes()
            }),
            resting: RestingTitles::new(memory_of_resting(config)),
            loads: SingleFlight::new(),
            refused: Refused::new(config.recheck_after, |base, (_, error)| base.len() + weight(error)),
            work,
            problem_lines: LogSampler::with_burst(PROBLEM_LINES),
            segment_duration: config.segment_duration,
            limits: ResolveLimits {
                max_files: config.max_objects,
                any_extension: config.any_extension,
                text_beside: config.text.beside,
            },
            recheck_after: config.recheck_after,
            stale_if_error: config.stale_if_error,
            load_timeout: config.load_timeout,
            next_id: AtomicU64::new(0),
            keys: KeyRules::new(&config.drm),
        }
    }

    /// Returns the title of a base from memory, if it is fresh enough.
    pub(crate) fn fresh(&self, base: &str, freshness: Freshness) -> Option<Arc<LoadedTitle>> {
        let title = self.memory.get(base)?;
        (title.checks.is_fresh(freshness, self.recheck_after) && !title.wants_keys()).then_some(title)
    }

    /// Returns true if a title is in memory, fresh or not.
    pub(super) fn is_loaded(&self, base: &str) -> bool {
        self.memory.peek(base).is_some()
    }

    /// Returns the title of a base. A title in memory is used if it is fresh enough.
    pub(crate) async fn load(
        self: &Arc<Self>,
        base: &str,
        freshness: Freshness,
    ) -> Result<Arc<LoadedTitle>, Error> {
        match self.fresh(base, freshness) {
            Some(title) => Ok(title),
            None => self.load_current(base, freshness).await,
        }
    }

    /// Returns the title of a base that is not in memory, or not fresh enough.
    pub(crate) async fn load_current(
        self: &Arc<Self>,
        base: &str,
        freshness: Freshness,
    ) -> Result<Arc<LoadedTitle>, Error> {
        let known = self.memory.peek(base);
        if known.is_none() {
            self.refused.check(&base.to_owned())?;
        }
        // Boxed so that requests which find the title in memory do not carry these large futures.
        match known.filter(|title| {
            freshness == Freshness::Recent
                && title.checks.may_be_stale(self.stale_if_error)
                && !title.wants_keys()
        }) {
            Some(known) => Box::pin(self.compare(known)).await,
            None => {
                let loaded = Box::pin(self.load_shared(base.to_owned())).await?;
                if freshness != Freshness::Recent {
                    // A manifest reads whole columns, and a segment only a part of them.
                    self.forget_values(&loaded);
                }
                Ok(loaded)
            }
        }
    }

    /// Drops the unpacked copies of columns that are kept for the first manifest of a title.
    pub(crate) fn forget_values(&self, title: &LoadedTitle) {
        self.store.indexer.forget_values(&title.objects);
    }

    /// Loads a title, together with other requests for it.
    fn load_shared(
        self: &Arc<Self>,
        base: String,
    ) -> impl Future<Output = Result<Arc<LoadedTitle>, Error>> + Send + use<> {
        let this = self.clone();
        async move {
            let titles = this.clone();
            let owned = base.clone();
            let load = move || {
                async move {
                    let after = titles.load_timeout;
                    let loaded = timeout(after, titles.load_now(&owned)).await;
                    let loaded =
                        loaded.unwrap_or_else(|_| Err(Error::LoadTimedOut { base: owned.clone(), after }));
                    loaded.inspect_err(|error| {
                        titles.note_failure(&owned, error);
                        titles.refused.remember(owned, error);
                    })
                }
                .boxed()
            };
            this.loads.run(base, load).await
        }
    }

    /// Compares a known title with storage, and returns the current one. If storage fails or is
    /// slow, returns the known one.
    async fn compare(self: &Arc<Self>, known: Arc<LoadedTitle>) -> Result<Arc<LoadedTitle>, Error> {
        if known.checks.has_just_failed(self.recheck_after) {
            return Ok(known);
        }
        let wait = check_wait(&known.checks);
        let mut comparison = spawn_in_turn(&self.store.turns, self.load_shared(known.base.clone()));
        let compared = match timeout(wait, &mut comparison).await {
            Ok(compared) => compared,
            Err(_) if self.store.holds(&known.objects) => {
                let error = Error::LoadTimedOut { base: known.base.clone(), after: wait };
                self.note_failure(&known.base, &error);
                return Ok(known);
            }
            // A file has changed: its new index is being read, or the new title waits to be made.
            Err(_) => comparison.await,
        };
        match compared {
            Ok(Err(error)) if error.is_outage() => Ok(known),
            Ok(current) => current,
            Err(_) => Err(Error::Internal("comparing a title with storage panicked")),
        }
    }

    /// Notes that the title of a base could not be compared with storage.
    fn note_failure(&self, base: &str, error: &Error) {
        let loaded = self.memory.peek(base).map(|title| title.checks.clone());
        let checks = loaded.or_else(|| Some(self.resting.peek(base)?.checks.clone()));
        let Some(checks) = checks else { return };
        if error.is_changed() {
            checks.mark_outdated();
        }
        if error.is_outage() && checks.fail() {
            self.warn_of_stale(base, error);
        }
    }

    /// Logs that a title could not be compared with storage.
    pub(super) fn warn_of_stale(&self, base: &str, error: &Error) {
        tracing::warn!(
            reason = error.reason(),
            title = base,
            "storage does not confirm the title, which is served from memory for up to {:?}: {error}",
            self.stale_if_error
        );
    }

    /// Removes a title, the indexes of its files and their cached media. Returns the title's ID if
    /// it was in memory. A load in flight may put its result back.
    pub(crate) async fn purge(&self, base: &str) -> (Vec<u64>, PurgeCounts) {
        let forgotten = self.forget(base);
        let mut files: HashSet<_> = forgotten.files().collect();
        if forgotten.loaded.is_none() {
            // An earlier process may have left indexes and media on disk.
            files.extend(self.files_of(base).await);
        }
        // The title holds the indexes, which name the media to purge.
        let counts = self.purge_files(files).await;
        (forgotten.ids().collect(), counts)
    }

    /// Does the same for all titles whose base begins with `prefix`, and for all files of the
    /// served storage whose key does, as far as their indexes are in memory or on disk. Without an
    /// index, cached media is never found.
    pub(crate) async fn purge_prefix(&self, prefix: &str) -> (Vec<u64>, PurgeCounts) {
        let mut files = self.store.files_below(prefix).await;
        let mut bases: HashSet<_> = self.resting.bases_below(prefix).into_iter().collect();
        bases.extend(self.memory.keys_where(|base| base.starts_with(prefix)));
        let forgotten: Vec<Forgotten> = bases.iter().map(|base| self.forget(base)).collect();
        files.extend(forgotten.iter().flat_map(Forgotten::files));
        let counts = self.purge_files(files).await;
        (forgotten.iter().flat_map(Forgotten::ids).collect(), counts)
    }

    /// Removes a title from memory, and returns what was there.
    fn forget(&self, base: &str) -> Forgotten {
        self.refused.forget(&base.to_owned());
        let loaded = self.memory.peek(base);
        self.memory.remove(base);
        Forgotten { loaded, resting: self.resting.remove(base) }
    }

    async fn purge_files(&self, files: HashSet<ObjectRef>) -> PurgeCounts {
        let mut counts = PurgeCounts::default();
        for file in files {
            self.store.purge(&file, &mut counts).await;
        }
        self.store.indexer.references.storages().record_purges().await;
        counts
    }

    /// Returns the files that a base names, or none if storage fails.
    async fn files_of(&self, base: &str) -> Vec<ObjectRef> {
        let references = &self.store.indexer.references;
        match resolve(&*self.storage, base, self.limits).await {
            Ok(Resolved::Files(files)) => files.into_iter().map(|key| references.served(key)).collect(),
            Ok(Resolved::Beside { file, texts, .. }) => {
                let all = std::iter::once(file).chain(texts.into_iter().map(|(key, _)| key));
                all.map(|key| references.served(key)).collect()
            }
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
        let titles = [self.memory.watch("titles", self.loads.joins()), self.resting.watch()];
        titles.into_iter().chain(self.store.watch())
    }

    async fn load_now(self: &Arc<Self>, base: &str) -> Result<Arc<LoadedTitle>, Error> {
        let began = Instant::now();
        let resolved = resolve(&*self.storage, base, self.limits).await?;
        let Sources { objects, indexed, files, left_out, chosen } =
            self.find_sources(base, &resolved).await?;
        let is_whole = left_out.is_empty();
        let limit = self.limits.max_files;
        if objects.len() > limit {
            return Err(Error::TooManyObjects { count: objects.len(), limit });
        }
        let before = self.memory.peek(base);
        let known = before.clone().filter(|known| {
            known.objects.len() == objects.len()
                && known.objects.iter().zip(&objects).all(|(known, object)| known.equals(object))
                && *known.files == *files
                && known.chosen == chosen
        });
        if let Some(known) = known {
            self.store.indexer.forget_values(&objects);
            known.checks.confirm(began);
            if !self.resting.peek(base).is_some_and(|resting| resting.is_named_by(&resolved)) {
                self.leave_to_rest(&known, resolved.clone(), is_whole);
            }
            if known.has_current_keys() {
                return Ok(known);
            }
        }
        let mut indexes: Vec<Arc<MediaIndex>> = objects.iter().map(|o| o.index.clone()).collect();
        let duration = self.segment_duration;
        set_tiles(&mut indexes, &objects);
        let tracks = chosen.clone();
        let order = if is_list(base) { ObjectOrder::Listed } else { ObjectOrder::ByName };
        let amount = making(&indexes);
        let make = move || match tracks {
            None => Title::of_objects(indexes, order, duration),
            Some(chosen) => {
                chosen.set_properties(&mut indexes);
                Title::of_tracks(indexes, chosen.tracks, duration)
            }
        };
        let made = match is_quick(amount.samples, 0) {
            true => do_at_once(make)?,
            false => self.work.run(amount, make).await?,
        };
        let title = made.map_err(|error| Error::index(base, with_names(error, &objects)))?;
        let uncarried = problems(&title);
        let title = title.with_problems(left_out).with_problems(uncarried);
        log_problems(base, &title, &self.problem_lines);
        let is_suspect = is_suspect(&title);
        let names: Vec<&str> = objects.iter().flat_map(|o| [o.key().as_str(), o.file.key.as_str()]).collect();
        let keys_before = before.as_ref().and_then(|before| before.keys.as_ref().ok()?.as_deref());
        let keys = self.keys.of(base, &names, &title, keys_before, &self.storage).await;
        if let Err(error) = &keys {
            tracing::warn!(title = base, reason = error.reason(), "the title cannot be encrypted: {error}");
        }
        // The manifests of a title that rested are those of the same title.
        let rested = self.resting.peek(base).filter(|_| before.is_none() && matches!(keys, Ok(None)));
        let rested = rested.filter(|rested| rested.was_made_of(&resolved, &indexed));
        let loaded = Arc::new(LoadedTitle {
            base: base.to_owned(),
            title: Arc::new(title),
            pinned: objects.iter().map(|object| object.pinned.clone()).collect(),
            objects: objects.into(),
            files: files.into(),
            indexed: indexed.into(),
            chosen,
            id: rested.map_or_else(|| self.next_id.fetch_add(1, Relaxed), |rested| rested.id),
            checks: Arc::new(Checks::new(began, is_suspect)),
            keys,
            keys_asked: Instant::now(),
        });
        self.memory.insert(base.to_owned(), loaded.clone());
        self.leave_to_rest(&loaded, resolved, is_whole);
        self.store.leave_to_title(&loaded.indexed);
        Ok(loaded)
    }

    /// Remembers what is to remain of a title when it leaves memory, see [`RestingTitle`].
    fn leave_to_rest(&self, title: &LoadedTitle, resolved: Resolved, is_whole: bool) {
        let may_rest = is_whole && !is_suspect(&title.title) && matches!(title.keys, Ok(None));
        let resting = if may_rest { RestingTitle::of(title, resolved) } else { None };
        match resting {
            Some(resting) => self.resting.insert(&title.base, resting),
            None => drop(self.resting.remove(&title.base)),
        }
    }

    /// Removes a loaded title alone from memory, as if others had needed its place.
    #[cfg(test)]
    pub(super) fn forget_loaded(&self, base: &str) -> bool {
        self.memory.remove(base)
    }

    /// Indexes the files that a base names.
    async fn find_sources(&self, base: &str, resolved: &Resolved) -> Result<Sources, Error> {
        match resolved {
            Resolved::Files(files) => usable_sources(self.load_list(files).await),
            Resolved::Folder(files) => {
                let loaded = self.load_files(files.iter().cloned()).await;
                let names = files.iter().map(|(key, _)| key.split().1);
                check_one_film(base, names.zip(&loaded))?;
                usable_sources(loaded)
            }
            Resolved::Beside { file, texts, problem } => {
                // Text alone would be another title.
                let media =
                    self.store.current(&self.store.indexer.references.served(file.clone()), None).await?;
                let mut all = vec![Ok(media)];
                all.extend(self.load_files(texts.iter().cloned()).await);
                let mut sources = usable_sources(all)?;
                sources.left_out.extend(problem.clone());
                Ok(sources)
            }
            Resolved::Manifest { key, manifest } => manifest_sources(&self.store, key, manifest).await,
        }
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

    /// Indexes the files of a list, a few at a time, up to the first that storage does not deliver:
    /// the title fails then, whatever the others hold.
    async fn load_list(&self, files: &[Key]) -> Vec<Result<Arc<IndexedFile>, Error>> {
        let files = files.iter().map(|key| self.store.indexer.references.served(key.clone()));
        let files: Vec<_> = files.collect();
        // A file that is known to be missing fails the title before any other is looked for.
        let mut known = files.iter().filter_map(|file| self.store.check_refused(file).err());
        if let Some(error) = known.find(|error| !is_left_out(error)) {
            return vec![Err(error)];
        }
        let loads = files.into_iter().map(|file| async move { self.store.current(&file, None).await });
        let mut loads = stream::iter(loads).buffered(LIST_LOADS);
        let mut loaded = Vec::new();
        while let Some(file) = loads.next().await {
            let is_last = matches!(&file, Err(error) if !is_left_out(error));
            loaded.push(file);
            if is_last {
                break;
            }
        }
        loaded
    }
}

/// Returns the longest time that a request waits for a comparison of a known title.
pub(super) fn check_wait(checks: &Checks) -> Duration {
    if checks.is_stale() { FAILING_CHECK_WAIT } else { CHECK_WAIT }
}

/// What was in memory of a title that was removed.
struct Forgotten {
    loaded: Option<Arc<LoadedTitle>>,
    resting: Option<Arc<RestingTitle>>,
}

impl Forgotten {
    /// Returns the numbers by which the manifests of the title are found.
    fn ids(&self) -> impl Iterator<Item = u64> + use<> {
        let resting = self.resting.as_ref().map(|title| title.id);
        let loaded = self.loaded.as_ref().map(|title| title.id);
        loaded.into_iter().chain(resting.filter(|id| loaded != Some(*id)))
    }

    /// Returns the requested files.
    fn files(&self) -> impl Iterator<Item = ObjectRef> {
        let loaded = self.loaded.iter().flat_map(|title| title.requested_files());
        loaded.chain(self.resting.iter().flat_map(|title| title.files()))
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

/// Returns the work of making a title.
fn making(indexes: &[Arc<MediaIndex>]) -> Work {
    let samples = indexes.iter().map(|index| index.sample_count()).sum();
    let held: usize = indexes.iter().map(|index| index.heap_bytes()).sum();
    Work {
        samples,
        // The positions of all sync samples, then of all segments.
        bytes: indexes.iter().map(|index| index.sync_count() * 64).sum(),
        input: Input::new(indexes, held as u64),
    }
}

/// Logs, once per load, the problems of a title and the tracks that each protocol leaves out, as
/// far as `sampler` admits them: a client can have the same files loaded under many bases.
fn log_problems(base: &str, title: &Title, sampler: &LogSampler) {
    for problem in title.problems() {
        let Some(left_out) = sampler.admit(problem.reason) else { continue };
        let left_out = Some(left_out).filter(|count| *count > 0);
        tracing::warn!(title = base, reason = problem.reason, left_out, "{}", problem.detail);
    }
    for track in title.tracks() {
        for protocol in Protocol::ALL {
            let Err(why) = carries(protocol, title.track(track)) else { continue };
            let Some(left_out) = sampler.admit("cannot_carry") else { continue };
            tracing::warn!(
                title = base,
                track = %track.name,
                reason = "cannot_carry",
                left_out = Some(left_out).filter(|count| *count > 0),
                "left out of {protocol:?}: {why}"
            );
        }
    }
}

#[cfg(test)]
#[path = "titles_tests.rs"]
mod tests;
