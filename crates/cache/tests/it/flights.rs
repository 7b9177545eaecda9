//! Concurrent reads share one fetch.

use crate::storages::{KIB, NAME, Network, World, key, until};
use futures_util::{StreamExt, future};
use latemux_cache::{Config, Outcome, Tier};
use latemux_storage::conformance::collect;
use latemux_storage::fault::{Fault, Faulty, Gate};
use latemux_storage::{ReadRequest, Storage, Want, list_all};
use std::sync::{Arc, OnceLock};

fn roomy() -> Config {
    Config { memory: 64 << 20, unit: 100_000, bridge: 0, ..Config::default() }
}

async fn outcome(world: &World, range: std::ops::Range<u64>) -> Outcome {
    let key = key(NAME);
    let outcome = Arc::new(OnceLock::new());
    let request = ReadRequest::range(&key, range.clone()).pinned(&world.version);
    let read = world.storage.read(request.with_observer(outcome.clone())).await.unwrap();
    assert!(collect(read).await.unwrap() == world.expected(range));
    *outcome.get().unwrap()
}

#[tokio::test(start_paused = true)]
async fn only_missing_bytes_are_requested() {
    let world = World::plain(3_000_000, roomy());
    assert_eq!(outcome(&world, 1_000_000..1_250_000).await, Outcome::Filled);
    assert_eq!(outcome(&world, 1_000_000..1_250_000).await, Outcome::Hit(Tier::Memory));
    assert_eq!(outcome(&world, 1_249_999..1_250_000).await, Outcome::Hit(Tier::Memory));
    assert_eq!(world.requested(), [1_000_000..1_250_000], "adjacent units are one request");
    world.read(900_000..1_300_000).await.unwrap();
    assert_eq!(world.requested(), [900_000..1_000_000, 1_250_000..1_300_000]);
    world.read(0..3_000_000).await.unwrap();
    assert_eq!(world.requested(), [0..900_000, 1_300_000..3_000_000]);
    for start in 0..300 {
        world.read(start * 9_999..start * 9_999 + 3_001).await.unwrap();
    }
    assert_eq!(world.requested(), []);
    let figures = world.cache.figures();
    assert_eq!((figures.storage_bytes, figures.cached_bytes), (3_000_000, 3_000_000));
    assert_eq!(
        figures.cached_units,
        9 + 1 + 3 + 1 + 17,
        "units are cut at the bounds of requests and at the unit size"
    );
    assert_eq!((figures.evictions, figures.reread_bytes), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_fetch_covers_the_whole_reach() {
    let world = World::plain(3_000_000, roomy());
    let name = key(NAME);
    let version = world.version.clone();
    let within = |range: std::ops::Range<u64>, reach: std::ops::Range<u64>| {
        let read =
            world.storage.read(ReadRequest::range(&name, range.clone()).pinned(&version).with_reach(reach));
        async { assert!(collect(read.await.unwrap()).await.unwrap() == world.expected(range)) }
    };
    // First the audio in the middle of a stretch, then the range around it, which another reader's
    // fetch brings.
    within(1_100_000..1_130_000, 1_000_000..1_500_000).await;
    assert_eq!(world.requested(), [1_000_000..1_500_000]);
    until("all bytes have arrived", || world.cache.figures().cached_bytes == 500_000).await;
    within(1_000_000..1_500_000, 1_000_000..1_500_000).await;
    // The next stretch begins inside this one.
    within(1_490_000..1_600_000, 1_480_000..2_000_000).await;
    assert_eq!(world.requested(), [1_500_000..2_000_000]);
    until("all bytes have arrived", || world.cache.figures().cached_bytes == 1_000_000).await;
    // All bytes are cached, so the reach has no effect.
    within(1_200_000..1_300_000, 0..3_000_000).await;
    assert_eq!(world.requested(), []);
    // A reach that does not contain the range or leaves the object is ignored.
    within(0..10, 5..100).await;
    within(10..20, 0..9_000_000).await;
    assert_eq!(world.requested(), [0..10, 10..20]);
}

#[tokio::test(start_paused = true)]
async fn a_fetch_of_a_reach_completes_without_its_reader() {
    let gate = Gate::new();
    let world = World::new(400_000, roomy(), |inner| {
        let script = [Fault::WaitAfter(150_000, gate.clone())];
        Arc::new(Network::new(Arc::new(Faulty::scripted(inner, script)), 10_000, 8))
    });
    let key = key(NAME);
    let request = ReadRequest::range(&key, 0..50_000).pinned(&world.version).with_reach(0..400_000);
    let read = world.storage.read(request).await.unwrap();
    drop(read);
    gate.open();
    until("all bytes have arrived", || world.cache.figures().cached_bytes == 400_000).await;
    world.read(0..400_000).await.unwrap();
    assert_eq!(world.requested(), [0..400_000]);
}

#[tokio::test(start_paused = true)]
async fn a_hit_comes_in_few_frames() {
    let world = World::plain(300_000, roomy());
    world.read(0..300_000).await.unwrap();
    let frames: Vec<_> = world.open(50_000..300_000).await.unwrap().body.collect().await;
    assert_eq!(
        frames.iter().map(|frame| frame.as_ref().unwrap().len()).collect::<Vec<_>>(),
        [50_000, 100_000, 100_000]
    );
}

#[tokio::test(start_paused = true)]
async fn a_small_unit_between_gaps_is_read_again() {
    let world = World::plain(100_000, Config { bridge: 2000, ..roomy() });
    for known in [10_000..12_000, 30_000..32_001] {
        world.read(known).await.unwrap();
    }
    let _ = world.requested();
    world.read(0..50_000).await.unwrap();
    assert_eq!(world.requested(), [0..30_000, 32_001..50_000]);
    assert_eq!(world.cache.figures().reread_bytes, 2000);
    assert_eq!(world.cache.figures().cached_bytes, 50_000);
}

#[tokio::test(start_paused = true)]
async fn two_hundred_readers_are_one_request() {
    let world = World::plain(350_000, roomy());
    future::join_all((0..200).map(|_| world.read(0..350_000))).await.into_iter().for_each(Result::unwrap);
    assert_eq!(world.requested(), [0..350_000]);
    let figures = world.cache.figures();
    assert_eq!((figures.filled, figures.joined, figures.storage_bytes), (1, 199, 350_000));
    assert_eq!(figures.bytes_storage, 200 * 350_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_of_overlapping_ranges_on_many_threads_share_every_byte() {
    let world = Arc::new(World::plain(1_000_000, roomy()));
    let readers = (0..200_u64).map(|n| {
        let world = world.clone();
        tokio::spawn(async move { world.read(n * 1000..n * 1000 + 800_000).await })
    });
    for reader in future::join_all(readers).await {
        reader.unwrap().unwrap();
    }
    let figures = world.cache.figures();
    assert_eq!((figures.storage_bytes, figures.cached_bytes), (999_000, 999_000));
}

#[tokio::test(start_paused = true)]
async fn bytes_are_passed_on_as_they_arrive() {
    let gate = Gate::new();
    let world = World::new(400_000, roomy(), |inner| {
        let script = [Fault::WaitAfter(150_000, gate.clone())];
        Arc::new(Network::new(Arc::new(Faulty::scripted(inner, script)), 10_000, 8))
    });
    let mut leader = world.open(0..400_000).await.unwrap();
    let mut follower = world.open(40_000..400_000).await.unwrap();
    for (read, from) in [(&mut leader, 0), (&mut follower, 40_000)] {
        let mut at = from;
        while at < 150_000 {
            let frame = read.body.next().await.unwrap().unwrap();
            at += frame.len() as u64;
        }
        assert_eq!(at, 150_000, "all bytes that have arrived");
    }
    gate.open();
    assert!(collect(leader).await.unwrap() == world.expected(150_000..400_000));
    assert!(collect(follower).await.unwrap() == world.expected(150_000..400_000));
    assert_eq!(world.requested().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_first_reader_may_leave() {
    for whole_answer in [false, true] {
        let gate = Gate::new();
        let fault =
            if whole_answer { Fault::Wait(gate.clone()) } else { Fault::WaitAfter(150_000, gate.clone()) };
        let world =
            Arc::new(World::new(400_000, roomy(), |inner| Arc::new(Faulty::scripted(inner, [fault]))));
        let leader = tokio::spawn({
            let world = world.clone();
            async move { world.read(0..400_000).await }
        });
        gate.reached(1).await;
        let follower = tokio::spawn({
            let world = world.clone();
            async move { world.read(100_000..390_000).await }
        });
        until("the follower waits", || world.cache.figures().joined == 1).await;
        leader.abort();
        assert!(leader.await.is_err());
        gate.open();
        follower.await.unwrap().unwrap();
        assert_eq!(world.requested(), [0..400_000]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_current_unit_is_completed_when_all_readers_have_left() {
    let gate = Gate::new();
    let world = World::new(1_000_000, roomy(), |inner| {
        let script = [Fault::WaitAfter(150_000, gate.clone())];
        Arc::new(Network::new(Arc::new(Faulty::scripted(inner, script)), 10_000, 1))
    });
    let reader = world.open(0..1_000_000).await.unwrap();
    gate.reached(1).await;
    drop(reader);
    gate.open();
    until("the fetch is given up", || world.cache.figures().abandoned == 1).await;
    let figures = world.cache.figures();
    assert_eq!((figures.cached_bytes, figures.storage_bytes), (200_000, 200_000));
    // The only connection is free again, and the missing range is a gap.
    world.read(0..300_000).await.unwrap();
    assert_eq!(world.requested(), [0..1_000_000, 200_000..300_000]);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_does_not_delay_others() {
    let world = World::new(1_000_000, roomy(), |inner| Arc::new(Network::new(inner, 10_000, 1)));
    let mut slow = world.open(0..1_000_000).await.unwrap();
    let first = slow.body.next().await.unwrap().unwrap();
    until("all bytes are cached", || world.cache.figures().cached_bytes == 1_000_000).await;
    world.read(0..1_000_000).await.unwrap();
    assert!(collect(slow).await.unwrap() == world.expected(first.len() as u64..1_000_000));
    assert_eq!(world.requested().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn fetches_stay_within_the_window_of_a_slow_reader() {
    let world = World::plain(
        20_000_000,
        Config { memory: 8 << 20, unit: 100_000, window: 1 << 20, ..Config::default() },
    );
    let mut slow = world.open(0..20_000_000).await.unwrap();
    let mut at = slow.body.next().await.unwrap().unwrap().len() as u64;
    until("the window is full", || world.cache.figures().cached_bytes >= 1 << 20).await;
    for _ in 0..10_000 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.cache.figures().storage_bytes, 1 << 20);
    while at < 700_000 {
        at += slow.body.next().await.unwrap().unwrap().len() as u64;
    }
    // Half of the window has been read: more is requested before the other half is read.
    until("more is requested", || world.cache.figures().storage_requests == 2).await;
    while let Some(frame) = slow.body.next().await {
        let frame = frame.unwrap();
        assert!(frame == world.expected(at..at + frame.len() as u64));
        at += frame.len() as u64;
        assert!(world.cache.figures().storage_bytes <= at + (1 << 20));
    }
    assert_eq!(world.cache.figures().storage_bytes, 20_000_000);
}

/// A deadlock seen in another server: at 90 clients, all its threads waited for a cache that the
/// same threads had to serve.
async fn many_cold_requests_over_few_connections(memory: u64) {
    let config = Config { memory, unit: 64 * KIB, ..Config::default() };
    let world = Arc::new(World::new(2000 * 10_000, config, |inner| Arc::new(Network::new(inner, 10_000, 8))));
    let readers = (0..2000_u64).map(|n| {
        let world = world.clone();
        let start = n * 7919 % 2000 * 10_000;
        tokio::spawn(async move { world.read(start..(start + 100_000).min(20_000_000)).await })
    });
    for reader in future::join_all(readers).await {
        reader.unwrap().unwrap();
    }
    assert!(world.cache.figures().memory_bytes <= memory.max(4 << 20));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_cold_requests_over_eight_connections_end() {
    many_cold_requests_over_few_connections(64 << 20).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_cold_requests_end_with_little_memory() {
    many_cold_requests_over_few_connections(1 << 20).await;
}

#[tokio::test(start_paused = true)]
async fn other_reads_bypass_the_cache() {
    let world = World::plain(1000, roomy());
    let key = key(NAME);
    let collected = async |want, pin| {
        let outcome = Arc::new(OnceLock::new());
        let request = ReadRequest::new(&key, want).pinned_to(pin).with_observer(outcome.clone());
        let read = world.storage.read(request).await.unwrap();
        let outcome = *outcome.get().unwrap();
        let Outcome::Bypassed(reason) = outcome else { panic!("{outcome:?}") };
        assert_eq!(outcome.name(), "bypassed");
        (collect(read).await.unwrap().len(), reason)
    };
    let pin = Some(&world.version);
    assert_eq!(collected(Want::Head(10), pin).await, (10, "head"));
    assert_eq!(collected(Want::Range(0..9), None).await, (9, "unpinned"));
    assert_eq!(collected(Want::Range(9..9), pin).await, (0, "range"));
    assert!(list_all(&world.storage, &latemux_storage::Key::root(), 10).await.is_ok());
    assert_eq!(world.counting.take().len(), 4);
    let nameless = latemux_storage::Version { etag: None, ..world.version.clone() };
    assert!(
        world.storage.read(ReadRequest::range(&key, 0..9).pinned(&nameless)).await.is_err(),
        "another version"
    );
    let figures = world.cache.figures();
    assert_eq!((figures.bypassed_version, figures.requests(), figures.memory_bytes), (1, 4, 0));
}
