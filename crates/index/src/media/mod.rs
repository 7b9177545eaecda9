//! The index of one object.

pub mod fragment_samples;
pub mod stamp;

use crate::{
    error::TrackProblem,
    media::stamp::MediaStamp,
    table::{fragment_table::FragmentTable, presentation::Presentation, samples::SampleTable},
};
use bytes::Bytes;
use latemux_isobmff::{
    FourCc, Timescale,
    boxes::{mdhd::Language, stsd::SampleEntry, trex::Trex},
    codec::{Codec, Config},
};
use std::sync::Arc;

/// Everything about one object but its media bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaIndex {
    /// Size of the object in bytes.
    pub object_size: u64,
    /// A digest of the index bytes (`moov`, `sidx`, `mfra`), the object's first 64 KiB and its size: equal for equal
    /// objects wherever they are stored. ETags are made from it.
    pub fingerprint: u128,
    /// Tracks that can be served, in file order.
    pub tracks: Vec<Track>,
    /// Tracks that are left out, and why.
    pub left_out: Vec<TrackProblem>,
    /// How the index was found.
    pub source: IndexSource,
    /// Bytes of `moov` (and `sidx`, `mfra`) the index was made from.
    pub source_bytes: u64,
    /// Fragment defaults of all tracks, also those left out: their sizes tell where others' samples lie.
    pub fragment_defaults: Box<[Trex]>,
    /// What the media looked like when an index MP4 was made of it.
    pub stamp: Option<MediaStamp>,
}

/// How an object's index was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexSource {
    /// Sample tables of `moov`.
    SampleTables,
    /// One or several `sidx`.
    SegmentIndex,
    /// `mfra`.
    RandomAccess,
    /// Every `moof` was read, because neither is there (or says nothing of some track).
    Scan,
}

/// One track of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Track {
    /// `track_ID`.
    pub id: u32,
    /// Video, audio or text.
    pub kind: TrackKind,
    /// Handler type.
    pub handler: FourCc,
    /// Enabled in `tkhd`: the default among its alternatives.
    pub enabled: bool,
    /// Scale of all its times.
    pub timescale: Timescale,
    /// Language.
    pub language: Language,
    /// The sample entry all its samples use, untouched.
    pub sample_entry: SampleEntry,
    /// What it says.
    pub codec: Codec,
    /// Display size of `tkhd`, 16.16.
    pub display_size: (u32, u32),
    /// Edit list, resolved.
    pub presentation: Presentation,
    /// First presentation time, clamped to ≥ 0, in track ticks.
    pub start: i64,
    /// End of the last sample's presentation, in track ticks.
    pub end: i64,
    /// Where its samples are.
    pub samples: Samples,
    /// Bits per second, media bytes over duration; of a fragment table: what the file declares (`btrt`, ES
    /// descriptor) where fragments are shared with other tracks, else from the fragments' sizes.
    pub average_bitrate: u64,
    /// 1-based index of [`Self::sample_entry`] in `stsd`: what the track's fragments must name.
    pub(crate) sample_description: u32,
    /// Where its media is, as the file says: relative to the object, or absolute. `None`: in the object itself. Its samples lie
    /// there, and are served once [`MediaIndex::of_media`] has seen that object.
    pub location: Option<Arc<str>>,
}

/// Video, audio or text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrackKind {
    /// `vide`
    Video,
    /// `soun`
    Audio,
    /// `text`, `subt`
    Text,
}

/// Where a track's samples are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Samples {
    /// Every sample is known.
    Table(SampleTable),
    /// Fragments are known, samples once their `moof` has been read.
    Fragments(FragmentTable),
}

impl MediaIndex {
    /// The same, but for the language of one track (an index into [`Self::tracks`]), where its own is not known.
    #[must_use]
    pub fn with_language(mut self, track: usize, language: Language) -> Self {
        if let Some(track) = self.tracks.get_mut(track).filter(|track| !track.language.is_known()) {
            track.language = language;
        }
        self
    }

    /// Bytes of memory the index holds.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        let tracks: usize = self
            .tracks
            .iter()
            .map(|track| {
                let entry = track.sample_entry.raw.len() + codec_bytes(&track.codec);
                let names = track.language.as_str().len() + track.location.as_ref().map_or(0, |l| l.len());
                let samples = match &track.samples {
                    Samples::Table(table) => table.heap_bytes(),
                    Samples::Fragments(table) => table.heap_bytes(),
                };
                entry + names + samples
            })
            .sum();
        tracks
            + size_of_val::<[Track]>(&self.tracks)
            + size_of_val::<[TrackProblem]>(&self.left_out)
            + size_of_val::<[Trex]>(&self.fragment_defaults)
    }
}

/// Bytes on the heap. What a configuration says in bytes are views of the sample entry: what counts is their number, and what they share.
fn codec_bytes(codec: &Codec) -> usize {
    const SHARED: usize = 3 * size_of::<usize>();
    let views = match &codec.config {
        Config::Avc(avc) => avc.sps.len() + avc.pps.len() + avc.sps_ext.len(),
        Config::Hevc(hevc) => hevc.nal_units.len(),
        _ => 0,
    };
    codec.rfc6381.len() + views * size_of::<Bytes>() + SHARED
}
