//! Timed text as one list of cues, whatever form it is stored in. No I/O, no clock.
//!
//! A [`Cue`] is that of WebVTT: two times, an identifier, settings, and text with the markup of
//! WebVTT. [`webvtt`] and [`srt`] read files, [`ttml`] whole documents and those in samples,
//! [`wvtt`] and [`tx3g`] the samples of MP4. [`webvtt`], [`wvtt`] and [`ttml`] write. Every reader
//! takes hostile input: sizes and counts are bounded before memory is spent ([`limits`]).

mod cue;
mod encoding;
mod error;
mod file_name;
mod join;
pub mod language;
pub mod limits;
pub mod markup;
mod sidecar;
pub mod srt;
mod timestamp;
pub mod ttml;
pub mod tx3g;
pub mod webvtt;
pub mod wvtt;

pub use cue::{Cue, Document};
pub use encoding::decode;
pub use error::TextError;
pub use file_name::{FileName, Purpose};
pub use join::{Joiner, SampleCue};
pub use sidecar::{TextFormat, parse};
