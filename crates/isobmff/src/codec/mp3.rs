//! MPEG-1 and MPEG-2 audio under sample entry names of its own: QuickTime's `.mp3` and Microsoft's tag 0x55.
//! Under `mp4a` the ES descriptor names it.

use crate::FourCc;

/// MPEG audio without an ES descriptor.
pub(super) fn is(format: FourCc) -> bool {
    matches!(&format.0, b".mp3" | b"mp3 " | b"ms\0\x55")
}
