//! Long reads in chunks. The clock advances only while all tasks wait.

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use latemux_storage::conformance::{collect, pattern};
use latemux_storage::counting::{Counting, Request};
use latemux_storage::fault::{Fault, Faulty, Gate};
use latemux_storage::{
    Key, ListRequest, Listing, Memory, Options, Read, ReadRequest, Storage, StorageClient, StorageError,
    StreamCount, Version, Want,
};
use latemux_testmedia::http_server::{Reply, Server};
use proptest::prelude::*;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const MILLI: Duration = Duration::from_millis(1);
const ROUND_TRIP: Duration = Duration::from_millis(40);
/// Bytes that arrive in a millisecond, for each request.
const PACE: usize = 1000;
const CHUNK: u64 = 10_000;
const SIZE: u64 = 8 * CHUNK;

fn film() -> Key {
    Key::new("film.mp4").unwrap()
}

/// A storage behind a long path, whose throughput is limited for each request.
#[derive(Debug)]
struct Far(Arc<dyn Storage>);

impl Storage for Far {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        async move {
            sleep(ROUND_TRIP).await;
            let mut read = self.0.read(request).await?;
            let frames = read.body.map(|whole| {
                let whole = whole.expect("memory does not fail");
                let frames: Vec<_> = whole.chunks(PACE).map(|frame| whole.slice_ref(frame)).collect();
                stream::iter(frames)
            });
            let paced = |frame| async move {
                sleep(MILLI).await;
                Ok(frame)
            };
            read.body = frames.flatten().then(paced).boxed();
            Ok(read)
        }
        .boxed()
    }

    fn list<'a>(&'a self, request: ListRequest<'a>) -> BoxFuture<'a, Result<Listing, StorageError>> {
        self.0.list(request)
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

fn options(streams: usize) -> Options {
    Options { streams: StreamCount::AtMost(streams), chunk: CHUNK, ..Options::default() }
}

/// A client of far storage with one object.
struct World {
    client: StorageClient,
    counting: Arc<Counting>,
    memory: Arc<Memory>,
    version: Version,
}

impl World {
    fn new(options: &Options) -> Self {
        Self::with(options, |storage| storage)
    }

    /// Makes a world whose requests pass through another storage, such as one that fails.
    fn with(options: &Options, wrap: impl FnOnce(Arc<dyn Storage>) -> Arc<dyn Storage>) -> Self {
        let memory = Arc::new(Memory::new());
        let version = memory.put(film(), pattern(1, usize::try_from(SIZE).unwrap()));
        let counting = Arc::new(Counting::new(wrap(Arc::new(Far(memory.clone()))), Duration::ZERO));
        let client = StorageClient::new(counting.clone(), options);
        Self { client, counting, memory, version }
    }

    async fn open(&self) -> Result<Read, StorageError> {
        self.client.read(ReadRequest::range(&film(), 0..SIZE).pinned(&self.version)).await
    }

    /// Reads the object whole, and returns the requests that this took.
    async fn read(&self) -> Vec<Request> {
        let bytes = collect(self.open().await.unwrap()).await.unwrap();
        assert_eq!(bytes, pattern(1, bytes.len()));
        assert_eq!(bytes.len() as u64, SIZE);
        self.counting.take()
    }

    /// Reads until the most streams are used.
    async fn climb(&self) {
        for _ in 0..3 {
            self.read().await;
        }
    }
}

fn ranges(requests: &[Request]) -> Vec<std::ops::Range<u64>> {
    let range = |request: &Request| match request.want.clone() {
        Some(Want::Range(range)) => range,
        other => panic!("{other:?}"),
    };
    requests.iter().map(range).collect()
}

#[tokio::test(start_paused = true)]
async fn a_long_read_is_split_once_that_is_measured_to_be_faster() {
    let world = World::new(&options(4));
    let mut times = Vec::new();
    let mut counts = Vec::new();
    for _ in 0..9 {
        let begun = Instant::now();
        counts.push(world.read().await.len());
        times.push(begun.elapsed());
    }
    assert_eq!(counts, [1, 2, 4, 4, 2, 1, 4, 2, 1], "each number is judged by three reads");
    // 80 frames over one request, 20 over each of four.
    assert_eq!(times[..3], [ROUND_TRIP + 80 * MILLI, ROUND_TRIP + 40 * MILLI, ROUND_TRIP + 20 * MILLI]);
    let figures = world.client.counters().figures();
    assert_eq!((figures.streams, figures.split, figures.requests), (4, 6, 21));
    assert_eq!((figures.bytes, figures.in_flight, figures.retries), (9 * SIZE, 0, 0));
    assert_eq!((figures.rate_of_one, figures.rate_of_streams), (SIZE * 1000 / 120, SIZE * 1000 / 60));
    // Shorter reads are measured for themselves, and those of less than two chunks are not split.
    for (length, counts) in
        [(3 * CHUNK + 5, [1, 2, 3]), (2 * CHUNK, [2, 2, 1]), (2 * CHUNK - 1, [1, 1, 1]), (0, [1, 1, 1])]
    {
        for count in counts {
            let film = film();
            let request = || ReadRequest::range(&film, 7..7 + length);
            let read = world.client.read(request().pinned(&world.version)).await.unwrap();
            assert_eq!(read.range, 7..7 + length);
            collect(read).await.unwrap();
            assert_eq!(world.counting.take().len(), count, "{length}");
            // Nor are reads of an unknown version.
            collect(world.client.read(request()).await.unwrap()).await.unwrap();
            assert_eq!(world.counting.take().len(), 1, "{length}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_byte_arrives_no_later_and_the_others_in_order_as_they_arrive() {
    // The second chunk stalls.
    let gate = Gate::new();
    let held = gate.clone();
    let choice = move |number, _: &Key, _: Option<&Want>| match number {
        8 => Fault::Wait(held.clone()),
        _ => Fault::None,
    };
    let world = World::with(&options(4), |storage| Arc::new(Faulty::new(storage, choice)));
    world.climb().await;
    let begun = Instant::now();
    let mut read = world.open().await.unwrap();
    assert_eq!(begun.elapsed(), ROUND_TRIP);
    let frame = read.body.next().await.unwrap().unwrap();
    assert_eq!((begun.elapsed(), frame.len()), (ROUND_TRIP + MILLI, PACE));
    for _ in 1..20 {
        read.body.next().await.unwrap().unwrap();
    }
    assert_eq!(begun.elapsed(), ROUND_TRIP + 20 * MILLI, "the first chunk");
    assert!(read.body.next().now_or_never().is_none(), "no chunk overtakes another");
    gate.open();
    let mut rest = 0;
    while let Some(frame) = read.body.next().await {
        rest += frame.unwrap().len() as u64;
    }
    assert_eq!(rest, SIZE * 3 / 4);
    // The last two chunks were there already.
    assert_eq!(begun.elapsed(), ROUND_TRIP + 20 * MILLI + ROUND_TRIP + 20 * MILLI);
}

#[tokio::test(start_paused = true)]
async fn a_chunk_whose_response_is_slow_is_requested_twice() {
    let choice = |number, _: &Key, _: Option<&Want>| match number {
        8 => Fault::Silence,
        _ => Fault::None,
    };
    let after = 10 * ROUND_TRIP;
    let options = Options { hedge_after: after, ..options(4) };
    let world = World::with(&options, |storage| Arc::new(Faulty::new(storage, choice)));
    world.climb().await;
    let begun = Instant::now();
    assert_eq!(world.read().await.len(), 5, "four chunks, one of them twice");
    assert_eq!(begun.elapsed(), after + ROUND_TRIP + 20 * MILLI);
    let figures = world.client.counters().figures();
    assert_eq!((figures.hedges, figures.hedges_won, figures.in_flight), (1, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn chunks_take_only_permits_that_are_free() {
    let world = World::new(&Options { max_in_flight: 3, ..options(4) });
    for count in [1, 2, 3] {
        assert_eq!(world.read().await.len(), count);
    }
    // All permits are in use: a read waits for one, and is not split.
    let film = film();
    let short = || world.client.read(ReadRequest::range(&film, 0..CHUNK).pinned(&world.version));
    let mut held = vec![short().await.unwrap(), short().await.unwrap(), short().await.unwrap()];
    assert_eq!(world.client.counters().figures().in_flight, 3);
    world.counting.take();
    let mut waiting = Box::pin(world.read());
    assert!(waiting.as_mut().now_or_never().is_none());
    assert_eq!(world.client.counters().figures().queued, 1);
    held.pop();
    assert_eq!(waiting.await.len(), 1);
    drop(held);
    assert_eq!(world.client.counters().figures().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn a_chunk_that_has_arrived_holds_no_permit_and_a_dropped_read_none_at_all() {
    let world = World::new(&options(4));
    world.climb().await;
    let mut read = world.open().await.unwrap();
    let in_flight = || world.client.counters().figures().in_flight;
    assert_eq!(in_flight(), 4);
    for _ in 1..20 {
        read.body.next().await.unwrap().unwrap();
    }
    assert_eq!(in_flight(), 4);
    read.body.next().await.unwrap().unwrap();
    assert_eq!(in_flight(), 0, "all bytes are here");
    drop(read);
    let read = world.open().await.unwrap();
    assert_eq!(in_flight(), 4);
    drop(read);
    assert_eq!(in_flight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_chunk_that_fails_is_requested_again_alone() {
    let film = film();
    let refused = StorageError::Throttled { key: film.to_string(), retry_after: None };
    for (fault, arrived) in
        [(Fault::Error(refused), 0), (Fault::reset_after(&film, 4321), 4321), (Fault::ShortAfter(1), 1)]
    {
        // The second of the four requests of the fourth read.
        let choice = move |number, _: &Key, _: Option<&Want>| match number {
            8 => fault.clone(),
            _ => Fault::None,
        };
        let world = World::with(&options(4), |storage| Arc::new(Faulty::new(storage, choice)));
        world.climb().await;
        let requests = ranges(&world.read().await);
        let quarter = SIZE / 4;
        let expected = [0..quarter, quarter..2 * quarter, 2 * quarter..3 * quarter, 3 * quarter..SIZE];
        assert_eq!(requests[..4], expected);
        assert_eq!((requests.len(), &requests[4]), (5, &(quarter + arrived..2 * quarter)));
        let figures = world.client.counters().figures();
        assert_eq!((figures.retries, figures.failed, figures.in_flight), (1, 0, 0));
        // Perhaps storage allows no more requests.
        assert_eq!(figures.streams, 1);
        assert_eq!(world.read().await.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_chunk_that_fails_twice_or_has_no_budget_ends_the_read() {
    for (retry_burst, requests, retries) in [(50, 5, 1), (0, 4, 0)] {
        let choice = |number, key: &Key, _: Option<&Want>| match number {
            8 | 11 => Fault::reset_after(key, 5000),
            _ => Fault::None,
        };
        let options = Options { retry_burst, retry_percent: 0, ..options(4) };
        let world = World::with(&options, |storage| Arc::new(Faulty::new(storage, choice)));
        world.climb().await;
        let mut read = world.open().await.unwrap();
        let mut bytes = 0;
        let error = loop {
            match read.body.next().await.unwrap() {
                Ok(frame) => bytes += frame.len() as u64,
                Err(error) => break error,
            }
        };
        assert_eq!(error.reason(), "storage_unavailable");
        assert!(read.body.next().await.is_none());
        assert_eq!(bytes, SIZE / 4 + 5000 * (1 + retries));
        assert_eq!(world.counting.take().len(), requests);
        let figures = world.client.counters().figures();
        assert_eq!((figures.retries, figures.failed, figures.in_flight), (retries, 1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn versions_are_never_mixed() {
    let world = World::new(&options(4));
    world.climb().await;
    let read = world.open();
    let change = async {
        sleep(ROUND_TRIP / 2).await;
        world.memory.put(film(), pattern(2, usize::try_from(SIZE).unwrap()));
    };
    let (read, ()) = tokio::join!(read, change);
    assert_eq!(read.unwrap_err().reason(), "source_changed");
    let figures = world.client.counters().figures();
    assert_eq!((figures.retries, figures.failed, figures.in_flight), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn auto_leaves_near_storage_alone() {
    let near = Options { streams: StreamCount::Auto, ..options(1) };
    let memory = Memory::new();
    let version = memory.put(film(), pattern(1, usize::try_from(SIZE).unwrap()));
    let client = StorageClient::new(Arc::new(memory), &near);
    for _ in 0..20 {
        collect(client.read(ReadRequest::range(&film(), 0..SIZE).pinned(&version)).await.unwrap())
            .await
            .unwrap();
    }
    assert_eq!(client.counters().figures().requests, 20);
    // Three responses show that storage is far.
    let world = World::new(&near);
    for count in [1, 1, 1, 1, 2, 4, 8] {
        assert_eq!(world.read().await.len(), count);
    }
}

/// A reader that takes its time says nothing about storage.
#[tokio::test(start_paused = true)]
async fn the_throughput_of_slow_readers_is_not_measured() {
    let world = World::new(&options(4));
    for _ in 0..3 {
        let mut read = world.open().await.unwrap();
        while let Some(frame) = read.body.next().await {
            frame.unwrap();
            sleep(MILLI).await;
        }
    }
    assert_eq!(world.client.counters().figures().streams, 0);
    for _ in 0..9 {
        world.read().await;
    }
    assert_eq!(world.client.counters().figures().streams, 4);
}

/// Each stream waits between the end of a chunk and its next request.
#[tokio::test(start_paused = true)]
async fn streams_pause_between_chunks() {
    const GAP: Duration = Duration::from_millis(30);
    for (gap, time) in
        [(GAP, (ROUND_TRIP + 10 * MILLI) * 4 + 3 * GAP), (Duration::ZERO, ROUND_TRIP + 40 * MILLI)]
    {
        let world = World::new(&Options { gap, ..options(2) });
        assert_eq!(world.read().await.len(), 1);
        let begun = Instant::now();
        let requests = ranges(&world.read().await);
        assert_eq!(begun.elapsed(), time);
        let length = if gap.is_zero() { SIZE / 2 } else { CHUNK };
        assert!(requests.iter().all(|range| range.end - range.start == length), "{requests:?}");
        assert_eq!(requests.len() as u64, SIZE / length);
        let figures = world.client.counters().figures();
        assert_eq!((figures.in_flight, figures.bytes, figures.split), (0, 2 * SIZE, 1));
        assert_eq!(figures.requests, 1 + SIZE / length);
    }
}

/// A chunk beyond the memory for chunks that wait for their turn would stop its stream.
#[tokio::test(start_paused = true)]
async fn streams_of_a_very_long_read_take_further_chunks() {
    const LENGTH: u64 = 20 << 20;
    let memory = Arc::new(Memory::new());
    let bytes = pattern(1, usize::try_from(LENGTH).unwrap());
    let version = memory.put(film(), bytes.clone());
    let counting = Arc::new(Counting::new(memory, ROUND_TRIP));
    let client = StorageClient::new(counting.clone(), &Options { chunk: 1 << 20, ..options(2) });
    for count in [1, 5] {
        let read = client.read(ReadRequest::range(&film(), 0..LENGTH).pinned(&version)).await.unwrap();
        assert!(collect(read).await.unwrap() == bytes);
        let mut requests = ranges(&counting.take());
        assert_eq!(requests.len(), count);
        requests.sort_unstable_by_key(|range| range.start);
        assert_eq!((requests[0].start, requests[count - 1].end), (0, LENGTH));
        assert!(requests.windows(2).all(|pair| pair[0].end == pair[1].start), "{requests:?}");
    }
    assert_eq!(client.counters().figures().in_flight, 0);
}

/// Each chunk of a server that ignores ranges would bring the whole object.
#[tokio::test]
async fn a_server_that_ignores_ranges_gets_one_request_for_each_read() {
    let server = Server::start(|_, _| Reply::new(200, &[("ETag", "\"1\"")], &pattern(1, 80_000))).await;
    let storage = latemux_storage::open(&format!("{}/", server.address), &options(4)).unwrap();
    let version = Version { etag: Some("\"1\"".into()), size: SIZE, modified: None };
    for _ in 0..10 {
        let read = storage.read(ReadRequest::range(&film(), 1..SIZE).pinned(&version)).await.unwrap();
        assert_eq!(collect(read).await.unwrap(), pattern(1, 80_000)[1..]);
    }
    assert_eq!(server.requests().len(), 10);
}

/// The parameters of a read.
#[derive(Debug, Clone)]
struct Case {
    streams: usize,
    chunk: u64,
    range: std::ops::Range<u64>,
    max_in_flight: usize,
    /// Milliseconds between the chunks of a stream.
    gap: u64,
    /// Faults of the first requests.
    faults: Vec<Fault>,
    /// Number of the request before which the object changes.
    change: Option<u64>,
}

fn faults() -> impl Strategy<Value = Fault> {
    let unavailable = || StorageError::Unavailable { key: film().to_string(), detail: "injected".to_owned() };
    prop_oneof![
        6 => Just(Fault::None),
        1 => Just(Fault::Error(unavailable())),
        2 => (0..SIZE).prop_map(move |at| Fault::BreakAfter(at, unavailable())),
        1 => (0..SIZE).prop_map(|at| Fault::BreakAfter(at, StorageError::Changed(film().to_string()))),
    ]
}

fn cases() -> impl Strategy<Value = Case> {
    let range = (0..=SIZE, 0..=SIZE).prop_map(|(a, b)| a.min(b)..a.max(b));
    let faults = prop::collection::vec(faults(), 0..30);
    (1_usize..10, 1..20_000_u64, range, 1_usize..10, 0..3_u64, faults, prop::option::of(0..30_u64)).prop_map(
        |(streams, chunk, range, max_in_flight, gap, faults, change)| Case {
            streams,
            chunk,
            range,
            max_in_flight,
            gap,
            faults,
            change,
        },
    )
}

/// Reads a range several times. Returns the bytes that arrived of each, and its error.
async fn read_some(case: &Case) -> (Vec<(Vec<u8>, Option<StorageError>)>, u64) {
    let memory = Arc::new(Memory::new());
    let size = usize::try_from(SIZE).unwrap();
    let version = memory.put(film(), pattern(1, size));
    let changing = memory.clone();
    let change = case.change;
    let changed = move |number, _: &Key, _: Option<&Want>| {
        if change == Some(number) {
            changing.put(film(), pattern(2, size));
        }
        Fault::None
    };
    let far: Arc<dyn Storage> = Arc::new(Far(memory));
    let far: Arc<dyn Storage> = Arc::new(Faulty::new(far, changed));
    let far: Arc<dyn Storage> = Arc::new(Faulty::scripted(far, case.faults.clone()));
    let chunk = case.chunk;
    let max_in_flight = case.max_in_flight;
    let gap = MILLI * u32::try_from(case.gap).unwrap();
    let client = StorageClient::new(far, &Options { chunk, max_in_flight, gap, ..options(case.streams) });
    let mut reads = Vec::new();
    for _ in 0..8 {
        let mut bytes = Vec::new();
        let mut error = None;
        match client.read(ReadRequest::range(&film(), case.range.clone()).pinned(&version)).await {
            Err(failure) => error = Some(failure),
            Ok(mut read) => {
                assert_eq!((&read.range, &read.object.version), (&case.range, &version));
                while let Some(frame) = read.body.next().await {
                    match frame {
                        Ok(frame) => bytes.extend_from_slice(&frame),
                        Err(failure) => error = Some(failure),
                    }
                }
            }
        }
        reads.push((bytes, error));
    }
    (reads, client.counters().figures().in_flight)
}

proptest! {
    /// Whatever fails or changes, the bytes are those of the version, from the start of the range
    /// on, and all of them unless there is an error.
    #[test]
    fn bytes_are_identical(case in cases()) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        let (reads, in_flight) = runtime.block_on(read_some(&case));
        prop_assert_eq!(in_flight, 0);
        let is_faulty = case.change.is_some() || case.faults.iter().any(|fault| !matches!(fault, Fault::None));
        let range = usize::try_from(case.range.start).unwrap()..usize::try_from(case.range.end).unwrap();
        let expected = pattern(1, usize::try_from(SIZE).unwrap()).slice(range);
        for (bytes, error) in reads {
            prop_assert!(expected.starts_with(&bytes), "other bytes: {:?}", error);
            prop_assert!(error.is_some() || bytes.len() == expected.len(), "{} bytes", bytes.len());
            prop_assert!(error.is_none() || is_faulty, "{:?}", error);
        }
    }
}
