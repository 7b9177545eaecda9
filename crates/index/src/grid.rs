//! The segment grid: where segments begin, the same for every protocol, rendition and node.
//!
//! Boundary k is the first sync point at or after k × target duration; points that coincide count once. Sync points are
//! those all video tracks share. It is a pure function of the index and the target duration.

use latemux_isobmff::Time;

/// Segment boundaries of a title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grid {
    /// Start of each segment in presentation time, ascending; the first is the title's start (≥ 0).
    pub starts: Vec<Time>,
    /// End of the title.
    pub end: Time,
}
