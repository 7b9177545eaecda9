//! Several objects as one presentation.

mod clip;
mod default_order;
mod names;
mod problems;
mod reach;
mod refusal;
mod thumbnails;
mod track;

pub use crate::error::TitleProblem;
pub use names::TrackName;
use names::{UniqueNames, names};
pub use refusal::refusal;
use refusal::refused;

pub use default_order::ObjectOrder;
pub use thumbnails::{Sheet, TitleThumbnails};
pub use track::{Segment, SegmentSamples, TitleTrack};

use crate::{
    error::IndexError,
    grid::{Alignment, Grid, MAX_SEGMENTS, cut_points::CutTrack},
    media::{
        Captions, MediaIndex, Samples, Track, TrackKind, fragment_samples::KnownFragments,
        thumbnails::ThumbnailTrack,
    },
};
use latemux_isobmff::Time;
use std::{sync::Arc, time::Duration};
use xxhash_rust::xxh3::Xxh3;

/// One title: its objects, the tracks that play together, and the grid they are cut by. Immutable.
#[derive(Debug, Clone)]
pub struct Title {
    objects: Vec<Arc<MediaIndex>>,
    tracks: Vec<TitleTrack>,
    /// Tracks that a selection leaves out. They are kept so that properties of the whole title do
    /// not depend on the selection.
    unlisted: Vec<TitleTrack>,
    thumbnails: Arc<[TitleThumbnails]>,
    grid: Arc<Grid>,
    /// Start of the title, or of the clip, whichever tracks are selected.
    start: Time,
    target: Duration,
    problems: Vec<TitleProblem>,
    fingerprint: u128,
}

impl Title {
    /// Makes one title of several objects, sorted by name. An object without playable tracks is a
    /// [`TitleProblem`].
    ///
    /// # Errors
    ///
    /// - [`IndexError::Refused`] if all tracks are left out, or all video or audio although a
    ///   protocol could carry it: see [`refusal`]
    /// - [`IndexError::NoMedia`] if the objects have no tracks at all
    pub fn new(objects: Vec<Arc<MediaIndex>>, target: Duration) -> Result<Self, IndexError> {
        Self::of_objects(objects, ObjectOrder::ByName, target)
    }

    /// Makes one title like [`Self::new`], of objects in an order that may have a meaning.
    ///
    /// # Errors
    ///
    /// The same as those of [`Self::new`].
    pub fn of_objects(
        objects: Vec<Arc<MediaIndex>>,
        order: ObjectOrder,
        target: Duration,
    ) -> Result<Self, IndexError> {
        if let Some(error) = refusal(objects.iter().map(|object| &**object)) {
            return Err(error);
        }
        let mut problems = Vec::new();
        let mut chosen: Vec<(usize, usize)> = Vec::new();
        for (number, object) in objects.iter().enumerate() {
            chosen.extend((0..object.tracks.len()).map(|track| (number, track)));
            let left_out = object.left_out.iter();
            problems.extend(left_out.map(|problem| TitleProblem::of_track(number, problem)));
            if object.all_tracks().next().is_none() && object.left_out.is_empty() {
                let error = IndexError::NoMedia;
                problems.push(TitleProblem {
                    object: Some(number),
                    reason: error.reason(),
                    detail: error.to_string(),
                });
            }
        }
        check_track_counts(&objects, &chosen)?;
        let track_at = |&(object, track): &(usize, usize)| &objects[object].tracks[track];
        // The sort is stable: tracks that compare equal stay in object order.
        chosen.sort_by_key(|indexes| {
            let track = track_at(indexes);
            (track.kind, if track.kind == TrackKind::Video { track.average_bitrate } else { 0 })
        });
        let names = names(&chosen.iter().map(track_at).collect::<Vec<_>>());
        let chosen: Vec<_> = chosen.into_iter().zip(names).collect();
        let mut title = Self::assemble(objects, &chosen, target, problems)?;
        default_order::sort(&title.objects, &mut title.tracks, order);
        let pictures = thumbnails::all(&title.objects);
        title.with_thumbnails(pictures)
    }

    /// Makes one title of named tracks of several objects, as a server manifest lists them. Names
    /// that collide get `_1`, `_2` in the given order. Video is sorted by its named bit rates.
    ///
    /// # Errors
    ///
    /// - [`IndexError::Refused`] if no listed track exists and an object left out tracks
    /// - [`IndexError::NoMedia`] if no listed track exists otherwise
    pub fn of_tracks(
        objects: Vec<Arc<MediaIndex>>,
        mut named: Vec<NamedTrack>,
        target: Duration,
    ) -> Result<Self, IndexError> {
        let pictures: Vec<NamedTrack> = named.extract_if(.., |track| track.is_thumbnails).collect();
        let mut names = UniqueNames::default();
        let mut chosen = Vec::new();
        for NamedTrack { object, track, name, .. } in named {
            if objects.get(object).is_some_and(|object| track < object.tracks.len()) {
                chosen.push(((object, track), names.unique(&name)));
            }
        }
        check_track_counts(&objects, chosen.iter().map(|(track, _)| track))?;
        chosen.sort_by_key(|((object, track), name)| {
            let kind = objects[*object].tracks[*track].kind;
            (kind, if kind == TrackKind::Video { name.bitrate } else { 0 })
        });
        let mut title = Self::assemble(objects, &chosen, target, Vec::new())?;
        // Manifests contain the names, and properties that the objects do not state.
        let mut digest = Xxh3::new();
        digest.update(&title.fingerprint.to_le_bytes());
        for track in &title.tracks {
            let Track { language, purpose, label, captions, .. } = title.track(track);
            let at = format!("{}:{}:{}", track.object, track.track, track.name);
            let stated = format!("{at} {language} {purpose:?} {label:?} {captions:?};");
            digest.update(stated.as_bytes());
        }
        title.fingerprint = digest.digest128();
        title.with_thumbnails(pictures.into_iter().map(|of| (of.object, of.track, Some(of.name))))
    }

    fn assemble(
        objects: Vec<Arc<MediaIndex>>,
        chosen: &[((usize, usize), TrackName)],
        target: Duration,
        mut problems: Vec<TitleProblem>,
    ) -> Result<Self, IndexError> {
        let tracks = chosen.iter().map(|&((object, track), _)| &objects[object].tracks[track]);
        let cuts: Vec<CutTrack<'_>> = tracks.map(CutTrack::new).collect();
        let Some((mut grid, alignment)) = Grid::lay(&cuts, target) else {
            return Err(refused(objects.iter().map(|object| &**object)));
        };
        if grid.segment_count() > MAX_SEGMENTS {
            let limit = MAX_SEGMENTS as u64;
            return Err(IndexError::OverLimit { what: "segments in one title", limit });
        }
        if alignment == Alignment::Misaligned {
            problems.push(TitleProblem {
                object: None,
                reason: "misaligned_gops",
                detail: "the video renditions share too few sync samples, so each is cut at its own"
                    .to_owned(),
            });
        }
        let tracks = chosen
            .iter()
            .zip(&cuts)
            .map(|(((object, index), name), cut)| TitleTrack::cut(*object, *index, name.clone(), cut, &grid));
        let tracks: Vec<TitleTrack> = tracks.collect();
        problems.extend(problems::long_segments(&objects, &tracks, target));
        problems.extend(problems::early_video(&objects, &tracks, target));
        problems.extend(problems::late_start(&objects, &tracks));
        problems.extend(problems::hidden_frames(&objects, &tracks));
        problems.extend(problems::repeated_frames(&objects, &tracks));
        let fingerprint = fingerprint(&objects, &grid, target);
        let start = grid.starts.first().copied().unwrap_or(grid.end);
        grid.starts.shrink_to_fit();
        let grid = Arc::new(grid);
        Ok(Self {
            objects,
            tracks,
            unlisted: Vec::new(),
            thumbnails: Arc::default(),
            grid,
            start,
            target,
            problems,
            fingerprint,
        })
    }

    /// Returns the objects in order: as listed, or by name in a folder.
    #[inline]
    pub fn objects(&self) -> &[Arc<MediaIndex>] {
        &self.objects
    }

    /// Returns the tracks: video by ascending bit rate, then audio and then text, of each the track
    /// that plays by default first.
    #[inline]
    pub fn tracks(&self) -> &[TitleTrack] {
        &self.tracks
    }

    /// Returns the tracks of thumbnails, by ascending bit rate.
    #[inline]
    pub fn thumbnails(&self) -> &[TitleThumbnails] {
        &self.thumbnails
    }

    /// Returns the indexed track of thumbnails.
    pub fn thumbnail_track(&self, thumbnails: &TitleThumbnails) -> &ThumbnailTrack {
        &self.objects[thumbnails.object].thumbnails[thumbnails.track]
    }

    /// Finds thumbnails by their name in URLs.
    pub fn find_thumbnails(&self, name: &TrackName) -> Option<&TitleThumbnails> {
        self.thumbnails.iter().find(|thumbnails| &thumbnails.name == name)
    }

    /// Returns the closed captions in the selected video, as one of its tracks declares them: empty
    /// if there are none, and `None` if nothing declares them.
    pub fn captions(&self) -> Option<&[Captions]> {
        let videos = self.of_kind(TrackKind::Video);
        videos.filter_map(|i| self.track(&self.tracks[i]).captions.as_deref()).next()
    }

    fn with_thumbnails(
        mut self,
        chosen: impl IntoIterator<Item = (usize, usize, Option<TrackName>)>,
    ) -> Result<Self, IndexError> {
        let found = thumbnails::choose(&self.objects, chosen, self.fingerprint)?;
        self.thumbnails = found.thumbnails;
        self.problems.extend(found.problems);
        self.fingerprint = found.fingerprint;
        Ok(self)
    }

    /// Returns the boundaries of its segments.
    #[inline]
    pub fn grid(&self) -> &Grid {
        &self.grid
    }

    /// Returns the presentation time at which the title, or a clip of it, starts: that of its first
    /// track, selected or not.
    pub fn start(&self) -> Time {
        self.start
    }

    /// Returns the target duration that the grid was laid for.
    #[inline]
    pub fn target(&self) -> Duration {
        self.target
    }

    /// Returns problems that do not keep the title from playing, such as tracks left out.
    #[inline]
    pub fn problems(&self) -> &[TitleProblem] {
        &self.problems
    }

    /// Returns a digest of all that determines the bytes of responses: the objects' fingerprints,
    /// the grid and the target duration, and the names and properties in a server manifest.
    #[inline]
    pub fn fingerprint(&self) -> u128 {
        self.fingerprint
    }

    /// Returns the number of bytes of memory the title holds, without its objects.
    pub fn heap_bytes(&self) -> usize {
        let problems: usize = self.problems.iter().map(|p| size_of_val(p) + p.detail.len()).sum();
        let tracks: usize = self.whole_tracks().map(TitleTrack::heap_bytes).sum();
        let grid = size_of::<Grid>() + size_of_val::<[Time]>(&self.grid.starts);
        size_of::<Self>()
            + size_of_val::<[Arc<MediaIndex>]>(&self.objects)
            + tracks
            + grid
            + problems
            + thumbnails::heap_bytes(&self.thumbnails)
    }

    /// Adds problems that were found before the title was made.
    #[must_use]
    pub fn with_problems(mut self, problems: impl IntoIterator<Item = TitleProblem>) -> Self {
        self.problems.extend(problems);
        self
    }

    /// Returns the indexed track that a title track refers to.
    pub fn track(&self, track: &TitleTrack) -> &Track {
        &self.objects[track.object].tracks[track.track]
    }

    /// Returns all tracks, including those that a selection leaves out.
    pub fn whole_tracks(&self) -> impl Iterator<Item = &TitleTrack> {
        self.tracks.iter().chain(&self.unlisted)
    }

    /// Returns the same title with some of its tracks (indexes into [`Self::tracks`]) and the same
    /// segments.
    pub fn with_tracks(&self, mut keep: impl FnMut(usize) -> bool) -> Self {
        let mut tracks = Vec::new();
        let mut unlisted = self.unlisted.clone();
        for (index, track) in self.tracks.iter().enumerate() {
            if keep(index) { &mut tracks } else { &mut unlisted }.push(track.clone());
        }
        self.selected(tracks, unlisted, self.start)
    }

    /// Returns the same title with the segment at position `at` of a track (an index into
    /// [`Self::tracks`]) joined to the one before, as if the track could not be cut there. For
    /// tests of tracks whose cuts disagree.
    #[doc(hidden)]
    #[must_use]
    pub fn with_joined_segments(mut self, track: usize, at: usize) -> Self {
        let track = &mut self.tracks[track];
        track.cuts.remove(at);
        track.times.remove(at);
        track.grid_segments.remove(at);
        self
    }

    fn selected(&self, tracks: Vec<TitleTrack>, unlisted: Vec<TitleTrack>, start: Time) -> Self {
        Self {
            objects: self.objects.clone(),
            tracks,
            unlisted,
            thumbnails: self.thumbnails.clone(),
            grid: self.grid.clone(),
            start,
            target: self.target,
            problems: Vec::new(),
            fingerprint: self.fingerprint,
        }
    }

    /// Finds a track by its name in URLs, and returns its index.
    pub fn find(&self, name: &TrackName) -> Option<usize> {
        self.tracks.iter().position(|t| &t.name == name)
    }

    /// Returns the indexes in [`Self::tracks`] of all tracks of a kind.
    pub fn of_kind(&self, kind: TrackKind) -> impl Iterator<Item = usize> + '_ {
        (0..self.tracks.len()).filter(move |&i| self.track(&self.tracks[i]).kind == kind)
    }

    /// Returns the samples of a segment of a track (an index into [`Self::tracks`]).
    pub fn samples(&self, track: usize, segment: &Segment, known: &dyn KnownFragments) -> SegmentSamples {
        let Some(title_track) = self.tracks.get(track) else { return SegmentSamples::Known(Vec::new()) };
        match &self.track(title_track).samples {
            Samples::Table(table) => SegmentSamples::Known(table.range(segment.cut.clone()).collect()),
            Samples::Fragments(table) => {
                let mut samples = Vec::new();
                let mut needs = Vec::new();
                for fragment in segment.cut.clone().map_while(|index| table.get(index)) {
                    match known.get(title_track.object, fragment.offset) {
                        Some(known) => {
                            samples
                                .extend(known.tracks.get(title_track.track).into_iter().flatten().copied());
                        }
                        None => needs.push(fragment.bytes()),
                    }
                }
                if needs.is_empty() { SegmentSamples::Known(samples) } else { SegmentSamples::Needs(needs) }
            }
        }
    }
}

/// A track chosen for [`Title::of_tracks`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTrack {
    /// Index of the object.
    pub object: usize,
    /// Index into [`MediaIndex::tracks`], or into [`MediaIndex::thumbnails`].
    pub track: usize,
    /// Its name, unless another track has it already.
    pub name: TrackName,
    /// True for thumbnails.
    pub is_thumbnails: bool,
}

/// Largest number of video tracks of a title, and of all its tracks.
const MAX_VIDEO_TRACKS: usize = 64;
const MAX_TRACKS: usize = 1024;
/// Largest number of samples of the longest audio track, counted once for each video track, in a
/// title without bytes. Each byte of its objects adds one. HLS with TS and HDS read the audio again
/// for each video track whose segments differ. A real video has more bytes than the audio beside it
/// has samples.
const MAX_AUDIO_BESIDE: u64 = 500_000;

/// Checks the number of tracks of a title, and that of the samples of audio beside video.
fn check_track_counts<'a>(
    objects: &[Arc<MediaIndex>],
    chosen: impl IntoIterator<Item = &'a (usize, usize)>,
) -> Result<(), IndexError> {
    let mut tracks = 0;
    let mut videos = 0;
    let mut longest_audio = 0;
    for &(object, track) in chosen {
        let track = &objects[object].tracks[track];
        tracks += 1;
        videos += usize::from(track.kind == TrackKind::Video);
        if track.kind == TrackKind::Audio {
            longest_audio = longest_audio.max(track.sample_count());
        }
    }
    let over = |what, limit: usize| Err(IndexError::OverLimit { what, limit: limit as u64 });
    if videos > MAX_VIDEO_TRACKS {
        return over("video tracks in one title", MAX_VIDEO_TRACKS);
    }
    if tracks > MAX_TRACKS {
        return over("tracks in one title", MAX_TRACKS);
    }
    let bytes = objects.iter().map(|object| object.object_size);
    let limit = bytes.fold(MAX_AUDIO_BESIDE, u64::saturating_add);
    if longest_audio * videos as u64 > limit {
        return Err(IndexError::OverLimit {
            what: "samples of audio, counted once for each video track",
            limit,
        });
    }
    Ok(())
}

fn fingerprint(objects: &[Arc<MediaIndex>], grid: &Grid, target: Duration) -> u128 {
    let mut digest = Xxh3::new();
    for object in objects {
        digest.update(&object.fingerprint.to_le_bytes());
    }
    digest.update(&target.as_nanos().to_le_bytes());
    for time in grid.starts.iter().chain([&grid.end]) {
        digest.update(&time.ticks.to_le_bytes());
        digest.update(&time.scale.get().to_le_bytes());
    }
    digest.digest128()
}

#[cfg(test)]
pub(crate) mod grid_tests;
