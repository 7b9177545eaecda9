//! `sidx`: segment index (ISO/IEC 14496-12 §8.16.3).

use crate::{Error, Timescale};
use bytes::Bytes;

/// A segment index.
#[derive(Debug, Clone)]
pub struct Sidx {
    /// Track (or stream) the times are of.
    pub reference_id: u32,
    /// Scale of the times below.
    pub timescale: Timescale,
    /// Earliest presentation time of the first subsegment, in [`Self::timescale`] ticks, before the edit list.
    pub earliest_presentation_time: u64,
    /// Bytes from the end of this box to the first referenced byte.
    pub first_offset: u64,
    /// Subsegments in order; at most 65535 (16-bit count).
    pub references: Vec<Reference>,
}

/// One subsegment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// True where it points at another `sidx`, not at media.
    pub is_index: bool,
    /// Bytes referenced (31 bits).
    pub size: u32,
    /// Duration in the index's ticks.
    pub duration: u32,
    /// Starts with a stream access point.
    pub starts_with_sap: bool,
    /// SAP type, 0 for unknown.
    pub sap_type: u8,
}

impl Sidx {
    /// Parses a whole `sidx` box, header included.
    ///
    /// # Errors
    /// Truncated, zero timescale, or more references than bytes.
    pub fn parse(sidx: &Bytes, offset: u64) -> Result<Self, Error> {
        let _ = (sidx, offset);
        todo!()
    }
}
