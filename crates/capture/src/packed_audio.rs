//! Packed audio (RFC 8216 §3.4): an ID3 tag with the time, then audio frames.

use crate::{
    CaptureError,
    audio_frames::Framing,
    rendition::Demuxer,
    samples::{AudioSamples, TrackSamples},
};
use bytes::Bytes;
use latemux_client::{
    failure::{Failure, Reason},
    packed_audio::{tag_length, time_of},
    ts::{SCALE, unwrap_time},
};

/// The audio of a rendition. Kept from one segment to the next.
#[derive(Debug)]
pub(super) struct PackedAudioDemuxer {
    audio: AudioSamples,
}

/// Returns the framing for the extension of a segment's path. Nothing else states it.
pub(super) fn framing(path: &str) -> Framing {
    match path.rsplit('.').next().map(str::to_ascii_lowercase).as_deref() {
        Some("mp3") => Framing::Mpeg,
        Some("ac3") => Framing::Ac3,
        Some("ec3") => Framing::Eac3,
        _ => Framing::Adts,
    }
}

impl PackedAudioDemuxer {
    pub(super) const fn new(framing: Framing) -> Self {
        Self { audio: AudioSamples::new(framing) }
    }
}

impl Demuxer for PackedAudioDemuxer {
    fn discontinuity(&mut self) {
        self.audio.restart();
    }

    fn segment(
        &mut self,
        body: &Bytes,
        reference: &mut Option<i64>,
    ) -> Result<Vec<TrackSamples>, CaptureError> {
        let bad = |why: &str| Failure::new(Reason::BadAudio, why);
        let header = body.first_chunk().ok_or_else(|| bad("shorter than an ID3 tag"))?;
        let (tag, frames) = body.split_at(tag_length(header)?.min(body.len()));
        let time = time_of(tag).map(|ticks| {
            let time = unwrap_time(ticks, reference.unwrap_or(ticks));
            *reference = Some(time);
            (time, SCALE)
        });
        self.audio.push(frames, time)?;
        if self.audio.has_partial_frame() {
            return Err(bad("ends in the middle of a frame").into());
        }
        let found = self.audio.take().map(|(timescale, entry, samples)| TrackSamples {
            source: 0,
            timescale,
            entry,
            language: String::new(),
            samples,
        });
        Ok(found.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A tag with a time in ticks.
    fn tag(ticks: u64) -> Vec<u8> {
        let private = [&b"com.apple.streaming.transportStreamTimestamp\0"[..], &ticks.to_be_bytes()].concat();
        let length = u8::try_from(private.len()).unwrap();
        [&b"ID3\x04\0\0\0\0\0"[..], &[length], &private].concat()
    }

    /// An AAC frame of 12 bytes at 48 kHz, five of which are the sample.
    const FRAME: &[u8] = &[0xff, 0xf1, 0x4c, 0x80, 0x01, 0x9f, 0xfc, 1, 2, 3, 4, 5];

    fn segment(
        demuxer: &mut PackedAudioDemuxer,
        parts: &[&[u8]],
        reference: &mut Option<i64>,
    ) -> Result<Vec<i64>, String> {
        let found = demuxer.segment(&parts.concat().into(), reference).map_err(|error| error.to_string())?;
        let [track] = &found[..] else { return Ok(Vec::new()) };
        assert!(track.samples.iter().all(|sample| sample.data == FRAME[7..] && sample.is_sync));
        assert_eq!((track.timescale, track.entry.handler.0), (48_000, *b"soun"));
        Ok(track.samples.iter().map(|sample| sample.decode).collect())
    }

    #[test]
    fn times_continue_over_a_wrap_of_the_tags() {
        let mut demuxer = PackedAudioDemuxer::new(Framing::Adts);
        let mut reference = None;
        let all = 1_u64 << 33;
        let first = segment(&mut demuxer, &[&tag(all - 3840), FRAME, FRAME], &mut reference).unwrap();
        assert_eq!(first[1] - first[0], 1024);
        // Two frames last 3840 ticks.
        let second = segment(&mut demuxer, &[&tag(0), FRAME], &mut reference).unwrap();
        assert_eq!(second, [first[1] + 1024]);
        assert_eq!(reference, Some(1 << 33));
    }

    #[test]
    fn times_restart_at_a_discontinuity() {
        let mut demuxer = PackedAudioDemuxer::new(Framing::Adts);
        let first = segment(&mut demuxer, &[&tag(90_000), FRAME], &mut None).unwrap();
        demuxer.discontinuity();
        // This is a tenth of a frame too late. The time is kept only because times restart.
        let second = segment(&mut demuxer, &[&tag(90_000 + 1920 + 192), FRAME], &mut None).unwrap();
        assert_eq!((first, second), (vec![48_000], vec![48_000 + 1024 + 102]));
    }

    #[test]
    fn segments_need_a_tag_a_time_and_whole_frames() {
        let of = |parts: &[&[u8]]| {
            segment(&mut PackedAudioDemuxer::new(Framing::Adts), parts, &mut None).unwrap_err()
        };
        assert_eq!(of(&[b"ID3"]), "bad_audio: shorter than an ID3 tag");
        assert_eq!(of(&[FRAME, FRAME]), "bad_audio: does not begin with an ID3 tag");
        assert_eq!(of(&[b"ID3\x04\0\0\0\0\0\0", FRAME]), "bad_audio: audio without a time");
        assert_eq!(of(&[&tag(0), FRAME, &FRAME[..11]]), "bad_audio: ends in the middle of a frame");
        // Without frames there is nothing to write, which is no error here: the check reports it.
        let mut demuxer = PackedAudioDemuxer::new(Framing::Adts);
        let found = segment(&mut demuxer, &[&tag(0)], &mut None);
        assert_eq!(found, Ok(Vec::new()));
    }

    #[test]
    fn extensions_select_the_framing() {
        for (path, expected) in [
            ("/a/b.aac", Framing::Adts),
            ("/a.MP3", Framing::Mpeg),
            ("a.ac3", Framing::Ac3),
            ("/x.ec3", Framing::Eac3),
            ("", Framing::Adts),
        ] {
            assert_eq!(framing(path), expected, "{path}");
        }
    }
}
