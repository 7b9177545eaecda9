//! The parts that segments are made of and that a plan lists: inline bytes and source ranges.

use crate::PackError;
use bytes::{Bytes, BytesMut};
use latemux_index::Sample;
use std::ops::Range;

/// One piece of a plan: of its body, or of the transform's input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Bytes made from the index.
    Inline(Bytes),
    /// An untouched slice of a source object.
    Source(SourceRange),
}

/// A byte range of one of the title's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRange {
    /// Index into [`latemux_index::Title::objects`].
    pub object: usize,
    /// Bytes, counted from the start of the object.
    pub range: Range<u64>,
}

/// Turns source bytes into body bytes in one pass. The input is the bytes of all parts in order,
/// inline parts included, in pieces of any size. The output has the planned length for all such
/// input.
pub trait Transform: Send + std::fmt::Debug {
    /// Takes the next bytes of the parts and appends all output that they allow to `out`.
    fn write(&mut self, input: &[u8], out: &mut BytesMut);

    /// Takes the next bytes in several pieces. By default, writes one after the other.
    ///
    /// Samples of several pieces are encrypted together, which is faster.
    fn write_all(&mut self, input: &[Bytes], out: &mut BytesMut) {
        for piece in input {
            self.write(piece, out);
        }
    }

    /// Ends the input and appends the rest of the output.
    fn finish(&mut self, out: &mut BytesMut);

    /// Returns the bytes of memory that the transform takes.
    fn heap_bytes(&self) -> usize;

    /// Returns the reason why the transform makes no more output, if its input is not as planned.
    /// By default, any input is.
    fn failure(&self) -> Option<PackError> {
        None
    }

    /// Leaves out what lies before and after a window of the output, as far as that is possible
    /// without reading it. Must be called before any input is written. By default, leaves out
    /// nothing.
    fn trim(&mut self, window: Range<u64>) -> Trimmed {
        Trimmed { input: 0..u64::MAX, before: window.start }
    }
}

/// What a trimmed transform still takes and makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trimmed {
    /// The part of the input that is to be written.
    pub input: Range<u64>,
    /// Number of bytes of output before the window that are made nevertheless.
    pub before: u64,
}

impl Part {
    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        match self {
            Self::Inline(bytes) => bytes.len() as u64,
            Self::Source(source) => source.range.end - source.range.start,
        }
    }

    /// True if the part has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes `range` of the part, which must lie within it.
    pub(crate) fn trimmed(&self, range: Range<u64>) -> Self {
        match self {
            Self::Inline(bytes) => {
                // Both bounds are at most the length, which is a `usize`.
                let at = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).min(bytes.len());
                Self::Inline(bytes.slice(at(range.start)..at(range.end)))
            }
            Self::Source(source) => {
                let start = source.range.start;
                let range = start + range.start..start + range.end;
                Self::Source(SourceRange { object: source.object, range })
            }
        }
    }

    /// Returns the number of parts that samples of objects take: neighbours are one part.
    pub(crate) fn count<'a>(samples: impl Iterator<Item = (usize, &'a Sample)>) -> usize {
        let mut end = None;
        let is_new = |(object, sample): &(usize, &Sample)| {
            let before = end.replace((*object, sample.offset + u64::from(sample.size)));
            before != Some((*object, sample.offset))
        };
        samples.filter(|(_, sample)| sample.size > 0).filter(is_new).count()
    }

    /// Appends the bytes of samples of an object.
    pub(crate) fn push_samples(parts: &mut Vec<Self>, object: usize, samples: &[Sample]) {
        for sample in samples {
            let end = sample.offset + u64::from(sample.size);
            Self::push_source(parts, object, sample.offset..end);
        }
    }

    /// Appends a slice of an object. If it continues the last part, that part is extended.
    pub(crate) fn push_source(parts: &mut Vec<Self>, object: usize, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        match parts.last_mut() {
            Some(Self::Source(last)) if last.object == object && last.range.end == range.start => {
                last.range.end = range.end;
            }
            _ => parts.push(Self::Source(SourceRange { object, range })),
        }
    }
}
