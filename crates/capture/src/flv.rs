//! HDS fragments taken apart into the samples of their FLV tags (Adobe Flash Video File Format
//! Specification 10.1 §E.4). The sizes of the tags have been checked before.

use crate::{
    CaptureError,
    audio_frames::{AudioCoding, AudioFormat, Framing},
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

/// The header of an FLV file (§E.2) that may hold video and audio, and the size of no tag before the
/// first.
pub(super) const FILE_HEADER: [u8; 13] = [b'F', b'L', b'V', 1, 5, 0, 0, 0, 9, 0, 0, 0, 0];

impl FlvDemuxer {
    /// Returns the samples of a fragment.
    pub(super) fn segment(&mut self, body: &Bytes) -> Result<Vec<TrackSamples>, CaptureError> {
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

    /// Takes VIDEODATA (§E.4.3).
    fn video(&mut self, data: &[u8], time: i64) -> Result<(), CaptureError> {
        let Some(&[head, packet, c0, c1, c2]) = data.first_chunk::<5>() else { return Ok(()) };
        let (frame, coding) = (head >> 4, head & 0x0f);
        if frame == 5 {
            // A command frame holds no video.
            return Ok(());
        }
        if head & 0x80 != 0 || coding != 7 {
            return Err(CaptureError::Unsupported(format!("FLV with video of coding {coding}")));
        }
        let body = data.get(5..).unwrap_or_default();
        match packet {
            0 => {
                let made = sample_entry::video_entry(*b"avc1", *b"avcC", body, None);
                let made = made.ok_or_else(|| {
                    Failure::new(Reason::BadFlv, "an AVC configuration that cannot be read")
                })?;
                match &self.video_entry {
                    None => self.video_entry = Some(made),
                    Some(known) if *known == made => {}
                    Some(_) => {
                        return Err(CaptureError::Unsupported(
                            "video whose configuration changes".to_owned(),
                        ));
                    }
                }
            }
            1 if self.video_entry.is_none() => {
                return Err(Failure::new(Reason::BadFlv, "video before its configuration").into());
            }
            1 => {
                // The offset has 24 bits and a sign.
                let offset = i64::from(i32::from_be_bytes([c0, c1, c2, 0]) >> 8);
                let shown = time.saturating_add(offset);
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
            (10, Some((0, config))) => {
                let made = aac(config).ok_or_else(|| {
                    Failure::new(Reason::BadFlv, "an AAC configuration that cannot be read")
                })?;
                match &self.aac {
                    None => self.aac = Some(made),
                    Some(known) if *known == made => {}
                    Some(_) => {
                        return Err(CaptureError::Unsupported(
                            "audio whose configuration changes".to_owned(),
                        ));
                    }
                }
            }
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
                return Err(CaptureError::Unsupported(format!("FLV with audio of coding {coding}")));
            }
        }
        Ok(())
    }
}

/// Returns the entry for an AudioSpecificConfig, the sampling rate of its core, and the samples in its
/// frames.
pub(super) fn aac(config: &[u8]) -> Option<(TrackEntry, u32, u32)> {
    let unknown = AudioFormat { coding: AudioCoding::Aac(config.to_vec()), rate: 0, channels: 2 };
    let codec = sample_entry::describe_entry(&sample_entry::audio_entry(&unknown))?;
    let (Config::Aac(aac), Media::Audio(audio)) = (codec.config, codec.media) else { return None };
    let known = AudioFormat { rate: aac.core_sample_rate, channels: audio.channels, ..unknown };
    (aac.core_sample_rate > 0)
        .then(|| (sample_entry::audio_entry(&known), aac.core_sample_rate, aac.frame_length.into()))
}
