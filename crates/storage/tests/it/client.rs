//! Features that all back ends share: permits for in-flight requests, second reads, budgets and
//! counters. In tests without a server, the clock advances only while all tasks wait.

use futures_util::{FutureExt, StreamExt, future::join_all};
use latemux_storage::conformance::{collect, pattern};
use latemux_storage::fault::{Fault, Faulty, Gate};
use latemux_storage::{
    Key, ListRequest, Memory, Options, Read, ReadRequest, Storage, StorageClient, StorageError, open,
};
use latemux_testmedia::http_server::{Reply, Server, Then};
use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

fn film() -> Key {
    Key::new("film.mp4").unwrap()
}

fn memory() -> Arc<dyn Storage> {
    let memory = Memory::new();
    memory.put(film(), pattern(1, 1000));
    Arc::new(memory)
}

fn permits(max: usize) -> Options {
    Options { max_in_flight: max, queue_timeout: 10 * SECOND, ..Options::default() }
}

async fn open_read(storage: &dyn Storage) -> Result<Read, StorageError> {
    storage.read(ReadRequest::range(&film(), 0..1000)).await
}

async fn whole(storage: &dyn Storage) -> Result<usize, StorageError> {
    Ok(collect(open_read(storage).await?).await?.len())
}

#[tokio::test(start_paused = true)]
async fn a_permit_is_held_until_the_body_ends_or_is_dropped() {
    let client = StorageClient::new(memory(), &permits(2));
    let in_flight = || client.counters().figures().in_flight;
    let mut one = open_read(&client).await.unwrap();
    let two = open_read(&client).await.unwrap();
    assert_eq!(in_flight(), 2);
    let mut third = Box::pin(whole(&client));
    assert!(third.as_mut().now_or_never().is_none(), "no permit is free");
    assert_eq!(client.counters().figures().queued, 1);
    drop(two);
    assert_eq!(third.await.unwrap(), 1000);
    // The permit is released with the last byte, not with the end of the stream.
    assert_eq!(in_flight(), 1);
    assert_eq!(one.body.next().await.unwrap().unwrap().len(), 1000);
    assert_eq!(in_flight(), 0);
    drop(one);
    // A read without a body holds no permit, nor does a failed read or one that is no longer waited
    // for.
    let nothing = client.read(ReadRequest::head(&film(), 0)).await.unwrap();
    assert!(client.read(ReadRequest::head(&Key::new("absent").unwrap(), 1)).await.is_err());
    assert_eq!(in_flight(), 0);
    drop(nothing);
    let held = [open_read(&client).await.unwrap(), open_read(&client).await.unwrap()];
    assert!(whole(&client).now_or_never().is_none());
    drop(held);
    let figures = client.counters().figures();
    assert_eq!((figures.in_flight, figures.queued, figures.failed), (0, 0, 0));
    assert_eq!(whole(&client).await.unwrap(), 1000);
}

#[tokio::test(start_paused = true)]
async fn permits_are_given_in_the_order_of_requests() {
    let client = StorageClient::new(memory(), &permits(1));
    let held = open_read(&client).await.unwrap();
    let order = Mutex::new(Vec::new());
    let waiting = (0..50).map(|i| {
        let client = &client;
        let order = &order;
        async move {
            let read = open_read(client).await.unwrap();
            order.lock().unwrap().push(i);
            // A new read gets its turn after all that wait.
            assert!(i == 49 || whole(client).now_or_never().is_none());
            collect(read).await.unwrap();
        }
    });
    let mut waiting = Box::pin(join_all(waiting));
    assert!(waiting.as_mut().now_or_never().is_none());
    drop(held);
    waiting.await;
    assert_eq!(*order.lock().unwrap(), (0..50).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_permit_times_out() {
    let client = StorageClient::new(memory(), &permits(1));
    let held = open_read(&client).await.unwrap();
    let begun = Instant::now();
    let error = open_read(&client).await.unwrap_err();
    assert!(matches!(&error, StorageError::Busy { after, .. } if *after == 10 * SECOND), "{error:?}");
    assert_eq!((begun.elapsed().as_secs(), error.reason()), (10, "storage_busy"));
    let error = client.list(ListRequest::new(&Key::root())).await.unwrap_err();
    assert_eq!(error.reason(), "storage_busy");
    let figures = client.counters().figures();
    assert_eq!((figures.busy, figures.waited, figures.queued), (2, 2, 0));
    assert!(figures.waited_time >= 20 * SECOND, "{figures:?}");
    drop(held);
    assert_eq!(whole(&client).await.unwrap(), 1000);
}

/// Sends 2,000 cold requests at once over 8 connections. All get a response unless their reader
/// leaves, and never more than 8 are in flight.
#[tokio::test]
async fn two_thousand_requests_over_eight_connections() {
    let content = pattern(1, 100_000);
    for reuse in [true, false] {
        let now = Arc::new(AtomicUsize::new(0));
        let most = Arc::new(AtomicUsize::new(0));
        let body = content.clone();
        let interrupted = Mutex::new(HashSet::new());
        let server = Server::start(move |_, request| {
            let headers = [("ETag", "\"1\""), ("Content-Range", "bytes 0-99999/100000")];
            // One body of each such object breaks off and is resumed with the same permit.
            match request.target.ends_with("17.mp4")
                && interrupted.lock().unwrap().insert(request.target.clone())
            {
                true => Reply::cut(206, &headers, &body, 0, Then::Close),
                false => Reply::new(206, &headers, &body),
            }
        })
        .await;
        let options = Options {
            max_in_flight: 8,
            queue_timeout: 60 * SECOND,
            reuse_connections: reuse,
            retry_burst: 1000,
            retry_within: 60 * SECOND,
            ..Options::default()
        };
        let storage = open(&format!("{}/", server.address), &options).unwrap();
        let reads = (0..2000).map(|i| {
            let storage = &storage;
            let now = &now;
            let most = &most;
            let content = &content;
            async move {
                let key = Key::new(&format!("film-{i}.mp4")).unwrap();
                let mut read = storage.read(ReadRequest::range(&key, 0..100_000)).await.unwrap();
                most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
                let first = read.body.next().await.unwrap().unwrap();
                if i % 3 == 0 {
                    now.fetch_sub(1, SeqCst);
                    drop(read);
                    return;
                }
                let mut at = first.len();
                assert!(first == content[..at]);
                while at < content.len() {
                    let frame = read.body.next().await.unwrap().unwrap();
                    assert!(frame == content[at..at + frame.len()]);
                    at += frame.len();
                }
                now.fetch_sub(1, SeqCst);
            }
        });
        tokio::time::timeout(120 * SECOND, join_all(reads)).await.expect("a deadlock");
        let (_, counters) = options.registry.all().pop().unwrap();
        let figures = counters.figures();
        assert_eq!((figures.in_flight, figures.queued, figures.busy), (0, 0, 0));
        assert_eq!((figures.requests, figures.retries), (2000, 20));
        assert!(figures.waited > 1900 && figures.waited_time > Duration::ZERO, "{figures:?}");
        assert!(most.load(SeqCst) <= 8, "{most:?}");
        assert_eq!(server.requests().len() as u64, 2000 + figures.retries);
        // The concurrent connections, not counting idle ones and those being closed.
        if reuse {
            assert!(server.connections() < 1200, "{} connections", server.connections());
        } else {
            assert_eq!(server.connections() as u64, 2000 + figures.retries);
        }
    }
}

fn hedging(inner: Arc<dyn Storage>, options: Options) -> StorageClient {
    StorageClient::new(inner, &Options { hedge_after: SECOND, ..options })
}

#[tokio::test(start_paused = true)]
async fn a_second_read_responds_when_the_first_is_slow() {
    let faulty = Faulty::scripted(memory(), [Fault::Silence]);
    let client = hedging(Arc::new(faulty), Options::default());
    let begun = Instant::now();
    let read = open_read(&client).await.unwrap();
    assert_eq!(begun.elapsed(), SECOND);
    let figures = client.counters().figures();
    assert_eq!(
        (figures.hedges, figures.hedges_won, figures.in_flight),
        (1, 1, 1),
        "the other request has ended"
    );
    assert_eq!(collect(read).await.unwrap(), pattern(1, 1000));
    assert_eq!(client.counters().figures().bytes, 1000, "counted once");
    // A quick response needs no second read.
    whole(&client).await.unwrap();
    assert_eq!(client.counters().figures().hedges, 1);
}

#[tokio::test(start_paused = true)]
async fn the_first_response_is_used() {
    let gate = Gate::new();
    let other = Gate::new();
    let faulty = Faulty::scripted(memory(), [Fault::Wait(gate.clone()), Fault::Wait(other.clone())]);
    let client = hedging(Arc::new(faulty), Options::default());
    let mut read = Box::pin(open_read(&client));
    assert!(tokio::time::timeout(2 * SECOND, &mut read).await.is_err());
    other.reached(1).await;
    assert_eq!(client.counters().figures().in_flight, 2);
    gate.open();
    let read = read.await.unwrap();
    let figures = client.counters().figures();
    assert_eq!((figures.hedges, figures.hedges_won, figures.in_flight), (1, 0, 1));
    drop(read);
}

#[tokio::test(start_paused = true)]
async fn one_of_two_reads_may_fail() {
    let unavailable = || StorageError::Unavailable { key: "k".into(), detail: "injected".into() };
    // If only the second read fails, the first goes on. If both fail, the read fails.
    for (last_of_first, expected) in [
        (None, "ok"),
        (Some(unavailable()), "storage_unavailable"),
        (Some(StorageError::Changed("k".into())), "source_changed"),
    ] {
        let gate = Gate::new();
        let script = [Fault::Wait(gate.clone()), Fault::Error(unavailable())];
        let first_fails = last_of_first.map(Fault::Error);
        // The first request waits, then fails as scripted: one decorator for each.
        let inner: Arc<dyn Storage> = match first_fails {
            None => memory(),
            Some(fault) => Arc::new(Faulty::scripted(memory(), [fault])),
        };
        let client = hedging(Arc::new(Faulty::scripted(inner, script)), Options::default());
        let mut read = Box::pin(whole(&client));
        assert!(tokio::time::timeout(2 * SECOND, &mut read).await.is_err());
        assert_eq!(client.counters().figures().in_flight, 1, "the failed request holds no permit");
        gate.open();
        let outcome = read.await;
        assert_eq!(outcome.as_ref().map_or_else(StorageError::reason, |_| "ok"), expected);
        assert_eq!(client.counters().figures().in_flight, 0);
    }
    // If either response says that the object does not exist, the read ends.
    let script = [Fault::Silence, Fault::Error(StorageError::NotFound("k".into()))];
    let client = hedging(Arc::new(Faulty::scripted(memory(), script)), Options::default());
    assert_eq!(whole(&client).await.unwrap_err().reason(), "source_not_found");
}

#[tokio::test(start_paused = true)]
async fn second_reads_respect_permits_and_budget() {
    let slow = || {
        let gates: Vec<_> = (0..4).map(|_| Gate::new()).collect();
        let faulty = Faulty::scripted(memory(), gates.iter().cloned().map(Fault::Wait));
        (gates, Arc::new(faulty))
    };
    // With one permit, the read keeps it and no second read waits for another.
    let (gates, faulty) = slow();
    let client = hedging(faulty, permits(1));
    let mut read = Box::pin(whole(&client));
    assert!(tokio::time::timeout(5 * SECOND, &mut read).await.is_err());
    assert_eq!(client.counters().figures().hedges, 0);
    gates[0].open();
    assert_eq!(read.await.unwrap(), 1000);
    // Without retries left, there are no second reads.
    let (gates, faulty) = slow();
    let client = hedging(faulty, Options { retry_percent: 0, retry_burst: 1, ..Options::default() });
    let mut reads = Box::pin(join_all([whole(&client), whole(&client)]));
    assert!(tokio::time::timeout(5 * SECOND, &mut reads).await.is_err());
    let figures = client.counters().figures();
    assert_eq!((figures.hedges, figures.retries_refused, figures.in_flight), (1, 1, 3));
    for gate in gates {
        gate.open();
    }
    assert!(reads.await.iter().all(Result::is_ok));
    assert_eq!(client.counters().figures().in_flight, 0);
}

/// Over HTTP, the connection of the slower request is closed.
#[tokio::test]
async fn the_slower_request_is_cancelled() {
    let body = pattern(1, 1000);
    let content = body.clone();
    let server = Server::start(move |n, _| match n {
        0 => Reply::nothing(Then::Hang),
        _ => Reply::new(206, &[("ETag", "\"1\""), ("Content-Range", "bytes 0-999/1000")], &body),
    })
    .await;
    let options = Options { hedge_after: Duration::from_millis(50), ..Options::default() };
    let storage = open(&server.address, &options).unwrap();
    assert_eq!(collect(open_read(&*storage).await.unwrap()).await.unwrap(), content);
    server.hung_up(1).await;
    let figures = options.registry.all()[0].1.figures();
    assert_eq!((figures.hedges, figures.hedges_won, figures.timeouts, figures.in_flight), (1, 1, 0, 0));
}

#[tokio::test]
async fn requests_and_bytes_are_counted() {
    let options = Options::default();
    let client = StorageClient::new(memory(), &options);
    whole(&client).await.unwrap();
    whole(&client).await.unwrap();
    client.list(ListRequest::new(&Key::root())).await.unwrap();
    let [(name, counters)] = options.registry.all().try_into().unwrap();
    assert_eq!(name, client.describe());
    let figures = counters.figures();
    assert_eq!((figures.requests, figures.bytes), (3, 2000));
    drop((client, counters));
    assert!(options.registry.all().is_empty(), "a closed back end is no longer listed");
}

/// Storage that is down gets no more requests than the budget allows, however many readers there
/// are.
#[tokio::test]
async fn retries_of_all_requests_have_one_budget() {
    let down = Server::start(|_, _| Reply::new(500, &[], b"")).await;
    let options =
        Options { retry_percent: 10, retry_burst: 5, retry_within: 60 * SECOND, ..Options::default() };
    let storage = open(&down.address, &options).unwrap();
    let reads = join_all((0..100).map(|_| whole(&*storage))).await;
    assert!(reads.iter().all(|read| read.as_ref().unwrap_err().reason() == "storage_unavailable"));
    let figures = options.registry.all()[0].1.figures();
    let requested = down.requests().len();
    assert_eq!(requested as u64, 100 + figures.retries);
    assert!((5..=15).contains(&figures.retries), "{figures:?}");
    assert!(figures.retries_refused > 0 && figures.failed == 100, "{figures:?}");
}
