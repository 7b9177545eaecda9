//! Segments: inline bytes and source ranges.

mod clock;
pub(crate) mod cmaf;
pub(crate) mod encrypted;
pub(crate) mod f4f;
pub(crate) mod iframes;
mod packed_tracks;
mod priority;
pub mod smooth;
pub(crate) mod text;
pub(crate) mod ts;

pub use clock::Clock;
pub use packed_tracks::PackedTracks;
pub(crate) use {clock::SampleTiming, packed_tracks::TrackShare};

use latemux_isobmff::Timescale;

/// Nanoseconds, in which clips and joined segments are measured.
pub(crate) const NANOS: Timescale = match Timescale::new(1_000_000_000) {
    Some(scale) => scale,
    None => Timescale::MILLIS,
};

/// Most samples of a segment: those of four hours at 60 per second, in case they hold one sync
/// sample. The limit bounds memory for tables that state a billion samples in a few bytes.
pub(crate) const MAX_SAMPLES: usize = 1 << 20;
