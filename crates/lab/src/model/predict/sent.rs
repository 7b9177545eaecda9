//! The bytes of all segments of a title: its samples, and what a format adds to them. `make
//! lab-quick` compares them with those that an origin sends.

use super::{Files, Samples};

/// The bytes that DASH and Smooth Streaming add to a segment: the `moof` and the head of the
/// `mdat`, and the `styp` (DASH) or the `tfxd` (Smooth Streaming).
const SEGMENT: u64 = 134;

/// The bytes that they add to a frame of the video: its size and its offset of composition.
const VIDEO_FRAME: u64 = 8;

/// The bytes that they add to a frame of the audio: its size.
const AUDIO_FRAME: u64 = 4;

/// Returns the bytes of all segments of a format, for a client that gets the video of the largest
/// file, and the audio of the first one. Returns `None` for fragmented files, whose `moov` lists no
/// samples, and for TS and HDS, whose segments are not derived.
///
/// Frames are assumed to be reordered, and to have different sizes.
pub fn sent(format: &str, files: &Files, segments: u64) -> Option<u64> {
    let video = files.media.iter().max_by_key(|file| file.samples)?.tracks.video;
    let audio = files.media.first()?.tracks.audio;
    if !matches!(format, "dash" | "smooth") || video.count == 0 || audio.count == 0 {
        return None;
    }
    let of = |samples: Samples, each: u64| samples.bytes + samples.count * each;
    Some(segments * SEGMENT + of(video, VIDEO_FRAME) + of(audio, AUDIO_FRAME))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::predict::{MediaFile, Tracks};

    fn file(bytes: u64) -> MediaFile {
        let video = Samples { count: 10, bytes };
        let audio = Samples { count: 20, bytes: 500 };
        MediaFile { size: 0, samples: bytes + 500, moov: 0, index: 0, tracks: Tracks { video, audio } }
    }

    #[test]
    fn segments_have_the_samples_of_the_largest_file() {
        let title = Files { ism: 0, media: vec![file(1000), file(3000), file(2000)] };
        assert_eq!(sent("dash", &title, 4), Some(3000 + 500 + 4 * 134 + 10 * 8 + 20 * 4));
        assert_eq!(sent("hls", &title, 4), None, "samples of audio share packets");
        let unlisted = MediaFile { tracks: Tracks::default(), ..file(1000) };
        assert_eq!(sent("dash", &Files { ism: 0, media: vec![unlisted] }, 4), None, "fragments list samples");
    }
}
