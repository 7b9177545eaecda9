//! Comparison of the times of segments with their manifest and with each other.

use super::Span;
use crate::{
    failure::{Failure, Reason},
    presentation::{Container, SegmentGroup, Segments},
};

/// The seconds after which time stamps of transport streams and packed audio wrap around: 33 bits of
/// 90 kHz.
const WRAP: f64 = 8_589_934_592.0 / 90_000.0;

/// Returns the seconds from one time to another, across a wrap of time stamps.
fn difference(group: &SegmentGroup, from: f64, to: f64) -> f64 {
    match group.container {
        Container::Ts | Container::PackedAudio => (to - from) - ((to - from) / WRAP).round() * WRAP,
        _ => to - from,
    }
}

/// The times of the segments that a player has fetched from one set of renditions.
#[derive(Debug, Default)]
pub struct Timeline {
    /// A timeline, and the seconds from the manifest's times to the media's on it. Used if the protocol
    /// does not state them.
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
    /// Adds the spans of a segment, which [`Check::finish`](super::Check::finish) returned.
    /// `rendition` identifies the rendition within its set, and `index` the segment in it.
    ///
    /// # Errors
    /// - [`Reason::WrongTime`] if the segment begins earlier or later than its manifest states by more
    ///   than the tolerance.
    /// - [`Reason::TimelineGap`] if the segment follows the last one that was added, and a track does
    ///   not continue where it ended there.
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
        let follows = before.filter(|last| {
            (last.rendition, last.timeline) == (rendition, timeline)
                && last.index.checked_add(1) == Some(index)
        });
        for last in follows.iter().flat_map(|last| &last.spans) {
            let next = spans.iter().find(|span| span.track == last.track);
            if let Some(next) =
                next.filter(|next| difference(group, last.end, next.decode).abs() > last.slack)
            {
                let why = format!(
                    "segment {index} begins at {:.3} s, but the one before it ends at {:.3} s",
                    next.decode, last.end
                );
                return Err(Failure::new(Reason::TimelineGap, why));
            }
        }
        self.last = Some(LastSegment { rendition, index, timeline, spans });
        Ok(())
    }
}
