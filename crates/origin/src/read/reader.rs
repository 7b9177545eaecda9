//! The source bytes of a response in the order it needs them, untouched.

use crate::{Error, read::fetch::Fetch};
use bytes::Bytes;
use futures_util::future::poll_fn;
use latemux_packager::plan::SourceRange;
use std::{
    ops::Range,
    task::{Context, Poll, ready},
};

/// Slices of what a [`Fetch`] reads, in the order of the plan. What no later range needs is let go at once.
#[derive(Debug)]
pub(crate) struct SourceReader {
    fetch: Fetch,
    pieces: Vec<Piece>,
    next: usize,
    /// Bytes of the current piece that were given out.
    given: u64,
}

/// A range, cut where spans end.
#[derive(Debug)]
struct Piece {
    span: usize,
    range: Range<u64>,
    /// Lowest byte of the span that a later piece needs.
    keep: Option<u64>,
}

impl SourceReader {
    /// Reads `ranges` in this order; requests already in flight are used.
    ///
    /// # Errors
    /// As [`Fetch::cover`].
    pub(crate) fn new(mut fetch: Fetch, ranges: &[SourceRange]) -> Result<Self, Error> {
        fetch.cover(ranges)?;
        let mut pieces = Vec::with_capacity(ranges.len());
        for wanted in ranges {
            let mut at = wanted.range.start;
            while at < wanted.range.end {
                let span = fetch.span_at(wanted.object, at).ok_or(Error::Internal("a range not covered"))?;
                let end = fetch.span_end(span).min(wanted.range.end);
                pieces.push(Piece { span, range: at..end, keep: None });
                at = end;
            }
        }
        let mut keep = vec![None; fetch.span_count()];
        for piece in pieces.iter_mut().rev() {
            if let Some(keep) = keep.get_mut(piece.span) {
                piece.keep = *keep;
                *keep = Some(keep.map_or(piece.range.start, |k: u64| k.min(piece.range.start)));
            }
        }
        for (span, keep) in keep.into_iter().enumerate() {
            fetch.release(span, keep);
        }
        Ok(Self { fetch, pieces, next: 0, given: 0 })
    }

    /// Waits until storage has answered all requests that were started and the first bytes are there, so that what it
    /// refuses can still become a status code.
    pub(crate) async fn ready(&mut self) -> Result<(), Error> {
        self.fetch.opened().await?;
        let Some(first) = self.pieces.get(self.next) else { return Ok(()) };
        let (span, at) = (first.span, first.range.start + self.given);
        poll_fn(|cx| self.fetch.poll_at(cx, span, at)).await.map(drop)
    }

    /// The next bytes, never empty, at most `limit` of them; `None` after the last.
    pub(crate) fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
        limit: usize,
    ) -> Poll<Option<Result<Bytes, Error>>> {
        let Some(piece) = self.pieces.get(self.next) else { return Poll::Ready(None) };
        let at = piece.range.start + self.given;
        let mut bytes = match ready!(self.fetch.poll_at(cx, piece.span, at)) {
            Ok(bytes) => bytes,
            Err(error) => return Poll::Ready(Some(Err(error))),
        };
        let left = piece.range.end - at;
        bytes.truncate(limit.min(usize::try_from(left).unwrap_or(usize::MAX)));
        let given = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.given += given;
        self.fetch.used(given);
        let done = given == left;
        match (piece.keep, done) {
            (None, true) => self.fetch.release(piece.span, None),
            (keep, _) => self.fetch.release(piece.span, Some(keep.unwrap_or(u64::MAX).min(at + given))),
        }
        if done {
            self.next += 1;
            self.given = 0;
        }
        Poll::Ready(Some(Ok(bytes)))
    }
}
