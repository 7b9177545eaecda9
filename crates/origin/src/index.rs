//! The indexes of objects, remembered: who asks first reads them, all others wait for that or find them.

use crate::{Error, OriginConfig, flight::Flights, memo::Memo};
use bytes::{Bytes, BytesMut};
use futures_util::{FutureExt, StreamExt, future::try_join_all};
use latemux_index::{
    MediaIndex,
    locate::{Got, Limits, Locator, Step, Want},
};
use latemux_storage::{Key, ObjectMeta, Storage, StorageError, Version};
use std::{
    future::Future,
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
    /// Unlike that of any other object, or version of it, in this process.
    pub(crate) id: u64,
}

/// Remembered objects.
#[derive(Debug)]
pub(crate) struct Objects {
    storage: Arc<dyn Storage>,
    limits: Limits,
    memo: Memo<Key, Arc<Object>>,
    flights: Flights<Key, Result<Arc<Object>, Error>>,
    /// Index bytes that may be read at one time, in units of [`LOADING_UNIT`].
    loading: Semaphore,
    loading_units: u32,
    load_timeout: Duration,
    next_id: AtomicU64,
}

/// Bytes per permit: a `u32` of them is 16 TiB.
const LOADING_UNIT: u64 = 4096;

impl Objects {
    pub(crate) fn new(storage: Arc<dyn Storage>, config: &OriginConfig) -> Self {
        let units = u32::try_from(config.memory.loading / LOADING_UNIT).unwrap_or(u32::MAX).max(1);
        let limits =
            Limits { head: config.index.head, tail: config.index.tail, max_index: config.index.max_index };
        Self {
            storage,
            limits,
            // Titles hold their objects too: each memo gets half.
            memo: Memo::new(config.memory.index / 2, |key: &Key, object: &Arc<Object>| {
                key.as_str().len() + object.heap_bytes()
            }),
            flights: Flights::new(),
            loading: Semaphore::new(usize::try_from(units).unwrap_or(1).min(Semaphore::MAX_PERMITS)),
            loading_units: units,
            load_timeout: config.load_timeout,
            next_id: AtomicU64::new(0),
        }
    }

    /// An object by its key: remembered and, as one small read confirms, unchanged; or indexed now.
    pub(crate) async fn current(self: &Arc<Self>, key: &Key) -> Result<Arc<Object>, Error> {
        if let Some(object) = self.memo.get(key) {
            let check = self.storage.read(key, latemux_storage::Want::Head(1), Some(&object.version));
            match check.await {
                Ok(_) => return Ok(object),
                Err(StorageError::Changed(_)) => self.memo.remove(key),
                Err(error) => {
                    self.memo.remove(key);
                    return Err(error.into());
                }
            }
        }
        if self.flights.is_running(key) {
            return self.fly(key.clone()).await;
        }
        // What was begun is finished, whoever leaves: a scan that outlasts a player's patience would never end otherwise.
        let leader = tokio::spawn(self.fly(key.clone()));
        leader.await.unwrap_or(Err(Error::Internal("indexing broke off")))
    }

    /// Waits for the indexing of an object that is under way, or begins it.
    fn fly(self: &Arc<Self>, key: Key) -> impl Future<Output = Result<Arc<Object>, Error>> + Send + use<> {
        let this = self.clone();
        async move {
            let (loader, wanted) = (this.clone(), key.clone());
            let load = move || {
                async move {
                    let after = loader.load_timeout;
                    let loaded = tokio::time::timeout(after, loader.load(&wanted)).await;
                    loaded.unwrap_or_else(|_| Err(Error::LoadTimedOut { base: wanted.to_string(), after }))
                }
                .boxed()
            };
            this.flights.run(key, load).await
        }
    }

    async fn load(&self, key: &Key) -> Result<Arc<Object>, Error> {
        let object = match self.index(key).await {
            // Replaced between two reads of its index: once more, from the start.
            Err(Error::Storage(StorageError::Changed(_))) => self.index(key).await?,
            other => other?,
        };
        let object = Arc::new(object);
        self.memo.insert(key.clone(), object.clone());
        Ok(object)
    }

    /// Reads the index of an object: the reads of one step at once, each step a round trip.
    async fn index(&self, key: &Key) -> Result<Object, Error> {
        let mut locator = Locator::new(self.limits);
        let mut wants = vec![locator.first()];
        let mut version: Option<Version> = None;
        let mut scanning = false;
        loop {
            let _permit = self.room_for(&wants).await?;
            let reads = wants.iter().map(|want| self.read(key, want, version.as_ref()));
            let mut got = Vec::with_capacity(wants.len());
            for (object, bytes) in try_join_all(reads).await? {
                version.get_or_insert(object.version);
                got.push(bytes);
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
            match step.map_err(|error| Error::index(key.as_str(), error))? {
                Step::Read(more) => wants = more,
                Step::Scan(more) => {
                    if !std::mem::replace(&mut scanning, true) {
                        tracing::warn!(
                            reason = "scan",
                            object = %key,
                            "neither sidx nor mfra: every fragment is looked at, once"
                        );
                    }
                    wants = more;
                }
                Step::Done(index) => {
                    let id = self.next_id.fetch_add(1, Relaxed);
                    return Ok(Object { key: key.clone(), version, index: Arc::from(index), id });
                }
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

    async fn read(
        &self,
        key: &Key,
        want: &Want,
        pin: Option<&Version>,
    ) -> Result<(ObjectMeta, Got), StorageError> {
        let want = match want {
            Want::Head(len) => latemux_storage::Want::Head(*len),
            Want::Range(range) => latemux_storage::Want::Range(range.clone()),
        };
        let mut read = self.storage.read(key, want, pin).await?;
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
            return Err(StorageError::BadAnswer { key: key.to_string(), detail });
        }
        Ok((read.object, Got { offset: read.range.start, bytes: join(frames) }))
    }
}

impl Object {
    /// Bytes of memory this holds.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.key.as_str().len() + self.index.heap_bytes()
    }
}

/// One piece of many; a single frame as it is.
fn join(mut frames: Vec<Bytes>) -> Bytes {
    if frames.len() == 1 {
        return frames.pop().unwrap_or_default();
    }
    let mut whole = BytesMut::with_capacity(frames.iter().map(Bytes::len).sum());
    for frame in frames {
        whole.extend_from_slice(&frame);
    }
    whole.freeze()
}
