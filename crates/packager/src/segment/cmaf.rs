//! CMAF segments (ISO/IEC 23000-19): `moof` from the index, `mdat` from untouched slices of the source.

use latemux_index::Sample;

/// Bytes of the smallest `moof` and `mdat` header.
pub const MIN_SEGMENT_HEADER: u64 = 128;

/// Bytes of the media segment these samples become; the same arithmetic as planning it.
#[must_use]
pub fn segment_bytes(samples: impl Iterator<Item = Sample>) -> u64 {
    let _ = samples.count();
    todo!()
}

use crate::{PackError, plan::Part};
use bytes::Bytes;
use latemux_index::Track;

/// The init segment of a track.
pub fn init(track: &Track) -> Result<Bytes, PackError> {
    let _ = track;
    todo!()
}

/// The media segment of these samples.
pub fn media(object: usize, number: u32, samples: &[Sample]) -> Result<Vec<Part>, PackError> {
    let _ = (object, number, samples);
    todo!()
}
