//! The I-frames of a video track, each sent alone.
//!
//! Every sync sample is an I-frame. So is the first sample of a segment, even if it is no sync
//! sample. If the samples of a track are unknown, only the sync samples at the start of fragments
//! are I-frames.

use latemux_index::{
    Title, Track,
    media::Samples,
    title::{Segment, TitleTrack},
};

/// Most I-frames that manifests list. If a video has more, only the first one of each segment is
/// listed.
pub(crate) const MAX_IFRAMES: usize = 100_000;

/// One I-frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct IFrame {
    /// Number of its segment, 0-based in the whole title.
    pub(crate) segment: u32,
    /// Index of the sample, or of the fragment that starts with it.
    pub(crate) index: u32,
    /// Time at which it begins to be shown, in track ticks. For the first I-frame of a segment,
    /// this is the start of the segment.
    pub(crate) start: i64,
}

/// Returns the I-frames of a track (an index into [`Title::tracks`]) that manifests list, in order.
pub(crate) fn of_track(title: &Title, track: usize) -> Vec<IFrame> {
    let Some(title_track) = title.tracks().get(track) else { return Vec::new() };
    let track = title.track(title_track);
    let mut frames = Vec::with_capacity(title_track.grid_segments.len());
    for segment in segments(title_track) {
        frames.push(IFrame { segment: segment.number, index: segment.cut.start, start: segment.start });
        for index in later(track, &segment) {
            let Some(start) = track.sync_time(index) else { continue };
            // Times of damaged media may decrease.
            if start >= segment.end || frames.last().is_some_and(|before| start <= before.start) {
                continue;
            }
            frames.push(IFrame { segment: segment.number, index, start });
            if frames.len() > MAX_IFRAMES {
                return firsts(title_track);
            }
        }
    }
    frames
}

fn firsts(title_track: &TitleTrack) -> Vec<IFrame> {
    let first =
        |segment: Segment| IFrame { segment: segment.number, index: segment.cut.start, start: segment.start };
    segments(title_track).map(first).collect()
}

fn segments(title_track: &TitleTrack) -> impl Iterator<Item = Segment> + '_ {
    title_track.numbers().filter_map(|number| title_track.segment(number))
}

/// Iterates over the I-frames of a segment after its first one.
fn later<'a>(track: &'a Track, segment: &Segment) -> impl Iterator<Item = u32> + use<'a> {
    track.syncs(segment.cut.start.saturating_add(1)..segment.cut.end)
}

/// Returns the place (1-based) of an I-frame in its segment of the whole title. O(log n).
pub(crate) fn place(track: &Track, segment: &Segment, index: u32) -> u32 {
    let start = segment.cut.start.saturating_add(1);
    if index < start {
        return 1;
    }
    track.syncs_before(index).saturating_sub(track.syncs_before(start)).saturating_add(2)
}

/// Returns the I-frame at a place (1-based) of a segment. O(log n).
pub(crate) fn at_place(track: &Track, segment: &Segment, place: u32) -> Option<u32> {
    let Some(later) = place.checked_sub(2) else { return Some(segment.cut.start) };
    let before = track.syncs_before(segment.cut.start.saturating_add(1));
    track.nth_sync(before.checked_add(later)?).filter(|&index| index < segment.cut.end)
}

/// Returns the I-frames of a track as segments. Each has one sample or fragment, and lasts until
/// the next I-frame.
pub(crate) fn as_segments(title_track: &TitleTrack, frames: &[IFrame]) -> Vec<Segment> {
    let end = title_track.times.last().copied().unwrap_or_default();
    let ends = frames.iter().skip(1).map(|next| next.start).chain([end]);
    let alone = frames.iter().zip(ends).map(|(frame, end)| Segment {
        number: frame.segment,
        start: frame.start,
        end,
        cut: frame.index..frame.index + 1,
    });
    alone.collect()
}

/// The I-frames of a DASH trick mode set.
#[derive(Debug)]
pub(crate) struct TrickFrames {
    /// The sync samples. Each lasts until the next one.
    pub(crate) frames: Vec<Segment>,
    /// Number of the first of them in the whole title, 1-based.
    pub(crate) first: u32,
    /// Average number of frames from one I-frame to the next, rounded down. `None` if the number of
    /// frames is unknown.
    pub(crate) every: Option<u32>,
}

/// Returns the I-frames of a track (an index into [`Title::tracks`]) for a trick mode set. `None`
/// if they cannot be numbered, or if nearly every frame is one.
pub(crate) fn for_trick_mode(title: &Title, track: usize) -> Option<TrickFrames> {
    let title_track = title.tracks().get(track)?;
    let of_title = title.track(title_track);
    let (&start, &end) = (title_track.cuts.first()?, title_track.cuts.last()?);
    let last = title_track.times.last().copied()?;
    let count = of_title.syncs_before(end).checked_sub(of_title.syncs_before(start))?;
    if count == 0 || usize::try_from(count).ok()? > MAX_IFRAMES {
        return None;
    }
    let every = match &of_title.samples {
        Samples::Table(_) => Some((end - start) / count),
        Samples::Fragments(_) => None,
    };
    if every.is_some_and(|every| every < 2) {
        return None;
    }
    let timed = of_title.syncs(start..end).map(|index| Some((index, of_title.sync_time(index)?)));
    let timed: Vec<(u32, i64)> = timed.collect::<Option<_>>()?;
    let ends = timed.iter().skip(1).map(|&(_, next)| next).chain([last]);
    let frames = timed.iter().zip(ends).map(|(&(index, start), end)| {
        (start >= 0 && end > start).then_some(Segment { number: 0, start, end, cut: index..index + 1 })
    });
    // The numbers of I-frames have no gaps, so none can be left out, even if its time decreases.
    let frames: Vec<Segment> = frames.collect::<Option<_>>()?;
    Some(TrickFrames { frames, first: of_title.syncs_before(start).saturating_add(1), every })
}

/// Returns the I-frame with a number (1-based) of [`for_trick_mode`] in the whole title, up to the
/// next one. O(log n).
pub(crate) fn numbered(title_track: &TitleTrack, track: &Track, number: u32) -> Option<Segment> {
    let index = track.nth_sync(number.checked_sub(1)?)?;
    let start = track.sync_time(index)?;
    let next = track.nth_sync(number).and_then(|next| track.sync_time(next));
    let end = next.or_else(|| title_track.times.last().copied())?;
    let segment = title_track.cuts.partition_point(|&cut| cut <= index).checked_sub(1)?;
    let number = title_track.first.checked_add(u32::try_from(segment).ok()?)?;
    (end > start).then_some(Segment { number, start, end, cut: index..index + 1 })
}
