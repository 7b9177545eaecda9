//! AV1: `av1C` and its codec string (AV1 Codec ISO Media File Format Binding v1.2 §2.3 and §5).

use super::av1_sequence;
use super::children::Child;
use super::colour;
use super::colour::ColourBox;
use super::description::{Av1, Colour};
use super::parameter_sets::Sequence;
use crate::{Error, FourCc};

/// Facts of `av1C` that the codec string states.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Facts {
    profile: u8,
    level: u8,
    high_tier: bool,
    bit_depth: u8,
    monochrome: bool,
    subsampling: (bool, bool),
    chroma_position: u8,
    /// Read from the sequence header in configOBUs; empty if there is none.
    pub(super) sequence: Sequence,
}

/// Reads `av1C`.
pub(super) fn configuration(av1c: &Child) -> Result<(Av1, Facts), Error> {
    let mut bits = av1c.bits();
    let truncated = || av1c.at.truncated();
    let marker_and_version = bits.u8(8).ok_or_else(truncated)?;
    if marker_and_version != 0x81 {
        return Err(av1c.at.unsupported("version of av1C"));
    }
    let record = (|| {
        let profile = bits.u8(3)?;
        let level = bits.u8(5)?;
        let high_tier = bits.flag()?;
        let high_bitdepth = bits.flag()?;
        let twelve_bit = bits.flag()?;
        let monochrome = bits.flag()?;
        let subsampling = (bits.flag()?, bits.flag()?);
        let chroma_position = bits.u8(2)?;
        bits.skip(8)?;
        let bit_depth = match (high_bitdepth, twelve_bit) {
            (false, _) => 8,
            (true, false) => 10,
            (true, true) => 12,
        };
        let obus = av1c.body.slice_ref(bits.rest());
        let sequence = av1_sequence::first_header(&obus).unwrap_or_default();
        let facts = Facts {
            profile,
            level,
            high_tier,
            bit_depth,
            monochrome,
            subsampling,
            chroma_position,
            sequence,
        };
        Some((Av1 { obus }, facts))
    })();
    record.ok_or_else(truncated)
}

/// Returns `av01.0.04M.08` or, if any optional field differs from its default, all of them:
/// `av01.0.04M.10.0.110.09.16.09.0`. A colour that is not described counts as the default.
pub(super) fn rfc6381(format: FourCc, av1: &Facts, colr: Option<ColourBox>) -> String {
    let tier = if av1.high_tier { 'H' } else { 'M' };
    let name = format!("{format}.{}.{:02}{tier}.{:02}", av1.profile, av1.level, av1.bit_depth);
    let described = colour::colour(colr, av1.sequence.colour);
    let full_range = colr.and_then(|colr| colr.full_range).or(av1.sequence.full_range).unwrap_or(false);
    // The third digit has a meaning only if both subsampling flags are set.
    let position = if av1.subsampling == (true, true) { av1.chroma_position } else { 0 };
    let chroma = (av1.monochrome, av1.subsampling, position);
    let plain = described.is_none_or(|colour| colour == Colour { primaries: 1, transfer: 1, matrix: 1 });
    if chroma == (false, (true, true), 0) && plain && !full_range {
        return name;
    }
    let colour = described.unwrap_or(Colour::UNSPECIFIED);
    format!(
        "{name}.{}.{}{}{position}.{:02}.{:02}.{:02}.{}",
        u8::from(av1.monochrome),
        u8::from(av1.subsampling.0),
        u8::from(av1.subsampling.1),
        colour.primaries,
        colour.transfer,
        colour.matrix,
        u8::from(full_range),
    )
}

#[cfg(test)]
mod tests {
    use crate::codec::tests::sample_entries::{boxed, hex, video_entry};
    use crate::codec::{Codec, Colour, Config, Media, Video, VideoRange, describe};
    use crate::{Error, FourCc};

    fn read(av1c: &str, colr: &str) -> Result<(Codec, Video), Error> {
        let mut boxes = vec![boxed(b"av1C", &hex(av1c))];
        if !colr.is_empty() {
            boxes.push(boxed(b"colr", &hex(colr)));
        }
        let codec = describe(&video_entry(b"av01", 1920, 1080, &boxes), FourCc(*b"vide"))?;
        let Media::Video(video) = codec.media.clone() else { panic!() };
        Ok((codec, video))
    }

    fn name(av1c: &str, colr: &str) -> String {
        read(av1c, colr).unwrap().0.rfc6381
    }

    #[test]
    fn the_name_is_short_if_all_fields_have_their_default() {
        assert_eq!(name("81 04 0c 00", ""), "av01.0.04M.08");
        assert_eq!(name("81 04 0c 00", "6e636c78 0001 0001 0001 00"), "av01.0.04M.08");
        assert_eq!(name("81 04 0c 00", "6e636c78 0002 0002 0002 00"), "av01.0.04M.08");
        assert_eq!(name("81 8d cc 00", ""), "av01.4.13H.10");
        let Config::Av1(av1) = read("81 04 0c 00 0a01ff", "").unwrap().0.config else { panic!() };
        assert_eq!(av1.obus, hex("0a01ff"));
    }

    #[test]
    fn the_name_is_long_if_any_field_differs() {
        let (codec, video) = read("81 1f 4c 00", "6e636c78 0009 0010 0009 00").unwrap();
        assert_eq!(codec.rfc6381, "av01.0.31M.10.0.110.09.16.09.0");
        assert_eq!(
            (video.range, video.colour),
            (VideoRange::Pq, Some(Colour { primaries: 9, transfer: 16, matrix: 9 }))
        );
        assert_eq!(name("81 04 0e 00", "6e636c78 0001 0001 0001 00"), "av01.0.04M.08.0.112.01.01.01.0");
        assert_eq!(name("81 04 0c 00", "6e636c78 0001 0001 0001 80"), "av01.0.04M.08.0.110.01.01.01.1");
        assert_eq!(name("81 04 1c 00", ""), "av01.0.04M.08.1.110.02.02.02.0");
        // 4:4:4, 12 bit: the chroma position has no meaning there.
        assert_eq!(name("81 48 63 00", ""), "av01.2.08M.12.0.000.02.02.02.0");
    }

    /// The sequence header of a libaom stream describes no colour and limited range.
    #[test]
    fn the_sequence_header_is_read() {
        assert_eq!(name("81 05 0c 00 0a0b 0000002d4c37b3dfff9804", ""), "av01.0.05M.08");
        assert!(matches!(read("81 05", ""), Err(Error::Truncated { .. })));
        assert!(matches!(read("82 05 0c 00", ""), Err(Error::Unsupported { .. })));
        // A configOBU that does not fit does not make the record unreadable.
        assert_eq!(name("81 05 0c 00 0aff ff00", ""), "av01.0.05M.08");
    }
}
