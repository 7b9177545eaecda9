//! Coding names that no output protocol carries, described well enough for a report.

use super::audio_coding::AudioCoding;
use super::children::{Child, Children};
use super::description::Config;
use super::sample_entry::AudioFields;
use crate::FourCc;
use crate::bits::BitReader;

/// Video: VVC, EVC, H.263, ProRes, DV, AVS and QuickTime's own.
const VIDEO: [&[u8; 4]; 39] = [
    b"vvc1", b"vvi1", b"evc1", b"s263", b"h263", b"H263", b"mp1v", b"mp2v", b"m2v1", b"mjp2", b"mjpa",
    b"mjpb", b"png ", b"apch", b"apcn", b"apcs", b"apco", b"ap4h", b"ap4x", b"AVdn", b"AVdh", b"dvc ",
    b"dvcp", b"dv5n", b"dv5p", b"avs3", b"avst", b"vc-1", b"ovc1", b"SVQ1", b"SVQ3", b"cvid", b"rle ",
    b"2vuy", b"v210", b"uncv", b"mvc1", b"lhv1", b"raw ",
];

/// Audio: the forms of PCM, ALAC, TrueHD, MPEG-H, IAMF, speech codecs and QuickTime's own.
const AUDIO: [&[u8; 4]; 38] = [
    b"ipcm", b"fpcm", b"twos", b"sowt", b"lpcm", b"in24", b"in32", b"fl32", b"fl64", b"s16l", b"NONE",
    b"ulaw", b"alaw", b"alac", b"mlpa", b"mha1", b"mha2", b"mhm1", b"mhm2", b"iamf", b"samr", b"sawb",
    b"sawp", b"sevc", b"sqcp", b"ssmv", b"spex", b"QDM2", b"QDMC", b"MAC3", b"MAC6", b"ima4", b"agsm",
    b"dra1", b"g719", b"g726", b"m4ae", b"raw ",
];

pub(super) fn is_video(format: FourCc) -> bool {
    VIDEO.contains(&&format.0)
}

pub(super) fn is_audio(format: FourCc) -> bool {
    // Microsoft's format tags 2 and 0x11 are two forms of ADPCM.
    AUDIO.contains(&&format.0) || matches!(&format.0, b"ms\0\x02" | b"ms\0\x11")
}

/// Returns the coding name without the spaces that pad it.
fn name(format: FourCc) -> String {
    format.to_string().trim_end().to_owned()
}

pub(super) fn video_rfc6381(format: FourCc, boxes: &Children) -> String {
    let vvc = if matches!(&format.0, b"vvc1" | b"vvi1") { boxes.first(b"vvcC") } else { None };
    vvc.and_then(|vvcc| vvc_rfc6381(format, &vvcc)).unwrap_or_else(|| name(format))
}

/// Returns e.g. `vvc1.1.L51`: profile, tier and level of `vvcC` (ISO/IEC 14496-15 §11.2.4.2, Annex
/// E.6). The constraint and sub-profile elements are optional and left out.
fn vvc_rfc6381(format: FourCc, vvcc: &Child) -> Option<String> {
    let (_, mut bits) = vvcc.full_box().ok()?;
    // Reserved, LengthSizeMinusOne.
    bits.skip(5 + 2)?;
    if !bits.flag()? {
        return None;
    }
    // ols_idx, num_sublayers, constant_frame_rate, chroma_format_idc, bit_depth_minus8, reserved;
    // reserved and num_bytes_constraint_info.
    bits.skip(9 + 3 + 2 + 2 + 3 + 5 + 8)?;
    let profile = bits.u8(7)?;
    let tier = if bits.flag()? { 'H' } else { 'L' };
    let level = bits.u8(8)?;
    Some(format!("{format}.{profile}.{tier}{level}"))
}

pub(super) fn audio(format: FourCc, boxes: &Children, stated: AudioFields) -> AudioCoding {
    let (named, fields) = match &format.0 {
        b"alac" => (None, alac(boxes)),
        b"mha1" | b"mha2" | b"mhm1" | b"mhm2" => mpeg_h(format, boxes).unzip(),
        b"iamf" => (boxes.first(b"iacb").and_then(|iacb| iamf_rfc6381(&iacb)), None),
        _ => (None, None),
    };
    let fields = fields.unwrap_or(AudioFields { channels: 0, sample_rate: 0 });
    AudioCoding::new(named.unwrap_or_else(|| name(format)), Config::Other, fields, stated)
}

/// Reads ALACSpecificConfig from the `alac` box of the `alac` entry, or of QuickTime's `wave`.
fn alac(boxes: &Children) -> Option<AudioFields> {
    let cookie = boxes.first_or_in_wave(b"alac")?;
    let (_, mut bits) = cookie.full_box().ok()?;
    // frameLength to kb; maxRun to avgBitRate.
    bits.skip((4 + 5) * 8)?;
    let channels = bits.u16(8)?;
    bits.skip((2 + 4 + 4) * 8)?;
    Some(AudioFields { channels, sample_rate: bits.bits(32)? })
}

/// Channels by ChannelConfiguration, from 1 on (ISO/IEC 23091-3 Table 10); 0 for the reserved 8.
const CHANNEL_CONFIGURATIONS: [u16; 20] = [1, 2, 3, 4, 5, 6, 8, 0, 3, 4, 7, 8, 24, 8, 12, 10, 12, 14, 12, 14];

/// Reads `mhm1.0x0D`, profile and level in hexadecimal (ISO/IEC 23008-3 §20.4), and the reference
/// layout of `mhaC`.
fn mpeg_h(format: FourCc, boxes: &Children) -> Option<(String, AudioFields)> {
    let mhac = boxes.first(b"mhaC")?;
    let mut bits = mhac.bits();
    bits.skip(8)?;
    let profile_level = bits.u8(8)?;
    let layout = bits.u8(8)?;
    let channels = usize::from(layout).checked_sub(1).and_then(|i| CHANNEL_CONFIGURATIONS.get(i).copied());
    let coded = AudioFields { channels: channels.unwrap_or(0), sample_rate: 0 };
    Some((format!("{format}.0x{profile_level:02X}"), coded))
}

/// Returns e.g. `iamf.000.000.Opus`: both profiles and the codec of the first codec configuration
/// (IAMF v1.0 §6.3).
fn iamf_rfc6381(iacb: &Child) -> Option<String> {
    /// obu_type of an IA sequence header and of a codec configuration (IAMF v1.0 §3.2).
    const SEQUENCE_HEADER: u8 = 31;
    const CODEC_CONFIG: u8 = 0;
    let mut bits = iacb.bits();
    bits.skip(8)?;
    bits.leb128()?;
    let mut profiles = None;
    loop {
        let kind = bits.u8(5)?;
        bits.skip(3)?;
        let size = usize::try_from(bits.leb128()?).ok()?;
        let mut obu = BitReader::new(bits.bytes(size)?);
        match (kind, profiles) {
            (SEQUENCE_HEADER, _) => {
                obu.skip(32)?;
                profiles = Some((obu.u8(8)?, obu.u8(8)?));
            }
            (CODEC_CONFIG, Some((primary, additional))) => {
                obu.leb128()?;
                let codec = FourCc(obu.bits(32)?.to_be_bytes());
                // IAMF admits this profile of AAC only.
                let suffix = if codec == b"mp4a" { ".40.2" } else { "" };
                return Some(format!("iamf.{primary:03}.{additional:03}.{codec}{suffix}"));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::codec::tests::sample_entries::{audio, audio_entry, boxed, hex, video_entry};
    use crate::codec::{Codec, Config, Media, describe};
    use crate::{Error, FourCc};

    fn read(format: &[u8; 4], boxes: &[Vec<u8>]) -> Codec {
        let codec = describe(&audio_entry(format, 2, 44100, boxes), FourCc(*b"soun")).unwrap();
        assert_eq!(codec.config, Config::Other);
        codec
    }

    #[test]
    fn audio_that_no_protocol_carries_is_named() {
        let codec = read(b"twos", &[]);
        assert_eq!(
            (codec.rfc6381.as_str(), audio(&codec).channels, audio(&codec).sample_rate),
            ("twos", 2, 44100)
        );
        let cookie =
            boxed(b"alac", &hex("00000000 00001000 00 18 28 0a 0e 06 0000 00003004 00102660 0000bb80"));
        let codec = read(b"alac", &[cookie]);
        assert_eq!(
            (codec.rfc6381.as_str(), audio(&codec).channels, audio(&codec).sample_rate),
            ("alac", 6, 48000)
        );
        let codec = read(b"mhm1", &[boxed(b"mhaC", &hex("01 0d 06 0000"))]);
        assert_eq!((codec.rfc6381.as_str(), audio(&codec).channels), ("mhm1.0x0D", 6));
        assert_eq!(read(b"mha1", &[]).rfc6381, "mha1");
        let opus =
            boxed(b"iacb", &hex("01 cf01 f806 69616d66 00 01 000e 00 4f707573 c007 fffc 0102 0138 00"));
        assert_eq!(read(b"iamf", &[opus]).rfc6381, "iamf.000.001.Opus");
        let aac = boxed(b"iacb", &hex("01 cf01 f806 69616d66 00 00 0005 00 6d703461"));
        assert_eq!(read(b"iamf", &[aac]).rfc6381, "iamf.000.000.mp4a.40.2");
        assert_eq!(read(b"iamf", &[boxed(b"iacb", &[1])]).rfc6381, "iamf");
    }

    #[test]
    fn video_that_no_protocol_carries_is_named() {
        let name = |format, boxes: &[Vec<u8>]| {
            let codec = describe(&video_entry(format, 320, 180, boxes), FourCc(*b"vide")).unwrap();
            assert!(matches!((&codec.config, &codec.media), (Config::Other, Media::Video(_))));
            codec.rfc6381
        };
        assert_eq!(name(b"vvc1", &[boxed(b"vvcC", &hex("00000000 ff 00655f 01 02 20 80"))]), "vvc1.1.L32");
        assert_eq!(name(b"vvc1", &[]), "vvc1");
        assert_eq!(name(b"s263", &[]), "s263");
        assert_eq!(name(b"png ", &[]), "png");
    }

    #[test]
    fn the_handler_decides_what_raw_is_and_unknown_names_are_refused() {
        let raw = describe(&audio_entry(b"raw ", 1, 8000, &[]), FourCc(*b"soun")).unwrap();
        assert_eq!((raw.rfc6381.as_str(), audio(&raw).sample_rate), ("raw", 8000));
        let raw = describe(&video_entry(b"raw ", 64, 48, &[]), FourCc(*b"vide")).unwrap();
        assert!(matches!(raw.media, Media::Video(_)));
        let unknown = describe(&video_entry(b"xxxx", 64, 48, &[]), FourCc(*b"vide"));
        assert!(matches!(unknown, Err(Error::Unsupported { .. })));
    }
}
