//! Random reads of random ranges, compared with the contents of the objects.

#![allow(clippy::cast_possible_truncation, reason = "sizes here are small")]

use crate::storages::{Network, key, until};
use bytes::Bytes;
use latemux_cache::{Cache, Config};
use latemux_storage::conformance::{collect, pattern};
use latemux_storage::counting::Counting;
use latemux_storage::{Memory, ReadRequest, Storage, Version};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const OBJECTS: [(&str, u64); 3] = [("a", 5_000), ("b", 20_000), ("c", 64_000)];

#[derive(Debug, Clone)]
enum Step {
    /// Concurrent reads of ranges (object, start and length in thousandths); some are dropped after
    /// their head.
    Read(Vec<(usize, u64, u64, bool)>),
    Replace(usize),
    /// Closes the cache and opens it again.
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    let one = (0..3_usize, 0..1000_u64, 0..1000_u64, proptest::bool::weighted(0.1));
    prop_oneof![
        20 => proptest::collection::vec(one, 1..6).prop_map(Step::Read),
        1 => (0..3_usize).prop_map(Step::Replace),
        1 => Just(Step::Restart),
    ]
}

struct Source {
    memory: Arc<Memory>,
    counting: Arc<Counting>,
    versions: Vec<(u8, Version, Bytes)>,
}

impl Source {
    fn new() -> Self {
        let memory = Arc::new(Memory::new());
        let network = Network::new(memory.clone(), 700, 4);
        let counting = Arc::new(Counting::new(Arc::new(network), Duration::ZERO));
        let mut source = Self { memory, counting, versions: vec![] };
        source.versions = (0..3).map(|object| source.put(object, 0)).collect();
        source
    }

    fn put(&self, object: usize, seed: u8) -> (u8, Version, Bytes) {
        let (name, len) = OBJECTS[object];
        let content = pattern(seed, usize::try_from(len).unwrap());
        (seed, self.memory.put(key(name), content.clone()), content)
    }
}

/// Plays the steps. Returns the bytes requested from storage, and the bytes that had to be
/// requested.
async fn play(steps: Vec<Step>, config: Config) -> (u64, u64) {
    let mut source = Source::new();
    let mut cache = Cache::open(config.clone()).unwrap();
    let mut needed: BTreeMap<(usize, u8), Vec<bool>> = BTreeMap::new();
    for step in steps {
        match step {
            Step::Replace(object) => {
                let seed = source.versions[object].0 + 1;
                source.versions[object] = source.put(object, seed);
            }
            Step::Restart => {
                cache.close().await;
                drop(cache);
                cache = Cache::open(config.clone()).unwrap();
                cache.recovered().await;
                if config.dir.is_none() {
                    needed.clear();
                    let _ = source.counting.take();
                }
            }
            Step::Read(ranges) => {
                let storage = cache.around(source.counting.clone(), "model");
                let reads = ranges.into_iter().map(|(object, start, len, gives_up)| {
                    let (name, size) = OBJECTS[object];
                    let start = start * size / 1000;
                    let range = start..(start + 1 + len * size / 1000).min(size);
                    if !gives_up {
                        let seed = source.versions[object].0;
                        let known =
                            needed.entry((object, seed)).or_insert_with(|| vec![false; size as usize]);
                        known[range.start as usize..range.end as usize].fill(true);
                    }
                    let (_, version, all) = source.versions[object].clone();
                    let storage = storage.clone();
                    async move {
                        let read = storage
                            .read(ReadRequest::range(&key(name), range.clone()).pinned(&version))
                            .await
                            .unwrap();
                        if gives_up {
                            return;
                        }
                        let bytes = collect(read).await.unwrap();
                        let range =
                            usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
                        assert!(bytes == all[range.clone()], "{name} {range:?}");
                    }
                });
                futures_util::future::join_all(reads).await;
                until("fetches end", || cache.figures().fetches == 0).await;
                cache.flush().await;
            }
        }
        if config.memory > 0 {
            let figures = cache.figures();
            // Tables about units on disk and about objects being read cannot be evicted.
            let tables = figures.disk_units * 128 + 3 * 600;
            assert!(figures.memory_bytes <= config.memory + tables, "{figures:?}");
            let disk = config.dir.as_ref().map_or(0, |_| config.disk);
            assert!(figures.disk_bytes <= disk, "{figures:?}");
        }
    }
    cache.close().await;
    let asked = source.counting.take().iter().map(|request| request.bytes).sum();
    (asked, needed.values().flatten().filter(|known| **known).count() as u64)
}

fn run(steps: Vec<Step>, config: Config) -> (u64, u64) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap();
    runtime.block_on(play(steps, config))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn tiny_budgets_give_the_right_bytes(
        steps in proptest::collection::vec(step(), 1..30),
        memory in prop_oneof![Just(0), 3_000..60_000_u64],
        unit in 500..5_000_u64,
        bridge in 0..2_000_u64,
        with_disk: bool,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let dir = with_disk.then(|| folder.path().to_owned());
        run(steps, Config { memory, dir, disk: 300_000, unit, bridge, ..Config::default() });
    }

    #[test]
    fn no_byte_is_fetched_twice_with_enough_room(
        steps in proptest::collection::vec(step(), 1..30),
        unit in 500..5_000_u64,
        with_disk: bool,
    ) {
        // A reader that leaves leaves gaps in the requested bytes.
        let patient = |step| match step {
            Step::Read(reads) => Step::Read(reads.into_iter().map(|(o, s, l, _)| (o, s, l, false)).collect()),
            other => other,
        };
        let steps = steps.into_iter().map(patient).collect();
        let folder = tempfile::tempdir().unwrap();
        let dir = with_disk.then(|| folder.path().to_owned());
        let config = Config { dir, disk: 64 << 20, unit, bridge: 0, ..Config::default() };
        let (asked, needed) = run(steps, config);
        prop_assert_eq!(asked, needed);
    }
}
