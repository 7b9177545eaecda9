//! Manifests as text, made from the index alone.

mod access_point;
pub(crate) mod dash;
pub(crate) mod hds;
pub(crate) mod hls;
mod picture;
pub mod server;
pub(crate) mod smooth;
pub(crate) mod storyboard;
mod thumbnails;
mod timeline;
mod xml;

use crate::{
    PackError,
    carry::{Protocol, carries},
};
use latemux_index::{Title, Track, media::Samples};
use latemux_isobmff::{
    FourCc, Timescale,
    codec::{Audio, Media, Video},
    time::gcd,
};

/// Microseconds: finer than any display's frame, and exact in decimal for most timescales.
const MICROS: Timescale = match Timescale::new(1_000_000) {
    Some(scale) => scale,
    None => Timescale::MILLIS,
};

/// Largest size of a manifest in bytes: a playlist of the longest title that is served, with long
/// names in its URLs.
pub const MAX_BYTES: usize = 16 << 20;

/// Checks the size of a manifest while it is written. Fails with [`PackError::ManifestTooLarge`].
fn check_size(text: &str) -> Result<(), PackError> {
    if text.len() > MAX_BYTES { Err(PackError::ManifestTooLarge { limit: MAX_BYTES }) } else { Ok(()) }
}

/// Returns a track by its index into [`Title::tracks`], which must be in range.
fn track(title: &Title, index: usize) -> &Track {
    title.track(&title.tracks()[index])
}

/// Returns true if a protocol carries a track (an index into [`Title::tracks`]) that has segments.
fn is_listed(title: &Title, index: usize, protocol: Protocol) -> bool {
    title.tracks()[index].segment_count() > 0 && carries(protocol, track(title, index)).is_ok()
}

fn video_of(track: &Track) -> Option<&Video> {
    if let Media::Video(video) = &track.codec.media { Some(video) } else { None }
}

fn audio_of(track: &Track) -> Option<&Audio> {
    if let Media::Audio(audio) = &track.codec.media { Some(audio) } else { None }
}

/// Returns the error for a title of which a protocol carries no track. It names the first format.
fn carries_none(title: &Title, protocol: Protocol) -> PackError {
    let format = title.tracks().first().map_or(FourCc(*b"none"), |t| title.track(t).codec.format);
    PackError::CannotCarry { protocol: protocol.name(), format }
}

/// Returns the frames per second of a video track (an index into [`Title::tracks`]) as a reduced
/// fraction, if all its samples have one duration. The last sample may differ, because writers must
/// guess its duration, and so may those of the first 0.1 s, which an edit list may hide. Returns
/// `None` for any other track and if the samples are unknown.
fn constant_frame_rate(title: &Title, track: usize) -> Option<(u32, u32)> {
    let track = title.track(title.tracks().get(track)?);
    let Samples::Table(table) = &track.samples else { return None };
    let but_the_last = table.len().saturating_sub(1).max(1);
    let settled = track.presentation.media_time.saturating_add(i64::from(track.timescale.get()) / 10);
    let shown = table.decoded_until(settled).min(but_the_last - 1)..but_the_last;
    let duration = table.constant_duration(shown).filter(|&duration| duration > 0)?;
    Some(reduced(track.timescale.get(), duration))
}

/// Reduces a fraction to lowest terms. A fraction with a 0 stays 0.
fn reduced(numerator: u32, denominator: u32) -> (u32, u32) {
    let divisor = gcd(numerator, denominator).max(1);
    (numerator / divisor, denominator / divisor)
}
