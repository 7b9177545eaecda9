//! The next segments' source bytes, read into the range cache while a client takes one: so many segments ahead of what was asked for, no
//! further, and only as far as others leave room.

use crate::{
    Error, OriginConfig, config::ReadConfig, observe::metrics::Prefetches, read::fetch::Fetch,
    read::fragments::Fragments, read::reader::SourceReader, title::titles::LoadedTitle,
};
use futures_util::future::poll_fn;
use latemux_packager::{
    Address, Part, Planned, plan,
    plan::{SourceRange, following},
};
use latemux_storage::Storage;
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::AbortHandle,
};

/// What became of a segment that was to be read ahead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Prefetched {
    /// All of it is in the cache, now or before.
    Read,
    /// As many as may be were being read.
    NoRoom,
    /// Its client left.
    Abandoned,
    /// Storage or source refused; who asks for it will be told.
    Failed,
}

impl Prefetched {
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::Read, "read"),
        (Self::NoRoom, "no_room"),
        (Self::Abandoned, "abandoned"),
        (Self::Failed, "failed"),
    ];
}

/// Reads segments ahead.
#[derive(Debug, Clone)]
pub(crate) struct Prefetch(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Segments ahead of one that was asked for.
    ahead: u32,
    media: Arc<dyn Storage>,
    fragments: Fragments,
    read: ReadConfig,
    /// Segments that may be read at one time.
    room: Arc<Semaphore>,
    /// What is being read, by title and address.
    running: Mutex<HashSet<(u64, Address)>>,
    counts: Arc<Prefetches>,
}

impl Prefetch {
    /// `None` where nothing is to be read ahead. Of the `in_flight` requests that may be under way to a back end at one time, it takes no
    /// more than a quarter.
    pub(crate) fn new(
        config: &OriginConfig,
        media: Arc<dyn Storage>,
        fragments: Fragments,
        in_flight: usize,
        counts: Arc<Prefetches>,
    ) -> Option<Self> {
        // One segment may lie in two objects: its audio and its video.
        let room = config.read.prefetch_open.min(in_flight / 8);
        // One request after another.
        let read = ReadConfig { open: 1, ..config.read.clone() };
        (config.read.prefetch > 0 && room > 0).then(|| {
            Self(Arc::new(Inner {
                ahead: config.read.prefetch,
                media,
                fragments,
                read,
                room: Arc::new(Semaphore::new(room)),
                running: Mutex::default(),
                counts,
            }))
        })
    }

    /// Reads on from a segment whose own reads have begun, as long as the guard is kept or once it was let go on.
    pub(crate) fn after(&self, title: &Arc<LoadedTitle>, address: &Address) -> Option<Ahead> {
        if !title.objects.iter().all(|object| object.version.is_reliable()) {
            // The cache would not keep it.
            return None;
        }
        // Many clients of one segment have one next segment.
        let running = Running::begin(&self.0, title.id, address)?;
        let next = following(&title.title, address)?;
        let Ok(room) = self.0.room.clone().try_acquire_owned() else {
            self.0.counts.count(Prefetched::NoRoom);
            return None;
        };
        let title = title.clone();
        let task = tokio::spawn(async move { running.run(room, &title, next).await });
        Some(Ahead { task: Some(task.abort_handle()) })
    }
}

/// What is read ahead for one client. Dropped, it ends.
#[derive(Debug)]
pub(crate) struct Ahead {
    task: Option<AbortHandle>,
}

impl Ahead {
    /// The client took its segment: it will want the next.
    pub(crate) fn go_on(mut self) {
        self.task = None;
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// One who reads ahead, until dropped.
#[derive(Debug)]
struct Running {
    inner: Arc<Inner>,
    key: (u64, Address),
    /// What a client that leaves would cut short.
    unfinished: bool,
}

impl Running {
    fn begin(inner: &Arc<Inner>, title: u64, address: &Address) -> Option<Self> {
        let key = (title, address.clone());
        let new = inner.running().insert(key.clone());
        new.then(|| Self { inner: inner.clone(), key, unfinished: false })
    }

    async fn run(mut self, room: OwnedSemaphorePermit, title: &LoadedTitle, first: Address) {
        let mut next = Some(first);
        for _ in 0..self.inner.ahead {
            let Some(address) = next else { break };
            self.unfinished = true;
            let read = self.inner.read(title, &address).await;
            self.unfinished = false;
            if let Err(error) = &read {
                tracing::debug!(reason = error.reason(), title = title.base, "not read ahead: {error}");
                self.inner.counts.count(Prefetched::Failed);
                break;
            }
            self.inner.counts.count(Prefetched::Read);
            next = following(&title.title, &address);
        }
        drop(room);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.inner.running().remove(&self.key);
        if self.unfinished {
            self.inner.counts.count(Prefetched::Abandoned);
        }
    }
}

impl Inner {
    fn running(&self) -> MutexGuard<'_, HashSet<(u64, Address)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the cache read what a segment is made of. Nothing is made of it.
    async fn read(&self, title: &LoadedTitle, address: &Address) -> Result<(), Error> {
        let mut fetch = Fetch::new(self.media.clone(), title.objects.clone(), self.read.clone());
        let mut known = self.fragments.of(title);
        // As in `serve`: there is no third time.
        for _ in 0..3 {
            let (parts, reach) = match plan(&title.title, address, &known)? {
                Planned::Ready(plan) => (plan.parts, plan.reach),
                Planned::NeedsMedia(media) => (media.parts().to_vec(), media.reach().to_vec()),
                Planned::Needs(needs) => {
                    fetch.belongs_to(needs.reach);
                    known.learn(&mut fetch, &needs.fragments).await?;
                    continue;
                }
            };
            let ranges = parts.into_iter().filter_map(|part| match part {
                Part::Source(range) if !range.range.is_empty() => Some(range),
                _ => None,
            });
            let ranges: Vec<SourceRange> = ranges.collect();
            fetch.belongs_to(reach);
            let mut reader = SourceReader::new(fetch, &ranges)?;
            while let Some(bytes) = poll_fn(|cx| reader.poll_next(cx, usize::MAX)).await {
                bytes?;
            }
            return Ok(());
        }
        Err(Error::Internal("a plan that is never complete"))
    }
}
