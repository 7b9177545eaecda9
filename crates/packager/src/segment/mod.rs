//! Segments: inline bytes and source ranges.

mod clock;
pub mod cmaf;
pub mod f4f;
pub mod smooth;
pub mod ts;

pub use clock::{Clock, Stamp};

use latemux_index::{
    Title,
    media::TrackKind,
    title::{Segment, TitleTrack},
};
use latemux_isobmff::{Time, time::Round};

/// The most samples of a segment: as many as four hours at 60 per second have, should they hold one sync sample only. Tables that say
/// "a billion samples of one byte" in a few bytes are not worth the memory.
pub const MAX_SAMPLES: usize = 1 << 20;

/// Tracks that are packed into one segment each. The lead (the first video track, else the first track) says where segments begin;
/// the others bring what lies in the same part of the grid.
#[derive(Debug, Clone, Copy)]
pub struct Mux<'a> {
    title: &'a Title,
    tracks: &'a [usize],
    lead: usize,
}

impl<'a> Mux<'a> {
    /// `tracks` are indexes into [`Title::tracks`]; `None` where there are none, or one is out of range.
    #[must_use]
    pub fn new(title: &'a Title, tracks: &'a [usize]) -> Option<Self> {
        let kind = |&i: &usize| title.tracks.get(i).map(|t| title.track(t).kind);
        if !tracks.iter().all(|i| kind(i).is_some()) {
            return None;
        }
        let lead = tracks.iter().find(|i| kind(i) == Some(TrackKind::Video)).or(tracks.first())?;
        Some(Self { title, tracks, lead: *lead })
    }

    /// The track that says where segments begin.
    #[must_use]
    pub fn lead(&self) -> &'a TitleTrack {
        &self.title.tracks[self.lead]
    }

    /// Number of segments.
    #[must_use]
    pub fn segment_count(&self) -> u32 {
        self.lead().segment_count()
    }

    /// Start and end of a segment (0-based) in presentation time. The last one reaches to the end of the longest track.
    #[must_use]
    pub fn times(&self, number: u32) -> Option<(Time, Time)> {
        let lead = self.lead();
        let scale = self.title.track(lead).timescale;
        let segment = lead.segment(number)?;
        let mut end = Time::new(segment.end, scale);
        if number + 1 == lead.segment_count() {
            for &i in self.tracks {
                let track = &self.title.tracks[i];
                let last = track.times.last().copied().unwrap_or_default();
                end = end.max(Time::new(last, self.title.track(track).timescale));
            }
        }
        Some((Time::new(segment.start, scale), Time::new(end.in_scale(scale, Round::Up), scale)))
    }

    /// What each track brings to a segment (0-based), in the order the tracks were named: its own segments that start in the lead's
    /// part of the grid, joined. The lead's first and last segments also take what others have before and after it. `None` where the
    /// track has nothing there.
    pub fn parts(&self, number: u32) -> impl Iterator<Item = (usize, Option<Segment>)> + 'a {
        let mux = *self;
        self.tracks.iter().map(move |&i| (i, mux.part(i, number)))
    }

    /// What one of the tracks (an index into [`Title::tracks`]) brings to a segment (0-based), see [`Self::parts`].
    #[must_use]
    pub fn part(&self, track: usize, number: u32) -> Option<Segment> {
        let (lead, other) = (self.lead(), &self.title.tracks[track]);
        if track == self.lead {
            return lead.segment(number);
        }
        let grid = &lead.grid_segments;
        let at = |n: u32| grid.get(usize::try_from(n).ok()?).copied();
        // The first of the other's segments that starts at or after this part of the grid.
        let first_from = |from: Option<u32>| match from {
            Some(from) => other.grid_segments.partition_point(|&g| g < from),
            None => other.grid_segments.len(),
        };
        let start = if number == 0 { 0 } else { first_from(at(number)) };
        let end = first_from(at(number.checked_add(1)?));
        if start >= end {
            return None;
        }
        Some(Segment {
            number: u32::try_from(start).ok()?,
            start: *other.times.get(start)?,
            end: *other.times.get(end)?,
            cut: *other.cuts.get(start)?..*other.cuts.get(end)?,
        })
    }
}
