//! Several objects as one presentation.

use crate::{
    IndexError,
    fragments::KnownFragments,
    grid::Grid,
    media::{MediaIndex, Track, TrackKind},
    samples::Sample,
};
use std::{ops::Range, sync::Arc, time::Duration};

/// One title: its objects, the tracks that play together, and the grid they are cut by. Immutable.
#[derive(Debug)]
pub struct Title {
    /// The objects in order: as listed, or by name in a folder.
    pub objects: Vec<Arc<MediaIndex>>,
    /// Tracks: video by ascending bit rate, then audio in object order, then text.
    pub tracks: Vec<TitleTrack>,
    /// Where segments begin.
    pub grid: Grid,
    /// The target duration the grid was cut for.
    pub target: Duration,
    /// What is wrong with it and plays all the same: tracks left out, GOPs that disagree, …
    pub problems: Vec<Problem>,
    /// Digest of the objects' fingerprints, the grid and the target: what the bytes of any answer depend on.
    pub fingerprint: u128,
}

/// One track of a title.
#[derive(Debug)]
pub struct TitleTrack {
    /// Index into [`Title::objects`].
    pub object: usize,
    /// Index into [`MediaIndex::tracks`].
    pub track: usize,
    /// Its name in URLs.
    pub name: TrackName,
    /// For each of its segments the first sample (or fragment), and one past the last: `cuts.len() == segments + 1`.
    /// Grid segments in which the track has nothing of its own are joined to the one before.
    pub cuts: Vec<u32>,
    /// Presentation time of each cut in track ticks, first clamped to ≥ 0; `len == cuts.len()`.
    pub times: Vec<i64>,
    /// For each of its segments, the index in [`Grid::starts`] where it starts.
    pub grid_segments: Vec<u32>,
}

/// `trackName[_lang][_n]=bitrate`, unique within a title.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TrackName {
    /// `video`, `audio`, `textstream`, with `_lang` where known and `_n` (from 1) where it would collide.
    pub stem: String,
    /// Bits per second, rounded to thousands, at least 1000.
    pub bitrate: u64,
}

impl std::fmt::Display for TrackName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}={}", self.stem, self.bitrate)
    }
}

/// Something wrong with a title that plays all the same.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Object index, where it is about one.
    pub object: Option<usize>,
    /// Stable word.
    pub reason: &'static str,
    /// For people.
    pub detail: String,
}

/// One segment of one track.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// 0-based number in the track.
    pub number: u32,
    /// Presentation time of its start in track ticks, ≥ 0: what manifests and URLs say.
    pub start: i64,
    /// Presentation time of its end in track ticks.
    pub end: i64,
    /// Samples or fragments of it.
    pub cut: Range<u32>,
}

/// The samples of a segment, or what must be read to know them.
#[derive(Debug)]
pub enum SegmentSamples {
    /// Known, in decode order; never empty.
    Known(Vec<Sample>),
    /// These fragments must be read first: byte ranges of the track's object, ascending.
    Needs(Vec<Range<u64>>),
}

impl Title {
    /// Makes one title of several objects. An object without playable tracks is a [`Problem`]; a title without any is an error.
    ///
    /// # Errors
    /// [`IndexError::NoMedia`] or [`IndexError::NoTracks`].
    pub fn new(objects: Vec<Arc<MediaIndex>>, target: Duration) -> Result<Self, IndexError> {
        let _ = (objects, target);
        todo!()
    }

    /// The track behind a title track.
    #[must_use]
    pub fn track(&self, track: &TitleTrack) -> &Track {
        &self.objects[track.object].tracks[track.track]
    }

    /// Finds a track by its name in URLs.
    #[must_use]
    pub fn find(&self, name: &TrackName) -> Option<usize> {
        self.tracks.iter().position(|t| &t.name == name)
    }

    /// Tracks of a kind: their indexes in [`Self::tracks`].
    pub fn of_kind(&self, kind: TrackKind) -> impl Iterator<Item = usize> + '_ {
        (0..self.tracks.len()).filter(move |&i| self.track(&self.tracks[i]).kind == kind)
    }

    /// The samples of a segment of track number `track` (an index into [`Self::tracks`]).
    #[must_use]
    pub fn samples(&self, track: usize, segment: &Segment, known: &dyn KnownFragments) -> SegmentSamples {
        let _ = (track, segment, known);
        todo!()
    }
}

impl TitleTrack {
    /// Number of segments.
    #[must_use]
    pub fn segment_count(&self) -> u32 {
        u32::try_from(self.cuts.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Segment by 0-based number.
    #[must_use]
    pub fn segment(&self, number: u32) -> Option<Segment> {
        let i = usize::try_from(number).ok()?;
        Some(Segment {
            number,
            start: *self.times.get(i)?,
            end: *self.times.get(i + 1)?,
            cut: *self.cuts.get(i)?..*self.cuts.get(i + 1)?,
        })
    }

    /// Segment that starts exactly at `start`, in track ticks. O(log n).
    #[must_use]
    pub fn segment_at(&self, start: i64) -> Option<Segment> {
        let i = self.times.binary_search(&start).ok()?;
        self.segment(u32::try_from(i).ok()?)
    }
}
