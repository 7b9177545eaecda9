//! Sample entries written anew in the form of ISO/IEC 14496-12, whatever form the source has.
//!
//! QuickTime's entries have versions, fields and boxes that parsers of ISO files refuse: browsers
//! stop at a sound description of version 1, at the four zero bytes that end a list of boxes, and
//! at a `colr` that is too short. Only boxes that are known and complete are written.

use super::children::Child;
use super::description::{Codec, Config, Media};
use super::sample_entry::{ENTRY_FIELDS, EntryBody};
use super::{colour, esds, text, video};
use crate::write::put_header;
use crate::{Error, FourCc, boxes::stsd::SampleEntry};
use bytes::BufMut;

/// The type of a box, and the smallest size of its payload.
type Known = (&'static [u8; 4], usize);

/// Boxes of video entries: decoder configurations, also those of layers, Dolby Vision, colour,
/// aspect, bit rate, light levels, stereo and spherical video.
const VIDEO: [Known; 24] = [
    (b"avcC", 7),
    (b"hvcC", 23),
    (b"av1C", 4),
    (b"vpcC", 8),
    (b"lhvC", 6),
    (b"svcC", 7),
    (b"dvcC", 5),
    (b"dvvC", 5),
    (b"dvwC", 5),
    (b"avcE", 7),
    (b"hvcE", 23),
    (b"colr", 5),
    (b"pasp", 8),
    (b"clap", 32),
    (b"btrt", 12),
    (b"mdcv", 24),
    (b"clli", 4),
    (b"amve", 8),
    (b"SmDm", 28),
    (b"CoLL", 8),
    (b"st3d", 5),
    (b"sv3d", 8),
    (b"vexu", 8),
    (b"hfov", 4),
];

/// Boxes of audio entries: decoder configurations and the bit rate.
const AUDIO: [Known; 9] = [
    (b"esds", 4),
    (b"dac3", 3),
    (b"dec3", 2),
    (b"dac4", 1),
    (b"dOps", 11),
    (b"dfLa", 4),
    (b"ddts", 20),
    (b"udts", 1),
    (b"btrt", 12),
];

/// Boxes of text entries.
const TEXT: [Known; 4] = [(b"vttC", 0), (b"vlab", 0), (b"mime", 5), (b"btrt", 12)];

/// Returns the entry that `codec` describes in ISO form. It must not be encrypted.
///
/// # Errors
/// [`Error::Missing`], [`Error::Truncated`], [`Error::BadValue`] or [`Error::Unsupported`] for the
/// causes that [`describe`](super::describe) states.
pub fn iso_entry(entry: &SampleEntry, codec: &Codec) -> Result<SampleEntry, Error> {
    let body = EntryBody::new(entry)?;
    let mut out = vec![0; ENTRY_FIELDS - 2];
    out.put_u16(entry.data_reference_index);
    let mut format = entry.format;
    match &codec.media {
        Media::Video(described) => {
            put_video(&body, (described.width, described.height), &mut out)?;
            if codec.config == Config::Jpeg {
                // The name that HLS and its players have for it, which needs no ES descriptor.
                format = FourCc(*b"mjpg");
            }
        }
        Media::Audio(_) => {
            let is_mp3 = codec.config == Config::Mp3;
            put_audio(&body, is_mp3, &mut out)?;
            if is_mp3 {
                format = FourCc(*b"mp4a");
            }
        }
        Media::Text => put_known(text::put_fields(&body, &mut out)?, &TEXT, &mut out),
    }
    let mut raw = Vec::with_capacity(out.len() + 8);
    put_box(&mut raw, format, &out);
    Ok(SampleEntry { format, raw: raw.into(), ..entry.clone() })
}

/// Appends the fields and boxes of a VisualSampleEntry (§12.1.3).
fn put_video(entry: &EntryBody, size: (u16, u16), out: &mut Vec<u8>) -> Result<(), Error> {
    let (_, boxes) = entry.video()?;
    // QuickTime states version, revision, vendor and qualities here.
    out.put_bytes(0, 16);
    out.put_u16(size.0);
    out.put_u16(size.1);
    out.put_slice(entry.field(28, 8)); // resolution
    out.put_u32(0);
    out.put_u16(1); // frame_count
    match entry.field(42, 32) {
        name @ [0..=31, ..] => out.put_slice(name),
        _ => out.put_bytes(0, 32),
    }
    out.put_slice(entry.field(74, 2)); // depth
    out.put_i16(-1);

    let full_range = video::sequence(entry)?.full_range;
    let sound = boxes.filter_map(|child| match &child.kind.0 {
        b"colr" => colour::iso_colr(child, full_range),
        b"pasp" => colour::ratio(&child).map(|_| child),
        _ => Some(child),
    });
    put_known(sound, &VIDEO, out);
    Ok(())
}

/// Appends the fields and boxes of an AudioSampleEntry of version 0 (§12.2.3). In QuickTime, the
/// boxes may lie in `wave`, and MP3 has a coding name of its own and no ES descriptor.
fn put_audio(entry: &EntryBody, is_mp3: bool, out: &mut Vec<u8>) -> Result<(), Error> {
    let (fields, boxes) = entry.audio()?;
    out.put_bytes(0, 8);
    out.put_u16(fields.channels);
    out.put_slice(entry.field(18, 2)); // samplesize
    out.put_u32(0);
    // A rate that does not fit is in the decoder configuration.
    out.put_u16(u16::try_from(fields.sample_rate).unwrap_or(0));
    out.put_u16(0);
    if is_mp3 && boxes.first_or_in_wave(b"esds").is_none() {
        put_box(out, FourCc(*b"esds"), &esds::mp3(fields.sample_rate));
    }
    let in_wave = boxes.first(b"wave").map(|wave| wave.children(0));
    let nested = |child: Child| match &child.kind.0 {
        b"esds" => Child { body: esds::nested(&child), ..child },
        _ => child,
    };
    put_known(boxes.chain(in_wave.into_iter().flatten()).map(nested), &AUDIO, out);
    Ok(())
}

/// Appends the known boxes that are complete: the first of each type, and every `colr`.
fn put_known(boxes: impl Iterator<Item = Child>, known: &[Known], out: &mut Vec<u8>) {
    let mut written: Vec<FourCc> = Vec::new();
    for child in boxes {
        let is_known = known.iter().any(|&(kind, least)| child.kind == kind && child.body.len() >= least);
        if is_known && (child.kind == b"colr" || !written.contains(&child.kind)) {
            put_box(out, child.kind, &child.body);
            written.push(child.kind);
        }
    }
}

fn put_box(out: &mut Vec<u8>, kind: FourCc, payload: &[u8]) {
    put_header(out, kind, payload.len() as u64);
    out.put_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::iso_entry;
    use crate::FourCc;
    use crate::boxes::stsd::SampleEntry;
    use crate::codec::tests::sample_entries::{audio_entry, boxed, entry, hex, packed, video_entry};
    use crate::codec::{Config, Media, describe};

    fn rewritten(entry: &SampleEntry, handler: &[u8; 4]) -> SampleEntry {
        let codec = describe(entry, FourCc(*handler)).unwrap();
        let iso = iso_entry(entry, &codec).unwrap();
        let again = describe(&iso, FourCc(*handler)).unwrap();
        assert_eq!((&again.config, &again.media), (&codec.config, &codec.media));
        assert_eq!(iso_entry(&iso, &again).unwrap(), iso, "an ISO entry stays as it is");
        iso
    }

    /// Baseline AVC of 96x64 pixels, with a video signal type.
    fn avcc(full_range: bool) -> Vec<u8> {
        let range = if full_range { "1" } else { "0" };
        let sps = packed(&format!("1 1 011 010 0 00110 00100 1 1 0 1 0 0 1 101 {range} 0 10000000"));
        let sps = [&hex("6742c01e")[..], &sps].concat();
        let length = u8::try_from(sps.len()).unwrap();
        boxed(b"avcC", &[&hex("0142c01e ff e1 00")[..], &[length], &sps, &hex("01 0004 68ce3c80")].concat())
    }

    #[test]
    fn short_and_unsound_boxes_of_video_were_copied() {
        for (colr, full_range, want) in [
            (&b"nclc\0\x01\0\x01\0\x06"[..], false, &b"nclx\0\x01\0\x01\0\x06\0"[..]),
            (b"nclc\0\x01\0\x01\0\x06", true, b"nclx\0\x01\0\x01\0\x06\x80"),
            (b"nclx\0\x09\0\x10\0\x09", true, b"nclx\0\x09\0\x10\0\x09\x80"),
            (b"nclx\0\x01\0\x01\0\x01\0", true, b"nclx\0\x01\0\x01\0\x01\0"),
            (b"prof some profile", true, b"prof some profile"),
        ] {
            let boxes = [
                avcc(full_range),
                boxed(b"colr", colr),
                boxed(b"colr", b"nclc\0\x01"),
                boxed(b"colr", b"xxxx\0\x01\0\x01\0\x01"),
                boxed(b"pasp", &[0; 8]),
                boxed(b"gama", &[0; 4]),
                boxed(b"btrt", &[0; 4]),
                vec![0; 4],
            ];
            let iso = rewritten(&video_entry(b"avc1", 0, 0, &boxes), b"vide");
            let want = video_entry(b"avc1", 96, 64, &[avcc(full_range), boxed(b"colr", want)]);
            assert_eq!(iso, want, "{colr:?}");
        }
    }

    const ESDS: &str = "00000000 03 19 0001 00 04 11 40 15 000300 00030d40 00020000 05 02 1210 06 01 02";

    /// [`ESDS`] as it is written anew.
    const WRITTEN: &str = "00000000 03 80808022 000000 04 80808014 40 15 000300 00030d40 00020000 05 80808002 \
                           1210 06 80808001 02";

    #[test]
    fn later_versions_of_audio_entries_were_copied() {
        let esds = boxed(b"esds", &hex(ESDS));
        let want = audio_entry(b"mp4a", 2, 44100, std::slice::from_ref(&esds));
        let wave =
            boxed(b"wave", &[boxed(b"frma", b"mp4a"), esds.clone(), vec![0, 0, 0, 8, 0, 0, 0, 0]].concat());
        let head = hex("000000000000 0001 0001 0000 00000000 0002 0010 fffe 0000 ac440000");
        let sizes = hex("00000400 00000000 00000000 00000002");
        let v1 = entry(b"mp4a", &[&head[..], &sizes, &wave, &boxed(b"chan", &[0; 12]), &[0; 4]].concat());
        assert_eq!(rewritten(&v1, b"soun"), want);
        // ISO's version 1, which states the rate in a box of its own.
        let srat = boxed(b"srat", &hex("00000000 0000ac44"));
        let head = hex("000000000000 0001 0001 0000 00000000 0002 0010 0000 0000 ac440000");
        assert_eq!(rewritten(&entry(b"mp4a", &[head, srat, esds].concat()), b"soun"), want);
    }

    /// Decoders that trust the lengths find no configuration, or bytes of what follows in it.
    #[test]
    fn wrong_lengths_of_descriptors_were_copied() {
        let written = "00000000 03 80808025 000000 04 80808017 40 15 000300 00030d40 00020000 05 80808005 \
                       1210 06 01 02 06 80808001 02";
        // Of each case: the lengths of the three descriptors, and what is written.
        for (elementary, config, specific, want) in [
            ("7f", "11", "02", WRITTEN),
            // The outer ones lack the bytes of inner lengths.
            ("10", "11", "02", WRITTEN),
            ("19", "0e", "02", WRITTEN),
            // The innermost includes what follows.
            ("19", "11", "05", written),
        ] {
            let esds = ESDS.replacen("03 19", &format!("03 {elementary}"), 1);
            let esds = esds.replacen("04 11", &format!("04 {config}"), 1);
            let esds = esds.replacen("05 02", &format!("05 {specific}"), 1);
            let stored = audio_entry(b"mp4a", 2, 44100, &[boxed(b"esds", &hex(&esds))]);
            let want = audio_entry(b"mp4a", 2, 44100, &[boxed(b"esds", &hex(want))]);
            assert_eq!(rewritten(&stored, b"soun"), want, "{esds}");
        }
    }

    #[test]
    fn mp3_under_a_name_of_quicktime_was_copied() {
        for (format, rate, object_type) in
            [(b".mp3", 44100, 0x6b), (b"mp3 ", 22050, 0x69), (b"ms\0\x55", 48000, 0x6b)]
        {
            let iso = rewritten(&audio_entry(format, 2, rate, &[]), b"soun");
            let codec = describe(&iso, FourCc(*b"soun")).unwrap();
            assert_eq!((iso.format, &codec.config), (FourCc(*b"mp4a"), &Config::Mp3));
            assert_eq!(codec.rfc6381, format!("mp4a.{object_type:02X}"));
            let Media::Audio(audio) = codec.media else { panic!("audio") };
            assert_eq!((audio.channels, audio.sample_rate), (2, rate.into()));
        }
    }

    #[test]
    fn text_entries_are_completed() {
        let btrt = boxed(b"btrt", &[0; 12]);
        let strings = b"\0\0\0\0\0\0\0\x01http://www.w3.org/ns/ttml\0\0";
        let want = entry(b"stpp", &[&strings[..], &[0]].concat());
        assert_eq!(rewritten(&entry(b"stpp", strings), b"subt"), want, "without auxiliary_mime_types");
        let whole = entry(b"stpp", &[&strings[..], &[0], &btrt].concat());
        assert_eq!(rewritten(&whole, b"subt"), whole);
        let vttc = boxed(b"vttC", b"WEBVTT");
        let fields = &strings[..8];
        let want = entry(b"wvtt", &[fields, &vttc, &btrt].concat());
        let stored = entry(b"wvtt", &[fields, &vttc, &boxed(b"free", &[1]), &btrt, &[0; 4]].concat());
        assert_eq!(rewritten(&stored, b"text"), want);
    }
}
