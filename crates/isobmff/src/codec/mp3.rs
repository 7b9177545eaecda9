//! MPEG-1 and MPEG-2 audio under their own coding names: QuickTime's `.mp3` and Microsoft's tag
//! 0x55. Under `mp4a` the ES descriptor names them.

use crate::FourCc;

/// Returns true for coding names of MPEG audio without an ES descriptor.
pub(super) fn is_mp3(format: FourCc) -> bool {
    matches!(&format.0, b".mp3" | b"mp3 " | b"ms\0\x55")
}
