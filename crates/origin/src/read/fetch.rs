//! Reads the source ranges of a response with few requests to storage, which start together.

use crate::{
    Error,
    config::{Reach, ReadConfig},
    observe::trace::Trace,
    read::charge::{Charge, SMALL_FRAME},
    read::room::Use,
    read::transfer::{Arrived, Chunk, State, Transfer, bad_response},
    title::indexed::PinnedObject,
};
use bytes::{Bytes, BytesMut};
use futures_util::future::{FutureExt, poll_fn};
use latemux_packager::plan::SourceRange;
use latemux_storage::{ReadRequest, client::on_behalf_of};
use std::{
    ops::Range,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::{Context, Poll, ready},
};

/// Most bytes of one request to storage while the reader is frugal and there is no range cache.
const PIECE: u64 = 256 << 10;

/// Reads of a title's objects, pinned to the versions their indexes were made from. Bytes that
/// arrive before they are needed are kept in memory, at most the ranges of all transfers, as far as
/// the response's charge allows. Dropping the value ends all transfers.
///
/// If the memory for responses is scarce, or the client is slow while others wait for storage, the
/// fetch becomes frugal: one transfer is open at a time, and without a range cache it requests
/// small pieces.
pub(crate) struct Fetch {
    objects: Arc<[Arc<PinnedObject>]>,
    config: ReadConfig,
    charge: Arc<Charge>,
    is_frugal: bool,
    transfers: Vec<Transfer>,
    /// Ranges that a cache may read along, at most one for each object.
    reach: Vec<SourceRange>,
    /// Record of the request for which this fetch reads. It only feeds logs and metrics.
    trace: Option<Trace>,
}

impl std::fmt::Debug for Fetch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ranges = self.transfers.iter().map(|t| (t.object, &t.range));
        f.debug_list().entries(ranges).finish()
    }
}

impl Fetch {
    /// Creates a fetch without any transfers. Its reads are attributed to the current request, and
    /// the bytes that it holds to `charge`.
    pub(crate) fn new(objects: Arc<[Arc<PinnedObject>]>, config: ReadConfig, charge: Arc<Charge>) -> Self {
        let transfers = Vec::new();
        let reach = Vec::new();
        let trace = Trace::current();
        Self { objects, config, charge, is_frugal: false, transfers, reach, trace }
    }

    /// Returns what the response has reserved.
    pub(crate) fn charge(&self) -> &Arc<Charge> {
        &self.charge
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
            self.transfers.push(Transfer::new(object, range, reach));
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

    /// Appends a range of an object. Its bytes stay in memory for later reads.
    pub(crate) async fn append(
        &mut self,
        object: usize,
        range: Range<u64>,
        out: &mut BytesMut,
    ) -> Result<(), Error> {
        let mut at = range.start;
        while at < range.end {
            let bytes = self.next_bytes(object, at).await?;
            let wanted = usize::try_from(range.end - at).unwrap_or(usize::MAX).min(bytes.len());
            out.extend_from_slice(bytes.get(..wanted).unwrap_or_default());
            at += wanted as u64;
        }
        Ok(())
    }

    /// Returns at least `len` bytes of an object from the offset `from` on. They stay in memory for
    /// later reads.
    pub(crate) async fn bytes(&mut self, object: usize, from: u64, len: u64) -> Result<Bytes, Error> {
        let mut whole = BytesMut::new();
        loop {
            let have = whole.len() as u64;
            let next = self.next_bytes(object, from + have).await?;
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

    /// Returns the bytes of an object from an offset on, as many as arrived together.
    async fn next_bytes(&mut self, object: usize, at: u64) -> Result<Bytes, Error> {
        let transfer =
            self.transfer_at(object, at).ok_or(Error::Internal("bytes that are not being read"))?;
        Ok(poll_fn(|cx| self.poll_at(cx, transfer, at)).await?.bytes)
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
    ) -> Poll<Result<Arrived, Error>> {
        if let Some(arrived) = self.transfers.get(transfer).and_then(|t| t.arrived(offset)) {
            return Poll::Ready(Ok(arrived));
        }
        loop {
            self.open_more(Some((transfer, offset)))?;
            self.poll_opening(cx);
            if self.transfers.get(transfer).is_some_and(|t| matches!(t.state, State::Opening(_))) {
                self.receive_early(cx);
            }
            let Some(this) = self.transfers.get_mut(transfer) else {
                return Poll::Ready(Err(Error::Internal("no such transfer")));
            };
            if !this.range.contains(&offset) {
                return Poll::Ready(Err(Error::Internal("bytes outside of their transfer")));
            }
            // Without a range cache, an open transfer holds a request to storage. A frugal reader
            // ends it before it waits for the client.
            let whole = self.is_frugal && self.charge.unit() == 0;
            let key = self.objects.get(this.object).map(|o| o.key().as_str()).unwrap_or_default();
            while this.received <= offset || (whole && this.received < this.requested) {
                if matches!(this.state, State::Waiting) {
                    break;
                }
                ready!(this.poll_more(cx, key, &self.charge))?;
            }
            if this.received > offset {
                let arrived = this.arrived(offset);
                return Poll::Ready(arrived.ok_or(Error::Internal("bytes that were released")));
            }
        }
    }

    /// Releases the bytes of a transfer before `offset`. `None` releases all bytes and ends the
    /// transfer.
    pub(crate) fn release(&mut self, transfer: usize, offset: Option<u64>) {
        let Some(transfer) = self.transfers.get_mut(transfer) else { return };
        transfer.needed = offset.map(|offset| offset.max(transfer.range.start));
        if offset.is_none() {
            transfer.state = State::Ended;
        }
        let charge = &self.charge;
        let is_passed = |chunk: &mut Chunk| offset.is_none_or(|offset| chunk.end() <= offset);
        while let Some(chunk) = transfer.chunks.pop_front_if(is_passed) {
            charge.give_back_with_frame(chunk.reserved, transfer.purpose);
        }
        if offset.is_none() {
            charge.give_back_with_frame(std::mem::take(&mut transfer.pinned), Use::Pinned);
        }
    }

    /// Drops all bytes that have arrived, ends all open requests, and makes the fetch frugal. Bytes
    /// that are still needed are read again later. Returns true if anything was dropped.
    pub(crate) fn pause(&mut self) -> bool {
        self.is_frugal = true;
        let mut dropped = false;
        for transfer in &mut self.transfers {
            let Some(needed) = transfer.needed else { continue };
            if matches!(transfer.state, State::Failed(_)) {
                continue;
            }
            dropped |= !matches!(transfer.state, State::Waiting) || !transfer.chunks.is_empty();
            // The frame that waits for the client may hold some of these bytes.
            let reserved = transfer.chunks.iter().map(|chunk| chunk.reserved).sum::<u64>();
            self.charge.give_back_with_frame(reserved, transfer.purpose);
            self.charge.give_back_with_frame(std::mem::take(&mut transfer.pinned), Use::Pinned);
            transfer.chunks.clear();
            transfer.state = State::Waiting;
            (transfer.received, transfer.requested) = (needed, needed);
        }
        dropped
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

    fn object(&self, object: usize) -> Result<&Arc<PinnedObject>, Error> {
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

    /// Opens requests up to the limit, and even beyond it the transfer whose byte is `needed`.
    fn open_more(&mut self, needed: Option<(usize, u64)>) -> Result<(), Error> {
        let is_open = |t: &&Transfer| matches!(t.state, State::Opening(_) | State::Streaming(_));
        let mut open = self.transfers.iter().filter(is_open).count();
        let most = if self.is_frugal { 0 } else { self.config.open.max(1) };
        let is_cached = self.charge.unit() > 0;
        let piece = if self.charge.has_room(PIECE) { PIECE } else { SMALL_FRAME as u64 };
        for (i, transfer) in self.transfers.iter_mut().enumerate() {
            let byte = needed.filter(|(transfer, _)| *transfer == i).map(|(_, byte)| byte);
            if (open >= most && byte.is_none()) || !matches!(transfer.state, State::Waiting) {
                continue;
            }
            let object = self.objects.get(transfer.object).ok_or(Error::Internal("a range of no object"))?;
            let object = object.clone();
            transfer.requested = match byte {
                Some(byte) if self.is_frugal && !is_cached => {
                    transfer.range.end.min(byte.max(transfer.received) + piece)
                }
                _ => transfer.range.end,
            };
            let range = transfer.received..transfer.requested;
            let reach = transfer.reach.clone();
            let read = on_behalf_of(self.charge.client(), async move {
                let source = &object.source;
                let request = ReadRequest::range(&source.key, range).pinned(&object.version);
                source.media.read(request.with_reach(reach)).await
            });
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
                Ok(read) if read.range == (transfer.received..transfer.requested) => {
                    transfer.purpose = if read.is_in_memory { Use::Pinned } else { Use::Ahead };
                    State::Streaming(read.body)
                }
                Ok(read) => {
                    let key = self.objects.get(transfer.object).map(|o| o.key().as_str()).unwrap_or_default();
                    let detail = format!(
                        "bytes {}..{} were requested, {:?} were returned",
                        transfer.received, transfer.requested, read.range
                    );
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
            while matches!(transfer.state, State::Streaming(_))
                && transfer.poll_more(cx, key, &self.charge).is_ready()
            {}
        }
    }
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
