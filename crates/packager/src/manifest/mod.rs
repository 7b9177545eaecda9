//! Manifests as text, made from the index alone.

pub(crate) mod dash;
pub(crate) mod hds;
pub(crate) mod hls;
pub mod server;
pub(crate) mod smooth;
mod timeline;
mod xml;

use crate::{PackError, carry::Protocol, sizes::SegmentSize};
use latemux_index::{Title, media::Samples};
use latemux_isobmff::{FourCc, Timescale};

/// Microseconds: finer than any display's frame, and exact in decimal for most timescales.
const MICROS: Timescale = match Timescale::new(1_000_000) {
    Some(scale) => scale,
    None => Timescale::MILLIS,
};

/// Returns the error for a title of which a protocol carries no track. It names the first format.
fn carries_none(title: &Title, protocol: Protocol) -> PackError {
    let format = title.tracks().first().map_or(FourCc(*b"none"), |t| title.track(t).codec.format);
    PackError::CannotCarry { protocol: protocol.name(), format }
}

/// Returns the frames per second of a video track (an index into [`Title::tracks`]) as a reduced
/// fraction, if all its samples have one duration. The last sample may differ, because writers must
/// guess its duration. Returns `None` for any other track and if the samples are unknown.
fn constant_frame_rate(title: &Title, track: usize) -> Option<(u32, u32)> {
    let track = title.track(title.tracks().get(track)?);
    let Samples::Table(table) = &track.samples else { return None };
    let but_the_last = table.len().saturating_sub(1).max(1);
    let duration = table.constant_duration(0..but_the_last).filter(|&duration| duration > 0)?;
    Some(reduced(track.timescale.get(), duration))
}

/// Reduces a fraction to lowest terms. A fraction with a 0 stays 0.
fn reduced(numerator: u32, denominator: u32) -> (u32, u32) {
    let (mut a, mut b) = (numerator, denominator);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    let divisor = a.max(1);
    (numerator / divisor, denominator / divisor)
}

/// Returns the longest duration of segments, in their ticks.
fn longest(segments: &[SegmentSize]) -> u64 {
    segments.iter().map(|s| s.duration).max().unwrap_or(0)
}
