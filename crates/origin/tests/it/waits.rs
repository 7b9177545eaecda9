//! Nothing waits for ever: each wait of the way from a client to the bytes has a bound, which is reached here. Time is tokio's and
//! paused, so it passes at once.

use crate::{
    rig::{Got, Oracle, Rig, TIERS, Tiers},
    server::{key, library},
};
use futures_util::future::{join, join_all};
use http::Request;
use latemux_origin::OriginConfig;
use latemux_storage::{
    Options, Want,
    fault::{Fault, Gate},
};
use std::time::Duration;
use tokio::time::Instant;

const TITLE: &str = "lighthouse.mp4";

async fn oracle() -> Oracle {
    Oracle::of(&[library()], &[TITLE]).await
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

/// Neither right nor refused for another reason.
fn gave_up(got: &Got, reason: &str) -> bool {
    match got {
        Got::Right(_) => false,
        Got::Refused(status, why) => (500..600).contains(status) && why == reason,
        Got::Aborted => true,
    }
}

/// Storage that says nothing, or stops in the middle: all who wait for the same are told together, after the cache's patience.
#[tokio::test(start_paused = true)]
async fn for_media_that_does_not_come() {
    let oracle = oracle().await;
    for tiers in TIERS {
        for fault in [Fault::Silence, Fault::StallAfter(0), Fault::StallAfter(7_000)] {
            let mut rig = Rig::new(tiers, library());
            assert_eq!(rig.manifest(TITLE).await, 200);
            rig.storm.media(fault.clone());
            let (begun, patience) = (Instant::now(), rig.cache.limits().storage_timeout);
            let urls: Vec<_> = oracle.some().into_iter().cycle().take(60).collect();
            for got in rig.get_all(&oracle, &urls).await {
                assert!(gave_up(&got, "storage_timeout"), "{tiers:?} {fault:?}: {got:?}");
            }
            let took = begun.elapsed();
            // Where there is little room, one waits for that first.
            assert!(took >= patience && took <= 2 * patience + seconds(2), "{tiers:?} {fault:?}: {took:?}");
            rig.check_recovery(&oracle, &[TITLE], 0).await;
        }
    }
}

/// The same while a title is indexed: those who wait for the one who reads are bound by its bound.
#[tokio::test(start_paused = true)]
async fn for_an_index_that_does_not_come() {
    let oracle = oracle().await;
    for fault in [Fault::Silence, Fault::StallAfter(100)] {
        let mut rig = Rig::new(Tiers::Memory, library());
        let held = fault.clone();
        rig.storm.set(move |_, _| held.clone());
        let (begun, bound) = (Instant::now(), rig.config.load_timeout);
        let urls: Vec<_> = oracle.some().into_iter().cycle().take(30).collect();
        let expected = Got::Refused(504, "load_timeout".to_owned());
        for got in rig.get_all(&oracle, &urls).await {
            assert_eq!(got, expected, "{fault:?}");
        }
        assert!(begun.elapsed() <= bound + seconds(1), "{fault:?}: {:?}", begun.elapsed());
        rig.check_recovery(&oracle, &[TITLE], 0).await;
    }
}

/// The room for indexes under way is given out in turn; who gets none in time is refused.
#[tokio::test(start_paused = true)]
async fn for_room_to_index() {
    let oracle = oracle().await;
    let mut config = OriginConfig { recheck_after: Duration::ZERO, ..crate::server::config() };
    config.memory.loading = 1;
    let mut rig = Rig::with(Tiers::Memory, library(), Options::default(), config, |_| {});
    let gate = Gate::new();
    let held = gate.clone();
    rig.storm.set(move |key, _| match key.as_str() {
        "buoy.mp4" => Fault::Wait(held.clone()),
        _ => Fault::None,
    });
    let other = async {
        gate.reached(1).await;
        let begun = Instant::now();
        let got = rig.get(&oracle, &oracle.some()[0]).await;
        (got, begun.elapsed())
    };
    let (status, (got, took)) = join(rig.manifest("buoy.mp4"), other).await;
    assert_eq!(status, 504);
    // The other ends, or its room comes free when the first is given up.
    assert!(got.is_right() || got == Got::Refused(504, "load_timeout".to_owned()), "{got:?}");
    assert!(took <= rig.config.load_timeout + seconds(1), "{took:?}");
    gate.open();
    rig.check_recovery(&oracle, &[TITLE], 0).await;
}

/// As many requests to storage as may be are under way, and none of them ends.
#[tokio::test(start_paused = true)]
async fn for_a_place_in_the_queue_to_storage() {
    let oracle = oracle().await;
    for tiers in TIERS {
        let options = Options { max_in_flight: 1, queue_timeout: seconds(10), ..Options::default() };
        let config = OriginConfig { recheck_after: Duration::ZERO, ..crate::server::config() };
        let mut rig = Rig::with(tiers, library(), options, config, |_| {});
        for title in [TITLE, "ferry.mp4"] {
            assert_eq!(rig.manifest(title).await, 200);
        }
        rig.storm.media(Fault::Silence);
        let urls = oracle.some();
        let (first, others) = (&urls[0], urls[1..].to_vec());
        let begun = Instant::now();
        let waiting = async {
            while rig.counters.figures().in_flight == 0 {
                tokio::task::yield_now().await;
            }
            let queued = Instant::now();
            let got = rig.get_all(&oracle, &others).await;
            (got, queued.elapsed())
        };
        let (held, (queued, took)) = join(rig.get(&oracle, first), waiting).await;
        assert!(gave_up(&held, "storage_timeout"), "{held:?}");
        // One whose bytes the first is to bring waits along with it; the others for a place.
        assert!(queued.iter().all(|got| gave_up(got, "storage_busy")), "{tiers:?}: {queued:?}");
        assert!(took <= rig.cache.limits().storage_timeout && begun.elapsed() <= seconds(75), "{took:?}");
        assert!(rig.counters.figures().busy > 0);
        rig.check_recovery(&oracle, &[TITLE], 0).await;
    }
}

/// Room for fetches is held by those whose storage stands still: the others give up, and get room when these have.
#[tokio::test(start_paused = true)]
async fn for_room_to_fetch() {
    let oracle = oracle().await;
    let config = OriginConfig { recheck_after: Duration::ZERO, ..crate::server::config() };
    let mut rig = Rig::with(Tiers::Memory, library(), Options::default(), config, |cache| {
        // Room for two units and their copies.
        (cache.memory, cache.unit) = (64 << 10, 4 << 10);
    });
    assert_eq!(rig.manifest(TITLE).await, 200);
    rig.storm.media(Fault::StallAfter(2_000));
    let urls: Vec<_> =
        oracle.urls().filter(|url| oracle.0[*url][0].len() > 8_000).take(20).cloned().collect();
    assert!(urls.len() > 5);
    let begun = Instant::now();
    for got in rig.get_all(&oracle, &urls).await {
        assert!(gave_up(&got, "storage_timeout"), "{got:?}");
    }
    assert!(begun.elapsed() <= rig.cache.limits().storage_timeout * 2 + seconds(1), "{:?}", begun.elapsed());
    rig.check_recovery(&oracle, &[TITLE], 0).await;
}

/// The leader of a flight has left, and storage does not answer: those who joined are not left waiting.
#[tokio::test(start_paused = true)]
async fn for_a_leader_that_left() {
    let oracle = oracle().await;
    for tiers in TIERS {
        let mut rig = Rig::new(tiers, library());
        assert_eq!(rig.manifest(TITLE).await, 200);
        rig.storm.media(Fault::Silence);
        let url = &oracle.some()[0];
        let leader = Box::pin(rig.origin.respond(Request::get(url).body(()).unwrap()));
        let answer = leader.await;
        let joined = join_all((0..20).map(|_| rig.get(&oracle, url)));
        let leaving = async {
            tokio::time::sleep(seconds(20)).await;
            drop(answer);
        };
        let begun = Instant::now();
        let (joined, ()) = join(joined, leaving).await;
        assert!(joined.iter().all(|got| gave_up(got, "storage_timeout")), "{joined:?}");
        assert!(begun.elapsed() <= rig.cache.limits().storage_timeout + seconds(1));
        rig.check_recovery(&oracle, &[TITLE], 0).await;
    }
}

/// A clock that jumps ahead, as after a machine was suspended: what was under way is given up or goes on, and nothing is wrong
/// after it. No other clock is asked, see `clippy.toml`.
#[tokio::test(start_paused = true)]
async fn for_a_clock_that_jumps() {
    let oracle = oracle().await;
    for tiers in TIERS {
        let mut rig = Rig::new(tiers, library());
        assert_eq!(rig.manifest(TITLE).await, 200);
        let gate = Gate::new();
        let held = gate.clone();
        rig.storm.set(move |key, want| match want {
            Some(Want::Range(_)) if *key == self::key(TITLE) => Fault::WaitAfter(3_000, held.clone()),
            _ => Fault::None,
        });
        let jump = async {
            gate.reached(1).await;
            tokio::time::advance(seconds(1_800)).await;
            gate.open();
        };
        let (got, ()) = join(rig.get_all(&oracle, &oracle.some()), jump).await;
        assert!(got.iter().all(|got| got.is_right() || gave_up(got, "storage_timeout")), "{got:?}");
        rig.check_recovery(&oracle, &[TITLE], 0).await;
    }
}
