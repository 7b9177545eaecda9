//! Whether a body is what it should be, found while it arrives: nothing is kept but heads of boxes and packets.
//!
//! - `boxes`: ISO base media, and the walk through any body of boxes
//! - `ts`: transport stream packets, tables and continuity counters
//! - `flv`: the tags of HDS fragments
//! - `adts`: packed audio
//! - `text`: documents of timed text
//! - [`timeline`]: whether segments are where their manifest says, and one begins where the other ends

pub mod adts;
mod boxes;
mod flv;
mod iso;
mod text;
pub mod timeline;
pub mod ts;

pub use iso::Init;

use crate::{failure::Failure, presentation::Container};
use adts::Adts;
use flv::Flv;
use iso::Fragments;
use std::sync::Arc;
use text::Text;
use ts::Ts;

/// What a track brings to a segment. Times are in seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Span {
    /// Which of the segment's tracks: its ID, PID or tag type.
    pub track: u32,
    /// When its first sample is presented, edits applied; for containers without presentation times, decoded.
    pub begins: f64,
    /// When its first sample is decoded.
    pub decode: f64,
    /// When a sample behind its last would be decoded.
    pub end: f64,
    /// By how much the next segment may begin before or behind [`Self::end`].
    pub slack: f64,
}

/// A body being checked.
#[derive(Debug)]
pub struct Check {
    format: Format,
    failed: Option<Failure>,
}

#[derive(Debug)]
enum Format {
    Fragments(Box<Fragments>),
    Ts(Box<Ts>),
    Flv(Box<Flv>),
    Adts(Box<Adts>),
    Text(Text),
    Nothing,
}

impl Check {
    /// Of a segment. `timescale` is the manifest's, for fragments without an init segment.
    #[must_use]
    pub fn segment(container: Container, init: Option<&Arc<Init>>, timescale: u64) -> Self {
        let format = match container {
            Container::Cmaf | Container::Smooth => {
                Format::Fragments(Box::new(Fragments::new(init.cloned(), timescale)))
            }
            Container::Ts => Format::Ts(Box::default()),
            Container::F4f => Format::Flv(Box::default()),
            Container::PackedAudio => Format::Adts(Box::default()),
            Container::WebVtt => Format::Text(Text::new(false)),
            Container::Ttml => Format::Text(Text::new(true)),
            Container::Opaque => Format::Nothing,
        };
        Self { format, failed: None }
    }

    /// Takes the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        let result = match &mut self.format {
            Format::Fragments(check) => check.push(bytes),
            Format::Ts(check) => check.push(bytes),
            Format::Flv(check) => check.push(bytes),
            Format::Adts(check) => check.push(bytes),
            Format::Text(check) => check.push(bytes),
            Format::Nothing => Ok(()),
        };
        self.failed = result.err();
    }

    /// What was in it; nothing where times cannot be told.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn finish(self) -> Result<Vec<Span>, Failure> {
        if let Some(failure) = self.failed {
            return Err(failure);
        }
        match self.format {
            Format::Fragments(check) => check.finish(),
            Format::Ts(check) => check.finish(),
            Format::Flv(check) => check.finish(),
            Format::Adts(check) => check.finish(),
            Format::Text(check) => check.finish().map(|()| Vec::new()),
            Format::Nothing => Ok(Vec::new()),
        }
    }
}
