//! Units on disk are found after a restart, however the process ended.

use crate::storages::{NAME, Network, World, key, until};
use latemux_cache::{Cache, Config, Outcome, Tier};
use latemux_storage::conformance::collect;
use latemux_storage::{ReadRequest, Storage};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

const LEN: u64 = 1_000_000;

fn config(dir: &Path) -> Config {
    let dir = Some(dir.to_owned());
    Config { memory: 16 << 20, dir, disk: 64 << 20, unit: 100_000, bridge: 0, ..Config::default() }
}

fn world(dir: &Path) -> World {
    World::new(LEN, config(dir), |inner| Arc::new(Network::new(inner, 30_000, 8)))
}

/// Waits until all fetched bytes have been written.
async fn settle(cache: &Cache) {
    until("fetches end", || cache.figures().fetches == 0).await;
    cache.flush().await;
}

async fn outcome(world: &World) -> Outcome {
    let key = key(NAME);
    let outcome = Arc::new(OnceLock::new());
    let request = ReadRequest::range(&key, 0..LEN).pinned(&world.version);
    let read = world.storage.read(request.with_observer(outcome.clone())).await.unwrap();
    assert!(collect(read).await.unwrap() == world.content);
    *outcome.get().unwrap()
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_disk_is_read() {
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
        // The range is cut differently than before.
        again.read(55_555..177_777).await.unwrap();
        assert_eq!(outcome(&again).await, Outcome::Hit(Tier::Disk));
        assert_eq!(outcome(&again).await, Outcome::Hit(Tier::Memory), "the object is in memory now");
        assert_eq!(again.requested(), []);
        let figures = again.cache.figures();
        assert_eq!((figures.cached_bytes, figures.disk_units, figures.disk_written), (LEN, 10, 0));
        assert_eq!(figures.bytes_disk, LEN, "each byte was read once");
        again.cache.close().await;
        assert_eq!(files(), before, "restarts create no files");
    }
}

#[tokio::test(start_paused = true)]
async fn closing_waits_for_running_fetches() {
    let dir = tempfile::tempdir().unwrap();
    let first = world(dir.path());
    // The reader wants only a part of what is fetched for it.
    let key = key(NAME);
    let request = ReadRequest::range(&key, 0..10).pinned(&first.version).with_reach(0..LEN);
    let read = first.storage.read(request).await.unwrap();
    drop(read);
    assert!(first.cache.figures().fetches > 0);
    first.cache.close_within(Duration::from_secs(60)).await;
    let again = world(dir.path());
    again.cache.recovered().await;
    assert_eq!(outcome(&again).await, Outcome::Hit(Tier::Disk));
    assert_eq!(again.requested(), []);
    again.cache.close().await;
}

#[tokio::test(start_paused = true)]
async fn purged_objects_come_from_storage_after_a_restart() {
    for killed in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let first = world(dir.path());
        first.read(0..LEN).await.unwrap();
        settle(&first.cache).await;
        assert_eq!(first.cache.purge("test", &key(NAME), &first.version), 20);
        assert!(first.cache.purges_recorded().await);
        // A process that is killed leaves the current files.
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
    let read = other.read(ReadRequest::range(&key(NAME), 0..LEN).pinned(&first.version)).await.unwrap();
    assert!(collect(read).await.unwrap() == first.content);
    assert_eq!(first.requested().len(), 2);
    first.cache.close().await;
}

#[tokio::test(start_paused = true)]
async fn only_one_process_may_use_the_folder() {
    let dir = tempfile::tempdir().unwrap();
    let first = Cache::open(config(dir.path())).unwrap();
    let error = Cache::open(config(dir.path())).unwrap_err();
    assert!(error.to_string().contains("another process"), "{error}");
    first.close().await;
    Cache::open(config(dir.path())).unwrap().close().await;
}

/// A process that was killed leaves its files as they were at that moment.
#[tokio::test(start_paused = true)]
async fn a_process_may_be_killed_at_any_moment() {
    let dir = tempfile::tempdir().unwrap();
    let first = world(dir.path());
    let mut moments = Vec::new();
    for part in 0..10 {
        first.read(part * 100_000..(part + 1) * 100_000).await.unwrap();
        // The writer may or may not have started by now.
        moments.push(copy(dir.path()));
        until("the unit is written", || first.cache.figures().disk_written > part).await;
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
        // The next process continued where the killed one had stopped.
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
async fn reads_succeed_after_the_folder_is_removed() {
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
