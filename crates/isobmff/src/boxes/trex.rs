//! `trex`: defaults of a track's fragments (ISO/IEC 14496-12 §8.8.3).

/// Defaults that `tfhd` and `trun` may override.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trex {
    /// Track this is about.
    pub track_id: u32,
    /// 1-based index into `stsd`.
    pub sample_description_index: u32,
    /// Sample duration in track ticks.
    pub duration: u32,
    /// Sample size in bytes.
    pub size: u32,
    /// Sample flags (§8.8.3.1).
    pub flags: u32,
}
