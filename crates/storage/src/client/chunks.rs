//! Long reads in chunks: several requests at once, whose bytes are delivered in order.
//!
//! The streams of a read begin together, each with a permit of its own. The first one waits for its
//! permit like any read. The others take only permits that are free at once, because reads that
//! wait for permits while they hold some would deadlock. A stream that has received its chunk keeps
//! its permit for the next chunk, if there is one.

use super::levels::Choice;
use super::ramp::Ramp;
use super::{Core, Permit};
use crate::counters::increment;
use crate::{Key, Options, Read, ReadRequest, StorageError, StreamCount, Version, Want};
use bytes::Bytes;
use futures_util::stream::{BoxStream, Stream, StreamExt};
use futures_util::{FutureExt, future::BoxFuture};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::ops::Range;
use std::pin::{Pin, pin};
use std::sync::{Arc, atomic::Ordering::Relaxed};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep};

/// The most streams that `auto` uses.
const AUTO_STREAMS: usize = 16;
/// The most chunks of a read, however short they are meant to be.
const MOST_CHUNKS: u64 = 10_000;
/// Most bytes that one chunk holds before its turn. A longer one then waits.
const MOST_HELD: u64 = 4 << 20;
/// Most bytes that all chunks of a back end hold before their turn, in KiB.
const ROOM_KIB: usize = 32 << 10;
/// The least share of a read's time that must be spent waiting for storage, in percent. Otherwise
/// the reader was slow, and the throughput says nothing about storage.
const LEAST_WAIT: u32 = 80;

/// The settings and the state of reads in chunks, for one back end.
#[derive(Debug)]
pub(super) struct Splitting {
    /// Least bytes of a chunk; not 0.
    chunk: u64,
    /// Pause of a stream between a chunk and its next request.
    gap: Duration,
    /// True if only reads of far storage are split.
    is_auto: bool,
    ramp: Ramp,
    /// Room for bytes that arrive before their turn, in KiB.
    room: Arc<Semaphore>,
}

/// A read that is long enough to be split.
pub(super) struct LongRead<'a> {
    splitting: &'a Splitting,
    range: Range<u64>,
    version: &'a Version,
    /// Number of streams that the ramp chose.
    streams: usize,
}

impl Splitting {
    /// Returns `None` if reads are never split.
    pub(super) fn new(options: &Options) -> Option<Self> {
        let (is_auto, most) = match options.streams {
            StreamCount::Auto => (true, AUTO_STREAMS),
            StreamCount::AtMost(most) => (false, most),
        };
        let room = Arc::new(Semaphore::new(ROOM_KIB));
        let (chunk, gap) = (options.chunk.max(1), options.gap);
        (most > 1).then(|| Self { chunk, gap, is_auto, ramp: Ramp::new(most), room })
    }

    /// Returns the number of chunks of a read over so many streams. Long chunks need the fewest
    /// round trips, so each stream gets one, unless it would be too long to be held. With a gap,
    /// chunks are as short as possible, because the gap is meant to leave room for other traffic.
    fn chunk_count(&self, length: u64, streams: u64) -> u64 {
        match streams {
            ..=1 => 1,
            _ if self.gap.is_zero() => streams.max(length.div_ceil(MOST_HELD)),
            _ => streams.max((length / self.chunk).min(MOST_CHUNKS)),
        }
    }

    /// Returns room for a chunk before its turn, if there is enough.
    fn reserve(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let kib = u32::try_from(bytes.min(MOST_HELD).div_ceil(1024)).ok()?;
        self.room.clone().try_acquire_many_owned(kib).ok()
    }
}

impl Core {
    /// Returns the read if it may be split: its version must be known, so that versions never mix.
    pub(super) fn long_read<'a>(&'a self, request: &ReadRequest<'a>) -> Option<LongRead<'a>> {
        let splitting = self.splitting.as_ref()?;
        let version = request.version.filter(|version| version.is_reliable())?;
        let Want::Range(range) = &request.want else { return None };
        let length = range.end.checked_sub(range.start)?;
        // A server that ignores ranges would send the same bytes with each response.
        let has_ranges = self.account.counters.ranges_ignored.load(Relaxed) == 0;
        let chunks = length / splitting.chunk;
        if chunks < 2 || !has_ranges || (splitting.is_auto && !self.account.distance.is_far()) {
            return None;
        }
        let streams = splitting.ramp.next(chunks);
        Some(LongRead { splitting, range: range.clone(), version, streams })
    }

    /// Reads in as many chunks as permits and room allow.
    pub(super) async fn read_in_chunks(
        self: &Arc<Self>,
        permit: Permit,
        request: ReadRequest<'_>,
        long: LongRead<'_>,
    ) -> Result<Read, StorageError> {
        let LongRead { splitting, range, version, streams } = long;
        let begun = Instant::now();
        let length = range.end - range.start;
        let intended = (length / splitting.chunk).clamp(1, streams as u64);
        let longest = length.div_ceil(intended);
        let more =
            (1..intended).map_while(|_| Some((self.try_acquire_spare()?, splitting.reserve(longest)?)));
        let more: Vec<_> = more.collect();
        let streams_used = more.len() + 1;
        let count = splitting.chunk_count(length, streams_used as u64);
        // The lengths of chunks differ by one byte at most.
        let edge = |number: u64| range.start + length / count * number + number.min(length % count);
        let mut rest: VecDeque<_> = (1..count).map(|number| edge(number)..edge(number + 1)).collect();
        let object =
            Arc::new(Pinned { core: Arc::clone(self), key: request.key.clone(), version: version.clone() });
        let mut chunks: VecDeque<Chunk> = more
            .into_iter()
            .map_while(|(permit, room)| Some(Chunk::new(&object, rest.pop_front()?, permit, Some(room))))
            .collect();
        if count > 1 {
            increment(&self.account.counters.split);
        }
        let first_range = range.start..edge(1);
        let first = ReadRequest { want: Want::Range(first_range.clone()), ..request };
        let mut first = pin!(self.read_whole(permit, first));
        let response = poll_fn(|cx| {
            // The first request is sent before the others.
            let response = first.as_mut().poll(cx);
            chunks.iter_mut().for_each(|chunk| chunk.receive_ahead(cx));
            response
        });
        let read = response.await?;
        object.check(&read, &first_range)?;
        let body = Body {
            object,
            first: Some(read.body),
            first_left: first_range.end - first_range.start,
            chunks,
            rest,
            idle: Vec::new(),
            streams: streams_used,
            length,
            left: length,
            begun,
            returned: Some(Instant::now()),
            reader_time: Duration::ZERO,
            // Without enough permits, the read has fewer chunks. More streams help less then.
            measured: Some(streams),
        };
        Ok(Read { range, body: body.boxed(), ..read })
    }

    fn note_throughput(&self, streams: usize, bytes: u64, time: Duration) {
        let splitting = self.splitting.as_ref();
        self.note(
            splitting.map(|splitting| splitting.ramp.record(bytes / splitting.chunk, streams, bytes, time)),
        );
    }

    fn note_failed_stream(&self, bytes: u64) {
        let splitting = self.splitting.as_ref();
        self.note(splitting.map(|splitting| splitting.ramp.record_failure(bytes / splitting.chunk)));
    }

    fn note(&self, choice: Option<Choice>) {
        let (counters, Some(choice)) = (&self.account.counters, choice) else { return };
        counters.streams.store(choice.streams, Relaxed);
        counters.rate_of_one.store(choice.rate_of_one, Relaxed);
        counters.rate_of_streams.store(choice.rate, Relaxed);
    }
}

/// One version of an object of a back end.
struct Pinned {
    core: Arc<Core>,
    key: Key,
    version: Version,
}

impl Pinned {
    /// Requests a chunk, twice if no response has come after a while.
    fn request(self: &Arc<Self>, range: Range<u64>) -> Source {
        let object = Arc::clone(self);
        let response = async move {
            let request = ReadRequest::range(&object.key, range.clone()).pinned(&object.version);
            let read = match object.core.hedge_after {
                // The request that is not used has ended, so the permit of the chunk is enough.
                Some(after) => object.core.hedged(after, None, request).await?.0,
                None => object.core.inner.read(request).await?,
            };
            object.check(&read, &range)?;
            Ok(read.body)
        };
        Source::Requested(response.boxed())
    }

    /// Checks that a response has the bytes of a chunk, and those of the same version.
    fn check(&self, read: &Read, range: &Range<u64>) -> Result<(), StorageError> {
        if read.range != *range {
            return Err(self.bad_response(format!("requested {range:?}, got {:?}", read.range)));
        }
        if read.object.version != self.version {
            return Err(self.bad_response(format!("got version {:?}", read.object.version)));
        }
        Ok(())
    }

    /// Counts down the bytes that a chunk lacks.
    fn count_down(&self, left: u64, frame: &Bytes) -> Result<u64, StorageError> {
        let surplus = || self.bad_response("sent more bytes than the range has".to_owned());
        left.checked_sub(frame.len() as u64).ok_or_else(surplus)
    }

    fn bad_response(&self, detail: String) -> StorageError {
        StorageError::BadResponse { key: self.key.to_string(), detail }
    }

    fn ended_early(&self) -> StorageError {
        let detail = "the body ended early".to_owned();
        StorageError::Unavailable { key: self.key.to_string(), detail }
    }
}

/// The bytes of a chunk before they are taken.
enum Source {
    Requested(BoxFuture<'static, Result<Frames, StorageError>>),
    Arriving(Frames),
    Failed(StorageError),
}

type Frames = BoxStream<'static, Result<Bytes, StorageError>>;

/// A chunk other than the first of its read.
struct Chunk {
    object: Arc<Pinned>,
    /// Bytes that have not arrived yet.
    range: Range<u64>,
    source: Source,
    /// Bytes that arrived before their turn.
    held: VecDeque<Bytes>,
    /// True until the chunk is requested again after a failure.
    may_repeat: bool,
    /// Held until all bytes have arrived, by the stream that reads the chunk.
    permit: Option<Permit>,
    /// Room for `held`, until it is the chunk's turn.
    room: Option<OwnedSemaphorePermit>,
}

impl Chunk {
    /// Requests a chunk, with room for it if it comes before its turn.
    fn new(
        object: &Arc<Pinned>,
        range: Range<u64>,
        permit: Permit,
        room: Option<OwnedSemaphorePermit>,
    ) -> Self {
        increment(&object.core.account.counters.requests);
        object.core.account.earn();
        Self {
            object: Arc::clone(object),
            source: object.request(range.clone()),
            range,
            held: VecDeque::new(),
            may_repeat: true,
            permit: Some(permit),
            room,
        }
    }

    /// Returns the next bytes from storage, or `None` once all have arrived. After a failure it
    /// returns the same error again.
    fn poll_arrival(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, StorageError>>> {
        if self.range.is_empty() {
            return Poll::Ready(None);
        }
        let next = ready!(self.poll_source(cx));
        match &next {
            Ok(frame) => self.range.start += frame.len() as u64,
            Err(error) => self.source = Source::Failed(error.clone()),
        }
        Poll::Ready(Some(next))
    }

    fn poll_source(&mut self, cx: &mut Context<'_>) -> Poll<Result<Bytes, StorageError>> {
        loop {
            match &mut self.source {
                Source::Requested(response) => {
                    self.source = Source::Arriving(ready!(response.poll_unpin(cx))?);
                }
                Source::Arriving(frames) => {
                    let frame = ready!(frames.poll_next_unpin(cx));
                    let frame = frame.ok_or_else(|| self.object.ended_early())??;
                    self.object.count_down(self.range.end - self.range.start, &frame)?;
                    return Poll::Ready(Ok(frame));
                }
                Source::Failed(error) => return Poll::Ready(Err(error.clone())),
            }
        }
    }

    /// Takes what arrives before the chunk's turn. A failure is kept until then.
    fn receive_ahead(&mut self, cx: &mut Context<'_>) {
        let mut bytes: u64 = self.held.iter().map(|frame| frame.len() as u64).sum();
        while bytes < MOST_HELD
            && !matches!(self.source, Source::Failed(_))
            && let Poll::Ready(Some(Ok(frame))) = self.poll_arrival(cx)
        {
            bytes += frame.len() as u64;
            self.held.push_back(frame);
        }
    }

    /// Returns the next bytes in order, once it is the chunk's turn.
    fn poll_in_turn(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, StorageError>>> {
        self.room = None;
        match self.held.pop_front() {
            Some(frame) => Poll::Ready(Some(Ok(frame))),
            None => self.poll_arrival(cx),
        }
    }

    /// Requests the rest again after a failure of storage. Returns false if it may not.
    fn repeat(&mut self, error: &StorageError) -> bool {
        let account = &self.object.core.account;
        if !(self.may_repeat && error.is_fault() && account.spend()) {
            return false;
        }
        increment(&account.counters.retries);
        tracing::debug!(key = %self.object.key, %error, range = ?self.range, "requesting a chunk again");
        self.may_repeat = false;
        self.source = self.object.request(self.range.clone());
        true
    }
}

/// A stream between two chunks.
struct IdleStream {
    permit: Permit,
    /// `None` without a gap, or after it.
    gap: Option<Pin<Box<Sleep>>>,
}

impl IdleStream {
    /// Waits for the end of the gap.
    fn poll_gap(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Some(gap) = &mut self.gap {
            ready!(gap.as_mut().poll(cx));
            self.gap = None;
        }
        Poll::Ready(())
    }
}

/// The body of a read in chunks.
struct Body {
    object: Arc<Pinned>,
    /// The first chunk, which counts its bytes and failures itself.
    first: Option<Frames>,
    /// Bytes of the first chunk that have not been delivered.
    first_left: u64,
    /// The other chunks that have been requested, in order.
    chunks: VecDeque<Chunk>,
    /// The ranges of those that have not.
    rest: VecDeque<Range<u64>>,
    /// Streams that wait for their next chunk.
    idle: Vec<IdleStream>,
    /// Number of streams. So many chunks at most are requested and not delivered.
    streams: usize,
    /// Bytes of all chunks, and those that have not been delivered.
    length: u64,
    left: u64,
    begun: Instant,
    /// Time at which the reader got its latest bytes.
    returned: Option<Instant>,
    /// Time that the reader took until it asked for more.
    reader_time: Duration,
    /// The number of streams for which the throughput is to be recorded.
    measured: Option<usize>,
}

impl Body {
    fn poll_chunks(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, StorageError>>> {
        loop {
            self.receive_ahead(cx);
            if let Some(first) = &mut self.first {
                if let Some(frame) = ready!(first.poll_next_unpin(cx)) {
                    return Poll::Ready(Some(frame.and_then(|frame| self.count_first(frame))));
                }
                if self.first_left > 0 {
                    return Poll::Ready(Some(Err(self.object.ended_early())));
                }
                self.first = None;
                continue;
            }
            let Some(chunk) = self.chunks.front_mut() else {
                // All streams may be in their gaps.
                return if self.rest.is_empty() { Poll::Ready(None) } else { Poll::Pending };
            };
            match ready!(chunk.poll_in_turn(cx)) {
                Some(Ok(frame)) => {
                    let counters = &self.object.core.account.counters;
                    counters.bytes.fetch_add(frame.len() as u64, Relaxed);
                    self.end_chunks();
                    return Poll::Ready(Some(Ok(frame)));
                }
                Some(Err(error)) => {
                    self.measured = None;
                    let core = &self.object.core;
                    if error.is_fault() {
                        // Perhaps storage allows fewer requests at once.
                        core.note_failed_stream(self.length);
                    }
                    if !chunk.repeat(&error) {
                        return Poll::Ready(Some(core.count_fault(Err(error))));
                    }
                }
                None => _ = self.chunks.pop_front(),
            }
        }
    }

    /// Takes what arrives before its turn, and requests further chunks.
    fn receive_ahead(&mut self, cx: &mut Context<'_>) {
        loop {
            let in_turn = usize::from(self.first.is_none());
            self.chunks.iter_mut().skip(in_turn).for_each(|chunk| chunk.receive_ahead(cx));
            self.end_chunks();
            if !self.begin_chunks(cx) {
                return;
            }
        }
    }

    /// Makes the streams idle whose chunks have arrived, or ends them if there are no more chunks.
    fn end_chunks(&mut self) {
        let ended = self.chunks.iter_mut().filter(|chunk| chunk.range.is_empty());
        let permits: Vec<_> = ended.filter_map(|chunk| chunk.permit.take()).collect();
        permits.into_iter().for_each(|permit| self.end_chunk(permit));
    }

    fn end_chunk(&mut self, permit: Permit) {
        let gap = self.object.core.splitting.as_ref().map(|splitting| splitting.gap);
        if !self.rest.is_empty() {
            let gap = gap.filter(|gap| !gap.is_zero()).map(|gap| Box::pin(sleep(gap)));
            self.idle.push(IdleStream { permit, gap });
        }
    }

    /// Requests chunks over idle streams. Returns true if there were any.
    fn begin_chunks(&mut self, cx: &mut Context<'_>) -> bool {
        let mut has_begun = false;
        for mut stream in std::mem::take(&mut self.idle) {
            let undelivered = self.chunks.len() + usize::from(self.first.is_some());
            let is_ready = stream.poll_gap(cx).is_ready() && undelivered < self.streams;
            let next = if is_ready { self.rest.pop_front() } else { None };
            let Some(range) = next else {
                self.idle.push(stream);
                continue;
            };
            let splitting = self.object.core.splitting.as_ref();
            let room = splitting.and_then(|splitting| splitting.reserve(range.end - range.start));
            // A chunk whose turn it is needs no room.
            if room.is_none() && undelivered > 0 {
                self.rest.push_front(range);
                self.idle.push(stream);
                continue;
            }
            self.chunks.push_back(Chunk::new(&self.object, range, stream.permit, room));
            has_begun = true;
        }
        if self.rest.is_empty() {
            self.idle.clear();
        }
        has_begun
    }

    fn count_first(&mut self, frame: Bytes) -> Result<Bytes, StorageError> {
        self.first_left = self.object.count_down(self.first_left, &frame)?;
        if self.first_left == 0 && !self.rest.is_empty() {
            // The first request has given its permit back.
            self.object.core.try_acquire_spare().into_iter().for_each(|permit| self.end_chunk(permit));
        }
        Ok(frame)
    }

    /// Records the throughput once all bytes have been delivered.
    fn measure(&mut self) {
        let Some(streams) = self.measured.take() else { return };
        let time = self.begun.elapsed();
        let waited = time.saturating_sub(self.reader_time);
        if waited >= time * LEAST_WAIT / 100 {
            self.object.core.note_throughput(streams, self.length, waited);
        }
    }
}

impl Stream for Body {
    type Item = Result<Bytes, StorageError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Some(returned) = this.returned.take() {
            this.reader_time += returned.elapsed();
        }
        let next = ready!(this.poll_chunks(cx));
        match &next {
            Some(Ok(frame)) => {
                this.returned = Some(Instant::now());
                this.left = this.left.saturating_sub(frame.len() as u64);
                if this.left == 0 {
                    this.measure();
                }
            }
            Some(Err(_)) => {
                // Ends the other transfers.
                (this.first, this.first_left) = (None, 0);
                this.chunks.clear();
                this.rest.clear();
                this.idle.clear();
            }
            None => {}
        }
        Poll::Ready(next)
    }
}
