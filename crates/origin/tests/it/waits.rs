//! Nothing waits for ever: each wait between a client and the bytes has a time limit, which these
//! tests reach. The clock is tokio's and paused, so the time passes at once.

use crate::{
    rig::{FetchResult, Oracle, Rig, TIERS, Tiers},
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

/// Returns true for a response that failed for this reason, before or after its head.
fn failed_with(got: &FetchResult, reason: &str) -> bool {
    match got {
        FetchResult::Right(_) => false,
        FetchResult::Refused(status, why) => (500..600).contains(status) && why == reason,
        FetchResult::Aborted => true,
    }
}

/// Storage that does not respond, or stops in the middle: all requests for the same bytes fail
/// together, after the cache's time limit.
#[tokio::test(start_paused = true)]
async fn media_that_does_not_arrive_times_out() {
    let oracle = oracle().await;
    for tiers in TIERS {
        for fault in [Fault::Silence, Fault::StallAfter(0), Fault::StallAfter(7_000)] {
            let mut rig = Rig::new(tiers, library());
            assert_eq!(rig.manifest(TITLE).await, 200);
            rig.storm.media(fault.clone());
            let begun = Instant::now();
            let limit = rig.cache.limits().storage_timeout;
            let urls: Vec<_> = oracle.some().into_iter().cycle().take(60).collect();
            for got in rig.get_all(&oracle, &urls).await {
                assert!(failed_with(&got, "storage_timeout"), "{tiers:?} {fault:?}: {got:?}");
            }
            let took = begun.elapsed();
            // With little memory, a request first waits for room.
            assert!(took >= limit && took <= 2 * limit + seconds(2), "{tiers:?} {fault:?}: {took:?}");
            rig.check_recovered(&oracle, &[TITLE], 0).await;
        }
    }
}

/// The same while a title is indexed: requests that wait for the one that reads share its time
/// limit.
#[tokio::test(start_paused = true)]
async fn an_index_that_does_not_arrive_times_out() {
    let oracle = oracle().await;
    for fault in [Fault::Silence, Fault::StallAfter(100)] {
        let mut rig = Rig::new(Tiers::Memory, library());
        let held = fault.clone();
        rig.storm.set(move |_, _| held.clone());
        let begun = Instant::now();
        let bound = rig.config.load_timeout;
        let urls: Vec<_> = oracle.some().into_iter().cycle().take(30).collect();
        let expected = FetchResult::Refused(504, "load_timeout".to_owned());
        for got in rig.get_all(&oracle, &urls).await {
            assert_eq!(got, expected, "{fault:?}");
        }
        assert!(begun.elapsed() <= bound + seconds(1), "{fault:?}: {:?}", begun.elapsed());
        rig.check_recovered(&oracle, &[TITLE], 0).await;
    }
}

/// Memory for indexes being read is granted in order. A request that gets none in time is refused.
#[tokio::test(start_paused = true)]
async fn waiting_for_index_memory_times_out() {
    let oracle = oracle().await;
    let mut config = OriginConfig { recheck_after: Duration::ZERO, ..crate::server::config() };
    config.memory.loading = 1;
    let mut rig = Rig::with(Tiers::Memory, library(), &Options::default(), config, |_| {});
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
    // The other one ends, or gets its memory when the first is given up.
    assert!(got.is_right() || got == FetchResult::Refused(504, "load_timeout".to_owned()), "{got:?}");
    assert!(took <= rig.config.load_timeout + seconds(1), "{took:?}");
    gate.open();
    rig.check_recovered(&oracle, &[TITLE], 0).await;
}

/// All allowed requests to storage are in flight, and none of them ends.
#[tokio::test(start_paused = true)]
async fn waiting_for_a_storage_request_times_out() {
    let oracle = oracle().await;
    for tiers in TIERS {
        let options = Options { max_in_flight: 1, queue_timeout: seconds(10), ..Options::default() };
        let config = OriginConfig { recheck_after: Duration::ZERO, ..crate::server::config() };
        let mut rig = Rig::with(tiers, library(), &options, config, |_| {});
        for title in [TITLE, "ferry.mp4"] {
            assert_eq!(rig.manifest(title).await, 200);
        }
        rig.storm.media(Fault::Silence);
        let urls = oracle.some();
        let first = &urls[0];
        let others = urls[1..].to_vec();
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
        assert!(failed_with(&held, "storage_timeout"), "{held:?}");
        // A request for the bytes that the first one fetches waits for that fetch. The others wait
        // for a permit.
        assert!(queued.iter().all(|got| failed_with(got, "storage_busy")), "{tiers:?}: {queued:?}");
        assert!(took <= rig.cache.limits().storage_timeout && begun.elapsed() <= seconds(75), "{took:?}");
        assert!(rig.counters.figures().busy > 0);
        rig.check_recovered(&oracle, &[TITLE], 0).await;
    }
}

/// Fills whose storage does not respond hold all memory for fills. The other requests give up, and
/// get memory once those fills have given up.
#[tokio::test(start_paused = true)]
async fn waiting_for_fill_memory_times_out() {
    let oracle = oracle().await;
    let config = OriginConfig { recheck_after: Duration::ZERO, ..crate::server::config() };
    let mut rig = Rig::with(Tiers::Memory, library(), &Options::default(), config, |cache| {
        // Memory for two units and their copies.
        (cache.memory, cache.unit) = (64 << 10, 4 << 10);
    });
    assert_eq!(rig.manifest(TITLE).await, 200);
    rig.storm.media(Fault::StallAfter(2_000));
    let urls: Vec<_> =
        oracle.urls().filter(|url| oracle.0[*url][0].len() > 8_000).take(20).cloned().collect();
    assert!(urls.len() > 5);
    let begun = Instant::now();
    for got in rig.get_all(&oracle, &urls).await {
        assert!(failed_with(&got, "storage_timeout"), "{got:?}");
    }
    assert!(begun.elapsed() <= rig.cache.limits().storage_timeout * 2 + seconds(1), "{:?}", begun.elapsed());
    rig.check_recovered(&oracle, &[TITLE], 0).await;
}

/// The request that started a fetch has left, and storage does not respond. The requests that
/// joined it do not wait for ever.
#[tokio::test(start_paused = true)]
async fn joined_requests_time_out_after_the_first_one_left() {
    let oracle = oracle().await;
    for tiers in TIERS {
        let mut rig = Rig::new(tiers, library());
        assert_eq!(rig.manifest(TITLE).await, 200);
        rig.storm.media(Fault::Silence);
        let url = &oracle.some()[0];
        let leader = Box::pin(rig.origin.respond(Request::get(url).body(()).unwrap()));
        let response = leader.await;
        let joined = join_all((0..20).map(|_| rig.get(&oracle, url)));
        let leaving = async {
            tokio::time::sleep(seconds(20)).await;
            drop(response);
        };
        let begun = Instant::now();
        let (joined, ()) = join(joined, leaving).await;
        assert!(joined.iter().all(|got| failed_with(got, "storage_timeout")), "{joined:?}");
        assert!(begun.elapsed() <= rig.cache.limits().storage_timeout + seconds(1));
        rig.check_recovered(&oracle, &[TITLE], 0).await;
    }
}

/// A clock that jumps ahead, as after the machine was suspended: requests in flight are given up or
/// continue, and later ones succeed. `clippy.toml` forbids the use of any other clock.
#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_ahead_does_no_harm() {
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
        assert!(got.iter().all(|got| got.is_right() || failed_with(got, "storage_timeout")), "{got:?}");
        rig.check_recovered(&oracle, &[TITLE], 0).await;
    }
}
