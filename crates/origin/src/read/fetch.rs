//! Reads the source ranges of a response with few requests to storage, which start together.

use crate::{
    Error,
    config::{Reach, ReadConfig},
    observe::trace::Trace,
    title::indexed::IndexedObject,
};
use bytes::{Bytes, BytesMut};
use futures_util::{
    StreamExt,
    future::{BoxFuture, FutureExt, poll_fn},
    stream::BoxStream,
};
use latemux_packager::plan::SourceRange;
use latemux_storage::{Read, ReadRequest, StorageError};
use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll, ready},
};

/// Reads of a title's objects, pinned to the versions their indexes were made from. Bytes that
/// arrive before they are needed are kept in memory, at most the ranges of all transfers. Dropping
/// the value ends all transfers.
pub(crate) struct Fetch {
    objects: Arc<[Arc<IndexedObject>]>,
    config: ReadConfig,
    transfers: Vec<Transfer>,
    /// Ranges that a cache may read along, at most one for each object.
    reach: Vec<SourceRange>,
    /// Record of the request for which this fetch reads. It only feeds logs and metrics.
    trace: Option<Trace>,
}

/// One request to storage, and the bytes it has returned.
struct Transfer {
    object: usize,
    range: Range<u64>,
    /// Range that a cache may read along. It contains `range`.
    reach: Range<u64>,
    state: State,
    /// Bytes that arrived and are still needed: in order, without gaps, up to `received`.
    chunks: VecDeque<Chunk>,
    /// End of the bytes that arrived, from the start of the object.
    received: u64,
}

enum State {
    /// Not started, because the limit of open requests is reached.
    Waiting,
    Opening(BoxFuture<'static, Result<Read, StorageError>>),
    Streaming(BoxStream<'static, Result<Bytes, StorageError>>),
    Failed(Error),
    /// Complete, or no longer needed.
    Ended,
}

/// Bytes that arrived together.
struct Chunk {
    /// Offset of the first byte in the object.
    offset: u64,
    bytes: Bytes,
}

impl std::fmt::Debug for Fetch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ranges = self.transfers.iter().map(|t| (t.object, &t.range));
        f.debug_list().entries(ranges).finish()
    }
}

impl Fetch {
    /// Creates a fetch without any transfers. Its reads are attributed to the current request.
    pub(crate) fn new(objects: Arc<[Arc<IndexedObject>]>, config: ReadConfig) -> Self {
        Self { objects, config, transfers: Vec::new(), reach: Vec::new(), trace: Trace::current() }
    }

    /// Sets the ranges that a cache may read along with later transfers, at most one for each
    /// object.
    pub(crate) fn set_reach(&mut self, reach: Vec<SourceRange>) {
        self.reach = reach;
    }

    /// Starts transfers for those bytes of `ranges` that no transfer reads yet.
    pub(crate) fn start(&mut self, ranges: &[SourceRange]) -> Result<(), Error> {
        let mut missing = Vec::with_capacity(ranges.len());
        for wanted in ranges.iter().filter(|r| !r.range.is_empty()) {
            let object = self.object(wanted.object)?;
            if wanted.range.end > object.version.size {
                let end = wanted.range.end;
                let size = object.version.size;
                return Err(Error::BeyondEnd { key: object.key().to_string(), end, size });
            }
            self.push_missing(wanted, &mut missing);
        }
        let merged = merge_ranges(missing, self.config.gap, self.config.waste);
        let requests = self.transfers.len() + merged.len();
        if requests > self.config.requests {
            return Err(Error::Scattered { requests, limit: self.config.requests });
        }
        for SourceRange { object, range } in merged {
            let reach = self.reach_of(object, &range);
            let received = range.start;
            let chunks = VecDeque::new();
            self.transfers.push(Transfer { object, range, reach, state: State::Waiting, chunks, received });
        }
        self.open_more(None)
    }

    /// Waits until storage has responded to every request that was started.
    pub(crate) async fn opened(&mut self) -> Result<(), Error> {
        poll_fn(|cx| {
            self.poll_opening(cx);
            let is_opening = self.transfers.iter().any(|t| matches!(t.state, State::Opening(_)));
            let failed = self.transfers.iter().find_map(|t| match &t.state {
                State::Failed(error) => Some(error.clone()),
                _ => None,
            });
            match failed {
                Some(error) => Poll::Ready(Err(error)),
                None if is_opening => {
                    self.receive_early(cx);
                    Poll::Pending
                }
                None => Poll::Ready(Ok(())),
            }
        })
        .await
    }

    /// Returns at least `len` bytes of an object from the offset `from` on. They stay in memory for
    /// later reads.
    pub(crate) async fn bytes(&mut self, object: usize, from: u64, len: u64) -> Result<Bytes, Error> {
        let mut whole = BytesMut::new();
        loop {
            let have = whole.len() as u64;
            let at = from + have;
            let transfer =
                self.transfer_at(object, at).ok_or(Error::Internal("bytes that are not being read"))?;
            let next = poll_fn(|cx| self.poll_at(cx, transfer, at)).await?;
            let is_enough = have + next.len() as u64 >= len;
            if is_enough && whole.is_empty() {
                return Ok(next);
            }
            whole.extend_from_slice(&next);
            if is_enough {
                return Ok(whole.freeze());
            }
        }
    }

    /// Returns the index of the transfer that reads a byte of an object.
    pub(crate) fn transfer_at(&self, object: usize, offset: u64) -> Option<usize> {
        self.transfers.iter().position(|t| t.object == object && t.range.contains(&offset))
    }

    /// Returns the end of a transfer, in bytes from the start of its object.
    pub(crate) fn transfer_end(&self, transfer: usize) -> u64 {
        self.transfers.get(transfer).map_or(0, |t| t.range.end)
    }

    pub(crate) fn transfer_count(&self) -> usize {
        self.transfers.len()
    }

    /// Returns the bytes of a transfer from `offset` on, as many as arrived together. While it
    /// waits, other transfers are opened.
    pub(crate) fn poll_at(
        &mut self,
        cx: &mut Context<'_>,
        transfer: usize,
        offset: u64,
    ) -> Poll<Result<Bytes, Error>> {
        if let Some(bytes) = self.transfers.get(transfer).and_then(|t| t.arrived(offset)) {
            return Poll::Ready(Ok(bytes));
        }
        self.open_more(Some(transfer))?;
        self.poll_opening(cx);
        if self.transfers.get(transfer).is_some_and(|t| matches!(t.state, State::Opening(_))) {
            self.receive_early(cx);
        }
        let Some(this) = self.transfers.get_mut(transfer) else {
            return Poll::Ready(Err(Error::Internal("no such transfer")));
        };
        while !this.range.contains(&offset) || this.received <= offset {
            if !this.range.contains(&offset) {
                return Poll::Ready(Err(Error::Internal("bytes outside of their transfer")));
            }
            let key = self.objects.get(this.object).map(|o| o.key().as_str()).unwrap_or_default();
            ready!(this.poll_more(cx, key))?;
        }
        Poll::Ready(this.arrived(offset).ok_or(Error::Internal("bytes that were released")))
    }

    /// Releases the bytes of a transfer before `offset`. `None` releases all bytes and ends the
    /// transfer.
    pub(crate) fn release(&mut self, transfer: usize, offset: Option<u64>) {
        let Some(transfer) = self.transfers.get_mut(transfer) else { return };
        let Some(offset) = offset else {
            transfer.chunks.clear();
            transfer.state = State::Ended;
            return;
        };
        while transfer.chunks.front().is_some_and(|c| c.end() <= offset) {
            transfer.chunks.pop_front();
        }
    }

    /// Counts source bytes that went into the response.
    pub(crate) fn count_used(&self, bytes: u64) {
        if let Some(trace) = &self.trace {
            trace.metrics().media_used.fetch_add(bytes, Relaxed);
        }
    }

    /// Returns the range that a cache may read along with a range of an object. The grid's reach is
    /// not used if it would read more than `waste` bytes beyond the range.
    fn reach_of(&self, object: usize, range: &Range<u64>) -> Range<u64> {
        let size = self.objects.get(object).map_or(0, |object| object.version.size);
        match self.config.reach {
            Reach::Exact => range.clone(),
            Reach::Block(block) => {
                let block = block.max(1);
                let end = range.end.checked_next_multiple_of(block).unwrap_or(size).min(size).max(range.end);
                range.start / block * block..end
            }
            Reach::Grid => {
                let more = self.reach.iter().find(|reach| reach.object == object);
                let all = more.map_or(range.clone(), |SourceRange { range: more, .. }| {
                    range.start.min(more.start)..range.end.max(more.end.min(size))
                });
                let wasted = (all.end - all.start).saturating_sub(range.end - range.start);
                if wasted > self.config.waste { range.clone() } else { all }
            }
        }
    }

    fn object(&self, object: usize) -> Result<&Arc<IndexedObject>, Error> {
        self.objects.get(object).ok_or(Error::Internal("a range of no object"))
    }

    /// Appends the pieces of a range that no transfer reads, each with its number in the list.
    fn push_missing(&self, wanted: &SourceRange, missing: &mut Vec<(usize, SourceRange)>) {
        let mut at = wanted.range.start;
        while at < wanted.range.end {
            if let Some(transfer) = self.transfer_at(wanted.object, at) {
                at = self.transfer_end(transfer);
                continue;
            }
            let starts = self.transfers.iter().filter(|t| t.object == wanted.object).map(|t| t.range.start);
            let end = starts.filter(|&s| s > at).min().unwrap_or(wanted.range.end).min(wanted.range.end);
            missing.push((missing.len(), SourceRange { object: wanted.object, range: at..end }));
            at = end;
        }
    }

    /// Opens requests up to the limit, and the transfer `needed` even beyond it.
    fn open_more(&mut self, needed: Option<usize>) -> Result<(), Error> {
        let is_open = |t: &&Transfer| matches!(t.state, State::Opening(_) | State::Streaming(_));
        let mut open = self.transfers.iter().filter(is_open).count();
        for (i, transfer) in self.transfers.iter_mut().enumerate() {
            let may_open = open < self.config.open.max(1) || needed == Some(i);
            if !may_open || !matches!(transfer.state, State::Waiting) {
                continue;
            }
            let object = self.objects.get(transfer.object).ok_or(Error::Internal("a range of no object"))?;
            let object = object.clone();
            let range = transfer.range.clone();
            let reach = transfer.reach.clone();
            let read = async move {
                let source = &object.source;
                let request = ReadRequest::range(&source.key, range).pinned(&object.version);
                source.media.read(request.with_reach(reach)).await
            };
            transfer.state = State::Opening(match &self.trace {
                Some(trace) => trace.scope(read).boxed(),
                None => read.boxed(),
            });
            open += 1;
        }
        Ok(())
    }

    /// Polls all requests that are being opened.
    fn poll_opening(&mut self, cx: &mut Context<'_>) {
        for transfer in &mut self.transfers {
            let State::Opening(read) = &mut transfer.state else { continue };
            let Poll::Ready(opened) = read.poll_unpin(cx) else { continue };
            transfer.state = match opened {
                Ok(read) if read.range == transfer.range => State::Streaming(read.body),
                Ok(read) => {
                    let key = self.objects.get(transfer.object).map(|o| o.key().as_str()).unwrap_or_default();
                    let detail =
                        format!("bytes {:?} were requested, {:?} were returned", transfer.range, read.range);
                    State::Failed(bad_response(key, detail))
                }
                Err(error) => State::Failed(error.into()),
            };
        }
    }

    /// Receives bytes of open transfers before they are needed, while another transfer waits to be
    /// opened. An open transfer holds a request slot of the storage until it ends. If transfers
    /// that hold slots waited for a transfer that needs one, responses could deadlock.
    fn receive_early(&mut self, cx: &mut Context<'_>) {
        for transfer in &mut self.transfers {
            let key = self.objects.get(transfer.object).map(|o| o.key().as_str()).unwrap_or_default();
            // A failure is reported when the bytes of the transfer are needed.
            while matches!(transfer.state, State::Streaming(_)) && transfer.poll_more(cx, key).is_ready() {}
        }
    }
}

impl Transfer {
    /// Returns the bytes from `offset` on if they have arrived.
    fn arrived(&self, offset: u64) -> Option<Bytes> {
        let after = self.chunks.partition_point(|c| c.offset <= offset);
        let chunk = self.chunks.get(after.checked_sub(1)?)?;
        let skip = usize::try_from(offset.checked_sub(chunk.offset)?).ok()?;
        (skip < chunk.bytes.len()).then(|| chunk.bytes.slice(skip..))
    }

    /// Receives the next bytes from the stream.
    fn poll_more(&mut self, cx: &mut Context<'_>, key: &str) -> Poll<Result<(), Error>> {
        let body = match &mut self.state {
            State::Streaming(body) => body,
            State::Opening(_) => return Poll::Pending,
            State::Failed(error) => return Poll::Ready(Err(error.clone())),
            State::Waiting | State::Ended => {
                return Poll::Ready(Err(Error::Internal("a transfer that is not in flight")));
            }
        };
        let next = ready!(body.poll_next_unpin(cx));
        let result = match next {
            Some(Ok(bytes)) => self.push(bytes, key),
            Some(Err(error)) => Err(error.into()),
            None => Err(bad_response(key, format!("ended at byte {} of {:?}", self.received, self.range))),
        };
        match &result {
            Err(error) => self.state = State::Failed(error.clone()),
            Ok(()) if self.received == self.range.end => self.state = State::Ended,
            Ok(()) => {}
        }
        Poll::Ready(result)
    }

    fn push(&mut self, bytes: Bytes, key: &str) -> Result<(), Error> {
        let offset = self.received;
        let end = offset + bytes.len() as u64;
        if end > self.range.end {
            return Err(bad_response(key, format!("more bytes than {:?}", self.range)));
        }
        self.received = end;
        if !bytes.is_empty() {
            self.chunks.push_back(Chunk { offset, bytes });
        }
        Ok(())
    }
}

impl Chunk {
    fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

fn bad_response(key: &str, detail: String) -> Error {
    StorageError::BadResponse { key: key.to_owned(), detail }.into()
}

/// Merges numbered ranges into fewer ones that contain them all. Ranges of one object at most `gap`
/// bytes apart become one, the narrowest gaps first, as long as the merged gaps have at most
/// `waste` bytes in total. The result is in the order of the lowest number in each merged range.
fn merge_ranges(
    mut runs: Vec<(usize, SourceRange)>,
    gap: u64,
    waste: u64,
) -> impl ExactSizeIterator<Item = SourceRange> {
    runs.sort_unstable_by_key(|(_, r)| (r.object, r.range.start, r.range.end));
    // Ranges that touch or overlap become one.
    runs.dedup_by(|(first_use, next), (first, run)| {
        let touches = run.object == next.object && next.range.start <= run.range.end;
        if touches {
            run.range.end = run.range.end.max(next.range.end);
            *first = (*first).min(*first_use);
        }
        touches
    });
    // Gaps are read across in the order of their width, then their number, within the budget.
    let mut gaps: Vec<(u64, usize)> = Vec::with_capacity(runs.len());
    gaps.extend(runs.windows(2).enumerate().filter_map(|(i, pair)| {
        let [(_, left), (_, right)] = pair else { return None };
        let width = right.range.start.saturating_sub(left.range.end);
        (left.object == right.object && width <= gap).then_some((width, i))
    }));
    gaps.sort_unstable();
    let affordable = gaps.iter().scan(0_u64, |wasted, &(width, _)| {
        *wasted += width;
        Some(*wasted)
    });
    let Some(widest) =
        affordable.take_while(|wasted| *wasted <= waste).zip(&gaps).last().map(|(_, gap)| *gap)
    else {
        return in_order(runs);
    };
    let mut numbers = 0..;
    runs.dedup_by(|(first_use, next), (first, run)| {
        let width = next.range.start.saturating_sub(run.range.end);
        let number = numbers.next().unwrap_or(usize::MAX);
        let merges = run.object == next.object && (width, number) <= widest;
        if merges {
            run.range.end = next.range.end;
            *first = (*first).min(*first_use);
        }
        merges
    });
    in_order(runs)
}

/// Returns ranges in the order of their numbers.
fn in_order(mut ranges: Vec<(usize, SourceRange)>) -> impl ExactSizeIterator<Item = SourceRange> {
    ranges.sort_unstable_by_key(|(first_use, _)| *first_use);
    ranges.into_iter().map(|(_, range)| range)
}

#[cfg(test)]
#[path = "fetch_tests.rs"]
pub(crate) mod tests;
