//! Memory stays within its budget.

use crate::storages::{KIB, NAME, Network, World, key};
use futures_util::{StreamExt, future};
use latemux_cache::Config;
use latemux_storage::{ReadRequest, Storage};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

const BUDGET: u64 = 512 * KIB;
const UNIT: u64 = 16 * KIB;

fn config() -> Config {
    Config { memory: BUDGET, unit: UNIT, ..Config::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn fifty_times_the_budget_passes_through_it() {
    let world = Arc::new(World::new(60 * BUDGET, config(), |inner| Arc::new(Network::new(inner, 4_000, 64))));
    // A second storage without the delay of one second for each request.
    let storage = world.cache.around(Arc::new(Network::new(world.memory.clone(), 4_000, 64)), "fast");
    let most = Arc::new(AtomicU64::new(0));
    let readers = (0..16_u64).map(|reader| {
        let world = world.clone();
        let storage = storage.clone();
        let most = most.clone();
        tokio::spawn(async move {
            for step in 0..40_u64 {
                let start = (reader * 40 + step) * 48_000 % (60 * BUDGET - 50_000);
                let range = start..start + 50_000 - reader * 100;
                let mut read =
                    storage.read(ReadRequest::range(&key(NAME), range).pinned(&world.version)).await.unwrap();
                let mut at = start;
                while let Some(frame) = read.body.next().await {
                    let frame = frame.unwrap();
                    assert!(frame == world.expected(at..at + frame.len() as u64));
                    at += frame.len() as u64;
                    most.fetch_max(world.cache.figures().memory_bytes, SeqCst);
                }
            }
        })
    });
    for reader in future::join_all(readers).await {
        reader.unwrap();
    }
    let figures = world.cache.figures();
    let most = most.load(SeqCst);
    assert!(figures.storage_bytes > 50 * BUDGET, "{figures:?}");
    assert!(most <= BUDGET + BUDGET / 10, "{most} bytes at a time");
    assert!(most > BUDGET * 8 / 10, "{most}: the budget is used");
    assert!(figures.evictions > 1000 && figures.evicted_bytes > 40 * BUDGET);
    assert!(figures.cached_bytes <= figures.memory_bytes && figures.memory_bytes <= BUDGET);
}

#[tokio::test(start_paused = true)]
async fn bytes_held_by_readers_count() {
    let world = World::plain(40 * BUDGET, config());
    // Each reader holds a unit: together, one and a half times the budget.
    let mut held = Vec::new();
    for reader in 0..48 {
        let start = reader * UNIT;
        world.read(start..start + UNIT).await.unwrap();
        let mut read = world.open(start..start + UNIT).await.unwrap();
        held.push((start, read.body.next().await.unwrap().unwrap()));
    }
    for step in 100..400 {
        world.read(step * 25_000..step * 25_000 + 25_000).await.unwrap();
        let figures = world.cache.figures();
        assert!(figures.memory_bytes <= 48 * UNIT + BUDGET / 2 + 4 * UNIT, "{figures:?}");
        assert!(figures.cached_bytes > BUDGET / 4, "slow readers do not empty the cache: {figures:?}");
    }
    for (start, bytes) in held {
        assert!(bytes == world.expected(start..start + UNIT));
    }
    assert!(world.cache.figures().memory_bytes <= BUDGET, "the bytes are freed");
}

#[tokio::test(start_paused = true)]
async fn repeated_ranges_survive_a_scan() {
    let world = World::plain(20 * BUDGET, config());
    let hot = |n: u64| n * 12_000..(n + 1) * 12_000;
    for _ in 0..3 {
        for n in 0..10 {
            world.read(hot(n)).await.unwrap();
        }
    }
    let _ = world.requested();
    for step in 20..400_u64 {
        world.read(step * 25_000..(step + 1) * 25_000).await.unwrap();
        if step % 20 == 0 {
            let _ = world.requested();
            for n in 0..10 {
                world.read(hot(n)).await.unwrap();
            }
            assert_eq!(world.requested(), [], "at step {step}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_cache_without_memory_keeps_nothing() {
    let world = World::plain(1_000_000, Config { memory: 0, ..config() });
    for _ in 0..2 {
        world.read(0..1_000_000).await.unwrap();
    }
    let figures = world.cache.figures();
    assert_eq!((figures.memory_bytes, figures.cached_units), (0, 0), "{figures:?}");
    assert_eq!(figures.storage_bytes, 2_000_000, "without room, each reader fetches exactly what it reads");
}
