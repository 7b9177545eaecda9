//! Long reads of storage 40 ms away with the default settings. The clock advances only while all
//! tasks wait.

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream};
use latemux_storage::conformance::{collect, pattern};
use latemux_storage::{
    Key, ListRequest, Listing, Memory, Options, Read, ReadRequest, Storage, StorageClient, StorageError,
    StreamCount,
};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep};

const ROUND_TRIP: Duration = Duration::from_millis(40);
/// Bytes of a read: a segment.
const SEGMENT: usize = 2_000_000;
/// Bytes of the first window of a TCP connection: 10 packets (RFC 6928).
const FIRST_WINDOW: usize = 14_600;
/// The reads in which the number of streams is chosen, and the ones after them.
const CHOOSING: usize = 30;
const STEADY: usize = 21;

/// The connections to a storage.
#[derive(Debug, Clone)]
enum Path {
    /// Each request opens one: a round trip more, and a window that doubles with each.
    Fresh,
    /// They are kept, and all share a line of 10 MB/s.
    Kept(Arc<Mutex<()>>),
}

/// A storage behind a long path.
#[derive(Debug)]
struct Far(Arc<Memory>, Path);

/// Returns the bytes of a body in pieces. Each is `growth` times as long as the one before.
fn pieces(whole: &bytes::Bytes, first: usize, growth: usize) -> Vec<bytes::Bytes> {
    let (mut rest, mut length) = (whole.clone(), first);
    let mut pieces = Vec::new();
    while !rest.is_empty() {
        pieces.push(rest.split_to(length.min(rest.len())));
        length *= growth;
    }
    pieces
}

impl Storage for Far {
    fn read<'a>(&'a self, request: ReadRequest<'a>) -> BoxFuture<'a, Result<Read, StorageError>> {
        async move {
            sleep(ROUND_TRIP).await;
            let read = self.0.read(request).await?;
            let (object, range) = (read.object.clone(), read.range.clone());
            let whole = collect(read).await?;
            let body = match self.1.clone() {
                Path::Fresh => {
                    sleep(ROUND_TRIP).await;
                    let windows = pieces(&whole, FIRST_WINDOW, 2).into_iter().enumerate();
                    let paced = |(number, window)| async move {
                        if number > 0 {
                            sleep(ROUND_TRIP).await;
                        }
                        Ok(window)
                    };
                    stream::iter(windows).then(paced).boxed()
                }
                Path::Kept(line) => {
                    let sent = move |piece| {
                        let line = line.clone();
                        async move {
                            let _line = line.lock().await;
                            sleep(Duration::from_millis(1)).await;
                            Ok(piece)
                        }
                    };
                    stream::iter(pieces(&whole, 10_000, 1)).then(sent).boxed()
                }
            };
            Ok(Read { object, range, body, is_in_memory: false })
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

/// Reads a segment again and again. Returns the times of the last reads in order of length, and the
/// number of streams of most reads.
async fn times(path: Path, streams: StreamCount) -> (Vec<Duration>, u64) {
    let memory = Arc::new(Memory::new());
    let film = Key::new("film.mp4").unwrap();
    let media = pattern(1, SEGMENT);
    let version = memory.put(film.clone(), media.clone());
    let client = StorageClient::new(Arc::new(Far(memory, path)), &Options { streams, ..Options::default() });
    let mut times = Vec::new();
    for _ in 0..CHOOSING + STEADY {
        let begun = Instant::now();
        let request = ReadRequest::range(&film, 0..SEGMENT as u64).pinned(&version);
        let bytes = collect(client.read(request).await.unwrap()).await.unwrap();
        assert!(bytes == media, "other bytes");
        times.push(begun.elapsed());
    }
    let mut steady = times.split_off(CHOOSING);
    steady.sort_unstable();
    (steady, client.counters().figures().streams)
}

#[tokio::test(start_paused = true)]
async fn a_cold_segment_over_fresh_connections_takes_six_tenths_of_the_time() {
    assert_eq!(Options::default().streams, StreamCount::Auto);
    let (plain, _) = times(Path::Fresh, StreamCount::AtMost(1)).await;
    assert_eq!(plain[STEADY / 2], 9 * ROUND_TRIP);
    let (split, streams) = times(Path::Fresh, StreamCount::Auto).await;
    assert_eq!(split[STEADY / 2], 5 * ROUND_TRIP, "{streams} streams");
    assert!(split[STEADY / 2] <= plain[STEADY / 2] * 6 / 10);
    // Most reads that try other numbers are no slower than a plain one.
    assert!(split[STEADY - 1] <= plain[STEADY / 2]);
    // With four streams, two of nine round trips are saved.
    let (split, streams) = times(Path::Fresh, StreamCount::AtMost(4)).await;
    assert_eq!((split[STEADY / 2], streams), (7 * ROUND_TRIP, 4));
}

#[tokio::test(start_paused = true)]
async fn over_kept_connections_that_fill_the_line_reads_keep_to_one_request() {
    let line = Path::Kept(Arc::default());
    let (plain, _) = times(line.clone(), StreamCount::AtMost(1)).await;
    let (auto, streams) = times(line, StreamCount::Auto).await;
    assert_eq!((auto[STEADY / 2], streams), (plain[STEADY / 2], 1));
    // The reads that try more streams are hardly slower.
    assert!(auto[STEADY - 1] <= plain[STEADY / 2] * 11 / 10, "{auto:?}");
}
