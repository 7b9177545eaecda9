//! Colour, aspect ratio and bit rate boxes of sample entries, and the part of the video usability information
//! that says the same (ISO/IEC 14496-12 §12.1.4, §12.1.5, §8.5.2; ISO/IEC 14496-10 and 23008-2 Annex E).

use super::bits::Bits;
use super::children::Children;
use super::{Colour, DeclaredBitrate, VideoRange};

/// What the codec's own configuration (a sequence parameter set, a sequence header) says of the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sequence {
    /// Width and height after cropping, in pixels.
    pub(super) size: Option<(u16, u16)>,
    pub(super) colour: Option<Colour>,
    pub(super) full_range: Option<bool>,
    /// Sample aspect ratio, unreduced.
    pub(super) aspect: Option<(u32, u32)>,
}

/// Colour of a `colr` box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ColourBox {
    pub(super) colour: Colour,
    /// `None` for QuickTime's `nclc`, which cannot say.
    pub(super) full_range: Option<bool>,
}

/// "Unspecified" of ISO/IEC 23091-2, the same number for all three.
const UNSPECIFIED: u8 = 2;

impl Colour {
    /// Nothing is said.
    pub(super) const UNSPECIFIED: Self =
        Self { primaries: UNSPECIFIED, transfer: UNSPECIFIED, matrix: UNSPECIFIED };

    /// This colour with what it leaves unspecified taken from another.
    fn or(self, other: Self) -> Self {
        let pick = |a, b| if a == UNSPECIFIED { b } else { a };
        Self {
            primaries: pick(self.primaries, other.primaries),
            transfer: pick(self.transfer, other.transfer),
            matrix: pick(self.matrix, other.matrix),
        }
    }

    pub(super) fn range(self) -> VideoRange {
        match self.transfer {
            16 => VideoRange::Pq,
            18 => VideoRange::Hlg,
            _ => VideoRange::Sdr,
        }
    }
}

/// The first `colr` box with code points (`nclx`, QuickTime's `nclc`); ICC profiles are passed over.
pub(super) fn colour_box(boxes: &Children) -> Option<ColourBox> {
    boxes.clone().filter(|child| child.kind == b"colr").find_map(|colr| {
        let mut bits = colr.bits();
        let kind = bits.bits(32)?.to_be_bytes();
        let colour =
            Colour { primaries: code(&mut bits)?, transfer: code(&mut bits)?, matrix: code(&mut bits)? };
        match &kind {
            b"nclx" => Some(ColourBox { colour, full_range: Some(bits.flag().unwrap_or(false)) }),
            b"nclc" => Some(ColourBox { colour, full_range: None }),
            _ => None,
        }
    })
}

/// A 16-bit code point; ISO/IEC 23091-2 has none above 255.
fn code(bits: &mut Bits<'_>) -> Option<u8> {
    Some(u8::try_from(bits.u16(16)?).unwrap_or(UNSPECIFIED))
}

/// Colour of the `colr` box, completed from the codec's configuration; `None` where neither says anything.
pub(super) fn colour(boxed: Option<ColourBox>, coded: Option<Colour>) -> Option<Colour> {
    let colour = match (boxed, coded) {
        (Some(boxed), coded) => boxed.colour.or(coded.unwrap_or(Colour::UNSPECIFIED)),
        (None, coded) => coded?,
    };
    (colour != Colour::UNSPECIFIED).then_some(colour)
}

/// `pasp`, unreduced; `None` where there is none or it is not a ratio.
pub(super) fn pixel_aspect(boxes: &Children) -> Option<(u32, u32)> {
    let pasp = boxes.first(b"pasp")?;
    let mut bits = pasp.bits();
    Some((bits.bits(32)?, bits.bits(32)?)).filter(|&(h, v)| h != 0 && v != 0)
}

/// A ratio in lowest terms.
pub(super) fn reduced((horizontal, vertical): (u32, u32)) -> (u32, u32) {
    let (mut a, mut b) = (horizontal, vertical);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    horizontal.checked_div(a).zip(vertical.checked_div(a)).unwrap_or((1, 1))
}

/// `btrt`; zeros are left out.
pub(super) fn bitrate(boxes: &Children) -> DeclaredBitrate {
    let rates = boxes.first(b"btrt").and_then(|btrt| {
        let mut bits = btrt.bits();
        bits.skip(32)?;
        Some(DeclaredBitrate::new(bits.bits(32)?, bits.bits(32)?))
    });
    rates.unwrap_or_default()
}

impl DeclaredBitrate {
    /// Zeros are left out.
    pub(super) fn new(max: u32, average: u32) -> Self {
        Self { max: Some(max).filter(|&rate| rate != 0), average: Some(average).filter(|&rate| rate != 0) }
    }

    /// These rates, and what they leave out from another.
    pub(super) fn or(self, other: Self) -> Self {
        Self { max: self.max.or(other.max), average: self.average.or(other.average) }
    }
}

/// Sample aspect ratios by aspect_ratio_idc, from 1 on (ISO/IEC 14496-10 Table E-1, ISO/IEC 23008-2 Table E-1).
const ASPECTS: [(u32, u32); 16] = [
    (1, 1),
    (12, 11),
    (10, 11),
    (16, 11),
    (40, 33),
    (24, 11),
    (20, 11),
    (32, 11),
    (80, 33),
    (18, 11),
    (15, 11),
    (64, 33),
    (160, 99),
    (4, 3),
    (3, 2),
    (2, 1),
];

/// The head of vui_parameters(), which AVC and HEVC share: aspect ratio, overscan, video signal type.
pub(super) fn usability(bits: &mut Bits<'_>, sequence: &mut Sequence) -> Option<()> {
    if bits.flag()? {
        let aspect = match bits.u8(8)? {
            255 => Some((bits.bits(16)?, bits.bits(16)?)).filter(|&(h, v)| h != 0 && v != 0),
            idc => usize::from(idc).checked_sub(1).and_then(|i| ASPECTS.get(i).copied()),
        };
        sequence.aspect = aspect;
    }
    if bits.flag()? {
        bits.skip(1)?;
    }
    if bits.flag()? {
        bits.skip(3)?;
        sequence.full_range = Some(bits.flag()?);
        if bits.flag()? {
            let (primaries, transfer, matrix) = (bits.u8(8)?, bits.u8(8)?, bits.u8(8)?);
            sequence.colour = Some(Colour { primaries, transfer, matrix });
        }
    }
    Some(())
}

/// Longest parameter set that is looked into, in bytes; real ones have a few hundred.
const MAX_PARAMETER_SET: usize = 4096;

/// A NAL unit without its emulation prevention bytes (ISO/IEC 14496-10 §7.3.1).
pub(super) fn raw_payload(nal_unit: &[u8]) -> Vec<u8> {
    let nal_unit = nal_unit.get(..MAX_PARAMETER_SET).unwrap_or(nal_unit);
    let mut payload = Vec::with_capacity(nal_unit.len());
    let mut zeros = 0;
    for &byte in nal_unit {
        if zeros >= 2 && byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        payload.push(byte);
    }
    payload
}

#[cfg(test)]
mod tests {
    use super::{Colour, ColourBox, VideoRange, colour, raw_payload, reduced};

    #[test]
    fn ratios_are_reduced() {
        assert_eq!(reduced((64, 45)), (64, 45));
        assert_eq!(reduced((65536, 65536)), (1, 1));
        assert_eq!(reduced((1920, 1080)), (16, 9));
        assert_eq!(reduced((0, 0)), (1, 1));
    }

    #[test]
    fn emulation_prevention() {
        assert_eq!(raw_payload(&[0, 0, 3, 1, 0, 0, 3, 0, 0, 3, 3]), [0, 0, 1, 0, 0, 0, 0, 3]);
    }

    #[test]
    fn the_box_wins_and_the_codec_completes() {
        let coded = Colour { primaries: 9, transfer: 16, matrix: 9 };
        let said = Colour { primaries: 1, transfer: 2, matrix: 2 };
        let boxed = |colour| Some(ColourBox { colour, full_range: None });
        assert_eq!(colour(boxed(said), Some(coded)), Some(Colour { primaries: 1, ..coded }));
        assert_eq!(colour(None, Some(coded)).map(Colour::range), Some(VideoRange::Pq));
        assert_eq!(colour(boxed(Colour::UNSPECIFIED), None), None);
        assert_eq!(colour(None, None), None);
    }
}
