//! Units for which the queue to the disk had no room, and what happens to them when the cache
//! closes.

use super::{
    record::read_contents,
    tests::{ALL, Ram, World},
};
use crate::{DiskConfig, Outcome, Tier};
use futures_util::poll;
use latemux_storage::{Key, ReadRequest, Storage, conformance};
use std::{
    pin::pin,
    time::{Duration, Instant},
};

/// Returns a world whose object was read while the disk was too slow to write it. All of it is in
/// memory.
#[expect(
    clippy::await_holding_lock,
    reason = "keeps the writer's thread waiting; this thread does not need the lock"
)]
pub(super) async fn read_faster_than_the_disk_writes() -> World {
    let ram = Ram::default();
    let _files = ram.0.files.lock().unwrap();
    read_while_the_disk_hangs(&ram).await
}

/// Reads the whole object into memory. The caller holds `ram`'s files, so the writer's thread
/// waits.
async fn read_while_the_disk_hangs(ram: &Ram) -> World {
    let config = DiskConfig { queue: 50_000, ..World::config() };
    let world = World::with_memory(ram, config, 4 << 20);
    let key = Key::new("film").unwrap();
    let read = world.storage.read(ReadRequest::range(&key, ALL).pinned(&world.version)).await.unwrap();
    assert!(conformance::collect(read).await.unwrap() == world.content);
    while world.cache.figures().fetches > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.cache.figures().disk_units, 0);
    world
}

async fn written(world: &World, units: u64) {
    let begun = Instant::now();
    while world.cache.figures().disk_written < units {
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", world.cache.figures());
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn backlog_is_written_when_the_disk_is_idle() {
    let world = read_faster_than_the_disk_writes().await;
    written(&world, 100).await;
    let figures = world.cache.figures();
    assert_eq!((figures.disk_units, figures.disk_dropped()), (100, 0), "{figures:?}");
    world.cache.flush().await;
    assert_eq!(world.cache.figures().memory_bytes, figures.memory_bytes, "evicted entries are not counted");
    // Units from the backlog are recovered like units from the queue.
    world.cache.close().await;
    let again = World::new(&world.ram, World::config());
    again.cache.recovered().await;
    assert_eq!(again.read(ALL).await, Outcome::Hit(Tier::Disk));
    assert_eq!(again.cache.figures().disk_corrupt, 0);
}

#[tokio::test]
async fn an_idle_disk_writes_the_backlog_without_a_queue() {
    // The queue takes nothing.
    let config = DiskConfig { queue: 0, ..World::config() };
    let world = World::with_memory(&Ram::default(), config, 4 << 20);
    let key = Key::new("film").unwrap();
    let read = world.storage.read(ReadRequest::range(&key, ALL).pinned(&world.version)).await.unwrap();
    assert!(conformance::collect(read).await.unwrap() == world.content);
    written(&world, 100).await;
    assert_eq!(world.cache.figures().disk_dropped(), 0);
}

#[tokio::test]
async fn closing_writes_the_backlog() {
    let world = read_faster_than_the_disk_writes().await;
    world.cache.close_within(Duration::from_secs(60)).await;
    let figures = world.cache.figures();
    assert_eq!((figures.disk_written, figures.disk_dropped()), (100, 0), "{figures:?}");
    let again = World::new(&world.ram, World::config());
    again.cache.recovered().await;
    assert_eq!(again.read(ALL).await, Outcome::Hit(Tier::Disk));
    assert_eq!(again.cache.figures().storage_requests, 0);
}

#[tokio::test]
#[expect(
    clippy::await_holding_lock,
    reason = "keeps the writer's thread waiting; this thread does not need the lock"
)]
async fn closing_ends_in_time_with_a_long_backlog() {
    let ram = Ram::default();
    let files = ram.0.files.lock().unwrap();
    let world = read_while_the_disk_hangs(&ram).await;
    let mut closing = pin!(world.cache.close_within(Duration::ZERO));
    assert!(poll!(&mut closing).is_pending(), "waits for the writer");
    drop(files);
    closing.await;
    let figures = world.cache.figures();
    assert_eq!(figures.disk_written + figures.disk_dropped_closed, 100, "{figures:?}");
    assert!(figures.disk_dropped_closed > 0, "{figures:?}");
    // The log is complete as far as it goes.
    for log in world.ram.0.files.lock().unwrap().values() {
        assert!(read_contents(&**log).unwrap().unwrap().sealed);
    }
}

#[tokio::test]
#[expect(
    clippy::await_holding_lock,
    reason = "keeps the writer's thread waiting; this thread does not need the lock"
)]
async fn closing_does_not_wait_for_a_disk_that_hangs() {
    let world = read_faster_than_the_disk_writes().await;
    world.cache.flush().await;
    world.cache.purge("s", &Key::new("film").unwrap(), &world.version);
    let files = world.ram.0.files.lock().unwrap();
    let logs: Vec<_> = files.values().cloned().collect();
    let held: Vec<_> = logs.iter().map(|log| log.bytes.lock().unwrap()).collect();
    let read =
        world.storage.read(ReadRequest::range(&Key::new("film").unwrap(), ALL).pinned(&world.version)).await;
    assert!(conformance::collect(read.unwrap()).await.unwrap() == world.content);
    world.cache.close_within(Duration::from_millis(1)).await;
    assert_eq!(world.cache.figures().disk_written, 100, "no later unit was written");
    drop((held, files));
}
