//! Sample entries (ISO/IEC 14496-12 §8.5.2) for streams that have none.

use crate::audio_frames::{AudioCoding, AudioFormat};
use bytes::BufMut;
use latemux_isobmff::{
    FourCc,
    boxes::stsd::SampleEntry,
    codec::{Codec, Media, describe, elementary_stream},
    emit::put_header,
};

/// A sample entry with its handler, and the size of video in pixels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TrackEntry {
    pub(super) handler: FourCc,
    pub(super) entry: SampleEntry,
    pub(super) size: (u16, u16),
}

impl TrackEntry {
    /// Returns true if samples of the entry `other` may use this one. The records of Dolby's
    /// codings may differ, since the bit rate that they state can change from segment to segment.
    pub(super) fn can_replace(&self, other: &Self) -> bool {
        self == other
            || (self.entry.format == other.entry.format && matches!(&self.entry.format.0, b"ac-3" | b"ec-3"))
    }
}

fn entry(handler: [u8; 4], format: [u8; 4], payload: &[u8]) -> TrackEntry {
    let mut raw = Vec::new();
    boxed(&mut raw, format, payload);
    let entry = SampleEntry { format: FourCc(format), data_reference_index: 1, raw: raw.into() };
    TrackEntry { handler: FourCc(handler), entry, size: (0, 0) }
}

fn boxed(out: &mut Vec<u8>, kind: [u8; 4], payload: &[u8]) {
    put_header(out, FourCc(kind), payload.len() as u64);
    out.extend_from_slice(payload);
}

/// Returns a VisualSampleEntry (§12.1.3) with one configuration record. Without `size`, the
/// record's size is used. Returns `None` if the record has no size either.
pub(super) fn video_entry(
    format: [u8; 4],
    kind: [u8; 4],
    record: &[u8],
    size: Option<(u16, u16)>,
) -> Option<TrackEntry> {
    let with = |(width, height): (u16, u16)| {
        let mut out = vec![0; 6];
        out.put_u16(1);
        out.put_bytes(0, 16);
        out.put_u16(width);
        out.put_u16(height);
        // 72 dpi, one frame per sample, no compressor name, 24 bits.
        out.put_u32(0x48_0000);
        out.put_u32(0x48_0000);
        out.put_u32(0);
        out.put_u16(1);
        out.put_bytes(0, 32);
        out.put_u16(0x18);
        out.put_u16(0xffff);
        boxed(&mut out, kind, record);
        TrackEntry { size: (width, height), ..entry(*b"vide", format, &out) }
    };
    let size = match size {
        Some(size) => size,
        None => match describe_entry(&with((0, 0)))?.media {
            Media::Video(video) if video.width > 0 && video.height > 0 => (video.width, video.height),
            _ => return None,
        },
    };
    Some(with(size))
}

/// Returns the description of an entry's coding, if it can be read.
pub(super) fn describe_entry(entry: &TrackEntry) -> Option<Codec> {
    describe(&entry.entry, entry.handler).ok()
}

/// Returns an AudioSampleEntry (§12.2.3).
pub(super) fn audio_entry(format: &AudioFormat) -> TrackEntry {
    match &format.coding {
        AudioCoding::Aac(config) => audio(*b"mp4a", format, *b"esds", &elementary_stream(0x40, config)),
        AudioCoding::Mpeg => {
            // Rates below 32 kHz are those of MPEG-2.
            let object_type = if format.rate < 32_000 { 0x69 } else { 0x6b };
            audio(*b"mp4a", format, *b"esds", &elementary_stream(object_type, &[]))
        }
        AudioCoding::Ac3(record) => audio(*b"ac-3", format, *b"dac3", record),
        AudioCoding::Eac3(record) => audio(*b"ec-3", format, *b"dec3", record),
    }
}

fn audio(code: [u8; 4], format: &AudioFormat, kind: [u8; 4], record: &[u8]) -> TrackEntry {
    let mut out = vec![0; 6];
    out.put_u16(1);
    out.put_bytes(0, 8);
    out.put_u16(format.channels);
    out.put_u16(16);
    out.put_u32(0);
    out.put_u16(u16::try_from(format.rate).unwrap_or(0));
    out.put_u16(0);
    boxed(&mut out, kind, record);
    entry(*b"soun", code, &out)
}

/// Returns an XMLSubtitleSampleEntry (ISO/IEC 14496-30 §5.3) for TTML.
pub(super) fn ttml_entry() -> TrackEntry {
    let mut out = vec![0; 6];
    out.put_u16(1);
    out.extend_from_slice(b"http://www.w3.org/ns/ttml\0\0\0");
    entry(*b"subt", *b"stpp", &out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codec_names_of_the_entries_are_those_of_their_codings() {
        let of = |coding, rate| AudioFormat { coding, rate, channels: 2 };
        for (entry, name) in [
            (audio_entry(&of(AudioCoding::Aac(vec![0x11, 0x90]), 48_000)), "mp4a.40.2"),
            (audio_entry(&of(AudioCoding::Mpeg, 44_100)), "mp4a.6B"),
            (audio_entry(&of(AudioCoding::Mpeg, 22_050)), "mp4a.69"),
            (audio_entry(&of(AudioCoding::Ac3(vec![0x10, 0x11, 0x40]), 48_000)), "ac-3"),
            (audio_entry(&of(AudioCoding::Eac3(vec![0x07, 0, 0x20, 0x0f, 0]), 48_000)), "ec-3"),
            (ttml_entry(), "stpp"),
        ] {
            assert_eq!(describe_entry(&entry).unwrap().rfc6381.split(".im").next(), Some(name));
        }
        assert_eq!(
            video_entry(*b"avc1", *b"avcC", &[1, 66, 0, 30, 0xff, 0xe0, 0], None),
            None,
            "the record has no size"
        );
    }
}
