//! Sample entries (ISO/IEC 14496-12 §8.5.2) for what came in another container, and so without one.

use crate::frames::{Coding, Sound};
use bytes::{BufMut, Bytes};
use latemux_isobmff::{
    FourCc,
    boxes::stsd::SampleEntry,
    codec::{Codec, Media, describe},
    emit::put_header,
};

/// A sample entry, and for what is seen its size in pixels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) handler: FourCc,
    pub(super) entry: SampleEntry,
    pub(super) size: (u16, u16),
}

impl Entry {
    /// Whether samples of another entry may stand among its own. What is said of the bit rate of Dolby's codings differs from segment to segment.
    pub(super) fn takes(&self, other: &Self) -> bool {
        self == other
            || (self.entry.format == other.entry.format && matches!(&self.entry.format.0, b"ac-3" | b"ec-3"))
    }
}

fn whole(handler: [u8; 4], format: [u8; 4], payload: &[u8]) -> Entry {
    let mut raw = Vec::new();
    put_header(&mut raw, FourCc(format), u64::try_from(payload.len()).unwrap_or(u64::MAX));
    raw.extend_from_slice(payload);
    let entry = SampleEntry { format: FourCc(format), data_reference_index: 1, raw: raw.into() };
    Entry { handler: FourCc(handler), entry, size: (0, 0) }
}

fn boxed(out: &mut Vec<u8>, kind: [u8; 4], payload: &[u8]) {
    put_header(out, FourCc(kind), u64::try_from(payload.len()).unwrap_or(u64::MAX));
    out.extend_from_slice(payload);
}

/// A VisualSampleEntry (§12.1.3) with one configuration record. Without a size it has that of the record; `None` where that says none.
pub(super) fn visual(
    format: [u8; 4],
    kind: [u8; 4],
    record: &[u8],
    size: Option<(u16, u16)>,
) -> Option<Entry> {
    let with = |(width, height): (u16, u16)| {
        let mut out = vec![0; 6];
        out.put_u16(1);
        out.put_bytes(0, 16);
        out.put_u16(width);
        out.put_u16(height);
        // 72 dpi, one frame per sample, no compressor's name, 24 bits.
        out.put_u32(0x48_0000);
        out.put_u32(0x48_0000);
        out.put_u32(0);
        out.put_u16(1);
        out.put_bytes(0, 32);
        out.put_u16(0x18);
        out.put_u16(0xffff);
        boxed(&mut out, kind, record);
        Entry { size: (width, height), ..whole(*b"vide", format, &out) }
    };
    let size = match size {
        Some(size) => size,
        None => match described(&with((0, 0)))?.media {
            Media::Video(video) if video.width > 0 && video.height > 0 => (video.width, video.height),
            _ => return None,
        },
    };
    Some(with(size))
}

/// What an entry says of its coding, where it can be read.
pub(super) fn described(entry: &Entry) -> Option<Codec> {
    describe(&entry.entry, entry.handler).ok()
}

/// An AudioSampleEntry (§12.2.3).
pub(super) fn sound(sound: &Sound) -> Entry {
    match &sound.coding {
        Coding::Aac(config) => audio(*b"mp4a", sound, *b"esds", &elementary_stream(0x40, config)),
        // Rates below 32 kHz are MPEG-2's.
        Coding::Mpeg if sound.rate < 32_000 => {
            audio(*b"mp4a", sound, *b"esds", &elementary_stream(0x69, &[]))
        }
        Coding::Mpeg => audio(*b"mp4a", sound, *b"esds", &elementary_stream(0x6b, &[])),
        Coding::Ac3(record) => audio(*b"ac-3", sound, *b"dac3", record),
        Coding::Eac3(record) => audio(*b"ec-3", sound, *b"dec3", record),
    }
}

fn audio(format: [u8; 4], sound: &Sound, kind: [u8; 4], record: &[u8]) -> Entry {
    let mut out = vec![0; 6];
    out.put_u16(1);
    out.put_bytes(0, 8);
    out.put_u16(sound.channels);
    out.put_u16(16);
    out.put_u32(0);
    out.put_u16(u16::try_from(sound.rate).unwrap_or(0));
    out.put_u16(0);
    boxed(&mut out, kind, record);
    whole(*b"soun", format, &out)
}

/// An XMLSubtitleSampleEntry (ISO/IEC 14496-30 §5.3) of TTML.
pub(super) fn timed_text() -> Entry {
    let mut out = vec![0; 6];
    out.put_u16(1);
    out.extend_from_slice(b"http://www.w3.org/ns/ttml\0\0\0");
    whole(*b"subt", *b"stpp", &out)
}

/// `esds` (ISO/IEC 14496-1 §7.2.6): an object type, and what its decoder is told.
fn elementary_stream(object_type: u8, specific: &[u8]) -> Bytes {
    let tagged = |tag: u8, payload: &[u8]| {
        let size = u32::try_from(payload.len()).unwrap_or(0);
        // Sizes may be of up to four bytes of seven bits each (§8.3.3).
        let digit = |place: u32| u8::try_from(size >> (7 * place) & 0x7f).unwrap_or(0);
        let mut out = vec![tag, 0x80 | digit(3), 0x80 | digit(2), 0x80 | digit(1), digit(0)];
        out.extend_from_slice(payload);
        out
    };
    // An audio stream; nothing is claimed of buffers and bit rates.
    let mut decoder = vec![object_type, 0x15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    if !specific.is_empty() {
        decoder.extend(tagged(5, specific));
    }
    let stream = [vec![0, 0, 0], tagged(4, &decoder), tagged(6, &[2])].concat();
    [vec![0; 4], tagged(3, &stream)].concat().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_as_they_were_meant() {
        let of = |coding, rate| Sound { coding, rate, channels: 2 };
        for (entry, name) in [
            (sound(&of(Coding::Aac(vec![0x11, 0x90]), 48_000)), "mp4a.40.2"),
            (sound(&of(Coding::Mpeg, 44_100)), "mp4a.6B"),
            (sound(&of(Coding::Mpeg, 22_050)), "mp4a.69"),
            (sound(&of(Coding::Ac3(vec![0x10, 0x11, 0x40]), 48_000)), "ac-3"),
            (sound(&of(Coding::Eac3(vec![0x07, 0, 0x20, 0x0f, 0]), 48_000)), "ec-3"),
            (timed_text(), "stpp"),
        ] {
            assert_eq!(described(&entry).unwrap().rfc6381.split(".im").next(), Some(name));
        }
        assert_eq!(visual(*b"avc1", *b"avcC", &[1, 66, 0, 30, 0xff, 0xe0, 0], None), None, "no size in it");
    }
}
