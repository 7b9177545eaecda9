//! Tests that cover every kind of sample entry.

use super::sample_entries::{audio, audio_entry, boxed, entry, hex, video_entry};
use crate::codec::{Colour, Config, DeclaredBitrate, Media, VideoRange, configuration_record, describe};
use crate::{Error, FourCc, boxes::stsd::SampleEntry};
use bytes::Bytes;
use proptest::prelude::{Just, Strategy, any, prop_oneof, proptest};

const AVCC: &str = "0164001fffe100196764001facd9404405be5f011000003e90000ea600f183196001000668ebe3cb22c0";
const ESDS: &str = "00000000 0319 0000 00 0411 40 15 000300 00030d40 00010000 0502 1208 060102";

fn sinf(original: &[u8; 4], scheme: Option<&[u8; 4]>, schi: &[u8]) -> Vec<u8> {
    let mut boxes = boxed(b"frma", original);
    if let Some(scheme) = scheme {
        boxes.extend(boxed(b"schm", &[&[0; 4], &scheme[..], &[0, 1, 0, 0]].concat()));
    }
    boxes.extend(boxed(b"schi", schi));
    boxed(b"sinf", &boxes)
}

#[test]
fn encrypted_entries_are_described_as_their_original() {
    let boxes = [boxed(b"avcC", &hex(AVCC)), sinf(b"avc1", Some(b"cbcs"), b"")];
    let codec = describe(&video_entry(b"encv", 1080, 720, &boxes), FourCc(*b"vide")).unwrap();
    assert_eq!((codec.format, codec.protection), (FourCc(*b"avc1"), Some(FourCc(*b"cbcs"))));
    assert_eq!(codec.rfc6381, "avc1.64001f");
    let boxes = [boxed(b"esds", &hex(ESDS)), sinf(b"mp4a", Some(b"cenc"), b"")];
    let codec = describe(&audio_entry(b"enca", 2, 44100, &boxes), FourCc(*b"soun")).unwrap();
    assert_eq!((codec.rfc6381.as_str(), codec.protection), ("mp4a.40.2", Some(FourCc(*b"cenc"))));
    assert!(matches!(codec.config, Config::Aac(_)));
}

#[test]
fn piff_is_recognised_by_its_own_track_encryption_box() {
    let tenc = boxed(
        b"uuid",
        &hex("8974dbce7be74c5184f97148f9882554 00000000 000001 08 00112233445566778899aabbccddeeff"),
    );
    let boxes = [boxed(b"avcC", &hex(AVCC)), sinf(b"avc1", None, &tenc)];
    let codec = describe(&video_entry(b"encv", 1080, 720, &boxes), FourCc(*b"vide")).unwrap();
    assert_eq!(codec.protection, Some(FourCc(*b"piff")));
    let boxes = [boxed(b"avcC", &hex(AVCC)), sinf(b"avc1", None, &boxed(b"tenc", &[0; 24]))];
    let codec = describe(&video_entry(b"encv", 1080, 720, &boxes), FourCc(*b"vide"));
    assert!(matches!(codec, Err(Error::Missing { missing: FourCc([b's', b'c', b'h', b'm']), .. })));
    let codec = describe(&video_entry(b"encv", 1080, 720, &[boxed(b"avcC", &hex(AVCC))]), FourCc(*b"vide"));
    assert!(matches!(codec, Err(Error::Missing { missing: FourCc([b's', b'i', b'n', b'f']), .. })));
    // The original coding name is unknown.
    let boxes = [sinf(b"xxxx", Some(b"cenc"), b"")];
    let codec = describe(&video_entry(b"encv", 1080, 720, &boxes), FourCc(*b"vide"));
    assert!(matches!(codec, Err(Error::Unsupported { .. })));
}

#[test]
fn the_descriptor_is_found_in_quicktimes_wave() {
    let wave = [
        boxed(b"frma", b"mp4a"),
        boxed(b"mp4a", &[0; 4]),
        boxed(b"esds", &hex(ESDS)),
        vec![0, 0, 0, 8, 0, 0, 0, 0],
    ];
    let mut body = hex("000000000000 0001  0001 0000 00000000  0002 0010 fffe 0000 ac440000");
    body.extend(hex("00000400 00000000 00000000 00000002"));
    body.extend(boxed(b"wave", &wave.concat()));
    body.extend([0; 4]);
    let codec = describe(&entry(b"mp4a", &body), FourCc(*b"soun")).unwrap();
    assert_eq!(
        (codec.rfc6381.as_str(), audio(&codec).channels, audio(&codec).sample_rate),
        ("mp4a.40.2", 1, 44100)
    );
    // Version 2 has its own fields for channels and rate, which count here.
    let mut body = hex("000000000000 0001  0002 0000 00000000  0003 0010 fffe 0000 00010000");
    body.extend(hex("00000048 40e7700000000000 00000006 7f000000 00000018 00000000 00000000 00000001"));
    let codec = describe(&entry(b"lpcm", &body), FourCc(*b"soun")).unwrap();
    assert_eq!(
        (codec.rfc6381.as_str(), audio(&codec).channels, audio(&codec).sample_rate),
        ("lpcm", 6, 48000)
    );
}

#[test]
fn bit_rates_of_the_box_take_precedence_over_the_descriptor() {
    let esds = boxed(b"esds", &hex(ESDS));
    let rates = |btrt: &str| {
        let mut boxes = vec![esds.clone()];
        if !btrt.is_empty() {
            boxes.push(boxed(b"btrt", &hex(btrt)));
        }
        describe(&audio_entry(b"mp4a", 2, 44100, &boxes), FourCc(*b"soun")).unwrap().declared_bitrate
    };
    assert_eq!(rates(""), DeclaredBitrate { max: Some(200_000), average: Some(65536) });
    assert_eq!(rates("00000000 00000001 00000002"), DeclaredBitrate { max: Some(1), average: Some(2) });
    assert_eq!(rates("00000000 00000000 00000002"), DeclaredBitrate { max: Some(200_000), average: Some(2) });
}

#[test]
fn colour_boxes_are_read() {
    let read = |colr: &[&str]| {
        let mut boxes = vec![boxed(b"avcC", &hex(AVCC))];
        boxes.extend(colr.iter().map(|colr| boxed(b"colr", &hex(colr))));
        let codec = describe(&video_entry(b"avc1", 1080, 720, &boxes), FourCc(*b"vide")).unwrap();
        let Media::Video(video) = codec.media else { panic!() };
        (video.colour, video.range)
    };
    let hlg = Colour { primaries: 9, transfer: 18, matrix: 9 };
    assert_eq!(read(&["6e636c78 0009 0012 0009 00"]), (Some(hlg), VideoRange::Hlg));
    assert_eq!(read(&["6e636c63 0009 0012 0009"]), (Some(hlg), VideoRange::Hlg));
    assert_eq!(read(&["70726f66 000102030405", "6e636c78 0009 0012 0009 00"]), (Some(hlg), VideoRange::Hlg));
    assert_eq!(read(&["6e636c78 0002 0002 0002 00"]), (None, VideoRange::Sdr));
    assert_eq!(read(&["6e636c78 0009"]), (None, VideoRange::Sdr));
    assert_eq!(
        read(&["6e636c78 0100 0010 0009 00"]).0,
        Some(Colour { primaries: 2, transfer: 16, matrix: 9 })
    );
}

#[test]
fn opus_flac_and_mp3_are_described() {
    let dops = boxed(b"dOps", &hex("00 06 0138 00003e80 0000 01 04 02 000405010203"));
    let codec = describe(&audio_entry(b"Opus", 2, 16000, &[dops]), FourCc(*b"soun")).unwrap();
    assert_eq!(
        (codec.rfc6381.as_str(), audio(&codec).channels, audio(&codec).sample_rate),
        ("Opus", 6, 48000)
    );
    let dops = boxed(b"dOps", &hex("01 02 0138 0000bb80 0000 00"));
    assert!(matches!(
        describe(&audio_entry(b"Opus", 2, 48000, &[dops]), FourCc(*b"soun")),
        Err(Error::Unsupported { .. })
    ));
    // 96 kHz in 20 bits, six channels, 24 bits a sample: 0001 0111 0111 0000 0000 | 101 | 10111 | …
    let dfla = boxed(
        b"dfLa",
        &hex(
            "00000000 80 000022 1000 1000 000000 000000 17700 b70 00000000 00000000000000000000000000000000",
        ),
    );
    let codec = describe(&audio_entry(b"fLaC", 2, 0, std::slice::from_ref(&dfla)), FourCc(*b"soun")).unwrap();
    assert_eq!(
        (codec.rfc6381.as_str(), audio(&codec).channels, audio(&codec).sample_rate),
        ("fLaC", 6, 96000)
    );
    let other = boxed(b"dfLa", &hex("00000000 84 000022 00"));
    assert!(matches!(
        describe(&audio_entry(b"fLaC", 2, 0, &[other]), FourCc(*b"soun")),
        Err(Error::BadValue { .. })
    ));
    let mp3 = describe(&audio_entry(b".mp3", 2, 44100, &[]), FourCc(*b"soun")).unwrap();
    assert_eq!((mp3.rfc6381.as_str(), mp3.config), ("mp3", Config::Mp3));
}

#[test]
fn errors_name_the_box_and_the_byte() {
    let codec = describe(&video_entry(b"avc1", 16, 16, &[boxed(b"avcC", &hex("0164"))]), FourCc(*b"vide"));
    assert_eq!(codec.unwrap_err().to_string(), "stsd/avc1/avcC at byte 86: truncated");
}

/// Every coding name that has its own parser, with the box it reads.
fn formats() -> impl Strategy<Value = (&'static [u8; 4], &'static [u8; 4])> {
    let known: [(&[u8; 4], &[u8; 4]); 21] = [
        (b"avc1", b"avcC"),
        (b"hvc1", b"hvcC"),
        (b"dvh1", b"dvcC"),
        (b"av01", b"av1C"),
        (b"vp09", b"vpcC"),
        (b"mp4v", b"esds"),
        (b"vvc1", b"vvcC"),
        (b"encv", b"sinf"),
        (b"mp4a", b"esds"),
        (b"mp4a", b"wave"),
        (b"ac-3", b"dac3"),
        (b"ec-3", b"dec3"),
        (b"ac-4", b"dac4"),
        (b"Opus", b"dOps"),
        (b"fLaC", b"dfLa"),
        (b"dtsc", b"ddts"),
        (b"dtsx", b"udts"),
        (b"alac", b"alac"),
        (b"iamf", b"iacb"),
        (b"stpp", b"mime"),
        (b"enct", b"sinf"),
    ];
    proptest::sample::select(known.to_vec())
}

#[test]
fn a_configuration_record_is_returned_as_stored() {
    let video = video_entry(b"avc1", 16, 16, &[boxed(b"pasp", &[0; 8]), boxed(b"avcC", &hex(AVCC))]);
    assert_eq!(configuration_record(&video, b"avcC").unwrap(), hex(AVCC));
    assert_eq!(configuration_record(&video, b"hvcC"), None);
    let audio = audio_entry(b"ec-3", 2, 48000, &[boxed(b"dec3", &[1, 2, 3])]);
    assert_eq!(configuration_record(&audio, b"dec3").unwrap()[..], [1, 2, 3]);
    let cut =
        SampleEntry { format: FourCc(*b"avc1"), data_reference_index: 1, raw: Bytes::from_static(b"\0\0") };
    assert_eq!(configuration_record(&cut, b"avcC"), None);
}

proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(2000))]

    /// The whole entry is random.
    #[test]
    fn any_bytes_are_read_without_panic(
        (format, _) in formats(),
        handler in prop_oneof![Just(*b"vide"), Just(*b"soun"), Just(*b"subt")],
        raw in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let entry = SampleEntry { format: FourCc(*format), data_reference_index: 1, raw: raw.into() };
        let _ = describe(&entry, FourCc(handler));
    }

    /// The configuration record is random.
    #[test]
    fn any_record_is_read_without_panic(
        (format, kind) in formats(),
        record in proptest::collection::vec(any::<u8>(), 0..200),
        more in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let boxes = [boxed(kind, &record), boxed(b"hvcC", &record), boxed(b"colr", &more), more];
        let _ = describe(&video_entry(format, 16, 16, &boxes), FourCc(*b"vide"));
        let _ = describe(&audio_entry(format, 2, 48000, &boxes), FourCc(*b"soun"));
        let body = [&[0; 8][..], &boxes.concat()].concat();
        let _ = describe(&entry(format, &body), FourCc(*b"subt"));
    }

    /// A valid record with some bytes changed, which gets furthest into the parsers.
    #[test]
    fn damaged_records_are_read_without_panic(
        flips in proptest::collection::vec((any::<proptest::sample::Index>(), any::<u8>()), 0..8),
        keep in any::<proptest::sample::Index>(),
        which in 0usize..4,
    ) {
        let records: [(&[u8; 4], &[u8; 4], &str); 4] = [
            (b"avc1", b"avcC", AVCC),
            (b"mp4a", b"esds", ESDS),
            (b"av01", b"av1C", "81050c000a0b0000002d4c37b3dfff9804"),
            (b"hvc1", b"hvcC", "\
                0101600000009000000000005af000fcfdf8f800000f03200001001840010c01ffff01600000030090000003\
                000003005a959809210001002942010101600000030090000003000003005aa006b201e1d796566924cae680\
                80000003008000000f0422000100074401c172b46240"),
        ];
        let (format, kind, record) = records[which];
        let mut record = hex(record);
        for (at, value) in flips {
            *at.get_mut(&mut record) = value;
        }
        record.truncate(keep.index(record.len() + 1).max(record.len() / 2));
        let boxes = [boxed(kind, &record)];
        let _ = describe(&video_entry(format, 0, 0, &boxes), FourCc(*b"vide"));
        let _ = describe(&audio_entry(format, 2, 48000, &boxes), FourCc(*b"soun"));
    }
}
