//! HEVC: `hvcC` (ISO/IEC 14496-15 §8.3.3.1) and its codec string (ISO/IEC 14496-15 Annex E.3).

use super::avc::{nal_length_size, nal_units};
use super::children::Child;
use super::description::Hevc;
use super::hevc_sps;
use super::parameter_sets::{Sequence, raw_payload};
use crate::bits::BitReader;
use crate::{Error, FourCc};
use std::fmt::Write;

/// general_profile_space to general_level_idc, as `hvcC` and a parameter set hold them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ProfileTierLevel {
    space: u8,
    high_tier: bool,
    profile: u8,
    compatibility: u32,
    constraints: [u8; 6],
    level: u8,
}

/// Reads `hvcC`.
pub(super) fn configuration(hvcc: &Child) -> Result<(Hevc, ProfileTierLevel), Error> {
    let mut bits = hvcc.bits();
    let truncated = || hvcc.at.truncated();
    // Version 0 dates from before the standard was final and has the same layout.
    if bits.u8(8).ok_or_else(truncated)? > 1 {
        return Err(hvcc.at.unsupported("configurationVersion of hvcC"));
    }
    let profile = profile_tier_level(&mut bits).ok_or_else(truncated)?;
    // min_spatial_segmentation_idc to avgFrameRate.
    bits.skip(8 * 8).ok_or_else(truncated)?;
    let nal_length_size = nal_length_size(bits.u8(8).ok_or_else(truncated)?, hvcc.at)?;
    let arrays = bits.u8(8).ok_or_else(truncated)?;
    let mut units = Vec::new();
    for _ in 0..arrays {
        bits.skip(8).ok_or_else(truncated)?;
        let count = bits.u16(16).ok_or_else(truncated)?;
        units.extend(nal_units(&mut bits, count.into(), &hvcc.body).ok_or_else(truncated)?);
    }
    Ok((Hevc { nal_length_size, nal_units: units.into() }, profile))
}

fn profile_tier_level(bits: &mut BitReader<'_>) -> Option<ProfileTierLevel> {
    Some(ProfileTierLevel {
        space: bits.u8(2)?,
        high_tier: bits.flag()?,
        profile: bits.u8(5)?,
        compatibility: bits.bits(32)?,
        constraints: bits.bytes(6)?.try_into().ok()?,
        level: bits.u8(8)?,
    })
}

/// Returns e.g. `hvc1.A2.4.L120.90`: profile space and profile, compatibility flags in reverse bit
/// order, tier and level, constraint bytes without trailing zeros. Flags and constraints are
/// hexadecimal.
pub(super) fn rfc6381(format: FourCc, general: &ProfileTierLevel) -> String {
    let space = match general.space {
        0 => "",
        1 => "A",
        2 => "B",
        _ => "C",
    };
    let tier = if general.high_tier { 'H' } else { 'L' };
    let ProfileTierLevel { profile, level, .. } = *general;
    let flags = general.compatibility.reverse_bits();
    let mut name = format!("{format}.{space}{profile}.{flags:X}.{tier}{level}");
    let used = general.constraints.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    for byte in general.constraints.iter().take(used) {
        // Writing to a String cannot fail.
        let _ = write!(name, ".{byte:X}");
    }
    name
}

/// nal_unit_type of a sequence parameter set (ISO/IEC 23008-2 Table 7-1).
const SPS_NUT: u8 = 33;

/// Reads the first sequence parameter set, if there is one. If it is cut off, the fields read until
/// then are kept.
pub(super) fn sequence(hevc: &Hevc) -> Sequence {
    let mut sequence = Sequence::default();
    let sps = hevc.nal_units.iter().find(|unit| unit.first().is_some_and(|head| head >> 1 & 0x3f == SPS_NUT));
    if let Some(sps) = sps {
        let payload = raw_payload(sps);
        let _ = hevc_sps::parameter_set(&mut BitReader::new(&payload), &mut sequence);
    }
    sequence
}

#[cfg(test)]
mod tests {
    use super::{ProfileTierLevel, rfc6381};
    use crate::codec::tests::sample_entries::{boxed, hex, video_entry};
    use crate::codec::{Colour, Config, Media, VideoRange, describe};
    use crate::{Error, FourCc};

    const VIDE: FourCc = FourCc(*b"vide");

    #[test]
    fn codec_strings_follow_profile_tier_level_and_constraints() {
        let main = ProfileTierLevel {
            space: 0,
            high_tier: false,
            profile: 1,
            compatibility: 0x6000_0000,
            constraints: [0xb0, 0, 0, 0, 0, 0],
            level: 93,
        };
        let name = |general| rfc6381(FourCc(*b"hvc1"), &general);
        assert_eq!(name(main), "hvc1.1.6.L93.B0");
        assert_eq!(name(ProfileTierLevel { constraints: [0; 6], ..main }), "hvc1.1.6.L93");
        assert_eq!(
            name(ProfileTierLevel { constraints: [0x90, 0, 0xd, 0, 0, 0], ..main }),
            "hvc1.1.6.L93.90.0.D"
        );
        let rext = ProfileTierLevel {
            space: 1,
            high_tier: true,
            profile: 4,
            compatibility: 0x0800_0000,
            level: 153,
            ..main
        };
        assert_eq!(name(rext), "hvc1.A4.10.H153.B0");
        assert_eq!(
            name(ProfileTierLevel { compatibility: 0x2000_0000, profile: 2, ..main }),
            "hvc1.2.4.L93.B0"
        );
    }

    #[test]
    fn parameter_sets_are_kept_in_order_and_read() {
        let record = "\
            0101600000009000000000005af000fcfdf8f800000f03200001001840010c01ffff01600000030090000003\
            000003005a959809210001002942010101600000030090000003000003005aa006b201e1d796566924cae680\
            80000003008000000f0422000100074401c172b46240";
        let codec = describe(&video_entry(b"hev1", 0, 0, &[boxed(b"hvcC", &hex(record))]), VIDE).unwrap();
        assert_eq!(codec.rfc6381, "hev1.1.6.L90.90");
        let Config::Hevc(hevc) = codec.config else { panic!() };
        assert_eq!(hevc.nal_length_size, 4);
        assert_eq!(hevc.nal_units.iter().map(|unit| unit[0] >> 1).collect::<Vec<_>>(), [32, 33, 34]);
        let Media::Video(video) = codec.media else { panic!() };
        assert_eq!((video.width, video.height, video.range), (854, 480, VideoRange::Sdr));

        // x265 3.5 through ffmpeg 5.1, Main 10, 96x64, BT.2020 with PQ.
        let codec = describe(&video_entry(b"hvc1", 96, 64, &[boxed(b"hvcC", &hex(HDR10))]), VIDE).unwrap();
        assert_eq!(codec.rfc6381, "hvc1.2.4.L30.90");
        let Media::Video(video) = codec.media else { panic!() };
        assert_eq!(video.colour, Some(Colour { primaries: 9, transfer: 16, matrix: 9 }));
        assert_eq!(video.range, VideoRange::Pq);
    }

    const HDR10: &str = "\
        0102200000009000000000001ef000fcfdfafa00000f03a00001001840010c01ffff02200000030090000003\
        000003001e959809a10001002d42010102200000030090000003000003001ea0308104d96566924caf016a12\
        2012080000030008000003005040a2000100074401c172b42240";

    #[test]
    fn malformed_records_are_refused() {
        let read =
            |record: &str| describe(&video_entry(b"hvc1", 16, 16, &[boxed(b"hvcC", &hex(record))]), VIDE);
        let head = "01016000000090000000000 05af000fcfdf8f80000";
        assert!(read(&format!("{head}0f 00")).is_ok());
        assert!(matches!(read(&format!("{head}0e 00")), Err(Error::BadValue { .. })));
        for cut in ["0f", "0f 01", "0f 01 20", "0f 01 20 ffff", "0f 01 20 0001 0002 40"] {
            assert!(matches!(read(&format!("{head}{cut}")), Err(Error::Truncated { .. })), "{cut}");
        }
        assert!(matches!(read("0201"), Err(Error::Unsupported { .. })));
    }
}
