//! Several objects as one presentation.

mod clip;
mod reach;

use crate::{
    error::IndexError,
    grid::{
        Alignment, Grid,
        cut_points::{CutPoints, CutTrack},
    },
    media::{MediaIndex, Samples, Track, TrackKind, fragment_samples::KnownFragments},
    table::samples::Sample,
};
use std::{collections::BTreeSet, ops::Range, sync::Arc, time::Duration};
use xxhash_rust::xxh3::Xxh3;

/// One title: its objects, the tracks that play together, and the grid they are cut by. Immutable.
#[derive(Debug, Clone)]
pub struct Title {
    /// The objects in order: as listed, or by name in a folder.
    pub objects: Vec<Arc<MediaIndex>>,
    /// Tracks: video by ascending bit rate, then audio in object order, then text.
    pub tracks: Vec<TitleTrack>,
    /// Tracks of [`Self::whole_tracks`] that a selection leaves out: (object, track). What all tracks of a title have in common does not change
    /// with what is asked for.
    pub unlisted: Vec<(usize, usize)>,
    /// Where segments begin.
    pub grid: Arc<Grid>,
    /// The target duration the grid was cut for.
    pub target: Duration,
    /// What is wrong with it and plays all the same: tracks left out, GOPs that disagree, …
    pub problems: Vec<TitleProblem>,
    /// Digest of the objects' fingerprints, the grid and the target: what the bytes of any answer depend on.
    pub fingerprint: u128,
}

/// One track of a title.
#[derive(Debug, Clone)]
pub struct TitleTrack {
    /// Index into [`Title::objects`].
    pub object: usize,
    /// Index into [`MediaIndex::tracks`].
    pub track: usize,
    /// Its name in URLs.
    pub name: TrackName,
    /// Number (0-based) of its first segment: that of the whole title, in a clip as well.
    pub first: u32,
    /// For each of its segments the first sample (or fragment), and one past the last: `cuts.len() == segments + 1`.
    /// Grid segments in which the track has nothing of its own are joined to the one before.
    pub cuts: Vec<u32>,
    /// Presentation time of each cut in track ticks, first clamped to ≥ 0; `len == cuts.len()`.
    pub times: Vec<i64>,
    /// For each of its segments, the index in [`Grid::starts`] where it starts.
    pub grid_segments: Vec<u32>,
    /// Whether a segment has samples that are presented before the sync sample it starts with: leading pictures of an open GOP. Of
    /// fragments, whose samples are not known, none has; of a clip it is not known.
    pub leading: Option<bool>,
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
pub struct TitleProblem {
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
    /// 0-based number in the track of the whole title.
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
    /// Makes one title of several objects. An object without playable tracks is a [`TitleProblem`]; a title without any is an error.
    ///
    /// # Errors
    /// [`IndexError::NoMedia`] or [`IndexError::NoTracks`].
    pub fn new(objects: Vec<Arc<MediaIndex>>, target: Duration) -> Result<Self, IndexError> {
        let mut problems = Vec::new();
        let mut places: Vec<(usize, usize)> = Vec::new();
        for (number, object) in objects.iter().enumerate() {
            places.extend((0..object.tracks.len()).map(|track| (number, track)));
            problems.extend(object.left_out.iter().map(|problem| TitleProblem {
                object: Some(number),
                reason: problem.reason(),
                detail: problem.to_string(),
            }));
            if object.tracks.is_empty() && object.left_out.is_empty() {
                let error = IndexError::NoMedia;
                problems.push(TitleProblem {
                    object: Some(number),
                    reason: error.reason(),
                    detail: error.to_string(),
                });
            }
        }
        let track_at = |&(object, track): &(usize, usize)| &objects[object].tracks[track];
        // Stable: what is not said here stays in object order.
        places.sort_by_key(|place| {
            let track = track_at(place);
            (track.kind, if track.kind == TrackKind::Video { track.average_bitrate } else { 0 })
        });
        let names = names(&places.iter().map(track_at).collect::<Vec<_>>());
        let places: Vec<_> = places.into_iter().zip(names).collect();
        let (grid, tracks) = cut(&objects, &places, target, &mut problems)?;
        let fingerprint = fingerprint(&objects, &grid, target);
        Ok(Self {
            objects,
            tracks,
            unlisted: Vec::new(),
            grid: Arc::new(grid),
            target,
            problems,
            fingerprint,
        })
    }

    /// Makes one title of some tracks of several objects, named as told: what a server manifest says. Names that collide get `_1`, `_2` in
    /// the order given; video is put in order of its named bit rates.
    ///
    /// # Errors
    /// [`IndexError::NoMedia`] where nothing is chosen that exists.
    pub fn of_tracks(
        objects: Vec<Arc<MediaIndex>>,
        chosen: Vec<NamedTrack>,
        target: Duration,
    ) -> Result<Self, IndexError> {
        let mut problems = Vec::new();
        let mut taken = BTreeSet::new();
        let mut places = Vec::new();
        for NamedTrack { object, track, name } in chosen {
            if objects.get(object).is_some_and(|object| track < object.tracks.len()) {
                places.push(((object, track), unique(name, &mut taken)));
            }
        }
        places.sort_by_key(|((object, track), name)| {
            let kind = objects[*object].tracks[*track].kind;
            (kind, if kind == TrackKind::Video { name.bitrate } else { 0 })
        });
        let (grid, tracks) = cut(&objects, &places, target, &mut problems)?;
        // Manifests hold the names, and languages that the objects do not know.
        let mut digest = Xxh3::new();
        digest.update(&fingerprint(&objects, &grid, target).to_le_bytes());
        for track in &tracks {
            let language = &objects[track.object].tracks[track.track].language;
            digest.update(format!("{}:{}:{} {language};", track.object, track.track, track.name).as_bytes());
        }
        let fingerprint = digest.digest128();
        Ok(Self {
            objects,
            tracks,
            unlisted: Vec::new(),
            grid: Arc::new(grid),
            target,
            problems,
            fingerprint,
        })
    }

    /// The track behind a title track.
    #[must_use]
    pub fn track(&self, track: &TitleTrack) -> &Track {
        &self.objects[track.object].tracks[track.track]
    }

    /// All tracks, those too that a selection leaves out.
    pub fn whole_tracks(&self) -> impl Iterator<Item = &Track> {
        let places =
            self.tracks.iter().map(|track| (track.object, track.track)).chain(self.unlisted.iter().copied());
        places.filter_map(|(object, track)| self.objects.get(object)?.tracks.get(track))
    }

    /// The same title with some of its tracks (indexes into [`Self::tracks`]): cut as before, for a selection changes no segment.
    #[must_use]
    pub fn with_tracks(&self, mut keep: impl FnMut(usize) -> bool) -> Self {
        let mut tracks = Vec::new();
        let mut unlisted = self.unlisted.clone();
        for (index, track) in self.tracks.iter().enumerate() {
            if keep(index) {
                tracks.push(track.clone());
            } else {
                unlisted.push((track.object, track.track));
            }
        }
        self.selected(tracks, unlisted)
    }

    pub(crate) fn selected(&self, tracks: Vec<TitleTrack>, unlisted: Vec<(usize, usize)>) -> Self {
        Self {
            objects: self.objects.clone(),
            tracks,
            unlisted,
            grid: self.grid.clone(),
            target: self.target,
            problems: Vec::new(),
            fingerprint: self.fingerprint,
        }
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

/// A track of [`Title::of_tracks`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedTrack {
    /// Index into the objects.
    pub object: usize,
    /// Index into [`MediaIndex::tracks`].
    pub track: usize,
    /// What it is to be called, if that is free.
    pub name: TrackName,
}

/// Tracks in title order, cut by one grid.
fn cut(
    objects: &[Arc<MediaIndex>],
    places: &[((usize, usize), TrackName)],
    target: Duration,
    problems: &mut Vec<TitleProblem>,
) -> Result<(Grid, Vec<TitleTrack>), IndexError> {
    let track_at = |&((object, track), _): &((usize, usize), TrackName)| &objects[object].tracks[track];
    let cuts: Vec<CutTrack<'_>> = places.iter().map(|place| CutTrack::new(track_at(place))).collect();
    let Some((grid, alignment)) = Grid::lay(&cuts, target) else {
        let left_out = objects.iter().find_map(|object| object.left_out.first());
        return Err(left_out.map_or(IndexError::NoMedia, |problem| IndexError::NoTracks(problem.clone())));
    };
    if alignment == Alignment::Misaligned {
        problems.push(TitleProblem {
            object: None,
            reason: "misaligned_gops",
            detail: "video renditions share too few sync samples: each is cut at its own".to_owned(),
        });
    }
    let places = places.iter().zip(&cuts);
    let tracks = places
        .map(|(((object, index), name), cut)| TitleTrack::cut(*object, *index, name.clone(), cut, &grid));
    let tracks = tracks.collect();
    Ok((grid, tracks))
}

/// The name, or the first of `_1`, `_2`, … that is free.
fn unique(name: TrackName, taken: &mut BTreeSet<TrackName>) -> TrackName {
    let numbered = (1_u32..).map(|n| TrackName { stem: format!("{}_{n}", name.stem), bitrate: name.bitrate });
    let free = std::iter::once(name.clone()).chain(numbered).find(|name| !taken.contains(name));
    let free = free.unwrap_or(name);
    taken.insert(free.clone());
    free
}

/// Names for tracks in title order.
fn names(tracks: &[&Track]) -> Vec<TrackName> {
    let mut taken = BTreeSet::new();
    tracks
        .iter()
        .map(|track| {
            let word = match track.kind {
                TrackKind::Video => "video",
                TrackKind::Audio => "audio",
                TrackKind::Text => "textstream",
            };
            let stem = match &track.language {
                known if known.is_known() => format!("{word}_{known}"),
                _ => word.to_owned(),
            };
            let bitrate = (track.average_bitrate.saturating_add(500) / 1000).max(1).saturating_mul(1000);
            unique(TrackName { stem, bitrate }, &mut taken)
        })
        .collect()
}

/// What the bytes of any answer depend on.
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

impl TitleTrack {
    /// Cuts a track by the grid.
    fn cut(object: usize, index: usize, name: TrackName, by: &CutTrack<'_>, grid: &Grid) -> Self {
        let track = by.track;
        let len = match &track.samples {
            Samples::Table(table) => table.len(),
            Samples::Fragments(table) => table.len(),
        };
        let mut cuts = vec![0];
        let mut times = vec![track.start];
        let mut grid_segments = vec![0];
        let mut points = CutPoints::new(by);
        // The first cut takes everything that comes before the second boundary, priming too.
        for (number, &boundary) in (0_u32..).zip(&grid.starts).skip(1) {
            let Some(point) = points.boundary(boundary) else { break };
            let (Some(&cut), Some(&time)) = (cuts.last(), times.last()) else { break };
            let earliest = by.earliest(point);
            if point.index > cut && earliest > time {
                cuts.push(point.index);
                times.push(earliest);
                grid_segments.push(number);
            } else if point.index == cut
                && matches!(track.samples, Samples::Table(_))
                && let Some(last) = grid_segments.last_mut()
            {
                // What was cut before starts after this boundary too: the grid segment before holds nothing of it.
                *last = number;
            }
        }
        cuts.push(len);
        times.push(track.end.max(times.last().map_or(0, |&last| last.saturating_add(1))));
        let mut ranges = cuts.iter().zip(cuts.iter().skip(1));
        let leading = Some(ranges.any(|(&start, &end)| by.leads(&(start..end))));
        Self { object, track: index, name, first: 0, cuts, times, grid_segments, leading }
    }

    /// Number of segments.
    #[must_use]
    pub fn segment_count(&self) -> u32 {
        u32::try_from(self.cuts.len().saturating_sub(1)).unwrap_or(u32::MAX)
    }

    /// Whether of every segment the first sample is known to have a composition offset other than 0, as where frames are reordered and
    /// offsets are not below 0. `track` is the one behind this. O(segments).
    #[must_use]
    pub fn starts_composed(&self, track: &Track) -> bool {
        let Samples::Table(table) = &track.samples else { return false };
        let composed =
            |cut: u32| table.composition_time(cut).is_some_and(|time| time != table.decode_time(cut));
        // Without leading pictures the time of a segment is that of its first sample, but for the first one's, which is clamped.
        let mut later = self.cuts.iter().zip(&self.times).skip(1).take(self.cuts.len().saturating_sub(2));
        table.composition_bounds() != (0, 0)
            && self.leading == Some(false)
            && self.cuts.first().is_some_and(|&cut| composed(cut))
            && later.all(|(&cut, &time)| {
                time.saturating_add(track.presentation.media_time) != table.decode_time(cut)
            })
    }

    /// Numbers of its segments, 0-based in the whole title.
    #[must_use]
    pub fn numbers(&self) -> Range<u32> {
        self.first..self.first.saturating_add(self.segment_count())
    }

    /// Where a segment stands in the lists: its number, less those a clip leaves out.
    #[must_use]
    pub fn position(&self, number: u32) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok()
    }

    /// Segment by 0-based number in the whole title.
    #[must_use]
    pub fn segment(&self, number: u32) -> Option<Segment> {
        let i = self.position(number)?;
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
        self.segment(self.first.saturating_add(u32::try_from(i).ok()?))
    }
}
