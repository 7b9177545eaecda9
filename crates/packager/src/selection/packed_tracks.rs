//! Tracks that share segments.

use latemux_index::{
    Sample, Title, Track,
    media::TrackKind,
    title::{Segment, TitleTrack},
};
use latemux_isobmff::{Time, Timescale, time::Round};
use std::time::Duration;

/// Nanoseconds, in which clips and joined segments are measured.
pub(crate) const NANOS: Timescale = match Timescale::new(1_000_000_000) {
    Some(scale) => scale,
    None => Timescale::MILLIS,
};

/// Tracks that are packed into one segment each. The lead, the first video track or else the first
/// track, determines where segments begin. The others bring the samples in its part of the grid.
#[derive(Debug, Clone, Copy)]
pub struct PackedTracks<'a> {
    title: &'a Title,
    tracks: &'a [usize],
    lead: usize,
    minimum: Option<Duration>,
    until: Option<Time>,
}

/// The share of one track in a segment, with its samples.
#[derive(Debug)]
pub(crate) struct TrackShare<'a> {
    pub(crate) track: &'a Track,
    /// Index into [`Title::tracks`].
    pub(crate) index: usize,
    /// Index into [`Title::objects`].
    pub(crate) object: usize,
    /// The track's own segment, or several joined; `None` if it has no samples there.
    pub(crate) segment: Option<Segment>,
    /// Samples in decode order.
    pub(crate) samples: Vec<Sample>,
}

impl<'a> PackedTracks<'a> {
    /// Packs tracks (indexes into [`Title::tracks`]). `None` for no tracks or a wrong index.
    pub fn new(title: &'a Title, tracks: &'a [usize]) -> Option<Self> {
        let kind = |&i: &usize| title.tracks().get(i).map(|t| title.track(t).kind);
        if !tracks.iter().all(|i| kind(i).is_some()) {
            return None;
        }
        let lead = tracks.iter().find(|i| kind(i) == Some(TrackKind::Video)).or(tracks.first())?;
        Some(Self { title, tracks, lead: *lead, minimum: None, until: None })
    }

    /// Makes segments longer: those of the lead are joined until they last for `minimum` on the
    /// grid. A shorter rest at the end is joined with the segment before it. A joined segment has
    /// the number of the first segment in it. Its contents do not depend on where a clip begins.
    pub fn joined(self, minimum: Option<Duration>) -> Self {
        Self { minimum, ..self }
    }

    /// Lets the last segment last until a time, if its tracks end earlier.
    pub fn lasting(self, until: Option<Time>) -> Self {
        Self { until, ..self }
    }

    /// Iterates over the tracks in the order given, as indexes into [`Title::tracks`].
    pub fn tracks(&self) -> impl Iterator<Item = usize> + use<'a> {
        self.tracks.iter().copied()
    }

    /// Returns the track that determines where segments begin.
    pub fn lead(&self) -> &'a TitleTrack {
        &self.title.tracks()[self.lead]
    }

    /// Iterates over the segments' numbers, 0-based in the whole title. Joining leaves some out.
    pub fn numbers(&self) -> impl Iterator<Item = u32> + use<'a> {
        let packed = *self;
        let first = Some(packed.lead().first).filter(|&first| packed.lead().segment(first).is_some());
        std::iter::successors(first, move |&number| {
            Some(packed.next(number)).filter(|&next| packed.lead().segment(next).is_some())
        })
    }

    /// Returns the number of the next segment, 0-based in the whole title, if any. O(log n).
    pub fn following(&self, number: u32) -> Option<u32> {
        self.lead().segment(number)?;
        self.lead().segment(self.next(number)).map(|segment| segment.number)
    }

    /// Returns the number after a segment of the lead, even after the last one. O(log n).
    #[inline]
    fn next(&self, number: u32) -> u32 {
        // A URL may ask for any number.
        let after = number.saturating_add(1);
        match self.minimum {
            Some(minimum) => self.next_of_joined(number, after, minimum),
            None => after,
        }
    }

    /// Returns the number after a segment that is joined with others until they last for `minimum`.
    /// `after` is the number after the first of them.
    fn next_of_joined(&self, number: u32, after: u32, minimum: Duration) -> u32 {
        let Some(position) = self.lead().position(number) else { return after };
        let nanos = |time: Time| u128::try_from(time.in_scale(NANOS, Round::Nearest)).unwrap_or(0);
        let grid = &self.title.grid();
        let start = |&segment: &u32| {
            usize::try_from(segment)
                .ok()
                .and_then(|i| grid.starts.get(i))
                .map_or(u128::MAX, |&time| nanos(time))
        };
        let starts = &self.lead().grid_segments;
        let Some(from) = starts.get(position).map(start) else { return after };
        let length = minimum.as_nanos();
        let later = starts.get(position + 1..).unwrap_or_default();
        let joined = later.partition_point(|segment| start(segment) - from < length);
        // A rest shorter than the minimum is joined with this segment.
        let scale = self.title.track(self.lead()).timescale;
        let end = Time::new(self.lead().times.last().copied().unwrap_or(0), scale);
        let rest = later.get(joined).map_or(0, |segment| nanos(end).saturating_sub(start(segment)));
        let count = if rest < length { later.len() } else { joined };
        after + u32::try_from(count).unwrap_or(0)
    }

    /// Returns start and end of a segment in presentation time. The last ends with the longest
    /// track, or as [`Self::lasting`] says.
    pub fn times(&self, number: u32) -> Option<(Time, Time)> {
        let lead = self.lead();
        let scale = self.title.track(lead).timescale;
        let Segment { start, end, .. } = lead.segment(number)?;
        let next = self.next(number);
        let last = next.checked_sub(1)?;
        let end = if last == number { end } else { lead.segment(last)?.end };
        let mut end = Time::new(end, scale);
        if next == lead.numbers().end {
            for &i in self.tracks {
                let track = &self.title.tracks()[i];
                let last = track.times.last().copied().unwrap_or_default();
                end = end.max(Time::new(last, self.title.track(track).timescale));
            }
            end = self.until.map_or(end, |until| end.max(until));
            end = Time::new(end.in_scale(scale, Round::Up), scale);
        }
        Some((Time::new(start, scale), end))
    }

    /// Returns the duration of a segment (0-based), in ticks of the lead. At least 1.
    pub(crate) fn duration(&self, number: u32) -> u64 {
        let ticks = self.times(number).map(|(start, end)| end.ticks - start.ticks);
        ticks.and_then(|ticks| u64::try_from(ticks).ok()).unwrap_or(0).max(1)
    }

    /// Returns the cuts of a track (an index into [`Title::tracks`]) if its shares are its own
    /// segments: no segments are joined, and it has those of the lead.
    pub(crate) fn own_cuts(&self, track: usize) -> Option<&'a [u32]> {
        let own = self.title.tracks().get(track)?;
        let is_own = track == self.lead || own.grid_segments == self.lead().grid_segments;
        (self.minimum.is_none() && is_own).then_some(&own.cuts)
    }

    /// Returns each track's share of a segment (0-based), in the order the tracks were given: its
    /// own segments that start in the lead's part of the grid, joined. The lead's first and last
    /// segments also take earlier and later samples. `None` if the track has no samples there.
    pub fn shares(&self, number: u32) -> impl Iterator<Item = (usize, Option<Segment>)> + use<'a> {
        let packed = *self;
        self.tracks.iter().map(move |&i| (i, packed.share(i, number)))
    }

    /// Returns one track's (an index into [`Title::tracks`]) share of a segment (0-based).
    pub fn share(&self, track: usize, number: u32) -> Option<Segment> {
        let lead = self.lead();
        let other = &self.title.tracks()[track];
        let next = self.next(number);
        let from = lead.position(number)?;
        let until = lead.position(next)?;
        let (start, end) = if track == self.lead {
            (from, until)
        } else {
            // Returns the position of the other's first segment at or after one of the lead.
            let first_from = |position: usize| match lead.grid_segments.get(position) {
                // Most tracks have the segments of the lead, which need no search.
                Some(from) if other.grid_segments.get(position) == Some(from) => position,
                Some(from) => other.grid_segments.partition_point(|g| g < from),
                None => other.grid_segments.len(),
            };
            (if from == 0 { 0 } else { first_from(from) }, first_from(until))
        };
        if start >= end {
            return None;
        }
        Some(Segment {
            number: other.first.checked_add(u32::try_from(start).ok()?)?,
            start: *other.times.get(start)?,
            end: *other.times.get(end)?,
            cut: *other.cuts.get(start)?..*other.cuts.get(end)?,
        })
    }
}
