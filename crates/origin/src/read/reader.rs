//! Returns the source bytes of a response in the order in which the plan needs them.

use crate::{Error, read::fetch::Fetch};
use bytes::Bytes;
use futures_util::future::poll_fn;
use latemux_packager::plan::SourceRange;
use std::{
    ops::Range,
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
        Ok(Self { fetch, slices, next: 0, returned: 0 })
    }

    /// Waits until storage has responded to all requests and the first bytes have arrived.
    pub(crate) async fn ready(&mut self) -> Result<(), Error> {
        self.fetch.opened().await?;
        let Some(first) = self.slices.get(self.next) else { return Ok(()) };
        let transfer = first.transfer;
        let at = first.range.start + self.returned;
        poll_fn(|cx| self.fetch.poll_at(cx, transfer, at)).await.map(drop)
    }

    /// Returns the next bytes, at least one and at most `limit`. Returns `None` after the last.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        limit: usize,
    ) -> Poll<Option<Result<Bytes, Error>>> {
        let Some(slice) = self.slices.get(self.next) else { return Poll::Ready(None) };
        let at = slice.range.start + self.returned;
        let mut bytes = match ready!(self.fetch.poll_at(cx, slice.transfer, at)) {
            Ok(bytes) => bytes,
            Err(error) => return Poll::Ready(Some(Err(error))),
        };
        let left = slice.range.end - at;
        bytes.truncate(limit.min(usize::try_from(left).unwrap_or(usize::MAX)));
        let len = bytes.len() as u64;
        self.returned += len;
        self.fetch.count_used(len);
        let is_done = len == left;
        let keep_from = match (slice.keep_from, is_done) {
            (None, true) => None,
            (keep, _) => Some(keep.unwrap_or(u64::MAX).min(at + len)),
        };
        self.fetch.release(slice.transfer, keep_from);
        if is_done {
            self.next += 1;
            self.returned = 0;
        }
        Poll::Ready(Some(Ok(bytes)))
    }
}
