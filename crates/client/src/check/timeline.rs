//! Comparison of the times of segments with their manifest and with each other.

use super::body::Span;
use crate::{
    failure::{Failure, Reason},
    presentation::{Container, SegmentGroup, Segments},
};

/// The seconds after which the time stamps of transport streams and packed audio wrap around. They
/// have 33 bits at 90 kHz.
const WRAP: f64 = 8_589_934_592.0 / 90_000.0;

/// Returns the seconds from one time to another, across a wrap of the time stamps if necessary.
fn difference(group: &SegmentGroup, from: f64, to: f64) -> f64 {
    match group.container {
        Container::Ts | Container::PackedAudio => (to - from) - ((to - from) / WRAP).round() * WRAP,
        _ => to - from,
    }
}

/// The times of the segments that a player has fetched from one set of renditions.
#[derive(Debug, Default)]
pub struct Timeline {
    /// A timeline and its offset: the seconds to add to a time of the manifest to get the time of
    /// the media. Used only if the protocol does not state the offset.
    origin: Option<(u32, f64)>,
    last: Option<LastSegment>,
}

#[derive(Debug)]
struct LastSegment {
    rendition: usize,
    index: usize,
    timeline: u32,
    spans: Vec<Span>,
}

impl Timeline {
    /// Adds the spans of a segment, as [`Check::finish`](super::Check::finish) returned them.
    /// `rendition` identifies the rendition within its set, and `index` the segment within the
    /// rendition.
    ///
    /// # Errors
    /// - [`Reason::WrongTime`] if the start of the segment differs from the one in the manifest by
    ///   more than the tolerance.
    /// - [`Reason::TimelineGap`] if the segment follows the last added one, but a track does not
    ///   begin where it ended in that segment.
    pub fn add(
        &mut self,
        segments: &Segments,
        rendition: usize,
        index: usize,
        spans: Vec<Span>,
    ) -> Result<(), Failure> {
        let before = self.last.take();
        let Some(begins) = spans.iter().map(|span| span.begins).min_by(f64::total_cmp) else { return Ok(()) };
        let Some(group) = segments.group(index) else { return Ok(()) };
        let (start, _) = segments.time(index).unwrap_or_default();
        let timeline = group.timeline;
        let origin = match (group.origin, self.origin) {
            (Some(ticks), _) => group.seconds(ticks) - group.start,
            (None, Some((known, origin))) if known == timeline => origin,
            (None, _) => self.origin.insert((timeline, begins - start)).1,
        };
        let stated = start + origin;
        if difference(group, stated, begins).abs() > group.tolerance {
            let why =
                format!("segment {index} begins at {begins:.3} s, but its manifest states {stated:.3} s");
            return Err(Failure::new(Reason::WrongTime, why));
        }
        let follows = |last: &LastSegment| {
            (last.rendition, last.timeline) == (rendition, timeline)
                && last.index.checked_add(1) == Some(index)
        };
        for last in before.filter(follows).iter().flat_map(|last| &last.spans) {
            let next = spans.iter().find(|span| span.track == last.track);
            if let Some(next) =
                next.filter(|next| difference(group, last.end, next.decode).abs() > last.slack)
            {
                let why = format!(
                    "segment {index} begins at {:.3} s, but the segment before it ends at {:.3} s",
                    next.decode, last.end
                );
                return Err(Failure::new(Reason::TimelineGap, why));
            }
        }
        self.last = Some(LastSegment { rendition, index, timeline, spans });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest;
    use crate::presentation::Index;
    use std::sync::Arc;
    use url::Url;

    /// Segments of 2 s of a media playlist, each with lines before its `EXTINF`.
    fn segments(extension: &str, lines: &[&str]) -> Arc<Segments> {
        let segment = |line: &&str| format!("{line}#EXTINF:2,\na.{extension}\n");
        let list: String = lines.iter().map(segment).collect();
        let text = format!("#EXTM3U\n#EXT-X-TARGETDURATION:2\n{list}#EXT-X-ENDLIST\n");
        let read = manifest::read(&Url::parse("http://a/").unwrap(), text.as_bytes()).unwrap();
        let Index::Known(segments) = &read.sets[0].renditions[0].index else { panic!("a media playlist") };
        segments.clone()
    }

    /// A segment of 2 s with frames of 40 ms.
    fn span(track: u32, begins: f64) -> Span {
        Span { track, begins, decode: begins, end: begins + 2.0, slack: 0.02 }
    }

    fn reason(result: Result<(), Failure>) -> Option<Reason> {
        result.err().map(|failure| failure.reason)
    }

    #[test]
    fn the_first_segment_defines_the_origin_unless_the_manifest_does() {
        let segments = segments("ts", &[""; 3]);
        let mut timeline = Timeline::default();
        assert_eq!(timeline.add(&segments, 0, 0, vec![span(1, 100.0)]), Ok(()));
        assert_eq!(timeline.add(&segments, 0, 1, vec![span(1, 102.0)]), Ok(()));
        // The tolerance is half of the target duration.
        assert_eq!(reason(timeline.add(&segments, 0, 2, vec![span(1, 105.1)])), Some(Reason::WrongTime));

        let mut stated = Segments::clone(&segments);
        stated.groups[0].origin = Some(0);
        let first = Timeline::default().add(&stated, 0, 0, vec![span(1, 100.0)]);
        assert_eq!(reason(first), Some(Reason::WrongTime));
    }

    #[test]
    fn consecutive_segments_of_a_rendition_must_meet() {
        let segments = segments("ts", &[""; 4]);
        let second = |rendition: usize, index: usize, spans: Vec<Span>| {
            let mut timeline = Timeline::default();
            timeline.add(&segments, 0, 0, vec![span(1, 0.0), span(2, 0.0)]).unwrap();
            reason(timeline.add(&segments, rendition, index, spans))
        };
        assert_eq!(second(0, 1, vec![span(1, 2.019), span(2, 1.981)]), None);
        assert_eq!(second(0, 1, vec![span(1, 2.0), span(2, 2.03)]), Some(Reason::TimelineGap));
        assert_eq!(second(0, 1, vec![span(1, 1.97)]), Some(Reason::TimelineGap), "an overlap");
        assert_eq!(second(0, 1, vec![span(3, 2.1)]), None, "another track");
        assert_eq!(second(1, 1, vec![span(1, 2.1)]), None, "another rendition");
        assert_eq!(second(0, 2, vec![span(1, 4.1)]), None, "not the next segment");
        assert_eq!(second(0, 1, Vec::new()), None, "a segment without times");
        assert_eq!(second(0, 9, vec![span(1, 2.0)]), Some(Reason::WrongTime), "beyond the list");
    }

    #[test]
    fn a_failed_segment_does_not_count_as_the_one_before() {
        let segments = segments("ts", &[""; 3]);
        let mut timeline = Timeline::default();
        timeline.add(&segments, 0, 0, vec![span(1, 0.0)]).unwrap();
        assert_eq!(reason(timeline.add(&segments, 0, 1, vec![span(1, 7.0)])), Some(Reason::WrongTime));
        assert_eq!(timeline.add(&segments, 0, 2, vec![span(1, 4.1)]), Ok(()));
    }

    #[test]
    fn a_discontinuity_starts_another_timeline() {
        let segments = segments("ts", &["", "#EXT-X-DISCONTINUITY\n", ""]);
        let mut timeline = Timeline::default();
        for (index, begins) in [(0, 50.0), (1, 7.0), (2, 9.0)] {
            assert_eq!(timeline.add(&segments, 0, index, vec![span(1, begins)]), Ok(()), "{index}");
        }
    }

    #[test]
    fn only_33_bit_time_stamps_wrap_around() {
        let play = |extension: &str| {
            let segments = segments(extension, &[""; 2]);
            let mut timeline = Timeline::default();
            timeline.add(&segments, 0, 0, vec![span(1, WRAP - 2.0)]).unwrap();
            reason(timeline.add(&segments, 0, 1, vec![span(1, 0.0)]))
        };
        assert_eq!((play("ts"), play("aac")), (None, None));
        assert_eq!(play("vtt"), Some(Reason::WrongTime));
    }
}
