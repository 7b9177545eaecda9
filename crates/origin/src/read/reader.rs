//! Returns the source bytes of a response in the order in which the plan needs them.

use crate::{
    Error,
    read::{
        charge::{Charge, SMALL_FRAME},
        fetch::Fetch,
        room::{Pausable, lock},
    },
};
use bytes::Bytes;
use futures_util::future::poll_fn;
use latemux_packager::plan::SourceRange;
use std::{
    ops::Range,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
};

/// Reads source ranges through a [`Fetch`], in the order of the plan. Bytes that no later range
/// needs are released at once.
#[derive(Debug)]
pub(crate) struct SourceReader {
    fetch: Fetch,
    slices: Vec<Slice>,
    next: usize,
    /// Number of bytes of the current slice returned so far.
    returned: u64,
    /// True if bytes were wanted since the last call of [`Self::pause_if_stalled`].
    is_active: bool,
    /// True once bytes have been wanted.
    has_begun: bool,
}

/// A source range, or the piece of it that one transfer reads.
#[derive(Debug)]
struct Slice {
    transfer: usize,
    range: Range<u64>,
    /// Lowest byte of the transfer that a later slice needs.
    keep_from: Option<u64>,
}

impl SourceReader {
    /// Creates a reader of `ranges` in this order. It uses the transfers that are in flight and
    /// starts those that are missing.
    pub(crate) fn new(mut fetch: Fetch, ranges: &[SourceRange]) -> Result<Self, Error> {
        fetch.start(ranges)?;
        let mut slices = Vec::with_capacity(ranges.len());
        for wanted in ranges {
            let mut at = wanted.range.start;
            while at < wanted.range.end {
                let transfer = fetch
                    .transfer_at(wanted.object, at)
                    .ok_or(Error::Internal("a range is not being read"))?;
                let end = fetch.transfer_end(transfer).min(wanted.range.end);
                slices.push(Slice { transfer, range: at..end, keep_from: None });
                at = end;
            }
        }
        let mut keep_from = vec![None; fetch.transfer_count()];
        for slice in slices.iter_mut().rev() {
            if let Some(keep) = keep_from.get_mut(slice.transfer) {
                slice.keep_from = *keep;
                *keep = Some(keep.map_or(slice.range.start, |k: u64| k.min(slice.range.start)));
            }
        }
        for (transfer, keep) in keep_from.into_iter().enumerate() {
            fetch.release(transfer, keep);
        }
        Ok(Self { fetch, slices, next: 0, returned: 0, is_active: true, has_begun: false })
    }

    /// Waits until storage has responded to all requests and the first bytes have arrived.
    pub(crate) async fn ready(&mut self) -> Result<(), Error> {
        self.fetch.opened().await?;
        let Some(first) = self.slices.get(self.next) else { return Ok(()) };
        let transfer = first.transfer;
        let at = first.range.start + self.returned;
        let arrived = poll_fn(|cx| self.fetch.poll_at(cx, transfer, at)).await?;
        if !arrived.is_reserved {
            self.fetch.pause();
        }
        Ok(())
    }

    /// Returns what the response has reserved.
    pub(crate) fn charge(&self) -> &Arc<Charge> {
        self.fetch.charge()
    }

    /// Gives back all source bytes and requests to storage. They are read again when they are
    /// wanted. Returns true if there were any.
    pub(crate) fn pause(&mut self) -> bool {
        self.fetch.pause()
    }

    fn pause_if_stalled(&mut self) -> bool {
        let was_active = std::mem::take(&mut self.is_active);
        let is_done = self.next >= self.slices.len();
        // Otherwise storage is what the response waits for.
        let waits_for_client = self.charge().frame_waits() || !self.has_begun;
        !was_active && !is_done && waits_for_client && self.pause()
    }

    /// Returns the next bytes, at least one and at most `limit`. Returns `None` after the last. If
    /// there is no memory for bytes that arrived, they are the small frame of the response.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        limit: usize,
    ) -> Poll<Option<Result<Bytes, Error>>> {
        let Some(slice) = self.slices.get(self.next) else { return Poll::Ready(None) };
        let at = slice.range.start + self.returned;
        (self.is_active, self.has_begun) = (true, true);
        let arrived = match ready!(self.fetch.poll_at(cx, slice.transfer, at)) {
            Ok(arrived) => arrived,
            Err(error) => return Poll::Ready(Some(Err(error))),
        };
        let left = slice.range.end - at;
        let mut bytes = arrived.bytes;
        bytes.truncate(limit.min(usize::try_from(left).unwrap_or(usize::MAX)));
        if !arrived.is_reserved {
            bytes = Bytes::copy_from_slice(bytes.get(..SMALL_FRAME.min(bytes.len())).unwrap_or_default());
            self.fetch.charge().use_small_frame();
        }
        let len = bytes.len() as u64;
        self.returned += len;
        self.fetch.count_used(len);
        let is_done = len == left;
        let keep_from = match (slice.keep_from, is_done) {
            (None, true) => None,
            (keep, _) => Some(keep.unwrap_or(u64::MAX).min(at + len)),
        };
        self.fetch.release(slice.transfer, keep_from);
        if !arrived.is_reserved {
            self.fetch.pause();
        }
        if is_done {
            self.next += 1;
            self.returned = 0;
        }
        Poll::Ready(Some(Ok(bytes)))
    }
}

impl Pausable for Mutex<SourceReader> {
    fn pause_if_stalled(&self) -> bool {
        lock(self).pause_if_stalled()
    }
}
