//! The tiles in samples of AV1: which bytes of a sample are coded blocks (AV1 Bitstream & Decoding
//! Process §5.3, §5.9, §5.11).

use super::av1_header::HeaderReader;
use super::av1_obu::{self as obu, Layer, Obu, Obus};
use super::av1_references::References;
use super::av1_sequence::{Av1Sequence, sequence_header};
use super::av1_tiles::Tiles;
use super::slices::SliceError;
use crate::bits::BitReader;
use std::ops::Range;

/// Most tiles of a sample. It keeps the list of tiles from taking more memory than the sample if
/// its tiles are tiny. A frame has at most 4096.
const MAX_TILES: usize = 8192;

/// A reader of the tiles of one track. It keeps the sequence header, and what later frames may take
/// from earlier ones.
#[derive(Debug, Clone, Default)]
pub struct Av1Frames {
    sequence: Option<Av1Sequence>,
    references: References,
    /// Tiles of a frame whose last tile group has not been read.
    frame: Option<Tiles>,
}

impl Av1Frames {
    /// Creates a reader with the OBUs of a sample entry (configOBUs of `av1C`).
    pub fn new(config_obus: &[u8]) -> Self {
        let mut frames = Self::default();
        let is_header = |unit: &Obu<'_>| unit.kind == obu::SEQUENCE_HEADER;
        if let Some(header) = Obus::new(config_obus).flatten().find(is_header) {
            frames.sequence = sequence_header(header.payload).and_then(|(_, sequence)| sequence);
        }
        frames
    }

    /// Appends the places of all tiles of the next sample, in order.
    ///
    /// # Errors
    /// [`SliceError`] for a sample whose OBUs or headers cannot be read, and for one with layers or
    /// with OBUs of other kinds than those of the specification.
    pub fn read(&mut self, sample: &[u8], tiles: &mut Vec<Range<usize>>) -> Result<(), SliceError> {
        let first = tiles.len();
        self.frame = None;
        for unit in Obus::new(sample) {
            self.read_unit(sample, unit?, tiles)?;
            if tiles.len() - first > MAX_TILES {
                return Err(SliceError::Unsupported("more tiles than a level of AV1 allows"));
            }
        }
        if self.frame.is_some() { Err(SliceError::Malformed) } else { Ok(()) }
    }

    fn read_unit(
        &mut self,
        sample: &[u8],
        unit: Obu<'_>,
        tiles: &mut Vec<Range<usize>>,
    ) -> Result<(), SliceError> {
        let payload = sample.get(..unit.start + unit.payload.len()).ok_or(SliceError::Malformed)?;
        match (unit.kind, self.frame.is_some()) {
            (obu::SEQUENCE_HEADER, false) => self.learn(unit.payload)?,
            (obu::FRAME_HEADER, false) => drop(self.read_header(unit)?),
            // A copy of the header (frame_header_copy()).
            (obu::FRAME_HEADER | obu::REDUNDANT_FRAME_HEADER, true) => {}
            (obu::FRAME, false) => {
                let header = self.read_header(unit)?;
                self.read_tiles(payload, unit.start + header, tiles)?;
            }
            (obu::TILE_GROUP, true) => self.read_tiles(payload, unit.start, tiles)?,
            (obu::TEMPORAL_DELIMITER, false) | (obu::METADATA | obu::PADDING, _) => {}
            (obu::TILE_LIST, _) => return Err(SliceError::Unsupported("tile lists")),
            (0 | 9..=14, _) => return Err(SliceError::Unsupported("reserved units of AV1")),
            _ => return Err(SliceError::Malformed),
        }
        Ok(())
    }

    /// Keeps a sequence header. Another one begins another sequence, without references to frames
    /// before it.
    fn learn(&mut self, payload: &[u8]) -> Result<(), SliceError> {
        let (_, sequence) = sequence_header(payload).ok_or(SliceError::Malformed)?;
        if sequence.is_none() || self.sequence != sequence {
            self.references = References::default();
        }
        self.sequence = sequence;
        if self.sequence.is_some() { Ok(()) } else { Err(SliceError::Malformed) }
    }

    /// Reads the header of a frame. Returns the number of bytes that it has.
    fn read_header(&mut self, unit: Obu<'_>) -> Result<usize, SliceError> {
        let sequence = self.sequence.as_ref().ok_or(SliceError::Malformed)?;
        check_layers(sequence, unit.layer)?;
        let mut bits = BitReader::new(unit.payload);
        let mut reader = HeaderReader {
            bits: &mut bits,
            sequence,
            references: &mut self.references,
            layer: unit.layer.unwrap_or_default(),
        };
        self.frame = reader.read().ok_or(SliceError::Malformed)?;
        Ok(unit.payload.len() - bits.remaining() / 8)
    }

    /// Reads a tile group, which begins at `start` and ends with `bytes`.
    fn read_tiles(
        &mut self,
        bytes: &[u8],
        start: usize,
        tiles: &mut Vec<Range<usize>>,
    ) -> Result<(), SliceError> {
        let frame = self.frame.as_mut().ok_or(SliceError::Malformed)?;
        frame.read_group(bytes, start, tiles).ok_or(SliceError::Malformed)?;
        if frame.are_complete() {
            self.frame = None;
        }
        Ok(())
    }
}

/// Refuses spatial layers, and layers that decoders drop: players would decode other frames than
/// this reader follows.
fn check_layers(sequence: &Av1Sequence, layer: Option<Layer>) -> Result<(), SliceError> {
    let has_spatial = sequence.operating_points.iter().any(|&(point, _)| point >> 9 != 0);
    let first = sequence.operating_points.first().map_or(0, |&(point, _)| point);
    match layer {
        _ if has_spatial => {}
        None => return Ok(()),
        Some(layer) if layer.spatial == 0 && layer.is_in(first) => return Ok(()),
        Some(_) => {}
    }
    Err(SliceError::Unsupported("layers of AV1"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::tests::sample_entries::hex;

    const SEQUENCE: &str = "0a0b 0000002d4c37b3dfff9804";

    fn read(reader: &mut Av1Frames, sample: &str) -> Result<(), SliceError> {
        reader.read(&hex(sample), &mut Vec::new())
    }

    #[test]
    fn layers_are_refused() {
        let layers = SliceError::Unsupported("layers of AV1");
        // A frame of two bytes; in the second temporal layer; in the second spatial layer.
        for (point, unit, expected) in [
            ("000", "3202 0000", SliceError::Malformed),
            ("301", "3202 0000", layers),
            ("103", "3620 02 0000", SliceError::Malformed),
            ("101", "3620 02 0000", layers),
            ("000", "3608 02 0000", layers),
        ] {
            let mut reader = Av1Frames::new(&hex(&SEQUENCE.replace("000000", &format!("000{point}"))));
            assert!(reader.sequence.is_some());
            assert_eq!(read(&mut reader, unit), Err(expected), "{point} {unit}");
        }
    }

    #[test]
    fn units_that_are_not_followed_are_refused() {
        let reader = Av1Frames::new(&hex(SEQUENCE));
        for sample in ["4200", "4a00", "0200", "7200"] {
            let read = read(&mut reader.clone(), sample);
            assert!(matches!(read, Err(SliceError::Unsupported(_))), "{sample}");
        }
        // Tiles and a copied header without a header before them, and half a sequence header.
        for sample in ["2201 00", "3a01 00", "0a04 00000000"] {
            assert_eq!(read(&mut reader.clone(), sample), Err(SliceError::Malformed), "{sample}");
        }
        // Delimiter, metadata, padding.
        assert_eq!(read(&mut reader.clone(), "1200 2a01 01 7a01 80"), Ok(()));
        // A frame of a track whose sequence header is not known.
        assert_eq!(read(&mut Av1Frames::default(), "3202 1000"), Err(SliceError::Malformed));
    }

    /// A key frame of 64 x 64 pixels by libaom, with the start of its tile.
    const KEY: &str = "1400276002088408020addddab1d085483cb8355";

    /// Returns the same key frame hidden, with another order hint, for the first reference alone.
    fn hidden(order_hint: u32) -> Vec<u8> {
        let bits: String = hex(KEY).iter().map(|byte| format!("{byte:08b}")).collect();
        let (start, rest) = bits.split_at(4);
        let (tools, rest) = rest.split_at(4);
        assert_eq!((start, tools, &rest[..7]), ("0001", "0100", "0000000"));
        // show_frame, showable_frame and error_resilient_mode, and refresh_frame_flags.
        let bits = format!("000010{tools}{order_hint:07b}00000001{}0", &rest[7..]);
        let digits: Vec<char> = bits.chars().collect();
        let byte = |bits: &[char]| bits.iter().fold(0, |byte, &bit| byte << 1 | u8::from(bit == '1'));
        let payload: Vec<u8> = digits.chunks(8).map(byte).collect();
        [&[0x32, u8::try_from(payload.len()).unwrap()][..], &payload].concat()
    }

    #[test]
    fn a_key_frame_that_is_shown_again_replaces_all_references() {
        let mut reader = Av1Frames::new(&hex("0a0a 00000002afff9b5f2008"));
        let hints = |reader: &Av1Frames| reader.references.map(|known| known.unwrap().order_hint);
        read(&mut reader, &format!("3214 {KEY}")).unwrap();
        assert_eq!(hints(&reader), [0; 8]);
        reader.read(&hidden(5), &mut Vec::new()).unwrap();
        assert_eq!(hints(&reader), [5, 0, 0, 0, 0, 0, 0, 0]);
        // show_existing_frame of the second reference, and of the first.
        read(&mut reader, "1a01 98").unwrap();
        assert_eq!(hints(&reader), [0; 8]);
        reader.read(&hidden(5), &mut Vec::new()).unwrap();
        read(&mut reader, "1a01 88").unwrap();
        assert_eq!(hints(&reader), [5; 8]);
        // A frame that is not known cannot be shown.
        reader.references[3] = None;
        assert_eq!(read(&mut reader, "1a01 b8"), Err(SliceError::Malformed));
    }

    /// An inter frame by libaom, changed so that it takes its size from its first reference, which
    /// is the fourth frame (frame_size_override_flag, ref_frame_idx, found_ref).
    #[test]
    fn frames_take_their_size_from_a_reference() {
        let mut reader = Av1Frames::new(&hex("0a0a 00000002afff9b5f2008"));
        read(&mut reader, &format!("3214 {KEY}")).unwrap();
        let mut frame = hex("3211 3201e0400000037fc00001600010009910");
        for bit in [8, 29, 30, 49] {
            frame[2 + bit / 8] |= 0x80 >> (bit % 8);
        }
        if let Some(reference) = &mut reader.references[3] {
            reference.size = (48, 40);
        }
        reader.read(&frame, &mut Vec::new()).unwrap();
        let sizes = reader.references.map(|known| known.unwrap().size);
        assert_eq!(sizes[..4], [(64, 64), (48, 40), (64, 64), (48, 40)]);
    }
}
