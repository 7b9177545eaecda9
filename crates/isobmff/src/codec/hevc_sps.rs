//! HEVC's sequence parameter set, up to its video usability information (ISO/IEC 23008-2 §7.3.2.2).

use super::parameter_sets::{Sequence, cropped, read_vui};
use crate::bits::BitReader;

/// Maximum number of short-term reference picture sets of a sequence (§7.4.3.2.1).
pub(super) const MAX_SHORT_TERM_SETS: u32 = 64;
/// Maximum number of pictures in one such set, bounded by the decoded picture buffer (§7.4.8).
pub(super) const MAX_SET_PICTURES: u32 = 16;
/// Maximum number of long-term reference pictures in a sequence parameter set (§7.4.3.2.1).
pub(super) const MAX_LONG_TERM: u32 = 32;

/// Reads seq_parameter_set_rbsp() with its NAL unit header.
pub(super) fn parameter_set(bits: &mut BitReader<'_>, sequence: &mut Sequence) -> Option<()> {
    bits.skip(16 + 4)?;
    let sub_layers = bits.u8(3)?;
    bits.skip(1)?;
    skip_profile_tier_level(bits, sub_layers)?;
    bits.ue()?;
    sequence.size = picture_size(bits)?;
    // Bit depths.
    bits.ue()?;
    bits.ue()?;
    let poc_bits = bits.ue()?.checked_add(4).filter(|&n| n <= 16)?;
    let sub_layer_ordering = bits.flag()?;
    for _ in if sub_layer_ordering { 0 } else { sub_layers }..=sub_layers {
        bits.ue()?;
        bits.ue()?;
        bits.ue()?;
    }
    // Block sizes and transform depths.
    for _ in 0..6 {
        bits.ue()?;
    }
    if bits.flag()? && bits.flag()? {
        skip_scaling_lists(bits)?;
    }
    // Asymmetric partitions, sample adaptive offset.
    bits.skip(2)?;
    if bits.flag()? {
        bits.skip(8)?;
        bits.ue()?;
        bits.ue()?;
        bits.skip(1)?;
    }
    skip_short_term_sets(bits)?;
    if bits.flag()? {
        let count = bits.ue()?;
        if count > MAX_LONG_TERM {
            return None;
        }
        bits.skip(usize::try_from(count * (poc_bits + 1)).ok()?)?;
    }
    // Temporal motion vectors, strong intra smoothing.
    bits.skip(2)?;
    if bits.flag()? {
        read_vui(bits, sequence)?;
    }
    Some(())
}

/// Skips profile_tier_level(1, …) (§7.3.3).
pub(super) fn skip_profile_tier_level(bits: &mut BitReader<'_>, sub_layers: u8) -> Option<()> {
    bits.skip(88 + 8)?;
    let mut present = 0;
    for _ in 0..sub_layers {
        let profile = bits.flag()?;
        let level = bits.flag()?;
        present += usize::from(profile) * 88 + usize::from(level) * 8;
    }
    if sub_layers > 0 {
        bits.skip(usize::from(8 - sub_layers) * 2)?;
    }
    bits.skip(present)
}

/// Reads width and height and takes off the conformance window; `Some(None)` if they do not fit a
/// sample entry.
fn picture_size(bits: &mut BitReader<'_>) -> Option<Option<(u16, u16)>> {
    let chroma_format = bits.ue()?;
    let separate_planes = chroma_format == 3 && bits.flag()?;
    let mut width = u64::from(bits.ue()?);
    let mut height = u64::from(bits.ue()?);
    if bits.flag()? {
        let (x, y) = cropped(bits, chroma_format, separate_planes)?;
        width = width.checked_sub(x)?;
        height = height.checked_sub(y)?;
    }
    Some(u16::try_from(width).ok().zip(u16::try_from(height).ok()))
}

/// Skips scaling_list_data() (§7.3.4).
pub(super) fn skip_scaling_lists(bits: &mut BitReader<'_>) -> Option<()> {
    for size in 0..4u32 {
        for _ in 0..if size == 3 { 2 } else { 6 } {
            if !bits.flag()? {
                bits.ue()?;
                continue;
            }
            if size > 1 {
                bits.se()?;
            }
            for _ in 0..64.min(1u32 << (4 + size * 2)) {
                bits.se()?;
            }
        }
    }
    Some(())
}

/// Skips every st_ref_pic_set() (§7.3.7). A set may be coded as the difference from the previous
/// set. It then has flags for each picture of that set and for one more, and consists of the
/// pictures that these flags keep.
fn skip_short_term_sets(bits: &mut BitReader<'_>) -> Option<()> {
    let sets = bits.ue()?;
    if sets > MAX_SHORT_TERM_SETS {
        return None;
    }
    let mut pictures = 0;
    for set in 0..sets {
        if set > 0 && bits.flag()? {
            bits.skip(1)?;
            bits.ue()?;
            let mut kept = 0;
            for _ in 0..=pictures {
                let used = bits.flag()?;
                if used || bits.flag()? {
                    kept += 1;
                }
            }
            pictures = kept;
        } else {
            let before = bits.ue()?;
            let after = bits.ue()?;
            if before > MAX_SET_PICTURES || after > MAX_SET_PICTURES {
                return None;
            }
            pictures = before + after;
            for _ in 0..pictures {
                bits.ue()?;
                bits.skip(1)?;
            }
        }
        if pictures > 2 * MAX_SET_PICTURES {
            return None;
        }
    }
    Some(())
}
