//! Still pictures: video of so few frames that it offers no boundaries, although sound goes on.

use super::{CutPoints, CutTrack, MAX_SEGMENTS, own_boundaries};
use crate::media::{Samples, Track};
use latemux_isobmff::{Time, Timescale, time::Round};
use std::time::Duration;

/// Nanoseconds, in which lengths are compared.
const NANOS: Timescale = match Timescale::new(1_000_000_000) {
    Some(scale) => scale,
    None => Timescale::MILLIS,
};

/// Adds boundaries at the cut points of `audio` where a still picture leaves segments longer than
/// twice the target duration. Video is not cut there. `starts` are the boundaries of video, which
/// ends at `end`.
pub(super) fn with_boundaries_of_sound(
    starts: &[Time],
    end: Time,
    videos: &[&CutTrack<'_>],
    audio: &CutTrack<'_>,
    target: Duration,
) -> Vec<Time> {
    let nanos = |time: Time| i128::from(time.in_scale(NANOS, Round::Nearest));
    let target_nanos = i128::try_from(target.as_nanos()).unwrap_or(i128::MAX / 2);
    let is_long = |from: Time, until: Time| nanos(until) - nanos(from) > target_nanos.saturating_mul(2);
    let mut points = CutPoints::new(audio);
    let mut all = Vec::with_capacity(starts.len());
    let ends = starts.iter().copied().skip(1).chain([end]);
    for (&from, until) in starts.iter().zip(ends) {
        all.push(from);
        if all.len() <= MAX_SEGMENTS
            && is_long(from, until)
            && videos.iter().all(|cut| is_still(cut.track, from, until))
        {
            // Half a target duration is left for the last segment.
            let mut inner = own_boundaries(&mut points, from, until, target);
            inner.retain(|&time| nanos(until) - nanos(time) >= target_nanos / 2);
            all.extend(inner);
        }
    }
    all
}

/// Fewest frames of a still picture under which sound is cut. Decoders that work on several frames
/// at a time show fewer only once the player has buffered everything, and so can end the stream.
/// Players do not buffer everything if sound has many segments: they would wait for ever.
const FEWEST_FRAMES: u32 = 16;

/// Returns true if a track shows about one frame a second or fewer between two times, but not so
/// few that players wait for the end of the stream. False for fragments, whose samples are not
/// known.
fn is_still(track: &Track, from: Time, until: Time) -> bool {
    let Samples::Table(table) = &track.samples else { return false };
    let ticks = |time: Time| time.in_scale(track.timescale, Round::Nearest);
    let decoded_before = |time: Time| table.decoded_until(ticks(time) + track.presentation.media_time - 1);
    let frames = decoded_before(until).saturating_sub(decoded_before(from));
    let seconds = (ticks(until) - ticks(from)) / i64::from(track.timescale.get());
    frames >= FEWEST_FRAMES && i64::from(frames) <= seconds + 1
}
