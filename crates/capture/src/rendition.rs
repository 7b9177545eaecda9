//! One rendition from segment to segment: how it is written, and how its timelines are joined.

use crate::{
    CaptureError, flv::FlvDemuxer, mp4::SourceTrack, packed_audio::PackedAudioDemuxer, samples::TrackSamples,
    ts::TsDemuxer,
};
use bytes::Bytes;
use latemux_client::{
    check::{Init, Span, timeline::Timeline},
    presentation::{Resource, Segments},
};
use std::{collections::BTreeMap, sync::Arc};

/// A rendition that is being captured.
pub(super) struct RenditionCapture {
    pub(super) segments: Arc<Segments>,
    pub(super) next: usize,
    pub(super) timeline: Timeline,
    pub(super) output: Output,
    /// The timeline of the last segment.
    pub(super) last_timeline: Option<u32>,
    /// The end of the last segment, in seconds of the presentation.
    end: f64,
}

/// The way in which segments are written.
pub(super) enum Output {
    /// Fragments. For each group of segments: its init segment, and its tracks in the output.
    Fragments { groups: Vec<(Option<Arc<Init>>, Vec<SourceTrack>)> },
    /// Elementary streams. `queues` holds, for each stream of the source, its queue in the output.
    Streams { demuxer: Box<Demuxer>, queues: Vec<(u32, usize)> },
    /// The bytes of the body, or of its FLV tags.
    Bytes,
}

/// A demultiplexer, kept from segment to segment.
pub(super) enum Demuxer {
    Ts(TsDemuxer),
    Packed(PackedAudioDemuxer),
    Flv(Box<FlvDemuxer>),
}

/// A segment that was fetched and checked.
pub(super) struct FetchedSegment {
    pub(super) resource: Resource,
    pub(super) body: Bytes,
    /// The index of its group of segments.
    pub(super) group: usize,
    pub(super) timeline: u32,
    /// Its start as the manifest states it, in ticks of its group.
    pub(super) time: u64,
    /// Seconds to add to its own times.
    pub(super) later: f64,
}

/// The timelines of a presentation, which become one in the output.
#[derive(Debug, Default)]
pub(super) struct Timelines {
    /// For each timeline, a time near which its 33-bit time stamps are.
    references: BTreeMap<u32, Option<i64>>,
    /// For each timeline that only its first segment defines: seconds from the presentation's times to
    /// its own.
    offsets: BTreeMap<u32, f64>,
    /// The offset of the first timeline, whose times are kept.
    base: Option<f64>,
}

impl RenditionCapture {
    pub(super) fn new(segments: Arc<Segments>, output: Output) -> Self {
        Self { segments, next: 0, timeline: Timeline::default(), output, last_timeline: None, end: 0.0 }
    }
}

/// Returns the rendition whose next segment is presented first, or `None` if all have ended.
pub(super) fn next(renditions: &mut [RenditionCapture]) -> Option<&mut RenditionCapture> {
    let time = |rendition: &RenditionCapture| rendition.segments.time(rendition.next).map(|(start, _)| start);
    renditions
        .iter_mut()
        .filter(|rendition| time(rendition).is_some())
        .min_by(|a, b| time(a).unwrap_or(0.0).total_cmp(&time(b).unwrap_or(0.0)))
}

impl Timelines {
    /// Returns the seconds to add to the times of a segment with these spans, so that it continues the
    /// timeline of the first segment.
    pub(super) fn later(&mut self, rendition: &mut RenditionCapture, index: usize, spans: &[Span]) -> f64 {
        let (Some(group), Some((start, _))) =
            (rendition.segments.group(index), rendition.segments.time(index))
        else {
            return 0.0;
        };
        let begins = spans.iter().map(|span| span.begins).min_by(f64::total_cmp);
        let offset = match (group.origin, begins) {
            (Some(ticks), _) => group.seconds(ticks) - group.start,
            // Durations in playlists may be rounded. A segment must not overlap the one before it.
            (None, Some(begins)) => {
                *self.offsets.entry(group.timeline).or_insert(begins - start.max(rendition.end))
            }
            (None, None) => return 0.0,
        };
        let ends = spans.iter().map(|span| span.begins + (span.end - span.decode));
        rendition.end = ends.max_by(f64::total_cmp).map_or(rendition.end, |end| end - offset);
        *self.base.get_or_insert(offset) - offset
    }
}

impl Demuxer {
    pub(super) fn segment(
        &mut self,
        segment: &FetchedSegment,
        timelines: &mut Timelines,
    ) -> Result<Vec<TrackSamples>, CaptureError> {
        let reference = timelines.references.entry(segment.timeline).or_default();
        match self {
            Self::Ts(ts) => ts.segment(&segment.body, reference),
            Self::Packed(packed) => packed.segment(&segment.body, reference),
            Self::Flv(flv) => flv.segment(&segment.body),
        }
    }

    /// Prepares for a discontinuity: times may change.
    pub(super) fn discontinuity(&mut self) {
        match self {
            Self::Ts(ts) => ts.discontinuity(),
            Self::Packed(packed) => packed.discontinuity(),
            Self::Flv(_) => {}
        }
    }
}
