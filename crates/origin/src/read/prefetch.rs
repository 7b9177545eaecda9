//! Prefetches the segments that follow a requested segment into the range cache, while the client
//! takes the requested one. The configuration sets their number, and limits how many are read at
//! one time.

use crate::{
    Error,
    config::{OriginConfig, ReadConfig},
    observe::metrics::{Prefetched, Prefetches},
    read::cuts::Cuts,
    read::fetch::Fetch,
    read::fragments::{Fragments, MoofReads},
    read::reader::SourceReader,
    read::segment::plan_segment,
    title::loaded_title::LoadedTitle,
};
use futures_util::future::poll_fn;
use latemux_packager::{Address, plan::following};
use std::{
    collections::HashSet,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::AbortHandle,
};

/// Prefetches segments.
#[derive(Debug, Clone)]
pub(crate) struct Prefetch(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// Number of segments to prefetch after a requested one.
    count: u32,
    fragments: Fragments,
    cuts: Cuts,
    read: ReadConfig,
    /// Limits the runs at one time. A run reads one segment after another.
    room: Arc<Semaphore>,
    /// Runs in flight, by the title's ID and the address of the requested segment.
    running: Mutex<HashSet<(u64, Address)>>,
    counts: Arc<Prefetches>,
}

impl Prefetch {
    /// Creates a prefetcher. Returns `None` if nothing is to be prefetched. It uses at most a
    /// quarter of the `in_flight` requests that a back end may have at one time.
    pub(crate) fn new(
        config: &OriginConfig,
        (fragments, cuts): (Fragments, Cuts),
        in_flight: usize,
        counts: Arc<Prefetches>,
    ) -> Option<Self> {
        // One segment may lie in two objects, one for audio and one for video: two requests.
        let room = config.read.prefetch_open.min(in_flight / 8);
        // Requests for the same segment run one after another.
        let read = ReadConfig { open: 1, ..config.read.clone() };
        (config.read.prefetch > 0 && room > 0).then(|| {
            Self(Arc::new(Inner {
                count: config.read.prefetch,
                fragments,
                cuts,
                read,
                room: Arc::new(Semaphore::new(room)),
                running: Mutex::default(),
                counts,
            }))
        })
    }

    /// Prefetches the segments that follow a segment whose own reads have begun. The run ends when
    /// the guard is dropped, unless [`PrefetchGuard::detach`] is called.
    pub(crate) fn after(&self, title: &Arc<LoadedTitle>, address: &Address) -> Option<PrefetchGuard> {
        if !title.objects.iter().all(|object| object.version().is_reliable()) {
            // The range cache does not keep such objects.
            return None;
        }
        // Clients of the same segment share one run.
        let run = Run::begin(&self.0, title.id, address)?;
        let next = following(&title.title, address)?;
        let Ok(room) = self.0.room.clone().try_acquire_owned() else {
            self.0.counts.count(Prefetched::NoRoom);
            return None;
        };
        let title = title.clone();
        let task = tokio::spawn(async move { run.read_from(room, &title, next).await });
        Some(PrefetchGuard(Some(task.abort_handle())))
    }
}

/// Ends a prefetch run when it is dropped.
#[derive(Debug)]
pub(crate) struct PrefetchGuard(Option<AbortHandle>);

impl PrefetchGuard {
    /// Lets the run go on: the client took the whole segment and will request the next.
    pub(crate) fn detach(mut self) {
        self.0 = None;
    }
}

impl Drop for PrefetchGuard {
    fn drop(&mut self) {
        if let Some(task) = &self.0 {
            task.abort();
        }
    }
}

/// A run of prefetches after one requested segment.
#[derive(Debug)]
struct Run {
    inner: Arc<Inner>,
    key: (u64, Address),
    /// True while a segment is being read, which an abort would cut short.
    is_reading: bool,
}

impl Run {
    /// Registers a run. Returns `None` if one for the same segment is in flight.
    fn begin(inner: &Arc<Inner>, title: u64, address: &Address) -> Option<Self> {
        let key = (title, address.clone());
        let is_new = inner.running().insert(key.clone());
        is_new.then(|| Self { inner: inner.clone(), key, is_reading: false })
    }

    async fn read_from(mut self, room: OwnedSemaphorePermit, title: &LoadedTitle, first: Address) {
        let mut next = Some(first);
        for _ in 0..self.inner.count {
            let Some(address) = next else { break };
            self.is_reading = true;
            let read = self.inner.read_segment(title, &address).await;
            self.is_reading = false;
            if let Err(error) = &read {
                tracing::debug!(reason = error.reason(), title = title.base, "prefetch failed: {error}");
                self.inner.counts.count(Prefetched::Failed);
                break;
            }
            self.inner.counts.count(Prefetched::Read);
            next = following(&title.title, &address);
        }
        drop(room);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.inner.running().remove(&self.key);
        if self.is_reading {
            self.inner.counts.count(Prefetched::Abandoned);
        }
    }
}

impl Inner {
    fn running(&self) -> MutexGuard<'_, HashSet<(u64, Address)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the source ranges of a segment into the range cache, without making the segment.
    async fn read_segment(&self, title: &LoadedTitle, address: &Address) -> Result<(), Error> {
        let mut fetch = Fetch::new(title.pinned.clone(), self.read.clone(), Arc::default());
        let moofs = MoofReads::WithMedia(&mut fetch);
        let plan = plan_segment(title, address, &self.fragments, &self.cuts.of(title), moofs).await?;
        let (ranges, reach) = plan.into_sources();
        fetch.set_reach(reach);
        let mut reader = SourceReader::new(fetch, &ranges)?;
        while let Some(bytes) = poll_fn(|cx| reader.poll_next(cx, usize::MAX)).await {
            bytes?;
        }
        Ok(())
    }
}
