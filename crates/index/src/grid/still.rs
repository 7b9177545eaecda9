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
    let mut counts: Vec<FrameCount<'_>> = videos.iter().map(|cut| FrameCount::new(cut.track)).collect();
    let mut all = Vec::with_capacity(starts.len());
    let ends = starts.iter().copied().skip(1).chain([end]);
    for (&from, until) in starts.iter().zip(ends) {
        all.push(from);
        if all.len() <= MAX_SEGMENTS
            && is_long(from, until)
            && counts.iter_mut().all(|count| count.is_still(from, until))
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

/// Counts the frames of a track between times.
struct FrameCount<'a> {
    track: &'a Track,
    /// The time up to which frames were counted last, and their number. Each segment begins where
    /// the one before it ends, and a count reads a part of a packed column.
    last: Option<(Time, u32)>,
}

impl<'a> FrameCount<'a> {
    fn new(track: &'a Track) -> Self {
        Self { track, last: None }
    }

    /// Returns true if the track shows about one frame a second or fewer between two times, but not
    /// so few that players wait for the end of the stream. False for fragments, whose samples are
    /// not known.
    fn is_still(&mut self, from: Time, until: Time) -> bool {
        let Samples::Table(table) = &self.track.samples else { return false };
        let ticks = |time: Time| time.in_scale(self.track.timescale, Round::Nearest);
        let decoded_before =
            |time: Time| table.decoded_until(ticks(time) + self.track.presentation.media_time - 1);
        let known = self.last.filter(|(time, _)| *time == from).map(|(_, count)| count);
        let before = known.unwrap_or_else(|| decoded_before(from));
        let after = decoded_before(until);
        let frames = after.saturating_sub(before);
        let seconds = (ticks(until) - ticks(from)) / i64::from(self.track.timescale.get());
        self.last = Some((until, after));
        frames >= FEWEST_FRAMES && i64::from(frames) <= seconds + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{media::TrackKind, title::grid_tests};

    /// Frames of a second from 0 s and from 24 s on, and 25 frames a second between.
    #[test]
    fn frames_are_counted_from_the_start_of_each_segment() {
        let mut samples = grid_tests::frames(140, 25, 1);
        let mut time = 0;
        for (number, sample) in samples.iter_mut().enumerate() {
            sample.duration = if (20..120).contains(&number) { 1 } else { 25 };
            sample.decode_time = time;
            time += i64::from(sample.duration);
        }
        let track = grid_tests::table_track(TrackKind::Video, 25, 0, &samples);
        let seconds = |seconds: i64| Time::new(seconds * 25, track.timescale);
        let mut count = FrameCount::new(&track);
        // The second segment is not asked about, as if it was short.
        assert!(count.is_still(seconds(0), seconds(20)));
        assert!(count.is_still(seconds(24), seconds(44)));
        let mut count = FrameCount::new(&track);
        assert!(!count.is_still(seconds(20), seconds(24)));
        assert!(count.is_still(seconds(24), seconds(44)));
    }
}
