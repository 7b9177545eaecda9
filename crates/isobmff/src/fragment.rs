//! The `moof` box (ISO/IEC 14496-12 §8.8): the samples of one movie fragment.

use crate::{Error, boxes::trun::TrackRun};
use bytes::Bytes;

/// A parsed `moof`; its runs are views into the bytes it was parsed from.
#[derive(Debug, Clone)]
pub struct Moof {
    /// `mfhd` sequence number.
    pub sequence: u32,
    /// Track fragments in file order; several may name one track.
    pub tracks: Vec<TrackFragment>,
}

/// One `traf`.
#[derive(Debug, Clone)]
pub struct TrackFragment {
    /// `track_ID` of `tfhd`.
    pub track_id: u32,
    /// `base_data_offset` of `tfhd`: bytes from the start of the file.
    pub base_data_offset: Option<u64>,
    /// `default-base-is-moof` of `tfhd` flags.
    pub default_base_is_moof: bool,
    /// `duration-is-empty` of `tfhd` flags: no samples in this fragment.
    pub duration_is_empty: bool,
    /// Overrides of `trex`, each where present: 1-based index into `stsd`.
    pub sample_description_index: Option<u32>,
    /// Default sample duration in track ticks.
    pub default_duration: Option<u32>,
    /// Default sample size in bytes.
    pub default_size: Option<u32>,
    /// Default sample flags (§8.8.3.1).
    pub default_flags: Option<u32>,
    /// `tfdt` base media decode time in track ticks, before the edit list.
    pub decode_time: Option<u64>,
    /// `tfxd` of Smooth Streaming files ([MS-SSTR] 2.2.4.4): absolute time and duration, in track ticks.
    pub tfxd: Option<(u64, u64)>,
    /// Per-sample encryption data is present (`senc`, PIFF `uuid`, `saiz`).
    pub encrypted: bool,
    /// Runs in file order.
    pub runs: Vec<TrackRun>,
}

impl Moof {
    /// Parses a whole `moof` box, header included. `offset` is where it lies in the file, for error messages.
    ///
    /// # Errors
    /// Where any box in it lies, is truncated, or holds more entries than its bytes.
    pub fn parse(moof: &Bytes, offset: u64) -> Result<Self, Error> {
        let _ = (moof, offset);
        todo!()
    }
}
