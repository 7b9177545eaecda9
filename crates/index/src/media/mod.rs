//! The index of one object.

pub mod cut_box;
pub mod fragment_samples;
mod purpose;
pub mod stamp;
mod sync_points;
pub mod thumbnails;

pub use purpose::{Purpose, Role};

use crate::{
    error::TrackProblem,
    media::{cut_box::CutBoxPlace, stamp::MediaStamp, thumbnails::ThumbnailTrack},
    table::{
        column::unpacked::UnpackedValues, fragment_table::FragmentTable, presentation::Presentation,
        samples::SampleTable,
    },
};
use bytes::Bytes;
use latemux_isobmff::{
    FourCc, Timescale,
    boxes::{mdhd::Language, stsd::SampleEntry, trex::Trex},
    codec::{Codec, Config, captions::CaptionChannel},
    matrix::Matrix,
};
use std::sync::Arc;

/// Everything about one object but its media bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MediaIndex {
    /// Size of the object in bytes.
    pub object_size: u64,
    /// Digest of the index bytes (`moov`, `sidx`, `mfra`), the object's first 64 KiB and its size.
    /// In an index MP4 of this program, the bytes behind the `moov` do not count. It is equal for
    /// equal objects wherever they are stored. ETags are made from it.
    pub fingerprint: u128,
    /// Tracks that can be served, in file order.
    pub tracks: Vec<Track>,
    /// Tracks of JPEG pictures, in file order.
    pub thumbnails: Vec<ThumbnailTrack>,
    /// Tracks that are left out, each with the reason.
    pub left_out: Vec<TrackProblem>,
    /// The boxes the index was read from.
    pub source: IndexSource,
    /// Number of bytes of `moov` (and `sidx`, `mfra`, `moof`) the index was made from.
    pub source_bytes: u64,
    /// Fragment defaults of all tracks, including those left out: their sample sizes determine the
    /// positions of other tracks' samples.
    pub fragment_defaults: Box<[Trex]>,
    /// The media as it was when an index MP4 was made from it.
    pub stamp: Option<MediaStamp>,
    /// The bytes behind the `moov` of an index MP4 of this program, if there are any.
    pub cut_box: Option<Box<CutBoxPlace>>,
    /// All bytes of the media, if it was made in memory: of a file of text.
    pub inline: Option<Bytes>,
    /// Unpacked copies of columns that have just been read.
    pub unpacked: UnpackedValues,
}

/// The boxes an object's index was read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexSource {
    /// The sample tables of `moov`.
    SampleTables,
    /// One or several `sidx`.
    SegmentIndex,
    /// `mfra`.
    RandomAccess,
    /// Every `moof`, because `sidx` and `mfra` are missing or do not cover some track.
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
    /// True if `tkhd` enables it: it is the default among its alternatives.
    pub enabled: bool,
    /// Scale of all times of the track.
    pub timescale: Timescale,
    /// Language.
    pub language: Language,
    /// The purpose of text or audio.
    pub purpose: Purpose,
    /// Name for viewers, such as "Director's commentary", if one is stated.
    pub label: Option<Arc<str>>,
    /// Closed captions within the video, if a server manifest declares them; empty for none.
    pub captions: Option<Arc<[Captions]>>,
    /// The sample entry all its samples use, in ISO form: see
    /// [`iso_entry`](latemux_isobmff::codec::iso_entry).
    pub sample_entry: SampleEntry,
    /// The codec that the sample entry describes.
    pub codec: Codec,
    /// Transformation by which the picture is shown; unity for tracks without a picture.
    pub matrix: Matrix,
    /// Display size (width, height) of `tkhd`, before the transformation, 16.16 fixed point.
    pub display_size: (u32, u32),
    /// The resolved edit list.
    pub presentation: Presentation,
    /// First presentation time, clamped to ≥ 0, in track ticks.
    pub start: i64,
    /// End of the last sample's presentation, in track ticks.
    pub end: i64,
    /// Positions, sizes and times of its samples or fragments.
    pub samples: Samples,
    /// Average bit rate in bits per second: media bytes over duration. For fragments that hold
    /// several tracks, the rate the file declares (`btrt`, ES descriptor), or else that of the
    /// track's first fragment.
    pub average_bitrate: u64,
    /// 1-based index of [`Self::sample_entry`] in `stsd`, which the track's fragments must name.
    pub(crate) sample_description: u32,
    /// Location of its media as the file states it: relative to the object, or absolute. `None`
    /// means the object itself. Samples at a location are served once [`MediaIndex::of_media`] has
    /// seen the object there.
    pub location: Option<Arc<str>>,
}

/// One channel of closed captions, as a server manifest declares it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Captions {
    /// The channel.
    pub channel: CaptionChannel,
    /// Its language.
    pub language: Language,
}

/// Video, audio or text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TrackKind {
    /// Handler `vide`.
    Video,
    /// Handler `soun`.
    Audio,
    /// Handler `text` or `subt`, or `sbtl` or `subp`, which QuickTime and ffmpeg write.
    Text,
}

impl TrackKind {
    /// Returns the kind of tracks with a handler type, or `None` for types that are not served.
    pub fn of_handler(handler: FourCc) -> Option<Self> {
        match &handler.0 {
            b"vide" => Some(Self::Video),
            b"soun" => Some(Self::Audio),
            b"text" | b"subt" | b"sbtl" | b"subp" => Some(Self::Text),
            _ => None,
        }
    }
}

/// The samples of a track, or its fragments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Samples {
    /// Every sample is known.
    Table(SampleTable),
    /// Fragments are known. Their samples are known once their `moof` has been read.
    Fragments(FragmentTable),
}

impl Track {
    /// Returns the number of its samples, or of its fragments if only those are known.
    pub fn sample_count(&self) -> u64 {
        match &self.samples {
            Samples::Table(table) => table.len().into(),
            Samples::Fragments(table) => table.len().into(),
        }
    }

    /// Returns the average bit rate in bits per second as names and server manifests state it:
    /// rounded to thousands, and at least 1000.
    pub fn rounded_bitrate(&self) -> u64 {
        (self.average_bitrate.saturating_add(500) / 1000).max(1) * 1000
    }
}

impl MediaIndex {
    /// Sets the language of one track (an index into [`Self::tracks`]) if its own is not known.
    #[must_use]
    pub fn with_language(mut self, track: usize, language: Language) -> Self {
        if let Some(track) = self.tracks.get_mut(track).filter(|track| !track.language.is_known()) {
            track.language = language;
        }
        self
    }

    /// Sets purpose and label of one track (an index into [`Self::tracks`]), whatever the file
    /// states.
    #[must_use]
    pub fn with_purpose(mut self, track: usize, purpose: Purpose, label: Option<Arc<str>>) -> Self {
        if let Some(track) = self.tracks.get_mut(track) {
            track.purpose = purpose;
            track.label = label;
        }
        self
    }

    /// Declares the closed captions of one track (an index into [`Self::tracks`]).
    #[must_use]
    pub fn with_captions(mut self, track: usize, captions: Arc<[Captions]>) -> Self {
        if let Some(track) = self.tracks.get_mut(track) {
            track.captions = Some(captions);
        }
        self
    }

    /// Sets the grid of tiles in all sheets that state none.
    #[must_use]
    pub fn with_tiles(mut self, tiles: &str) -> Self {
        for thumbnails in &mut self.thumbnails {
            thumbnails.stated_tiles.get_or_insert_with(|| tiles.into());
        }
        self
    }

    /// Sets the grid of tiles of one track of thumbnails, whatever the file states.
    #[must_use]
    pub fn with_tiles_of(mut self, track: usize, tiles: &str) -> Self {
        if let Some(thumbnails) = self.thumbnails.get_mut(track) {
            thumbnails.stated_tiles = Some(tiles.into());
        }
        self
    }

    /// Moves the unpacked copies of columns to a new owner, who should drop them soon. There are
    /// none unless [`Locator::keeping_values`](crate::locate::Locator::keeping_values) kept them.
    pub fn take_unpacked(&mut self) -> UnpackedValues {
        std::mem::take(&mut self.unpacked)
    }

    /// Returns the number of samples of all tracks, or of fragments if only those are known.
    pub fn sample_count(&self) -> u64 {
        self.all_tracks().map(Track::sample_count).sum()
    }

    /// Iterates over all tracks, those of thumbnails last.
    pub(crate) fn all_tracks(&self) -> impl Iterator<Item = &Track> {
        self.tracks.iter().chain(self.thumbnails.iter().map(|thumbnails| &thumbnails.track))
    }

    /// Returns a number that the sync samples of all tracks do not exceed.
    pub fn sync_count(&self) -> u64 {
        let of = |track: &Track| match &track.samples {
            Samples::Table(table) => table.sync_count().into(),
            Samples::Fragments(table) => u64::from(table.len()),
        };
        self.tracks.iter().map(of).sum()
    }

    /// Returns the number of bytes of memory the index holds.
    pub fn heap_bytes(&self) -> usize {
        let tracks: usize = self
            .all_tracks()
            .map(|track| {
                let entry = track.sample_entry.raw.len() + codec_bytes(&track.codec);
                let texts = [&track.location, &track.label].map(|text| text.as_ref().map_or(0, |t| t.len()));
                let names = track.language.as_str().len() + texts.iter().sum::<usize>();
                let samples = match &track.samples {
                    Samples::Table(table) => table.heap_bytes(),
                    Samples::Fragments(table) => table.heap_bytes(),
                };
                entry + names + samples
            })
            .sum();
        tracks
            + size_of_val::<[Track]>(&self.tracks)
            + size_of_val::<[ThumbnailTrack]>(&self.thumbnails)
            + size_of_val::<[TrackProblem]>(&self.left_out)
            + size_of_val::<[Trex]>(&self.fragment_defaults)
            + self.cut_box.as_ref().map_or(0, |_| size_of::<CutBoxPlace>())
            + self.inline.as_ref().map_or(0, Bytes::len)
            + self.unpacked.heap_bytes()
    }
}

/// Returns the number of bytes of a codec on the heap. The parameter sets are views of the sample
/// entry, so only the views themselves and their reference counts are added.
fn codec_bytes(codec: &Codec) -> usize {
    const SHARED: usize = 3 * size_of::<usize>();
    let views = match &codec.config {
        Config::Avc(avc) => avc.sps.len() + avc.pps.len() + avc.sps_ext.len(),
        Config::Hevc(hevc) => hevc.nal_units.len(),
        _ => 0,
    };
    codec.rfc6381.len() + views * size_of::<Bytes>() + SHARED
}
