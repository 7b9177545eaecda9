//! Slice headers of AVC (ISO/IEC 14496-10 §7.3.3).

use super::{
    avc::{HIGH_PROFILES, skip_scaling_matrix},
    parameter_sets::raw_payload,
    slices::{ParameterSets, SliceError, remember},
};
use crate::bits::BitReader;
use std::collections::BTreeMap;

/// nal_unit_type (Table 7-1).
const SLICE: u8 = 1;
const IDR_SLICE: u8 = 5;
const SPS: u8 = 7;
const PPS: u8 = 8;
/// Most entries of a list of references, in fields (§7.4.3).
const MAX_REFERENCES: u32 = 32;
/// Most commands in a slice header: more than any list of references can use.
const MAX_COMMANDS: u32 = 128;

/// Parameter sets by their IDs.
#[derive(Debug, Clone, Default)]
pub struct AvcSets {
    sps: BTreeMap<u32, Sps>,
    pps: BTreeMap<u32, Pps>,
}

/// The values of a sequence parameter set that slice headers depend on.
#[derive(Debug, Clone, Copy)]
struct Sps {
    separate_planes: bool,
    /// ChromaArrayType is not 0.
    has_chroma: bool,
    frame_num_bits: usize,
    order: PictureOrder,
    frames_only: bool,
}

#[derive(Debug, Clone, Copy)]
enum PictureOrder {
    /// pic_order_cnt_lsb of so many bits.
    Lsb(usize),
    /// Two deltas, unless they are always 0.
    Delta { always_zero: bool },
    /// That of decoding.
    Decoding,
}

/// The values of a picture parameter set that slice headers depend on.
#[derive(Debug, Clone, Copy)]
struct Pps {
    sps: u32,
    cabac: bool,
    bottom_field_order: bool,
    references: [u32; 2],
    weighted: bool,
    weighted_bipred: u8,
    deblocking_control: bool,
    redundant_count: bool,
}

/// slice_type modulo 5 (Table 7-6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SliceType {
    P,
    B,
    I,
    Sp,
    Si,
}

impl SliceType {
    fn of(value: u32) -> Option<Self> {
        (value < 10).then_some(match value % 5 {
            0 => Self::P,
            1 => Self::B,
            2 => Self::I,
            3 => Self::Sp,
            _ => Self::Si,
        })
    }

    fn is_predicted(self) -> bool {
        matches!(self, Self::P | Self::B | Self::Sp)
    }
}

impl AvcSets {
    /// Returns true for a NAL unit with a slice. Fails for forms of slices that are not followed.
    pub(super) fn is_slice(nal_unit: &[u8]) -> Result<bool, SliceError> {
        match nal_unit.first().map_or(0, |byte| byte & 0x1f) {
            SLICE | IDR_SLICE => Ok(true),
            2..=4 => Err(SliceError::Unsupported("data partitioning")),
            19 => Err(SliceError::Unsupported("auxiliary pictures")),
            20 | 21 => Err(SliceError::Unsupported("layers or views")),
            _ => Ok(false),
        }
    }
}

impl ParameterSets for AvcSets {
    fn learn(&mut self, nal_unit: &[u8]) {
        let kind = nal_unit.first().map_or(0, |byte| byte & 0x1f);
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

/// Reads a sequence parameter set (§7.3.2.1.1), and its ID.
fn sps(bits: &mut BitReader<'_>) -> Option<(u32, Sps)> {
    bits.skip(8)?;
    let profile = bits.u8(8)?;
    bits.skip(16)?;
    let id = bits.ue().filter(|&id| id < 32)?;
    let mut chroma_format = 1;
    let mut separate_planes = false;
    if HIGH_PROFILES.contains(&profile) {
        chroma_format = bits.ue()?;
        separate_planes = chroma_format == 3 && bits.flag()?;
        bits.ue()?;
        bits.ue()?;
        bits.skip(1)?;
        if bits.flag()? {
            skip_scaling_matrix(bits, if chroma_format == 3 { 12 } else { 8 })?;
        }
    }
    let length = |bits: &mut BitReader<'_>| usize::try_from(bits.ue().filter(|&n| n <= 12)? + 4).ok();
    let frame_num_bits = length(bits)?;
    let order = match bits.ue()? {
        0 => PictureOrder::Lsb(length(bits)?),
        1 => {
            let always_zero = bits.flag()?;
            bits.se()?;
            bits.se()?;
            for _ in 0..bits.ue().filter(|&n| n < 256)? {
                bits.se()?;
            }
            PictureOrder::Delta { always_zero }
        }
        _ => PictureOrder::Decoding,
    };
    bits.ue()?;
    bits.skip(1)?;
    bits.ue()?;
    bits.ue()?;
    let frames_only = bits.flag()?;
    let has_chroma = chroma_format != 0 && !separate_planes;
    Some((id, Sps { separate_planes, has_chroma, frame_num_bits, order, frames_only }))
}

/// Reads a picture parameter set (§7.3.2.2), and its ID. `None` also for groups of slices, whose
/// fields are not followed.
fn pps(bits: &mut BitReader<'_>) -> Option<(u32, Pps)> {
    bits.skip(8)?;
    let id = bits.ue().filter(|&id| id < 256)?;
    let sps = bits.ue()?;
    let cabac = bits.flag()?;
    let bottom_field_order = bits.flag()?;
    bits.ue().filter(|&groups| groups == 0)?;
    let references = [bits.ue()?, bits.ue()?].map(|minus_one| minus_one.saturating_add(1));
    let weighted = bits.flag()?;
    let weighted_bipred = bits.u8(2)?;
    bits.se()?;
    bits.se()?;
    bits.se()?;
    let deblocking_control = bits.flag()?;
    bits.skip(1)?;
    let redundant_count = bits.flag()?;
    let pps = Pps {
        sps,
        cabac,
        bottom_field_order,
        references,
        weighted,
        weighted_bipred,
        deblocking_control,
        redundant_count,
    };
    Some((id, pps))
}

impl AvcSets {
    /// Skips the NAL unit's header and slice_header().
    fn skip_slice_header(&self, bits: &mut BitReader<'_>) -> Option<()> {
        bits.skip(1)?;
        let is_reference = bits.u8(2)? != 0;
        let is_idr = bits.u8(5)? == IDR_SLICE;
        bits.ue()?;
        let slice = SliceType::of(bits.ue()?)?;
        let pps = self.pps.get(&bits.ue()?)?;
        let sps = self.sps.get(&pps.sps)?;
        if sps.separate_planes {
            bits.skip(2)?;
        }
        bits.skip(sps.frame_num_bits)?;
        let is_field = !sps.frames_only && bits.flag()?;
        if is_field {
            bits.skip(1)?;
        }
        if is_idr {
            bits.ue()?;
        }
        skip_order(bits, sps.order, pps.bottom_field_order && !is_field)?;
        if pps.redundant_count {
            bits.ue()?;
        }
        if slice == SliceType::B {
            bits.skip(1)?;
        }
        let references = active_references(bits, pps, slice)?;
        if slice.is_predicted() {
            skip_list_modification(bits)?;
        }
        if slice == SliceType::B {
            skip_list_modification(bits)?;
        }
        let is_weighted = match slice {
            SliceType::P | SliceType::Sp => pps.weighted,
            SliceType::B => pps.weighted_bipred == 1,
            SliceType::I | SliceType::Si => false,
        };
        if is_weighted {
            skip_weights(bits, references, sps.has_chroma)?;
        }
        if is_reference {
            skip_marking(bits, is_idr)?;
        }
        if pps.cabac && !matches!(slice, SliceType::I | SliceType::Si) {
            bits.ue()?;
        }
        bits.se()?;
        if slice == SliceType::Sp {
            bits.skip(1)?;
        }
        if matches!(slice, SliceType::Sp | SliceType::Si) {
            bits.se()?;
        }
        if pps.deblocking_control && bits.ue()? != 1 {
            bits.se()?;
            bits.se()?;
        }
        Some(())
    }
}

fn skip_order(bits: &mut BitReader<'_>, order: PictureOrder, has_bottom: bool) -> Option<()> {
    match order {
        PictureOrder::Lsb(length) => {
            bits.skip(length)?;
            if has_bottom {
                bits.se()?;
            }
        }
        PictureOrder::Delta { always_zero: false } => {
            bits.se()?;
            if has_bottom {
                bits.se()?;
            }
        }
        PictureOrder::Delta { always_zero: true } | PictureOrder::Decoding => {}
    }
    Some(())
}

/// Reads the lengths of both lists of references; 0 for a list that the slice does not use.
fn active_references(bits: &mut BitReader<'_>, pps: &Pps, slice: SliceType) -> Option<[u32; 2]> {
    if !slice.is_predicted() {
        return Some([0, 0]);
    }
    let is_b = slice == SliceType::B;
    let [mut first, mut second] = pps.references;
    if bits.flag()? {
        first = bits.ue()?.checked_add(1)?;
        if is_b {
            second = bits.ue()?.checked_add(1)?;
        }
    }
    let second = if is_b { second } else { 0 };
    (first <= MAX_REFERENCES && second <= MAX_REFERENCES).then_some([first, second])
}

/// Skips the part of ref_pic_list_modification() for one list (§7.3.3.1).
fn skip_list_modification(bits: &mut BitReader<'_>) -> Option<()> {
    if !bits.flag()? {
        return Some(());
    }
    for _ in 0..MAX_COMMANDS {
        match bits.ue()? {
            0..=2 => drop(bits.ue()?),
            3 => return Some(()),
            _ => return None,
        }
    }
    None
}

/// Skips pred_weight_table() (§7.3.3.2).
fn skip_weights(bits: &mut BitReader<'_>, references: [u32; 2], has_chroma: bool) -> Option<()> {
    bits.ue()?;
    if has_chroma {
        bits.ue()?;
    }
    for _ in 0..references.iter().sum::<u32>() {
        if bits.flag()? {
            bits.se()?;
            bits.se()?;
        }
        if has_chroma && bits.flag()? {
            for _ in 0..4 {
                bits.se()?;
            }
        }
    }
    Some(())
}

/// Skips dec_ref_pic_marking() (§7.3.3.3).
fn skip_marking(bits: &mut BitReader<'_>, is_idr: bool) -> Option<()> {
    if is_idr {
        return bits.skip(2);
    }
    if !bits.flag()? {
        return Some(());
    }
    for _ in 0..MAX_COMMANDS {
        match bits.ue()? {
            0 => return Some(()),
            1 | 2 | 4 | 6 => drop(bits.ue()?),
            3 => {
                bits.ue()?;
                bits.ue()?;
            }
            5 => {}
            _ => return None,
        }
    }
    None
}
