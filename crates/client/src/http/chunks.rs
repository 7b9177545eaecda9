//! Resources fetched in chunks, over several connections.

use super::{
    client::{Ask, Client, Connection, FailedFetch, Fetched, Sink},
    entity::Entity,
};
use crate::{
    failure::{Failure, Reason},
    presentation::{ByteRange, Resource},
};
use futures_util::future::BoxFuture;
use latemux_streams::{Answer, Chunk, Command, Dealer, Settings};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    future::poll_fn,
    mem::take,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Poll,
    time::Duration,
};
use tokio::time::{Instant, sleep_until, timeout_at};
use url::Url;

/// Connections over which resources are fetched in chunks, one resource after the other. They and
/// the transfer times are kept from one resource to the next.
pub struct Streams {
    dealer: Dealer,
    connections: Vec<Connection>,
    /// The moment from which the dealer's times count.
    epoch: Instant,
    /// The length of the last resource.
    expected: Option<u64>,
    /// The streams whose last request was answered, so that the server may keep their connections.
    answered: BTreeSet<usize>,
    tally: ChunkTally,
}

impl fmt::Debug for Streams {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Streams").field("dealer", &self.dealer).finish_non_exhaustive()
    }
}

/// Measurements of chunks.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChunkTally {
    /// The number of streams.
    pub streams: u64,
    /// Requests for chunks.
    pub requests: u64,
    /// The time from the request for each chunk to its last byte, for those that arrived first.
    pub times: Vec<Duration>,
    /// Chunks that did not arrive within their timeout.
    pub timeouts: u64,
    /// The growth of the number of timeouts of the stream that has had most.
    pub most_timeouts: u64,
    /// Bytes that had arrived on another connection, or that arrived for a request that was
    /// cancelled.
    pub duplicated: u64,
    /// Requests beyond the end of the resource, made before its length was known.
    pub beyond_end: u64,
    /// Connections that were opened, except for requests that were cancelled.
    pub opened: u64,
    /// Connections that were opened although the last request of their stream was answered: the
    /// server did not keep the connection.
    pub reopened: u64,
    /// Requests whose connection failed.
    pub failed: u64,
    /// Requests that were answered with 503 or 429 while others succeeded.
    pub refused: u64,
    /// Streams that were given up in the end, because their connections failed or were refused
    /// again and again.
    pub given_up: u64,
}

/// A resource that was fetched in chunks.
#[derive(Debug, Clone)]
pub struct ChunkedFetch {
    /// The measurements of the whole, as of a single request.
    pub fetched: Fetched,
    /// The length of the resource in bytes.
    pub length: u64,
}

impl ChunkedFetch {
    /// Returns true if the end of the resource is missing.
    pub const fn is_truncated(&self) -> bool {
        self.fetched.bytes < self.length
    }
}

impl Streams {
    /// Makes streams that open their connections with their first requests.
    pub fn new(settings: Settings) -> Self {
        let connections = (0..settings.streams.max(1)).map(|_| Connection::default()).collect();
        let dealer = Dealer::new(settings);
        Self {
            dealer,
            connections,
            epoch: Instant::now(),
            expected: None,
            answered: BTreeSet::new(),
            tally: ChunkTally::default(),
        }
    }

    /// Returns the measurements since the last call.
    pub fn take_tally(&mut self) -> ChunkTally {
        let streams = self.connections.len() as u64;
        ChunkTally { streams, given_up: self.dealer.given_up() as u64, ..take(&mut self.tally) }
    }

    fn now(&self) -> Duration {
        self.epoch.elapsed()
    }
}

impl Client {
    /// Fetches a resource in chunks. `body` takes the bytes in their order. At the time `end`, if
    /// there is one, the resource is truncated to the bytes that arrived in order.
    ///
    /// # Errors
    /// A [`FailedFetch`] for the reasons of [`get`](Self::get), if the server does not answer byte
    /// ranges, if it answers 416 to one inside the resource, or if the resource changes between two
    /// chunks. Connections that fail are replaced, and so are requests with status 503 or 429 made
    /// again if another one succeeds: the resource fails if each stream has failed three times in a
    /// row, or if nothing arrived before `end`.
    pub async fn get_in_chunks(
        &self,
        streams: &mut Streams,
        resource: &Resource,
        due: Instant,
        end: Option<Instant>,
        body: &mut Sink<'_>,
    ) -> Result<ChunkedFetch, FailedFetch> {
        let now = streams.now();
        let (timeouts, most) = (streams.dealer.timeouts(), streams.dealer.most_timeouts());
        streams.dealer.begin(now, streams.expected);
        let mut transfer = Transfer::new(self, streams, resource, due);
        let fetched = timeout_at(self.deadline(due), transfer.run(end, body)).await;
        let received = transfer.delivered;
        transfer.end();
        streams.tally.timeouts += streams.dealer.timeouts() - timeouts;
        streams.tally.most_timeouts += streams.dealer.most_timeouts() - most;
        let failure = match fetched {
            Ok(Ok(fetched)) => {
                streams.expected = Some(fetched.length);
                return Ok(fetched);
            }
            Ok(Err(failure)) => failure,
            Err(_) => self.timed_out(&resource.url, received),
        };
        Err(FailedFetch { failure, bytes: received, latency: due.elapsed() })
    }
}

/// A request for a chunk in progress.
struct Slot {
    chunk: Chunk,
    /// The bytes that have arrived. The request's future has the same buffer.
    bytes: Arc<Mutex<Vec<u8>>>,
    work: BoxFuture<'static, Done>,
}

/// A request for a chunk that has ended.
struct Done {
    connection: Connection,
    /// The number of connections that it opened.
    opened: u64,
    result: Result<Fetched, Failure>,
}

/// An event of a transfer.
enum Event {
    /// The request of a stream has ended.
    Ended(usize, Box<Done>),
    /// A first response has stated the length of the resource.
    LengthKnown,
}

/// One resource on its way.
struct Transfer<'a> {
    client: &'a Client,
    streams: &'a mut Streams,
    resource: &'a Resource,
    due: Instant,
    started: Instant,
    slots: Vec<Option<Slot>>,
    entity: Arc<Mutex<Entity>>,
    is_length_known: bool,
    /// Chunks that arrived before an earlier one.
    waiting: BTreeMap<u64, Vec<u8>>,
    /// The bytes that the sink took.
    delivered: u64,
    first_byte: Option<Duration>,
    url: Option<Url>,
    /// The streams of which a request was refused.
    refused: BTreeSet<usize>,
    last_failure: Option<Failure>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Transfer<'a> {
    fn new(client: &'a Client, streams: &'a mut Streams, resource: &'a Resource, due: Instant) -> Self {
        let slots = streams.connections.iter().map(|_| None).collect();
        Self {
            client,
            streams,
            resource,
            due,
            started: Instant::now(),
            slots,
            entity: Arc::default(),
            is_length_known: false,
            waiting: BTreeMap::new(),
            delivered: 0,
            first_byte: None,
            url: None,
            refused: BTreeSet::new(),
            last_failure: None,
        }
    }

    async fn run(&mut self, end: Option<Instant>, body: &mut Sink<'_>) -> Result<ChunkedFetch, Failure> {
        if let Some(range) = self.resource.range {
            self.set_length(range.length());
        }
        loop {
            let length = lock(&self.entity).length;
            if let Some(length) = length.filter(|_| !self.is_length_known) {
                self.set_length(length);
            }
            self.obey();
            self.deliver(body)?;
            if self.streams.dealer.is_complete() {
                return self.fetched();
            }
            let wake = self.streams.dealer.wake();
            if wake.is_none() && self.slots.iter().all(Option::is_none) {
                let nothing = || Failure::new(Reason::Status(416), self.resource.url.to_string());
                return Err(self.last_failure.take().unwrap_or_else(nothing));
            }
            let wake = wake.map(|wake| self.streams.epoch + wake);
            let event = tokio::select! {
                event = next_event(&mut self.slots, &self.entity, self.is_length_known) => event,
                () = sleep_until(wake.unwrap_or(self.due)), if wake.is_some() => continue,
                () = sleep_until(end.unwrap_or(self.due)), if end.is_some() => {
                    self.deliver_partial(body)?;
                    return self.fetched();
                }
            };
            match event {
                Event::LengthKnown => {}
                Event::Ended(stream, done) => self.take(stream, *done)?,
            }
        }
    }

    fn set_length(&mut self, length: u64) {
        self.is_length_known = true;
        lock(&self.entity).length = Some(length);
        self.streams.dealer.set_length(length);
    }

    /// Does what the dealer decides.
    fn obey(&mut self) {
        let now = self.streams.now();
        while let Some(command) = self.streams.dealer.command(now) {
            match command {
                Command::Cancel { stream } => {
                    self.streams.answered.remove(&stream);
                    if let Some(slot) = self.slots.get_mut(stream).and_then(Option::take) {
                        self.streams.tally.duplicated += lock(&slot.bytes).len() as u64;
                    }
                }
                Command::Request { stream, chunk } => {
                    self.streams.tally.requests += 1;
                    let slot = self.request(stream, chunk);
                    if let Some(place) = self.slots.get_mut(stream) {
                        *place = Some(slot);
                    }
                }
            }
        }
    }

    fn request(&mut self, stream: usize, chunk: Chunk) -> Slot {
        let connection = self.streams.connections.get_mut(stream).map(take).unwrap_or_default();
        let bytes = Arc::<Mutex<Vec<u8>>>::default();
        let request = ChunkRequest {
            client: self.client.clone(),
            url: self.resource.url.clone(),
            range: self.range(chunk),
            is_whole: self.resource.range.is_none(),
            entity: self.entity.clone(),
            bytes: bytes.clone(),
            due: if chunk.number == 0 { self.due } else { Instant::now() },
        };
        Slot { chunk, bytes, work: Box::pin(request.run(connection)) }
    }

    /// Returns the byte range of a chunk within the file.
    fn range(&self, chunk: Chunk) -> ByteRange {
        let base = self.resource.range.map_or(0, |range| range.first);
        ByteRange { first: base.saturating_add(chunk.first), last: base.saturating_add(chunk.last) }
    }

    /// Takes the end of a request.
    fn take(&mut self, stream: usize, done: Done) -> Result<(), Failure> {
        let Some(slot) = self.slots.get_mut(stream).and_then(Option::take) else { return Ok(()) };
        let now = self.streams.now();
        if let Some(connection) = self.streams.connections.get_mut(stream) {
            *connection = done.connection;
        }
        let bytes = take(&mut *lock(&slot.bytes));
        let length = lock(&self.entity).length;
        let is_inside = length.is_some_and(|length| slot.chunk.first < length);
        let Streams { answered, dealer, tally, .. } = &mut *self.streams;
        tally.opened += done.opened;
        if answered.remove(&stream) {
            tally.reopened += done.opened;
        }
        if done.result.is_ok() {
            answered.insert(stream);
        }
        match done.result {
            Ok(fetched) => {
                if slot.chunk.number == 0 {
                    self.first_byte.get_or_insert(fetched.first_byte);
                }
                self.url.get_or_insert(fetched.url);
                match dealer.arrived(stream, now) {
                    Answer::First { number } => {
                        tally.times.push(fetched.transfer);
                        self.waiting.insert(number, bytes);
                    }
                    Answer::Late => tally.duplicated += bytes.len() as u64,
                }
            }
            Err(Failure { reason: Reason::Status(416), detail }) if is_inside => {
                let range = self.range(slot.chunk);
                let why = format!("{detail}: answered 416 to the range {range} inside the resource");
                return Err(Failure::new(Reason::Status(416), why));
            }
            // The first requests are made before the length is known.
            Err(Failure { reason: Reason::Status(416), .. }) if slot.chunk.number > 0 => {
                tally.beyond_end += 1;
                self.streams.dealer.beyond_end(stream, now);
            }
            Err(failure) if is_of_connection(&failure) => {
                tally.failed += 1;
                tally.duplicated += bytes.len() as u64;
                self.streams.dealer.failed(stream, now);
                self.last_failure = Some(failure);
            }
            Err(failure) if is_refusal(&failure) => {
                self.refused.insert(stream);
                if !self.may_serve() {
                    return Err(failure);
                }
                self.streams.tally.refused += 1;
                self.streams.dealer.failed(stream, now);
                self.last_failure = Some(failure);
            }
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    /// Returns true if the server has answered a request for the resource, or if a stream waits
    /// that was not refused.
    fn may_serve(&self) -> bool {
        let waits =
            |(stream, slot): (usize, &Option<Slot>)| slot.is_some() && !self.refused.contains(&stream);
        lock(&self.entity).is_known() || self.slots.iter().enumerate().any(waits)
    }

    /// Gives the chunks that arrived in order to the sink.
    fn deliver(&mut self, body: &mut Sink<'_>) -> Result<(), Failure> {
        let end = self.streams.dealer.in_order();
        while let Some(entry) = self.waiting.first_entry().filter(|entry| *entry.key() < end) {
            let bytes = entry.remove();
            self.delivered += bytes.len() as u64;
            body(&bytes)?;
        }
        Ok(())
    }

    /// Gives the beginning of the first missing chunk to the sink, as far as it has arrived.
    fn deliver_partial(&mut self, body: &mut Sink<'_>) -> Result<(), Failure> {
        let missing = self.streams.dealer.in_order();
        let copies = self.slots.iter().flatten().filter(|slot| slot.chunk.number == missing);
        let bytes = copies.map(|slot| lock(&slot.bytes).clone()).max_by_key(Vec::len).unwrap_or_default();
        self.delivered += bytes.len() as u64;
        body(&bytes)
    }

    /// Returns the measurements of the whole.
    fn fetched(&self) -> Result<ChunkedFetch, Failure> {
        let length = lock(&self.entity).length.filter(|length| *length == 0 || self.delivered > 0);
        let Some(length) = length else {
            let waited = self.due.elapsed();
            let why = format!("{}: nothing after {waited:?}, the end of its time", self.resource.url);
            return Err(Failure::new(Reason::Timeout, why));
        };
        let latency = self.due.elapsed();
        let fetched = Fetched {
            url: self.url.clone().unwrap_or_else(|| self.resource.url.clone()),
            bytes: self.delivered,
            first_byte: self.first_byte.unwrap_or(latency),
            latency,
            transfer: self.started.elapsed(),
        };
        Ok(ChunkedFetch { fetched, length })
    }

    /// Ends the requests in flight. They are for chunks that have arrived on another stream, for
    /// chunks that a truncated resource lacks, or for ranges beyond the end of a complete resource.
    fn end(self) {
        let Streams { dealer, tally, .. } = self.streams;
        for slot in self.slots.into_iter().flatten() {
            if slot.chunk.number < dealer.in_order() {
                tally.duplicated += lock(&slot.bytes).len() as u64;
            } else if dealer.is_complete() {
                tally.beyond_end += 1;
            }
        }
    }
}

/// Waits for the next event. The requests are polled in the order of their streams, so that a run
/// in paused time repeats exactly.
async fn next_event(slots: &mut [Option<Slot>], entity: &Mutex<Entity>, is_length_known: bool) -> Event {
    poll_fn(|context| {
        for (stream, slot) in slots.iter_mut().enumerate() {
            if let Some(slot) = slot
                && let Poll::Ready(done) = slot.work.as_mut().poll(context)
            {
                return Poll::Ready(Event::Ended(stream, Box::new(done)));
            }
        }
        if !is_length_known && lock(entity).length.is_some() {
            return Poll::Ready(Event::LengthKnown);
        }
        Poll::Pending
    })
    .await
}

/// Returns true if another connection may succeed where a request failed.
const fn is_of_connection(failure: &Failure) -> bool {
    matches!(
        failure.reason,
        Reason::Refused | Reason::Unreachable | Reason::Closed | Reason::BadResponse | Reason::ShortBody
    )
}

/// Returns true if a server may have refused a request because of other connections.
const fn is_refusal(failure: &Failure) -> bool {
    matches!(failure.reason, Reason::Status(503 | 429))
}

/// A request for one chunk.
struct ChunkRequest {
    client: Client,
    url: Url,
    range: ByteRange,
    /// True if the end of the resource is that of the whole file.
    is_whole: bool,
    entity: Arc<Mutex<Entity>>,
    bytes: Arc<Mutex<Vec<u8>>>,
    due: Instant,
}

impl ChunkRequest {
    async fn run(self, mut connection: Connection) -> Done {
        let result = self.fetch(&mut connection).await;
        Done { opened: connection.take_opened(), connection, result }
    }

    async fn fetch(&self, connection: &mut Connection) -> Result<Fetched, Failure> {
        let tag = lock(&self.entity).strong_tag();
        let ask = Ask { range: Some(self.range), if_match: tag.as_ref() };
        let mut expected = 0;
        let mut accept = |url: &Url, response: &http::Response<hyper::body::Incoming>| {
            expected = lock(&self.entity).accept(url, self.range, self.is_whole, response)?;
            Ok(())
        };
        let mut keep = |piece: &[u8]| {
            lock(&self.bytes).extend_from_slice(piece);
            Ok(())
        };
        let mut received = 0;
        let due = self.due;
        let exchange =
            self.client.exchange(connection, &self.url, &ask, due, &mut accept, &mut keep, &mut received);
        let fetched = exchange.await?;
        if fetched.bytes != expected {
            let why = format!("{}: {} bytes for the range {}", fetched.url, fetched.bytes, self.range);
            return Err(Failure::new(Reason::WrongLength, why));
        }
        Ok(fetched)
    }
}
