//! Whole files: the segments as sent, with the boxes that make a file of them.
//!
//! - [`cmaf`]: one track behind a segment index, for byte ranges
//! - [`ismv`]: any number of tracks, as servers of Smooth Streaming read them
//!
//! A file consists of the plans ([`crate::plan()`]) of its segments, one after the other. Its index
//! states values read from the inline bytes at the start of each: [`Fragment::of`].

pub mod cmaf;
pub mod ismv;

use crate::{PackError, Part, Plan};
use bytes::Bytes;
use latemux_isobmff::{
    boxes::trun::TrackRun,
    fragment::{Moof, TrackFragment},
    header::BoxHeader,
    sample_flags,
};

/// An index's values of a fragment. Times are in ticks of the file, before any edit list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fragment {
    /// Size of the whole segment in bytes.
    pub bytes: u64,
    /// Bytes before the `moof`: those of a `styp`.
    pub moof_at: u64,
    /// Composition time of the first sample.
    pub first: i64,
    /// Earliest composition time of any sample.
    pub earliest: i64,
    /// True if the first sample is a sync sample.
    pub sync: bool,
}

impl Fragment {
    /// Reads the values from the first part of a planned segment.
    ///
    /// # Errors
    /// [`PackError::TooLarge`] if the plan is not that of a CMAF segment or Smooth Streaming
    /// fragment, or has too many samples to be read back.
    pub fn of(plan: &Plan) -> Result<Self, PackError> {
        const UNREADABLE: PackError = PackError::TooLarge("a segment's own head cannot be read back");
        let Some(Part::Inline(head)) = plan.parts.first() else { return Err(UNREADABLE) };
        let (moof_at, moof) = moof(head).ok_or(UNREADABLE)?;
        let [track] = moof.tracks.as_slice() else { return Err(UNREADABLE) };
        let (first, earliest, sync) = times(track).ok_or(UNREADABLE)?;
        Ok(Self { bytes: plan.content_length, moof_at, first, earliest, sync })
    }
}

/// Finds the `moof` of a segment and returns its position too.
fn moof(head: &Bytes) -> Option<(u64, Moof)> {
    let mut at = 0;
    loop {
        let rest = head.slice(at..);
        let header = BoxHeader::read(&rest, 0).ok()??;
        let size = usize::try_from(header.size?).ok().filter(|size| (8..=rest.len()).contains(size))?;
        if header.kind == b"moof" {
            return Some((at as u64, Moof::parse(&rest.slice(..size), 0).ok()?));
        }
        at += size;
    }
}

/// Returns the first and the earliest composition time, and if the first sample is a sync sample.
fn times(track: &TrackFragment) -> Option<(i64, i64, bool)> {
    let start = track.decode_time.or(track.tfxd.map(|(time, _)| time))?;
    let mut decode = i64::try_from(start).ok()?;
    let mut found = None;
    for sample in track.runs.iter().flat_map(TrackRun::iter) {
        let composed = decode.checked_add(sample.composition_offset.into())?;
        let flags = sample.flags.or(track.default_flags).unwrap_or(0);
        let (first, earliest, sync) = found.unwrap_or((composed, composed, sample_flags::is_sync(flags)));
        found = Some((first, composed.min(earliest), sync));
        decode = decode.checked_add(sample.duration.or(track.default_duration)?.into())?;
    }
    found
}
