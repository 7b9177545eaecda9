//! VP8 and VP9: `vpcC` and its codec string (VP Codec ISO Media File Format Binding v1.0).

use super::children::Child;
use super::description::Colour;
use super::parameter_sets::Sequence;
use crate::{Error, FourCc};

/// Contents of `vpcC`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Vp {
    profile: u8,
    level: u8,
    bit_depth: u8,
    chroma: u8,
    full_range: bool,
    colour: Colour,
}

/// Chroma subsampling 4:2:0 with samples at the top left, the meaning of an omitted field.
const CHROMA_DEFAULT: u8 = 1;

/// Reads `vpcC`.
pub(super) fn configuration(vpcc: &Child) -> Result<Vp, Error> {
    let (version, mut bits) = vpcc.full_box()?;
    // Version 0 is a draft with another layout.
    if version != 1 {
        return Err(vpcc.at.unsupported("version of vpcC"));
    }
    let record = (|| {
        Some(Vp {
            profile: bits.u8(8)?,
            level: bits.u8(8)?,
            bit_depth: bits.u8(4)?,
            chroma: bits.u8(3)?,
            full_range: bits.flag()?,
            colour: Colour { primaries: bits.u8(8)?, transfer: bits.u8(8)?, matrix: bits.u8(8)? },
        })
    })();
    record.ok_or(vpcc.at.truncated())
}

/// Returns `vp09.00.10.08` or, if any optional field differs from its default, all of them:
/// `vp09.02.10.10.01.09.16.09.00`. An unspecified colour counts as the default.
pub(super) fn rfc6381(format: FourCc, vp: &Vp) -> String {
    let name = format!("{format}.{:02}.{:02}.{:02}", vp.profile, vp.level, vp.bit_depth);
    let plain = Colour { primaries: 1, transfer: 1, matrix: 1 };
    let is_default_colour = vp.colour == Colour::UNSPECIFIED || vp.colour == plain;
    if vp.chroma == CHROMA_DEFAULT && is_default_colour && !vp.full_range {
        return name;
    }
    let Colour { primaries, transfer, matrix } = vp.colour;
    format!("{name}.{:02}.{primaries:02}.{transfer:02}.{matrix:02}.{:02}", vp.chroma, u8::from(vp.full_range))
}

/// Returns the colour of the configuration.
pub(super) fn sequence(vp: &Vp) -> Sequence {
    Sequence { colour: Some(vp.colour), full_range: Some(vp.full_range), ..Sequence::default() }
}

#[cfg(test)]
mod tests {
    use crate::codec::tests::sample_entries::{boxed, hex, video_entry};
    use crate::codec::{Codec, Config, Media, VideoRange, describe};
    use crate::{Error, FourCc};

    fn read(format: &[u8; 4], vpcc: &str) -> Result<Codec, Error> {
        describe(&video_entry(format, 320, 240, &[boxed(b"vpcC", &hex(vpcc))]), FourCc(*b"vide"))
    }

    #[test]
    fn the_name_is_long_if_any_field_differs_from_its_default() {
        let name = |vpcc| read(b"vp09", vpcc).unwrap().rfc6381;
        assert_eq!(name("01000000 00 0a 82 01 01 01 0000"), "vp09.00.10.08");
        assert_eq!(name("01000000 00 0a 82 02 02 02 0000"), "vp09.00.10.08");
        assert_eq!(name("01000000 00 1e 80 02 02 02 0000"), "vp09.00.30.08.00.02.02.02.00");
        assert_eq!(name("01000000 02 0a a2 09 10 09 0000"), "vp09.02.10.10.01.09.16.09.00");
        assert_eq!(name("01000000 01 14 87 01 0d 00 0000"), "vp09.01.20.08.03.01.13.00.01");
    }

    #[test]
    fn dynamic_range_and_codec_are_described() {
        let codec = read(b"vp09", "01000000 02 0a a2 09 12 09 0000").unwrap();
        let Media::Video(video) = &codec.media else { panic!() };
        assert_eq!((video.range, &codec.config), (VideoRange::Hlg, &Config::Vp9));
        let codec = read(b"vp08", "01000000 00 0a 82 01 01 01 0000").unwrap();
        assert_eq!((codec.rfc6381.as_str(), codec.config), ("vp08.00.10.08", Config::Other));
        assert!(matches!(read(b"vp09", "00000000 00 0a 82 00 0000"), Err(Error::Unsupported { .. })));
        assert!(matches!(read(b"vp09", "01000000 00 0a 82 01 01"), Err(Error::Truncated { .. })));
    }
}
