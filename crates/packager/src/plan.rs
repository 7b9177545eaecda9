//! The plan: what a response will be, before any media byte is read.

use crate::{PackError, Resource};
use bytes::{Bytes, BytesMut};
use latemux_index::{Title, fragments::KnownFragments};
use std::ops::Range;

/// A plan, or what must be read first.
#[derive(Debug)]
pub enum Planned {
    /// Ready to answer.
    Ready(Plan),
    /// Samples of these fragments are not known yet: read their `moof`s (see [`latemux_index::fragments::FragmentReader`]), then
    /// plan again.
    Needs(Vec<SourceRange>),
}

/// A byte range of one of the title's objects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRange {
    /// Index into [`Title::objects`].
    pub object: usize,
    /// Bytes from the start of the object.
    pub range: Range<u64>,
}

/// Everything about a response but its media bytes.
#[derive(Debug)]
pub struct Plan {
    /// `Content-Type`.
    pub content_type: &'static str,
    /// Exact length of the body in bytes.
    pub content_length: u64,
    /// A digest of everything the body depends on; an ETag is made from it.
    pub digest: u128,
    /// Manifest, init or media: decides compression and `Cache-Control`.
    pub class: Class,
    /// The body in order.
    pub parts: Vec<Part>,
    /// How source bytes become body bytes; `None`: untouched.
    pub transform: Option<Box<dyn Transform>>,
}

/// What kind of response.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// Playlists and MPDs: text, worth compressing.
    Manifest,
    /// Init segments.
    Init,
    /// Media segments.
    Media,
}

/// A piece of the body, or of what the transform is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Made from the index.
    Inline(Bytes),
    /// An untouched slice of a source object.
    Source(SourceRange),
}

/// Turns source bytes into body bytes, in one pass. It is given all parts' bytes in order, in pieces of any size: inline
/// parts too. The total output is [`Plan::content_length`] for every input of the planned length.
pub trait Transform: Send + std::fmt::Debug {
    /// Takes the next bytes of the parts; appends what it can to `out`.
    fn write(&mut self, input: &[u8], out: &mut BytesMut);

    /// All parts were given; appends the rest.
    fn finish(&mut self, out: &mut BytesMut);
}

/// Plans a response. Cost does not grow with the title for segments and init segments.
///
/// # Errors
/// Where the title has no such track or segment, or the protocol cannot carry it.
pub fn plan(title: &Title, resource: &Resource, known: &dyn KnownFragments) -> Result<Planned, PackError> {
    let _ = (title, resource, known);
    todo!()
}
