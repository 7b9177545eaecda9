//! The bytes of all segments of a title: its samples, and what a format adds to them. `make
//! lab-quick` compares them with those that an origin sends.

use super::{Files, Samples, Tracks};

/// The bytes that DASH and Smooth Streaming add to a segment: the `moof` and the head of the
/// `mdat`, and the `styp` (DASH) or the `tfxd` (Smooth Streaming).
const SEGMENT: u64 = 134;

/// The bytes that they add to a frame of the video: its size and its offset of composition.
const VIDEO_FRAME: u64 = 8;

/// The bytes that they add to a frame of the audio: its size.
const AUDIO_FRAME: u64 = 4;

/// The bytes that HDS adds to a fragment (`packager/src/segment/f4f.rs`): `moof` and the head of
/// the `mdat` (32), and a tag with the configuration of the video (20, and some 45 of `avcC`) and
/// of the audio (17, and 5 of the `AudioSpecificConfig`).
const HDS_FRAGMENT: u64 = 119;

/// The bytes that HDS adds to a frame of the video: the head of the tag (11), its size behind it
/// (4), and the fields before an AVC sample (5).
const HDS_VIDEO_FRAME: u64 = 20;

/// The bytes that HDS adds to a frame of the audio: as for video, with 2 bytes of fields.
const HDS_AUDIO_FRAME: u64 = 17;

/// The bytes of a TS packet, and of its payload (ISO/IEC 13818-1, 2.4.3.2).
const PACKET: u64 = 188;
const PAYLOAD: u64 = 184;

/// The packets with PAT and PMT at the start of each TS segment (`packager/src/segment/ts/psi.rs`).
const TABLES: u64 = 2;

/// Twice the mean number of padding packets of a PID in a segment. The packets of a PID are padded
/// to a multiple of 16, so that continuity counters do not jump (`ts/layout.rs`). The mean of 0 to
/// 15 is 7.5, and twice that is a whole number.
const TWICE_PADDING: u64 = 15;

/// The bytes that TS adds to a frame of the video, besides stuffing: a PES header with two times
/// (19, `ts/pes.rs`), an access unit delimiter (6, `ts/annexb.rs`), and the adaptation field of the
/// first packet, which has room for a PCR (8, `ts/packet.rs`). Parameter sets are left out: those
/// of x264 add some 45 bytes to each sync sample, which is less than 0.1 %.
const TS_VIDEO_FRAME: u64 = 19 + 6 + 8;

/// The bytes that TS adds to a frame of the audio: an ADTS header (`ts/adts.rs`).
const TS_AUDIO_FRAME: u64 = 7;

/// The bytes that TS adds to a PES packet of audio: a header with one time (14), and the adaptation
/// field (8).
const TS_AUDIO_PES: u64 = 14 + 8;

/// The frames in a PES packet of audio: as many as last at most 100 ms (`ts/layout.rs`). Those of
/// AAC at 44.1 or 48 kHz last 23.2 or 21.3 ms.
const AUDIO_FRAMES: usize = 4;

/// Returns the bytes of all segments of a format, for a client that gets the video of the largest
/// file, and the audio of the first one. Returns `None` for fragmented files, whose `moov` lists no
/// samples.
///
/// Frames are assumed to be reordered, and to have different sizes. The audio is assumed to be
/// AAC.
pub fn sent(format: &str, files: &Files, segments: u64) -> Option<u64> {
    let video = files.media.iter().max_by_key(|file| file.samples)?.tracks.video;
    let Tracks { audio, audio_packets, .. } = files.media.first()?.tracks;
    if video.count == 0 || audio.count == 0 {
        return None;
    }
    let of = |samples: Samples, each: u64| samples.bytes + samples.count * each;
    match format {
        "dash" | "smooth" => Some(segments * SEGMENT + of(video, VIDEO_FRAME) + of(audio, AUDIO_FRAME)),
        "hds" => Some(segments * HDS_FRAGMENT + of(video, HDS_VIDEO_FRAME) + of(audio, HDS_AUDIO_FRAME)),
        "hls" => {
            // Video and audio of one file share segments.
            let pids = if files.media.len() == 1 { 2 * segments } else { segments };
            let packets = segments * TABLES + pids * TWICE_PADDING / 2 + video_packets(video);
            Some(PACKET * (packets + audio_packets))
        }
        _ => None,
    }
}

/// Returns the TS packets of video. Each frame has a PES packet, and sizes vary, so the last packet
/// of a frame is half full on average.
fn video_packets(video: Samples) -> u64 {
    let bytes = video.bytes + video.count * TS_VIDEO_FRAME;
    bytes / PAYLOAD + video.count / 2
}

/// Returns the TS packets of audio whose frames have these sizes. Sizes hardly vary at a constant
/// bit rate, so the mean stuffing of a PES packet depends on the rate, and is not half a packet.
pub(super) fn audio_packets(sizes: &[u64]) -> u64 {
    let bytes = |size: &u64| size + TS_AUDIO_FRAME;
    let unit = |frames: &[u64]| TS_AUDIO_PES + frames.iter().map(bytes).sum::<u64>();
    sizes.chunks(AUDIO_FRAMES).map(|frames| unit(frames).div_ceil(PAYLOAD)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::predict::MediaFile;

    fn file(bytes: u64) -> MediaFile {
        let video = Samples { count: 10, bytes };
        let audio = Samples { count: 20, bytes: 500 };
        let tracks = Tracks { video, audio, audio_packets: 7 };
        MediaFile { size: 0, samples: bytes + 500, moov: 0, index: 0, overlap: 0, tracks }
    }

    #[test]
    fn segments_have_the_samples_of_the_largest_file() {
        let title = Files { ism: 0, media: vec![file(1000), file(3000), file(2000)] };
        assert_eq!(sent("dash", &title, 4), Some(3000 + 500 + 4 * 134 + 10 * 8 + 20 * 4));
        assert_eq!(sent("hds", &title, 4), Some(3000 + 500 + 4 * 119 + 10 * 20 + 20 * 17));
        // The video has 3,330 bytes, which take 18 packets, and stuffing of half a packet a frame.
        let packets = 18 + 5 + 7;
        assert_eq!(sent("hls", &title, 4), Some(188 * (packets + 4 * 2 + 4 * 15 / 2)));
        let single = Files { ism: 0, media: vec![file(3000)] };
        assert_eq!(sent("hls", &single, 4), Some(188 * (packets + 4 * 2 + 2 * 4 * 15 / 2)), "muxed");
        let unlisted = MediaFile { tracks: Tracks::default(), ..file(1000) };
        for format in ["dash", "smooth", "hls", "hds"] {
            let fragmented = Files { ism: 0, media: vec![unlisted] };
            assert_eq!(sent(format, &fragmented, 4), None, "fragments list samples");
        }
    }

    #[test]
    fn four_frames_of_audio_share_whole_packets() {
        // 22 + 4 · (7 + 33) bytes are 182, and 22 + 4 · (7 + 34) are 186.
        assert_eq!(audio_packets(&[33; 8]), 2);
        assert_eq!(audio_packets(&[34; 8]), 4);
        assert_eq!(audio_packets(&[33; 5]), 2);
        assert_eq!(audio_packets(&[]), 0);
    }
}
