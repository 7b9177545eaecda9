//! The decisions of a client: which chunk is requested next on which connection.
//!
//! Chunks are dealt in order, each to the stream that is free first. A chunk that times out is put
//! at the head of the queues of two other streams, and its own stream goes on waiting for it. The
//! first answer wins; the other requests for the chunk are cancelled.

use crate::timeouts::{ChunkTimeout, Timeouts};
use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

/// The number of other streams to which a chunk that timed out is dealt.
const COPIES: usize = 2;

/// The number of consecutive failures after which a stream is given up.
const MAX_FAILURES: u32 = 3;

/// The number of chunks for each stream that may arrive before a missing one. It bounds the memory
/// that a client needs.
const WINDOW: u64 = 8;

/// The settings of request–response streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// The number of streams; not 0.
    pub streams: usize,
    /// The number of bytes of a chunk; not 0.
    pub chunk: u64,
    /// The time between the end of a chunk and the next request on the same stream.
    pub gap: Duration,
    /// The time after which a chunk times out.
    pub timeout: ChunkTimeout,
}

/// The byte range of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// The number of the chunk within its resource, from 0.
    pub number: u64,
    /// The first byte.
    pub first: u64,
    /// The last byte. Unless the length of the resource is known, the resource may end before it.
    pub last: u64,
}

/// An action of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Request a chunk on a stream.
    Request {
        /// The stream.
        stream: usize,
        /// The chunk.
        chunk: Chunk,
    },
    /// End the request on a stream without waiting for its answer. The next request on the stream
    /// needs a new connection.
    Cancel {
        /// The stream.
        stream: usize,
    },
}

/// The value of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// It is the first one for this chunk.
    First {
        /// The number of the chunk.
        number: u64,
    },
    /// The chunk has arrived before, on another stream.
    Late,
}

/// Deals the chunks of one resource after the other to streams.
#[derive(Debug)]
pub struct Dealer {
    settings: Settings,
    timeouts: Timeouts,
    streams: Vec<Stream>,
    cancelled: VecDeque<usize>,
    /// The length of the resource in bytes, once it is known.
    length: Option<u64>,
    /// The number of chunks that are requested before the length is known.
    guess: u64,
    /// The first chunk that has not been dealt.
    next: u64,
    /// All chunks before this one have arrived.
    in_order: u64,
    /// Chunks that have arrived before an earlier one.
    arrived: BTreeSet<u64>,
}

#[derive(Debug, Default)]
struct Stream {
    /// Chunks that timed out and are to be requested here, in order.
    queue: Vec<u64>,
    active: Option<Active>,
    /// The time from which the stream may send its next request.
    free_at: Duration,
    /// Consecutive failures.
    failures: u32,
    is_given_up: bool,
    /// The number of chunks that timed out here, in all resources.
    timeouts: u64,
}

/// A request without an answer.
#[derive(Debug, Clone, Copy)]
struct Active {
    chunk: u64,
    since: Duration,
    limit: Duration,
    is_timed_out: bool,
}

impl Active {
    fn expires(&self) -> Option<Duration> {
        (!self.is_timed_out).then(|| self.since.saturating_add(self.limit))
    }
}

impl Stream {
    fn is_free(&self) -> bool {
        self.active.is_none() && !self.is_given_up
    }

    fn has(&self, chunk: u64) -> bool {
        self.queue.contains(&chunk) || self.active.is_some_and(|active| active.chunk == chunk)
    }

    /// Returns true if the stream waits for a chunk, or is going to request it.
    fn hopes_for(&self, chunk: u64) -> bool {
        self.queue.contains(&chunk)
            || self.active.is_some_and(|active| active.chunk == chunk && !active.is_timed_out)
    }

    /// Puts a chunk that timed out at the head of the queue, after earlier chunks that timed out.
    fn enqueue(&mut self, chunk: u64) {
        let place = self.queue.partition_point(|queued| *queued < chunk);
        self.queue.insert(place, chunk);
    }
}

impl Dealer {
    /// Makes a dealer whose streams are all free.
    pub fn new(settings: Settings) -> Self {
        let streams = (0..settings.streams.max(1)).map(|_| Stream::default()).collect();
        let settings = Settings { chunk: settings.chunk.max(1), ..settings };
        Self {
            settings,
            timeouts: Timeouts::new(settings.timeout),
            streams,
            cancelled: VecDeque::new(),
            length: None,
            guess: 0,
            next: 0,
            in_order: 0,
            arrived: BTreeSet::new(),
        }
    }

    /// Begins a resource of unknown length. Requests for the last one that have no answer are
    /// cancelled. `expected` is the likely length, such as that of the last segment. It limits the
    /// chunks that are requested before the length is known; without it, each stream requests one.
    pub fn begin(&mut self, now: Duration, expected: Option<u64>) {
        for (number, stream) in self.streams.iter_mut().enumerate() {
            stream.queue.clear();
            if stream.active.take().is_some() {
                stream.free_at = now;
                self.cancelled.push_back(number);
            }
        }
        if self.streams.iter().all(|stream| stream.is_given_up) {
            for stream in &mut self.streams {
                (stream.is_given_up, stream.failures) = (false, 0);
            }
        }
        self.length = None;
        self.guess = expected.map_or(u64::MAX, |length| (length / self.settings.chunk).max(1));
        self.guess = self.guess.min(self.streams.len() as u64);
        (self.next, self.in_order) = (0, 0);
        self.arrived.clear();
    }

    /// States the length of the resource in bytes.
    pub fn set_length(&mut self, length: u64) {
        self.length = Some(length);
        self.trim_queues();
    }

    /// Removes chunks beyond the end from all queues.
    fn trim_queues(&mut self) {
        let count = self.count();
        for stream in &mut self.streams {
            stream.queue.retain(|chunk| *chunk < count);
        }
    }

    /// Returns the number of chunks that may be requested, as far as it is known.
    fn count(&self) -> u64 {
        self.length.map_or(self.guess, |length| length.div_ceil(self.settings.chunk))
    }

    /// Returns true if all chunks have arrived.
    pub fn is_complete(&self) -> bool {
        self.length.is_some() && self.in_order >= self.count()
    }

    /// Returns true if all streams were given up, so that nothing more can arrive.
    pub fn is_lost(&self) -> bool {
        self.streams.iter().all(|stream| stream.is_given_up)
    }

    /// Returns the number of chunks that have arrived in order, from the first one on.
    pub const fn in_order(&self) -> u64 {
        self.in_order
    }

    /// Returns the number of chunks that timed out, in all resources.
    pub fn timeouts(&self) -> u64 {
        self.streams.iter().map(|stream| stream.timeouts).sum()
    }

    /// Returns the number of chunks that timed out on the stream on which most did, in all
    /// resources.
    pub fn most_timeouts(&self) -> u64 {
        self.streams.iter().map(|stream| stream.timeouts).max().unwrap_or(0)
    }

    /// Returns the number of streams that were given up.
    pub fn given_up(&self) -> usize {
        self.streams.iter().filter(|stream| stream.is_given_up).count()
    }

    /// Returns the next action, or `None` if there is none before [`wake`](Self::wake). To be
    /// called until it returns `None`, after each event and at each wake.
    pub fn command(&mut self, now: Duration) -> Option<Command> {
        self.expire(now);
        if let Some(stream) = self.cancelled.pop_front() {
            return Some(Command::Cancel { stream });
        }
        let ready = |stream: &Stream| stream.is_free() && stream.free_at <= now;
        for number in 0..self.streams.len() {
            if !self.streams.get(number).is_some_and(ready) {
                continue;
            }
            if let Some(chunk) = self.take(number) {
                let limit = self.timeouts.limit();
                let active = Active { chunk, since: now, limit, is_timed_out: false };
                self.streams.get_mut(number)?.active = Some(active);
                return Some(Command::Request { stream: number, chunk: self.chunk(chunk) });
            }
        }
        None
    }

    /// Takes the next chunk for a stream: one that timed out, or else the first one not dealt.
    fn take(&mut self, number: usize) -> Option<u64> {
        let can_deal = self.can_deal();
        let stream = self.streams.get_mut(number)?;
        if !stream.queue.is_empty() {
            return Some(stream.queue.remove(0));
        }
        can_deal.then(|| {
            self.next += 1;
            self.next - 1
        })
    }

    fn can_deal(&self) -> bool {
        let window = WINDOW * self.streams.len() as u64;
        self.next < self.count() && self.next - self.in_order < window
    }

    fn chunk(&self, number: u64) -> Chunk {
        let first = number.saturating_mul(self.settings.chunk);
        let end = first.saturating_add(self.settings.chunk);
        let end = self.length.map_or(end, |length| end.min(length));
        Chunk { number, first, last: end.saturating_sub(1) }
    }

    /// Returns the time of the next action, unless an event comes first.
    pub fn wake(&self) -> Option<Duration> {
        let has_new = self.can_deal();
        let starts = self
            .streams
            .iter()
            .filter(|stream| stream.is_free() && (has_new || !stream.queue.is_empty()))
            .map(|stream| stream.free_at);
        let expiries = self.streams.iter().filter_map(|stream| stream.active?.expires());
        starts.chain(expiries).min()
    }

    /// Deals the chunks that timed out to other streams. Requests beyond the end, which were made
    /// before the length was known, are cancelled if they timed out.
    fn expire(&mut self, now: Duration) {
        let count = self.count();
        let mut timed_out = Vec::new();
        let mut beyond_end = Vec::new();
        for (number, stream) in self.streams.iter_mut().enumerate() {
            let Stream { active: Some(active), timeouts, .. } = stream else { continue };
            let expires = active.expires();
            if expires.is_some_and(|at| at > now) {
                continue;
            }
            if active.chunk >= count {
                beyond_end.push(number);
            } else if expires.is_some() {
                active.is_timed_out = true;
                *timeouts += 1;
                timed_out.push((number, active.chunk, active.limit));
            }
        }
        for number in beyond_end {
            self.cancel(number, now);
        }
        for (number, chunk, limit) in timed_out {
            self.timeouts.add_expired(limit);
            self.deal_again(number, chunk, now);
        }
    }

    /// Puts a chunk that timed out into the queues of other streams: first those that are free,
    /// then those with the shortest queues, and of these the ones that have waited longest.
    fn deal_again(&mut self, number: usize, chunk: u64, now: Duration) {
        let is_timed_out = |stream: &Stream| stream.active.is_some_and(|active| active.is_timed_out);
        let mut others: Vec<(bool, usize, Duration, usize)> = self
            .streams
            .iter()
            .enumerate()
            .filter(|(_, other)| !other.is_given_up && !other.has(chunk) && !is_timed_out(other))
            .map(|(place, other)| {
                let since = other.active.map_or(other.free_at, |active| active.since);
                (other.active.is_some(), other.queue.len(), since, place)
            })
            .collect();
        others.sort_unstable();
        for (.., place) in others.iter().take(COPIES) {
            if let Some(other) = self.streams.get_mut(*place) {
                other.enqueue(chunk);
            }
        }
        if !self.is_hoped_for(chunk) {
            self.restart(number, chunk, now);
        }
    }

    /// Returns true if a stream waits for a chunk that has not timed out there, or is going to
    /// request it.
    fn is_hoped_for(&self, chunk: u64) -> bool {
        self.streams.iter().any(|stream| stream.hopes_for(chunk))
    }

    /// Ends the request of a stream and requests a chunk there over a new connection.
    fn restart(&mut self, number: usize, chunk: u64, now: Duration) {
        self.cancel(number, now);
        if let Some(stream) = self.streams.get_mut(number) {
            stream.enqueue(chunk);
        }
    }

    fn cancel(&mut self, number: usize, now: Duration) {
        if let Some(stream) = self.streams.get_mut(number) {
            stream.active = None;
            stream.free_at = now;
            self.cancelled.push_back(number);
        }
    }

    /// States that a chunk has arrived on a stream. Other requests for it are cancelled.
    pub fn arrived(&mut self, number: usize, now: Duration) -> Answer {
        let Some(active) = self.end(number, now) else { return Answer::Late };
        self.timeouts.add(now.saturating_sub(active.since));
        if let Some(stream) = self.streams.get_mut(number) {
            stream.failures = 0;
        }
        // It has not arrived before: other requests for a chunk end with its first answer.
        let chunk = active.chunk;
        self.arrived.insert(chunk);
        while self.arrived.remove(&self.in_order) {
            self.in_order += 1;
        }
        self.withdraw(chunk, now);
        Answer::First { number: chunk }
    }

    /// States that the resource ends before the chunk that was requested on a stream.
    pub fn beyond_end(&mut self, number: usize, now: Duration) {
        if let Some(active) = self.end(number, now) {
            self.withdraw(active.chunk, now);
            // Without a length, nothing after this chunk may be requested either.
            self.guess = self.guess.min(active.chunk);
            self.trim_queues();
        }
    }

    /// States that the request on a stream has failed, such as with a connection that died. The
    /// chunk is requested again on the same stream, unless another one has it. After three failures
    /// in a row the stream is given up, and another one gets the chunk.
    pub fn failed(&mut self, number: usize, now: Duration) {
        let Some(active) = self.end(number, now) else { return };
        let Some(stream) = self.streams.get_mut(number) else { return };
        // A gap follows only a chunk.
        stream.free_at = now;
        stream.failures += 1;
        let mut lost = vec![active.chunk];
        if stream.failures >= MAX_FAILURES {
            stream.is_given_up = true;
            lost.append(&mut stream.queue);
        }
        for chunk in lost {
            if chunk < self.count() && !self.is_hoped_for(chunk) {
                self.rescue(number, chunk, now);
            }
        }
    }

    /// Requests a chunk again that no stream is going to bring: on the stream that had it, or on
    /// the one that is free first.
    fn rescue(&mut self, number: usize, chunk: u64, now: Duration) {
        if let Some(stream) = self.streams.get_mut(number).filter(|stream| !stream.is_given_up) {
            return stream.enqueue(chunk);
        }
        let usable = || self.streams.iter().enumerate().filter(|(_, stream)| !stream.is_given_up);
        let others = usable().filter(|(_, stream)| !stream.has(chunk));
        let best = others.min_by_key(|(_, stream)| (stream.active.is_some(), stream.queue.len()));
        if let Some(best) = best.map(|(place, _)| place) {
            if let Some(stream) = self.streams.get_mut(best) {
                stream.enqueue(chunk);
            }
        } else if let Some(waiting) = usable().map(|(place, _)| place).next() {
            // All others wait in vain for the same chunk.
            self.restart(waiting, chunk, now);
        }
    }

    /// Ends the request of a stream.
    fn end(&mut self, number: usize, now: Duration) -> Option<Active> {
        let gap = self.settings.gap;
        let stream = self.streams.get_mut(number)?;
        let active = stream.active.take()?;
        stream.free_at = now.saturating_add(gap);
        Some(active)
    }

    /// Takes a chunk back from all streams.
    fn withdraw(&mut self, chunk: u64, now: Duration) {
        for number in 0..self.streams.len() {
            let Some(stream) = self.streams.get_mut(number) else { continue };
            stream.queue.retain(|queued| *queued != chunk);
            if stream.active.is_some_and(|active| active.chunk == chunk) {
                self.cancel(number, now);
            }
        }
    }
}

#[cfg(test)]
#[path = "dealer_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "dealer_failure_tests.rs"]
mod failure_tests;
