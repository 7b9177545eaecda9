//! The I-frames of a video track, each sent alone.
//!
//! Every sync sample is an I-frame. So is the first sample of a segment, even if it is no sync
//! sample. If the samples of a track are unknown, only the sync samples at the start of fragments
//! are I-frames.

use latemux_index::{
    Title, Track,
    media::{Samples, TrackKind},
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
    /// Number of sync samples, or of fragments that start with one, before it in its track.
    pub(crate) syncs_before: u32,
}

/// Returns the I-frames of a video track (an index into [`Title::tracks`]) that manifests list, in
/// order. Other tracks have none.
pub(crate) fn of_track(title: &Title, track: usize) -> Vec<IFrame> {
    let Some(title_track) = title.tracks().get(track) else { return Vec::new() };
    let track = title.track(title_track);
    let (Some(&start), Some(&end)) = (title_track.cuts.first(), title_track.cuts.last()) else {
        return Vec::new();
    };
    if track.kind != TrackKind::Video {
        return Vec::new();
    }
    let mut syncs = track.timed_syncs(start..end).peekable();
    let mut syncs_before = track.syncs_before(start);
    let mut frames = Vec::with_capacity(title_track.grid_segments.len());
    for segment in segments(title_track) {
        let mut last = first(&segment, syncs_before);
        frames.push(last);
        while let Some((index, start)) = syncs.next_if(|&(index, _)| index < segment.cut.end) {
            // Times of damaged media may decrease.
            if index > segment.cut.start && start > last.start && start < segment.end {
                last = IFrame { index, start, syncs_before, ..last };
                frames.push(last);
            }
            if frames.len() > MAX_IFRAMES {
                return firsts(title_track, track);
            }
            syncs_before += 1;
        }
    }
    frames
}

fn first(segment: &Segment, syncs_before: u32) -> IFrame {
    IFrame { segment: segment.number, index: segment.cut.start, start: segment.start, syncs_before }
}

fn firsts(title_track: &TitleTrack, track: &Track) -> Vec<IFrame> {
    segments(title_track).map(|segment| first(&segment, track.syncs_before(segment.cut.start))).collect()
}

fn segments(title_track: &TitleTrack) -> impl Iterator<Item = Segment> + '_ {
    title_track.numbers().filter_map(|number| title_track.segment(number))
}

/// Returns the places (1-based) of I-frames in their segments of the whole title, whose track is
/// `whole`.
pub(crate) fn places(title: &Title, whole: &TitleTrack, frames: &[IFrame]) -> impl Iterator<Item = u32> {
    let track = title.track(whole);
    let mut of_segment: Option<(Segment, u32)> = None;
    frames.iter().map(move |frame| {
        if of_segment.as_ref().is_none_or(|(segment, _)| segment.number != frame.segment) {
            let started = |segment: &Segment| track.syncs_before(segment.cut.start.saturating_add(1));
            of_segment = whole.segment(frame.segment).map(|segment| (segment.clone(), started(&segment)));
        }
        match &of_segment {
            Some((segment, until_start)) if frame.index > segment.cut.start => {
                frame.syncs_before.saturating_sub(*until_start).saturating_add(2)
            }
            _ => 1,
        }
    })
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
    let timed: Vec<(u32, i64)> = of_title.timed_syncs(start..end).collect();
    if timed.len() != usize::try_from(count).ok()? {
        return None;
    }
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
