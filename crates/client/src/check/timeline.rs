//! Whether segments are where their manifest says, and one begins where the other ends.

use super::Span;
use crate::{
    failure::{Failure, Reason},
    presentation::{Container, Part, Segments},
};

/// Seconds after which the time stamps of transport streams and packed audio come round: 33 bits of 90 kHz.
const ROUND: f64 = 8_589_934_592.0 / 90_000.0;

/// Seconds from one time to another.
fn apart(part: &Part, from: f64, to: f64) -> f64 {
    match part.container {
        Container::Ts | Container::PackedAudio => (to - from) - ((to - from) / ROUND).round() * ROUND,
        _ => to - from,
    }
}

/// What a player remembers of the segments it had.
#[derive(Debug, Default)]
pub struct Timeline {
    /// Seconds from the manifest's times to the media's, where the protocol does not say, and on which timeline.
    origin: Option<(u32, f64)>,
    last: Option<Last>,
}

#[derive(Debug)]
struct Last {
    rendition: usize,
    index: usize,
    timeline: u32,
    spans: Vec<Span>,
}

impl Timeline {
    /// Takes note of what was in the segment at that index of a rendition.
    ///
    /// # Errors
    /// [`Reason::WrongTime`], [`Reason::TimelineGap`].
    pub fn add(
        &mut self,
        segments: &Segments,
        rendition: usize,
        index: usize,
        spans: Vec<Span>,
    ) -> Result<(), Failure> {
        let before = self.last.take();
        let Some(begins) = spans.iter().map(|span| span.begins).min_by(f64::total_cmp) else { return Ok(()) };
        let Some(part) = segments.part(index) else { return Ok(()) };
        let (start, _) = segments.time(index).unwrap_or_default();
        let timeline = part.timeline;
        let origin = match (part.origin, self.origin) {
            (Some(ticks), _) => part.seconds(ticks) - part.start,
            (None, Some((known, origin))) if known == timeline => origin,
            (None, _) => self.origin.insert((timeline, begins - start)).1,
        };
        let stated = start + origin;
        if apart(part, stated, begins).abs() > part.tolerance {
            let why =
                format!("segment {index} begins at {begins:.3} s, where its manifest says {stated:.3} s");
            return Err(Failure::new(Reason::WrongTime, why));
        }
        let follows = before.filter(|last| {
            (last.rendition, last.timeline) == (rendition, timeline)
                && last.index.checked_add(1) == Some(index)
        });
        for last in follows.iter().flat_map(|last| &last.spans) {
            let next = spans.iter().find(|span| span.track == last.track);
            if let Some(next) = next.filter(|next| apart(part, last.end, next.decode).abs() > last.slack) {
                let why = format!(
                    "segment {index} begins at {:.3} s, where the one before it ends at {:.3} s",
                    next.decode, last.end
                );
                return Err(Failure::new(Reason::TimelineGap, why));
            }
        }
        self.last = Some(Last { rendition, index, timeline, spans });
        Ok(())
    }
}
