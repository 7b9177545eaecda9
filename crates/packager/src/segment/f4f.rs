//! HDS fragments (Adobe Flash Video File Format Specification 10.1 §2.11.3 and Annex E): FLV tags
//! in an `mdat`.
//!
//! A fragment is a `moof` that numbers it, and an `mdat` of tags: the sequence header of each
//! track, then all samples by decode time. FLV, like MP4, has NAL units behind their lengths and
//! AAC without framing: only headers are inserted between slices. Times are in milliseconds, see
//! [`Clock`].

use super::{Clock, SampleTiming, TrackShare};
use crate::{
    PackError,
    carry::{FLV_MP3_RATES, Protocol},
    part::Part,
};
use bytes::{BufMut, Bytes};
use latemux_index::{Sample, Title, Track, table::batches::SampleBatch};
use latemux_isobmff::{
    Timescale,
    boxes::mfhd::Mfhd,
    codec::{Config, Media, configuration_record},
    emit::{Container, WriteBox as _, mdat_header},
};

/// Milliseconds: the unit of FLV.
pub(crate) const SCALE: Timescale = Timescale::MILLIS;

/// Bytes of a fragment besides its tags: `moof`, and the header of the `mdat`.
pub(crate) const FRAGMENT_BYTES: u64 = 24 + 8;

/// Bytes of a tag's header. The size of the tag follows the tag in four more bytes (§E.4.1).
const TAG_HEADER: u64 = 11;
const TAG_BYTES: u64 = TAG_HEADER + 4;
/// Most bytes that a fragment adds to a sample.
pub(crate) const MAX_OVERHEAD: u64 = TAG_BYTES + 5;
/// TagType of audio and video.
const AUDIO: u8 = 8;
const VIDEO: u8 = 9;
/// Largest size that a tag can state.
const MAX_DATA: u64 = (1 << 24) - 1;

pub(crate) fn clock(title: &Title) -> Clock<'_> {
    Clock::new(title, Protocol::Hds, SCALE)
}

/// Returns the parts of fragment `number` (1-based) of at most one video and one audio track, in
/// any order. Fails with [`PackError::CannotCarry`] if FLV does not carry a track, with
/// [`PackError::TooLarge`] if a sample has more than 16 MiB, the fragment 4 GiB or its last time
/// more than 31 bits.
pub(crate) fn media(
    clock: &Clock<'_>,
    number: u32,
    shares: &[TrackShare<'_>],
) -> Result<Vec<Part>, PackError> {
    let mut codings = Vec::with_capacity(shares.len());
    for share in shares {
        if let Some(segment) = &share.segment {
            codings.push((FlvCoding::of(share.track)?, share, segment));
        }
    }
    codings.sort_by_key(|(coding, ..)| coding.tag_type == AUDIO);
    let mut tags = Vec::new();
    for (track, (_, share, segment)) in codings.iter().enumerate() {
        let timings = clock.timings(share.index, segment, &share.samples);
        let samples = share.samples.iter().zip(timings);
        tags.extend(samples.map(|(&sample, timing)| FlvTag { track, timing, sample }));
    }
    // The sort is stable: samples of a track stay in order, and video precedes audio.
    tags.sort_by_key(|tag| (tag.timing.decode, tag.track));
    let first = tags.first().map_or(0, |tag| tag.timing.decode);

    let mut body = Body::default();
    for (coding, ..) in &codings {
        if let Some(record) = &coding.sequence_header {
            body.tag(coding.tag_type, first, &coding.sequence_header_fields(), record.len() as u64)?;
            body.inline.put_slice(record);
            body.end_tag();
        }
    }
    for tag in &tags {
        let Some((coding, share, _)) = codings.get(tag.track) else { continue };
        body.tag(coding.tag_type, tag.timing.decode, &coding.fields(tag), tag.sample.size.into())?;
        body.source(share.object, &tag.sample);
        body.end_tag();
    }
    body.into_parts(number)
}

/// Returns a time as tags state it: in 32 bits with a sign (§E.4.1). Fails with
/// [`PackError::TooLarge`] after 24 days.
pub(crate) fn check_time(millis: i64) -> Result<i32, PackError> {
    i32::try_from(millis).map_err(|_| PackError::TooLarge("HDS has times of at most 24 days"))
}

/// Returns the bytes that a track's samples take in a fragment, sequence header included, by the
/// arithmetic of [`media`]. 0 for a track that FLV does not carry.
pub(crate) fn track_bytes(track: &Track, samples: impl Iterator<Item = Sample>) -> u64 {
    let Ok(coding) = FlvCoding::of(track) else { return 0 };
    let mut samples = samples.peekable();
    if samples.peek().is_none() {
        return 0;
    }
    let header = coding.sequence_header_bytes();
    header + samples.map(|s| coding.overhead() + u64::from(s.size)).sum::<u64>()
}

/// Returns a function for [`track_bytes`] of stretches of a track's samples.
pub(crate) fn stretch_bytes(track: &Track) -> impl Fn(&SampleBatch<'_>) -> u64 {
    let coding = FlvCoding::of(track).ok();
    move |stretch| {
        let Some(coding) = coding.as_ref().filter(|_| !stretch.sizes.is_empty()) else { return 0 };
        let header = coding.sequence_header_bytes();
        let media: u64 = stretch.sizes.iter().map(|&size| u64::from(size)).sum();
        header + media + coding.overhead() * stretch.sizes.len() as u64
    }
}

/// The form of a track's tags.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FlvCoding {
    tag_type: u8,
    /// The first byte of audio data: SoundFormat, SoundRate, SoundSize, SoundType (§E.4.2.1).
    audio_format: u8,
    /// Number of bytes in a tag before those of the sample.
    field_bytes: u8,
    sequence_header: Option<Bytes>,
}

#[derive(Debug)]
struct FlvTag {
    track: usize,
    timing: SampleTiming,
    sample: Sample,
}

impl FlvCoding {
    fn of(track: &Track) -> Result<Self, PackError> {
        let format = track.codec.format;
        let cannot = || PackError::CannotCarry { protocol: Protocol::Hds.name(), format };
        Ok(match (&track.codec.config, &track.codec.media) {
            (Config::Avc(avc), _) if avc.nal_length_size == 4 => Self {
                tag_type: VIDEO,
                audio_format: 0,
                field_bytes: 5,
                sequence_header: Some(configuration_record(&track.sample_entry, b"avcC").ok_or_else(cannot)?),
            },
            // AAC is always stated as 44 kHz stereo, 16 bits. Its sequence header is right.
            (Config::Aac(aac), _) => Self {
                tag_type: AUDIO,
                audio_format: 0xAF,
                field_bytes: 2,
                sequence_header: Some(aac.asc.clone()),
            },
            (Config::Mp3, Media::Audio(audio)) => {
                let rate = FLV_MP3_RATES.iter().position(|&rate| rate == audio.sample_rate);
                let (format, code) = match rate {
                    Some(0 | 1) => (2, 3),
                    Some(2) => (2, 2),
                    Some(3) => (2, 1),
                    // MP3 at 8 kHz has a SoundFormat of its own.
                    Some(4) => (14, 0),
                    _ => return Err(cannot()),
                };
                let stereo = u8::from(audio.channels != 1);
                Self {
                    tag_type: AUDIO,
                    audio_format: format << 4 | code << 2 | 1 << 1 | stereo,
                    field_bytes: 1,
                    sequence_header: None,
                }
            }
            _ => return Err(cannot()),
        })
    }

    /// Returns the bytes of a tag besides the sample.
    fn overhead(&self) -> u64 {
        TAG_BYTES + u64::from(self.field_bytes)
    }

    /// Returns the bytes of the tag with the sequence header, if there is one.
    fn sequence_header_bytes(&self) -> u64 {
        self.sequence_header.as_ref().map_or(0, |record| self.overhead() + record.len() as u64)
    }

    /// Returns the bytes before the configuration: a sequence header (§E.4.3.1, §E.4.2.1).
    fn sequence_header_fields(&self) -> Vec<u8> {
        if self.tag_type == VIDEO { vec![0x17, 0, 0, 0, 0] } else { vec![self.audio_format, 0] }
    }

    /// Returns the bytes before a sample.
    fn fields(&self, tag: &FlvTag) -> Vec<u8> {
        if self.tag_type == VIDEO {
            let [_, a, b, c] = tag.timing.composition_offset.to_be_bytes();
            // FrameType key or inter, CodecID AVC; AVCPacketType NAL units; CompositionTime.
            return vec![if tag.sample.sync { 0x17 } else { 0x27 }, 1, a, b, c];
        }
        match self.field_bytes {
            1 => vec![self.audio_format],
            _ => vec![self.audio_format, 1],
        }
    }
}

/// Tags under construction: headers in one buffer, and source slices with their positions in it.
#[derive(Debug, Default)]
struct Body {
    inline: Vec<u8>,
    slices: Vec<(usize, Part)>,
    /// Bytes behind the header of the `mdat`.
    len: u64,
    /// Bytes of the tag being written, without the size behind it.
    tag: u64,
}

impl Body {
    /// Begins a tag with `fields`, after which `data` bytes follow.
    fn tag(&mut self, tag_type: u8, time: i64, fields: &[u8], data: u64) -> Result<(), PackError> {
        let size = data + fields.len() as u64;
        if size > MAX_DATA {
            return Err(PackError::TooLarge("a sample of 16 MiB or more"));
        }
        let [upper, time @ ..] = check_time(time)?.to_be_bytes();
        let out = &mut self.inline;
        out.put_u8(tag_type);
        out.put_uint(size, 3);
        out.put_slice(&time);
        out.put_u8(upper);
        out.put_uint(0, 3);
        out.put_slice(fields);
        self.tag = TAG_HEADER + size;
        self.len += TAG_BYTES + size;
        Ok(())
    }

    fn source(&mut self, object: usize, sample: &Sample) {
        let mut parts = Vec::new();
        Part::push_samples(&mut parts, object, std::slice::from_ref(sample));
        let at = self.inline.len();
        self.slices.extend(parts.into_iter().map(|part| (at, part)));
    }

    fn end_tag(&mut self) {
        // At most 2^24 + 11.
        self.inline.put_u32(u32::try_from(self.tag).unwrap_or(u32::MAX));
    }

    fn into_parts(self, number: u32) -> Result<Vec<Part>, PackError> {
        if self.len > u64::from(u32::MAX - 8) {
            return Err(PackError::TooLarge("a fragment of 4 GiB or more"));
        }
        let mut head = Vec::new();
        Container(b"moof", &[&Mfhd(number)]).write(&mut head);
        mdat_header(self.len, &mut head);
        let skip = head.len();
        head.extend_from_slice(&self.inline);
        let inline = Bytes::from(head);
        let mut parts = Vec::with_capacity(self.slices.len() * 2 + 1);
        let mut at = 0;
        for (end, part) in self.slices {
            let end = end + skip;
            if end > at {
                parts.push(Part::Inline(inline.slice(at..end)));
            }
            parts.push(part);
            at = end;
        }
        parts.push(Part::Inline(inline.slice(at..)));
        Ok(parts)
    }
}

#[cfg(test)]
#[path = "f4f_tests.rs"]
mod tests;
