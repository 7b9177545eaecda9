//! Segments: inline bytes and source ranges.

pub(crate) mod checked;
mod clock;
pub(crate) mod cmaf;
pub(crate) mod encrypted;
pub(crate) mod f4f;
pub(crate) mod iframes;
pub(crate) mod layers;
mod priority;
pub mod smooth;
pub(crate) mod text;
pub(crate) mod ts;

pub use crate::selection::packed_tracks::PackedTracks;
pub use clock::Clock;
pub(crate) use {crate::selection::packed_tracks::TrackShare, clock::SampleTiming};

/// Most samples of a segment: those of four hours at 60 per second, in case they hold one sync
/// sample. The limit bounds memory for tables that state a billion samples in a few bytes.
pub(crate) const MAX_SAMPLES: usize = 1 << 20;
