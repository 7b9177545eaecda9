//! The way segments begin: stream access points (ISO/IEC 14496-12 Annex I).

use latemux_index::{
    Title, Track,
    media::{Samples, TrackKind},
    title::TitleTrack,
};
use latemux_isobmff::codec::Config;

/// Returns the highest type of stream access point that segments start with (ISO/IEC 14496-12 Annex
/// I): 1 if no segment has a sample presented before the sync sample it starts with, else 3,
/// because such leading samples may not be decodable. The samples of fragments are unknown: every
/// sample of audio and text is an access point, and video gives `None`.
pub(super) fn access_point_type(track: &Track, title_track: &TitleTrack) -> Option<u8> {
    let table = match (&track.samples, &track.codec.config) {
        (Samples::Table(table), _) => table,
        // Not every frame of xHE-AAC is an access point (ISO/IEC 23003-3 §5.5.5).
        (Samples::Fragments(_), Config::Aac(aac)) if aac.core_object_type == 42 => return None,
        (Samples::Fragments(_), _) => return (track.kind != TrackKind::Video).then_some(1),
    };
    if let Some(leading) = title_track.leading {
        // Such a track is cut at sync samples, so only its first sample needs a check.
        return (table.sync_from(0) == Some(0)).then_some(if leading { 3 } else { 1 });
    }
    let mut stretches = table.batches(&title_track.cuts);
    let mut highest = 1;
    while let Some(stretch) = stretches.next_batch() {
        if stretch.sync.first() == Some(&false) {
            return None;
        }
        let mut decode_time = stretch.decode_time;
        let mut times =
            stretch.durations.iter().zip(stretch.composition_offsets).map(|(&duration, &offset)| {
                let time = decode_time + i64::from(offset);
                decode_time += i64::from(duration);
                time
            });
        if times.next().is_some_and(|first| times.any(|time| time < first)) {
            highest = 3;
        }
    }
    Some(highest)
}

/// Returns true if every segment of a track (an index into [`Title::tracks`]) is known to be
/// decodable without other segments.
pub(super) fn is_independent(title: &Title, track: usize) -> bool {
    let title_track = &title.tracks()[track];
    access_point_type(title.track(title_track), title_track).is_some_and(|highest| highest < 3)
}
