//! A CMAF track file (ISO/IEC 23000-19 §7.3.3): the init segment, one `sidx` over all segments, and
//! the segments, each with its `styp` and the same bytes as under its URL.

use super::Fragment;
use crate::{PackError, segment::cmaf::TRACK_ID};
use bytes::Bytes;
use latemux_index::Title;
use latemux_isobmff::{
    boxes::sidx::{Reference, Sidx},
    emit::WriteBox as _,
};

/// Returns all bytes before the first segment of a track (an index into [`Title::tracks`]): `ftyp`,
/// `moov`, `sidx`. `init` is its init segment in DASH, and `fragments` are all its segments, in
/// order.
///
/// Times in the `sidx` count from the start of the media rather than of the presentation, because a
/// `sidx` has no negative times for the priming before it.
///
/// # Errors
/// [`PackError::NoSuchTrack`] if the title has no such track; [`PackError::TooLarge`] for more,
/// larger or longer segments than a `sidx` can state.
pub fn header(title: &Title, track: usize, init: &[u8], fragments: &[Fragment]) -> Result<Bytes, PackError> {
    let none = || PackError::NoSuchTrack(track.to_string());
    let title_track = title.tracks().get(track).ok_or_else(none)?;
    let track = title.track(title_track);
    if u16::try_from(fragments.len()).is_err() {
        return Err(PackError::TooLarge("more than 65535 segments for one segment index: make them longer"));
    }
    let last = title_track.times.last().copied().unwrap_or(track.end);
    let end = last + track.presentation.media_time;
    let ends = fragments.iter().skip(1).map(|next| next.earliest).chain([end]);
    let references = fragments.iter().zip(ends).map(|(fragment, end)| reference(fragment, end));
    let sidx = Sidx {
        reference_id: TRACK_ID,
        timescale: track.timescale,
        earliest_presentation_time: fragments.first().map_or(0, |f| u64::try_from(f.earliest).unwrap_or(0)),
        first_offset: 0,
        references: references.collect::<Result<_, _>>()?,
    };
    let mut out = init.to_vec();
    sidx.write(&mut out);
    Ok(out.into())
}

fn reference(fragment: &Fragment, end: i64) -> Result<Reference, PackError> {
    let size = u32::try_from(fragment.bytes).ok().filter(|&size| size <= Reference::MAX_SIZE);
    let size =
        size.ok_or(PackError::TooLarge("a segment of 2 GiB or more for a segment index: make them shorter"))?;
    // Times that do not ascend come from a broken source. One tick keeps the order.
    let duration = u32::try_from((end - fragment.earliest).max(1));
    let duration = duration.map_err(|_| PackError::TooLarge("a segment of 2^32 ticks or more"))?;
    let lead = fragment.first - fragment.earliest;
    let sap_delta =
        u32::try_from(lead).ok().filter(|&lead| lead <= Reference::MAX_SAP_DELTA && fragment.sync);
    // Types 1 and 3 of stream access points (ISO/IEC 14496-12 Annex I). If pictures are decoded
    // after the first one but presented before it, some of them may not be decodable.
    let sap_type = match (fragment.sync, fragment.earliest < fragment.first) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => 3,
    };
    Ok(Reference {
        is_index: false,
        size,
        duration,
        starts_with_sap: fragment.sync,
        sap_type,
        sap_delta: sap_delta.unwrap_or(0),
    })
}
