//! HLS playlists (RFC 8216 and draft-pantos-hls-rfc8216bis).

use crate::{PackError, address::HlsContainer};
use latemux_index::{Title, title::TrackName};

/// The multivariant playlist of a title.
///
/// # Errors
/// [`PackError::CannotCarry`] where HLS carries none of its tracks.
pub fn multivariant(title: &Title, container: HlsContainer) -> Result<String, PackError> {
    let _ = (title, container);
    todo!()
}

/// A media playlist.
///
/// # Errors
/// No such track, or the container cannot carry it.
pub fn media(title: &Title, tracks: &[TrackName], container: HlsContainer) -> Result<String, PackError> {
    let _ = (title, tracks, container);
    todo!()
}

/// An I-frame playlist.
///
/// # Errors
/// No such video track, or the container cannot carry it.
pub fn iframes(title: &Title, track: &TrackName, container: HlsContainer) -> Result<String, PackError> {
    let _ = (title, track, container);
    todo!()
}
