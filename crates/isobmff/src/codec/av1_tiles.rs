//! The tiles of an AV1 frame: their number, and their places in a tile group (AV1 Bitstream &
//! Decoding Process §5.9.15, §5.11.1).

use crate::bits::BitReader;
use std::ops::Range;

/// Largest width of a tile in pixels, and largest area (MAX_TILE_WIDTH, MAX_TILE_AREA).
const MAX_WIDTH: u32 = 4096;
const MAX_AREA: u32 = 4096 * 2304;
/// Most columns and most rows of tiles (MAX_TILE_COLS, MAX_TILE_ROWS).
const MAX_COUNT: u32 = 64;

/// The tiles of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tiles {
    /// Number of tiles.
    count: u32,
    /// Bits of the number of a tile.
    number_bits: u32,
    /// Bytes of the size of a tile.
    size_bytes: usize,
    /// The tile that the next tile group begins with.
    next: u32,
}

impl Tiles {
    /// Reads tile_info() of a frame of this size in pixels.
    pub(super) fn read(
        bits: &mut BitReader<'_>,
        (width, height): (u32, u32),
        is_large: bool,
    ) -> Option<Self> {
        let superblock = if is_large { 128 } else { 64 };
        let blocks = |pixels: u32| (pixels.div_ceil(8) * 8).div_ceil(superblock);
        let columns = blocks(width);
        let rows = blocks(height);
        let widest = MAX_WIDTH / superblock;
        let least_columns = log2(widest, columns);
        let least = least_columns.max(log2(MAX_AREA / (superblock * superblock), rows * columns));
        let (column_log, row_log, count) = if bits.flag()? {
            let column_log = increments(bits, least_columns, log2(1, columns.min(MAX_COUNT)))?;
            let row_log = increments(bits, least.saturating_sub(column_log), log2(1, rows.min(MAX_COUNT)))?;
            let tiles = |blocks: u32, log: u32| blocks.div_ceil(blocks.div_ceil(1 << log).max(1));
            (column_log, row_log, tiles(columns, column_log) * tiles(rows, row_log))
        } else {
            let (column_count, widest) = spans(bits, columns, widest)?;
            let area = if least > 0 { (rows * columns) >> (least + 1) } else { rows * columns };
            let (row_count, _) = spans(bits, rows, (area / widest).max(1))?;
            (log2(1, column_count), log2(1, row_count), column_count * row_count)
        };
        let number_bits = column_log + row_log;
        let mut size_bytes = 0;
        if number_bits > 0 {
            bits.bits(number_bits)?;
            size_bytes = usize::from(bits.u8(2)?) + 1;
        }
        Some(Self { count, number_bits, size_bytes, next: 0 })
    }

    /// Returns true if all tiles have been found.
    pub(super) fn are_complete(&self) -> bool {
        self.next == self.count
    }

    /// Appends the places of the tiles of a tile group. The group begins at the byte `start` of
    /// `bytes` and ends with them.
    pub(super) fn read_group(
        &mut self,
        bytes: &[u8],
        start: usize,
        tiles: &mut Vec<Range<usize>>,
    ) -> Option<()> {
        let mut bits = BitReader::new(bytes.get(start..)?);
        let mut last = self.count - 1;
        if self.count > 1 && bits.flag()? {
            // A group continues where the one before ended.
            if bits.bits(self.number_bits)? != self.next {
                return None;
            }
            last = bits.bits(self.number_bits)?;
        } else if self.next > 0 {
            return None;
        }
        if last < self.next || last >= self.count {
            return None;
        }
        let mut at = bytes.len() - bits.rest().len();
        for _ in self.next..last {
            let size = bytes.get(at..at + self.size_bytes)?;
            at += self.size_bytes;
            let size = size.iter().rev().fold(0, |size, &byte| size << 8 | usize::from(byte)) + 1;
            bytes.get(at..at + size)?;
            tiles.push(at..at + size);
            at += size;
        }
        // Every tile has at least one byte (§8.2.2).
        if at >= bytes.len() {
            return None;
        }
        tiles.push(at..bytes.len());
        self.next = last + 1;
        Some(())
    }
}

/// Returns the least logarithm by which a block size must grow to reach a target (tile_log2()).
fn log2(block: u32, target: u32) -> u32 {
    (0..32).find(|&log| u64::from(block) << log >= u64::from(target)).unwrap_or(32)
}

/// Reads increments of a logarithm.
fn increments(bits: &mut BitReader<'_>, least: u32, most: u32) -> Option<u32> {
    let mut log = least;
    while log < most && bits.flag()? {
        log += 1;
    }
    Some(log)
}

/// Reads the sizes of the columns or of the rows of tiles. Returns their number and the largest.
fn spans(bits: &mut BitReader<'_>, blocks: u32, most: u32) -> Option<(u32, u32)> {
    let mut start = 0;
    let mut count = 0;
    let mut largest = 0;
    while start < blocks {
        let size = not_symmetric(bits, most.min(blocks - start))? + 1;
        largest = largest.max(size);
        start += size;
        count += 1;
        if count > MAX_COUNT {
            return None;
        }
    }
    Some((count, largest))
}

/// Reads ns(n), a number below `count` (§4.10.7).
pub(super) fn not_symmetric(bits: &mut BitReader<'_>, count: u32) -> Option<u32> {
    let width = count.checked_ilog2()? + 1;
    let short = (1 << width) - count;
    let value = bits.bits(width - 1)?;
    if value < short { Some(value) } else { Some((value << 1) - short + bits.bits(1)?) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bits::BitWriter;

    #[test]
    fn numbers_below_a_limit_take_as_few_bits_as_needed() {
        // n = 5: 00, 01, 10, 110, 111.
        let mut bits = BitReader::new(&[0b0001_1011, 0b0111_0000]);
        let read: Vec<_> = (0..5).map(|_| not_symmetric(&mut bits, 5)).collect();
        assert_eq!(read, [Some(0), Some(1), Some(2), Some(3), Some(4)]);
        assert_eq!((not_symmetric(&mut bits, 1), bits.remaining()), (Some(0), 4));
        assert_eq!(not_symmetric(&mut bits, 0), None);
    }

    #[test]
    fn tiles_of_equal_size_are_counted_after_rounding() {
        // 5 columns of superblocks in tiles of 2: 3 columns, though 2 bits number them.
        let bytes = BitWriter::default().put(1, 1).put(3, 0b110).put(2, 0b10).put(3, 0).put(2, 3).to_bytes();
        let tiles = Tiles::read(&mut BitReader::new(&bytes), (320, 192), false).unwrap();
        assert_eq!(tiles, Tiles { count: 6, number_bits: 3, size_bytes: 4, next: 0 });
        // A frame of one superblock states nothing but the flag.
        let tiles = Tiles::read(&mut BitReader::new(&[0x80]), (64, 8), false).unwrap();
        assert_eq!(tiles, Tiles { count: 1, number_bits: 0, size_bytes: 0, next: 0 });
    }

    #[test]
    fn tiles_of_stated_sizes_are_counted() {
        // 5 columns as 2 + 3, 3 rows as 1 + 2.
        let bits = [(1, 0), (2, 1), (2, 3), (1, 0), (1, 1), (2, 0), (2, 0)];
        let mut writer = BitWriter::default();
        for (count, value) in bits {
            writer.put(count, value);
        }
        let tiles = Tiles::read(&mut BitReader::new(&writer.to_bytes()), (320, 192), false).unwrap();
        assert_eq!(tiles, Tiles { count: 4, number_bits: 2, size_bytes: 1, next: 0 });
        // 65 columns of one superblock are too many.
        let narrow = [0; 200];
        assert_eq!(Tiles::read(&mut BitReader::new(&narrow), (65 * 64, 64), false), None);
    }

    #[test]
    fn groups_state_the_sizes_of_all_tiles_but_the_last() {
        let all = Tiles { count: 3, number_bits: 2, size_bytes: 2, next: 0 };
        let mut tiles = Vec::new();
        let group = [7, 7, 0x00, 1, 0, 9, 9, 0, 0, 8, 6, 6, 6];
        let mut whole = all;
        whole.read_group(&group, 2, &mut tiles).unwrap();
        assert!(whole.are_complete());
        assert_eq!(tiles, [5..7, 9..10, 10..13]);
        // Two groups: tiles 0 and 1, then 2.
        tiles.clear();
        let mut parts = all;
        parts.read_group(&[0x88, 0, 0, 5, 4], 0, &mut tiles).unwrap();
        assert!(!parts.are_complete());
        parts.read_group(&[0xd0, 3], 0, &mut tiles).unwrap();
        assert!(parts.are_complete());
        assert_eq!(tiles, [3..4, 4..5, 1..2]);
    }

    #[test]
    fn groups_that_do_not_fit_are_refused() {
        for group in [
            // A size beyond the end, no byte for the last tile, no size, nothing.
            &[0x00, 9, 0, 1, 1, 1][..],
            &[0x00, 0, 0, 1, 0, 0, 1],
            &[0x00, 1],
            &[],
            // From tile 1 on; up to tile 3 of 3.
            &[0xa8, 0, 0, 1, 1],
            &[0x98, 0, 0, 1, 0, 0, 1, 0, 0, 1, 1],
        ] {
            let mut tiles = Tiles { count: 3, number_bits: 2, size_bytes: 2, next: 0 };
            assert_eq!(tiles.read_group(group, 0, &mut Vec::new()), None, "{group:?}");
        }
        // All tiles again, after the first.
        let mut tiles = Tiles { count: 2, number_bits: 1, size_bytes: 1, next: 1 };
        assert_eq!(tiles.read_group(&[0x00, 0, 1, 1], 0, &mut Vec::new()), None);
    }
}
