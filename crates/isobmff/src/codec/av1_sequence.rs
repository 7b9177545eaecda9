//! The AV1 sequence header (AV1 Bitstream & Decoding Process §5.5), in configOBUs of `av1C` and in
//! samples.

use super::av1_obu::{Obus, SEQUENCE_HEADER};
use super::description::Colour;
use super::parameter_sets::Sequence;
use crate::bits::BitReader;

/// The values of a sequence header that frame headers depend on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Av1Sequence {
    /// reduced_still_picture_header.
    pub(super) is_reduced: bool,
    /// Bits of frame_presentation_time, if frames state it.
    pub(super) presentation_time_bits: Option<usize>,
    /// Bits of buffer_removal_time, if there is a decoder model.
    pub(super) removal_time_bits: Option<usize>,
    /// operating_point_idc of each operating point, and whether it has a decoder model.
    pub(super) operating_points: Vec<(u32, bool)>,
    /// Bits of a frame's width and height.
    pub(super) size_bits: (u32, u32),
    /// Largest width and height.
    pub(super) size: (u32, u32),
    /// Bits of the difference between two frame IDs, and of a frame ID, if frames have them.
    pub(super) id_bits: Option<(usize, usize)>,
    /// True for superblocks of 128 x 128 pixels.
    pub(super) has_large_superblocks: bool,
    pub(super) inter: InterTools,
    pub(super) has_superres: bool,
    pub(super) has_cdef: bool,
    pub(super) has_restoration: bool,
    pub(super) planes: Planes,
    pub(super) has_film_grain: bool,
}

/// The tools of prediction between frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct InterTools {
    pub(super) has_warped_motion: bool,
    pub(super) has_ref_frame_mvs: bool,
    /// 0 if frames have no order hints.
    pub(super) order_hint_bits: u32,
    /// Use of screen content tools. `None` if each frame states it.
    pub(super) screen_content: Option<bool>,
    /// Use of integer motion vectors. `None` if each frame states it.
    pub(super) integer_mv: Option<bool>,
}

/// The planes of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Planes {
    pub(super) is_monochrome: bool,
    /// subsampling_x and subsampling_y.
    pub(super) subsampling: (bool, bool),
    pub(super) has_separate_uv_delta_q: bool,
}

/// Reads what manifests state from the first sequence header among these OBUs.
pub(super) fn first_header(obus: &[u8]) -> Option<Sequence> {
    let header = Obus::new(obus).find_map(|obu| match obu {
        Ok(obu) if obu.kind != SEQUENCE_HEADER => None,
        other => Some(other),
    });
    Some(sequence_header(header?.ok()?.payload)?.0)
}

/// Reads sequence_header_obu() (§5.5.1): what manifests state, and what frame headers depend on
/// unless the header is cut off after the colour.
pub(super) fn sequence_header(payload: &[u8]) -> Option<(Sequence, Option<Av1Sequence>)> {
    let bits = &mut BitReader::new(payload);
    let profile = bits.u8(3)?;
    bits.skip(1)?;
    let is_reduced = bits.flag()?;
    let mut points = OperatingPoints::default();
    if is_reduced {
        bits.skip(5)?;
    } else {
        points = operating_points(bits)?;
    }
    let size_bits = (bits.bits(4)? + 1, bits.bits(4)? + 1);
    // Both are at most 16 bits long and hold the size minus 1.
    let size = (bits.bits(size_bits.0)? + 1, bits.bits(size_bits.1)? + 1);
    let id_bits = if !is_reduced && bits.flag()? {
        let difference = usize::from(bits.u8(4)?) + 2;
        Some((difference, difference + usize::from(bits.u8(3)?) + 1))
    } else {
        None
    };
    let has_large_superblocks = bits.flag()?;
    // Filter intra, intra edge filter.
    bits.skip(2)?;
    let inter = if is_reduced { InterTools::default() } else { inter_tools(bits)? };
    let has_superres = bits.flag()?;
    let has_cdef = bits.flag()?;
    let has_restoration = bits.flag()?;
    let stated_size = u16::try_from(size.0).ok().zip(u16::try_from(size.1).ok());
    let (stated, colour) = color_config(bits, profile, stated_size)?;
    let sequence = planes(bits, profile, colour).zip(bits.flag());
    let sequence = sequence.map(|(planes, has_film_grain)| Av1Sequence {
        is_reduced,
        presentation_time_bits: points.presentation_time_bits,
        removal_time_bits: points.removal_time_bits,
        operating_points: points.points,
        size_bits,
        size,
        id_bits,
        has_large_superblocks,
        inter,
        has_superres,
        has_cdef,
        has_restoration,
        planes,
        has_film_grain,
    });
    Some((stated, sequence))
}

#[derive(Default)]
struct OperatingPoints {
    presentation_time_bits: Option<usize>,
    removal_time_bits: Option<usize>,
    points: Vec<(u32, bool)>,
}

/// Reads timing, decoder model and operating points.
fn operating_points(bits: &mut BitReader<'_>) -> Option<OperatingPoints> {
    let mut read = OperatingPoints::default();
    let mut delay_bits = None;
    if bits.flag()? {
        bits.skip(64)?;
        let has_equal_intervals = bits.flag()?;
        if has_equal_intervals {
            bits.skip_uvlc()?;
        }
        if bits.flag()? {
            delay_bits = Some(usize::from(bits.u8(5)?) + 1);
            bits.skip(32)?;
            read.removal_time_bits = Some(usize::from(bits.u8(5)?) + 1);
            let presentation_time_bits = usize::from(bits.u8(5)?) + 1;
            read.presentation_time_bits = (!has_equal_intervals).then_some(presentation_time_bits);
        }
    }
    let display_delay = bits.flag()?;
    for _ in 0..=bits.u8(5)? {
        let layers = bits.bits(12)?;
        if bits.u8(5)? > 7 {
            bits.skip(1)?;
        }
        let mut has_model = false;
        if let Some(delay_bits) = delay_bits {
            has_model = bits.flag()?;
            bits.skip(if has_model { 2 * delay_bits + 1 } else { 0 })?;
        }
        read.points.push((layers, has_model));
        if display_delay && bits.flag()? {
            bits.skip(4)?;
        }
    }
    Some(read)
}

/// Reads the fields from enable_interintra_compound to order_hint_bits_minus_1.
fn inter_tools(bits: &mut BitReader<'_>) -> Option<InterTools> {
    let mut tools = InterTools::default();
    bits.skip(2)?;
    tools.has_warped_motion = bits.flag()?;
    bits.skip(1)?;
    let order_hint = bits.flag()?;
    if order_hint {
        bits.skip(1)?;
        tools.has_ref_frame_mvs = bits.flag()?;
    }
    tools.screen_content = if bits.flag()? { None } else { Some(bits.flag()?) };
    if tools.screen_content != Some(false) && !bits.flag()? {
        tools.integer_mv = Some(bits.flag()?);
    }
    if order_hint {
        tools.order_hint_bits = bits.bits(3)? + 1;
    }
    Some(tools)
}

/// The fields of color_config() that those behind them depend on.
#[derive(Clone, Copy)]
struct ColourFields {
    is_monochrome: bool,
    is_srgb: bool,
    is_twelve_bit: bool,
}

/// Reads color_config() (§5.5.2) up to color_range.
fn color_config(
    bits: &mut BitReader<'_>,
    profile: u8,
    size: Option<(u16, u16)>,
) -> Option<(Sequence, ColourFields)> {
    let mut sequence = Sequence { size, ..Sequence::default() };
    let high_bitdepth = bits.flag()?;
    let is_twelve_bit = profile == 2 && high_bitdepth && bits.flag()?;
    let is_monochrome = profile != 1 && bits.flag()?;
    if bits.flag()? {
        sequence.colour = Some(Colour { primaries: bits.u8(8)?, transfer: bits.u8(8)?, matrix: bits.u8(8)? });
    }
    // sRGB in 4:4:4 implies full range and has no flag.
    let srgb = Some(Colour { primaries: 1, transfer: 13, matrix: 0 });
    let is_srgb = !is_monochrome && sequence.colour == srgb;
    sequence.full_range = Some(if is_srgb { true } else { bits.flag()? });
    Some((sequence, ColourFields { is_monochrome, is_srgb, is_twelve_bit }))
}

/// Reads the rest of color_config().
fn planes(bits: &mut BitReader<'_>, profile: u8, colour: ColourFields) -> Option<Planes> {
    let is_monochrome = colour.is_monochrome;
    if is_monochrome {
        return Some(Planes { is_monochrome, subsampling: (true, true), has_separate_uv_delta_q: false });
    }
    let subsampling = match profile {
        _ if colour.is_srgb => (false, false),
        0 => (true, true),
        1 => (false, false),
        _ if !colour.is_twelve_bit => (true, false),
        _ => {
            let horizontal = bits.flag()?;
            (horizontal, horizontal && bits.flag()?)
        }
    };
    if subsampling == (true, true) {
        bits.skip(2)?;
    }
    Some(Planes { is_monochrome, subsampling, has_separate_uv_delta_q: bits.flag()? })
}

#[cfg(test)]
mod tests {
    use super::first_header;
    use crate::codec::tests::sample_entries::hex;

    #[test]
    fn the_first_sequence_header_is_read() {
        let sequence = first_header(&hex("0a0b0000002d4c37b3dfff9804")).unwrap();
        assert_eq!(sequence.size, Some((1080, 720)));
        assert_eq!((sequence.colour, sequence.full_range), (None, Some(false)));
    }

    #[test]
    fn other_obus_are_skipped_and_cut_ones_end_the_walk() {
        assert!(
            first_header(&hex("120000 0a0b0000002d4c37b3dfff9804")).is_none(),
            "an empty delimiter, then a reserved OBU type"
        );
        assert!(first_header(&hex("1200 0a0b0000002d4c37b3dfff9804")).is_some());
        assert!(first_header(&hex("0a0b0000002d4c37")).is_none());
        assert!(first_header(&[]).is_none());
    }
}
