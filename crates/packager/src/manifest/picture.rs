//! The size of a picture as players show it.

use latemux_index::Track;
use latemux_isobmff::codec::Video;

/// The size of a picture and the aspect of its pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Picture {
    pub(super) width: u16,
    pub(super) height: u16,
    /// Width and height of a pixel, as a ratio.
    pub(super) pixel_aspect: (u32, u32),
}

impl Picture {
    /// Returns the picture as it is coded, for protocols that cannot state a rotation.
    pub(super) fn coded(video: &Video) -> Self {
        Self { width: video.width, height: video.height, pixel_aspect: video.pixel_aspect }
    }

    /// Returns the picture after the transformation of its track. This is the "visual presentation
    /// size" of `@width` and `@height` (ISO/IEC 23009-1 §5.3.7.2), and the resolution "at which to
    /// display" of `RESOLUTION` (RFC 8216bis §4.4.6.2).
    pub(super) fn shown(track: &Track, video: &Video) -> Self {
        let coded = Self::coded(video);
        if !track.matrix.is_on_its_side() {
            return coded;
        }
        let (x, y) = coded.pixel_aspect;
        Self { width: coded.height, height: coded.width, pixel_aspect: (y, x) }
    }
}
