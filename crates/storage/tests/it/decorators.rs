use futures_util::{StreamExt, future};
use latemux_storage::conformance::{collect, pattern};
use latemux_storage::counting::Counting;
use latemux_storage::fault::{Fault, Faulty, Gate};
use latemux_storage::{Key, ListRequest, Memory, ReadRequest, Storage, StorageError};
use std::sync::Arc;
use std::time::Duration;

const RTT: Duration = Duration::from_secs(1);

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

fn memory() -> Arc<dyn Storage> {
    let memory = Memory::new();
    for name in ["a", "b", "c"] {
        memory.put(key(name), pattern(1, 1000));
    }
    Arc::new(memory)
}

async fn take(storage: &dyn Storage, name: &str) -> Result<usize, StorageError> {
    Ok(collect(storage.read(ReadRequest::head(&key(name), 1000)).await?).await?.len())
}

#[tokio::test(start_paused = true)]
async fn counting_tells_parallel_from_sequential() {
    let counting = Counting::new(memory(), RTT);
    future::join_all(["a", "b", "c"].map(|name| take(&counting, name))).await;
    assert_eq!(counting.depth(), 1);
    take(&counting, "a").await.unwrap();
    assert!(counting.list(ListRequest::new(&Key::root())).await.is_ok());
    assert_eq!(counting.depth(), 3);
    let requests = counting.take();
    assert_eq!(
        requests.iter().map(|r| (r.key.as_str(), r.depth)).collect::<Vec<_>>(),
        [("a", 1), ("b", 1), ("c", 1), ("a", 2), ("", 3)]
    );
    assert_eq!(requests.iter().map(|r| r.bytes).sum::<u64>(), 4000);
    assert_eq!((counting.depth(), counting.take().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn counting_counts_only_bytes_that_are_read() {
    let counting = Counting::new(memory(), Duration::ZERO);
    let before = counting.read(ReadRequest::head(&key("a"), 500)).await.unwrap();
    assert_eq!(counting.take()[0].bytes, 0);
    take(&counting, "b").await.unwrap();
    collect(before).await.unwrap();
    assert_eq!(counting.take()[0].bytes, 1000, "an earlier body is not counted into a later request");
}

#[tokio::test(start_paused = true)]
async fn faults_apply_to_requests_in_turn() {
    let denied = StorageError::Denied("a".into());
    let script = [
        Fault::None,
        Fault::Error(denied.clone()),
        Fault::BreakAfter(300, denied),
        Fault::ShortAfter(400),
        Fault::StallAfter(500),
        Fault::Silence,
    ];
    let faulty = Faulty::scripted(memory(), script);
    assert_eq!(take(&faulty, "a").await.unwrap(), 1000);
    assert!(matches!(take(&faulty, "a").await, Err(StorageError::Denied(_))));
    let broken = faulty.read(ReadRequest::head(&key("a"), 1000)).await.unwrap();
    let frames: Vec<_> = broken.body.collect().await;
    assert_eq!(frames[0].as_ref().unwrap().len(), 300);
    assert!(frames[1].is_err() && frames.len() == 2);
    assert_eq!(take(&faulty, "a").await.unwrap(), 400);
    let mut stalled = faulty.read(ReadRequest::head(&key("a"), 1000)).await.unwrap();
    assert_eq!(stalled.body.next().await.unwrap().unwrap().len(), 500);
    assert!(tokio::time::timeout(RTT, stalled.body.next()).await.is_err());
    assert!(tokio::time::timeout(RTT, take(&faulty, "a")).await.is_err());
    assert_eq!(take(&faulty, "a").await.unwrap(), 1000);
}

#[tokio::test]
async fn gates_hold_responses() {
    let head = Gate::new();
    let body = Gate::new();
    let faulty = Faulty::scripted(memory(), [Fault::Wait(head.clone()), Fault::WaitAfter(300, body.clone())]);
    let reading = tokio::spawn(async move {
        take(&faulty, "a").await.unwrap();
        let mut read = faulty.read(ReadRequest::head(&key("a"), 1000)).await.unwrap();
        let first = read.body.next().await.unwrap().unwrap().len();
        (first, collect(read).await.unwrap())
    });
    head.reached(1).await;
    assert!(!reading.is_finished());
    head.let_one_pass();
    body.reached(1).await;
    assert!(!reading.is_finished());
    body.open();
    let (first, rest) = reading.await.unwrap();
    assert_eq!((first, rest), (300, pattern(1, 1000).slice(300..)));
}

#[tokio::test(start_paused = true)]
async fn a_seed_gives_the_same_faults_each_time() {
    let outcomes = |seed: u64| async move {
        let faulty = Faulty::seeded(memory(), seed, 2);
        let mut outcomes = Vec::new();
        for _ in 0..50 {
            outcomes.push(take(&faulty, "a").await.map_err(|e| e.to_string()));
        }
        outcomes
    };
    assert_eq!(outcomes(7).await, outcomes(7).await);
    assert_ne!(outcomes(7).await, outcomes(8).await);
    assert!(outcomes(7).await.iter().any(Result::is_err));
}
