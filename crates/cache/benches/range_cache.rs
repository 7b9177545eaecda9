//! Measures the cost of a hit and of a fetch, the peak memory under a load of 50 times the budget,
//! and the time until a full disk is ready after a restart. `make bench-crates` runs it.
//! `LATEMUX_BENCH_DISK_GB` sets the size of the disk (1 GB by default).

#![allow(clippy::unwrap_used, reason = "a measurement that cannot go on should stop")]
#![allow(clippy::print_stdout, reason = "a benchmark prints")]

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use latemux_cache::{Cache, Config, Outcome, RangeCache, SegmentCache, Tier};
use latemux_storage::{
    Key, ListRequest, Listing, ObjectMeta, Read, ReadRequest, Storage, StorageError, Version,
};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use std::{
    alloc::System,
    hint::black_box,
    ops::Range,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Objects of any size. Each frame is a separate buffer, as from a network.
#[derive(Debug)]
struct Generated {
    size: u64,
    /// True if other tasks get a turn between frames.
    turns: bool,
}

impl Generated {
    fn version(&self) -> Version {
        Version { etag: Some("\"generated\"".into()), size: self.size, modified: None }
    }
}

impl Storage for Generated {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        async move {
            let range = request.want.within(self.size).unwrap();
            let end = range.end;
            let turns = self.turns;
            let body = stream::unfold(range.start, move |at| async move {
                if turns {
                    tokio::task::yield_now().await;
                }
                let len = (end - at).min(256 * KIB);
                let frame = vec![at.to_le_bytes()[2]; usize::try_from(len).unwrap()];
                (len > 0).then(|| (Ok(Bytes::from(frame)), at + len))
            });
            let object = ObjectMeta { size: self.size, version: self.version() };
            Ok(Read { object, range, body: body.boxed(), is_in_memory: false })
        }
        .boxed()
    }

    fn list<'a>(&'a self, request: ListRequest<'a>) -> BoxFuture<'a, Result<Listing, StorageError>> {
        async move { Err(StorageError::CannotList(request.folder.to_string())) }.boxed()
    }

    fn describe(&self) -> String {
        "generated".to_owned()
    }
}

fn key() -> Key {
    Key::new("films/one.mp4").unwrap()
}

/// Reads a whole range and returns the number of frames.
async fn drain(storage: &dyn Storage, key: &Key, range: Range<u64>, version: &Version) -> u64 {
    let mut read = storage.read(ReadRequest::range(key, range).pinned(version)).await.unwrap();
    let mut frames = 0;
    while let Some(frame) = read.body.next().await {
        black_box(frame.unwrap());
        frames += 1;
    }
    frames
}

fn runtime(threads: usize) -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build().unwrap()
}

fn around(config: Config, size: u64) -> (Cache, RangeCache, Version) {
    let source = Generated { size, turns: true };
    let version = source.version();
    let cache = Cache::open(config).unwrap();
    let storage = cache.around(Arc::new(source), "generated");
    (cache, storage, version)
}

fn hits() {
    println!(
        "\nhits: {:>8} {:>9} {:>9} {:>12} {:>12}",
        "range", "threads", "CPU ns", "allocations", "of them/frame"
    );
    for (len, threads) in [(128 * KIB, 1), (2 * MIB, 1), (8 * MIB, 1), (2 * MIB, 2)] {
        let size = 64 * MIB;
        let runtime = runtime(threads);
        let (cache, storage, version) = around(Config::default(), size);
        runtime.block_on(drain(&storage, &key(), 0..size, &version));
        let reads = 100_000_u64;
        let run = |reads: u64| {
            let storage = storage.clone();
            let version = version.clone();
            runtime.block_on(async move {
                let tasks = (0..threads as u64).map(|task| {
                    let storage = storage.clone();
                    let version = version.clone();
                    tokio::spawn(async move {
                        let key = key();
                        let mut frames = 0;
                        for n in 0..reads {
                            let start = (n + task) * 7919 * KIB % (size - len);
                            frames += drain(&storage, &key, start..start + len, &version).await;
                        }
                        frames
                    })
                });
                let mut frames = 0;
                for done in futures_util::future::join_all(tasks).await {
                    frames += done.unwrap();
                }
                frames
            })
        };
        run(1000);
        let region = Region::new(ALLOCATOR);
        let begun = processor();
        let frames = run(reads);
        let took = processor() - begun;
        let allocations = region.change().allocations;
        let per_read = allocations as f64 / (reads * threads as u64) as f64;
        let per_frame = allocations as f64 / frames as f64;
        let nanos = took * 1e9 / (reads * threads as u64) as f64;
        println!("      {:>7}K {threads:>9} {nanos:>9.0} {per_read:>12.2} {per_frame:>12.2}", len / KIB);
        assert!(cache.figures().storage_bytes <= size + MIB);
    }
}

fn fetches() {
    println!("\nfetches of 2 MiB, CPU per GiB (one thread):");
    let size = 2 * GIB;
    let runtime = runtime(1);
    let source = Generated { size, turns: true };
    let version = source.version();
    let (cache, storage, _) = around(Config { memory: 256 * MIB, ..Config::default() }, size);
    for (name, storage) in [("without the cache", &source as &dyn Storage), ("through it", &storage)] {
        let begun = processor();
        runtime.block_on(async {
            for start in (0..size).step_by(2 << 20) {
                drain(storage, &key(), start..start + 2 * MIB, &version).await;
            }
        });
        println!("  {name:>18}: {:.3} s", (processor() - begun) * GIB as f64 / size as f64);
    }
    assert_eq!(cache.figures().storage_bytes, size);
}

/// Returns the processor time of this process in seconds. The kernel counts it in ticks of a
/// hundredth of a second.
fn processor() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let ticks = stat.rsplit(')').next().unwrap().split_whitespace().skip(11).take(2);
    ticks.map(|ticks| ticks.parse::<f64>().unwrap()).sum::<f64>() / 100.0
}

/// Returns the bytes of resident memory.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * KIB
}

fn live() -> i64 {
    let stats = ALLOCATOR.stats();
    i64::try_from(stats.bytes_allocated).unwrap() - i64::try_from(stats.bytes_deallocated).unwrap()
        + stats.bytes_reallocated as i64
}

fn memory() {
    let budget = 256 * MIB;
    let size = 128 * GIB;
    let runtime = runtime(2);
    let (cache, storage, version) = around(Config { memory: budget, ..Config::default() }, size);
    let before = (live(), resident());
    let most_live = AtomicU64::new(0);
    let most_resident = AtomicU64::new(0);
    let most_counted = AtomicU64::new(0);
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while done.load(Relaxed) == 0 {
                most_live.fetch_max(u64::try_from(live() - before.0).unwrap_or(0), Relaxed);
                most_resident.fetch_max(resident().saturating_sub(before.1), Relaxed);
                most_counted.fetch_max(cache.figures().memory_bytes, Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        runtime.block_on(async {
            // Segments of 0.1 to 4 MB, a fifth of them requested again and again.
            let readers = (0..64_u64).map(|reader| {
                let storage = storage.clone();
                let version = version.clone();
                tokio::spawn(async move {
                    let mut random = reader + 1;
                    for _ in 0..150 {
                        random = random
                            .wrapping_mul(6_364_136_223_846_793_005)
                            .wrapping_add(1_442_695_040_888_963_407);
                        let place = (random >> 33) % 10_000;
                        let place = if place < 2000 { place % 40 } else { place + (random >> 50) };
                        let len = 100_000 + place * 7919 % 3_900_000;
                        drain(&storage, &key(), place * 4_000_000..place * 4_000_000 + len, &version).await;
                    }
                })
            });
            for reader in futures_util::future::join_all(readers).await {
                reader.unwrap();
            }
        });
        done.store(1, Relaxed);
    });
    let figures = cache.figures();
    let part = |bytes: u64| bytes as f64 / budget as f64;
    println!("\nmemory, budget {} MiB, 64 readers:", budget / MIB);
    println!("  fetched           {:>6.1} times the budget", part(figures.storage_bytes));
    println!("  most, as counted  {:>6.3} of the budget", part(most_counted.load(Relaxed)));
    println!("  most, allocated   {:>6.3}", part(most_live.load(Relaxed)));
    println!("  most, resident    {:>6.3}", part(most_resident.load(Relaxed)));
    let hits = figures.hits_memory as f64 / figures.requests() as f64;
    println!("  hits {hits:.2}, evictions {}", figures.evictions);
}

fn restart() {
    let gigabytes: u64 = std::env::var("LATEMUX_BENCH_DISK_GB").map_or(1, |text| text.parse().unwrap());
    let size = gigabytes * 1_000_000_000;
    let dir =
        tempfile::tempdir_in(std::env::var("LATEMUX_BENCH_DIR").unwrap_or_else(|_| ".".to_owned())).unwrap();
    let config = Config {
        memory: 64 * MIB,
        dir: Some(dir.path().to_owned()),
        disk: size + size / 10,
        disk_queue: GIB,
        ..Config::default()
    };
    let runtime = runtime(2);
    let begun = Instant::now();
    let version = runtime.block_on(async {
        let (cache, storage, version) = around(config.clone(), size);
        for start in (0..size - 2 * MIB).step_by(2 << 20) {
            drain(&storage, &key(), start..start + 2 * MIB, &version).await;
            // Writes as fast as the disk, but not faster.
            if start % (64 * MIB) == 0 {
                cache.flush().await;
            }
        }
        while cache.figures().fetches > 0 {
            tokio::task::yield_now().await;
        }
        cache.flush().await;
        cache.close().await;
        version
    });
    println!("\nrestart with {gigabytes} GB on disk (written in {:.1?}):", begun.elapsed());
    for run in 0..3 {
        let begun = Instant::now();
        runtime.block_on(async {
            let (cache, storage, _) = around(config.clone(), size);
            let opened = begun.elapsed();
            cache.recovered().await;
            let ready = begun.elapsed();
            let start = run * (size / 4 / (2 * MIB)) * 2 * MIB;
            let range = start..start + 2 * MIB;
            let hit = Instant::now();
            let key = key();
            let outcome = Arc::new(OnceLock::new());
            let request = ReadRequest::range(&key, range).pinned(&version);
            let read = storage.read(request.with_observer(outcome.clone())).await.unwrap();
            let lens: Vec<u64> = read.body.map(|frame| frame.unwrap().len() as u64).collect().await;
            let bytes: u64 = lens.iter().sum();
            assert_eq!((outcome.get(), bytes), (Some(&Outcome::Hit(Tier::Disk)), 2 * MIB));
            let figures = cache.figures();
            println!(
                "  opened {opened:.1?}, all {} units found {ready:.1?}, \
                 first 2 MiB from disk {:.1?}; tables {} KiB",
                figures.disk_units,
                hit.elapsed(),
                figures.disk_units * 128 / KIB,
            );
            cache.close().await;
        });
    }
}

fn segments() {
    let cache = SegmentCache::new(64 * MIB);
    let body: Vec<Bytes> = (0..4).map(|n| Bytes::from(vec![n; 500_000])).collect();
    (0..16).for_each(|digest| cache.insert(digest, &body));
    let begun = Instant::now();
    let region = Region::new(ALLOCATOR);
    for n in 0..1_000_000_u128 {
        black_box(cache.get(n % 16).unwrap());
    }
    let allocations = region.change().allocations;
    println!("\nsegment hit: {} ns, {allocations} allocations", begun.elapsed().as_nanos() / 1_000_000);
}

fn main() {
    // `cargo bench ... -- memory` runs only that part.
    let only = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let all: [(&str, fn()); 5] = [
        ("hits", hits),
        ("segments", segments),
        ("fetches", fetches),
        ("memory", memory),
        ("restart", restart),
    ];
    for (name, run) in all {
        if only.as_deref().is_none_or(|only| only == name) {
            run();
        }
    }
}
