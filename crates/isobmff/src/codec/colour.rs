//! Colour, aspect ratio and bit rate boxes of sample entries (ISO/IEC 14496-12 §12.1.4, §12.1.5,
//! §8.5.2).

use super::children::{Child, Children};
use super::description::{Colour, DeclaredBitrate, VideoRange};
use crate::bits::BitReader;
use crate::time::gcd;

/// Contents of a `colr` box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ColourBox {
    pub(super) colour: Colour,
    /// `None` for QuickTime's `nclc`, which has no such field, and for a `nclx` that is too short.
    pub(super) full_range: Option<bool>,
}

/// "Unspecified" in ISO/IEC 23091-2; the same number for all three code points.
const UNSPECIFIED: u8 = 2;

impl Colour {
    /// A colour that states nothing.
    pub(super) const UNSPECIFIED: Self =
        Self { primaries: UNSPECIFIED, transfer: UNSPECIFIED, matrix: UNSPECIFIED };

    /// Fills in unspecified code points from another colour.
    fn or(self, other: Self) -> Self {
        let pick = |a, b| if a == UNSPECIFIED { b } else { a };
        Self {
            primaries: pick(self.primaries, other.primaries),
            transfer: pick(self.transfer, other.transfer),
            matrix: pick(self.matrix, other.matrix),
        }
    }

    /// Returns the dynamic range that the transfer characteristic implies.
    pub(super) fn range(self) -> VideoRange {
        match self.transfer {
            16 => VideoRange::Pq,
            18 => VideoRange::Hlg,
            _ => VideoRange::Sdr,
        }
    }
}

/// Reads the first `colr` box with code points (`nclx`, or QuickTime's `nclc`). ICC profiles are
/// skipped.
pub(super) fn colour_box(boxes: &Children) -> Option<ColourBox> {
    boxes.clone().filter(|child| child.kind == b"colr").find_map(|colr| code_points(&colr))
}

fn code_points(colr: &Child) -> Option<ColourBox> {
    let mut bits = colr.bits();
    let kind = bits.bits(32)?.to_be_bytes();
    let colour = Colour { primaries: code(&mut bits)?, transfer: code(&mut bits)?, matrix: code(&mut bits)? };
    match &kind {
        b"nclx" => Some(ColourBox { colour, full_range: bits.flag() }),
        b"nclc" => Some(ColourBox { colour, full_range: None }),
        _ => None,
    }
}

/// Returns a `colr` as ISO/IEC 14496-12 §12.1.5 defines it, or `None` if it is of no known type.
/// One with code points becomes a `nclx`. Its range, if it states none, is that of the codec.
pub(super) fn iso_colr(colr: Child, full_range: Option<bool>) -> Option<Child> {
    if colr.body.starts_with(b"rICC") || colr.body.starts_with(b"prof") {
        return Some(colr);
    }
    let ColourBox { colour, full_range: stated } = code_points(&colr)?;
    let is_full = stated.or(full_range).unwrap_or(false);
    let [primaries, transfer, matrix] = [colour.primaries, colour.transfer, colour.matrix];
    let mut body = b"nclx".to_vec();
    body.extend([0, primaries, 0, transfer, 0, matrix, u8::from(is_full) << 7]);
    Some(Child { body: body.into(), ..colr })
}

/// Reads a 16-bit code point. ISO/IEC 23091-2 has none above 255.
fn code(bits: &mut BitReader<'_>) -> Option<u8> {
    Some(u8::try_from(bits.u16(16)?).unwrap_or(UNSPECIFIED))
}

/// Combines the colour of the `colr` box with that of the codec's configuration, which fills in
/// unspecified code points. `None` if neither states anything.
pub(super) fn colour(colr: Option<ColourBox>, coded: Option<Colour>) -> Option<Colour> {
    let colour = match (colr, coded) {
        (Some(colr), coded) => colr.colour.or(coded.unwrap_or(Colour::UNSPECIFIED)),
        (None, coded) => coded?,
    };
    (colour != Colour::UNSPECIFIED).then_some(colour)
}

/// Reads `pasp` without reducing the ratio; `None` if the box is absent or holds a 0.
pub(super) fn pixel_aspect(boxes: &Children) -> Option<(u32, u32)> {
    ratio(&boxes.first(b"pasp")?)
}

/// Reads the ratio of a `pasp`; `None` if the box is too short or holds a 0.
pub(super) fn ratio(pasp: &Child) -> Option<(u32, u32)> {
    let mut bits = pasp.bits();
    Some((bits.bits(32)?, bits.bits(32)?)).filter(|&(h, v)| h != 0 && v != 0)
}

/// Returns a ratio in lowest terms.
pub(super) fn reduced((horizontal, vertical): (u32, u32)) -> (u32, u32) {
    let divisor = gcd(horizontal, vertical);
    horizontal.checked_div(divisor).zip(vertical.checked_div(divisor)).unwrap_or((1, 1))
}

/// Reads `btrt`; a rate of 0 counts as not stated.
pub(super) fn bitrate(boxes: &Children) -> DeclaredBitrate {
    let rates = boxes.first(b"btrt").and_then(|btrt| {
        let mut bits = btrt.bits();
        bits.skip(32)?;
        Some(DeclaredBitrate::new(bits.bits(32)?, bits.bits(32)?))
    });
    rates.unwrap_or_default()
}

impl DeclaredBitrate {
    /// Creates rates, of which 0 counts as not stated.
    pub(super) fn new(max: u32, average: u32) -> Self {
        Self { max: Some(max).filter(|&rate| rate != 0), average: Some(average).filter(|&rate| rate != 0) }
    }

    /// Fills in rates that are not stated from another declaration.
    pub(super) fn or(self, other: Self) -> Self {
        Self { max: self.max.or(other.max), average: self.average.or(other.average) }
    }
}

#[cfg(test)]
mod tests {
    use super::{Colour, ColourBox, VideoRange, colour, reduced};

    #[test]
    fn ratios_are_reduced_to_lowest_terms() {
        assert_eq!(reduced((64, 45)), (64, 45));
        assert_eq!(reduced((65536, 65536)), (1, 1));
        assert_eq!(reduced((1920, 1080)), (16, 9));
        assert_eq!(reduced((0, 0)), (1, 1));
    }

    #[test]
    fn the_box_takes_precedence_and_the_codec_fills_in() {
        let coded = Colour { primaries: 9, transfer: 16, matrix: 9 };
        let stated = Colour { primaries: 1, transfer: 2, matrix: 2 };
        let colr = |colour| Some(ColourBox { colour, full_range: None });
        assert_eq!(colour(colr(stated), Some(coded)), Some(Colour { primaries: 1, ..coded }));
        assert_eq!(colour(None, Some(coded)).map(Colour::range), Some(VideoRange::Pq));
        assert_eq!(colour(colr(Colour::UNSPECIFIED), None), None);
        assert_eq!(colour(None, None), None);
    }
}
