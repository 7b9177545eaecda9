//! `elst`: the edit list (ISO/IEC 14496-12 §8.6.6).

/// One edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edit {
    /// How long the edit plays, in movie ticks; 0 in a fragmented file: to the end.
    pub duration: u64,
    /// Where in the media it starts, in track ticks of composition time; `None` for an empty edit (-1).
    pub media_time: Option<u64>,
    /// Rate as 16.16 fixed point; 0x10000 is normal speed, 0 a dwell.
    pub rate: u32,
}
