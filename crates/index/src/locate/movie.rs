//! Finding `moov`, and the tracks in it that can be served.

use crate::{
    error::{IndexError, TrackProblem, TrackProblemKind},
    locate::{
        limits::{most_samples, most_samples_elsewhere},
        moof_samples::FragmentDefaults,
        object_reader::{ObjectReader, Pause},
        track_description::TrackDescription,
    },
};
use bytes::Bytes;
use latemux_isobmff::{
    codec::coding_name,
    movie::{Movie, Track},
};
use std::{ops::Range, sync::atomic::AtomicU64};

/// Largest number of boxes read before `moov`.
const MAX_BOXES_BEFORE_MOOV: u32 = 1 << 12;

/// A `moov` and the tracks in it that can be served.
#[derive(Debug)]
pub(crate) struct FoundMovie {
    pub(crate) range: Range<u64>,
    pub(crate) bytes: Bytes,
    pub(crate) movie: Movie,
    pub(crate) defaults: FragmentDefaults,
    /// Tracks whose codec and structure can be served, each with its index in [`Movie::tracks`].
    pub(crate) descriptions: Vec<(usize, TrackDescription)>,
    /// Tracks of JPEG pictures, likewise.
    pub(crate) pictures: Vec<(usize, TrackDescription)>,
    pub(crate) left_out: Vec<TrackProblem>,
    /// Number of samples in the tables of these tracks.
    pub(crate) samples: u64,
    /// Number of samples walked so far to check an index against its fragments.
    pub(crate) checked: AtomicU64,
}

/// Walks over the top-level boxes to `moov` and reads it.
pub(crate) fn find(reader: &ObjectReader<'_>) -> Result<FoundMovie, Pause> {
    let size = reader.object_size;
    let mut at = 0;
    let mut cut_short = false;
    for number in 0.. {
        if number == MAX_BOXES_BEFORE_MOOV {
            let limit = MAX_BOXES_BEFORE_MOOV.into();
            return Err(IndexError::OverLimit { what: "boxes before moov", limit }.into());
        }
        let rest = size - at;
        // Little except `moov` follows the media, so the rest of the object is read at once unless
        // it is too large.
        let usual = (size >> 4).clamp(1 << 20, reader.limits.max_index.max(1 << 20));
        let ahead = if rest <= usual { at..size } else { reader.window(at) };
        let Some(found) = reader.top_box(at, ahead)? else { break };
        if number == 0 && !is_file_start(&found.kind.0) {
            return Err(IndexError::NotMp4(format!("it starts with the box '{}'", found.kind)).into());
        }
        if found.kind == b"moov" {
            let bytes = reader.whole(&found, "moov")?;
            return Ok(FoundMovie::parse(found.range, bytes, size)?);
        }
        cut_short = found.range.end > size;
        at = found.range.end;
        if at >= size {
            break;
        }
    }
    Err(if size < 8 {
        IndexError::NotMp4(format!("it has only {size} bytes"))
    } else if cut_short {
        IndexError::Truncated("the last box ends beyond the object, and there is no moov".to_owned())
    } else {
        IndexError::Malformed("no moov".to_owned())
    }
    .into())
}

/// Returns true for boxes that files start with: ISO/IEC 14496-12, QuickTime, segments.
fn is_file_start(kind: &[u8; 4]) -> bool {
    let known = [
        b"ftyp", b"styp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"uuid", b"sidx", b"moof",
        b"pdin", b"emsg", b"prft", b"meta",
    ];
    known.contains(&kind)
}

impl FoundMovie {
    fn parse(range: Range<u64>, bytes: Bytes, object_size: u64) -> Result<Self, IndexError> {
        let movie = Movie::parse(&bytes, range.start)?;
        let mut descriptions = Vec::new();
        let mut pictures = Vec::new();
        let mut left_out = Vec::new();
        for (number, track) in movie.tracks.iter().enumerate() {
            match track {
                Ok(track) => match TrackDescription::read(track, &movie) {
                    Ok(description) if description.is_pictures() => pictures.push((number, description)),
                    Ok(description) => descriptions.push((number, description)),
                    Err(kind) => left_out.push(TrackProblem {
                        handler: Some(track.handler),
                        coding: track.sample_entries.first().map(coding_name),
                        ..kind.of(track.id)
                    }),
                },
                Err(error) => {
                    left_out.push(TrackProblem {
                        handler: error.handler,
                        coding: error.coding,
                        ..TrackProblemKind::of_box(&error.error).of(error.id.unwrap_or(0))
                    });
                }
            }
        }
        let mut samples = 0;
        for (is_elsewhere, limit) in
            [(false, most_samples(object_size)), (true, most_samples_elsewhere(bytes.len() as u64))]
        {
            let all = descriptions.iter().chain(&pictures);
            let these = all.filter(|(_, found)| found.is_elsewhere() == is_elsewhere);
            let counts = these.filter_map(|(number, description)| {
                let track = movie.tracks.get(*number)?.as_ref().ok()?;
                description.sample_count(track, object_size)
            });
            let count = counts.map(u64::from).sum::<u64>();
            if count > limit {
                return Err(IndexError::OverLimit { what: "samples for an object of this size", limit });
            }
            samples += count;
        }
        let defaults = FragmentDefaults::new(movie.fragments.as_deref().unwrap_or_default());
        Ok(Self {
            range,
            bytes,
            movie,
            defaults,
            descriptions,
            pictures,
            left_out,
            samples,
            checked: AtomicU64::new(0),
        })
    }

    /// Returns a track by its index in [`Movie::tracks`].
    pub(crate) fn track(&self, number: usize) -> Option<&Track> {
        self.movie.tracks.get(number)?.as_ref().ok()
    }
}
