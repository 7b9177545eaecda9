//! Frame rates of tracks, as exact fractions.

use latemux_index::{Title, media::Samples};
use latemux_isobmff::time::gcd;

/// Returns the frames per second of a video track (an index into [`Title::tracks`]) as a reduced
/// fraction, if all its samples have one duration. The last sample may differ, because writers must
/// guess its duration, and so may those of the first 0.1 s, which an edit list may hide. Returns
/// `None` for any other track and if the samples are unknown.
pub(crate) fn constant_frame_rate(title: &Title, track: usize) -> Option<(u32, u32)> {
    let track = title.track(title.tracks().get(track)?);
    let Samples::Table(table) = &track.samples else { return None };
    let but_the_last = table.len().saturating_sub(1).max(1);
    let settled = track.presentation.media_time.saturating_add(i64::from(track.timescale.get()) / 10);
    let shown = table.decoded_until(settled).min(but_the_last - 1)..but_the_last;
    let duration = table.constant_duration(shown).filter(|&duration| duration > 0)?;
    Some(reduced(track.timescale.get(), duration))
}

/// Reduces a fraction to lowest terms. A fraction with a 0 stays 0.
pub(crate) fn reduced(numerator: u32, denominator: u32) -> (u32, u32) {
    let divisor = gcd(numerator, denominator).max(1);
    (numerator / divisor, denominator / divisor)
}
