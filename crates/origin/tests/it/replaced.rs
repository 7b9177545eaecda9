//! Objects replaced while they are played, through cache and origin: an answer is of one version or none, and what comes next is
//! of the new one.

use crate::{
    rig::{Got, Oracle, Rig, TIERS, library_with, relabelled, relabelled_from},
    server::{key, library, sample},
};
use bytes::Bytes;
use futures_util::future::join_all;
use latemux_origin::{OriginConfig, config::Reach};
use latemux_storage::{
    Options, StorageError, Want,
    fault::{Fault, Gate},
};
use latemux_testmedia::rewrite::{Variant, progressive};
use std::time::Duration;

/// A title, the object of it that is replaced, and what by: of the same size with the same index, or with every sample elsewhere.
async fn cases() -> Vec<(&'static str, &'static str, Bytes)> {
    let mut cases = Vec::new();
    for (title, name) in [("lighthouse.mp4", "lighthouse.mp4"), ("harbour", "harbour/video-360p.mp4")] {
        let same_index = relabelled(&sample(name), 1).await;
        let moved = progressive(&same_index, Variant { wide_mdat: true, co64: true, ..Variant::default() });
        assert_ne!(moved.len(), same_index.len());
        cases.extend([(title, name, same_index), (title, name, moved.into())]);
    }
    cases
}

async fn oracle(title: &str, name: &str, new: &Bytes) -> Oracle {
    Oracle::of(&[library(), library_with(name, new.clone())], &[title]).await
}

#[tokio::test(start_paused = true)]
async fn between_index_and_segment() {
    for (title, name, new) in cases().await {
        let oracle = oracle(title, name, &new).await;
        for tiers in TIERS {
            let mut rig = Rig::new(tiers, library());
            let changes: Vec<_> =
                oracle.some().into_iter().filter(|url| oracle.0[url][0] != oracle.0[url][1]).collect();
            assert!(changes.len() > 1, "{title}");
            assert_eq!(rig.manifest(title).await, 200);
            // Of one segment the old bytes are known.
            assert_eq!(rig.get(&oracle, &changes[0]).await, Got::Right(0));
            rig.idle().await;
            rig.memory.put(key(name), new.clone());
            // Storage says that it changed before the head of the answer is sent: it is indexed anew, and what was known forgotten.
            let others: Vec<_> =
                oracle.urls().filter(|url| oracle.0[*url][0] != oracle.0[*url][1]).cloned().collect();
            for url in others.iter().rev().chain([&changes[0]]) {
                assert_eq!(rig.get(&oracle, url).await, Got::Right(1), "{tiers:?} {url}");
            }
            rig.is_sound(&oracle, &[title], 1).await;
        }
    }
}

/// What is cached whole is right for who plays the old version; a manifest leads to the new one.
#[tokio::test(start_paused = true)]
async fn what_is_known_of_the_old_version_is_served_until_a_manifest_is_asked_for() {
    let (title, name, new) = cases().await.remove(0);
    let oracle = oracle(title, name, &new).await;
    let urls: Vec<_> = oracle.urls().cloned().collect();
    for tiers in TIERS {
        let mut rig = Rig::new(tiers, library());
        for _ in 0..2 {
            for url in &urls {
                assert_eq!(rig.get(&oracle, url).await, Got::Right(0));
            }
            rig.idle().await;
            rig.memory.put(key(name), new.clone());
        }
        assert_eq!(rig.manifest(title).await, 200);
        for url in &urls {
            let right = oracle.version(url, &oracle.0[url][1]);
            assert_eq!(rig.get(&oracle, url).await, Got::Right(right), "{tiers:?} {url}");
        }
        rig.is_sound(&oracle, &[title], 1).await;
    }
}

/// What tells segments apart in a cache of finished ones must tell versions apart: index, size and first bytes are the same here.
#[tokio::test(start_paused = true)]
async fn by_one_that_differs_in_the_middle_only() {
    let (title, name) = ("lighthouse.mp4", "lighthouse.mp4");
    let new = relabelled_from(&sample(name), 100_000, 1).await;
    let oracle = oracle(title, name, &new).await;
    let urls: Vec<_> = oracle.urls().cloned().collect();
    let mut config = OriginConfig { recheck_after: Duration::ZERO, ..crate::server::config() };
    config.memory.segments = 8 << 20;
    for tiers in TIERS {
        let mut rig = Rig::with(tiers, library(), Options::default(), config.clone(), |_| {});
        for _ in 0..2 {
            assert!(rig.get_all(&oracle, &urls).await.iter().all(|got| *got == Got::Right(0)));
            rig.idle().await;
        }
        rig.memory.put(key(name), new.clone());
        rig.is_sound(&oracle, &[title], 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn between_two_ranges_of_one_segment() {
    let mut seen = Vec::new();
    for (title, name, new) in cases().await {
        let oracle = oracle(title, name, &new).await;
        for tiers in TIERS {
            let mut config = OriginConfig { recheck_after: Duration::ZERO, ..crate::server::config() };
            (config.read.gap, config.read.reach, config.read.open) = (0, Reach::Exact, 1);
            for url in oracle.some() {
                let mut rig = Rig::with(tiers, library(), Options::default(), config.clone(), |cache| {
                    cache.bridge = 0;
                });
                assert_eq!(rig.manifest(title).await, 200);
                let (mut reads, memory, other) = (0, rig.memory.clone(), new.clone());
                rig.storm.set(move |_, want| {
                    reads += usize::from(matches!(want, Some(Want::Range(_))));
                    if reads == 2 {
                        memory.put(key(name), other.clone());
                    }
                    Fault::None
                });
                let got = rig.get(&oracle, &url).await;
                assert!(matches!(got, Got::Right(_) | Got::Aborted), "{url}: {got:?}");
                seen.push(got);
                rig.memory.put(key(name), new.clone());
                rig.is_sound(&oracle, &[title], 1).await;
            }
        }
    }
    assert!(seen.contains(&Got::Aborted) && seen.iter().any(Got::is_right), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn while_a_flight_is_filling() {
    for (title, name, new) in cases().await {
        let oracle = oracle(title, name, &new).await;
        for tiers in TIERS {
            for url in oracle.some() {
                if oracle.0[&url][0] == oracle.0[&url][1] {
                    continue;
                }
                // Room for two fetches at a time.
                let config = OriginConfig { recheck_after: Duration::ZERO, ..crate::server::config() };
                let mut rig = Rig::with(tiers, library(), Options::default(), config, |cache| {
                    cache.memory = cache.memory.max(2 << 20);
                });
                assert_eq!(rig.manifest(title).await, 200);
                let gate = Gate::new();
                let (held, object) = (gate.clone(), key(name));
                let mut held_once = false;
                rig.storm.set(move |key, want| {
                    let holds = *key == object && matches!(want, Some(Want::Range(_))) && !held_once;
                    held_once |= holds;
                    if holds { Fault::WaitAfter(5_000, held.clone()) } else { Fault::None }
                });
                // Storage holds on to what it opened; who comes after the change is told of it, and gets the new version meanwhile.
                let memory = rig.memory.clone();
                let replaced = async {
                    gate.reached(1).await;
                    memory.put(key(name), new.clone());
                    assert_eq!(rig.manifest(title).await, 200);
                    let got = rig.get(&oracle, &url).await;
                    gate.open();
                    got
                };
                let early = join_all((0..5).map(|_| rig.get(&oracle, &url)));
                let (early, late) = futures_util::future::join(early, replaced).await;
                assert!(early.iter().all(|got| *got == Got::Right(0)), "{tiers:?} {url}: {early:?}");
                assert_eq!(late, Got::Right(1), "{tiers:?} {url}");
                rig.is_sound(&oracle, &[title], 1).await;
            }
        }
    }
}

/// The answer has begun with the old bytes when storage says that there are no more of them.
#[tokio::test(start_paused = true)]
async fn in_the_middle_of_a_body() {
    for (title, name, new) in cases().await {
        let oracle = oracle(title, name, &new).await;
        for tiers in TIERS {
            for url in oracle.some() {
                if oracle.0[&url][0] == oracle.0[&url][1] {
                    continue;
                }
                let mut rig = Rig::new(tiers, library());
                assert_eq!(rig.manifest(title).await, 200);
                let (memory, new, object) = (rig.memory.clone(), new.clone(), key(name));
                let mut once = false;
                rig.storm.set(move |key, want| {
                    if once || *key != object || !matches!(want, Some(Want::Range(_))) {
                        return Fault::None;
                    }
                    once = true;
                    memory.put(object.clone(), new.clone());
                    Fault::None
                });
                // Replaced before the first byte: indexed anew, or (the head has left) broken off.
                let got = rig.get(&oracle, &url).await;
                assert!(matches!(got, Got::Right(1) | Got::Aborted), "{tiers:?} {url}: {got:?}");
                rig.restart().await;
                assert_eq!(rig.manifest(title).await, 200);
                let mut broken = false;
                rig.storm.set(move |key, want| match want {
                    Some(Want::Range(_)) if !broken && key.as_str() == name => {
                        broken = true;
                        Fault::BreakAfter(5_000, StorageError::Changed(name.to_owned()))
                    }
                    _ => Fault::None,
                });
                let got = rig.get(&oracle, &url).await;
                assert!(matches!(got, Got::Right(1) | Got::Aborted), "{tiers:?} {url}: {got:?}");
                assert_eq!(rig.get(&oracle, &url).await, Got::Right(1));
                rig.is_sound(&oracle, &[title], 1).await;
            }
        }
    }
}
