//! The place of the cut box in an index MP4: after the `moov`, at the end of the file.
//!
//! Indexing does not read the box. Its bytes and its size go into no digest, so a title has the
//! same responses with and without it.

use latemux_isobmff::header::BoxHeader;
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_128;

/// The bytes after the `moov` of an index MP4 that latemux wrote. They may be a cut box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CutBoxPlace {
    /// Offset of the first byte in the index MP4.
    pub offset: u64,
    /// Number of bytes, up to the end of the index MP4.
    pub size: u64,
    /// Digest of the `moov` to which the cuts must belong. It also covers the media's
    /// stamp, which is in the `moov`.
    pub moov: u128,
}

impl CutBoxPlace {
    /// Returns the place after a `moov` that ends at `end`, or `None` if the object ends there too.
    pub(crate) fn behind(moov: &[u8], end: u64, object_size: u64) -> Option<Self> {
        let size = object_size.checked_sub(end).filter(|size| *size > 0)?;
        Some(Self { offset: end, size, moov: xxh3_128(moov) })
    }

    /// Returns the place at which a box can be appended to an index MP4, with size 0. Returns
    /// `None` for bytes that do not end with a `moov`.
    pub fn at_end_of(index_file: &[u8]) -> Option<Self> {
        let mut at = 0;
        while let Some(Range { start, end }) = top_box(index_file, at) {
            let bytes = index_file.get(start..end)?;
            if end == index_file.len() {
                let is_moov = bytes.get(4..8)? == b"moov";
                return is_moov.then(|| Self { offset: end as u64, size: 0, moov: xxh3_128(bytes) });
            }
            at = end;
        }
        None
    }
}

/// Returns the range of the box that starts at a position.
fn top_box(file: &[u8], at: usize) -> Option<Range<usize>> {
    let header = BoxHeader::read(file.get(at..)?, at as u64).ok()??;
    let size = usize::try_from(header.size?).ok()?;
    at.checked_add(size).filter(|end| *end > at).map(|end| at..end)
}
