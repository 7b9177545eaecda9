//! Placing the samples of a progressive file: the positions of all tracks' chunks.

use crate::{
    error::TrackProblemKind,
    locate::{chunks::Chunks, moov_tables::MAX_OBJECT_SIZE},
    media::{Samples, Track},
    table::{
        column::Column,
        interleaving,
        layout::ChunkPositions,
        positions::{Positions, PositionsBuilder},
        samples::SampleTable,
    },
};
use latemux_isobmff::movie::SampleTables;

/// A track without positions, or the reason why it is left out, with its tables in `moov`.
pub(crate) type UnplacedTrack<'a> = (Result<Track, TrackProblemKind>, Option<&'a SampleTables>);

/// Sets the positions of the samples of all tracks. Tracks without valid chunks are left out.
pub(crate) fn place(tracks: &mut [UnplacedTrack<'_>], object_size: u64) {
    if place_together(tracks, object_size) {
        return;
    }
    let mut any_left_out = false;
    for (track, tables) in tracks.iter_mut() {
        let (Ok(placed), Some(tables)) = (&mut *track, tables) else { continue };
        let limit = media_size(placed, object_size);
        let Some(table) = table_of(placed) else { continue };
        match chunks_of(tables, limit) {
            Ok((counts, positions)) => table.set_chunks(counts, ChunkPositions::Separate(positions)),
            Err(problem) => {
                *track = Err(problem);
                any_left_out = true;
            }
        }
    }
    if any_left_out {
        interleave(tracks);
    }
}

/// Describes the positions of the samples of all tracks relative to each other, if that is smaller.
pub(crate) fn interleave(tracks: &mut [UnplacedTrack<'_>]) {
    SampleTable::interleave(&mut tables_of(tracks));
}

/// Describes the chunks of all tracks relative to each other, in one walk over them. Changes
/// nothing and returns false if that is not possible, or if a track has to be left out.
fn place_together(tracks: &mut [UnplacedTrack<'_>], object_size: u64) -> bool {
    let placed = tracks.iter().filter_map(|(track, tables)| Some((track.as_ref().ok()?, (*tables)?)));
    let chunks = placed.map(|(track, tables)| Chunks::new(tables, media_size(track, object_size)));
    let mut chunks: Vec<Chunks<'_>> = chunks.collect();
    let Some(positions) = interleaving::interleave(chunks.iter_mut().collect()) else { return false };
    let counts: Result<Vec<Column>, _> = chunks.into_iter().map(Chunks::finish).collect();
    let Ok(counts) = counts else { return false };
    let mut tables = tables_of(tracks);
    if tables.len() != counts.len() {
        return false;
    }
    for ((table, counts), positions) in tables.iter_mut().zip(counts).zip(positions) {
        table.set_chunks(counts, positions);
    }
    SampleTable::share_layout(&mut tables);
    true
}

/// Returns the number of samples in each chunk of a track, and the positions of its chunks.
pub(crate) fn chunks_of(
    tables: &SampleTables,
    object_size: u64,
) -> Result<(Column, Positions), TrackProblemKind> {
    let mut chunks = Chunks::new(tables, object_size);
    let ascending = Positions::ascending(chunks.by_ref().map(|chunk| (chunk.offset, chunk.bytes)));
    if let Some(positions) = ascending {
        return Ok((chunks.finish()?, positions));
    }
    let mut chunks = Chunks::new(tables, object_size);
    let mut positions = PositionsBuilder::default();
    chunks.by_ref().for_each(|chunk| positions.push(chunk.offset, chunk.bytes));
    Ok((chunks.finish()?, positions.finish()))
}

/// Returns the size in bytes of the object that holds the media of a track. That of another object
/// is checked when it is read, see [`crate::MediaIndex::of_media`].
fn media_size(track: &Track, object_size: u64) -> u64 {
    if track.location.is_some() { MAX_OBJECT_SIZE } else { object_size }
}

fn tables_of<'t>(tracks: &'t mut [UnplacedTrack<'_>]) -> Vec<&'t mut SampleTable> {
    tracks.iter_mut().filter_map(|(track, _)| table_of(track.as_mut().ok()?)).collect()
}

fn table_of(track: &mut Track) -> Option<&mut SampleTable> {
    match &mut track.samples {
        Samples::Table(table) => Some(table),
        Samples::Fragments(_) => None,
    }
}
