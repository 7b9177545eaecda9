//! MPEG-2 transport stream segments (ISO/IEC 13818-1), laid out packet by packet from the index alone.

use crate::{
    PackError,
    plan::{Part, Transform},
};
use latemux_index::{Sample, Track};

/// One track of a TS segment with its samples.
#[derive(Debug)]
pub struct TsTrack<'a> {
    /// The track.
    pub track: &'a Track,
    /// Index of its object in the title.
    pub object: usize,
    /// Samples in decode order.
    pub samples: &'a [Sample],
}

/// A TS segment, planned.
#[derive(Debug)]
pub struct TsSegment {
    /// Bytes of the segment: a multiple of 188.
    pub content_length: u64,
    /// Source bytes in the order the muxer takes them.
    pub parts: Vec<Part>,
    /// The muxer.
    pub muxer: Box<dyn Transform>,
}

/// Plans a TS segment of at most one video and one audio track. Continuity counters run on over segment edges only as far as
/// they can be known from the segment alone: see the module's notes.
///
/// # Errors
/// [`PackError::CannotCarry`].
pub fn plan_ts(tracks: &[TsTrack<'_>]) -> Result<TsSegment, PackError> {
    let _ = tracks;
    todo!()
}

/// Bytes a track's samples take in a TS segment, without PAT and PMT; the same arithmetic as [`plan_ts`].
#[must_use]
pub fn ts_bytes(track: &Track, samples: impl Iterator<Item = Sample>) -> u64 {
    let _ = (track, samples.count());
    todo!()
}

/// Bytes of PAT and PMT at the start of each segment.
pub const PSI_BYTES: u64 = 2 * 188;
