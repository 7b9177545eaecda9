//! Dolby Vision: `dvcC`, `dvvC`, `dvwC` (Dolby Vision Streams Within the ISO Base Media File
//! Format, v2.4 §3) and its codec strings in HLS and DASH.

use super::children::Children;
use super::description::{Colour, VideoRange};
use crate::{Error, FourCc};

/// Contents of the configuration box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DolbyVision {
    profile: u8,
    level: u8,
    /// dv_bl_signal_compatibility_id: the base layer's format for other decoders.
    compatibility: u8,
}

/// Reads the configuration box, which has one of three types by profile: up to 7, 8 to 10, and
/// above.
pub(super) fn configuration(boxes: &Children) -> Result<Option<DolbyVision>, Error> {
    let Some(found) = boxes.clone().find(|child| matches!(&child.kind.0, b"dvcC" | b"dvvC" | b"dvwC")) else {
        return Ok(None);
    };
    let mut bits = found.bits();
    let record = (|| {
        bits.skip(16)?;
        let profile = bits.u8(7)?;
        let level = bits.u8(6)?;
        bits.skip(3)?;
        Some(DolbyVision { profile, level, compatibility: bits.u8(4)? })
    })();
    record.map(Some).ok_or(found.at.truncated())
}

/// Returns true for coding names that only a Dolby Vision decoder plays.
pub(super) fn is_primary(format: FourCc) -> bool {
    matches!(&format.0, b"dvh1" | b"dvhe" | b"dva1" | b"dvav" | b"dav1")
}

impl DolbyVision {
    /// Returns e.g. `dvh1.05.06`: profile and level in two decimal digits.
    pub(super) fn rfc6381(self, format: FourCc) -> String {
        format!("{format}.{:02}.{:02}", self.profile, self.level)
    }

    /// Returns the `SUPPLEMENTAL-CODECS` of a base layer with coding name `base` and this transfer
    /// characteristic, e.g. `dvh1.08.07/db4h`. `None` if other decoders cannot show the base layer
    /// correctly.
    pub(super) fn supplemental(self, base: FourCc, transfer: Option<u8>) -> Option<String> {
        let brand = match (self.compatibility, transfer) {
            // HDR10; BT.709; HLG signalled in an SEI message only; HLG.
            (1, _) => "db1p",
            (2, _) => "db2g",
            (4, Some(14)) => "db4g",
            (4, _) => "db4h",
            _ => return None,
        };
        let format = match &base.0 {
            b"hvc1" => b"dvh1",
            b"hev1" => b"dvhe",
            b"avc1" => b"dva1",
            b"avc3" => b"dvav",
            b"av01" => b"dav1",
            _ => return None,
        };
        Some(format!("{}/{brand}", self.rfc6381(FourCc(*format))))
    }

    /// Returns the dynamic range. It follows from the base layer's format, and from the colour
    /// description only if that format leaves it open.
    pub(super) fn range(self, colour: Option<Colour>) -> VideoRange {
        match self.compatibility {
            1 | 6 => VideoRange::Pq,
            4 => VideoRange::Hlg,
            // Without a compatible base layer the signal is IPT-PQ-c2, for any colour description.
            0 => VideoRange::Pq,
            _ => colour.map_or(VideoRange::Sdr, Colour::range),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::codec::tests::sample_entries::{boxed, hex, video_entry};
    use crate::codec::{Codec, Media, Video, VideoRange, describe};
    use crate::{Error, FourCc};

    const HVCC: &str = "01022000000090000000000096f000fcfdfafa00000f00";
    const AVCC: &str = "01640028ffe00 0";

    fn read(
        format: &[u8; 4],
        config: (&[u8; 4], &str),
        dolby: (&[u8; 4], [u8; 5]),
        colr: &str,
    ) -> (Codec, Video) {
        let mut boxes = vec![boxed(config.0, &hex(config.1)), boxed(dolby.0, &dolby.1)];
        if !colr.is_empty() {
            boxes.push(boxed(b"colr", &hex(colr)));
        }
        let codec = describe(&video_entry(format, 1920, 1080, &boxes), FourCc(*b"vide")).unwrap();
        let Media::Video(video) = codec.media.clone() else { panic!() };
        (codec, video)
    }

    /// Returns a record of version 1.0, with base layer and metadata present.
    fn record(profile: u8, level: u8, compatibility: u8) -> [u8; 5] {
        [1, 0, profile << 1 | level >> 5, level << 3 | 0b101, compatibility << 4]
    }

    #[test]
    fn without_a_base_layer_it_is_the_codec() {
        let (codec, video) = read(b"dvh1", (b"hvcC", HVCC), (b"dvcC", record(5, 6, 0)), "");
        assert_eq!(codec.rfc6381, "dvh1.05.06");
        assert_eq!((video.supplemental, video.range), (None, VideoRange::Pq));
        let (codec, _) = read(b"dvhe", (b"hvcC", HVCC), (b"dvvC", record(8, 13, 4)), "");
        assert_eq!(codec.rfc6381, "dvhe.08.13");
        let (codec, video) = read(b"dva1", (b"avcC", AVCC), (b"dvvC", record(9, 5, 2)), "");
        assert_eq!((codec.rfc6381.as_str(), video.range), ("dva1.09.05", VideoRange::Sdr));
        let bare = describe(&video_entry(b"dvh1", 16, 16, &[boxed(b"hvcC", &hex(HVCC))]), FourCc(*b"vide"));
        assert!(matches!(bare, Err(Error::Missing { .. })));
    }

    #[test]
    fn on_a_compatible_base_layer_it_is_supplemental() {
        let hlg = "6e636c78 0009 0012 0009 00";
        let (codec, video) = read(b"hvc1", (b"hvcC", HVCC), (b"dvvC", record(8, 7, 4)), hlg);
        assert_eq!(codec.rfc6381, "hvc1.2.4.L150.90");
        assert_eq!((video.supplemental.as_deref(), video.range), (Some("dvh1.08.07/db4h"), VideoRange::Hlg));
        let sei = "6e636c78 0009 000e 0009 00";
        let (_, video) = read(b"hev1", (b"hvcC", HVCC), (b"dvvC", record(8, 7, 4)), sei);
        assert_eq!((video.supplemental.as_deref(), video.range), (Some("dvhe.08.07/db4g"), VideoRange::Hlg));
        let (_, video) = read(b"hvc1", (b"hvcC", HVCC), (b"dvvC", record(8, 7, 1)), "");
        assert_eq!((video.supplemental.as_deref(), video.range), (Some("dvh1.08.07/db1p"), VideoRange::Pq));
        let (codec, video) = read(b"avc1", (b"avcC", AVCC), (b"dvvC", record(9, 5, 2)), "");
        assert_eq!(
            (codec.rfc6381.as_str(), video.supplemental.as_deref()),
            ("avc1.640028", Some("dva1.09.05/db2g"))
        );
        let (_, video) = read(b"hvc1", (b"hvcC", HVCC), (b"dvcC", record(7, 6, 6)), "");
        assert_eq!((video.supplemental, video.range), (None, VideoRange::Pq));
    }
}
