//! Elements that the sequence parameter sets of AVC and HEVC share (ISO/IEC 14496-10 and 23008-2),
//! and the values that are read from the sequence headers of all video codecs.

use super::description::Colour;
use crate::bits::{BitReader, without_emulation_prevention};

/// Values in a codec's own configuration: a sequence parameter set, or a sequence header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sequence {
    /// Width and height after cropping, in pixels.
    pub(super) size: Option<(u16, u16)>,
    pub(super) colour: Option<Colour>,
    pub(super) full_range: Option<bool>,
    /// Sample aspect ratio, not reduced.
    pub(super) aspect: Option<(u32, u32)>,
}

/// Maximum number of bytes of a parameter set that are read. Real ones have a few hundred.
const MAX_LEN: usize = 4096;

/// Returns the start of a parameter set without its emulation prevention bytes.
pub(super) fn raw_payload(nal_unit: &[u8]) -> Vec<u8> {
    without_emulation_prevention(nal_unit.get(..MAX_LEN).unwrap_or(nal_unit))
}

/// Reads the four offsets of a cropping window, which count in chroma samples, and returns how many
/// luma samples they take off the width and off the height. AVC and HEVC share this syntax (ISO/IEC
/// 14496-10 Table 6-1, ISO/IEC 23008-2 Table 6-1: SubWidthC and SubHeightC).
pub(super) fn cropped(
    bits: &mut BitReader<'_>,
    chroma_format: u32,
    separate_planes: bool,
) -> Option<(u64, u64)> {
    let (unit_x, unit_y) = match (chroma_format, separate_planes) {
        (1, _) => (2, 2),
        (2, _) => (2, 1),
        _ => (1, 1),
    };
    let horizontal = u64::from(bits.ue()?) + u64::from(bits.ue()?);
    let vertical = u64::from(bits.ue()?) + u64::from(bits.ue()?);
    Some((horizontal * unit_x, vertical * unit_y))
}

/// Sample aspect ratios by aspect_ratio_idc, from 1 on (ISO/IEC 14496-10 Table E-1, ISO/IEC 23008-2
/// Table E-1).
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

/// Reads the head of vui_parameters() (Annex E): aspect ratio, overscan, video signal type.
pub(super) fn read_vui(bits: &mut BitReader<'_>, sequence: &mut Sequence) -> Option<()> {
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
            sequence.colour =
                Some(Colour { primaries: bits.u8(8)?, transfer: bits.u8(8)?, matrix: bits.u8(8)? });
        }
    }
    Some(())
}
