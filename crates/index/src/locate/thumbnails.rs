//! Tracks of JPEG pictures, which become thumbnails. A title plays without them, so no problem of
//! theirs refuses it.

use crate::{
    error::{TrackProblem, TrackProblemKind},
    locate::{movie::FoundMovie, object_reader::ObjectReader, track_description::TrackDescription},
    media::{Samples, Track, thumbnails::ThumbnailTrack},
};
use latemux_isobmff::movie;
use std::ops::Range;

/// Most tracks of pictures that are read of one object.
const MAX_TRACKS: usize = 8;
/// The role that states the grid of tiles (DASH-IF IOP 4.3 §6.2.6).
const TILE_SCHEMES: [&str; 2] =
    ["http://dashif.org/guidelines/thumbnail_tile", "http://dashif.org/thumbnail_tile"];
/// The marker that every JPEG picture starts with (ITU-T T.81 Table B.1).
const START_OF_IMAGE: [u8; 2] = [0xFF, 0xD8];

/// Returns the ranges of the bytes that must be read to check the pictures.
pub(crate) fn first_bytes(found: &FoundMovie, object_size: u64) -> Vec<Range<u64>> {
    let tracks = found.pictures.iter().take(MAX_TRACKS).filter_map(|(number, description)| {
        let track = track_of(found, *number, description, object_size).ok()?;
        first_sheet(&track)
    });
    tracks.collect()
}

/// Reads the tracks. Adds the problems of those that are left out to `left_out`.
pub(crate) fn read(
    found: &FoundMovie,
    reader: &ObjectReader<'_>,
    left_out: &mut Vec<TrackProblem>,
) -> Vec<ThumbnailTrack> {
    let mut tracks = Vec::new();
    for (place, (number, description)) in found.pictures.iter().enumerate() {
        let read = track_of(found, *number, description, reader.object_size);
        let checked = read.and_then(|track| {
            if place >= MAX_TRACKS {
                return Err(bad(format!("more than {MAX_TRACKS} tracks of pictures")));
            }
            let Some(first) = first_sheet(&track) else { return Ok(track) };
            let bytes = reader.need(&first).unwrap_or_default();
            if *bytes == START_OF_IMAGE { Ok(track) } else { Err(bad("the first one is no JPEG picture")) }
        });
        match checked {
            Ok(track) => {
                let stated_tiles = found.track(*number).and_then(stated_tiles);
                tracks.push(ThumbnailTrack { track, stated_tiles });
            }
            Err(kind) => left_out.push(description.problem(kind)),
        }
    }
    tracks
}

/// Returns the range of the first two bytes of the first sheet. `None` for media in another object,
/// which is not at hand.
fn first_sheet(track: &Track) -> Option<Range<u64>> {
    let Samples::Table(table) = &track.samples else { return None };
    let first = table.range(0..1).next().filter(|_| track.location.is_none())?;
    Some(first.offset..first.offset + u64::from(first.size.min(2)))
}

fn track_of(
    found: &FoundMovie,
    number: usize,
    description: &TrackDescription,
    object_size: u64,
) -> Result<Track, TrackProblemKind> {
    let Some(track) = found.track(number).filter(|_| found.movie.fragments.is_none()) else {
        return Err(description.uncarried());
    };
    let table = description.read_placed_tables(track, object_size);
    let track = table.and_then(|table| description.clone().with_table(table)).map_err(|kind| match kind {
        TrackProblemKind::Empty => kind,
        kind => bad(kind.to_string()),
    })?;
    // More than one a second is video.
    let seconds = track.end.abs_diff(track.start) / u64::from(track.timescale.get());
    if track.sample_count() > seconds.max(1) {
        return Err(description.uncarried());
    }
    Ok(track)
}

/// Returns the grid of tiles that a role of the track states.
fn stated_tiles(track: &movie::Track) -> Option<Box<str>> {
    let kind = track.kinds.iter().find(|kind| TILE_SCHEMES.contains(&&*kind.scheme))?;
    Some(kind.value.clone())
}

fn bad(what: impl Into<String>) -> TrackProblemKind {
    TrackProblemKind::Thumbnails(what.into())
}
