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
    frame_rate::{constant_frame_rate, reduced},
};
use latemux_index::{Title, Track};
use latemux_isobmff::{
    FourCc, Timescale,
    codec::{Audio, Media, Video},
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
