//! The state of one rendition from segment to segment, and the joining of its timelines.

use crate::{CaptureError, mp4::SourceTrack, samples::TrackSamples};
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
    Streams { demuxer: Box<dyn Demuxer>, queues: Vec<(u32, usize)> },
    /// The bytes of the body, or of its FLV tags.
    Bytes,
}

/// A demultiplexer, kept from segment to segment.
pub(super) trait Demuxer: Send {
    /// Returns the samples of a segment. `reference` is a time near the segment's 33-bit time
    /// stamps, which the demultiplexer updates.
    fn segment(
        &mut self,
        body: &Bytes,
        reference: &mut Option<i64>,
    ) -> Result<Vec<TrackSamples>, CaptureError>;

    /// Prepares for a discontinuity, after which times may restart.
    fn discontinuity(&mut self) {}
}

/// A segment that was fetched and checked.
pub(super) struct FetchedSegment {
    pub(super) resource: Resource,
    pub(super) body: Bytes,
    /// The index of the segment's group.
    pub(super) group: usize,
    pub(super) timeline: u32,
    /// The start that the manifest states, in ticks of the group.
    pub(super) time: u64,
    /// Seconds to add to the segment's own times.
    pub(super) later: f64,
}

/// The timelines of a presentation, which become one in the output.
#[derive(Debug, Default)]
pub(super) struct Timelines {
    /// For each timeline, a time near its 33-bit time stamps.
    pub(super) references: BTreeMap<u32, Option<i64>>,
    /// For each timeline whose offset the manifest does not state: the seconds to add to
    /// presentation times to get its own times. Its first segment determines them.
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
    /// Returns the seconds to add to the times of a segment with these spans, so that the segment
    /// continues the timeline of the first one.
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

#[cfg(test)]
mod tests {
    use super::*;
    use latemux_client::{manifest, presentation::Index};
    use url::Url;

    /// A rendition of segments of 2 s of a media playlist, each with lines before its `EXTINF`.
    fn rendition(lines: &[&str]) -> RenditionCapture {
        let list: String = lines.iter().map(|line| format!("{line}#EXTINF:2,\na.ts\n")).collect();
        let text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:2\n{list}#EXT-X-ENDLIST\n");
        let read = manifest::read(&Url::parse("http://a/").unwrap(), text.as_bytes()).unwrap();
        let Index::Known(segments) = &read.sets[0].renditions[0].index else { panic!("a media playlist") };
        RenditionCapture::new(segments.clone(), Output::Bytes)
    }

    fn span(begins: f64, end: f64) -> Span {
        Span { track: 1, begins, decode: begins, end, slack: 0.1 }
    }

    #[test]
    fn renditions_take_turns_by_time() {
        let mut renditions = vec![rendition(&["", ""]), rendition(&[""])];
        let mut order = Vec::new();
        while let Some(next) = next(&mut renditions) {
            next.next += 1;
            order.push(renditions.iter().map(|rendition| rendition.next).collect::<Vec<_>>());
        }
        assert_eq!(order, [[1, 0], [1, 1], [2, 1]]);
    }

    #[test]
    fn a_second_timeline_continues_the_first() {
        let mut rendition = rendition(&["", "", "#EXT-X-DISCONTINUITY\n", ""]);
        let mut timelines = Timelines::default();
        let mut later = |index, spans: &[Span]| timelines.later(&mut rendition, index, spans);
        // The playlist states 2 s for segments of 2.1 s.
        assert_eq!(later(0, &[span(100.0, 102.1)]), 0.0, "the times of the first timeline are kept");
        assert_eq!(later(1, &[span(102.1, 104.2)]), 0.0);
        let second = later(2, &[span(7.0, 9.0)]);
        assert!((7.0 + second - 104.2).abs() < 1e-9, "it starts where the first one ended: {second}");
        assert!((later(3, &[span(9.0, 11.0)]) - second).abs() < 1e-9);
    }

    #[test]
    fn a_timeline_starts_no_earlier_than_its_playlist_states() {
        let mut rendition = rendition(&["", "#EXT-X-DISCONTINUITY\n"]);
        let mut timelines = Timelines::default();
        assert_eq!(timelines.later(&mut rendition, 0, &[span(0.0, 1.5)]), 0.0);
        let second = timelines.later(&mut rendition, 1, &[span(50.0, 52.0)]);
        assert!((50.0 + second - 2.0).abs() < 1e-9, "half a second is missing: {second}");
        assert_eq!(timelines.later(&mut rendition, 0, &[]), 0.0, "a segment without times");
    }
}
