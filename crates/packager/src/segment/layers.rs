//! Segments of scalable AVC (SVC) in order of importance, by the layers of their NAL units.
//!
//! The headers of prefix NAL units and of slices of enhancement layers state the layer
//! (nal_unit_header_svc_extension() of ISO/IEC 14496-10). Only the media holds them, so it is read
//! before the response starts.
//!
//! The base layers of sync samples come first, and all other layers are ordered by priority_id. If
//! the encoder does not set it, all base layers come before all enhancement layers.
//!
//! The bytes of a sample must be contiguous (ISO/IEC 14496-12 §8.7.4), so a sample holds only its
//! base layer, which is a complete access unit. Enhancement layers are detached: they are in the
//! `mdat` without belonging to a sample. The auxiliary information of their samples states where
//! ([`latemux_isobmff::emit::ReorderedSpec`]).

use super::{cmaf::prioritised_head, priority::most_important_first};
use crate::{PackError, part::Part};
use bytes::Bytes;
use latemux_index::Sample;
use latemux_isobmff::{codec::Config, emit::MAX_LAYERS};
use std::ops::Range;

/// nal_unit_type (ISO/IEC 14496-10 Table 7-1).
const SLICE: u8 = 1;
const PARTITION_A: u8 = 2;
const IDR_SLICE: u8 = 5;
const PREFIX: u8 = 14;
const EXTENSION_SLICE: u8 = 20;

/// Returns the size in bytes of the length before each NAL unit of a track whose samples may have
/// layers. `None` for other tracks.
pub(crate) fn nal_length_size(config: &Config) -> Option<u8> {
    match config {
        Config::Avc(avc) if avc.has_layers => Some(avc.nal_length_size),
        Config::Svc(svc) => Some(svc.nal_length_size),
        _ => None,
    }
}

/// A segment whose media is to be read.
#[derive(Debug)]
pub(crate) struct LayeredMedia {
    /// Source bytes in the order that [`Self::segment`] takes them.
    pub(crate) parts: Vec<Part>,
    /// Number of the segment, 1-based.
    number: u32,
    samples: Vec<Sample>,
    nal_length_size: usize,
}

impl LayeredMedia {
    /// Prepares a segment with samples of an object.
    pub(crate) fn new(nal_length_size: u8, object: usize, number: u32, samples: Vec<Sample>) -> Self {
        let mut parts = Vec::new();
        Part::push_samples(&mut parts, object, &samples);
        Self { parts, number, samples, nal_length_size: nal_length_size.into() }
    }

    /// Returns the segment, from all bytes of the parts. Missing bytes count as zeros. Fails with
    /// [`PackError::TooLarge`] for too many samples, or for 2 GiB and more.
    pub(crate) fn segment(mut self, media: &[u8]) -> Result<Bytes, PackError> {
        let mut pieces = self.pieces(media);
        let importance = set_importance(&mut pieces, &self.samples);
        let ranks: Vec<u8> = pieces.iter().map(|piece| piece.importance).collect();
        let sorted = most_important_first(&ranks);
        let sorted = || sorted.iter().filter_map(|&position| pieces.get(position as usize));
        let mut order = Vec::with_capacity(pieces.len());
        let mut layers = Vec::new();
        for piece in sorted() {
            order.push(piece.sample);
            let size = u32::try_from(piece.bytes.len()).unwrap_or(u32::MAX);
            match self.samples.get_mut(piece.sample as usize) {
                Some(sample) if piece.is_first => sample.size = size,
                _ => layers.push(size),
            }
        }
        let mut body = prioritised_head(self.number, &self.samples, &order, &importance, &layers)?;
        body.reserve_exact(pieces.iter().map(|piece| piece.bytes.len()).sum());
        for piece in sorted() {
            let end = body.len() + piece.bytes.len();
            body.extend_from_slice(media.get(piece.bytes.clone()).unwrap_or_default());
            body.resize(end, 0);
        }
        Ok(body.into())
    }

    /// Returns the pieces of all samples in decode order.
    fn pieces(&self, media: &[u8]) -> Vec<Piece> {
        let mut pieces = Vec::with_capacity(self.samples.len());
        let mut start = 0;
        for (number, sample) in (0..).zip(&self.samples) {
            let end = start + sample.size as usize;
            let bytes = media.get(start..end).unwrap_or_default();
            let layers = layers_of(bytes, self.nal_length_size);
            let ends = layers.iter().skip(1).map(|layer| layer.start).chain([sample.size as usize]);
            pieces.extend(layers.iter().zip(ends).map(|(layer, end)| Piece {
                sample: number,
                is_first: layer.start == 0,
                priority: layer.priority,
                importance: 0,
                bytes: start + layer.start..start + end,
            }));
            start = end;
        }
        pieces
    }
}

/// The bytes of a sample that belong to one layer.
#[derive(Debug)]
struct Piece {
    /// Position of the sample in decode order.
    sample: u32,
    /// True for the lowest layer of the sample.
    is_first: bool,
    priority: LayerPriority,
    importance: u8,
    /// Its bytes in the media of the segment.
    bytes: Range<usize>,
}

/// The priority of a layer. The most important layers come first: by priority_id, dependency_id,
/// quality_id and temporal_id, and then references before other pictures. If an encoder sets no
/// priority_id, all base layers come before any enhancement layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct LayerPriority {
    /// priority_id.
    id: u8,
    dependency: u8,
    quality: u8,
    temporal: u8,
    is_unreferenced: bool,
}

/// Sets the importance of pieces: 0 for the lowest layer of a sync sample, and higher numbers for
/// the priorities that occur. Returns the importance of the lowest layer of each sample.
fn set_importance(pieces: &mut [Piece], samples: &[Sample]) -> Vec<u8> {
    let mut keys: Vec<u32> = pieces.iter().map(|piece| piece.priority.key()).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut first = Vec::with_capacity(samples.len());
    for piece in pieces {
        let place = keys.binary_search(&piece.priority.key()).unwrap_or_else(|place| place);
        let is_sync = samples.get(piece.sample as usize).is_some_and(|sample| sample.sync);
        if !(is_sync && piece.is_first) {
            piece.importance = u8::try_from(place + 1).unwrap_or(u8::MAX);
        }
        if piece.is_first {
            first.push(piece.importance);
        }
    }
    first
}

/// The start of a layer in a sample.
#[derive(Debug, PartialEq, Eq)]
struct LayerStart {
    /// Offset in bytes of its first NAL unit.
    start: usize,
    priority: LayerPriority,
}

/// Returns the layers of a sample, the lowest first: there is always one. NAL units that belong to
/// no layer, such as parameter sets, stay with the slices before them, or with the lowest layer. A
/// priority_id is never lower than that of the layer below, which the layer needs.
fn layers_of(sample: &[u8], nal_length_size: usize) -> Vec<LayerStart> {
    let mut layers = vec![LayerStart { start: 0, priority: LayerPriority::default() }];
    let mut is_empty = true;
    let mut prefix = None;
    for (start, unit) in nal_units(sample, nal_length_size) {
        let priority = match unit.first().map_or(0, |header| header & 0x1f) {
            PREFIX => {
                prefix = LayerPriority::read(unit);
                continue;
            }
            SLICE | PARTITION_A | IDR_SLICE => {
                let is_unreferenced = unit.first().is_some_and(|header| header >> 5 & 3 == 0);
                LayerPriority { is_unreferenced, ..prefix.take().unwrap_or_default() }
            }
            EXTENSION_SLICE => match LayerPriority::read(unit) {
                Some(priority) => priority,
                None => continue,
            },
            _ => continue,
        };
        let count = layers.len();
        let Some(last) = layers.last_mut() else { continue };
        if is_empty {
            last.priority = priority;
            is_empty = false;
        } else if priority.layer() > last.priority.layer() && count <= MAX_LAYERS {
            let id = priority.id.max(last.priority.id);
            layers.push(LayerStart { start, priority: LayerPriority { id, ..priority } });
        }
    }
    layers
}

impl LayerPriority {
    /// Reads nal_unit_header_svc_extension(). Returns `None` for a NAL unit of another extension,
    /// and for one that is cut off.
    fn read(unit: &[u8]) -> Option<Self> {
        let &[header, priority, layer, temporal] = unit.first_chunk()?;
        // svc_extension_flag.
        (priority & 0x80 != 0).then_some(Self {
            id: priority & 0x3f,
            dependency: layer >> 4 & 7,
            quality: layer & 0xf,
            temporal: temporal >> 5,
            is_unreferenced: header >> 5 & 3 == 0,
        })
    }

    /// Returns a number by which priorities are ordered.
    fn key(self) -> u32 {
        let of_layer = [self.id, self.dependency << 4 | self.quality, self.temporal];
        of_layer
            .into_iter()
            .chain([self.is_unreferenced.into()])
            .fold(0, |key, part| key << 8 | u32::from(part))
    }

    /// Returns dependency_id and quality_id, by which layers of one picture are ordered.
    fn layer(self) -> (u8, u8) {
        (self.dependency, self.quality)
    }
}

/// Returns the size in bytes of the lowest layer at the start of a sample that was cut off. Returns
/// `None` if the layer is not complete: a NAL unit of a higher layer must have begun.
pub(crate) fn lowest_layer(start: &[u8], nal_length_size: usize) -> Option<usize> {
    let mut end = 0;
    let mut has_slice = false;
    for (at, unit) in nal_units(start, nal_length_size) {
        let kind = unit.first().map_or(0, |header| header & 0x1f);
        if kind == EXTENSION_SLICE {
            return has_slice.then_some(at);
        }
        has_slice |= matches!(kind, SLICE | PARTITION_A | IDR_SLICE);
        end = at + nal_length_size + unit.len();
    }
    // The last NAL unit is cut off behind its header.
    let kind = start.get(end.checked_add(nal_length_size)?)? & 0x1f;
    (has_slice && kind == EXTENSION_SLICE).then_some(end)
}

/// Returns the NAL units of a sample, each with the offset in bytes of its length. Ends at a length
/// that exceeds the sample.
fn nal_units(sample: &[u8], nal_length_size: usize) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (length, rest) = sample.get(at..)?.split_at_checked(nal_length_size)?;
        let length = length.iter().fold(0_usize, |length, &byte| length << 8 | usize::from(byte));
        let unit = rest.get(..length)?;
        let start = at;
        at += nal_length_size + length;
        Some((start, unit))
    })
}

#[cfg(test)]
#[path = "layers_tests.rs"]
mod tests;
