//! HLS playlists (RFC 8216 and draft-pantos-hls-rfc8216bis).

use crate::{PackError, address::HlsContainer};
use latemux_index::{Title, title::TrackName};

/// The multivariant playlist of a title.
///
/// # Errors
/// [`PackError::CannotCarry`] where HLS carries none of its tracks.
pub fn multivariant(title: &Title, name: &str, container: HlsContainer) -> Result<String, PackError> {
    let _ = (title, name, container);
    todo!()
}

/// A media playlist.
///
/// # Errors
/// No such track, or the container cannot carry it.
pub fn media(
    title: &Title,
    name: &str,
    tracks: &[TrackName],
    container: HlsContainer,
) -> Result<String, PackError> {
    let _ = (title, name, tracks, container);
    todo!()
}

/// An I-frame playlist.
///
/// # Errors
/// No such video track, or the container cannot carry it.
pub fn iframes(
    title: &Title,
    name: &str,
    track: &TrackName,
    container: HlsContainer,
) -> Result<String, PackError> {
    let _ = (title, name, track, container);
    todo!()
}
