//! Problems of a title that do not keep it from playing, found when its tracks are cut.

use super::TitleTrack;
use crate::{
    error::TitleProblem,
    grid::outlasts,
    media::{MediaIndex, Samples, Track, TrackKind},
};
use latemux_isobmff::{Time, Timescale, time::Round};
use std::{sync::Arc, time::Duration};

/// Reports the video track, or else the audio track, with the longest segment if that is longer
/// than twice the target duration. A segment starts only at a sync sample or fragment, so other
/// media is needed for shorter ones.
pub(super) fn long_segments(
    objects: &[Arc<MediaIndex>],
    tracks: &[TitleTrack],
    target: Duration,
) -> Option<TitleProblem> {
    let target = target.as_secs_f64();
    let long = tracks.iter().filter_map(|named| {
        let Track { kind, timescale, .. } = objects[named.object].tracks[named.track];
        let seconds = |ticks| Time::new(ticks, timescale).seconds();
        let bounds = named.times.iter().zip(named.times.iter().skip(1));
        let lengths = bounds.map(|(&start, &end)| (seconds(end.saturating_sub(start)), seconds(start)));
        let long: Vec<_> = lengths.filter(|&(length, _)| length > 2.0 * target).collect();
        let count = long.len();
        let longest = long.into_iter().reduce(|a, b| if b.0 > a.0 { b } else { a });
        longest.filter(|_| kind != TrackKind::Text).map(|longest| (kind, longest, count, &named.name))
    });
    // Tracks are sorted by kind, video first.
    let worst = long.reduce(|a, b| if b.0 == a.0 && b.1.0 > a.1.0 { b } else { a });
    worst.map(|(_, (length, start), count, name)| TitleProblem {
        object: None,
        reason: "long_segments",
        detail: format!(
            "number of segments of {name} that are longer than twice the target duration of {target} s: \
             {count}; the longest lasts {length:.3} s and starts at {start:.3} s"
        ),
    })
}

/// Reports the video tracks whose first frames are hidden by an edit list but presented, because
/// shown frames are decoded from them.
pub(super) fn hidden_frames(objects: &[Arc<MediaIndex>], tracks: &[TitleTrack]) -> Vec<TitleProblem> {
    let hidden = |named: &TitleTrack| match hidden_frame_count(&objects[named.object].tracks[named.track]) {
        0 => None,
        count => Some(TitleProblem {
            object: Some(named.object),
            reason: "hidden_frames",
            detail: format!(
                "frames of {} that the edit list hides are presented within the first 10 ms, because shown \
                 ones are decoded from them: {count}",
                named.name
            ),
        }),
    };
    tracks.iter().filter_map(hidden).collect()
}

/// Reports the video tracks of which long frames are repeated.
pub(super) fn repeated_frames(objects: &[Arc<MediaIndex>], tracks: &[TitleTrack]) -> Vec<TitleProblem> {
    let repeated = |named: &TitleTrack| {
        let Samples::Table(table) = &objects[named.object].tracks[named.track].samples else { return None };
        let mut last = None;
        let mut samples = table.range(0..if table.may_repeat() { u32::MAX } else { 0 });
        let is_repeated = samples.any(|sample| last.replace(sample.offset) == Some(sample.offset));
        is_repeated.then(|| TitleProblem {
            object: Some(named.object),
            reason: "repeated_frames",
            detail: format!(
                "frames of {} that last longer than 2 s are sent about once a second, so that segments can \
                 start there",
                named.name
            ),
        })
    };
    tracks.iter().filter_map(repeated).collect()
}

/// Returns the number of frames that are presented less than 1 ms before the next one at the start
/// of a video track, if its edit list starts inside the media.
fn hidden_frame_count(track: &Track) -> usize {
    /// Most frames examined. GOPs are seldom longer.
    const MOST: usize = 4096;
    let Samples::Table(table) = &track.samples else { return 0 };
    if track.kind != TrackKind::Video || track.presentation.shift >= 0 {
        return 0;
    }
    let millis = |millis: i64| Time::new(millis, Timescale::MILLIS).in_scale(track.timescale, Round::Up);
    let start = track.presentation.media_time;
    // No frame is presented before it is decoded. The first shown one follows the hidden ones.
    let first = table.timing(0).take(MOST).take_while(|&(decode, ..)| decode - start < millis(20));
    let mut times: Vec<i64> =
        first.map(|(decode, _, offset)| track.presentation.time(decode, offset)).collect();
    times.sort_unstable();
    times.windows(2).filter(|pair| pair[1] - pair[0] < millis(1)).count()
}

/// Reports a title whose earliest video starts later than its earliest audio, or the other way
/// round, by more than viewers accept.
///
/// Playlists of HLS cannot state such a distance, so some players remove it and play one of the two
/// too early. Others begin where both do. A title is only delayed if all its tracks start late,
/// which does no harm.
pub(super) fn late_start(objects: &[Arc<MediaIndex>], tracks: &[TitleTrack]) -> Option<TitleProblem> {
    /// Sound may be later than the picture by 185 ms, and earlier by 90 ms (ITU-R BT.1359).
    const LATE_SOUND: Time = Time::new(185, Timescale::MILLIS);
    const EARLY_SOUND: Time = Time::new(90, Timescale::MILLIS);
    let first = |kind| {
        let indexed = |named: &TitleTrack| &objects[named.object].tracks[named.track];
        let start = |named: &TitleTrack| Time::new(indexed(named).start, indexed(named).timescale);
        let of_kind = tracks.iter().filter(|named| indexed(named).kind == kind);
        of_kind.map(|named| (start(named), named)).min_by_key(|&(start, _)| start)
    };
    let ticks = |time: Time| time.in_scale(Timescale::MPEG, Round::Down);
    let picture = first(TrackKind::Video)?;
    let sound = first(TrackKind::Audio)?;
    let distance = ticks(picture.0) - ticks(sound.0);
    let (reason, late, early) = if distance > ticks(LATE_SOUND) {
        ("video_starts_late", picture, sound)
    } else if -distance > ticks(EARLY_SOUND) {
        ("audio_starts_late", sound, picture)
    } else {
        return None;
    };
    Some(TitleProblem {
        object: None,
        reason,
        detail: format!(
            "{} starts at {:.3} s, but {} at {:.3} s; some players play the former too early by the \
             difference, or leave out what precedes it",
            late.1.name,
            late.0.seconds(),
            early.1.name,
            early.0.seconds(),
        ),
    })
}

/// Reports the video track that ends first, if it ends more than the target duration before the
/// longest video or audio.
pub(super) fn early_video(
    objects: &[Arc<MediaIndex>],
    tracks: &[TitleTrack],
    target: Duration,
) -> Option<TitleProblem> {
    let indexed = |named: &TitleTrack| &objects[named.object].tracks[named.track];
    let end = |named: &TitleTrack| Time::new(indexed(named).end, indexed(named).timescale);
    let longest = tracks.iter().filter(|t| indexed(t).kind != TrackKind::Text).max_by_key(|t| end(t))?;
    let is_early = |named: &&TitleTrack| {
        indexed(named).kind == TrackKind::Video && outlasts(indexed(longest), end(named), target)
    };
    let first = tracks.iter().filter(is_early).min_by_key(|named| end(named))?;
    Some(TitleProblem {
        object: None,
        reason: "video_ends_early",
        detail: format!(
            "video tracks that end more than the target duration of {} s before {}, at {:.3} s: {}; the \
             first is {}, at {:.3} s",
            target.as_secs_f64(),
            longest.name,
            end(longest).seconds(),
            tracks.iter().filter(is_early).count(),
            first.name,
            end(first).seconds(),
        ),
    })
}
