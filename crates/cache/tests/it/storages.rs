//! Storages that behave as tests need, and ways to read from them.

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use latemux_cache::{Cache, Config, RangeCache};
use latemux_storage::conformance::{collect, pattern};
use latemux_storage::counting::Counting;
use latemux_storage::{
    Key, ListRequest, Listing, Memory, Read, ReadRequest, Storage, StorageError, Version, Want,
};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

pub(crate) const KIB: u64 = 1024;

pub(crate) fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// Bodies in frames of `frame` bytes, each after a turn of the scheduler, with a limited number of
/// concurrent bodies.
#[derive(Debug)]
pub(crate) struct Network {
    inner: Arc<dyn Storage>,
    frame: usize,
    connections: Arc<Semaphore>,
}

impl Network {
    pub(crate) fn new(inner: Arc<dyn Storage>, frame: usize, connections: usize) -> Self {
        Self { inner, frame, connections: Arc::new(Semaphore::new(connections)) }
    }
}

impl Storage for Network {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        async move {
            let connection = self.connections.clone().acquire_owned().await.unwrap();
            let frame = self.frame;
            let read = self.inner.read(request).await?;
            let cut = read.body.flat_map(move |whole| match whole {
                Ok(whole) => {
                    let starts: Vec<usize> = (0..whole.len()).step_by(frame).collect();
                    let cut = move |start| Ok(whole.slice(start..whole.len().min(start + frame)));
                    stream::iter(starts).map(cut).boxed()
                }
                Err(error) => stream::iter([Err(error)]).boxed(),
            });
            let slow = cut.then(|frame| async {
                tokio::task::yield_now().await;
                frame
            });
            let body = slow.map(move |frame| {
                let _held = &connection;
                frame
            });
            Ok(Read { body: body.boxed(), ..read })
        }
        .boxed()
    }

    fn list<'a>(&'a self, request: ListRequest<'a>) -> BoxFuture<'a, Result<Listing, StorageError>> {
        self.inner.list(request)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

/// An object, its storage, and a log of the requests to that storage.
pub(crate) struct World {
    pub(crate) content: Bytes,
    pub(crate) version: Version,
    pub(crate) memory: Arc<Memory>,
    pub(crate) counting: Arc<Counting>,
    pub(crate) cache: Cache,
    pub(crate) storage: RangeCache,
}

pub(crate) const NAME: &str = "film.mp4";

impl World {
    /// Creates an object of `len` bytes in a storage that responds after a second and that `wrap`
    /// may change.
    pub(crate) fn new(
        len: u64,
        config: Config,
        wrap: impl FnOnce(Arc<dyn Storage>) -> Arc<dyn Storage>,
    ) -> Self {
        let memory = Arc::new(Memory::new());
        let content = pattern(1, usize::try_from(len).unwrap());
        let version = memory.put(key(NAME), content.clone());
        let counting = Arc::new(Counting::new(wrap(memory.clone()), Duration::from_secs(1)));
        let cache = Cache::open(config).unwrap();
        let storage = cache.around(counting.clone(), "test");
        Self { content, version, memory, counting, cache, storage }
    }

    pub(crate) fn plain(len: u64, config: Config) -> Self {
        Self::new(len, config, |inner| Arc::new(Network::new(inner, 10_000, 1000)))
    }

    pub(crate) async fn open(&self, range: Range<u64>) -> Result<Read, StorageError> {
        self.storage.read(ReadRequest::range(&key(NAME), range).pinned(&self.version)).await
    }

    /// Reads a range and compares its bytes.
    pub(crate) async fn read(&self, range: Range<u64>) -> Result<(), StorageError> {
        let read = self.open(range.clone()).await?;
        assert_eq!((&read.range, &read.object.version), (&range, &self.version));
        let bytes = collect(read).await?;
        assert!(bytes == self.expected(range.clone()), "bytes of {range:?}");
        Ok(())
    }

    pub(crate) fn expected(&self, range: Range<u64>) -> Bytes {
        self.content.slice(usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap())
    }

    /// Returns the ranges requested from storage since the last call.
    pub(crate) fn requested(&self) -> Vec<Range<u64>> {
        let range = |want| match want {
            Some(Want::Range(range)) => range,
            other => panic!("unexpected request: {other:?}"),
        };
        self.counting.take().into_iter().map(|request| range(request.want)).collect()
    }
}

/// Lets other tasks and threads run until a condition holds.
pub(crate) async fn until(what: &str, so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "timed out waiting until {what}");
        tokio::task::yield_now().await;
    }
}
