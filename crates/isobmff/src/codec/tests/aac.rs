//! AudioSpecificConfigs written by hand from ISO/IEC 14496-3 and 23003-3.

use super::sample_entries::{audio, audio_entry, boxed, hex, packed};
use crate::codec::{Aac, Codec, Config, describe};
use crate::{Error, FourCc};

/// Describes an `mp4a` entry with this object type and decoder-specific information.
fn read_as(object_type: u8, asc: &[u8], stated_rate: u16) -> Result<Codec, Error> {
    let mut esds = hex("00000000 03 ff 0001 00 04 ff");
    esds.push(object_type);
    esds.extend(hex("15 000000 00000000 00000000 05"));
    esds.push(u8::try_from(asc.len()).unwrap());
    esds.extend(asc);
    // Each 0xff becomes a length of two bytes, the first of which states that another follows.
    let esds: Vec<u8> = esds.iter().flat_map(|&b| if b == 0xff { vec![0x81, 0] } else { vec![b] }).collect();
    describe(&audio_entry(b"mp4a", 2, stated_rate, &[boxed(b"esds", &esds)]), FourCc(*b"soun"))
}

/// Name, channels and rate; then core and signalled object type, core rate, channel configuration,
/// presence of a program config element, and frame length.
type Described = (String, u16, u32, (u8, u8, u32, u8, bool, u16));

fn flat(codec: &Codec) -> Described {
    let Config::Aac(Aac {
        core_object_type,
        object_type,
        core_sample_rate,
        channel_config,
        program_config,
        frame_length,
        ..
    }) = codec.config
    else {
        panic!("{codec:?}")
    };
    let facts =
        (core_object_type, object_type, core_sample_rate, channel_config, program_config, frame_length);
    (codec.rfc6381.clone(), audio(codec).channels, audio(codec).sample_rate, facts)
}

fn read(bits: &str) -> Described {
    flat(&read_as(0x40, &packed(bits), 0).unwrap())
}

#[test]
fn low_complexity_configurations_are_read() {
    assert_eq!(read("00010 0100 0010 000"), ("mp4a.40.2".into(), 2, 44100, (2, 2, 44100, 2, false, 1024)));
    assert_eq!(read("00010 0011 0110 100"), ("mp4a.40.2".into(), 6, 48000, (2, 2, 48000, 6, false, 960)));
    assert_eq!(read("00010 0011 0111 000").1, 8);
    assert_eq!(read("00010 0011 1011 000").1, 7);
    assert_eq!(read("00010 0011 1100 000").1, 8);
    // 96 001 Hz, which has no index; dependsOnCoreCoder is set.
    let odd = read("00010 1111 000000010111011100000001 0001 01 00000000000000 0");
    assert_eq!((odd.1, odd.2), (1, 96001));
    assert_eq!(read("00001 0100 0010 000").0, "mp4a.40.1");
}

#[test]
fn spectral_band_replication_is_found_in_every_signalling() {
    // Hierarchical: type 5 first, then the doubled rate and the core's type.
    assert_eq!(
        read("00101 0110 0010 0011 00010 000"),
        ("mp4a.40.5".into(), 2, 48000, (2, 5, 24000, 2, false, 1024))
    );
    // The doubled rate is written out.
    assert_eq!(read("00101 0110 0010 1111 000000001011101110000000 00010 000").2, 48000);
    // Backward compatible: the sync extension follows the core.
    assert_eq!(
        read("00010 0111 0010 000 01010110111 00101 1 0100"),
        ("mp4a.40.5".into(), 2, 44100, (2, 5, 22050, 2, false, 1024))
    );
    // The sync extension states that there is no SBR.
    assert_eq!(read("00010 0100 0010 000 01010110111 00101 0").0, "mp4a.40.2");
    // A cut sync extension is ignored.
    assert_eq!(read("00010 0111 0010 000 01010110111 00101").0, "mp4a.40.2");
    // Implicit: only the sample entry's rate shows SBR.
    let asc = packed("00010 0111 0010 000");
    assert_eq!(
        flat(&read_as(0x40, &asc, 44100).unwrap()),
        ("mp4a.40.5".into(), 2, 44100, (2, 5, 22050, 2, false, 1024))
    );
    assert_eq!(flat(&read_as(0x40, &asc, 22050).unwrap()).0, "mp4a.40.2");
}

#[test]
fn parametric_stereo_counts_two_channels() {
    let hierarchical = read("11101 0111 0001 0100 00010 000");
    assert_eq!(hierarchical, ("mp4a.40.29".into(), 2, 44100, (2, 29, 22050, 1, false, 1024)));
    let compatible = read("00010 0110 0001 000 01010110111 00101 1 0011 10101001000 1");
    assert_eq!(compatible, ("mp4a.40.29".into(), 2, 48000, (2, 29, 24000, 1, false, 1024)));
    let without = read("00010 0110 0001 000 01010110111 00101 1 0011 10101001000 0");
    assert_eq!((without.0.as_str(), without.1), ("mp4a.40.5", 1));
}

#[test]
fn program_config_element_counts_the_channels() {
    // One front single, one front pair, one back pair, one LFE, no side, one data stream, four
    // couplings; a mixdown; aligned; comment of 1 byte.
    let asc = "00010 0011 0000 000  0000 01 0011  0010 0000 0001 01 001 0100  0 0 1 000  0 0000 1 0000  \
               1 0001  0000 1111 10000100001000010000";
    let padding = "0".repeat((8 - asc.bytes().filter(|b| !b.is_ascii_whitespace()).count() % 8) % 8);
    let whole = format!("{asc}{padding} 00000001 01111000");
    assert_eq!(read(&whole), ("mp4a.40.2".into(), 6, 48000, (2, 2, 48000, 0, true, 1024)));
    // The comment's byte is missing.
    let cut = read_as(0x40, &packed(&format!("{asc}{padding} 00000001")), 0);
    assert!(matches!(cut, Err(Error::Truncated { .. })));
    // Backward compatible SBR follows: the element ends on a byte boundary.
    assert_eq!(read(&format!("{whole} 01010110111 00101 1 0011")).0, "mp4a.40.5");
}

#[test]
fn low_delay_configurations_are_read() {
    assert_eq!(
        read("10111 0011 0010 000 00"),
        ("mp4a.40.23".into(), 2, 48000, (23, 23, 48000, 2, false, 512))
    );
    // ELD, 480 samples, low-delay SBR at the double rate.
    let eld = read("11111 000111 0110 0010 1 000 1 1 0 0000");
    assert_eq!(eld, ("mp4a.40.39".into(), 2, 48000, (39, 39, 24000, 2, false, 480)));
    assert_eq!(read("11111 000111 0110 0010 0 000 0 0000").2, 24000);
}

#[test]
fn xhe_aac_configurations_are_read() {
    // AOT 42; 48 kHz; then UsacConfig: 48 kHz, 2:1 SBR (2048 samples out), stereo.
    let usac = read("11111 001010 0011 0010 00011 011 00010 000000");
    assert_eq!(usac, ("mp4a.40.42".into(), 2, 48000, (42, 42, 48000, 2, false, 2048)));
    // 38.4 kHz by index, 4:1, mono; then an escaped rate without SBR and a channel count written
    // out.
    let more = read("11111 001010 1111 000000001001011000000000 0001 10010 100 00001 0000");
    assert_eq!((more.1, more.2, more.3.5), (1, 38400, 4096));
    let escaped = read("11111 001010 0011 0000 11111 000000001010110001000100 001 00000 11111 00000011 0000");
    assert_eq!((escaped.1, escaped.2, escaped.3.5), (34, 44100, 1024));
    let cut = read_as(0x40, &packed("11111 001010 0011 0010 0001"), 0);
    assert!(matches!(cut, Err(Error::Truncated { .. })));
}

#[test]
fn other_object_type_indications_name_their_codec() {
    let asc = packed("00010 0100 0010 000");
    let mpeg2 = read_as(0x67, &asc, 44100).unwrap();
    assert_eq!(flat(&mpeg2).0, "mp4a.67");
    let name = |object_type| {
        let codec = read_as(object_type, &[], 44100).unwrap();
        assert_eq!((audio(&codec).channels, audio(&codec).sample_rate), (2, 44100));
        (codec.rfc6381, codec.config)
    };
    assert_eq!(name(0x6b), ("mp4a.6B".into(), Config::Mp3));
    assert_eq!(name(0x69), ("mp4a.69".into(), Config::Mp3));
    assert_eq!(name(0xa5), ("mp4a.A5".into(), Config::Ac3));
    assert_eq!(name(0xa6), ("mp4a.A6".into(), Config::Eac3));
    assert_eq!(name(0xa9), ("mp4a.A9".into(), Config::Dts));
    assert_eq!(name(0xdd), ("mp4a.DD".into(), Config::Other));
    let layer3 = read_as(0x40, &packed("11111 000010 0100 0010"), 44100).unwrap();
    assert_eq!((layer3.rfc6381.as_str(), &layer3.config), ("mp4a.40.34", &Config::Mp3));
}

#[test]
fn malformed_configurations_are_refused() {
    let fault = |bits: &str| read_as(0x40, &packed(bits), 0).unwrap_err();
    assert!(matches!(fault("00010 1101 0010 000"), Error::BadValue { .. }), "reserved rate");
    assert!(
        matches!(fault("00010 1111 000000000000000000000000 0010 000"), Error::BadValue { .. }),
        "rate 0"
    );
    assert!(matches!(fault("00000 0100 0010 000"), Error::BadValue { .. }), "no object type");
    assert!(matches!(fault("00101 0110 0010 0011 00101 000"), Error::BadValue { .. }), "SBR upon SBR");
    assert!(matches!(fault("11111 000100 0100 0010 000"), Error::Unsupported { .. }), "ALS");
    assert!(matches!(fault("10001 0100 0010 000 10"), Error::Unsupported { .. }), "error protection");
    assert!(matches!(fault("00010 010"), Error::Truncated { .. }));
}
