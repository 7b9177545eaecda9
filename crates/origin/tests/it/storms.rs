//! Random faults together: of storage and disk, with replaced objects, clients that leave, and
//! restarts. The bytes of every response are right. Afterwards all requests succeed, and no
//! permits, memory or fetches are leaked.

#![allow(clippy::print_stdout, reason = "a test that fails shows its seed")]

use crate::{
    rig::{Oracle, Rig, TIERS, Tiers, library_with, relabelled},
    server::{key, library, sample},
};
use bytes::Bytes;
use futures_util::future::join_all;
use http::Request;
use http_body_util::BodyExt;
use latemux_origin::OriginConfig;
use latemux_storage::{Options, StorageError, fault::Fault};
use std::{
    hash::{BuildHasher, RandomState},
    io::ErrorKind,
    time::Duration,
};

/// Steele, Lea, Flood: "Fast splittable pseudorandom number generators" (2014).
#[derive(Debug, Clone)]
pub(crate) struct Dice(u64);

impl Dice {
    /// Creates a generator that repeats itself from its seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    pub(crate) fn one_in(&mut self, sides: u64) -> bool {
        self.roll(sides) == 0
    }

    pub(crate) fn of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[usize::try_from(self.roll(all.len() as u64)).unwrap()]
    }

    /// Returns a random fault for a request to storage.
    fn fault(&mut self, key: &str) -> Fault {
        let name = key.to_owned();
        let at = self.roll(40_000);
        let broken = StorageError::Unavailable { key: name.clone(), detail: "reset".into() };
        let bad = StorageError::BadResponse { key: name.clone(), detail: "gzip".into() };
        match self.roll(13) {
            0 => Fault::Error(broken),
            1 => Fault::Error(StorageError::Throttled { key: name, retry_after: None }),
            2 => Fault::Error(StorageError::TimedOut { key: name, after: Duration::from_secs(1) }),
            3 => Fault::Error(StorageError::NotFound(name)),
            4 => Fault::Error(StorageError::Changed(name)),
            5 => Fault::BreakAfter(at, StorageError::Changed(name)),
            6 => Fault::StallAfter(at),
            7 => Fault::ShortAfter(at),
            8 => Fault::Silence,
            9 => Fault::Error(bad),
            10 => Fault::BreakAfter(at, bad),
            _ => Fault::BreakAfter(at, broken),
        }
    }
}

/// Behaviour of a client.
enum Client {
    ReadsAll,
    RequestsRange(std::ops::Range<u64>),
    /// Leaves at this time after its request.
    LeavesAfter(Duration),
    /// Leaves after this number of frames of the body.
    TakesFrames(u64),
}

/// Plays one URL. Returns true for a complete response, and panics for a wrong one.
async fn play(rig: &Rig, oracle: &Oracle, url: &str, client: Client) -> bool {
    let mut request = Request::get(url);
    if let Client::RequestsRange(range) = &client {
        request = request.header("range", format!("bytes={}-{}", range.start, range.end - 1));
    }
    let request = rig.origin.respond(request.body(()).unwrap());
    let whole = async {
        let response = request.await;
        let status = response.status();
        let mut body = response.into_body();
        if let Client::TakesFrames(pieces) = client {
            for _ in 0..pieces {
                if !matches!(body.frame().await, Some(Ok(_))) {
                    break;
                }
            }
            return false;
        }
        let Ok(body) = body.collect().await else { return false };
        let body = body.to_bytes();
        let right = |whole: &Bytes| match &client {
            Client::RequestsRange(range) => {
                let end = usize::try_from(range.end).unwrap().min(whole.len());
                whole[usize::try_from(range.start).unwrap().min(end)..end] == body
            }
            _ => *whole == body,
        };
        match status.as_u16() {
            200 | 206 => assert!(oracle.0[url].iter().any(right), "{url}: {} wrong bytes", body.len()),
            416 => assert!(matches!(client, Client::RequestsRange(_))),
            404 | 500..600 => {
                let said: serde_json::Value = serde_json::from_slice(&body).unwrap();
                assert_ne!(said["reason"], "internal", "{url}: {said}");
                return false;
            }
            other => panic!("{url}: {other}"),
        }
        true
    };
    let limit = if let Client::LeavesAfter(time) = client { time } else { Duration::from_secs(3600) };
    match tokio::time::timeout(limit, whole).await {
        Ok(got) => got,
        Err(_) => {
            assert!(matches!(client, Client::LeavesAfter(_)), "{url}: the request does not end");
            false
        }
    }
}

async fn storm(
    seed: u64,
    tiers: Tiers,
    oracle: &Oracle,
    title: &str,
    name: &'static str,
    versions: &[Bytes],
) {
    eprintln!("seed {seed} {tiers:?} {title}");
    let mut dice = Dice(seed);
    let mut config = OriginConfig { recheck_after: Duration::ZERO, ..crate::server::config() };
    config.memory.segments = [0, 1 << 20][usize::from(dice.one_in(2))];
    if dice.one_in(3) {
        (config.read.gap, config.read.open) = (0, 1 + usize::try_from(dice.roll(3)).unwrap());
    }
    config.read.prefetch = [0, 1, 4][usize::try_from(dice.roll(3)).unwrap()];
    let max_in_flight = 4 + usize::try_from(dice.roll(5)).unwrap();
    let options = Options { max_in_flight, ..Options::default() };
    let mut rig = Rig::with(tiers, library(), &options, config, |_| {});
    if dice.one_in(2) {
        rig.keep_indexes().await;
    }
    let urls: Vec<String> = oracle.urls().cloned().collect();
    let mut current = 0;
    let mut whole = 0;
    for _ in 0..14 {
        let mut fate = Dice(dice.roll(u64::MAX));
        let calm = 2 + dice.roll(12);
        rig.storm.set(move |key, _| if fate.one_in(calm) { fate.fault(key.as_str()) } else { Fault::None });
        match dice.roll(8) {
            0 => rig.disk_faults.fail_writes(ErrorKind::StorageFull),
            1 => rig.disk_faults.fail_reads(ErrorKind::Other),
            2 => rig.restart().await,
            3 => {
                current = usize::try_from(dice.roll(versions.len() as u64)).unwrap();
                rig.memory.put(key(name), versions[current].clone());
            }
            _ => rig.disk_faults.heal(),
        }
        let clients = (0..4 + dice.roll(24)).map(|_| {
            let url = dice.of(&urls).clone();
            let client = match dice.roll(8) {
                0 => Client::LeavesAfter(Duration::from_millis(dice.roll(3))),
                1 => Client::LeavesAfter(Duration::from_secs(dice.roll(90))),
                2 => Client::TakesFrames(dice.roll(4)),
                3 => {
                    let start = dice.roll(60_000);
                    Client::RequestsRange(start..start + 1 + dice.roll(30_000))
                }
                _ => Client::ReadsAll,
            };
            let rig = &rig;
            async move { play(rig, oracle, &url, client).await }
        });
        let clients: Vec<_> = clients.collect();
        whole += join_all(clients).await.into_iter().filter(|got| *got).count();
        if dice.one_in(3) {
            rig.manifest(title).await;
        }
    }
    assert!(whole > 0, "no response was complete");
    rig.check_recovered(oracle, &[title], current).await;
}

async fn storms(title: &str, name: &'static str) {
    let mut versions = vec![sample(name)];
    for label in [1, 2] {
        versions.push(relabelled(&versions[0], label).await);
    }
    let libraries: Vec<_> = versions.iter().map(|bytes| library_with(name, bytes.clone())).collect();
    let oracle = Oracle::of(&libraries, &[title]).await;
    let fresh = RandomState::new().hash_one(title);
    let seeds = match std::env::var("LATEMUX_SEED") {
        Ok(seed) => vec![seed.parse().unwrap()],
        Err(_) => vec![1, 2, 3, fresh],
    };
    for seed in seeds {
        for tiers in TIERS {
            storm(seed, tiers, &oracle, title, name, &versions).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_muxed_title_survives_random_faults() {
    storms("lighthouse.mp4", "lighthouse.mp4").await;
}

#[tokio::test(start_paused = true)]
async fn a_title_of_many_files_survives_random_faults() {
    storms("harbour", "harbour/video-360p.mp4").await;
}
