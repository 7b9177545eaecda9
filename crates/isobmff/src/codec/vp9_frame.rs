//! Headers of VP9 frames: how many bytes of a sample come before the encrypted part of each frame
//! (VP9 Bitstream & Decoding Process §6.1, §6.2, Annex B).
//!
//! The fields are only skipped, but the number of some depends on the size of the picture, which a
//! frame may take from one before it.

use super::slices::SliceError;
use crate::bits::BitReader;

/// Number of frames that later ones may refer to.
const REFERENCES: usize = 8;
/// The bits of frame_sync_code().
const SYNC_CODE: u32 = 0x49_8342;
/// color_space of RGB.
const RGB: u8 = 7;

/// A frame of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Vp9Frame {
    /// Bytes of its uncompressed header.
    pub header: usize,
    /// Bytes of the compressed header and of the tiles.
    pub data: usize,
}

/// A reader of the frames of one track. It keeps the widths of the frames that others refer to.
#[derive(Debug, Clone, Default)]
pub struct Vp9Frames {
    /// Width in pixels of each reference, if it is known.
    widths: [Option<u32>; REFERENCES],
}

impl Vp9Frames {
    /// Appends the frames of the next sample, in order. Bytes behind the last frame are the index
    /// of a superframe.
    ///
    /// # Errors
    /// [`SliceError`] for a sample whose frames or headers cannot be read.
    pub fn read(&mut self, sample: &[u8], frames: &mut Vec<Vp9Frame>) -> Result<(), SliceError> {
        let (mut rest, sizes) = split(sample).ok_or(SliceError::Malformed)?;
        for size in sizes {
            let (frame, after) = rest.split_at_checked(size).ok_or(SliceError::Malformed)?;
            rest = after;
            let mut bits = BitReader::new(frame);
            self.skip_header(&mut bits).ok_or(SliceError::Malformed)?;
            let data = bits.remaining() / 8;
            frames.push(Vp9Frame { header: size - data, data });
        }
        if rest.is_empty() { Ok(()) } else { Err(SliceError::Malformed) }
    }

    /// Skips uncompressed_header() (§6.2), and keeps what later frames depend on.
    fn skip_header(&mut self, bits: &mut BitReader<'_>) -> Option<()> {
        let is_valid = bits.bits(2)? == 2;
        let profile = bits.u8(1)? | bits.u8(1)? << 1;
        if !is_valid || (profile == 3 && bits.flag()?) {
            return None;
        }
        if bits.flag()? {
            // show_existing_frame. The frame has nothing else.
            bits.skip(3)?;
            return (bits.remaining() < 8).then_some(());
        }
        let is_key = !bits.flag()?;
        let is_shown = bits.flag()?;
        let is_resilient = bits.flag()?;
        let (width, refreshed) = if is_key {
            skip_sync_code(bits)?;
            skip_colour(bits, profile)?;
            let width = frame_width(bits)?;
            skip_render_size(bits)?;
            (width, u8::MAX)
        } else {
            let is_intra = !is_shown && bits.flag()?;
            if !is_resilient {
                bits.skip(2)?;
            }
            self.skip_inter_header(bits, profile, is_intra)?
        };
        if !is_resilient {
            bits.skip(2)?;
        }
        bits.skip(2)?;
        skip_loop_filter(bits)?;
        skip_quantization(bits)?;
        skip_segmentation(bits)?;
        skip_tiles(bits, width)?;
        // The size of the compressed header, which no frame lacks.
        let compressed = usize::try_from(bits.bits(16)?).ok()?;
        if compressed == 0 || compressed > bits.remaining() / 8 {
            return None;
        }
        for (at, reference) in self.widths.iter_mut().enumerate() {
            if refreshed >> at & 1 == 1 {
                *reference = Some(width);
            }
        }
        Some(())
    }

    /// Skips the fields of a frame that is no key frame, from intra_only on. Returns its width and
    /// the references that it replaces.
    fn skip_inter_header(&self, bits: &mut BitReader<'_>, profile: u8, is_intra: bool) -> Option<(u32, u8)> {
        if is_intra {
            skip_sync_code(bits)?;
            if profile > 0 {
                skip_colour(bits, profile)?;
            }
            let refreshed = bits.u8(8)?;
            let width = frame_width(bits)?;
            skip_render_size(bits)?;
            return Some((width, refreshed));
        }
        let refreshed = bits.u8(8)?;
        let mut references = [0; 3];
        for reference in &mut references {
            *reference = usize::from(bits.u8(3)?);
            bits.skip(1)?;
        }
        let width = self.width_of_references(bits, references)?;
        skip_render_size(bits)?;
        bits.skip(1)?;
        if !bits.flag()? {
            bits.skip(2)?;
        }
        Some((width, refreshed))
    }

    /// Reads the size in frame_size_with_refs() (§6.2.2.2).
    fn width_of_references(&self, bits: &mut BitReader<'_>, references: [usize; 3]) -> Option<u32> {
        for reference in references {
            if bits.flag()? {
                return *self.widths.get(reference)?;
            }
        }
        frame_width(bits)
    }
}

/// Splits a sample into the bytes of its frames and the sizes of the frames (Annex B). Returns
/// `None` for an index that does not belong to them.
fn split(sample: &[u8]) -> Option<(&[u8], Vec<usize>)> {
    let &marker = sample.last()?;
    if marker & 0xe0 != 0xc0 {
        return Some((sample, vec![sample.len()]));
    }
    let count = usize::from(marker & 7) + 1;
    let size_bytes = usize::from(marker >> 3 & 3) + 1;
    let (frames, index) = sample.split_at_checked(sample.len().checked_sub(2 + count * size_bytes)?)?;
    if index.first() != Some(&marker) {
        return Some((sample, vec![sample.len()]));
    }
    let sizes = index.get(1..index.len() - 1)?.chunks(size_bytes);
    let size = |bytes: &[u8]| bytes.iter().rev().fold(0, |size, &byte| size << 8 | usize::from(byte));
    Some((frames, sizes.map(size).collect()))
}

fn skip_sync_code(bits: &mut BitReader<'_>) -> Option<()> {
    (bits.bits(24)? == SYNC_CODE).then_some(())
}

/// Skips color_config() (§6.2.2).
fn skip_colour(bits: &mut BitReader<'_>, profile: u8) -> Option<()> {
    if profile >= 2 {
        bits.skip(1)?;
    }
    let is_rgb = bits.u8(3)? == RGB;
    let has_subsampling = profile & 1 == 1;
    match (is_rgb, has_subsampling) {
        (false, false) => bits.skip(1),
        (false, true) => bits.skip(4),
        (true, true) => bits.skip(1),
        // RGB is 4:4:4, which these profiles do not have.
        (true, false) => None,
    }
}

/// Reads frame_size() (§6.2.3), and returns the width.
fn frame_width(bits: &mut BitReader<'_>) -> Option<u32> {
    let width = bits.bits(16)? + 1;
    bits.skip(16)?;
    Some(width)
}

/// Skips render_size() (§6.2.4).
fn skip_render_size(bits: &mut BitReader<'_>) -> Option<()> {
    if bits.flag()? { bits.skip(32) } else { Some(()) }
}

/// Skips loop_filter_params() (§6.2.8).
fn skip_loop_filter(bits: &mut BitReader<'_>) -> Option<()> {
    bits.skip(6 + 3)?;
    if bits.flag()? && bits.flag()? {
        for _ in 0..4 + 2 {
            if bits.flag()? {
                bits.skip(7)?;
            }
        }
    }
    Some(())
}

/// Skips quantization_params() (§6.2.9).
fn skip_quantization(bits: &mut BitReader<'_>) -> Option<()> {
    bits.skip(8)?;
    for _ in 0..3 {
        if bits.flag()? {
            bits.skip(5)?;
        }
    }
    Some(())
}

/// Skips segmentation_params() (§6.2.11).
fn skip_segmentation(bits: &mut BitReader<'_>) -> Option<()> {
    if !bits.flag()? {
        return Some(());
    }
    if bits.flag()? {
        skip_probabilities(bits, 7)?;
        if bits.flag()? {
            skip_probabilities(bits, 3)?;
        }
    }
    if bits.flag()? {
        bits.skip(1)?;
        for _ in 0..8 {
            // The bits of each feature, with those of its sign.
            for feature in [8 + 1, 6 + 1, 2, 0] {
                if bits.flag()? {
                    bits.skip(feature)?;
                }
            }
        }
    }
    Some(())
}

fn skip_probabilities(bits: &mut BitReader<'_>, count: usize) -> Option<()> {
    for _ in 0..count {
        if bits.flag()? {
            bits.skip(8)?;
        }
    }
    Some(())
}

/// Skips tile_info() (§6.2.14), whose length depends on the width.
fn skip_tiles(bits: &mut BitReader<'_>, width: u32) -> Option<()> {
    let superblocks = width.div_ceil(8).div_ceil(8);
    let least = (0..6_u32).find(|log| 64_u32 << log >= superblocks)?;
    let most = (1..32_u32).find(|log| superblocks >> log < 4)? - 1;
    let mut columns = least;
    while columns < most && bits.flag()? {
        columns += 1;
    }
    if bits.flag()? {
        bits.skip(1)?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn superframes_are_split_as_their_index_says() {
        assert_eq!(split(&[1, 2, 3]), Some((&[1, 2, 3][..], vec![3])));
        // Two frames with sizes of one byte.
        let superframe = [9, 9, 9, 8, 0xc1, 3, 1, 0xc1];
        assert_eq!(split(&superframe), Some((&superframe[..4], vec![3, 1])));
        // The last byte of a frame may look like a marker.
        assert_eq!(split(&[7, 7, 7, 7, 0xc1]), Some((&[7, 7, 7, 7, 0xc1][..], vec![5])));
        assert_eq!(split(&[]), None);
        assert_eq!(split(&[0xc1]), None);
    }

    #[test]
    fn what_is_no_frame_is_refused() {
        let mut frames = Vec::new();
        let mut reader = Vp9Frames::default();
        for sample in [&[][..], &[0x80], &[0x00; 40], &[0xff; 40], &[0x82, 0x49, 0x83, 0x42]] {
            assert_eq!(reader.read(sample, &mut frames), Err(SliceError::Malformed), "{sample:?}");
        }
        // show_existing_frame
        assert_eq!(reader.read(&[0x88], &mut frames), Ok(()));
        assert_eq!(frames, [Vp9Frame { header: 1, data: 0 }]);
        // A frame that takes its size from one that is not known.
        assert_eq!(
            reader.read(&[0x86, 0x00, 0x40, 0x92, 0x80, 0, 0, 0, 0, 0, 9], &mut frames),
            Err(SliceError::Malformed)
        );
    }
}
