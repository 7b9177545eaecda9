//! The AV1 sequence header in configOBUs of `av1C` (AV1 Bitstream & Decoding Process §5.3, §5.5).

use super::description::Colour;
use super::parameter_sets::Sequence;
use crate::bits::BitReader;

/// OBU_SEQUENCE_HEADER (§6.2.2).
const SEQUENCE_HEADER: u8 = 1;

/// Reads the first sequence header among these OBUs.
pub(super) fn first_header(obus: &[u8]) -> Option<Sequence> {
    let mut bits = BitReader::new(obus);
    loop {
        bits.skip(1)?;
        let kind = bits.u8(4)?;
        let extension = bits.flag()?;
        let has_size = bits.flag()?;
        bits.skip(if extension { 9 } else { 1 })?;
        let size = if has_size { usize::try_from(bits.leb128()?).ok()? } else { bits.remaining() / 8 };
        let payload = bits.bytes(size)?;
        if kind == SEQUENCE_HEADER {
            return sequence_header(&mut BitReader::new(payload));
        }
    }
}

/// Reads sequence_header_obu() (§5.5.1).
fn sequence_header(bits: &mut BitReader<'_>) -> Option<Sequence> {
    let profile = bits.u8(3)?;
    bits.skip(1)?;
    let reduced = bits.flag()?;
    if reduced {
        bits.skip(5)?;
    } else {
        skip_operating_points(bits)?;
    }
    let width_bits = bits.bits(4)? + 1;
    let height_bits = bits.bits(4)? + 1;
    // Both are at most 16 bits long and hold the size minus 1.
    let width = bits.bits(width_bits)? + 1;
    let height = bits.bits(height_bits)? + 1;
    let size = u16::try_from(width).ok().zip(u16::try_from(height).ok());
    if !reduced && bits.flag()? {
        bits.skip(4 + 3)?;
    }
    // 128x128 superblocks, filter intra, intra edge filter.
    bits.skip(3)?;
    if !reduced {
        skip_inter_tools(bits)?;
    }
    // Super resolution, CDEF, restoration.
    bits.skip(3)?;
    color_config(bits, profile, Sequence { size, ..Sequence::default() })
}

/// Skips timing, decoder model and operating points.
fn skip_operating_points(bits: &mut BitReader<'_>) -> Option<()> {
    let mut delay_bits = None;
    if bits.flag()? {
        bits.skip(64)?;
        if bits.flag()? {
            bits.skip_uvlc()?;
        }
        if bits.flag()? {
            delay_bits = Some(usize::from(bits.u8(5)?) + 1);
            bits.skip(32 + 5 + 5)?;
        }
    }
    let display_delay = bits.flag()?;
    for _ in 0..=bits.u8(5)? {
        bits.skip(12)?;
        if bits.u8(5)? > 7 {
            bits.skip(1)?;
        }
        if let Some(delay_bits) = delay_bits
            && bits.flag()?
        {
            bits.skip(2 * delay_bits + 1)?;
        }
        if display_delay && bits.flag()? {
            bits.skip(4)?;
        }
    }
    Some(())
}

/// Skips the fields from enable_interintra_compound to order_hint_bits_minus_1.
fn skip_inter_tools(bits: &mut BitReader<'_>) -> Option<()> {
    bits.skip(4)?;
    let order_hint = bits.flag()?;
    if order_hint {
        bits.skip(2)?;
    }
    let choose_screen_content = bits.flag()?;
    let screen_content = choose_screen_content || bits.flag()?;
    if screen_content && !bits.flag()? {
        bits.skip(1)?;
    }
    if order_hint {
        bits.skip(3)?;
    }
    Some(())
}

/// Reads color_config() (§5.5.2) up to color_range.
fn color_config(bits: &mut BitReader<'_>, profile: u8, mut sequence: Sequence) -> Option<Sequence> {
    let high_bitdepth = bits.flag()?;
    if profile == 2 && high_bitdepth {
        bits.skip(1)?;
    }
    let monochrome = profile != 1 && bits.flag()?;
    if bits.flag()? {
        sequence.colour = Some(Colour { primaries: bits.u8(8)?, transfer: bits.u8(8)?, matrix: bits.u8(8)? });
    }
    // sRGB in 4:4:4 implies full range and has no flag.
    let srgb = Some(Colour { primaries: 1, transfer: 13, matrix: 0 });
    sequence.full_range = Some(if !monochrome && sequence.colour == srgb { true } else { bits.flag()? });
    Some(sequence)
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
