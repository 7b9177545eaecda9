//! uncompressed_header() of AV1 (AV1 Bitstream & Decoding Process §5.9.2).
//!
//! Its fields are only skipped, but their number depends on those before, and on the frames that
//! the frame refers to: their sizes, order hints and segments.

use super::av1_filters::{
    Quantizer, segmentation, skip_cdef, skip_deltas, skip_film_grain, skip_global_motion, skip_loop_filter,
    skip_restoration,
};
use super::av1_obu::Layer;
use super::av1_references::{OrderHints, REFERENCES, Reference, References};
use super::av1_sequence::Av1Sequence;
use super::av1_tiles::Tiles;
use crate::bits::BitReader;

/// primary_ref_frame of a frame that has none.
const NO_PRIMARY: usize = 7;
/// Refreshes all references.
const ALL: u8 = 0xff;
/// SUPERRES_NUM, and the least denominator (SUPERRES_DENOM_MIN).
const SUPERRES: u32 = 8;
const LEAST_DENOMINATOR: u32 = 9;

/// frame_type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Key,
    Inter,
    IntraOnly,
    Switch,
}

impl Kind {
    fn is_intra(self) -> bool {
        matches!(self, Self::Key | Self::IntraOnly)
    }
}

/// The size of a frame.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// Width and height as shown.
    whole: (u32, u32),
    /// Width as coded, which superres reduces.
    coded_width: u32,
}

/// The references of a frame that has some.
struct Motion {
    slots: [usize; REFERENCES],
    has_high_precision: bool,
}

/// A reader of one header.
pub(super) struct HeaderReader<'a, 'b> {
    pub(super) bits: &'a mut BitReader<'b>,
    pub(super) sequence: &'a Av1Sequence,
    pub(super) references: &'a mut References,
    pub(super) layer: Layer,
}

/// The fields at the start of a header that others depend on.
struct Start {
    kind: Kind,
    is_shown: bool,
    may_be_shown: bool,
    is_resilient: bool,
    has_cdf_update: bool,
    has_screen_content: bool,
    has_integer_mv: bool,
    overrides_size: bool,
    order_hint: u32,
    primary: usize,
}

impl HeaderReader<'_, '_> {
    /// Reads a header, and updates the references. Returns the tiles of the frame, or `None` for a
    /// header that shows a frame again.
    pub(super) fn read(&mut self) -> Option<Option<Tiles>> {
        if !self.sequence.is_reduced && self.bits.flag()? {
            return self.show_again().map(|()| None);
        }
        let start = self.start()?;
        let refreshed = self.refreshed(&start)?;
        let (size, allows_intrabc, motion) = if start.kind.is_intra() {
            let size = self.size_with_render(start.overrides_size)?;
            let is_whole = size.whole.0 == size.coded_width;
            (size, start.has_screen_content && is_whole && self.bits.flag()?, None)
        } else {
            let (size, motion) = self.motion(&start)?;
            (size, false, Some(motion))
        };
        if !self.sequence.is_reduced && start.has_cdf_update {
            self.bits.skip(1)?;
        }
        let dimensions = (size.coded_width, size.whole.1);
        let tiles = Tiles::read(self.bits, dimensions, self.sequence.has_large_superblocks)?;
        let segments = self.filters(&start, size, allows_intrabc, motion.as_ref())?;
        self.modes(&start, motion.as_ref())?;
        let reference = Reference {
            is_key: start.kind == Kind::Key,
            order_hint: start.order_hint,
            size: size.whole,
            segments,
        };
        for (slot, known) in self.references.iter_mut().enumerate() {
            if refreshed >> slot & 1 == 1 {
                *known = Some(reference);
            }
        }
        Some(Some(tiles))
    }

    /// Reads the rest of a header that shows a frame again. A key frame then replaces all
    /// references (§7.21).
    fn show_again(&mut self) -> Option<()> {
        let slot = usize::from(self.bits.u8(3)?);
        self.bits.skip(self.sequence.presentation_time_bits.unwrap_or(0))?;
        self.bits.skip(self.sequence.id_bits.map_or(0, |(_, whole)| whole))?;
        let shown = (*self.references.get(slot)?)?;
        if shown.is_key {
            *self.references = [Some(shown); 8];
        }
        Some(())
    }

    /// Reads the fields up to buffer_removal_time.
    fn start(&mut self) -> Option<Start> {
        let is_reduced = self.sequence.is_reduced;
        let kind = match if is_reduced { 0 } else { self.bits.u8(2)? } {
            0 => Kind::Key,
            1 => Kind::Inter,
            2 => Kind::IntraOnly,
            _ => Kind::Switch,
        };
        let is_shown = is_reduced || self.bits.flag()?;
        if is_shown && !is_reduced {
            self.bits.skip(self.sequence.presentation_time_bits.unwrap_or(0))?;
        }
        let may_be_shown = if is_shown { kind != Kind::Key } else { self.bits.flag()? };
        let is_resilient = match kind {
            Kind::Switch => true,
            Kind::Key if is_shown => true,
            _ => self.bits.flag()?,
        };
        let has_cdf_update = !self.bits.flag()?;
        let tools = self.sequence.inter;
        let has_screen_content = match tools.screen_content {
            Some(has) => has,
            None => self.bits.flag()?,
        };
        let has_integer_mv = match tools.integer_mv {
            _ if !has_screen_content => false,
            Some(has) => has,
            None => self.bits.flag()?,
        };
        self.bits.skip(self.sequence.id_bits.map_or(0, |(_, whole)| whole))?;
        let overrides_size = kind == Kind::Switch || (!is_reduced && self.bits.flag()?);
        let order_hint = self.bits.bits(tools.order_hint_bits)?;
        let has_primary = !kind.is_intra() && !is_resilient;
        let primary = if has_primary { usize::from(self.bits.u8(3)?) } else { NO_PRIMARY };
        self.skip_removal_times()?;
        Some(Start {
            kind,
            is_shown,
            may_be_shown,
            is_resilient,
            has_cdf_update,
            has_screen_content,
            has_integer_mv,
            overrides_size,
            order_hint,
            primary,
        })
    }

    /// Skips buffer_removal_time of each operating point.
    fn skip_removal_times(&mut self) -> Option<()> {
        let Some(width) = self.sequence.removal_time_bits else { return Some(()) };
        if self.bits.flag()? {
            for &(point, has_model) in &self.sequence.operating_points {
                if has_model && self.layer.is_in(point) {
                    self.bits.skip(width)?;
                }
            }
        }
        Some(())
    }

    /// Reads refresh_frame_flags, and the order hints that a resilient frame states of all others.
    /// A frame with another order hint is lost, and decoders replace it in different ways.
    fn refreshed(&mut self, start: &Start) -> Option<u8> {
        let begins = start.kind == Kind::Key && start.is_shown;
        let refreshed = if begins || start.kind == Kind::Switch { ALL } else { self.bits.u8(8)? };
        let width = self.sequence.inter.order_hint_bits;
        if start.is_resilient && width > 0 && (!start.kind.is_intra() || refreshed != ALL) {
            for known in self.references.iter_mut() {
                let order_hint = self.bits.bits(width)?;
                *known = known.filter(|known| known.order_hint == order_hint);
            }
        }
        Some(refreshed)
    }

    /// Reads the fields of a frame with references, from frame_refs_short_signaling to
    /// use_ref_frame_mvs.
    fn motion(&mut self, start: &Start) -> Option<(Size, Motion)> {
        let tools = self.sequence.inter;
        let hints = OrderHints { bits: tools.order_hint_bits, current: start.order_hint };
        let mut slots = None;
        if hints.bits > 0 && self.bits.flag()? {
            let last = usize::from(self.bits.u8(3)?);
            let golden = usize::from(self.bits.u8(3)?);
            slots = Some(hints.references(self.references, last, golden)?);
        }
        let mut stated = [0; REFERENCES];
        for slot in &mut stated {
            if slots.is_none() {
                *slot = usize::from(self.bits.u8(3)?);
            }
            self.bits.skip(self.sequence.id_bits.map_or(0, |(difference, _)| difference))?;
        }
        let slots = slots.unwrap_or(stated);
        let size = if start.overrides_size && !start.is_resilient {
            self.size_of_references(&slots)?
        } else {
            self.size_with_render(start.overrides_size)?
        };
        let has_high_precision = !start.has_integer_mv && self.bits.flag()?;
        if !self.bits.flag()? {
            self.bits.skip(2)?;
        }
        self.bits.skip(1)?;
        if !start.is_resilient && tools.has_ref_frame_mvs {
            self.bits.skip(1)?;
        }
        Some((size, Motion { slots, has_high_precision }))
    }

    /// Reads frame_size() and render_size().
    fn size_with_render(&mut self, is_stated: bool) -> Option<Size> {
        let (width_bits, height_bits) = self.sequence.size_bits;
        let whole = match is_stated {
            true => (self.bits.bits(width_bits)? + 1, self.bits.bits(height_bits)? + 1),
            false => self.sequence.size,
        };
        let size = self.superres(whole)?;
        if self.bits.flag()? {
            self.bits.skip(32)?;
        }
        Some(size)
    }

    /// Reads frame_size_with_refs().
    fn size_of_references(&mut self, slots: &[usize; REFERENCES]) -> Option<Size> {
        for &slot in slots {
            if self.bits.flag()? {
                let size = (*self.references.get(slot)?)?.size;
                return self.superres(size);
            }
        }
        self.size_with_render(true)
    }

    /// Reads superres_params().
    fn superres(&mut self, whole: (u32, u32)) -> Option<Size> {
        let mut coded_width = whole.0;
        if self.sequence.has_superres && self.bits.flag()? {
            let denominator = self.bits.bits(3)? + LEAST_DENOMINATOR;
            coded_width = (whole.0 * SUPERRES + denominator / 2) / denominator;
        }
        Some(Size { whole, coded_width })
    }

    /// Reads quantization_params() to read_tx_mode(), and returns the frame's segments.
    fn filters(
        &mut self,
        start: &Start,
        size: Size,
        allows_intrabc: bool,
        motion: Option<&Motion>,
    ) -> Option<[Option<i32>; 8]> {
        let sequence = self.sequence;
        let quantizer = Quantizer::read(self.bits, sequence.planes)?;
        let previous = match motion {
            Some(motion) if start.primary != NO_PRIMARY => {
                let slot = *motion.slots.get(start.primary)?;
                Some((*self.references.get(slot)?)?.segments)
            }
            _ => None,
        };
        let segments = segmentation(self.bits, previous)?;
        skip_deltas(self.bits, &quantizer, allows_intrabc)?;
        let is_lossless = quantizer.is_lossless(&segments);
        if !is_lossless && !allows_intrabc {
            skip_loop_filter(self.bits, sequence.planes)?;
            if sequence.has_cdef {
                skip_cdef(self.bits, sequence.planes)?;
            }
        }
        let is_all_lossless = is_lossless && size.whole.0 == size.coded_width;
        if sequence.has_restoration && !is_all_lossless && !allows_intrabc {
            skip_restoration(self.bits, sequence)?;
        }
        if !is_lossless {
            self.bits.skip(1)?;
        }
        Some(segments)
    }

    /// Skips the fields from reference_select to the end.
    fn modes(&mut self, start: &Start, motion: Option<&Motion>) -> Option<()> {
        let tools = self.sequence.inter;
        if let Some(motion) = motion {
            let selects = self.bits.flag()?;
            let hints = OrderHints { bits: tools.order_hint_bits, current: start.order_hint };
            if selects && hints.bits > 0 && hints.allow_skip_mode(self.references, &motion.slots)? {
                self.bits.skip(1)?;
            }
            if !start.is_resilient && tools.has_warped_motion {
                self.bits.skip(1)?;
            }
        }
        // reduced_tx_set
        self.bits.skip(1)?;
        if let Some(motion) = motion {
            skip_global_motion(self.bits, motion.has_high_precision)?;
        }
        if self.sequence.has_film_grain && (start.is_shown || start.may_be_shown) {
            skip_film_grain(self.bits, self.sequence.planes, start.kind == Kind::Inter)?;
        }
        Some(())
    }
}
