//! Manifests as text, made from the index alone.

pub mod dash;
pub mod hds;
pub mod hls;
pub mod server;
pub mod smooth;
mod xml;

use crate::sizes::SegmentSize;
use latemux_index::{Title, media::Samples};

/// Returns the frames per second of a video track (an index into [`Title::tracks`]) as a reduced
/// fraction, if all its samples have one duration. The last sample may differ, because writers must
/// guess its duration. Returns `None` for any other track and if the samples are unknown.
#[must_use]
pub fn constant_frame_rate(title: &Title, track: usize) -> Option<(u32, u32)> {
    let track = title.track(title.tracks().get(track)?);
    let Samples::Table(table) = &track.samples else { return None };
    let but_the_last = table.len().saturating_sub(1).max(1);
    let duration = table.constant_duration(0..but_the_last).filter(|&duration| duration > 0)?;
    Some(reduced(track.timescale.get(), duration))
}

/// Reduces a fraction to lowest terms. A fraction with a 0 stays 0.
#[must_use]
pub fn reduced(numerator: u32, denominator: u32) -> (u32, u32) {
    let (mut a, mut b) = (numerator, denominator);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    let divisor = a.max(1);
    (numerator / divisor, denominator / divisor)
}

/// Returns the longest duration of segments, in their ticks.
#[must_use]
pub fn longest(segments: &[SegmentSize]) -> u64 {
    segments.iter().map(|s| s.duration).max().unwrap_or(0)
}
