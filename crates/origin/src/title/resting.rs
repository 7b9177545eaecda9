//! Titles whose indexes have left memory. What remains of one is enough to tell that storage still
//! has the same files, so that the manifests which were made of them can be served again. Reading
//! the indexes again, only to send the same manifests, would cost far more.

use crate::{
    Error,
    observe::metrics::CacheWatch,
    title::background::spawn_in_turn,
    title::checks::{Checks, Freshness},
    title::indexed::{IndexedFile, IndexedObject, version_bytes},
    title::loaded_title::LoadedTitle,
    title::memory_cache::MemoryCache,
    title::references::ObjectRef,
    title::resolve::{Resolved, resolve},
    title::single_flight::SingleFlight,
    title::titles::{Titles, check_wait},
};
use futures_util::FutureExt;
use latemux_index::error::TrackProblem;
use latemux_storage::{StorageError, Version};
use std::sync::Arc;
use tokio::time::{Instant, timeout};

/// What remains of a title in memory. Nothing remains of a title with keys, of one that lacks a
/// part which may become readable, and of one whose storage states no versions: a comparison with
/// storage does not tell if their manifests are still right.
#[derive(Debug)]
pub(crate) struct RestingTitle {
    /// ID of the title, by which its manifests are found.
    pub(crate) id: u64,
    /// Comparisons with storage, shared with the loaded title.
    pub(crate) checks: Arc<Checks>,
    /// The files that the base named.
    resolved: Resolved,
    files: Box<[RestingFile]>,
}

/// A file of a resting title.
#[derive(Debug)]
struct RestingFile {
    file: ObjectRef,
    version: Version,
    objects: Box<[RestingObject]>,
}

/// An object that holds media of a file.
#[derive(Debug)]
struct RestingObject {
    /// The object and its version. `None` for the file itself.
    elsewhere: Option<Box<(ObjectRef, Version)>>,
    /// The digest of its index.
    fingerprint: u128,
    /// Its tracks that are left out.
    left_out: Box<[TrackProblem]>,
}

impl RestingObject {
    fn new(is_file: bool, object: &IndexedObject) -> Self {
        let elsewhere = || Box::new((object.source().clone(), object.version().clone()));
        Self {
            elsewhere: (!is_file).then(elsewhere),
            fingerprint: object.index.fingerprint,
            left_out: object.index.left_out.clone().into(),
        }
    }

    fn describes(&self, is_file: bool, object: &IndexedObject) -> bool {
        let is_same_place = match &self.elsewhere {
            None => is_file,
            Some(known) => !is_file && known.0 == *object.source() && known.1 == *object.version(),
        };
        is_same_place
            && self.fingerprint == object.index.fingerprint
            && *self.left_out == *object.index.left_out
    }
}

impl RestingFile {
    fn new(file: &IndexedFile) -> Self {
        let objects = file.parts.iter().map(|(place, object)| RestingObject::new(place.is_none(), object));
        Self { file: file.file.clone(), version: file.version.clone(), objects: objects.collect() }
    }

    fn describes(&self, file: &IndexedFile) -> bool {
        let mut objects = self.objects.iter().zip(&file.parts);
        self.file == file.file
            && self.version == file.version
            && self.objects.len() == file.parts.len()
            && objects.all(|(own, (place, object))| own.describes(place.is_none(), object))
    }

    fn heap_bytes(&self) -> usize {
        let elsewhere = self.objects.iter().filter_map(|object| object.elsewhere.as_deref());
        let elsewhere = elsewhere
            .map(|place| size_of_val(place) + place.0.heap_bytes() + version_bytes(&place.1))
            .sum::<usize>();
        let left_out: usize = self.objects.iter().map(|object| size_of_val(&*object.left_out)).sum();
        self.file.heap_bytes()
            + version_bytes(&self.version)
            + size_of_val(&*self.objects)
            + elsewhere
            + left_out
    }
}

impl RestingTitle {
    /// Creates the record of a loaded title, whose base named the files in `resolved`. Returns
    /// `None` if storage does not state a version for each of them.
    pub(super) fn of(title: &LoadedTitle, resolved: Resolved) -> Option<Self> {
        let files = title.indexed.iter().map(|file| RestingFile::new(file)).collect();
        let title = Self { id: title.id, checks: title.checks.clone(), resolved, files };
        let is_reliable = title.objects().all(|(_, version)| version.is_reliable());
        is_reliable.then_some(title)
    }

    /// Returns true if its base named these files.
    pub(super) fn is_named_by(&self, resolved: &Resolved) -> bool {
        self.resolved == *resolved
    }

    /// Returns true if the title was made of these files.
    pub(super) fn was_made_of(&self, resolved: &Resolved, files: &[Arc<IndexedFile>]) -> bool {
        self.resolved == *resolved
            && self.files.len() == files.len()
            && self.files.iter().zip(files).all(|(own, file)| own.describes(file))
    }

    /// Returns the requested files.
    pub(super) fn files(&self) -> impl Iterator<Item = ObjectRef> {
        self.files.iter().map(|file| file.file.clone())
    }

    /// Returns all objects that the title was made of, with their versions.
    fn objects(&self) -> impl Iterator<Item = (&ObjectRef, &Version)> {
        self.files.iter().flat_map(|file| {
            let elsewhere = file.objects.iter().filter_map(|object| object.elsewhere.as_deref());
            [(&file.file, &file.version)]
                .into_iter()
                .chain(elsewhere.map(|(object, version)| (object, version)))
        })
    }

    fn heap_bytes(&self) -> usize {
        let files: usize = self.files.iter().map(RestingFile::heap_bytes).sum();
        size_of::<Self>()
            + size_of::<Checks>()
            + self.resolved.heap_bytes()
            + size_of_val(&*self.files)
            + files
    }
}

/// Resting titles by their base.
#[derive(Debug)]
pub(super) struct RestingTitles {
    memory: MemoryCache<String, Arc<RestingTitle>>,
    /// Comparisons with storage, by the place of the record in memory. Each returns true if the
    /// title is unchanged.
    comparisons: SingleFlight<usize, Result<bool, Error>>,
}

impl RestingTitles {
    /// Creates a memory of at most `capacity` bytes.
    pub(super) fn new(capacity: u64) -> Self {
        let weigh = |base: &String, title: &Arc<RestingTitle>| base.len() + title.heap_bytes();
        Self { memory: MemoryCache::new(capacity, weigh), comparisons: SingleFlight::new() }
    }

    pub(super) fn peek(&self, base: &str) -> Option<Arc<RestingTitle>> {
        self.memory.peek(base)
    }

    pub(super) fn insert(&self, base: &str, title: RestingTitle) {
        self.memory.insert(base.to_owned(), Arc::new(title));
    }

    /// Removes the title of a base, and returns it if it was there.
    pub(super) fn remove(&self, base: &str) -> Option<Arc<RestingTitle>> {
        let title = self.memory.peek(base)?;
        self.memory.remove(base);
        Some(title)
    }

    /// Returns the bases that begin with `prefix`.
    pub(super) fn bases_below(&self, prefix: &str) -> Vec<String> {
        self.memory.keys_where(|base| base.starts_with(prefix))
    }

    /// Returns what metrics show of resting titles.
    pub(super) fn watch(&self) -> CacheWatch {
        self.memory.watch("resting", self.comparisons.joins())
    }
}

impl Titles {
    /// Returns the resting title of a base, unless the whole title is in memory.
    pub(crate) fn resting(&self, base: &str) -> Option<Arc<RestingTitle>> {
        if self.is_loaded(base) { None } else { self.resting.memory.get(base) }
    }

    /// Returns true if storage confirmed a resting title recently, or confirms it now: its
    /// manifests may be served. If storage fails or is slow, they may be served for as long as
    /// those of a loaded title. Returns false if the title must be loaded.
    ///
    /// # Errors
    /// The failure of storage, if the title may not be served for longer.
    pub(crate) async fn may_rest(
        self: &Arc<Self>,
        base: &str,
        title: &Arc<RestingTitle>,
    ) -> Result<bool, Error> {
        let checks = &title.checks;
        if checks.is_fresh(Freshness::Recent, self.recheck_after) {
            return Ok(true);
        }
        let may_be_stale = checks.may_be_stale(self.stale_if_error);
        if may_be_stale && checks.has_just_failed(self.recheck_after) {
            return Ok(true);
        }
        let wait = if may_be_stale { check_wait(checks) } else { self.load_timeout };
        let comparison = self.compare_shared(base.to_owned(), title.clone());
        let error = match timeout(wait, spawn_in_turn(&self.store.turns, comparison)).await {
            Ok(Ok(Ok(is_unchanged))) => return Ok(is_unchanged),
            Ok(Ok(Err(error))) => error,
            Ok(Err(_)) => return Err(Error::Internal("comparing a title with storage panicked")),
            Err(_) => Error::LoadTimedOut { base: base.to_owned(), after: wait },
        };
        if !error.is_outage() {
            // A load finds the reason, and remembers it.
            return Ok(false);
        }
        if checks.fail() {
            self.warn_of_stale(base, &error);
        }
        if may_be_stale { Ok(true) } else { Err(error) }
    }

    /// Compares a resting title with storage, together with other requests for it. Removes its
    /// record if the title has changed or is gone, but not if storage fails.
    fn compare_shared(
        self: &Arc<Self>,
        base: String,
        title: Arc<RestingTitle>,
    ) -> impl Future<Output = Result<bool, Error>> + Send + use<> {
        let this = self.clone();
        async move {
            let titles = this.clone();
            let record = Arc::as_ptr(&title).addr();
            let compare = move || {
                async move {
                    let after = titles.load_timeout;
                    let compared = timeout(after, titles.is_unchanged(&base, &title)).await;
                    let compared =
                        compared.unwrap_or_else(|_| Err(Error::LoadTimedOut { base: base.clone(), after }));
                    let is_kept = compared.as_ref().map_or_else(Error::is_outage, |unchanged| *unchanged);
                    // Another record may have taken its place.
                    if !is_kept && titles.resting.peek(&base).is_some_and(|now| Arc::ptr_eq(&now, &title)) {
                        titles.resting.remove(&base);
                    }
                    compared
                }
                .boxed()
            };
            this.resting.comparisons.run(record, compare).await
        }
    }

    /// Returns true if storage has the files that a resting title was made of, and no others that
    /// its base names.
    async fn is_unchanged(&self, base: &str, title: &RestingTitle) -> Result<bool, Error> {
        let began = Instant::now();
        if resolve(&*self.storage, base, self.limits).await? != title.resolved {
            return Ok(false);
        }
        match self.store.indexer.check_versions(title.objects()).await {
            Ok(()) => {
                title.checks.confirm(began);
                Ok(true)
            }
            Err(StorageError::Changed(_)) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
#[path = "resting_tests.rs"]
mod tests;
