//! Validation of bodies while they arrive. Only headers of boxes and packets are kept in memory.
//!
//! - `iso`, `boxes`: fragments of CMAF and Smooth Streaming, and the boxes of any body
//! - `ts`: transport streams
//! - `flv`: HDS fragments
//! - `packed_audio`: audio frames after an ID3 tag
//! - `text`: WebVTT and TTML documents
//! - [`timeline`]: comparison of consecutive segments with each other and with their manifest

mod body;
mod boxes;
mod flv;
mod iso;
mod packed_audio;
mod text;
pub mod timeline;
mod ts;

pub use body::Span;
pub use iso::Init;

use crate::{failure::Failure, presentation::Container};
use body::BodyCheck;
use flv::FlvCheck;
use iso::FragmentCheck;
use packed_audio::PackedAudioCheck;
use std::sync::Arc;
use text::TextCheck;
use ts::TsCheck;

/// The check of one body.
#[derive(Debug)]
pub struct Check {
    /// The check of the container; `None` if the container cannot be checked.
    body: Option<Box<dyn BodyCheck>>,
    failed: Option<Failure>,
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
