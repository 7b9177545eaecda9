//! The complete sample tables of an object, from which an index MP4 is written.

use crate::{
    locate::{edits::Edits, fragmented::FoundSamples, movie::FoundMovie},
    media::stamp::MediaStamp,
    table::samples::SampleTable,
};
use bytes::Bytes;
use latemux_isobmff::{Timescale, header::BoxHeader};
use std::collections::BTreeMap;

/// Everything an index MP4 of an object is made from, see
/// [`crate::locate::Locator::for_full_tables`].
#[derive(Debug)]
pub struct FullTables {
    pub(crate) stamp: MediaStamp,
    /// The object's `ftyp`, if it begins with one.
    pub(crate) file_type: Option<Bytes>,
    pub(crate) moov: Bytes,
    pub(crate) timescale: Timescale,
    /// For a fragmented file, its tracks by their number in `moov`.
    pub(crate) fragmented: Option<BTreeMap<usize, FullTrack>>,
}

/// A track of a fragmented file.
#[derive(Debug)]
pub(crate) struct FullTrack {
    pub(crate) timescale: Timescale,
    pub(crate) sample_description: u32,
    pub(crate) edits: Edits,
    /// All samples, on the source timeline.
    pub(crate) table: SampleTable,
}

impl FullTables {
    pub(crate) fn new(object_size: u64, head: &Bytes, found: &FoundMovie, samples: &FoundSamples) -> Self {
        let file_type = match BoxHeader::read(head, 0) {
            Ok(Some(BoxHeader { kind, size: Some(size), .. })) if kind == b"ftyp" => {
                usize::try_from(size).ok().filter(|&size| size <= head.len()).map(|size| head.slice(..size))
            }
            _ => None,
        };
        let fragmented = match samples {
            FoundSamples::Scanned(tables) => {
                let tracks =
                    found.descriptions.iter().zip(tables).filter_map(|((number, description), table)| {
                        let table = table.as_ref().ok().filter(|table| !table.is_empty())?.clone();
                        let track = FullTrack {
                            timescale: description.timescale,
                            sample_description: description.sample_description,
                            edits: description.edits,
                            table,
                        };
                        Some((*number, track))
                    });
                Some(tracks.collect())
            }
            _ => None,
        };
        Self {
            stamp: MediaStamp::of(object_size, head),
            file_type,
            moov: found.bytes.clone(),
            timescale: found.movie.timescale,
            fragmented,
        }
    }
}

impl FullTrack {
    /// Returns the ticks before the media starts to play, and the composition time in the media at
    /// which it does, for tables that begin at 0.
    pub(crate) fn delay_and_start(&self) -> (i64, i64) {
        let presentation = self.edits.presentation;
        let source_start = self.edits.media_start().unwrap_or(0);
        let delay = presentation.shift - presentation.media_time + source_start;
        let start = source_start - self.table.decode_time(0);
        ((delay + (-start).max(0)).max(0), start.max(0))
    }
}
