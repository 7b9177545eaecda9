//! Finding an object's index: which bytes to read next, without reading them.

use crate::{IndexError, media::MediaIndex};
use bytes::Bytes;
use std::ops::Range;

/// Limits of index reading.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes read from the start of an object before anything is known of it.
    pub head: u64,
    /// Bytes read from its end where the head shows that `moov` or `mfra` may be there.
    pub tail: u64,
    /// Largest `moov`, `sidx` chain or `mfra` accepted, in bytes.
    pub max_index: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head: 64 << 10, tail: 64 << 10, max_index: 256 << 20 }
    }
}

/// A read the locator asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Want {
    /// The first bytes, fewer where the object is shorter.
    Head(u64),
    /// Exactly these bytes.
    Range(Range<u64>),
}

/// Bytes that were read.
#[derive(Debug, Clone)]
pub struct Got {
    /// Where they lie in the object.
    pub offset: u64,
    /// The bytes.
    pub bytes: Bytes,
}

/// What the locator wants next.
#[derive(Debug)]
pub enum Step {
    /// Read these, all at once if possible: one round trip. Then call [`Locator::step`] with all of them.
    Read(Vec<Want>),
    /// As `Read`, but every `moof` of the object will be read one way or another: worth a line in the log, once.
    Scan(Vec<Want>),
    /// Done.
    Done(Box<MediaIndex>),
}

/// Finds the index of one object. A round trip more than needed is a bug: progressive files take at most two (one
/// where `moov` is within the head), `sidx` two, `mfra` three.
#[derive(Debug)]
pub struct Locator {
    limits: Limits,
}

impl Locator {
    /// Starts; the first read is the head.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { limits }
    }

    /// The first read.
    #[must_use]
    pub fn first(&self) -> Want {
        Want::Head(self.limits.head)
    }

    /// Takes what was read, in the order asked, and says what next. `object_size` in bytes.
    ///
    /// # Errors
    /// Where the object is no MP4, lies about sizes, or passes a limit.
    pub fn step(&mut self, object_size: u64, got: Vec<Got>) -> Result<Step, IndexError> {
        let _ = (object_size, got);
        todo!()
    }
}
