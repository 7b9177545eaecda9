//! Titles, remembered by their base.

use crate::{
    Error, OriginConfig,
    observe::metrics::{CacheWatch, ReadPurpose},
    observe::trace::request_began,
    title::flight::Flights,
    title::index::{Forgotten, Object, Objects, Parts},
    title::manifest_tracks::{Named, Sources},
    title::media::Media,
    title::memo::Memo,
    title::places::Place,
    title::resolve::{Resolved, resolve},
    title::write_index::IndexWriter,
};
use futures_util::{FutureExt, future::join_all};
use latemux_cache::Records;
use latemux_index::{MediaIndex, Title, title::TitleProblem};
use latemux_packager::carry::{Protocol, carries};
use latemux_storage::Storage;
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
    /// Its base in URLs.
    pub base: String,
    /// The title.
    pub title: Arc<Title>,
    /// Its objects, as [`Title::objects`] counts them.
    pub objects: Arc<[Arc<Object>]>,
    /// Of each object, the 1-based number of the file it is of: the media file itself or, of an index MP4, a part.
    pub files: Arc<[u32]>,
    /// What a server manifest chose of them.
    chosen: Option<Named>,
    /// Unlike that of any other title, or version of it, in this process.
    pub(crate) id: u64,
    /// When its objects were last compared with storage, in ms since `Titles::started`.
    checked: AtomicU64,
    /// Storage refused a read of an object, when the head of an answer was gone already.
    doubted: AtomicBool,
}

/// Remembered titles.
#[derive(Debug)]
pub(crate) struct Titles {
    storage: Arc<dyn Storage>,
    objects: Arc<Objects>,
    memo: Memo<String, Arc<LoadedTitle>>,
    flights: Flights<String, Result<Arc<LoadedTitle>, Error>>,
    target: Duration,
    max_objects: usize,
    recheck_after: Duration,
    load_timeout: Duration,
    started: Instant,
    next_id: AtomicU64,
}

/// How sure a caller must be that a remembered title is what storage holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fresh {
    /// As remembered: the reads that follow name the version.
    Remembered,
    /// Compared not long ago.
    Recent,
    /// Compared now.
    Now,
}

impl Titles {
    pub(crate) fn new(
        storage: &Arc<dyn Storage>,
        config: &OriginConfig,
        media: &Media,
        indexes: Option<Records>,
        writer: Option<IndexWriter>,
    ) -> Self {
        Self {
            objects: Arc::new(Objects::new(storage, config, media, indexes, writer)),
            storage: media.meter().over(storage.clone(), ReadPurpose::Manifest),
            memo: Memo::new(config.memory.index / 2, |base: &String, title: &Arc<LoadedTitle>| {
                base.len() + title.heap_bytes()
            }),
            flights: Flights::new(),
            target: config.segment_duration,
            max_objects: config.max_objects,
            recheck_after: config.recheck_after,
            load_timeout: config.load_timeout,
            started: Instant::now(),
            next_id: AtomicU64::new(0),
        }
    }

    /// The title of a base.
    pub(crate) async fn load(self: &Arc<Self>, base: &str, fresh: Fresh) -> Result<Arc<LoadedTitle>, Error> {
        if let Some(title) = self.memo.get(base) {
            let age = self.ms(request_began()).saturating_sub(title.checked.load(Relaxed));
            let good = match fresh {
                _ if title.doubted.load(Relaxed) => false,
                Fresh::Remembered => true,
                Fresh::Recent => Duration::from_millis(age) < self.recheck_after,
                Fresh::Now => false,
            };
            if good {
                return Ok(title);
            }
        }
        let (this, owned) = (self.clone(), base.to_owned());
        let load = move || {
            async move {
                let after = this.load_timeout;
                let loaded = tokio::time::timeout(after, this.load_now(&owned)).await;
                loaded.unwrap_or_else(|_| Err(Error::LoadTimedOut { base: owned, after }))
            }
            .boxed()
        };
        // Boxed: most requests find the title, and should not have to carry room for this.
        Box::pin(self.flights.run(base.to_owned(), load)).await
    }

    /// Forgets a title, the indexes of its objects and what is kept of their media: its id, if it was known, and how much. What is being
    /// read for it now may come to be remembered yet.
    pub(crate) async fn forget(&self, base: &str) -> (Option<u64>, Forgotten) {
        let known = self.memo.peek(base);
        self.memo.remove(base);
        let mut places = match &known {
            Some(title) => title.objects.iter().map(|object| self.objects.file_of(object)).collect(),
            // A process before this one may have known it.
            None => self.files_of(base).await,
        };
        let mut forgotten = Forgotten::default();
        while let Some(place) = places.pop() {
            if !places.contains(&place) {
                forgotten += self.objects.forget(&place).await;
            }
        }
        self.objects.places.media().forgotten().await;
        (known.map(|title| title.id), forgotten)
    }

    /// The files a base names; none where that cannot be known.
    async fn files_of(&self, base: &str) -> Vec<Place> {
        match resolve(&*self.storage, base, self.max_objects).await {
            Ok(Resolved::Files(files)) => {
                files.into_iter().map(|(key, _)| self.objects.served(key)).collect()
            }
            Ok(Resolved::Manifest { key, manifest }) => {
                let from = self.objects.served(key);
                let named =
                    manifest.elements.iter().map(|element| self.objects.places.find(&from, &element.src));
                named.filter_map(Result::ok).collect()
            }
            Err(_) => Vec::new(),
        }
    }

    /// What is remembered, for metrics.
    pub(crate) fn watch(&self) -> Vec<CacheWatch> {
        let memory = [self.memo.watch("titles", self.flights.joins()), self.objects.watch()];
        memory.into_iter().chain(self.objects.watch_persisted()).collect()
    }

    async fn load_now(self: &Arc<Self>, base: &str) -> Result<Arc<LoadedTitle>, Error> {
        let checked = self.ms(Instant::now());
        let sources = match resolve(&*self.storage, base, self.max_objects).await? {
            Resolved::Files(files) => {
                let places: Vec<_> =
                    files.into_iter().map(|(key, listed)| (self.objects.served(key), listed)).collect();
                let current = places.iter().map(|(place, listed)| self.objects.current(place, *listed));
                let parts = join_all(current).await;
                sound(parts)?
            }
            Resolved::Manifest { key, manifest } => self.objects.named_by(&key, &manifest).await?,
        };
        let Sources { objects, files, broken, chosen } = sources;
        if objects.len() > self.max_objects {
            return Err(Error::TooManyObjects { count: objects.len(), limit: self.max_objects });
        }
        if let Some(known) = self.memo.peek(base)
            && known.objects.iter().map(|o| o.id).eq(objects.iter().map(|o| o.id))
            && *known.files == *files
            && known.chosen == chosen
        {
            known.checked.store(checked, Relaxed);
            known.doubted.store(false, Relaxed);
            return Ok(known);
        }
        let mut indexes: Vec<Arc<MediaIndex>> = objects.iter().map(|o| o.index.clone()).collect();
        let (target, tracks) = (self.target, chosen.clone());
        let made = tokio::task::spawn_blocking(move || match tracks {
            None => Title::new(indexes, target),
            Some(named) => {
                named.tell_languages(&mut indexes);
                Title::of_tracks(indexes, named.tracks, target)
            }
        });
        let made = made.await.map_err(|_| Error::Internal("making a title broke off"))?;
        let title = made.map_err(|error| Error::index(base, error))?.with_problems(broken);
        log_problems(base, &title);
        let loaded = Arc::new(LoadedTitle {
            base: base.to_owned(),
            title: Arc::new(title),
            objects: objects.into(),
            files: files.into(),
            chosen,
            id: self.next_id.fetch_add(1, Relaxed),
            checked: AtomicU64::new(checked),
            doubted: AtomicBool::new(false),
        });
        self.memo.insert(base.to_owned(), loaded.clone());
        Ok(loaded)
    }

    /// Milliseconds since the start.
    fn ms(&self, when: Instant) -> u64 {
        u64::try_from(when.saturating_duration_since(self.started).as_millis()).unwrap_or(u64::MAX)
    }
}

impl LoadedTitle {
    /// Has the next request compare its objects with storage first.
    pub(crate) fn doubt(&self) {
        self.doubted.store(true, Relaxed);
    }

    /// Bytes of memory this holds, objects included.
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

/// Objects that can be served. One that cannot is left out, as the same bytes are on every node; what storage does
/// wrong fails the title, for that may be otherwise a moment later or elsewhere.
fn sound(files: Vec<Result<Parts, Error>>) -> Result<Sources, Error> {
    let mut sources = Sources { objects: Vec::new(), files: Vec::new(), broken: Vec::new(), chosen: None };
    let mut first = None;
    for (number, file) in (1..).zip(files) {
        match file {
            Ok(parts) => sources.add(number, &parts),
            Err(error @ (Error::Index { .. } | Error::LocationRefused { .. })) => {
                let detail = format!("left out: {error}");
                sources.broken.push(TitleProblem { object: None, reason: error.reason(), detail });
                first.get_or_insert(error);
            }
            Err(error) => return Err(error),
        }
    }
    match first {
        Some(error) if sources.objects.is_empty() => Err(error),
        _ => Ok(sources),
    }
}

/// Says once per load what is wrong with a title and what each protocol leaves out of it.
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
