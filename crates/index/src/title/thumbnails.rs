//! The thumbnails of a title. They do not determine where segments begin, and are not cut there.

use crate::{
    error::{IndexError, TitleProblem},
    media::{
        MediaIndex, Samples,
        thumbnails::{ThumbnailTrack, Tiles},
    },
    title::names::{TrackName, UniqueNames},
};
use latemux_isobmff::Time;
use std::{ops::Range, sync::Arc};
use xxhash_rust::xxh3::Xxh3;

/// Most tracks of thumbnails in one title.
const MAX_TRACKS: usize = 64;

/// One track of thumbnails of a title.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TitleThumbnails {
    /// Index into [`super::Title::objects`].
    pub object: usize,
    /// Index into [`MediaIndex::thumbnails`].
    pub track: usize,
    /// Its name in URLs.
    pub name: TrackName,
    /// The grid of tiles in its sheets.
    pub tiles: Tiles,
}

/// One JPEG picture, which holds a grid of tiles.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sheet {
    /// Presentation time of its first tile, in track ticks.
    pub start: i64,
    /// Time for which its tiles are shown, in track ticks, at least 1. That of the last sheet is
    /// the time of the one before, since it need not be full.
    pub duration: i64,
    /// Its bytes in the object.
    pub bytes: Range<u64>,
}

/// The thumbnails of a title, and what they change in it.
pub(super) struct Chosen {
    pub(super) thumbnails: Arc<[TitleThumbnails]>,
    /// Those that cannot be shown.
    pub(super) problems: Vec<TitleProblem>,
    /// The fingerprint of the title with them.
    pub(super) fingerprint: u128,
}

/// Chooses the thumbnails of a title from indexes of objects and of their tracks of thumbnails,
/// each with the name that is stated for it. `fingerprint` is that of the title without them.
///
/// # Errors
///
/// [`IndexError::OverLimit`] if there are too many.
pub(super) fn choose(
    objects: &[Arc<MediaIndex>],
    chosen: impl IntoIterator<Item = (usize, usize, Option<TrackName>)>,
    fingerprint: u128,
) -> Result<Chosen, IndexError> {
    let mut found = Vec::new();
    let mut problems = Vec::new();
    for (object, track, stated) in chosen {
        let Some(of) = objects.get(object).and_then(|object| object.thumbnails.get(track)) else { continue };
        match of.tiles() {
            Ok(tiles) => {
                let name = || TrackName { stem: "thumbs".to_owned(), bitrate: of.track.rounded_bitrate() };
                found.push(TitleThumbnails { object, track, name: stated.unwrap_or_else(name), tiles });
            }
            Err(why) => problems.push(TitleProblem {
                object: Some(object),
                reason: "bad_thumbnails",
                detail: format!("track {} is not shown as thumbnails: {why}", of.track.id),
            }),
        }
    }
    if found.len() > MAX_TRACKS {
        let limit = MAX_TRACKS as u64;
        return Err(IndexError::OverLimit { what: "tracks of thumbnails in one title", limit });
    }
    found.sort_by_key(|thumbnails| thumbnails.name.bitrate);
    let mut names = UniqueNames::default();
    let mut digest = Xxh3::new();
    digest.update(&fingerprint.to_le_bytes());
    for thumbnails in &mut found {
        thumbnails.name = names.unique(&thumbnails.name);
        let TitleThumbnails { object, track, name, tiles } = thumbnails;
        digest.update(format!("{object}:{track} {name} {tiles};").as_bytes());
    }
    let fingerprint = if found.is_empty() { fingerprint } else { digest.digest128() };
    Ok(Chosen { thumbnails: found.into(), problems, fingerprint })
}

/// Returns the tracks of thumbnails of all objects, in their order.
pub(super) fn all(objects: &[Arc<MediaIndex>]) -> Vec<(usize, usize, Option<TrackName>)> {
    let of = |(object, index): (usize, &Arc<MediaIndex>)| {
        (0..index.thumbnails.len()).map(move |track| (object, track, None))
    };
    objects.iter().enumerate().flat_map(of).collect()
}

impl ThumbnailTrack {
    /// Returns the sheet with an index. O(log n).
    pub fn sheet(&self, index: u32) -> Option<Sheet> {
        let Samples::Table(table) = &self.track.samples else { return None };
        let end = index.checked_add(1)?;
        let sample = table.range(index..end).next()?;
        let time = |index: u32| Some(table.composition_time(index)? - self.track.presentation.media_time);
        let start = time(index)?;
        let until = match (end < table.len(), index.checked_sub(1)) {
            (true, _) => time(end)?,
            (false, Some(before)) => start + (start - time(before)?),
            (false, None) => self.track.end,
        };
        let bytes = sample.offset..sample.offset + u64::from(sample.size);
        Some(Sheet { start, duration: (until - start).max(1), bytes })
    }

    /// Returns the sheets with tiles that are shown between two times, with their indexes.
    pub fn sheets(&self, from: Time, until: Time) -> impl Iterator<Item = (u32, Sheet)> + '_ {
        let scale = self.track.timescale;
        let sheets = (0..self.sheet_count()).filter_map(|index| Some((index, self.sheet(index)?)));
        sheets.filter(move |(_, sheet)| {
            Time::new(sheet.start, scale) < until && Time::new(sheet.start + sheet.duration, scale) > from
        })
    }
}

/// Returns the bytes of memory of the list of thumbnails.
pub(super) fn heap_bytes(thumbnails: &[TitleThumbnails]) -> usize {
    size_of_val(thumbnails) + thumbnails.iter().map(|of| of.name.stem.len()).sum::<usize>()
}
