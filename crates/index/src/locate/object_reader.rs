//! Asking for bytes of an object that are perhaps not there yet.

use crate::{
    error::IndexError,
    locate::{limits::Limits, read_buffer::ReadBuffer},
};
use bytes::Bytes;
use latemux_isobmff::{FourCc, header::BoxHeader};
use std::ops::Range;

/// Why finding an index cannot go on.
#[derive(Debug)]
pub(crate) enum Pause {
    /// These bytes are needed first.
    Read(Vec<Range<u64>>),
    /// It never will.
    Fail(IndexError),
}

impl<E: Into<IndexError>> From<E> for Pause {
    fn from(error: E) -> Self {
        Self::Fail(error.into())
    }
}

/// What has been read of an object. Asking for more ends in [`Pause::Read`]; the asker starts again when it is there.
#[derive(Debug)]
pub(crate) struct ObjectReader<'a> {
    pub(crate) read: &'a ReadBuffer,
    pub(crate) object_size: u64,
    pub(crate) limits: Limits,
}

/// A box at the top of a file.
#[derive(Debug, Clone)]
pub(crate) struct TopBox {
    pub(crate) kind: FourCc,
    /// Bytes from the start of the object, as the box says: it may end beyond the object.
    pub(crate) range: Range<u64>,
}

impl TopBox {
    pub(crate) fn size(&self) -> u64 {
        self.range.end - self.range.start
    }
}

impl ObjectReader<'_> {
    /// A range that starts at `offset`, a read of usual length, within the object.
    pub(crate) fn window(&self, offset: u64) -> Range<u64> {
        self.clamp(offset..offset.saturating_add(self.limits.tail.max(1024)))
    }

    /// The part of a range that lies within the object.
    pub(crate) fn clamp(&self, range: Range<u64>) -> Range<u64> {
        range.start.min(self.object_size)..range.end.min(self.object_size)
    }

    /// The last bytes of the object: enough for the `mfra` of most. That grows with the object, about 20 bytes for
    /// each track and fragment, so the guess does too; a second read costs more than some bytes.
    pub(crate) fn tail(&self) -> Range<u64> {
        let len = (self.object_size >> 8).clamp(self.limits.tail, self.limits.tail.max(1 << 20));
        self.object_size.saturating_sub(len)..self.object_size
    }

    /// The bytes of a range, all of them.
    pub(crate) fn need(&self, range: &Range<u64>) -> Result<Bytes, Pause> {
        self.read.get(range).ok_or_else(|| Pause::Read(vec![range.clone()]))
    }

    /// Pauses until all ranges have been read: one round trip for them all.
    pub(crate) fn need_all(&self, ranges: Vec<Range<u64>>) -> Result<(), Pause> {
        if ranges.iter().any(|range| self.read.missing(range).next().is_some()) {
            return Err(Pause::Read(ranges));
        }
        Ok(())
    }

    /// The top-level box at `offset`; `None` where the object ends there or too few bytes are left for one. Reads
    /// `ahead` where that is not known yet.
    pub(crate) fn top_box(&self, offset: u64, ahead: Range<u64>) -> Result<Option<TopBox>, Pause> {
        let header = self.clamp(offset..offset.saturating_add(BoxHeader::MAX_LEN as u64));
        let Some(bytes) = self.read.get(&header) else { return Err(Pause::Read(vec![ahead])) };
        let Some(header) = BoxHeader::read(&bytes, offset)? else { return Ok(None) };
        let end = header.size.map_or(self.object_size, |size| offset.saturating_add(size));
        Ok(Some(TopBox { kind: header.kind, range: offset..end.max(offset) }))
    }

    /// The whole box, which must lie within the object and be no larger than an index may be. Bytes behind it are read along.
    pub(crate) fn whole(&self, found: &TopBox, what: &'static str) -> Result<Bytes, Pause> {
        if found.size() > self.limits.max_index {
            let (value, limit) = (found.size(), self.limits.max_index);
            return Err(IndexError::TooLarge { what, value, limit }.into());
        }
        if found.range.end > self.object_size {
            let (start, end, size) = (found.range.start, found.range.end, self.object_size);
            let what = format!("{what} at byte {start} ends at {end}, the object at {size}");
            return Err(IndexError::Truncated(what).into());
        }
        self.read.get(&found.range).ok_or_else(|| {
            let with_next = found.range.start..self.window(found.range.end).end;
            Pause::Read(vec![with_next])
        })
    }
}
