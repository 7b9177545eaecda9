//! Validation of bodies while they arrive. Only headers of boxes and packets are kept in memory.
//!
//! - `iso`, `boxes`: fragments of CMAF and Smooth Streaming, and the boxes of any body
//! - `ts`: transport streams
//! - `flv`: HDS fragments
//! - `packed_audio`: audio frames behind an ID3 tag
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
use std::sync::Arc;
use text::TextCheck;
use ts::TsCheck;

/// The time range of one track in a segment. All times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// The track within the segment: its ID, PID or tag type.
    pub track: u32,
    /// When the first sample is presented, with edits applied. Containers without presentation
    /// times have the decode time here.
    pub begins: f64,
    /// When the first sample is decoded.
    pub decode: f64,
    /// When a sample behind the last one would be decoded.
    pub end: f64,
    /// The difference that is allowed between [`Self::end`] and the start of the next segment.
    pub slack: f64,
}

/// The check of one body.
#[derive(Debug)]
pub struct Check {
    format: Format,
    failed: Option<Failure>,
}

#[derive(Debug)]
enum Format {
    Fragments(Box<FragmentCheck>),
    Ts(Box<TsCheck>),
    Flv(Box<FlvCheck>),
    PackedAudio(Box<PackedAudioCheck>),
    Text(TextCheck),
    /// Nothing can be checked.
    Opaque,
}

impl Check {
    /// Starts the check of a segment. `timescale` is the manifest's; it applies to fragments
    /// without an init segment.
    pub fn segment(container: Container, init: Option<&Arc<Init>>, timescale: u64) -> Self {
        let format = match container {
            Container::Cmaf | Container::Smooth => {
                Format::Fragments(Box::new(FragmentCheck::new(init.cloned(), timescale)))
            }
            Container::Ts => Format::Ts(Box::default()),
            Container::F4f => Format::Flv(Box::default()),
            Container::PackedAudio => Format::PackedAudio(Box::default()),
            Container::WebVtt => Format::Text(TextCheck::web_vtt()),
            Container::Ttml => Format::Text(TextCheck::ttml()),
            Container::Opaque => Format::Opaque,
        };
        Self { format, failed: None }
    }

    /// Takes the next bytes of the body. Bytes after the first failure are ignored.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        let result = match &mut self.format {
            Format::Fragments(check) => check.push(bytes),
            Format::Ts(check) => check.push(bytes),
            Format::Flv(check) => check.push(bytes),
            Format::PackedAudio(check) => check.push(bytes),
            Format::Text(check) => check.push(bytes),
            Format::Opaque => Ok(()),
        };
        self.failed = result.err();
    }

    /// Ends the body and returns the time range of each track. The list is empty if the container
    /// has no times.
    ///
    /// # Errors
    /// The first failure of the body, whose [`Reason`](crate::failure::Reason) depends on the
    /// container, or is `TimelineGap` for a gap within the segment.
    pub fn finish(self) -> Result<Vec<Span>, Failure> {
        if let Some(failure) = self.failed {
            return Err(failure);
        }
        match self.format {
            Format::Fragments(check) => check.finish(),
            Format::Ts(check) => check.finish(),
            Format::Flv(check) => check.finish(),
            Format::PackedAudio(check) => check.finish(),
            Format::Text(check) => check.finish().map(|()| Vec::new()),
            Format::Opaque => Ok(Vec::new()),
        }
    }
}

/// Moves bytes from `rest` to `head` until `head` has `count` bytes. Returns true if it has.
fn collect(head: &mut Vec<u8>, count: usize, rest: &mut &[u8]) -> bool {
    let (taken, left) = rest.split_at(count.saturating_sub(head.len()).min(rest.len()));
    head.extend_from_slice(taken);
    *rest = left;
    head.len() >= count
}
