//! One request to storage for a range of an object, and what has arrived of it.

use crate::{Error, read::charge::Charge, read::room::Use};
use bytes::Bytes;
use futures_util::{StreamExt, future::BoxFuture, stream::BoxStream};
use latemux_storage::{Read, StorageError};
use std::{
    collections::VecDeque,
    ops::Range,
    task::{Context, Poll, ready},
};

/// One request to storage, and the bytes it has returned.
pub(super) struct Transfer {
    pub(super) object: usize,
    pub(super) range: Range<u64>,
    /// Range that a cache may read along. It contains `range`.
    pub(super) reach: Range<u64>,
    pub(super) state: State,
    /// Bytes that arrived and are still needed: in order, without gaps, up to `received`.
    pub(super) chunks: VecDeque<Chunk>,
    /// End of the bytes that arrived, from the start of the object.
    pub(super) received: u64,
    /// End of the bytes that the current request brings.
    pub(super) requested: u64,
    /// Lowest byte that is still needed. `None` if no byte is.
    pub(super) needed: Option<u64>,
    /// Bytes reserved because the chunks may keep a whole unit of the range cache in memory.
    pub(super) pinned: u64,
    /// Use for which the bytes of the chunks themselves are reserved.
    pub(super) purpose: Use,
}

pub(super) enum State {
    /// Not started, because the limit of open requests is reached.
    Waiting,
    Opening(BoxFuture<'static, Result<Read, StorageError>>),
    Streaming(BoxStream<'static, Result<Bytes, StorageError>>),
    Failed(Error),
    /// Complete, or no longer needed.
    Ended,
}

/// Bytes of a transfer.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) bytes: Bytes,
    /// False if there was no memory for them. They must be copied at once, and the fetch paused.
    pub(crate) is_reserved: bool,
}

/// Bytes that arrived together.
pub(super) struct Chunk {
    /// Offset of the first byte in the object.
    pub(super) offset: u64,
    pub(super) bytes: Bytes,
    /// Bytes reserved for the chunk. 0 if there was no memory for it.
    pub(super) reserved: u64,
}

impl Transfer {
    pub(super) fn new(object: usize, range: Range<u64>, reach: Range<u64>) -> Self {
        let start = range.start;
        let state = State::Waiting;
        let chunks = VecDeque::new();
        let needed = Some(start);
        let received = start;
        let requested = start;
        let pinned = 0;
        let purpose = Use::Ahead;
        Self { object, range, reach, state, chunks, received, requested, needed, pinned, purpose }
    }

    /// Returns the bytes from `offset` on if they have arrived.
    pub(super) fn arrived(&self, offset: u64) -> Option<Arrived> {
        let after = self.chunks.partition_point(|c| c.offset <= offset);
        let chunk = self.chunks.get(after.checked_sub(1)?)?;
        let skip = usize::try_from(offset.checked_sub(chunk.offset)?).ok()?;
        let is_reserved = chunk.reserved > 0;
        (skip < chunk.bytes.len()).then(|| Arrived { bytes: chunk.bytes.slice(skip..), is_reserved })
    }

    /// Receives the next bytes from the stream.
    pub(super) fn poll_more(
        &mut self,
        cx: &mut Context<'_>,
        key: &str,
        charge: &Charge,
    ) -> Poll<Result<(), Error>> {
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
            Some(Ok(bytes)) => self.push(bytes, key, charge),
            Some(Err(error)) => Err(error.into()),
            None => {
                let at = self.received;
                let end = self.requested;
                Err(bad_response(key, format!("ended at byte {at} instead of {end}")))
            }
        };
        match &result {
            Err(error) => self.state = State::Failed(error.clone()),
            Ok(()) if self.received == self.range.end => self.state = State::Ended,
            Ok(()) if self.received == self.requested => self.state = State::Waiting,
            Ok(()) => {}
        }
        Poll::Ready(result)
    }

    pub(super) fn push(&mut self, bytes: Bytes, key: &str, charge: &Charge) -> Result<(), Error> {
        let offset = self.received;
        let length = bytes.len() as u64;
        if offset + length > self.requested {
            return Err(bad_response(key, format!("more bytes than {offset}..{}", self.requested)));
        }
        self.received += length;
        if !bytes.is_empty() {
            let reserved = self.reserve(length, charge);
            self.chunks.push_back(Chunk { offset, bytes, reserved });
        }
        Ok(())
    }

    /// Reserves memory for a chunk. Returns its bytes, or 0 if there is no memory. A slice of a
    /// unit keeps all of it in memory. A transfer has at most two such slices that are not whole
    /// units: the first and the last.
    pub(super) fn reserve(&mut self, length: u64, charge: &Charge) -> u64 {
        if self.pinned == 0 && charge.unit() > 0 {
            if !charge.reserve(charge.unit(), Use::Pinned) {
                return 0;
            }
            self.pinned = charge.unit();
        }
        if charge.reserve(length, self.purpose) { length } else { 0 }
    }
}

impl Chunk {
    pub(super) fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

pub(super) fn bad_response(key: &str, detail: String) -> Error {
    StorageError::BadResponse { key: key.to_owned(), detail }.into()
}
