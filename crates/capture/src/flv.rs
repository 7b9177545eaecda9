//! A demultiplexer of HDS fragments: the samples of their FLV tags (Adobe Flash Video File Format
//! Specification 10.1 §E.4). The check of the body has already verified the sizes of the tags.

use crate::{
    CaptureError,
    audio_frames::{AudioCoding, AudioFormat, Framing},
    rendition::Demuxer,
    sample_entry::{self, TrackEntry},
    samples::{AudioPackets, AudioSamples, Sample, TrackSamples},
};
use bytes::Bytes;
use latemux_client::{
    failure::{Failure, Reason},
    flv::{AUDIO, TAG_HEADER, TAG_TRAILER, TagHeader, VIDEO},
};
use latemux_isobmff::{
    codec::{Config, Media},
    cursor::Cursor,
};

/// Ticks per second of the times of tags.
const SCALE: u32 = 1000;

/// The streams of a rendition. Kept from one fragment to the next.
#[derive(Debug, Default)]
pub(super) struct FlvDemuxer {
    video_entry: Option<TrackEntry>,
    video: Vec<Sample>,
    /// The entry of AAC, its samples per second, and the samples in a packet.
    aac: Option<(TrackEntry, u32, u32)>,
    packets: AudioPackets,
    mpeg: Option<AudioSamples>,
}

/// Returns the tags of a fragment as they are in an FLV file: the payload of each `mdat`.
pub(super) fn tags(body: &Bytes) -> Result<Vec<Bytes>, Failure> {
    let mut found = Vec::new();
    for child in Cursor::new(body, 0).boxes() {
        let child = child?;
        if child.kind() == b"mdat" {
            let mut payload = child.payload;
            found.push(payload.rest());
        }
    }
    Ok(found)
}

/// The header of an FLV file with video and audio (§E.2), and the size 0 of the tag before the
/// first.
pub(super) const FILE_HEADER: [u8; 13] = [b'F', b'L', b'V', 1, 5, 0, 0, 0, 9, 0, 0, 0, 0];

/// Sets the configuration of a stream, which must not change.
fn configure<T: PartialEq>(known: &mut Option<T>, made: Option<T>, media: &str) -> Result<(), CaptureError> {
    let made = made.ok_or_else(|| {
        Failure::new(Reason::BadFlv, format!("a configuration of {media} that cannot be read"))
    })?;
    if known.as_ref().is_some_and(|known| *known != made) {
        return Err(CaptureError::unsupported(format!("{media} whose configuration changes")));
    }
    *known = Some(made);
    Ok(())
}

impl Demuxer for FlvDemuxer {
    fn segment(&mut self, body: &Bytes, _: &mut Option<i64>) -> Result<Vec<TrackSamples>, CaptureError> {
        for media in tags(body)? {
            let mut rest = media.as_ref();
            while let Some(tag) = TagHeader::read(rest) {
                let end = TAG_HEADER + tag.size as usize;
                let data = rest.get(TAG_HEADER..end).unwrap_or_default();
                match tag.kind {
                    VIDEO => self.video(data, tag.time)?,
                    AUDIO => self.audio(data, tag.time)?,
                    _ => {}
                }
                rest = rest.get(end + TAG_TRAILER..).unwrap_or_default();
            }
        }
        let mut found = Vec::new();
        let mut add = |source: u8, timescale, entry, samples: Vec<Sample>| {
            if !samples.is_empty() {
                let language = String::new();
                found.push(TrackSamples { source: source.into(), timescale, entry, language, samples });
            }
        };
        if let Some(entry) = &self.video_entry {
            add(VIDEO, SCALE, entry.clone(), std::mem::take(&mut self.video));
        }
        if let Some((entry, rate, _)) = &self.aac {
            add(AUDIO, *rate, entry.clone(), self.packets.take());
        }
        if let Some((rate, entry, samples)) = self.mpeg.as_mut().and_then(AudioSamples::take) {
            add(AUDIO, rate, entry, samples);
        }
        Ok(found)
    }
}

impl FlvDemuxer {
    /// Takes VIDEODATA (§E.4.3).
    fn video(&mut self, data: &[u8], time: i64) -> Result<(), CaptureError> {
        let Some(&[head, packet, c0, c1, c2]) = data.first_chunk::<5>() else { return Ok(()) };
        let frame = head >> 4;
        let coding = head & 0x0f;
        if frame == 5 {
            // A command frame holds no video.
            return Ok(());
        }
        if head & 0x80 != 0 || coding != 7 {
            return Err(CaptureError::unsupported(format!("FLV with video of coding {coding}")));
        }
        let body = data.get(5..).unwrap_or_default();
        match packet {
            0 => {
                let made = sample_entry::video_entry(*b"avc1", *b"avcC", body, None);
                configure(&mut self.video_entry, made, "video")?;
            }
            1 if self.video_entry.is_none() => {
                return Err(Failure::new(Reason::BadFlv, "video before its configuration").into());
            }
            1 => {
                // The offset has 24 bits and a sign.
                let offset = i64::from(i32::from_be_bytes([c0, c1, c2, 0]) >> 8);
                let shown = time + offset;
                let is_sync = frame == 1;
                let data = body.to_vec();
                self.video.push(Sample { decode: time, shown, duration: None, is_sync, data });
            }
            _ => {}
        }
        Ok(())
    }

    /// Takes AUDIODATA (§E.4.2).
    fn audio(&mut self, data: &[u8], time: i64) -> Result<(), CaptureError> {
        let Some((&head, rest)) = data.split_first() else { return Ok(()) };
        match (head >> 4, rest.split_first()) {
            (10, Some((0, config))) => configure(&mut self.aac, aac(config), "audio")?,
            (10, Some((_, frame))) => {
                let Some((_, rate, samples)) = self.aac else {
                    return Err(Failure::new(Reason::BadFlv, "audio before its configuration").into());
                };
                self.packets.push(frame, (time, SCALE), rate, samples);
            }
            (2 | 14, _) => {
                let frames = self.mpeg.get_or_insert_with(|| AudioSamples::new(Framing::Mpeg));
                frames.push(rest, Some((time, SCALE)))?;
            }
            (coding, _) => {
                return Err(CaptureError::unsupported(format!("FLV with audio of coding {coding}")));
            }
        }
        Ok(())
    }
}

/// Returns the entry for an AudioSpecificConfig, the sampling rate of its core, and the samples in
/// its frames.
pub(super) fn aac(config: &[u8]) -> Option<(TrackEntry, u32, u32)> {
    let unknown = AudioFormat { coding: AudioCoding::Aac(config.to_vec()), rate: 0, channels: 2 };
    let codec = sample_entry::describe_entry(&sample_entry::audio_entry(&unknown))?;
    let (Config::Aac(aac), Media::Audio(audio)) = (codec.config, codec.media) else { return None };
    let known = AudioFormat { rate: aac.core_sample_rate, channels: audio.channels, ..unknown };
    (aac.core_sample_rate > 0)
        .then(|| (sample_entry::audio_entry(&known), aac.core_sample_rate, aac.frame_length.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(kind: u8, time: u32, data: &[u8]) -> Vec<u8> {
        let size = u32::try_from(data.len()).unwrap();
        let [_, s0, s1, s2] = size.to_be_bytes();
        let [extension, t0, t1, t2] = time.to_be_bytes();
        let header = [kind, s0, s1, s2, t0, t1, t2, extension, 0, 0, 0];
        [&header[..], data, &(size + 11).to_be_bytes()].concat()
    }

    fn fragment(tags: &[Vec<u8>]) -> Bytes {
        let tags = tags.concat();
        let size = |length: usize| u32::try_from(length + 8).unwrap().to_be_bytes();
        [&size(3)[..], b"afra", b"abc", &size(tags.len()), b"mdat", &tags].concat().into()
    }

    fn video(packet: u8, offset: [u8; 3], data: &[u8]) -> Vec<u8> {
        [&[if packet == 0 { 0x17 } else { 0x27 }, packet], &offset[..], data].concat()
    }

    /// A record with the parameter sets of 320×180 in Constrained Baseline.
    fn record() -> Vec<u8> {
        let sequence = [
            0x67, 0x42, 0xc0, 0x0c, 0xda, 0x05, 0x06, 0x7e, 0x7c, 0x04, 0x40, 0, 0, 3, 0, 0x40, 0, 0, 0x0c,
            0x83, 0xc5, 0x0a, 0xa8,
        ];
        let sets = [sequence.to_vec(), vec![0x68, 0xce, 0x0f, 0xc8]];
        crate::nal::VideoCoding::Avc.record(&sets).unwrap()
    }

    fn error(tags: &[Vec<u8>]) -> String {
        FlvDemuxer::default().segment(&fragment(tags), &mut None).unwrap_err().to_string()
    }

    #[test]
    fn samples_have_the_times_of_their_tags() {
        let tags = [
            tag(VIDEO, 0, &video(0, [0; 3], &record())),
            tag(AUDIO, 0, &[0xaf, 0, 0x11, 0x90]),
            tag(VIDEO, 1000, &video(1, [0, 0, 80], b"first")),
            tag(AUDIO, 1000, &[0xaf, 1, 7, 8]),
            tag(VIDEO, 1040, &video(1, [0xff, 0xff, 0xd8], b"second")),
            tag(AUDIO, 1021, &[0xaf, 1, 9]),
            tag(VIDEO, 1050, &[0x57, 0]),
        ];
        let mut demuxer = FlvDemuxer::default();
        let found = demuxer.segment(&fragment(&tags), &mut None).unwrap();
        let [video, audio] = &found[..] else { panic!("{found:?}") };
        assert_eq!((video.source, video.timescale, video.entry.size), (9, 1000, (320, 180)));
        let of = |sample: &Sample| (sample.decode, sample.shown, sample.data.clone());
        let expected = [(1000, 1080, b"first".to_vec()), (1040, 1000, b"second".to_vec())];
        assert_eq!(video.samples.iter().map(of).collect::<Vec<_>>(), expected);
        assert_eq!((audio.source, audio.timescale), (8, 48_000));
        // 1021 ms is rounded; frames have 1024 samples.
        assert_eq!(audio.samples.iter().map(|s| s.decode).collect::<Vec<_>>(), [48_000, 49_024]);
        // Without a new configuration, the next fragment continues.
        let next = demuxer.segment(&fragment(&[tag(AUDIO, 1043, &[0xaf, 1, 1])]), &mut None).unwrap();
        assert_eq!(next[0].samples[0].decode, 50_048);
    }

    #[test]
    fn media_needs_a_configuration_that_does_not_change() {
        let frame = tag(VIDEO, 0, &video(1, [0; 3], b"x"));
        assert_eq!(error(&[frame]), "bad_flv: video before its configuration");
        assert_eq!(error(&[tag(AUDIO, 0, &[0xaf, 1, 7])]), "bad_flv: audio before its configuration");
        let broken = tag(VIDEO, 0, &video(0, [0; 3], &record()[..9]));
        assert_eq!(error(&[broken]), "bad_flv: a configuration of video that cannot be read");
        assert_eq!(
            error(&[tag(AUDIO, 0, &[0xaf, 0])]),
            "bad_flv: a configuration of audio that cannot be read"
        );
        let changes = [tag(AUDIO, 0, &[0xaf, 0, 0x11, 0x90]), tag(AUDIO, 0, &[0xaf, 0, 0x12, 0x10])];
        assert_eq!(error(&changes), "audio whose configuration changes cannot be captured");
        let again = [changes[0].clone(), changes[0].clone()];
        assert!(FlvDemuxer::default().segment(&fragment(&again), &mut None).unwrap().is_empty());
    }

    #[test]
    fn other_codings_are_refused() {
        let sorenson = tag(VIDEO, 0, &[0x12, 0, 0, 0, 0]);
        assert_eq!(error(&[sorenson]), "FLV with video of coding 2 cannot be captured");
        assert_eq!(error(&[tag(AUDIO, 0, &[0x5f, 0])]), "FLV with audio of coding 5 cannot be captured");
    }

    proptest::proptest! {
        #[test]
        fn no_fragment_makes_it_panic(bytes in proptest::collection::vec(0_u8.., 0..300), kind in 8_u8..10) {
            let tags = [tag(VIDEO, 0, &video(0, [0; 3], &record())), tag(kind, 1, &bytes), bytes];
            let _ = FlvDemuxer::default().segment(&fragment(&tags), &mut None);
        }
    }
}
