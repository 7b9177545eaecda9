//! The open bitstream units (OBUs) that AV1 consists of (AV1 Bitstream & Decoding Process §5.3).

use super::slices::SliceError;
use crate::bits::BitReader;

/// Values of obu_type (§6.2.2).
pub(super) const SEQUENCE_HEADER: u8 = 1;
pub(super) const TEMPORAL_DELIMITER: u8 = 2;
pub(super) const FRAME_HEADER: u8 = 3;
pub(super) const TILE_GROUP: u8 = 4;
pub(super) const METADATA: u8 = 5;
pub(super) const FRAME: u8 = 6;
pub(super) const REDUNDANT_FRAME_HEADER: u8 = 7;
pub(super) const TILE_LIST: u8 = 8;
pub(super) const PADDING: u8 = 15;

/// The layer that a unit belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Layer {
    pub(super) temporal: u8,
    pub(super) spatial: u8,
}

impl Layer {
    /// Returns true if an operating point (operating_point_idc) includes the layer.
    pub(super) fn is_in(self, operating_point: u32) -> bool {
        operating_point == 0
            || (operating_point >> self.temporal & 1 == 1 && operating_point >> (self.spatial + 8) & 1 == 1)
    }
}

/// A unit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Obu<'a> {
    /// obu_type.
    pub(super) kind: u8,
    /// The layer, if the header states it.
    pub(super) layer: Option<Layer>,
    /// Place of the payload in the bytes that were split.
    pub(super) start: usize,
    pub(super) payload: &'a [u8],
}

/// Splits bytes into units. Ends after a unit that cannot be read.
#[derive(Debug, Clone)]
pub(super) struct Obus<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Obus<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    fn read(&self) -> Option<Obu<'a>> {
        let rest = self.bytes.get(self.at..)?;
        let mut bits = BitReader::new(rest);
        if bits.flag()? {
            return None;
        }
        let kind = bits.u8(4)?;
        let has_extension = bits.flag()?;
        let has_size = bits.flag()?;
        bits.skip(1)?;
        let layer = if has_extension {
            let layer = Layer { temporal: bits.u8(3)?, spatial: bits.u8(2)? };
            bits.skip(3)?;
            Some(layer)
        } else {
            None
        };
        let size = if has_size { usize::try_from(bits.leb128()?).ok()? } else { bits.remaining() / 8 };
        let start = self.at + rest.len() - bits.remaining() / 8;
        Some(Obu { kind, layer, start, payload: bits.bytes(size)? })
    }
}

impl<'a> Iterator for Obus<'a> {
    type Item = Result<Obu<'a>, SliceError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.at >= self.bytes.len() {
            return None;
        }
        let read = self.read();
        self.at = read.map_or(self.bytes.len(), |obu| obu.start + obu.payload.len());
        Some(read.ok_or(SliceError::Malformed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(bytes: &[u8]) -> Vec<Result<(u8, usize, usize), SliceError>> {
        Obus::new(bytes).map(|obu| obu.map(|obu| (obu.kind, obu.start, obu.payload.len()))).collect()
    }

    #[test]
    fn units_are_split_by_their_sizes() {
        // A delimiter, a frame of two bytes, and one without a size.
        assert_eq!(
            split(&[0x12, 0, 0x32, 2, 7, 7, 0x30, 1, 2, 3]),
            [Ok((TEMPORAL_DELIMITER, 2, 0)), Ok((FRAME, 4, 2)), Ok((FRAME, 7, 3))]
        );
        // A size in two bytes, behind the header's extension.
        let unit = [&[0x36, 0x68, 0x80, 0x01][..], &[9; 128]].concat();
        assert_eq!(split(&unit), [Ok((FRAME, 4, 128))]);
        let layer = Obus::new(&unit).next().unwrap().unwrap().layer;
        assert_eq!(layer, Some(Layer { temporal: 3, spatial: 1 }));
    }

    #[test]
    fn units_that_are_cut_off_end_the_walk() {
        for bytes in [&[0x32, 2, 7][..], &[0x32], &[0x36, 0], &[0x32, 0x80], &[0x92, 0, 0x12, 0]] {
            assert_eq!(split(bytes), [Err(SliceError::Malformed)], "{bytes:?}");
        }
        assert_eq!(split(&[]), []);
    }

    #[test]
    fn operating_points_include_layers_of_both_kinds() {
        let layer = Layer { temporal: 1, spatial: 0 };
        assert!(layer.is_in(0) && layer.is_in(0x102) && layer.is_in(0x103));
        assert!(!layer.is_in(0x101) && !layer.is_in(0x202));
    }
}
