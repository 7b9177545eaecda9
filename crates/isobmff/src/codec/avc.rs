//! AVC: `avcC` (ISO/IEC 14496-15 §5.3.3.1) and its sequence parameter set.

use super::children::{Child, Position};
use super::description::Avc;
use super::parameter_sets::{Sequence, cropped, raw_payload, read_vui};
use crate::bits::BitReader;
use crate::{Error, FourCc};
use bytes::Bytes;

/// Reads `avcC`.
pub(super) fn configuration(avcc: &Child) -> Result<Avc, Error> {
    let mut bits = avcc.bits();
    let truncated = || avcc.at.truncated();
    if bits.u8(8).ok_or_else(truncated)? != 1 {
        return Err(avcc.at.unsupported("configurationVersion of avcC"));
    }
    let profile = (|| Some([bits.u8(8)?, bits.u8(8)?, bits.u8(8)?]))().ok_or_else(truncated)?;
    let nal_length_size = nal_length_size(bits.u8(8).ok_or_else(truncated)?, avcc.at)?;
    let sps_count = bits.u8(8).ok_or_else(truncated)? & 0x1f;
    let sps = nal_units(&mut bits, sps_count.into(), &avcc.body).ok_or_else(truncated)?;
    let pps_count = bits.u8(8).ok_or_else(truncated)?;
    let pps = nal_units(&mut bits, pps_count.into(), &avcc.body).ok_or_else(truncated)?;
    let sps_ext = extensions(&mut bits, profile[0], &avcc.body).unwrap_or_default();
    Ok(Avc {
        nal_length_size,
        profile,
        sps: sps.into(),
        pps: pps.into(),
        sps_ext: sps_ext.into(),
        has_layers: false,
    })
}

/// Returns the length size for lengthSizeMinusOne, the low two bits of `byte`. A length of 3 bytes
/// is forbidden.
pub(super) fn nal_length_size(byte: u8, at: Position) -> Result<u8, Error> {
    match byte & 3 {
        2 => Err(at.bad("NAL unit lengths of 3 bytes")),
        minus_one => Ok(minus_one + 1),
    }
}

/// Reads `count` NAL units, each after a 16-bit length, as views into `record`.
pub(super) fn nal_units(bits: &mut BitReader<'_>, count: usize, record: &Bytes) -> Option<Vec<Bytes>> {
    // Each takes at least two bytes, so a count that the record cannot hold is refused before
    // anything is allocated.
    if count > bits.remaining() / 16 {
        return None;
    }
    (0..count)
        .map(|_| {
            let length = usize::from(bits.u16(16)?);
            bits.bytes(length).map(|unit| record.slice_ref(unit))
        })
        .collect()
}

/// Reads the fields that follow the picture parameter sets in High profiles. Many writers leave
/// them out.
fn extensions(bits: &mut BitReader<'_>, profile: u8, record: &Bytes) -> Option<Vec<Bytes>> {
    if !matches!(profile, 100 | 110 | 122 | 144 | 244) {
        return None;
    }
    bits.skip(24)?;
    let count = bits.u8(8)?;
    nal_units(bits, count.into(), record)
}

/// Returns `avc1.PPCCLL` with six hexadecimal digits (RFC 6381 §3.3).
pub(super) fn rfc6381(format: FourCc, avc: &Avc) -> String {
    let [profile, compatibility, level] = avc.profile;
    format!("{format}.{profile:02x}{compatibility:02x}{level:02x}")
}

/// Reads a sequence parameter set. If it is cut off, the fields read until then are kept.
pub(super) fn sequence(sps: Option<&Bytes>) -> Sequence {
    let mut sequence = Sequence::default();
    if let Some(sps) = sps {
        let payload = raw_payload(sps);
        let _ = parameter_set(&mut BitReader::new(&payload), &mut sequence);
    }
    sequence
}

/// Profiles whose sequence parameter sets state the chroma format (ISO/IEC 14496-10 §7.3.2.1.1).
pub(super) const HIGH_PROFILES: [u8; 13] = [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135];

/// Reads seq_parameter_set_data() with its NAL unit header (ISO/IEC 14496-10 §7.3.2.1.1).
pub(super) fn parameter_set(bits: &mut BitReader<'_>, sequence: &mut Sequence) -> Option<()> {
    bits.skip(8)?;
    let profile = bits.u8(8)?;
    bits.skip(16)?;
    bits.ue()?;
    let mut chroma_format = 1;
    let mut separate_planes = false;
    if HIGH_PROFILES.contains(&profile) {
        chroma_format = bits.ue()?;
        if chroma_format == 3 {
            separate_planes = bits.flag()?;
        }
        bits.ue()?;
        bits.ue()?;
        bits.skip(1)?;
        if bits.flag()? {
            skip_scaling_matrix(bits, if chroma_format == 3 { 12 } else { 8 })?;
        }
    }
    bits.ue()?;
    skip_picture_order_count(bits)?;
    bits.ue()?;
    bits.skip(1)?;
    let width_in_macroblocks = u64::from(bits.ue()?) + 1;
    let height_in_map_units = u64::from(bits.ue()?) + 1;
    let frames_only = bits.flag()?;
    if !frames_only {
        bits.skip(1)?;
    }
    bits.skip(1)?;
    let map_unit = if frames_only { 1 } else { 2 };
    let mut width = width_in_macroblocks * 16;
    let mut height = height_in_map_units * 16 * map_unit;
    if bits.flag()? {
        // §7.4.2.1.1: offsets are in chroma samples; vertical ones are of a frame or a field pair.
        let (x, y) = cropped(bits, chroma_format, separate_planes)?;
        width = width.checked_sub(x)?;
        height = height.checked_sub(y * map_unit)?;
    }
    sequence.size = u16::try_from(width).ok().zip(u16::try_from(height).ok());
    if bits.flag()? {
        read_vui(bits, sequence)?;
    }
    Some(())
}

/// Skips `lists` times scaling_list(), each with its presence flag (ISO/IEC 14496-10 §7.3.2.1.1.1).
pub(super) fn skip_scaling_matrix(bits: &mut BitReader<'_>, lists: usize) -> Option<()> {
    for list in 0..lists {
        if !bits.flag()? {
            continue;
        }
        let mut last = 8i64;
        let mut next = 8i64;
        for _ in 0..if list < 6 { 16 } else { 64 } {
            if next != 0 {
                next = (last + bits.se()?).rem_euclid(256);
            }
            if next != 0 {
                last = next;
            }
        }
    }
    Some(())
}

fn skip_picture_order_count(bits: &mut BitReader<'_>) -> Option<()> {
    match bits.ue()? {
        0 => {
            bits.ue()?;
        }
        1 => {
            bits.skip(1)?;
            bits.se()?;
            bits.se()?;
            // At most 255 by §7.4.2.1.1. The record's length bounds a higher count, since each
            // offset takes at least one bit.
            for _ in 0..bits.ue()? {
                bits.se()?;
            }
        }
        _ => {}
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::sequence;
    use crate::codec::tests::sample_entries::{boxed, hex, video_entry};
    use crate::codec::{Avc, Codec, Colour, Config, Media, VideoRange, describe};
    use crate::{Error, FourCc};

    const VIDE: FourCc = FourCc(*b"vide");

    fn avc(codec: &Codec) -> &Avc {
        let Config::Avc(avc) = &codec.config else { panic!("{codec:?}") };
        avc
    }

    #[test]
    fn high_profile_with_extensions_and_a_pixel_aspect_is_described() {
        let avcc = boxed(
            b"avcC",
            &hex("0164001fffe1001d6764001facd900c8146ffc010000b440000003004000000f23c60c6580 \
                 01000568ef9cb22c fdf8f800"),
        );
        let pasp = boxed(b"pasp", &hex("00000040 0000002d"));
        let btrt = boxed(b"btrt", &hex("000123aa 0015f290 000c30e0"));
        let codec = describe(&video_entry(b"avc1", 800, 640, &[avcc, pasp, btrt]), VIDE).unwrap();
        assert_eq!(codec.rfc6381, "avc1.64001f");
        assert_eq!(
            (codec.declared_bitrate.max, codec.declared_bitrate.average),
            (Some(1_438_352), Some(798_944))
        );
        let avc = avc(&codec);
        assert_eq!(avc.nal_length_size, 4);
        assert_eq!((avc.sps.len(), avc.pps.len(), avc.sps_ext.len()), (1, 1, 0));
        assert_eq!(avc.pps[0], hex("68ef9cb22c"));
        assert_eq!(sequence(avc.sps.first()).size, Some((800, 640)));
        let Media::Video(video) = codec.media else { panic!() };
        assert_eq!((video.width, video.height, video.pixel_aspect), (800, 640, (64, 45)));
        assert_eq!((video.range, video.colour), (VideoRange::Sdr, None));
    }

    #[test]
    fn two_byte_lengths_and_coded_colour_are_described() {
        // High 4.0 1920x1080, cropped, with colour primaries, transfer and matrix 1 in its VUI.
        let avcc = boxed(
            b"avcC",
            &hex("0164001ffde1001a 2764001fac52181a1ff93ff000100016a0202036d856bdef8080 01000528f94b098b"),
        );
        let codec = describe(&video_entry(b"avc3", 0, 0, &[avcc]), VIDE).unwrap();
        assert_eq!(codec.rfc6381, "avc3.64001f");
        assert_eq!(avc(&codec).nal_length_size, 2);
        let Media::Video(video) = codec.media else { panic!() };
        assert_eq!(video.colour, Some(Colour { primaries: 1, transfer: 1, matrix: 1 }));
        assert_eq!((video.width, video.height), (416, 234), "from the parameter set: the entry states 0");
    }

    #[test]
    fn malformed_records_are_refused() {
        let read =
            |record: &str| describe(&video_entry(b"avc1", 16, 16, &[boxed(b"avcC", &hex(record))]), VIDE);
        assert!(matches!(read("0164001ffee0 00"), Err(Error::BadValue { .. })), "3-byte lengths");
        assert!(matches!(read("0264001fffe0 00"), Err(Error::Unsupported { .. })));
        for cut in [
            "",
            "0164",
            "0164001fff",
            "0164001fffe1",
            "0164001fffe1001d67",
            "0164001fffe1000167",
            "0164001fffe0 ff",
        ] {
            assert!(matches!(read(cut), Err(Error::Truncated { .. })), "{cut}");
        }
        let none = describe(&video_entry(b"avc1", 16, 16, &[]), VIDE);
        assert!(matches!(none, Err(Error::Missing { missing: FourCc(avcc), .. }) if &avcc == b"avcC"));
    }
}
