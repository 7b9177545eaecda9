//! Access to bytes of an object that may not have been read yet.

use crate::{
    error::IndexError,
    locate::{limits::Limits, read_buffer::ReadBuffer},
};
use bytes::Bytes;
use latemux_isobmff::{FourCc, header::BoxHeader};
use std::ops::Range;

/// The reason why the search for an index stops.
#[derive(Debug)]
pub(crate) enum Pause {
    /// These bytes are needed first.
    Read(Vec<Range<u64>>),
    /// The rest takes longer than a quick step may.
    Long,
    /// The index cannot be read.
    Fail(IndexError),
}

impl<E: Into<IndexError>> From<E> for Pause {
    fn from(error: E) -> Self {
        Self::Fail(error.into())
    }
}

/// The bytes read of an object. A request for more ends in [`Pause::Read`], and the search starts
/// again once they have been read.
#[derive(Debug)]
pub(crate) struct ObjectReader<'a> {
    pub(crate) read: &'a ReadBuffer,
    pub(crate) object_size: u64,
    pub(crate) limits: Limits,
}

#[derive(Debug, Clone)]
pub(crate) struct TopBox {
    pub(crate) kind: FourCc,
    /// Byte range in the object as the box states it, which may end beyond the object.
    pub(crate) range: Range<u64>,
}

impl TopBox {
    pub(crate) fn size(&self) -> u64 {
        self.range.end - self.range.start
    }
}

impl ObjectReader<'_> {
    /// Returns a range of usual length that starts at `offset`, within the object.
    pub(crate) fn window(&self, offset: u64) -> Range<u64> {
        self.within_object(offset, self.limits.tail.max(1024))
    }

    /// Returns the `len` bytes from `offset` on, as far as the object has them.
    fn within_object(&self, offset: u64, len: u64) -> Range<u64> {
        let start = offset.min(self.object_size);
        start..start + len.min(self.object_size - start)
    }

    /// Returns the last bytes of the object, enough for most `mfra`. These have about 20 bytes for
    /// each track and fragment, and a second read costs more than reading too much.
    pub(crate) fn tail(&self) -> Range<u64> {
        let len = (self.object_size >> 8).clamp(self.limits.tail, self.limits.tail.max(1 << 20));
        self.object_size.saturating_sub(len)..self.object_size
    }

    /// Returns the bytes of a range, all of them.
    pub(crate) fn need(&self, range: &Range<u64>) -> Result<Bytes, Pause> {
        self.read.get(range).ok_or_else(|| Pause::Read(vec![range.clone()]))
    }

    /// Pauses until all ranges have been read, in one round trip.
    pub(crate) fn need_all(&self, ranges: Vec<Range<u64>>) -> Result<(), Pause> {
        if ranges.iter().any(|range| self.read.missing(range).next().is_some()) {
            return Err(Pause::Read(ranges));
        }
        Ok(())
    }

    /// Returns the top-level box at `offset`, or `None` if too few bytes are left for one. Requests
    /// `ahead` if the header has not been read yet.
    pub(crate) fn top_box(&self, offset: u64, ahead: Range<u64>) -> Result<Option<TopBox>, Pause> {
        let header = self.within_object(offset, BoxHeader::MAX_LEN as u64);
        let Some(bytes) = self.read.get(&header) else { return Err(Pause::Read(vec![ahead])) };
        let Some(header) = BoxHeader::read(&bytes, offset)? else { return Ok(None) };
        let end = header.size.map_or(self.object_size, |size| offset.saturating_add(size));
        Ok(Some(TopBox { kind: header.kind, range: offset..end.max(offset) }))
    }

    /// Returns the whole box. It must lie within the object and within the limit of an index. The
    /// bytes after it are requested along with it.
    pub(crate) fn whole(&self, found: &TopBox, what: &'static str) -> Result<Bytes, Pause> {
        if found.size() > self.limits.max_index {
            let value = found.size();
            let limit = self.limits.max_index;
            return Err(IndexError::TooLarge { what, value, limit }.into());
        }
        if found.range.end > self.object_size {
            let Range { start, end } = found.range;
            let size = self.object_size;
            let what = format!("{what} at byte {start} ends at {end}, but the object ends at {size}");
            return Err(IndexError::Truncated(what).into());
        }
        self.read.get(&found.range).ok_or_else(|| {
            let with_next = found.range.start..self.window(found.range.end).end;
            Pause::Read(vec![with_next])
        })
    }
}
