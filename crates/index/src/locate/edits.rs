//! Edit lists (ISO/IEC 14496-12 §8.6.6), reduced to the samples that play and their times.

use crate::{
    media::TrackKind,
    table::{presentation::Presentation, samples::SampleTable},
};
use latemux_isobmff::{Time, Timescale, boxes::elst::Edit, time::Round};
use std::ops::Range;

/// A track's edit list: an optional delay, then one range of the media at normal speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Edits {
    /// The mapping from media time to presentation time.
    pub(crate) presentation: Presentation,
    /// The range that plays, in composition time on the output timeline, if there is an edit list.
    played: Option<PlayedRange>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PlayedRange {
    start: i64,
    /// End of the range. `None` means the end of the media.
    end: Option<i64>,
    /// Half a movie tick in track ticks: the rounding error of an end written in movie ticks.
    tolerance: i64,
}

/// Length of audio before an edit's start that is kept unchanged, in milliseconds: encoder delay
/// and decoder priming (AAC 2112 samples, Opus 312 + 80 ms pre-roll), with room to spare.
const PRIMING_MILLIS: i64 = 250;

/// Number of audio frames kept before the one that covers an edit's start, if the edit starts later
/// than the priming: overlapping transforms need them.
const PREROLL_FRAMES: u32 = 2;

impl Edits {
    /// Reads an edit list. In `fragmented` files the durations of edits have no meaning (§8.6.6.1:
    /// 0, but writers vary) and are ignored.
    ///
    /// # Errors
    ///
    /// Names the unsupported structure: pauses, other speeds, several parts, or a start beyond
    /// 2^61.
    pub(crate) fn resolve(
        edits: &[Edit],
        movie: Timescale,
        track: Timescale,
        fragmented: bool,
    ) -> Result<Self, &'static str> {
        let ticks = |movie_ticks: u128| {
            let ticks = i64::try_from(movie_ticks).unwrap_or(i64::MAX);
            Time::new(ticks, movie).in_scale(track, Round::Nearest)
        };
        let movie_tick = Time::new(1, movie).in_scale(track, Round::Up);
        // Empty edits at the end play nothing, and an empty edit of no length is ignored.
        let plays = |edit: &Edit| edit.media_time.is_some();
        let first = edits.iter().position(plays).unwrap_or(edits.len());
        let end = edits.iter().rposition(plays).map_or(edits.len(), |last| last + 1);
        let (delays, _) = edits.split_at(first);
        let ranges = edits.get(first..end).unwrap_or_default();
        let delay = ticks(delays.iter().map(|edit| u128::from(edit.duration)).sum());

        let mut joined: Option<(i64, Option<i64>)> = None;
        for edit in ranges {
            let Some(start) = edit.media_time else {
                if edit.duration == 0 {
                    continue;
                }
                return Err("an edit list with a pause");
            };
            if edit.rate != 0x1_0000 {
                return Err("an edit list with a speed other than 1");
            }
            let start = i64::try_from(start).ok().filter(|start| *start <= Time::MAX_TICKS);
            let start = start.ok_or("an edit list that starts beyond 2^61")?;
            let end = (edit.duration != 0).then(|| start + ticks(edit.duration.into()));
            joined = match joined {
                None => Some((start, end)),
                // An edit that starts where the previous one ended continues the same range.
                Some((first, Some(reached))) if (start - reached).abs() <= movie_tick => Some((first, end)),
                Some(_) => return Err("an edit list with several parts"),
            };
        }
        let Some((start, end)) = joined else {
            // An edit list that only delays is taken to play all media after the delay.
            return Ok(Self { presentation: Presentation { media_time: 0, shift: delay }, played: None });
        };
        let offset = delay - start;
        let presentation = Presentation { media_time: (-offset).max(0), shift: offset.max(0) };
        let shifted = |time: i64| time + presentation.shift;
        Ok(Self {
            presentation,
            played: Some(PlayedRange {
                start: shifted(start),
                end: end.map(shifted).filter(|_| !fragmented),
                tolerance: movie_tick / 2,
            }),
        })
    }

    /// Returns the start of the range that plays, as composition time on the source's timeline in
    /// track ticks. `None` if there is no edit list.
    pub(crate) fn media_start(&self) -> Option<i64> {
        self.played.map(|played| played.start - self.presentation.shift)
    }

    /// Returns true if samples of media that starts to be presented at `start`, in track ticks, are
    /// left out or hidden: all but the priming of audio.
    pub(crate) fn hides_samples(start: i64, kind: TrackKind, timescale: Timescale) -> bool {
        match kind {
            TrackKind::Video => start < 0,
            TrackKind::Audio => start.saturating_neg() > priming(timescale),
            TrackKind::Text => false,
        }
    }

    /// Returns the samples that play, if any. `table` is on the output timeline and complete.
    ///
    /// Video starts at a sync sample, so that everything from the edit's start on can be decoded.
    /// [`super::hidden_frames`] are the frames before it.
    pub(crate) fn samples(&self, table: &SampleTable, kind: TrackKind, timescale: Timescale) -> Range<u32> {
        let len = table.len();
        let Some(first_sync) = table.sync_from(0) else { return 0..0 };
        let Some(played) = self.played else { return first_sync..len };
        let first_composition = table.composition_time(0).unwrap_or(0);
        let start = match kind {
            TrackKind::Audio if played.start - first_composition <= priming(timescale) => first_sync,
            TrackKind::Audio => {
                let covering = covering(table, played.start);
                table.sync_until(covering.saturating_sub(PREROLL_FRAMES)).unwrap_or(first_sync)
            }
            TrackKind::Text => table.sync_until(covering(table, played.start)).unwrap_or(first_sync),
            TrackKind::Video => last_sync_composed_until(table, played.start).unwrap_or(first_sync),
        };
        let mut end = len;
        if let Some(limit) = played.end {
            let is_hidden = |index: u32| {
                let duration = table.decode_time(index + 1) - table.decode_time(index);
                // If movie ticks are that coarse, a sample before the end may be shown.
                let tolerance = if played.tolerance < duration / 2 { played.tolerance } else { 0 };
                table.composition_time(index).is_some_and(|time| time >= limit - tolerance)
            };
            // Only the last samples in decode order can be dropped: others may be reference frames.
            while end > start && is_hidden(end - 1) {
                end -= 1;
            }
        }
        start..end
    }
}

/// Returns [`PRIMING_MILLIS`] in track ticks.
fn priming(timescale: Timescale) -> i64 {
    Time::new(PRIMING_MILLIS, Timescale::MILLIS).in_scale(timescale, Round::Down)
}

/// Returns the sample that is being decoded at `time`, or the last sample if `time` is later.
fn covering(table: &SampleTable, time: i64) -> u32 {
    table.decoded_until(time).saturating_sub(1)
}

/// Returns the last sync sample in decode order whose composition time is at or before `time`.
fn last_sync_composed_until(table: &SampleTable, time: i64) -> Option<u32> {
    // Composition time ≥ decode time + the smallest offset, so later samples do not qualify.
    let (least, _) = table.composition_bounds();
    let latest = table.decoded_until(time - i64::from(least)).checked_sub(1)?;
    let mut sync = table.sync_until(latest)?;
    while table.composition_time(sync)? > time {
        sync = table.sync_until(sync.checked_sub(1)?)?;
    }
    Some(sync)
}

#[cfg(test)]
#[path = "edits_tests.rs"]
mod tests;
