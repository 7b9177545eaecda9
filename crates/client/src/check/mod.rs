//! Validation of bodies while they arrive. Only headers of boxes and packets are kept in memory.
//!
//! - `iso`, `boxes`: fragments of CMAF and Smooth Streaming, and the boxes of any body
//! - `ts`: transport streams
//! - `flv`: HDS fragments
//! - `packed_audio`: audio frames after an ID3 tag
//! - `text`: WebVTT and TTML documents
//! - [`timeline`]: comparison of consecutive segments with each other and with their manifest

mod boxes;
mod flv;
mod iso;
mod packed_audio;
mod text;
pub mod timeline;
mod ts;

pub use iso::Init;

use crate::{failure::Failure, presentation::Container};
use flv::FlvCheck;
use iso::FragmentCheck;
use packed_audio::PackedAudioCheck;
use std::{fmt, sync::Arc};
use text::TextCheck;
use ts::TsCheck;

/// The time range of one track in a segment. All times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// The track within the segment: its ID, PID or tag type.
    pub track: u32,
    /// The presentation time of the first sample, with edits applied; the decode time if the
    /// container states no presentation times.
    pub begins: f64,
    /// The decode time of the first sample.
    pub decode: f64,
    /// The decode time of the last sample plus its duration.
    pub end: f64,
    /// The maximum difference between [`Self::end`] and the decode time at which the next segment
    /// begins.
    pub slack: f64,
}

/// The check of one body.
#[derive(Debug)]
pub struct Check {
    /// The check of the container; `None` if the container cannot be checked.
    body: Option<Box<dyn BodyCheck>>,
    failed: Option<Failure>,
}

/// A check of one container.
trait BodyCheck: fmt::Debug + Send {
    /// Takes the next bytes of the body.
    fn push(&mut self, bytes: &[u8]) -> Result<(), Failure>;

    /// Ends the body, and returns the time range of each track.
    fn finish(self: Box<Self>) -> Result<Vec<Span>, Failure>;
}

impl Check {
    /// Starts the check of a segment. `timescale` is the manifest's; it applies to fragments
    /// without an init segment.
    pub fn segment(container: Container, init: Option<&Arc<Init>>, timescale: u64) -> Self {
        let body: Box<dyn BodyCheck> = match container {
            Container::Cmaf | Container::Smooth => Box::new(FragmentCheck::new(init.cloned(), timescale)),
            Container::Ts => Box::new(TsCheck::default()),
            Container::F4f => Box::new(FlvCheck::default()),
            Container::PackedAudio => Box::new(PackedAudioCheck::default()),
            Container::WebVtt => Box::new(TextCheck::new(false)),
            Container::Ttml => Box::new(TextCheck::new(true)),
            Container::Opaque => return Self { body: None, failed: None },
        };
        Self { body: Some(body), failed: None }
    }

    /// Takes the next bytes of the body. Bytes after the first failure are ignored.
    pub fn push(&mut self, bytes: &[u8]) {
        if let (Some(body), None) = (&mut self.body, &self.failed) {
            self.failed = body.push(bytes).err();
        }
    }

    /// Ends the body and returns the time range of each track. The list is empty if the container
    /// has no times.
    ///
    /// # Errors
    /// The first failure of the body, whose [`Reason`](crate::failure::Reason) depends on the
    /// container, or is `TimelineGap` for a gap within the segment.
    pub fn finish(self) -> Result<Vec<Span>, Failure> {
        match self.failed {
            Some(failure) => Err(failure),
            None => self.body.map_or(Ok(Vec::new()), BodyCheck::finish),
        }
    }
}

/// The decode times of a track in containers that do not state durations, in ticks.
#[derive(Debug, Clone, Copy)]
struct DecodeTimes {
    first: i64,
    last: i64,
    longest_step: i64,
    last_step: i64,
}

impl DecodeTimes {
    const fn starting_at(time: i64) -> Self {
        Self { first: time, last: time, longest_step: 0, last_step: 0 }
    }

    fn add(&mut self, time: i64) {
        self.last_step = time.saturating_sub(self.last);
        self.longest_step = self.longest_step.max(self.last_step);
        self.last = time;
    }

    /// Returns the span of the track, whose last sample is taken to last as long as the sample
    /// before it. `rounding` is the maximum rounding error of the times, in seconds.
    fn span(&self, track: u32, begins: i64, timescale: u32, rounding: f64) -> Span {
        let seconds = |ticks: i64| ticks as f64 / f64::from(timescale);
        Span {
            track,
            begins: seconds(begins),
            decode: seconds(self.first),
            end: seconds(self.last.saturating_add(self.last_step)),
            slack: seconds(self.longest_step) * 1.5 + rounding,
        }
    }
}

/// Moves bytes from `rest` to `head` until `head` has `count` bytes. Returns true once it has them.
fn collect(head: &mut Vec<u8>, count: usize, rest: &mut &[u8]) -> bool {
    let (taken, left) = rest.split_at(count.saturating_sub(head.len()).min(rest.len()));
    head.extend_from_slice(taken);
    *rest = left;
    head.len() >= count
}
