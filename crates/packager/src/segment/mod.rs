//! Segments: inline bytes and source ranges.

pub mod cmaf;
pub mod ts;
