//! The values of HEVC's parameter sets that slice headers depend on (ISO/IEC 23008-2 §7.3.2).

use super::hevc_sps::{
    MAX_LONG_TERM, MAX_SET_PICTURES, MAX_SHORT_TERM_SETS, skip_profile_tier_level, skip_scaling_lists,
};
use crate::bits::BitReader;

/// A sequence parameter set.
#[derive(Debug, Clone)]
pub(super) struct SequenceSet {
    pub(super) separate_planes: bool,
    /// ChromaArrayType is not 0.
    pub(super) has_chroma: bool,
    /// PicSizeInCtbsY.
    pub(super) tree_blocks: u32,
    /// Bits of slice_pic_order_cnt_lsb.
    pub(super) order_bits: usize,
    pub(super) sample_offsets: bool,
    pub(super) short_term: Vec<PictureSet>,
    /// used_by_curr_pic_lt_sps_flag of each; `None` without long-term pictures.
    pub(super) long_term: Option<Vec<bool>>,
    pub(super) temporal_vectors: bool,
}

/// A picture parameter set.
#[derive(Debug, Clone)]
pub(super) struct Pps {
    pub(super) sps: u32,
    pub(super) dependent_slices: bool,
    pub(super) output_flag: bool,
    pub(super) extra_bits: usize,
    pub(super) cabac_init: bool,
    pub(super) references: [u32; 2],
    pub(super) chroma_offsets: bool,
    pub(super) weighted: bool,
    pub(super) weighted_bipred: bool,
    /// Headers state entry points: there are tiles, or rows that are decoded side by side.
    pub(super) entry_points: bool,
    pub(super) loop_filter_across: bool,
    pub(super) deblocking_override: bool,
    pub(super) deblocking_off: bool,
    pub(super) lists_modification: bool,
    pub(super) extension: bool,
    pub(super) chroma_offset_list: bool,
}

/// A short-term reference picture set: the distance of each picture in output order, and whether
/// the current picture uses it. Earlier pictures come first, the nearest first.
#[derive(Debug, Clone, Default)]
pub(super) struct PictureSet {
    before: Vec<(i64, bool)>,
    after: Vec<(i64, bool)>,
}

impl PictureSet {
    /// Returns the number of pictures that the current one uses.
    pub(super) fn used(&self) -> u32 {
        let used = self.before.iter().chain(&self.after).filter(|(_, is_used)| *is_used);
        u32::try_from(used.count()).unwrap_or(u32::MAX)
    }
}

/// Reads a sequence parameter set with its NAL unit header, and its ID.
pub(super) fn sps(bits: &mut BitReader<'_>) -> Option<(u32, SequenceSet)> {
    bits.skip(16 + 4)?;
    let sub_layers = bits.u8(3)?;
    bits.skip(1)?;
    skip_profile_tier_level(bits, sub_layers)?;
    let id = bits.ue().filter(|&id| id < 16)?;
    let chroma_format = bits.ue()?;
    let separate_planes = chroma_format == 3 && bits.flag()?;
    let width = bits.ue()?;
    let height = bits.ue()?;
    if bits.flag()? {
        // The conformance window.
        skip_codes(bits, 4)?;
    }
    // Bit depths.
    skip_codes(bits, 2)?;
    let order_bits = bits.ue()?.checked_add(4).filter(|&n| n <= 16)?;
    let sub_layer_ordering = bits.flag()?;
    for _ in if sub_layer_ordering { 0 } else { sub_layers }..=sub_layers {
        skip_codes(bits, 3)?;
    }
    let smallest = bits.ue()?.checked_add(3)?;
    let log2 = smallest.checked_add(bits.ue()?).filter(|log2| (3..=6).contains(log2))?;
    // Transform sizes and depths.
    skip_codes(bits, 4)?;
    if bits.flag()? && bits.flag()? {
        skip_scaling_lists(bits)?;
    }
    bits.skip(1)?;
    let sample_offsets = bits.flag()?;
    if bits.flag()? {
        // PCM samples.
        bits.skip(8)?;
        skip_codes(bits, 2)?;
        bits.skip(1)?;
    }
    let count = bits.ue().filter(|&count| count <= MAX_SHORT_TERM_SETS)?;
    let mut short_term = Vec::new();
    for _ in 0..count {
        short_term.push(read_set(bits, &short_term, false)?);
    }
    let order_bits = usize::try_from(order_bits).ok()?;
    let long_term = if bits.flag()? { Some(long_term_pictures(bits, order_bits)?) } else { None };
    let temporal_vectors = bits.flag()?;
    let blocks = |size: u32| u64::from(size).div_ceil(1 << log2);
    let set = SequenceSet {
        separate_planes,
        has_chroma: chroma_format != 0 && !separate_planes,
        tree_blocks: u32::try_from(blocks(width).checked_mul(blocks(height))?).ok()?,
        order_bits,
        sample_offsets,
        short_term,
        long_term,
        temporal_vectors,
    };
    Some((id, set))
}

fn skip_codes(bits: &mut BitReader<'_>, count: u32) -> Option<()> {
    for _ in 0..count {
        bits.ue()?;
    }
    Some(())
}

/// Reads the long-term reference pictures of a sequence: whether the current picture uses each.
fn long_term_pictures(bits: &mut BitReader<'_>, order_bits: usize) -> Option<Vec<bool>> {
    let count = bits.ue().filter(|&count| count <= MAX_LONG_TERM)?;
    let used = |_| {
        bits.skip(order_bits)?;
        bits.flag()
    };
    (0..count).map(used).collect()
}

/// Reads st_ref_pic_set() (§7.3.7) after the `known` sets of the sequence. In a slice header, a set
/// may be coded as the difference from any of them, else from the last one.
pub(super) fn read_set(
    bits: &mut BitReader<'_>,
    known: &[PictureSet],
    is_in_slice: bool,
) -> Option<PictureSet> {
    if !known.is_empty() && bits.flag()? {
        let back = if is_in_slice { usize::try_from(bits.ue()?).ok()?.checked_add(1)? } else { 1 };
        return read_difference(bits, known.get(known.len().checked_sub(back)?)?);
    }
    let counts = [bits.ue()?, bits.ue()?];
    if counts.iter().any(|&count| count > MAX_SET_PICTURES) {
        return None;
    }
    let mut read = |count: u32, sign: i64| -> Option<Vec<(i64, bool)>> {
        let mut distance = 0;
        let next = |_| {
            distance += sign * (i64::from(bits.ue()?) + 1);
            Some((distance, bits.flag()?))
        };
        (0..count).map(next).collect()
    };
    Some(PictureSet { before: read(counts[0], -1)?, after: read(counts[1], 1)? })
}

/// Reads a set that is coded as the difference from another (equations 7-61 and 7-62).
fn read_difference(bits: &mut BitReader<'_>, from: &PictureSet) -> Option<PictureSet> {
    let is_negative = bits.flag()?;
    let size = i64::from(bits.ue().filter(|&minus_one| minus_one < 1 << 15)?) + 1;
    let delta = if is_negative { -size } else { size };
    let pictures = from.before.iter().chain(&from.after).map(|&(distance, _)| distance);
    let mut set = PictureSet::default();
    for distance in pictures.chain([0]) {
        let is_used = bits.flag()?;
        let is_kept = is_used || bits.flag()?;
        let distance = distance + delta;
        match distance {
            _ if !is_kept || distance == 0 => {}
            ..0 => set.before.push((distance, is_used)),
            _ => set.after.push((distance, is_used)),
        }
    }
    let limit = usize::try_from(MAX_SET_PICTURES).ok()?;
    set.before.sort_by_key(|&(distance, _)| -distance);
    set.after.sort_by_key(|&(distance, _)| distance);
    (set.before.len() <= limit && set.after.len() <= limit).then_some(set)
}

/// Reads a picture parameter set with its NAL unit header, and its ID. `None` also for layers and
/// screen content, whose fields are not followed.
pub(super) fn pps(bits: &mut BitReader<'_>) -> Option<(u32, Pps)> {
    bits.skip(16)?;
    let id = bits.ue().filter(|&id| id < 64)?;
    let sps = bits.ue()?;
    let dependent_slices = bits.flag()?;
    let output_flag = bits.flag()?;
    let extra_bits = usize::from(bits.u8(3)?);
    bits.skip(1)?;
    let cabac_init = bits.flag()?;
    let references = [bits.ue()?, bits.ue()?].map(|minus_one| minus_one.saturating_add(1));
    bits.se()?;
    bits.skip(1)?;
    let transform_skip = bits.flag()?;
    if bits.flag()? {
        bits.ue()?;
    }
    bits.se()?;
    bits.se()?;
    let chroma_offsets = bits.flag()?;
    let weighted = bits.flag()?;
    let weighted_bipred = bits.flag()?;
    bits.skip(1)?;
    let tiles = bits.flag()?;
    let rows = bits.flag()?;
    if tiles {
        skip_tiles(bits)?;
    }
    let loop_filter_across = bits.flag()?;
    let mut deblocking_override = false;
    let mut deblocking_off = false;
    if bits.flag()? {
        deblocking_override = bits.flag()?;
        deblocking_off = bits.flag()?;
        if !deblocking_off {
            bits.se()?;
            bits.se()?;
        }
    }
    if bits.flag()? {
        skip_scaling_lists(bits)?;
    }
    let lists_modification = bits.flag()?;
    bits.ue()?;
    let extension = bits.flag()?;
    let chroma_offset_list = bits.flag()? && read_range_extension(bits, transform_skip)?;
    let pps = Pps {
        sps,
        dependent_slices,
        output_flag,
        extra_bits,
        cabac_init,
        references,
        chroma_offsets,
        weighted,
        weighted_bipred,
        entry_points: tiles || rows,
        loop_filter_across,
        deblocking_override,
        deblocking_off,
        lists_modification,
        extension,
        chroma_offset_list,
    };
    Some((id, pps))
}

fn skip_tiles(bits: &mut BitReader<'_>) -> Option<()> {
    let borders = bits.ue()?.checked_add(bits.ue()?).filter(|&borders| borders <= 64)?;
    let is_uniform = bits.flag()?;
    for _ in 0..if is_uniform { 0 } else { borders } {
        bits.ue()?;
    }
    bits.skip(1)
}

/// Reads the extensions of a picture parameter set. Returns
/// chroma_qp_offset_list_enabled_flag.
fn read_range_extension(bits: &mut BitReader<'_>, transform_skip: bool) -> Option<bool> {
    let has_range = bits.flag()?;
    // Layers, depth, screen content, and what is reserved.
    if bits.bits(7)? != 0 {
        return None;
    }
    if !has_range {
        return Some(false);
    }
    if transform_skip {
        bits.ue()?;
    }
    bits.skip(1)?;
    bits.flag()
}
