//! The `moov` box (ISO/IEC 14496-12 §8.2): everything about a file's tracks but their samples' bytes.

use crate::{
    Error, Timescale,
    boxes::{
        ctts::CompositionOffsets, elst::Edit, mdhd::Language, stco::ChunkOffsets, stsc::SamplesToChunks,
        stsd::SampleEntry, stss::SyncSamples, stsz::SampleSizes, stts::TimeToSamples, trex::Trex,
    },
    fourcc::FourCc,
};
use bytes::Bytes;

/// A parsed `moov`. Its tables are views into the bytes it was parsed from.
#[derive(Debug, Clone)]
pub struct Movie {
    /// Scale of edit durations (`mvhd`).
    pub timescale: Timescale,
    /// Movie duration in [`Self::timescale`] ticks; 0 where unknown.
    pub duration: u64,
    /// Tracks in file order. A track that cannot be read is an error of its own: the others still play.
    pub tracks: Vec<Result<Track, TrackError>>,
    /// Fragment defaults; `Some` (possibly empty) iff there is an `mvex`, i.e. the file is fragmented.
    pub fragments: Option<Vec<Trex>>,
}

/// One `trak`.
#[derive(Debug, Clone)]
pub struct Track {
    /// `track_ID`, never 0.
    pub id: u32,
    /// `track_enabled` of `tkhd` flags.
    pub enabled: bool,
    /// `alternate_group` of `tkhd`, 0 for none.
    pub alternate_group: i16,
    /// Handler type of `hdlr`: `vide`, `soun`, `text`, `subt`, …
    pub handler: FourCc,
    /// Scale of all the track's sample times (`mdhd`).
    pub timescale: Timescale,
    /// Duration in `mdhd`, in [`Self::timescale`] ticks; 0 or all ones mean unknown.
    pub duration: u64,
    /// Language, `elng` before `mdhd`.
    pub language: Language,
    /// Edit list, in order; empty where there is none (§8.6.6).
    pub edits: Vec<Edit>,
    /// Display width and height of `tkhd`, 16.16 fixed point.
    pub display_size: (u32, u32),
    /// Sample entries in `stsd` order.
    pub sample_entries: Vec<SampleEntry>,
    /// Data reference entries in order: true where the media is in this very file (`dref` flag 1).
    pub data_in_file: Vec<bool>,
    /// The sample tables; all empty in a fragmented file's `moov`.
    pub tables: SampleTables,
}

/// The sample tables of `stbl` (§8.5), as views.
#[derive(Debug, Clone)]
pub struct SampleTables {
    /// Durations.
    pub stts: TimeToSamples,
    /// Composition offsets; `None` where all are 0.
    pub ctts: Option<CompositionOffsets>,
    /// Sizes (`stsz` or `stz2`).
    pub stsz: SampleSizes,
    /// Samples in chunks.
    pub stsc: SamplesToChunks,
    /// Where chunks lie (`stco` or `co64`).
    pub stco: ChunkOffsets,
    /// Sync samples; `None` where every sample is one.
    pub stss: Option<SyncSamples>,
}

/// A track that cannot be read.
#[derive(Debug, Clone, thiserror::Error)]
#[error("track {}: {error}", id.map_or_else(|| "?".to_owned(), |id| id.to_string()))]
pub struct TrackError {
    /// The track's ID where it could still be read.
    pub id: Option<u32>,
    /// What is wrong.
    pub error: Error,
}

impl Movie {
    /// Parses a whole `moov` box, header included. `offset` is where it lies in the file, for error messages.
    ///
    /// # Errors
    /// Where the box itself or its `mvhd` cannot be read; errors within a `trak` stay with that track.
    pub fn parse(moov: &Bytes, offset: u64) -> Result<Self, Error> {
        let _ = (moov, offset);
        todo!()
    }
}
