use super::*;
use crate::{
    read::reader::SourceReader,
    read::room::{ResponseMemory, Room},
    title::references::ObjectRef,
};
use futures_util::{StreamExt, stream};
use latemux_storage::{Key, Memory, Read, ReadRequest, Storage, Want, altered::Altered, counting::Counting};
use proptest::prelude::*;
use std::time::Duration;

fn source(object: usize, range: Range<u64>) -> SourceRange {
    SourceRange { object, range }
}

/// Returns bytes that differ between offsets and between objects.
pub(crate) fn bytes_of(object: usize, len: usize) -> Bytes {
    (0..len).map(|i| u8::try_from((i * 31 + i / 251 + object * 97) % 256).unwrap()).collect()
}

/// Returns objects of the given sizes in a memory storage.
pub(crate) fn library(sizes: &[usize]) -> (Arc<Memory>, Arc<[Arc<PinnedObject>]>) {
    let memory = Arc::new(Memory::new());
    let objects = sizes.iter().enumerate().map(|(i, &len)| {
        let key = Key::new(&format!("o{i}.mp4")).unwrap();
        let version = memory.put(key.clone(), bytes_of(i, len));
        let source = ObjectRef::served(memory.clone(), memory.clone(), key);
        Arc::new(PinnedObject { source, version })
    });
    let objects = objects.collect();
    (memory, objects)
}

/// Returns a fetch of objects whose media is read from `storage`.
fn fetch_from(storage: Arc<dyn Storage>, objects: &[Arc<PinnedObject>], config: ReadConfig) -> Fetch {
    let objects = objects.iter().map(move |known| {
        let source = ObjectRef::served(storage.clone(), storage.clone(), known.key().clone());
        Arc::new(PinnedObject { source, version: known.version.clone() })
    });
    Fetch::new(objects.collect(), config, Arc::default())
}

/// Returns the charge of a request. If `is_tight` is true, there is no memory for more than the
/// least. `unit` is the size of the range cache's units, or 0.
fn charge(is_tight: bool, unit: u64) -> Arc<Charge> {
    let memory = ResponseMemory::new(if is_tight { 80 << 10 } else { 64 << 20 }, unit, 0);
    let room = Room::new(&memory, &Arc::default());
    Charge::begin(room.clone(), room.peer().clone(), 0).unwrap()
}

/// Returns a storage whose bodies come in frames of `frame` bytes. Each frame is pending at first.
fn chopped(inner: Arc<dyn Storage>, frame: usize) -> Arc<dyn Storage> {
    let chop = move |mut read: Read| {
        let body = read.body.flat_map(move |bytes| {
            let bytes = bytes.unwrap();
            let cuts: Vec<_> = (0..bytes.len()).step_by(frame).collect();
            stream::iter(cuts.into_iter().map(move |at| bytes.slice(at..(at + frame).min(bytes.len()))))
        });
        let late = |bytes| async move {
            tokio::task::yield_now().await;
            Ok(bytes)
        };
        read.body = body.then(late).boxed();
        read
    };
    Arc::new(Altered::new(inner, move || chop))
}

async fn read_all(reader: SourceReader, limit: usize) -> Result<Vec<Bytes>, Error> {
    read_with_pauses(reader, limit, usize::MAX).await
}

/// Reads everything. The reader is paused after every `pause` pieces.
async fn read_with_pauses(mut reader: SourceReader, limit: usize, pause: usize) -> Result<Vec<Bytes>, Error> {
    reader.ready().await?;
    let charge = reader.charge().clone();
    let mut pieces = Vec::new();
    while let Some(piece) = poll_fn(|cx| reader.poll_next(cx, limit)).await {
        pieces.push(piece?);
        if pieces.len().is_multiple_of(pause) {
            reader.pause();
        }
        poll_fn(|cx| charge.poll_taken(cx)).await;
    }
    Ok(pieces)
}

fn merged(ranges: Vec<SourceRange>, gap: u64, waste: u64) -> Vec<SourceRange> {
    merge_ranges(ranges.into_iter().enumerate().collect(), gap, waste).collect()
}

#[test]
fn close_ranges_are_merged_and_the_widest_gaps_are_left_out() {
    let ranges = vec![source(0, 100..110), source(1, 0..5), source(0, 115..120), source(0, 200..210)];
    assert_eq!(merged(ranges.clone(), 5, 100), [source(0, 100..120), source(1, 0..5), source(0, 200..210)]);
    assert_eq!(merged(ranges.clone(), 80, 100), [source(0, 100..210), source(1, 0..5)]);
    // 5 bytes may be wasted, not 85.
    assert_eq!(merged(ranges.clone(), 80, 84)[0], source(0, 100..120));
    assert_eq!(merged(ranges, 4, 100).len(), 4);
    // Overlaps and touching ranges cost nothing, in any order.
    assert_eq!(merged(vec![source(0, 5..9), source(0, 0..5), source(0, 2..7)], 0, 0), [source(0, 0..9)]);
    assert_eq!(merged(Vec::new(), 1, 1), []);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn the_bytes_of_all_wanted_ranges_are_returned_in_order(
        wanted in prop::collection::vec((0usize..2, 0u64..3000, 0u64..400), 0..40),
        early in prop::collection::vec((0usize..2, 0u64..3000, 0u64..400), 0..3),
        gap in 0u64..300,
        waste in 0u64..2000,
        frame in 1usize..500,
        limit in 1usize..500,
        open in 1usize..4,
    ) {
        let ranges = |list: &[(usize, u64, u64)]| -> Vec<SourceRange> {
            list.iter().map(|&(o, at, len)| source(o, at..(at + len).min(3000))).collect()
        };
        let wanted = ranges(&wanted);
        let early = ranges(&early);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (memory, objects) = library(&[3000, 3000]);
            let counting = Arc::new(Counting::new(memory, Duration::ZERO));
            let storage = chopped(counting.clone(), frame);
            let config = ReadConfig { gap, waste, open, ..ReadConfig::default() };
            let mut fetch = fetch_from(storage, &objects, config);
            // Transfers that began before the plan was known are used.
            fetch.start(&early).unwrap();
            let reader = SourceReader::new(fetch, &wanted).unwrap();
            let got = read_all(reader, limit).await.unwrap();
            assert!(got.iter().all(|piece| !piece.is_empty() && piece.len() <= limit));
            let expected: Vec<u8> = wanted
                .iter()
                .flat_map(|r| {
                    let at = |offset| usize::try_from(offset).unwrap();
                    bytes_of(r.object, 3000)[at(r.range.start)..at(r.range.end)].to_vec()
                })
                .collect();
            assert_eq!(got.concat(), expected);
            let read: u64 = counting.take().iter().map(|r| match &r.want {
                Some(Want::Range(range)) => range.end - range.start,
                _ => 0,
            }).sum();
            let useful: u64 = wanted.iter().chain(&early).map(|r| r.range.end - r.range.start).sum();
            assert!(read <= useful + 2 * waste, "{read} bytes for {useful}");
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn without_memory_and_after_pauses_the_same_bytes_are_returned(
        wanted in prop::collection::vec((0usize..2, 0u64..90_000, 0u64..40_000), 0..20),
        gap in 0u64..30_000,
        frame in 1000usize..50_000,
        limit in 1usize..60_000,
        open in 1usize..4,
        pause in 1usize..8,
        (is_tight, is_cached) in (any::<bool>(), any::<bool>()),
    ) {
        let wanted: Vec<_> = wanted.iter().map(|&(o, at, len)| source(o, at..(at + len).min(90_000))).collect();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (memory, objects) = library(&[90_000, 90_000]);
            let config = ReadConfig { gap, open, ..ReadConfig::default() };
            let mut fetch = fetch_from(chopped(memory, frame), &objects, config);
            let charge = charge(is_tight, if is_cached { 64 << 10 } else { 0 });
            fetch.charge = charge.clone();
            let reader = SourceReader::new(fetch, &wanted).unwrap();
            let got = read_with_pauses(reader, limit, pause).await.unwrap();
            let at = |offset| usize::try_from(offset).unwrap();
            let expected = wanted.iter().map(|r| bytes_of(r.object, 90_000).slice(at(r.range.start)..at(r.range.end)));
            assert!(got.concat() == expected.collect::<Vec<_>>().concat());
            // Everything that was reserved for source bytes is given back.
            poll_fn(|cx| charge.poll_taken(cx)).await;
            let begun = self::charge(is_tight, 0);
            assert_eq!(charge.reserved(), begun.reserved());
        });
    }
}

#[tokio::test]
async fn bytes_are_returned_without_copying() {
    let (memory, objects) = library(&[1000]);
    let stored = memory.read(ReadRequest::head(objects[0].key(), 1000)).await.unwrap();
    let stored = stored.body.map(Result::unwrap).collect::<Vec<_>>().await;
    let fetch = Fetch::new(objects, ReadConfig::default(), Arc::default());
    let reader = SourceReader::new(fetch, &[source(0, 10..20), source(0, 500..600)]).unwrap();
    let got = read_all(reader, usize::MAX).await.unwrap();
    assert_eq!(got.len(), 2);
    for (piece, at) in got.iter().zip([10, 500]) {
        assert_eq!(piece.as_ptr(), stored[0][at..].as_ptr(), "the bytes were copied");
    }
}

#[tokio::test(start_paused = true)]
async fn all_requests_start_at_once() {
    let (memory, objects) = library(&[5000, 5000, 5000]);
    let counting = Arc::new(Counting::new(memory, Duration::from_millis(1)));
    let config = ReadConfig { gap: 10, ..ReadConfig::default() };
    let fetch = fetch_from(counting.clone(), &objects, config);
    let wanted = [source(2, 0..100), source(0, 0..10), source(0, 100..200), source(1, 5..9)];
    let reader = SourceReader::new(fetch, &wanted).unwrap();
    read_all(reader, usize::MAX).await.unwrap();
    assert_eq!(counting.depth(), 1);
    assert_eq!(counting.take().len(), 4);
}

#[tokio::test]
async fn ranges_that_cannot_be_read_are_refused_before_any_request() {
    let (memory, objects) = library(&[1000]);
    let counting = Arc::new(Counting::new(memory, Duration::ZERO));
    let config = ReadConfig { gap: 1, requests: 3, ..ReadConfig::default() };
    let mut fetch = fetch_from(counting.clone(), &objects, config);
    let beyond = fetch.start(&[source(0, 990..1001)]).unwrap_err();
    assert_eq!(beyond.reason(), "truncated");
    let scattered: Vec<_> = (0..4).map(|i| source(0, i * 100..i * 100 + 1)).collect();
    assert_eq!(fetch.start(&scattered).unwrap_err().reason(), "segment_scattered");
    assert!(counting.take().is_empty());
}

/// A storage that breaks its contract causes an error, never wrong bytes.
#[tokio::test]
async fn short_long_and_wrong_responses_are_errors() {
    let lies: [fn(Read) -> Read; 3] = [
        |read| Read { body: stream::iter([Ok(Bytes::from_static(&[0; 9]))]).boxed(), ..read },
        |read| Read { body: stream::iter([Ok(Bytes::from_static(&[0; 11]))]).boxed(), ..read },
        |read| Read { range: 0..10, ..read },
    ];
    for (i, lie) in lies.into_iter().enumerate() {
        let (memory, objects) = library(&[1000]);
        let fetch = fetch_from(Arc::new(Altered::new(memory, move || lie)), &objects, ReadConfig::default());
        let reader = SourceReader::new(fetch, &[source(0, 20..30)]).unwrap();
        let error = read_all(reader, usize::MAX).await.unwrap_err();
        assert_eq!(error.reason(), "storage_bad_answer", "lie {i}");
    }
}

#[tokio::test]
async fn bytes_are_joined_across_frames() {
    let (memory, objects) = library(&[1000]);
    let mut fetch = fetch_from(chopped(memory, 7), &objects, ReadConfig::default());
    fetch.start(&[source(0, 100..900)]).unwrap();
    let got = fetch.bytes(0, 250, 100).await.unwrap();
    assert!(got.len() >= 100);
    assert_eq!(got[..], bytes_of(0, 1000)[250..250 + got.len()]);
    // Earlier bytes stay until they are released.
    assert_eq!(fetch.bytes(0, 100, 1).await.unwrap()[0], bytes_of(0, 1000)[100]);
    assert!(fetch.bytes(0, 850, 51).await.is_err(), "bytes that no transfer reads");
}
