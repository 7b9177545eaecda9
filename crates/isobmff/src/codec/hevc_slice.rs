//! Slice segment headers of HEVC (ISO/IEC 23008-2 §7.3.6).

use super::{
    hevc_sets::{PictureSet, Pps, SequenceSet, pps, read_set, sps},
    parameter_sets::raw_payload,
    slices::{ParameterSets, SliceError, bits_for, remember},
};
use crate::bits::BitReader;
use std::collections::BTreeMap;

/// nal_unit_type (Table 7-1).
const LAST_SLICE: u8 = 31;
const SPS: u8 = 33;
const PPS: u8 = 34;
/// Most entries of a list of references (§7.4.7.1).
const MAX_REFERENCES: u32 = 16;
/// Most long-term pictures, and more than any picture buffer holds.
const MAX_LONG_TERM: u32 = 33;

/// Parameter sets by their IDs.
#[derive(Debug, Clone, Default)]
pub struct HevcSets {
    sps: BTreeMap<u32, SequenceSet>,
    pps: BTreeMap<u32, Pps>,
}

/// slice_type (Table 7-7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SliceType {
    B,
    P,
    I,
}

impl HevcSets {
    /// Returns true for a NAL unit with a slice. Fails for forms of slices that are not followed.
    pub(super) fn is_slice(nal_unit: &[u8]) -> Result<bool, SliceError> {
        let Some([first, second]) = nal_unit.first_chunk::<2>() else { return Ok(false) };
        if first >> 1 & 0x3f > LAST_SLICE {
            return Ok(false);
        }
        match (first & 1) << 5 | second >> 3 {
            0 => Ok(true),
            _ => Err(SliceError::Unsupported("layers or views")),
        }
    }
}

impl ParameterSets for HevcSets {
    fn learn(&mut self, nal_unit: &[u8]) {
        let kind = nal_unit.first().map_or(0, |byte| byte >> 1 & 0x3f);
        if kind != SPS && kind != PPS {
            return;
        }
        let payload = raw_payload(nal_unit);
        let mut bits = BitReader::new(&payload);
        match kind {
            SPS => remember(&mut self.sps, sps(&mut bits)),
            _ => remember(&mut self.pps, pps(&mut bits)),
        }
    }

    fn skip_header(&self, bits: &mut BitReader<'_>) -> Option<()> {
        self.skip_slice_header(bits)
    }
}

impl HevcSets {
    /// Skips the NAL unit's header and slice_segment_header().
    fn skip_slice_header(&self, bits: &mut BitReader<'_>) -> Option<()> {
        bits.skip(1)?;
        let kind = bits.u8(6)?;
        bits.skip(9)?;
        let is_first = bits.flag()?;
        if (16..=23).contains(&kind) {
            bits.skip(1)?;
        }
        let pps = self.pps.get(&bits.ue()?)?;
        let sps = self.sps.get(&pps.sps)?;
        let mut is_dependent = false;
        if !is_first {
            is_dependent = pps.dependent_slices && bits.flag()?;
            bits.skip(bits_for(sps.tree_blocks))?;
        }
        if !is_dependent {
            skip_independent(bits, kind, pps, sps)?;
        }
        if pps.entry_points {
            let count = bits.ue()?;
            if count > 0 {
                let length = bits.ue().filter(|&minus_one| minus_one < 32)? + 1;
                bits.skip(usize::try_from(u64::from(count) * u64::from(length)).ok()?)?;
            }
        }
        if pps.extension {
            let bytes = bits.ue().filter(|&bytes| bytes <= 256)?;
            bits.skip(usize::try_from(bytes).ok()? * 8)?;
        }
        // byte_alignment() begins with a one.
        bits.skip(1)
    }
}

/// Skips the fields of a header that a dependent slice segment lacks.
fn skip_independent(bits: &mut BitReader<'_>, kind: u8, pps: &Pps, sps: &SequenceSet) -> Option<()> {
    bits.skip(pps.extra_bits)?;
    let slice = match bits.ue()? {
        0 => SliceType::B,
        1 => SliceType::P,
        2 => SliceType::I,
        _ => return None,
    };
    if pps.output_flag {
        bits.skip(1)?;
    }
    if sps.separate_planes {
        bits.skip(2)?;
    }
    // IDR_W_RADL and IDR_N_LP have no references.
    let (pictures, temporal) = if matches!(kind, 19 | 20) { (0, false) } else { skip_pictures(bits, sps)? };
    let mut sao = false;
    if sps.sample_offsets {
        sao = bits.flag()?;
        if sps.has_chroma {
            sao |= bits.flag()?;
        }
    }
    if slice != SliceType::I {
        skip_prediction(bits, slice, pps, sps, pictures, temporal)?;
    }
    bits.se()?;
    if pps.chroma_offsets {
        bits.se()?;
        bits.se()?;
    }
    if pps.chroma_offset_list {
        bits.skip(1)?;
    }
    let is_overridden = pps.deblocking_override && bits.flag()?;
    let mut is_deblocking_off = pps.deblocking_off;
    if is_overridden {
        is_deblocking_off = bits.flag()?;
        if !is_deblocking_off {
            bits.se()?;
            bits.se()?;
        }
    }
    if pps.loop_filter_across && (sao || !is_deblocking_off) {
        bits.skip(1)?;
    }
    Some(())
}

/// Skips the references of a picture. Returns NumPicTotalCurr, and
/// slice_temporal_mvp_enabled_flag.
fn skip_pictures(bits: &mut BitReader<'_>, sps: &SequenceSet) -> Option<(u32, bool)> {
    bits.skip(sps.order_bits)?;
    let count = u32::try_from(sps.short_term.len()).ok()?;
    let own;
    let set: &PictureSet = if bits.flag()? {
        let index = bits.bits(u32::try_from(bits_for(count)).ok()?)?;
        sps.short_term.get(usize::try_from(index).ok()?)?
    } else {
        own = read_set(bits, &sps.short_term, true)?;
        &own
    };
    let mut pictures = set.used();
    if let Some(long_term) = &sps.long_term {
        let listed = u32::try_from(long_term.len()).ok()?;
        let from_list = if listed > 0 { bits.ue()? } else { 0 };
        let total = from_list.checked_add(bits.ue()?).filter(|&total| total <= MAX_LONG_TERM)?;
        for number in 0..total {
            let is_used = if number < from_list {
                let index = bits.bits(u32::try_from(bits_for(listed)).ok()?)?;
                *long_term.get(usize::try_from(index).ok()?)?
            } else {
                bits.skip(sps.order_bits)?;
                bits.flag()?
            };
            pictures += u32::from(is_used);
            if bits.flag()? {
                bits.ue()?;
            }
        }
    }
    let temporal = sps.temporal_vectors && bits.flag()?;
    Some((pictures, temporal))
}

/// Skips the fields of P and B slices.
fn skip_prediction(
    bits: &mut BitReader<'_>,
    slice: SliceType,
    pps: &Pps,
    sps: &SequenceSet,
    pictures: u32,
    temporal: bool,
) -> Option<()> {
    let is_b = slice == SliceType::B;
    let [mut first, mut second] = pps.references;
    if bits.flag()? {
        first = bits.ue()?.checked_add(1)?;
        if is_b {
            second = bits.ue()?.checked_add(1)?;
        }
    }
    let lists = [first, if is_b { second } else { 0 }];
    if lists.iter().any(|&length| length > MAX_REFERENCES) {
        return None;
    }
    if pps.lists_modification && pictures > 1 {
        for &length in lists.iter().take(if is_b { 2 } else { 1 }) {
            if bits.flag()? {
                bits.skip(usize::try_from(length).ok()? * bits_for(pictures))?;
            }
        }
    }
    if is_b {
        bits.skip(1)?;
    }
    if pps.cabac_init {
        bits.skip(1)?;
    }
    if temporal {
        let is_first = !is_b || bits.flag()?;
        let [first, second] = lists;
        if (if is_first { first } else { second }) > 1 {
            bits.ue()?;
        }
    }
    if if is_b { pps.weighted_bipred } else { pps.weighted } {
        skip_weights(bits, lists, sps.has_chroma)?;
    }
    bits.ue()?;
    Some(())
}

/// Skips pred_weight_table() (§7.3.6.3). Without layers, no reference is of the same time.
fn skip_weights(bits: &mut BitReader<'_>, lists: [u32; 2], has_chroma: bool) -> Option<()> {
    bits.ue()?;
    if has_chroma {
        bits.se()?;
    }
    for length in lists {
        let mut flags = |is_there: bool| -> Option<Vec<bool>> {
            (0..length).map(|_| if is_there { bits.flag() } else { Some(false) }).collect()
        };
        let luma = flags(true)?;
        let chroma = flags(has_chroma)?;
        for (luma, chroma) in luma.into_iter().zip(chroma) {
            for _ in 0..usize::from(luma) * 2 + usize::from(chroma) * 4 {
                bits.se()?;
            }
        }
    }
    Some(())
}
