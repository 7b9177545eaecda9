//! Exact sizes of a track's segments, and the bit rates manifests state.

use crate::carry::Protocol;
use latemux_index::Title;

/// Bytes of every segment of a track (index into [`Title::tracks`]) in a protocol, as served. In TS this is what the track adds to a
/// (possibly muxed) segment; PAT and PMT are counted with the video, or with the audio where it is alone.
/// For tracks known by fragment only, the fragments' source bytes plus the most the container adds.
#[must_use]
pub fn segment_sizes(title: &Title, track: usize, protocol: Protocol) -> Vec<u64> {
    let _ = (title, track, protocol);
    todo!()
}

/// Bit rates in bits per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bitrate {
    /// Highest rate of any one segment (bytes over duration), rounded up: `BANDWIDTH`, `@bandwidth`. With `minBufferTime` = the longest
    /// segment's duration this satisfies ISO/IEC 23009-1 §5.3.5.4.
    pub peak: u64,
    /// All bytes over the whole duration, rounded up: `AVERAGE-BANDWIDTH`.
    pub average: u64,
}
