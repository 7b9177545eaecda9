//! Finding `moov`, and the tracks in it that can be served.

use crate::{
    error::{IndexError, TrackProblem},
    locate::{
        object_reader::{ObjectReader, Pause},
        track_head::{TrackHead, malformed},
    },
};
use bytes::Bytes;
use latemux_isobmff::movie::Movie;
use std::ops::Range;

/// The most boxes looked at before `moov`.
const MAX_BOXES_BEFORE_MOOV: u32 = 1 << 12;

/// A `moov` and what can be served of it.
#[derive(Debug)]
pub(crate) struct FoundMovie {
    pub(crate) range: Range<u64>,
    pub(crate) bytes: Bytes,
    pub(crate) movie: Movie,
    /// Tracks whose codec and structure can be served, each with its number in [`Movie::tracks`].
    pub(crate) heads: Vec<(usize, TrackHead)>,
    pub(crate) left_out: Vec<TrackProblem>,
}

/// Walks to `moov` and reads it.
pub(crate) fn find(reader: &ObjectReader<'_>) -> Result<FoundMovie, Pause> {
    let size = reader.object_size;
    let mut at = 0;
    let mut cut_short = false;
    for number in 0..MAX_BOXES_BEFORE_MOOV {
        let rest = size.saturating_sub(at);
        // What follows the media is `moov` and little else: all of it in one read, unless it is too much for one.
        let usual = (size >> 4).clamp(1 << 20, reader.limits.max_index.max(1 << 20));
        let ahead = if rest <= usual { at..size } else { reader.window(at) };
        let Some(found) = reader.top_box(at, ahead)? else { break };
        if number == 0 && !starts_a_file(&found.kind.0) {
            return Err(IndexError::NotMp4(format!("it starts with a box '{}'", found.kind)).into());
        }
        if found.kind == b"moov" {
            let bytes = reader.whole(&found, "moov")?;
            return Ok(FoundMovie::parse(found.range, bytes)?);
        }
        cut_short = found.range.end > size;
        at = found.range.end;
        if at >= size {
            break;
        }
    }
    Err(if size < 8 {
        IndexError::NotMp4(format!("an object of {size} bytes"))
    } else if cut_short {
        IndexError::Truncated("the last box ends beyond the object, and there is no moov".to_owned())
    } else {
        IndexError::Malformed("no moov".to_owned())
    }
    .into())
}

/// Boxes that files start with: ISO/IEC 14496-12, QuickTime, segments.
fn starts_a_file(kind: &[u8; 4]) -> bool {
    let known = [
        b"ftyp", b"styp", b"moov", b"mdat", b"free", b"skip", b"wide", b"pnot", b"uuid", b"sidx", b"moof",
        b"pdin", b"emsg", b"prft", b"meta",
    ];
    known.contains(&kind)
}

impl FoundMovie {
    fn parse(range: Range<u64>, bytes: Bytes) -> Result<Self, IndexError> {
        let movie = Movie::parse(&bytes, range.start)?;
        let mut heads = Vec::new();
        let mut left_out = Vec::new();
        for (number, track) in movie.tracks.iter().enumerate() {
            match track {
                Ok(track) => match TrackHead::read(track, &movie) {
                    Ok(head) => heads.push((number, head)),
                    Err(problem) => left_out.push(problem),
                },
                Err(error) => left_out.push(malformed(error.id.unwrap_or(0), error.error.to_string())),
            }
        }
        Ok(Self { range, bytes, movie, heads, left_out })
    }
}
