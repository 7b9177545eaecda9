//! HDS fragments taken apart: FLV tags (Adobe Flash Video File Format Specification 10.1 §E.4), whose sizes were checked before.

use crate::{
    CaptureError,
    entry::{self, Entry},
    frames::{Coding, Framing, Sound},
    stream::{Elementary, Frames, Packets, Sample},
};
use bytes::Bytes;
use latemux_client::failure::{Failure, Reason};
use latemux_isobmff::{
    codec::{Config, Media},
    cursor::Cursor,
};

/// Ticks per second of tags.
const SCALE: u32 = 1000;
const AUDIO: u8 = 8;
const VIDEO: u8 = 9;

/// The streams of a rendition, from fragment to fragment.
#[derive(Debug, Default)]
pub(super) struct Flv {
    picture: Option<Entry>,
    pictures: Vec<Sample>,
    /// AAC: entry, samples per second, samples in a packet.
    aac: Option<(Entry, u32, u32)>,
    packets: Packets,
    mpeg: Option<Frames>,
}

/// The tags of a fragment, as an FLV file has them.
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

/// What an FLV file begins with (§E.2): there may be video and audio; no tag before the first.
pub(super) const FILE_HEADER: [u8; 13] = [b'F', b'L', b'V', 1, 5, 0, 0, 0, 9, 0, 0, 0, 0];

impl Flv {
    pub(super) fn segment(&mut self, body: &Bytes) -> Result<Vec<Elementary>, CaptureError> {
        for media in tags(body)? {
            let mut rest = media.as_ref();
            while let Some(&[kind, s0, s1, s2, t0, t1, t2, extension, ..]) = rest.first_chunk::<11>() {
                let size = usize::try_from(u32::from_be_bytes([0, s0, s1, s2])).unwrap_or(usize::MAX);
                let time = i64::from(i32::from_be_bytes([extension, t0, t1, t2]));
                let data = rest.get(11..size.saturating_add(11)).unwrap_or_default();
                match kind {
                    VIDEO => self.video(data, time)?,
                    AUDIO => self.audio(data, time)?,
                    _ => {}
                }
                rest = rest.get(size.saturating_add(15)..).unwrap_or_default();
            }
        }
        let mut found = Vec::new();
        let mut add = |source: u8, timescale, entry, samples: Vec<Sample>| {
            if !samples.is_empty() {
                let language = String::new();
                found.push(Elementary { source: source.into(), timescale, entry, language, samples });
            }
        };
        if let Some(entry) = &self.picture {
            add(VIDEO, SCALE, entry.clone(), std::mem::take(&mut self.pictures));
        }
        if let Some((entry, rate, _)) = &self.aac {
            add(AUDIO, *rate, entry.clone(), self.packets.take());
        }
        if let Some((rate, entry, samples)) = self.mpeg.as_mut().and_then(Frames::take) {
            add(AUDIO, rate, entry, samples);
        }
        Ok(found)
    }

    /// VIDEODATA (§E.4.3).
    fn video(&mut self, data: &[u8], time: i64) -> Result<(), CaptureError> {
        let Some(&[head, packet, c0, c1, c2]) = data.first_chunk::<5>() else { return Ok(()) };
        let (frame, coding) = (head >> 4, head & 0x0f);
        if frame == 5 {
            // Says something of the video, and is none.
            return Ok(());
        }
        if head & 0x80 != 0 || coding != 7 {
            return Err(CaptureError::Unsupported(format!("FLV with video of coding {coding}")));
        }
        let body = data.get(5..).unwrap_or_default();
        match packet {
            0 => {
                let made = entry::visual(*b"avc1", *b"avcC", body, None);
                let made = made.ok_or_else(|| {
                    Failure::new(Reason::BadFlv, "an AVC configuration that cannot be read")
                })?;
                match &self.picture {
                    None => self.picture = Some(made),
                    Some(known) if *known == made => {}
                    Some(_) => {
                        return Err(CaptureError::Unsupported(
                            "video whose configuration changes".to_owned(),
                        ));
                    }
                }
            }
            1 if self.picture.is_none() => {
                return Err(Failure::new(Reason::BadFlv, "video before its configuration").into());
            }
            1 => {
                // 24 bits with a sign.
                let offset = i64::from(i32::from_be_bytes([c0, c1, c2, 0]) >> 8);
                let shown = time.saturating_add(offset);
                let (sync, data) = (frame == 1, body.to_vec());
                self.pictures.push(Sample { decode: time, shown, duration: None, sync, data });
            }
            _ => {}
        }
        Ok(())
    }

    /// AUDIODATA (§E.4.2).
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
                            "sound whose configuration changes".to_owned(),
                        ));
                    }
                }
            }
            (10, Some((_, frame))) => {
                let Some((_, rate, samples)) = self.aac else {
                    return Err(Failure::new(Reason::BadFlv, "sound before its configuration").into());
                };
                self.packets.push(frame, (time, SCALE), rate, samples);
            }
            (2 | 14, _) => {
                let frames = self.mpeg.get_or_insert_with(|| Frames::new(Framing::Mpeg));
                frames.push(rest, Some((time, SCALE)))?;
            }
            (coding, _) => {
                return Err(CaptureError::Unsupported(format!("FLV with sound of coding {coding}")));
            }
        }
        Ok(())
    }
}

/// An entry by an AudioSpecificConfig, the rate of its core, and samples in its frames.
pub(super) fn aac(config: &[u8]) -> Option<(Entry, u32, u32)> {
    let unknown = Sound { coding: Coding::Aac(config.to_vec()), rate: 0, channels: 2 };
    let codec = entry::described(&entry::sound(&unknown))?;
    let (Config::Aac(aac), Media::Audio(audio)) = (codec.config, codec.media) else { return None };
    let known = Sound { rate: aac.core_sample_rate, channels: audio.channels, ..unknown };
    (aac.core_sample_rate > 0).then(|| (entry::sound(&known), aac.core_sample_rate, aac.frame_length.into()))
}
