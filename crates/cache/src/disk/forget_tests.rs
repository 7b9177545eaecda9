//! Purged objects stay purged for every process that opens the folder next.

use super::{
    backlog_tests::read_faster_than_the_disk_writes,
    tests::{ALL, Ram, RamLog, ThreeUnitTier, World},
};
use crate::{DiskConfig, Outcome, Tier};
use latemux_storage::{Key, Version};
use std::{
    io,
    sync::{Arc, Mutex, Weak, atomic::Ordering::SeqCst},
};

/// Opens the contents of a device as another process would, after this one closed it or was killed.
async fn next(world: World, killed: bool) -> World {
    let ram = Ram::default();
    if !killed {
        world.cache.close().await;
    }
    for (number, log) in &*world.ram.0.files.lock().unwrap() {
        let bytes = log.bytes.lock().unwrap().clone();
        let log = RamLog { bytes: Mutex::new(bytes), switches: ram.0.switches.clone() };
        ram.0.files.lock().unwrap().insert(*number, Arc::new(log));
    }
    let next = World::with_memory(&ram, World::config(), 4 << 20);
    next.cache.recovered().await;
    next
}

#[tokio::test]
async fn purged_units_stay_purged_after_a_restart() {
    let key = Key::new("film").unwrap();
    for killed in [false, true] {
        let world = World::with_memory(&Ram::default(), World::config(), 4 << 20);
        world.read(ALL).await;
        assert_eq!(world.cache.forget("s", &key, &world.version), 200, "in memory and on disk");
        assert!(world.cache.forgotten().await);
        assert_eq!(world.cache.figures().disk_units, 0);
        let world = next(world, killed).await;
        assert_eq!(world.cache.figures().disk_units, 0, "killed: {killed}");
        // Later units are found, and a purge in another log does not remove them.
        assert_eq!(world.read(0..300_000).await, Outcome::Filled);
        for _ in 0..3 {
            let world = next(World::with_memory(&world.ram, World::config(), 4 << 20), true).await;
            assert_eq!(world.cache.figures().disk_units, 30);
            assert_eq!(world.read(0..300_000).await, Outcome::Hit(Tier::Disk));
        }
        // Another version of the object stays.
        let other = Version { modified: Some(7), ..world.version.clone() };
        world.cache.forget("s", &key, &other);
        assert!(world.cache.forgotten().await);
        assert_eq!(next(world, killed).await.cache.figures().disk_units, 30);
    }
}

#[tokio::test]
async fn queued_units_are_purged_too() {
    let world = read_faster_than_the_disk_writes().await;
    world.cache.forget("s", &Key::new("film").unwrap(), &world.version);
    world.cache.flush().await;
    let figures = world.cache.figures();
    assert_eq!((figures.disk_units, figures.cached_units), (0, 0), "{figures:?}");
    assert_eq!(next(world, true).await.cache.figures().disk_units, 0);
}

/// While the disk cannot be written, purges wait in memory. A process that starts in the meantime
/// finds the purged units again.
#[tokio::test]
async fn purges_during_a_disk_failure_are_recorded_later() {
    let key = Key::new("film").unwrap();
    for torn in [false, true] {
        let world = World::with_memory(&Ram::default(), World::config(), 4 << 20);
        world.read(0..500_000).await;
        let switches = world.ram.0.switches.clone();
        match torn {
            true => switches.torn.store(true, SeqCst),
            false => *switches.write_error.lock().unwrap() = Some(io::ErrorKind::ReadOnlyFilesystem),
        }
        assert_eq!(world.cache.forget("s", &key, &world.version), 100);
        assert!(!world.cache.forgotten().await, "the disk cannot be written");
        assert_eq!((world.cache.figures().disk_units, world.cache.figures().disk_errors), (0, 2));
        switches.torn.store(false, SeqCst);
        *switches.write_error.lock().unwrap() = None;
        world.read(900_000..ALL.end).await;
        let again = next(world, true).await;
        assert_eq!(again.cache.figures().disk_units, 10, "torn: {torn}");
        assert_eq!(again.cache.figures().disk_corrupt, 0);
    }
}

/// A log cut at any byte either contains the purge or not. If it contains the purge, no purged unit
/// is found.
#[tokio::test]
async fn a_log_with_a_purge_may_be_cut_anywhere() {
    for sealed in [false, true] {
        let ram = Ram::default();
        // The limit is large enough for one log to hold everything.
        let tier = ThreeUnitTier::with(&ram, DiskConfig::new("ram", 64 << 20)).await;
        tier.write_all().await;
        let before = ram.only().len();
        tier.disk.forget(tier.object.id);
        tier.disk.forget_on_disk(&tier.object);
        assert!(tier.disk.forgotten().await);
        let after = ram.only().len();
        tier.disk.write(&tier.object, 100, tier.expected(100..200), &Weak::new());
        tier.disk.flush().await;
        let end = ram.only().len();
        if sealed {
            tier.disk.close(None).await;
        }
        let whole = ram.only();
        for len in before..=whole.len() {
            let tier = ThreeUnitTier::over(&Ram::holding(whole[..len].to_vec())).await;
            let right = match len {
                _ if len < after => 3,
                _ if len < end => 0,
                _ => 1,
            };
            assert_eq!(tier.right(&format!("cut at {len}")).await, right, "sealed {sealed}, cut at {len}");
        }
    }
}
