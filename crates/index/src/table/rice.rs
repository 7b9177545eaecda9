//! Blocks of Rice-coded numbers: the bit stream inside a packed [`crate::table::column::Column`].
//!
//! A block has at most [`BLOCK`] values. Its header states a unit (the greatest common divisor of
//! the differences, 512 or 1001 in a typical `ctts`), a base and the Rice parameter k. Each value
//! is coded as `(v - base) / unit`: zigzag-coded if the base is a usual value (for symmetric ones
//! such as sample sizes), unsigned if the base is the minimum (for skewed values such as gaps).
//! Unit and base are coded relative to the block before, starting afresh at each
//! [`BlockState::default`].

mod writer;

pub(crate) use writer::{BitWriter, padded};

/// Number of values in a full block.
pub(crate) const BLOCK: usize = 64;
/// Longest unary part. One more means that the value follows in [`RAW_BITS`] bits.
const ESCAPE: u32 = 24;
/// Number of bits of a zigzag-coded difference of two `u32`.
const RAW_BITS: u32 = 34;
/// Largest Rice parameter: `ESCAPE + 1 + MAX_K` must fit in one 56-bit peek.
const MAX_K: u32 = 30;
/// Value in place of k if all values of the block equal the base.
const ALL_EQUAL: u64 = 31;
/// Number of bytes after the stream, so that any peek inside it can load a whole word.
const PADDING: usize = 8;

/// The part of a block's header that the next block refers to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockState {
    base: u32,
    unit: u32,
}

impl Default for BlockState {
    fn default() -> Self {
        Self { base: 0, unit: 1 }
    }
}

/// Maps signed numbers to unsigned ones that are small if they are close to 0: 0, -1, 1, -2, …
pub(crate) const fn zigzag(value: i64) -> u64 {
    ((value << 1) ^ (value >> 63)).cast_unsigned()
}

pub(crate) const fn unzigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

/// Returns the difference of a zigzag code, modulo 2^32.
const fn step(code: u32) -> u32 {
    (code >> 1) ^ (code & 1).wrapping_neg()
}

/// Returns the lower 32 bits. Those above are 0 in the codes that a [`BitWriter`] wrote.
fn low_half(bits: u64) -> u32 {
    u32::try_from(bits & 0xffff_ffff).unwrap_or(0)
}

/// Reads a stream that [`BitWriter`] wrote, in this process or into a persisted index. A damaged
/// stream gives wrong values, but no panic.
#[derive(Debug, Clone, Default)]
pub(crate) struct BlockReader<'a> {
    bytes: &'a [u8],
    bit: usize,
    state: BlockState,
    left: u32,
    k: u32,
    centred: bool,
    all_equal: bool,
}

impl<'a> BlockReader<'a> {
    /// Reads from a byte where a block starts with a fresh [`BlockState`].
    pub(crate) fn new(bytes: &'a [u8], start: usize) -> Self {
        Self { bytes, bit: start * 8, ..Self::default() }
    }

    /// Returns at least 56 bits from the current position, left-aligned, zeros after the end.
    #[inline]
    fn peek(&self) -> u64 {
        let byte = self.bit >> 3;
        let word = self.bytes.get(byte..).and_then(|rest| rest.first_chunk()).copied().unwrap_or_default();
        u64::from_be_bytes(word) << (self.bit & 7)
    }

    #[inline]
    fn take(&mut self, count: u32) -> u64 {
        if count == 0 {
            return 0;
        }
        let value = self.peek() >> (64 - count);
        self.bit += count as usize;
        value
    }

    fn take_gamma(&mut self) -> u64 {
        let zeros = self.peek().leading_zeros().min(35);
        self.bit += zeros as usize;
        self.take(zeros + 1)
    }

    fn start_block(&mut self) {
        self.centred = self.take(1) == 1;
        let k = self.take(5);
        self.all_equal = k == ALL_EQUAL;
        self.k = u32::try_from(k).unwrap_or(0).min(MAX_K);
        if self.take(1) == 0 {
            self.state.unit = u32::try_from(self.take_gamma()).unwrap_or(1);
        }
        let base = i64::from(self.state.base) + unzigzag(self.take_gamma().wrapping_sub(1));
        self.state.base = u32::try_from(base).unwrap_or(0);
        self.left = u32::try_from(BLOCK).unwrap_or(1);
    }

    /// Converts the codes of a block to values. All arithmetic is that of numbers of 32 bits, since
    /// values have as many.
    fn values(&self, codes: &[u32], out: &mut [u32]) {
        let BlockState { base, unit } = self.state;
        let pairs = out.iter_mut().zip(codes);
        match (self.centred, unit) {
            (true, 1) => pairs.for_each(|(out, &code)| *out = base.wrapping_add(step(code))),
            (true, _) => {
                pairs.for_each(|(out, &code)| *out = base.wrapping_add(step(code).wrapping_mul(unit)));
            }
            (false, 1) => pairs.for_each(|(out, &code)| *out = base.wrapping_add(code)),
            (false, _) => pairs.for_each(|(out, &code)| *out = base.wrapping_add(code.wrapping_mul(unit))),
        }
    }

    /// Fills `out`. Reading several codes from one word is three times as fast as one by one.
    pub(crate) fn fill(&mut self, mut out: &mut [u32]) {
        while !out.is_empty() {
            if self.left == 0 {
                self.start_block();
            }
            let count = out.len().min(self.left as usize);
            let (now, rest) = out.split_at_mut(count);
            self.left -= u32::try_from(count).unwrap_or(self.left);
            if self.all_equal {
                now.fill(self.state.base);
            } else {
                self.fill_from_block(now);
            }
            out = rest;
        }
    }

    /// Skips values and returns their sum. Codes are not converted to values, as [`Self::fill`]
    /// does.
    pub(crate) fn sum(&mut self, count: u32) -> u64 {
        let mut codes = [0; BLOCK];
        let mut left = count;
        let mut sum = 0_u64;
        while left > 0 {
            if self.left == 0 {
                self.start_block();
            }
            let some = left.min(self.left);
            (left, self.left) = (left - some, self.left - some);
            let mut steps = 0_i64;
            if !self.all_equal {
                let codes = codes.get_mut(..some as usize).unwrap_or_default();
                self.read_codes(codes);
                steps = if self.centred {
                    codes.iter().map(|&code| i64::from(step(code).cast_signed())).sum()
                } else {
                    codes.iter().map(|&code| i64::from(code)).sum()
                };
            }
            let of_base = i64::from(self.state.base).wrapping_mul(some.into());
            let of_steps = steps.wrapping_mul(self.state.unit.into());
            sum = sum.wrapping_add(of_base.wrapping_add(of_steps).cast_unsigned());
        }
        sum
    }

    fn fill_from_block(&mut self, out: &mut [u32]) {
        // All codes are read before they are converted, so that the conversion is vectorised.
        let mut codes = [0; BLOCK];
        let codes = codes.get_mut(..out.len()).unwrap_or_default();
        self.read_codes(codes);
        self.values(codes, out);
    }

    /// Fills a block from each of four readers that are at the start of one. Reading the codes of
    /// one block must wait for the length of each, so four blocks take little longer than one.
    pub(crate) fn fill_four(readers: &mut [Self; 4], out: [&mut [u32; BLOCK]; 4]) {
        readers.iter_mut().for_each(Self::start_block);
        if readers.iter().any(|reader| reader.all_equal) {
            for (reader, out) in readers.iter_mut().zip(out) {
                reader.left = 0;
                match reader.all_equal {
                    true => out.fill(reader.state.base),
                    false => reader.fill_from_block(out),
                }
            }
            return;
        }
        let mut codes = [[0; BLOCK]; 4];
        let [codes_0, codes_1, codes_2, codes_3] = &mut codes;
        let [reader_0, reader_1, reader_2, reader_3] = &mut *readers;
        let codes_01 = codes_0.iter_mut().zip(codes_1);
        for ((code_0, code_1), (code_2, code_3)) in codes_01.zip(codes_2.iter_mut().zip(codes_3)) {
            *code_0 = reader_0.read_code();
            *code_1 = reader_1.read_code();
            *code_2 = reader_2.read_code();
            *code_3 = reader_3.read_code();
        }
        for ((reader, codes), out) in readers.iter_mut().zip(&codes).zip(out) {
            reader.left = 0;
            reader.values(codes, out);
        }
    }

    /// Reads one code of a block whose values differ.
    #[inline]
    fn read_code(&mut self) -> u32 {
        let word = self.peek();
        // The argument is never 0, which would need a branch.
        let ones = (!word | 1).leading_zeros();
        if ones >= ESCAPE {
            self.bit += ESCAPE as usize;
            return low_half(self.take(RAW_BITS));
        }
        self.bit += (ones + 1 + self.k) as usize;
        ones << self.k | low_half(word >> (63 - self.k - ones)) & ((1 << self.k) - 1)
    }

    /// Reads the next codes of a block, several from one word.
    fn read_codes(&mut self, codes: &mut [u32]) {
        // Number of bits of `word` that belong to the stream. Zeros follow them.
        const FRESH: u32 = 56;
        let k = self.k;
        let mut word = self.peek();
        let mut fresh = FRESH;
        for code in codes {
            // The argument is never 0, which would need a branch.
            let ones = (!word | 1).leading_zeros();
            let mut len = ones + 1 + k;
            let mut ones = ones;
            if len > fresh {
                self.bit += (FRESH - fresh) as usize;
                (word, fresh) = (self.peek(), FRESH);
                ones = word.leading_ones();
                len = ones + 1 + k;
            }
            if ones >= ESCAPE {
                self.bit += (FRESH - fresh + ESCAPE) as usize;
                *code = low_half(self.take(RAW_BITS));
                (word, fresh) = (self.peek(), FRESH);
                continue;
            }
            // Shifted in two steps: k may be 0, and a shift by 64 is not defined.
            let rest = word << ones << 1;
            *code = ones << k | low_half(rest >> 1 >> (63 - k));
            word = rest << k;
            fresh -= len;
        }
        self.bit += (FRESH - fresh) as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl BlockReader<'_> {
        /// Reads a single value, to compare with [`Self::fill`].
        fn next_value(&mut self) -> u32 {
            if self.left == 0 {
                self.start_block();
            }
            self.left -= 1;
            if self.all_equal {
                return self.state.base;
            }
            let word = self.peek();
            let ones = word.leading_ones();
            let code = if ones < ESCAPE {
                self.bit += (ones + 1 + self.k) as usize;
                // Shifted in two steps: k may be 0, and a shift by 64 is not defined.
                let low = (word << (ones + 1)) >> 1 >> (63 - self.k);
                (u64::from(ones) << self.k) | low
            } else {
                self.bit += ESCAPE as usize;
                self.take(RAW_BITS)
            };
            let step = if self.centred { unzigzag(code) } else { code.cast_signed() };
            let value = i64::from(self.state.base) + step * i64::from(self.state.unit);
            u32::try_from(value).unwrap()
        }
    }

    fn round_trip(values: &[u32]) -> (Vec<u32>, usize) {
        let mut writer = BitWriter::default();
        let mut state = BlockState::default();
        values.chunks(BLOCK).for_each(|block| _ = writer.put_block(&padded(block), block.len(), &mut state));
        let bytes = writer.finish();
        let mut reader = BlockReader::new(&bytes, 0);
        let back: Vec<u32> = values.iter().map(|_| reader.next_value()).collect();
        // Many values at once, in pieces that are no whole blocks.
        let mut filled = vec![0; values.len()];
        let mut reader = BlockReader::new(&bytes, 0);
        filled.chunks_mut(37).for_each(|piece| reader.fill(piece));
        assert_eq!(filled, back);
        let mut reader = BlockReader::new(&bytes, 0);
        for piece in back.chunks(91) {
            let sum = reader.sum(u32::try_from(piece.len()).unwrap());
            assert_eq!(sum, piece.iter().map(|&value| u64::from(value)).sum::<u64>());
        }
        (back, bytes.len() - PADDING)
    }

    #[test]
    fn divides_the_common_unit_out() {
        let offsets: Vec<u32> = (0..640_u32).map(|i| 1024 + 512 * (i * 7 % 5)).collect();
        let (back, bytes) = round_trip(&offsets);
        assert_eq!(back, offsets);
        assert!(bytes * 8 < 640 * 7 / 2, "{bytes} bytes");
    }

    #[test]
    fn equal_values_take_no_bits_of_their_own() {
        let (back, bytes) = round_trip(&[u32::MAX; 640]);
        assert_eq!(back, [u32::MAX; 640]);
        assert!(bytes < 40, "{bytes} bytes");
    }

    #[test]
    fn unzigzag_reverses_zigzag_at_the_extremes() {
        for value in [0, -1, 1, i64::from(u32::MAX), -i64::from(u32::MAX), i64::from(i32::MIN)] {
            assert_eq!(unzigzag(zigzag(value)), value);
        }
    }

    proptest! {
        #[test]
        fn any_values_come_back(
            values in prop::collection::vec(prop_oneof![any::<u32>(), 0..300_u32, Just(u32::MAX), Just(0)], 1..300),
        ) {
            prop_assert_eq!(round_trip(&values).0, values);
        }

        #[test]
        fn scaled_values_come_back(unit in 1..5000_u32, base in any::<u32>(), values in prop::collection::vec(0..800_u32, 1..200)) {
            let values: Vec<u32> = values.iter().map(|v| base.saturating_sub(4_000_000) + v * unit).collect();
            prop_assert_eq!(round_trip(&values).0, values);
        }
    }
}
