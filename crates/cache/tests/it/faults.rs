//! For every fault of storage, all waiting readers get the right bytes or an error, and nothing
//! wrong stays.

use crate::storages::{NAME, Network, World, key, until};
use bytes::Bytes;
use futures_util::{FutureExt, StreamExt, future, future::BoxFuture, stream};
use latemux_cache::Config;
use latemux_storage::conformance::{collect, pattern};
use latemux_storage::fault::{Fault, Faulty};
use latemux_storage::{ListRequest, Listing, Read, ReadRequest, Storage, StorageError, Want};
use std::sync::Arc;
use std::time::Duration;

const LEN: u64 = 400_000;

fn config() -> Config {
    Config { memory: 64 << 20, unit: 100_000, bridge: 0, ..Config::default() }
}

fn world(fault: Fault) -> World {
    World::new(LEN, config(), |inner| {
        Arc::new(Network::new(Arc::new(Faulty::scripted(inner, [fault])), 10_000, 1))
    })
}

/// Asserts that ten readers of one fetch get the same error, and that a later read succeeds.
async fn fails_for_all(fault: Fault, kept: u64) -> StorageError {
    let shown = format!("{fault:?}");
    let world = world(fault);
    let errors = future::join_all((0..10).map(|_| world.read(0..LEN))).await;
    let requested = world.requested();
    assert_eq!(requested, [0..LEN], "{shown}: one request, one error");
    let mut errors = errors.into_iter().map(Result::unwrap_err);
    let error = errors.next().unwrap();
    assert!(errors.all(|other| other.to_string() == error.to_string()), "{shown}");
    assert_eq!(world.cache.figures().cached_bytes, kept, "{shown}");
    assert_eq!(world.cache.figures().storage_errors, 1, "{shown}");
    world.read(0..LEN).await.unwrap();
    assert_eq!(world.requested(), [kept..LEN], "{shown}: no error is remembered");
    error
}

#[tokio::test(start_paused = true)]
async fn an_error_reaches_all_waiting_readers_and_is_not_remembered() {
    let name = || NAME.to_owned();
    for error in [
        StorageError::NotFound(name()),
        StorageError::Changed(name()),
        StorageError::OutOfRange(name()),
        StorageError::Denied(name()),
        StorageError::Throttled { key: name(), retry_after: Some(Duration::from_secs(3)) },
        StorageError::TimedOut { key: name(), after: Duration::from_secs(1) },
        StorageError::Unavailable { key: name(), detail: "503".to_owned() },
        StorageError::BadResponse { key: name(), detail: "200".to_owned() },
    ] {
        assert_eq!(fails_for_all(Fault::Error(error.clone()), 0).await.to_string(), error.to_string());
        // Units that were complete when the connection broke are right, unless the object changed
        // or the response was not the answer to the request.
        let is_wrong = matches!(error, StorageError::Changed(_) | StorageError::BadResponse { .. });
        let kept = if is_wrong { 0 } else { 200_000 };
        assert_eq!(
            fails_for_all(Fault::BreakAfter(250_000, error.clone()), kept).await.to_string(),
            error.to_string()
        );
        fails_for_all(Fault::BreakAfter(0, error), 0).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_reset_keeps_only_whole_units() {
    for (after, kept) in [(0, 0), (1, 0), (99_999, 0), (100_000, 100_000), (399_999, 300_000)] {
        fails_for_all(Fault::reset_after(&key(NAME), after), kept).await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_wait_times_out() {
    for (fault, kept) in
        [(Fault::Silence, 0), (Fault::StallAfter(0), 0), (Fault::StallAfter(150_000), 100_000)]
    {
        let begun = tokio::time::Instant::now();
        let error = fails_for_all(fault, kept).await;
        assert!(matches!(error, StorageError::TimedOut { .. }), "{error:?}");
        // The requests take a second each, before they are silent; frames take none.
        assert!(
            begun.elapsed() <= config().storage_timeout + Duration::from_secs(2),
            "{:?}",
            begun.elapsed()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_short_body_is_an_error() {
    for after in [0, 1, 100_000, 399_999] {
        let error = fails_for_all(Fault::ShortAfter(after), 0).await;
        assert!(matches!(error, StorageError::BadResponse { .. }), "{error:?}");
    }
}

/// Wrong responses, given to the first request.
#[derive(Debug)]
enum Lie {
    /// More bytes than the range it reports.
    Long,
    /// The requested range, followed by one frame too many.
    Surplus,
    /// Another range of the same size.
    Elsewhere,
    /// Another version.
    Version,
}

#[derive(Debug)]
struct Lying {
    inner: Arc<dyn Storage>,
    lie: std::sync::Mutex<Option<Lie>>,
}

impl Storage for Lying {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        async move {
            let lie = self.lie.lock().unwrap().take();
            let (Some(lie), Want::Range(range)) = (lie, request.want.clone()) else {
                return self.inner.read(request).await;
            };
            match lie {
                Lie::Long => {
                    let want = Want::Range(range.start..range.end + 100);
                    Ok(Read { range, ..self.inner.read(ReadRequest { want, ..request }).await? })
                }
                Lie::Surplus => {
                    let read = self.inner.read(request).await?;
                    let surplus = stream::iter([Ok(Bytes::new()), Ok(Bytes::from_static(b"surplus"))]);
                    Ok(Read { body: read.body.chain(surplus).boxed(), ..read })
                }
                Lie::Elsewhere => {
                    let want = Want::Range(range.start + 1..range.end + 1);
                    self.inner.read(ReadRequest { want, ..request }).await
                }
                Lie::Version => {
                    let mut read = self.inner.read(request).await?;
                    read.object.version.etag = Some("\"other\"".into());
                    Ok(read)
                }
            }
        }
        .boxed()
    }

    fn list<'a>(&'a self, request: ListRequest<'a>) -> BoxFuture<'a, Result<Listing, StorageError>> {
        self.inner.list(request)
    }

    fn describe(&self) -> String {
        self.inner.describe()
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_response_is_not_kept() {
    for (lie, fails) in
        [(Lie::Long, false), (Lie::Surplus, false), (Lie::Elsewhere, true), (Lie::Version, true)]
    {
        let shown = format!("{lie:?}");
        let world = World::new(LEN, config(), |inner| {
            let lying: Arc<dyn Storage> = Arc::new(Lying { inner, lie: std::sync::Mutex::new(Some(lie)) });
            lying
        });
        // A reader may get its bytes before the surplus is noticed. Otherwise it gets an error.
        let response = world.read(0..LEN - 100).await;
        assert!(response.is_err() || !fails, "{shown}");
        until("the error is counted", || world.cache.figures().storage_errors == 1).await;
        assert_eq!(world.cache.figures().cached_bytes, 0, "{shown}");
        let _ = world.requested();
        world.read(0..LEN - 100).await.unwrap();
        assert_eq!(world.requested(), [0..LEN - 100], "{shown}");
    }
}

#[tokio::test(start_paused = true)]
async fn versions_are_never_mixed() {
    let world = World::plain(LEN, config());
    world.read(0..150_000).await.unwrap();
    let new = pattern(7, 400_001);
    let version = world.memory.put(key(NAME), new.clone());
    // Cached bytes of the old version are right for a reader of the old version.
    world.read(0..150_000).await.unwrap();
    let error = world.read(100_000..LEN).await.unwrap_err();
    assert!(matches!(error, StorageError::Changed(_)), "{error:?}");
    assert_eq!(world.cache.figures().cached_bytes, 0, "no unit of the old version stays");
    assert_eq!(world.cache.figures().purged, 1);
    let read = world.storage.read(ReadRequest::range(&key(NAME), 0..400_001).pinned(&version)).await.unwrap();
    assert!(collect(read).await.unwrap() == new);
    assert!(matches!(world.read(0..150_000).await, Err(StorageError::Changed(_))));
    let read = world.storage.read(ReadRequest::range(&key(NAME), 5..400_000).pinned(&version)).await.unwrap();
    assert!(collect(read).await.unwrap() == new[5..400_000]);
}

#[tokio::test(start_paused = true)]
async fn a_change_during_a_body_reaches_the_reader() {
    let changed = Fault::BreakAfter(120_000, StorageError::Changed(NAME.to_owned()));
    let world = world(changed);
    let mut reader = world.open(0..LEN).await.unwrap();
    let mut at = 0;
    let error = loop {
        match reader.body.next().await.unwrap() {
            Ok(frame) => {
                assert!(frame == world.expected(at..at + frame.len() as u64));
                at += frame.len() as u64;
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StorageError::Changed(_)));
    assert_eq!(world.requested().len(), 1);
}

/// Any mixture of faults, from a seed that is printed if the test fails.
#[tokio::test(start_paused = true)]
async fn random_faults_never_give_wrong_bytes() {
    for seed in 0..16_u64 {
        let world = World::new(LEN, Config { memory: 150_000, unit: 20_000, ..config() }, |inner| {
            Arc::new(Network::new(Arc::new(Faulty::seeded(inner, seed, 3)), 7_000, 4))
        });
        let mut good = 0;
        let mut bad = 0;
        for step in 0..60_u64 {
            let start = (seed * 31 + step * 104_729) % (LEN - 1);
            let end = (start + 1 + step * 7_919 % 150_000).min(LEN);
            let reads = [world.read(start..end), world.read(start / 2..end)];
            for read in future::join_all(reads).await {
                if read.is_ok() { good += 1 } else { bad += 1 }
            }
        }
        assert!(good > 0 && bad > 0, "seed {seed}: {good} good, {bad} bad");
    }
}
