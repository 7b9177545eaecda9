//! What is on disk is there after a restart, however the process ended.

use crate::storages::{NAME, Network, World, key, until};
use latemux_cache::{Cache, Config, Outcome, Tier};
use latemux_storage::conformance::collect;
use latemux_storage::{Storage, Want};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const LEN: u64 = 1_000_000;

fn config(dir: &Path) -> Config {
    let dir = Some(dir.to_owned());
    Config { memory: 16 << 20, dir, disk: 64 << 20, unit: 100_000, bridge: 0, ..Config::default() }
}

fn world(dir: &Path) -> World {
    World::new(LEN, config(dir), |inner| Arc::new(Network::new(inner, 30_000, 8)))
}

/// Waits until all that was fetched has been written.
async fn settle(cache: &Cache) {
    until("fetches end", || cache.figures().fetches == 0).await;
    cache.flush().await;
}

async fn outcome(world: &World) -> Outcome {
    let want = Want::Range(0..LEN);
    let (read, outcome) = world.storage.read_and_tell(&key(NAME), want, Some(&world.version)).await.unwrap();
    assert!(collect(read).await.unwrap() == world.content);
    outcome
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_disk_is_asked() {
    let dir = tempfile::tempdir().unwrap();
    let first = world(dir.path());
    assert_eq!(outcome(&first).await, Outcome::Filled);
    settle(&first.cache).await;
    first.cache.close().await;
    let files = || std::fs::read_dir(dir.path()).unwrap().count();
    let before = files();
    for _ in 0..3 {
        let again = world(dir.path());
        again.cache.recovered().await;
        // Cut elsewhere than before.
        again.read(55_555..177_777).await.unwrap();
        assert_eq!(outcome(&again).await, Outcome::Hit(Tier::Disk));
        assert_eq!(outcome(&again).await, Outcome::Hit(Tier::Memory), "it is in memory now");
        assert_eq!(again.asked(), []);
        let figures = again.cache.figures();
        assert_eq!((figures.cached_bytes, figures.disk_units, figures.disk_written), (LEN, 10, 0));
        assert_eq!(figures.bytes_disk, LEN, "each byte once");
        again.cache.close().await;
        assert_eq!(files(), before, "starts make no files");
    }
}

#[tokio::test(start_paused = true)]
async fn an_end_waits_for_what_is_being_fetched() {
    let dir = tempfile::tempdir().unwrap();
    let first = world(dir.path());
    // What its reader wanted is a part of what is fetched for it.
    let read = first.storage.read_within(&key(NAME), 0..10, 0..LEN, &first.version).await.unwrap();
    drop(read);
    assert!(first.cache.figures().fetches > 0);
    first.cache.close_within(Duration::from_secs(60)).await;
    let again = world(dir.path());
    again.cache.recovered().await;
    assert_eq!(outcome(&again).await, Outcome::Hit(Tier::Disk));
    assert_eq!(again.asked(), []);
    again.cache.close().await;
}

#[tokio::test(start_paused = true)]
async fn what_was_forgotten_is_asked_of_storage_after_a_restart() {
    for killed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let first = world(dir.path());
        first.read(0..LEN).await.unwrap();
        settle(&first.cache).await;
        assert_eq!(first.cache.forget("test", &key(NAME), &first.version), 20);
        assert!(first.cache.forgotten().await);
        // What a process that is killed leaves is what is there now.
        let left = copy(dir.path());
        first.cache.close().await;
        let again = world(if killed { left.path() } else { dir.path() });
        again.cache.recovered().await;
        assert_eq!(again.cache.figures().disk_units, 0, "killed: {killed}");
        assert_eq!(outcome(&again).await, Outcome::Filled);
        again.cache.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn another_storage_or_version_finds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let first = world(dir.path());
    first.read(0..LEN).await.unwrap();
    settle(&first.cache).await;
    let other = first.cache.around(first.counting.clone(), "other");
    let read = other.read(&key(NAME), Want::Range(0..LEN), Some(&first.version)).await.unwrap();
    assert!(collect(read).await.unwrap() == first.content);
    assert_eq!(first.asked().len(), 2);
    first.cache.close().await;
}

#[tokio::test(start_paused = true)]
async fn one_process_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let first = Cache::open(config(dir.path())).unwrap();
    let error = Cache::open(config(dir.path())).unwrap_err();
    assert!(error.to_string().contains("another process"), "{error}");
    first.close().await;
    Cache::open(config(dir.path())).unwrap().close().await;
}

/// A process that was killed leaves its files as they were at that moment.
#[tokio::test(start_paused = true)]
async fn killed_at_any_moment() {
    let dir = tempfile::tempdir().unwrap();
    let first = world(dir.path());
    let mut moments = Vec::new();
    for part in 0..10 {
        first.read(part * 100_000..(part + 1) * 100_000).await.unwrap();
        // While the writer is at work.
        // The writer is at work, or not yet.
        moments.push(copy(dir.path()));
        until("it is written", || first.cache.figures().disk_written > part).await;
        moments.push(copy(dir.path()));
    }
    settle(&first.cache).await;
    moments.push(copy(dir.path()));
    let mut most = 0;
    for moment in moments {
        let again = world(moment.path());
        again.cache.recovered().await;
        let units = again.cache.figures().disk_units;
        assert!(units >= most, "{units} units after {most}");
        most = units;
        again.read(0..LEN).await.unwrap();
        let figures = again.cache.figures();
        assert_eq!(figures.storage_bytes, LEN - units * 100_000, "{figures:?}");
        assert_eq!(figures.disk_corrupt, 0);
        settle(&again.cache).await;
        again.cache.close().await;
        // And it went on writing where the other had stopped.
        let once_more = world(moment.path());
        once_more.cache.recovered().await;
        assert_eq!(once_more.cache.figures().disk_units, 10);
        once_more.read(0..LEN).await.unwrap();
        assert_eq!(once_more.cache.figures().storage_bytes, 0);
        once_more.cache.close().await;
    }
    assert_eq!(most, 10);
    first.cache.close().await;
}

fn copy(from: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.path().join(entry.file_name())).unwrap();
    }
    to
}

#[tokio::test(start_paused = true)]
async fn a_removed_folder_is_survived() {
    let dir = tempfile::tempdir().unwrap();
    let world = world(dir.path());
    world.read(0..LEN / 2).await.unwrap();
    settle(&world.cache).await;
    dir.close().unwrap();
    world.read(0..LEN).await.unwrap();
    settle(&world.cache).await;
    world.cache.close().await;
    world.read(0..LEN).await.unwrap();
}
