use crate::storages::Network;
use bytes::Bytes;
use futures_util::{FutureExt, future::BoxFuture};
use latemux_cache::{Cache, Config};
use latemux_storage::conformance::{Fixture, run};
use latemux_storage::{Key, Memory};
use std::sync::Arc;

struct Behind(Arc<Memory>);

impl Fixture for Behind {
    fn put<'a>(&'a mut self, key: &'a Key, bytes: Bytes) -> BoxFuture<'a, ()> {
        self.0.put(key.clone(), bytes);
        async {}.boxed()
    }

    fn remove<'a>(&'a mut self, key: &'a Key) -> BoxFuture<'a, ()> {
        self.0.remove(key);
        async {}.boxed()
    }
}

async fn passes(config: Config) {
    let cache = Cache::open(config).unwrap();
    let memory = Arc::new(Memory::new());
    let network = Network::new(memory.clone(), 50_000, 4);
    run(&cache.around(Arc::new(network), "conformance"), &mut Behind(memory)).await;
    let figures = cache.figures();
    assert!(figures.filled > 0 && figures.bypassed_head > 0, "the cache was used: {figures:?}");
    cache.close().await;
}

#[tokio::test]
async fn conforms_in_memory() {
    passes(Config { memory: 64 << 20, ..Config::default() }).await;
}

#[tokio::test]
async fn conforms_without_room() {
    passes(Config { memory: 0, ..Config::default() }).await;
    passes(Config { memory: 40_000, unit: 1000, ..Config::default() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conforms_with_a_disk() {
    let dir = tempfile::tempdir().unwrap();
    for memory in [1 << 20, 0] {
        let dir = Some(dir.path().to_owned());
        passes(Config { memory, dir, disk: 64 << 20, ..Config::default() }).await;
    }
}
