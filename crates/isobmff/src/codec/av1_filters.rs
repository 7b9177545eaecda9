//! The parts of an AV1 frame header that describe quantizers, filters, motion and film grain (AV1
//! Bitstream & Decoding Process §5.9.11 to §5.9.30).

use super::av1_references::{REFERENCES, SEGMENTS};
use super::av1_sequence::{Av1Sequence, Planes};
use super::av1_tiles::not_symmetric;
use crate::bits::BitReader;

/// The quantizers of a frame (quantization_params()).
pub(super) struct Quantizer {
    /// base_q_idx.
    pub(super) base: u32,
    /// True if no plane has a difference to it.
    has_no_deltas: bool,
}

impl Quantizer {
    pub(super) fn read(bits: &mut BitReader<'_>, planes: Planes) -> Option<Self> {
        let base = bits.bits(8)?;
        let mut has_no_deltas = is_zero_delta(bits)?;
        if !planes.is_monochrome {
            let differs = planes.has_separate_uv_delta_q && bits.flag()?;
            for _ in 0..if differs { 4 } else { 2 } {
                has_no_deltas &= is_zero_delta(bits)?;
            }
        }
        if bits.flag()? {
            bits.skip(if planes.has_separate_uv_delta_q { 12 } else { 8 })?;
        }
        Some(Self { base, has_no_deltas })
    }

    /// Returns CodedLossless: true if all segments are coded without loss.
    pub(super) fn is_lossless(&self, segments: &[Option<i32>; SEGMENTS]) -> bool {
        let base = i32::try_from(self.base).unwrap_or(i32::MAX);
        self.has_no_deltas && segments.iter().all(|delta| base + delta.unwrap_or(0) <= 0)
    }
}

/// Reads read_delta_q(), and returns true if it is 0.
fn is_zero_delta(bits: &mut BitReader<'_>) -> Option<bool> {
    Some(!bits.flag()? || bits.bits(7)? == 0)
}

/// Reads segmentation_params(). `previous` are the segments of the primary reference, if there is
/// one.
pub(super) fn segmentation(
    bits: &mut BitReader<'_>,
    previous: Option<[Option<i32>; SEGMENTS]>,
) -> Option<[Option<i32>; SEGMENTS]> {
    /// Bits of each feature behind the first, with those of its sign.
    const OTHER_FEATURES: [usize; 7] = [7, 7, 7, 7, 3, 0, 0];
    if !bits.flag()? {
        return Some([None; SEGMENTS]);
    }
    if let Some(previous) = previous {
        if bits.flag()? {
            bits.skip(1)?;
        }
        if !bits.flag()? {
            return Some(previous);
        }
    }
    let mut segments = [None; SEGMENTS];
    for segment in &mut segments {
        if bits.flag()? {
            let value = i32::try_from(bits.bits(9)?).ok()?;
            *segment = Some(if value < 256 { value } else { value - 512 }.clamp(-255, 255));
        }
        for feature in OTHER_FEATURES {
            if bits.flag()? {
                bits.skip(feature)?;
            }
        }
    }
    Some(segments)
}

/// Skips delta_q_params() and delta_lf_params().
pub(super) fn skip_deltas(
    bits: &mut BitReader<'_>,
    quantizer: &Quantizer,
    allows_intrabc: bool,
) -> Option<()> {
    if quantizer.base == 0 || !bits.flag()? {
        return Some(());
    }
    bits.skip(2)?;
    if !allows_intrabc && bits.flag()? { bits.skip(3) } else { Some(()) }
}

/// Skips loop_filter_params(), of a frame that has them.
pub(super) fn skip_loop_filter(bits: &mut BitReader<'_>, planes: Planes) -> Option<()> {
    let has_levels = bits.bits(12)? > 0;
    if has_levels && !planes.is_monochrome {
        bits.skip(12)?;
    }
    bits.skip(3)?;
    if bits.flag()? && bits.flag()? {
        for _ in 0..8 + 2 {
            if bits.flag()? {
                bits.skip(7)?;
            }
        }
    }
    Some(())
}

/// Skips cdef_params(), of a frame that has them.
pub(super) fn skip_cdef(bits: &mut BitReader<'_>, planes: Planes) -> Option<()> {
    bits.skip(2)?;
    let count = 1 << bits.u8(2)?;
    bits.skip(count * if planes.is_monochrome { 6 } else { 12 })
}

/// Skips lr_params(), of a frame that has them.
pub(super) fn skip_restoration(bits: &mut BitReader<'_>, sequence: &Av1Sequence) -> Option<()> {
    let luma = bits.u8(2)? > 0;
    let mut chroma = false;
    if !sequence.planes.is_monochrome {
        chroma = bits.bits(4)? > 0;
    }
    if luma || chroma {
        if bits.flag()? && !sequence.has_large_superblocks {
            bits.skip(1)?;
        }
        if chroma && sequence.planes.subsampling == (true, true) {
            bits.skip(1)?;
        }
    }
    Some(())
}

/// Skips global_motion_params() of a frame that refers to others.
pub(super) fn skip_global_motion(bits: &mut BitReader<'_>, has_high_precision: bool) -> Option<()> {
    /// Bits of the absolute values (GM_ABS_ALPHA_BITS, GM_ABS_TRANS_BITS,
    /// GM_ABS_TRANS_ONLY_BITS).
    const ALPHA: u32 = 12;
    const TRANSLATION: u32 = 12;
    const TRANSLATION_ONLY: u32 = 9;
    for _ in 0..REFERENCES {
        if !bits.flag()? {
            continue;
        }
        let is_rotation = bits.flag()?;
        let is_translation = !is_rotation && bits.flag()?;
        let precise = if has_high_precision { TRANSLATION_ONLY } else { TRANSLATION_ONLY - 1 };
        let parameters: &[u32] = match (is_rotation, is_translation) {
            (true, _) => &[ALPHA, ALPHA, TRANSLATION, TRANSLATION],
            (_, true) => &[precise; 2],
            _ => &[ALPHA, ALPHA, ALPHA, ALPHA, TRANSLATION, TRANSLATION],
        };
        for absolute in parameters {
            skip_subexponential(bits, 2 * (1 << absolute) + 1)?;
        }
    }
    Some(())
}

/// Skips decode_subexp(), whose length does not depend on the reference value.
fn skip_subexponential(bits: &mut BitReader<'_>, count: u32) -> Option<()> {
    let mut least = 0;
    let mut width = 3;
    loop {
        if count <= least + 3 * (1 << width) {
            not_symmetric(bits, count - least)?;
            return Some(());
        }
        if !bits.flag()? {
            return bits.bits(width).map(drop);
        }
        least += 1 << width;
        // The first two ranges have the same size.
        if least > 8 {
            width += 1;
        }
    }
}

/// Skips film_grain_params() of a frame that is shown or may be. `is_inter` is true for an inter
/// frame, which may take them from another.
pub(super) fn skip_film_grain(bits: &mut BitReader<'_>, planes: Planes, is_inter: bool) -> Option<()> {
    if !bits.flag()? {
        return Some(());
    }
    bits.skip(16)?;
    if is_inter && !bits.flag()? {
        return bits.skip(3);
    }
    let points = |bits: &mut BitReader<'_>| {
        let count = usize::from(bits.u8(4)?);
        bits.skip(16 * count)?;
        Some(count > 0)
    };
    let has_luma = points(bits)?;
    let from_luma = !planes.is_monochrome && bits.flag()?;
    let mut has_cb = false;
    let mut has_cr = false;
    let is_left_out = planes.subsampling == (true, true) && !has_luma;
    if !planes.is_monochrome && !from_luma && !is_left_out {
        (has_cb, has_cr) = (points(bits)?, points(bits)?);
    }
    bits.skip(2)?;
    let lag = usize::from(bits.u8(2)?);
    let luma = 2 * lag * (lag + 1);
    let chroma = luma + usize::from(has_luma);
    for (is_present, coefficients) in
        [(has_luma, luma), (from_luma || has_cb, chroma), (from_luma || has_cr, chroma)]
    {
        bits.skip(if is_present { 8 * coefficients } else { 0 })?;
    }
    bits.skip(4)?;
    for is_present in [has_cb, has_cr] {
        bits.skip(if is_present { 25 } else { 0 })?;
    }
    bits.skip(2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::BitWriter;

    #[test]
    fn a_frame_is_lossless_if_all_its_segments_are() {
        let quantizer = |base, has_no_deltas| Quantizer { base, has_no_deltas };
        let mut segments = [None; SEGMENTS];
        assert!(quantizer(0, true).is_lossless(&segments));
        assert!(!quantizer(0, false).is_lossless(&segments));
        assert!(!quantizer(5, true).is_lossless(&segments));
        segments[7] = Some(1);
        assert!(!quantizer(0, true).is_lossless(&segments));
        assert!(quantizer(5, true).is_lossless(&[Some(-6); SEGMENTS]));
    }

    #[test]
    fn segments_are_kept_unless_they_are_stated_anew() {
        let previous = [Some(4); SEGMENTS];
        let read = |bytes: &[u8], previous| segmentation(&mut BitReader::new(bytes), previous);
        assert_eq!(read(&[0x00], Some(previous)), Some([None; SEGMENTS]));
        // Enabled, with neither a new map nor new data.
        assert_eq!(read(&[0x80], Some(previous)), Some(previous));
        // Enabled, with new data: -3 in the first segment.
        let mut writer = BitWriter::default();
        writer.put(4, 0b1101).put(1, 1).put(9, 512 - 3);
        writer.put(32, 0).put(32, 0);
        let stated = read(&writer.to_bytes(), Some(previous)).unwrap();
        assert_eq!(stated[..2], [Some(-3), None]);
        assert_eq!(read(&[0x80, 0, 0, 0, 0, 0, 0, 0], None), None, "cut off");
    }

    /// The first two ranges have 8 values, and each further one twice as many. The last is ns(n).
    #[test]
    fn codes_grow_with_their_values() {
        for (bytes, count, left) in [
            (&[0b0000_0000, 0][..], 8193, 12),
            (&[0b1000_0000, 0], 8193, 11),
            (&[0b1100_0000, 0], 8193, 9),
            (&[0b0000_0000, 0], 18, 12),
        ] {
            let mut bits = BitReader::new(bytes);
            skip_subexponential(&mut bits, count).unwrap();
            assert_eq!(bits.remaining(), left, "{bytes:?}");
        }
    }
}
