//! Objects replaced while they are played, through cache and origin: a response has the bytes of
//! one version or is aborted, and later ones have those of the new version.

use crate::{
    rig::{FetchResult, Oracle, Rig, TIERS, library_with, relabelled, relabelled_from},
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

/// Returns titles, the object that is replaced in each, and its replacement: one of the same size
/// with the same index, and one with every sample at another offset.
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
async fn an_object_replaced_after_indexing_is_served_in_its_new_version() {
    for (title, name, new) in cases().await {
        let oracle = oracle(title, name, &new).await;
        for tiers in TIERS {
            let mut rig = Rig::new(tiers, library());
            let changes: Vec<_> =
                oracle.some().into_iter().filter(|url| oracle.0[url][0] != oracle.0[url][1]).collect();
            assert!(changes.len() > 1, "{title}");
            assert_eq!(rig.manifest(title).await, 200);
            // The old bytes of one segment are cached.
            assert_eq!(rig.get(&oracle, &changes[0]).await, FetchResult::Right(0));
            rig.idle().await;
            rig.memory.put(key(name), new.clone());
            // Storage reports the change before the head of the response is sent. The object is
            // indexed again, and its cached bytes are dropped.
            let others: Vec<_> =
                oracle.urls().filter(|url| oracle.0[*url][0] != oracle.0[*url][1]).cloned().collect();
            for url in others.iter().rev().chain([&changes[0]]) {
                assert_eq!(rig.get(&oracle, url).await, FetchResult::Right(1), "{tiers:?} {url}");
            }
            rig.check_recovered(&oracle, &[title], 1).await;
        }
    }
}

/// Cached segments are right for players of the old version. A manifest leads to the new one.
#[tokio::test(start_paused = true)]
async fn cached_segments_of_the_old_version_are_served_until_a_manifest_is_requested() {
    let (title, name, new) = cases().await.remove(0);
    let oracle = oracle(title, name, &new).await;
    let urls: Vec<_> = oracle.urls().cloned().collect();
    for tiers in TIERS {
        let mut rig = Rig::new(tiers, library());
        for _ in 0..2 {
            for url in &urls {
                assert_eq!(rig.get(&oracle, url).await, FetchResult::Right(0));
            }
            rig.idle().await;
            rig.memory.put(key(name), new.clone());
        }
        assert_eq!(rig.manifest(title).await, 200);
        for url in &urls {
            let right = oracle.version(url, &oracle.0[url][1]);
            assert_eq!(rig.get(&oracle, url).await, FetchResult::Right(right), "{tiers:?} {url}");
        }
        rig.check_recovered(&oracle, &[title], 1).await;
    }
}

/// The cache of finished segments must tell versions apart that have the same index, size and first
/// bytes.
#[tokio::test(start_paused = true)]
async fn an_object_that_differs_only_in_the_middle_is_served_in_its_new_version() {
    let title = "lighthouse.mp4";
    let name = "lighthouse.mp4";
    let new = relabelled_from(&sample(name), 100_000, 1).await;
    let oracle = oracle(title, name, &new).await;
    let urls: Vec<_> = oracle.urls().cloned().collect();
    let mut config = OriginConfig { recheck_after: Duration::ZERO, ..crate::server::config() };
    config.memory.segments = 8 << 20;
    for tiers in TIERS {
        let mut rig = Rig::with(tiers, library(), &Options::default(), config.clone(), |_| {});
        for _ in 0..2 {
            assert!(rig.get_all(&oracle, &urls).await.iter().all(|got| *got == FetchResult::Right(0)));
            rig.idle().await;
        }
        rig.memory.put(key(name), new.clone());
        rig.check_recovered(&oracle, &[title], 1).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_replaced_between_two_reads_of_a_segment_never_mixes_versions() {
    let mut seen = Vec::new();
    for (title, name, new) in cases().await {
        let oracle = oracle(title, name, &new).await;
        for tiers in TIERS {
            let mut config = OriginConfig { recheck_after: Duration::ZERO, ..crate::server::config() };
            (config.read.gap, config.read.reach, config.read.open) = (0, Reach::Exact, 1);
            for url in oracle.some() {
                let mut rig = Rig::with(tiers, library(), &Options::default(), config.clone(), |cache| {
                    cache.bridge = 0;
                });
                assert_eq!(rig.manifest(title).await, 200);
                let mut reads = 0;
                let memory = rig.memory.clone();
                let other = new.clone();
                rig.storm.set(move |_, want| {
                    reads += usize::from(matches!(want, Some(Want::Range(_))));
                    if reads == 2 {
                        memory.put(key(name), other.clone());
                    }
                    Fault::None
                });
                let got = rig.get(&oracle, &url).await;
                assert!(matches!(got, FetchResult::Right(_) | FetchResult::Aborted), "{url}: {got:?}");
                seen.push(got);
                rig.memory.put(key(name), new.clone());
                rig.check_recovered(&oracle, &[title], 1).await;
            }
        }
    }
    assert!(seen.contains(&FetchResult::Aborted) && seen.iter().any(FetchResult::is_right), "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn an_object_replaced_during_a_fill_is_served_in_one_version_to_each_client() {
    for (title, name, new) in cases().await {
        let oracle = oracle(title, name, &new).await;
        for tiers in TIERS {
            for url in oracle.some() {
                if oracle.0[&url][0] == oracle.0[&url][1] {
                    continue;
                }
                // Memory for two fetches at one time.
                let config = OriginConfig { recheck_after: Duration::ZERO, ..crate::server::config() };
                let mut rig = Rig::with(tiers, library(), &Options::default(), config, |cache| {
                    cache.memory = cache.memory.max(2 << 20);
                });
                assert_eq!(rig.manifest(title).await, 200);
                let gate = Gate::new();
                let held = gate.clone();
                let object = key(name);
                let mut held_once = false;
                rig.storm.set(move |key, want| {
                    let holds = *key == object && matches!(want, Some(Want::Range(_))) && !held_once;
                    held_once |= holds;
                    if holds { Fault::WaitAfter(5_000, held.clone()) } else { Fault::None }
                });
                // Storage goes on to send the version it opened. Clients that come after the change
                // get the new version meanwhile.
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
                assert!(early.iter().all(|got| *got == FetchResult::Right(0)), "{tiers:?} {url}: {early:?}");
                assert_eq!(late, FetchResult::Right(1), "{tiers:?} {url}");
                rig.check_recovered(&oracle, &[title], 1).await;
            }
        }
    }
}

/// The response has begun with the old bytes when storage reports the change.
#[tokio::test(start_paused = true)]
async fn an_object_replaced_in_the_middle_of_a_body_never_mixes_versions() {
    for (title, name, new) in cases().await {
        let oracle = oracle(title, name, &new).await;
        for tiers in TIERS {
            for url in oracle.some() {
                if oracle.0[&url][0] == oracle.0[&url][1] {
                    continue;
                }
                let mut rig = Rig::new(tiers, library());
                assert_eq!(rig.manifest(title).await, 200);
                let memory = rig.memory.clone();
                let new = new.clone();
                let object = key(name);
                let mut once = false;
                rig.storm.set(move |key, want| {
                    if once || *key != object || !matches!(want, Some(Want::Range(_))) {
                        return Fault::None;
                    }
                    once = true;
                    memory.put(object.clone(), new.clone());
                    Fault::None
                });
                // Replaced before the first byte: the response has the new version, or it is
                // aborted because its head was sent already.
                let got = rig.get(&oracle, &url).await;
                assert!(
                    matches!(got, FetchResult::Right(1) | FetchResult::Aborted),
                    "{tiers:?} {url}: {got:?}"
                );
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
                assert!(
                    matches!(got, FetchResult::Right(1) | FetchResult::Aborted),
                    "{tiers:?} {url}: {got:?}"
                );
                assert_eq!(rig.get(&oracle, &url).await, FetchResult::Right(1));
                rig.check_recovered(&oracle, &[title], 1).await;
            }
        }
    }
}
