//! A rendition from segment to segment: how it is kept, and how its timelines become one.

use crate::{CaptureError, flv::Flv, media::Track, packed::Packed, stream::Elementary, ts::Ts};
use bytes::Bytes;
use latemux_client::{
    check::{Init, Span, timeline::Timeline},
    presentation::{Resource, Segments},
};
use std::{collections::BTreeMap, sync::Arc};

/// One set that is kept.
pub(super) struct Lane {
    pub(super) segments: Arc<Segments>,
    pub(super) next: usize,
    pub(super) timeline: Timeline,
    pub(super) kept: Kept,
    /// The timeline of the segment before.
    pub(super) on: Option<u32>,
    /// When what there is ends, in seconds of the presentation.
    end: f64,
}

/// How a lane's segments are kept.
pub(super) enum Kept {
    /// Fragments: for each part what its init segment says, and which tracks of the file its own are.
    Fragments { parts: Vec<(Option<Arc<Init>>, Vec<Track>)> },
    /// Elementary streams, and where each goes.
    Streams { demux: Box<Demux>, places: Vec<(u32, usize)> },
    /// As it comes.
    Bytes,
}

/// Takes segments apart.
pub(super) enum Demux {
    Ts(Ts),
    Packed(Packed),
    Flv(Box<Flv>),
}

/// A segment that came.
pub(super) struct Got {
    pub(super) resource: Resource,
    pub(super) body: Bytes,
    /// The place of its part.
    pub(super) part: usize,
    pub(super) timeline: u32,
    /// When its manifest says it is, in ticks of its part.
    pub(super) time: u64,
    /// By how many seconds it is to be presented later than it says.
    pub(super) later: f64,
}

/// The timelines of a presentation.
#[derive(Debug, Default)]
pub(super) struct Timelines {
    /// Of each: a time near which the time stamps of transport streams are, whose 33 bits come round.
    references: BTreeMap<u32, Option<i64>>,
    /// Of each that says only by its first segment: seconds from the presentation's times to its own.
    offsets: BTreeMap<u32, f64>,
    /// That of the first there is: its times are kept.
    base: Option<f64>,
}

impl Lane {
    pub(super) fn new(segments: Arc<Segments>, kept: Kept) -> Self {
        Self { segments, next: 0, timeline: Timeline::default(), kept, on: None, end: 0.0 }
    }
}

/// The lane whose next segment is presented first.
pub(super) fn next(lanes: &mut [Lane]) -> Option<&mut Lane> {
    let time = |lane: &Lane| lane.segments.time(lane.next).map(|(start, _)| start);
    lanes
        .iter_mut()
        .filter(|lane| time(lane).is_some())
        .min_by(|a, b| time(a).unwrap_or(0.0).total_cmp(&time(b).unwrap_or(0.0)))
}

impl Timelines {
    /// By how many seconds a segment of that content is presented later than its own times say, on the timeline of the first.
    pub(super) fn later(&mut self, lane: &mut Lane, index: usize, spans: &[Span]) -> f64 {
        let (Some(part), Some((start, _))) = (lane.segments.part(index), lane.segments.time(index)) else {
            return 0.0;
        };
        let begins = spans.iter().map(|span| span.begins).min_by(f64::total_cmp);
        let offset = match (part.origin, begins) {
            (Some(ticks), _) => part.seconds(ticks) - part.start,
            // Durations in playlists may be rounded: what is there already stays.
            (None, Some(begins)) => {
                *self.offsets.entry(part.timeline).or_insert(begins - start.max(lane.end))
            }
            (None, None) => return 0.0,
        };
        let ends = spans.iter().map(|span| span.begins + (span.end - span.decode));
        lane.end = ends.max_by(f64::total_cmp).map_or(lane.end, |end| end - offset);
        *self.base.get_or_insert(offset) - offset
    }
}

impl Demux {
    pub(super) fn segment(
        &mut self,
        got: &Got,
        timelines: &mut Timelines,
    ) -> Result<Vec<Elementary>, CaptureError> {
        let reference = timelines.references.entry(got.timeline).or_default();
        match self {
            Self::Ts(ts) => ts.segment(&got.body, reference),
            Self::Packed(packed) => packed.segment(&got.body, reference),
            Self::Flv(flv) => flv.segment(&got.body),
        }
    }

    /// Behind this the times are others.
    pub(super) fn discontinuity(&mut self) {
        match self {
            Self::Ts(ts) => ts.discontinuity(),
            Self::Packed(packed) => packed.discontinuity(),
            Self::Flv(_) => {}
        }
    }
}
