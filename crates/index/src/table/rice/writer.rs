//! Writing blocks of Rice-coded numbers.

use super::{ALL_EQUAL, BLOCK, BlockState, ESCAPE, MAX_K, PADDING, RAW_BITS, zigzag};
use latemux_isobmff::time::gcd;

/// Number of bytes that a [`BitWriter`] has room for before it writes. A block takes no more: 20
/// bytes of header, 58 bits for each value, and the rest of a word behind them.
const ROOM: usize = 8 * BLOCK;
/// Most bits that are appended at once.
const AT_ONCE: u32 = 56;
/// Stands for the length of an escape, which is not appended at once.
const LONG: u32 = 64;

/// Writes bits, most significant first.
///
/// Until the stream is complete, all bits are inverted. The unary part of a Rice code is then made
/// of zeros, so a shift by the length of the code writes it.
#[derive(Debug, Default)]
pub(crate) struct BitWriter {
    /// The stream, and room for more.
    bytes: Vec<u8>,
    /// Number of full bytes of the stream.
    full: usize,
    /// The last `used` of these bits follow the full bytes. Those above are in the bytes already.
    word: u64,
    /// Below 8.
    used: u32,
}

impl BitWriter {
    /// Appends the low `count` bits of `value`, `count` ≤ 56. Its other bits must be 0.
    fn put(&mut self, value: u64, count: u32) {
        self.append(|end| end.put(value ^ ((1 << count) - 1), count));
    }

    /// Appends bits, no more than a block takes.
    #[inline]
    fn append(&mut self, write: impl FnOnce(&mut StreamEnd<'_>)) {
        if self.bytes.len() < self.full + ROOM {
            self.bytes.resize(2 * self.full + ROOM, 0);
        }
        let Some(bytes) = self.bytes.get_mut(self.full..).and_then(|rest| rest.first_chunk_mut()) else {
            return;
        };
        let mut end = StreamEnd { bytes, full: 0, word: self.word, used: self.used };
        write(&mut end);
        let StreamEnd { full, word, used, .. } = end;
        self.full += full;
        (self.word, self.used) = (word, used);
    }

    /// Appends the Elias gamma code of a number ≥ 1, below 2^35.
    fn put_gamma(&mut self, value: u64) {
        let bits = value.ilog2();
        self.put(0, bits);
        self.put(value, bits + 1);
    }

    /// Pads to a whole byte and returns the number of bytes.
    pub(crate) fn align(&mut self) -> usize {
        self.put(0, self.used.wrapping_neg() % 8);
        self.full
    }

    /// Returns the number of bytes so far, including a last one that is not full.
    pub(crate) fn len(&self) -> usize {
        self.full + self.used.div_ceil(8) as usize
    }

    /// Returns the stream, with the padding that a [`super::BlockReader`] needs.
    pub(crate) fn finish(mut self) -> Box<[u8]> {
        let len = self.align();
        self.bytes.truncate(len);
        self.bytes.iter_mut().for_each(|byte| *byte = !*byte);
        self.bytes.resize(len + PADDING, 0);
        self.bytes.into_boxed_slice()
    }

    /// Writes a block of `len` values, and returns their sum. If there are fewer than [`BLOCK`],
    /// [`padded`] makes the array.
    pub(crate) fn put_block(&mut self, values: &[u32; BLOCK], len: usize, state: &mut BlockState) -> u64 {
        let min = values.iter().fold(u32::MAX, |min, &value| min.min(value));
        let mut skewed = values.map(|value| value - min);
        let mut any = any_bits(&skewed);
        if any == 0 {
            self.put_header(0, ALL_EQUAL, BlockState { base: min, unit: state.unit }, state);
            return u64::from(min) * len as u64;
        }
        let unit = common_unit(&skewed, any);
        if unit > 1 {
            // Units are often powers of two. A shift is vectorised, and a division is not.
            let shift = unit.trailing_zeros();
            skewed.iter_mut().for_each(|code| *code >>= shift);
            if unit >> shift > 1 {
                skewed.iter_mut().for_each(|code| *code /= unit >> shift);
            }
            any = any_bits(&skewed);
        }
        let skewed_sum = sum(&skewed, any < SMALL);
        if any == 1 {
            // Of two values, the more frequent one becomes the base, whose code is the shortest.
            let flip = u32::from(skewed_sum > BLOCK as u64 / 2);
            self.put_header(flip.into(), 0, BlockState { base: min + flip * unit, unit }, state);
            self.put_codes(&skewed.map(|code| code ^ flip), len, 0);
            return block_sum(values, len, min, skewed_sum * u64::from(unit));
        }
        let middle = near_median(&skewed, any);
        let centred = skewed.map(|value| {
            let difference = value.wrapping_sub(middle).cast_signed();
            ((difference << 1) ^ (difference >> 31)).cast_unsigned()
        });
        // Zigzag codes of differences below 2^31 have 32 bits.
        let is_narrow = any < 1 << 31;
        // The codes with the smaller sum nearly always take fewer bits.
        let centred_sum = sum(&centred, any < SMALL);
        if is_narrow && centred_sum < skewed_sum {
            let k = best_parameter(&centred, centred_sum);
            self.put_header(1, k.into(), BlockState { base: min + middle * unit, unit }, state);
            self.put_codes(&centred, len, k);
        } else {
            let k = best_parameter(&skewed, skewed_sum);
            self.put_header(0, k.into(), BlockState { base: min, unit }, state);
            self.put_codes(&skewed, len, k);
        }
        block_sum(values, len, min, skewed_sum * u64::from(unit))
    }

    fn put_header(&mut self, centred: u64, k: u64, block: BlockState, state: &mut BlockState) {
        let is_same = block.unit == state.unit;
        self.put(centred << 6 | k << 1 | u64::from(is_same), 7);
        if !is_same {
            self.put_gamma(block.unit.into());
        }
        self.put_gamma(zigzag(i64::from(block.base) - i64::from(state.base)) + 1);
        *state = block;
    }

    /// Appends the Rice codes of the first `len` numbers, four at a time.
    fn put_codes(&mut self, codes: &[u32; BLOCK], len: usize, k: u32) {
        // The zero that ends the unary part and the k bits behind it, all of them inverted.
        let low_bits = (1 << k) - 1;
        let ends = codes.map(|code| (code & low_bits) ^ (2 * low_bits + 1));
        let lengths = codes.map(|code| {
            let quotient = code >> k;
            if quotient < ESCAPE { quotient + 1 + k } else { LONG }
        });
        let fours = lengths.as_chunks().0.iter().zip(ends.as_chunks().0).zip(codes.as_chunks().0);
        self.append(|stream| {
            fours.take(len / 4).for_each(|((lengths, ends), codes)| stream.put_four(lengths, ends, codes));
            let last = lengths.iter().zip(&ends).zip(codes).take(len).skip(len / 4 * 4);
            last.for_each(|((&length, &end), &code)| stream.put_code(length, end, code));
        });
    }
}

/// The end of the stream of a [`BitWriter`] while bits are appended.
struct StreamEnd<'a> {
    bytes: &'a mut [u8; ROOM],
    full: usize,
    word: u64,
    used: u32,
}

impl StreamEnd<'_> {
    /// Appends the low `count` bits of `value`, at most [`AT_ONCE`]. Its other bits must be 0.
    #[inline]
    fn put(&mut self, value: u64, count: u32) {
        self.word = self.word << count | value;
        self.used += count;
        // A whole word is stored each time, so that no branch has to find out when one is full.
        if let Some(place) = self.bytes.get_mut(self.full..).and_then(|rest| rest.first_chunk_mut()) {
            // Shifted in two steps: `used` may be 0, and a shift by 64 is not defined.
            *place = (self.word << 1 << (63 - self.used)).to_be_bytes();
        }
        self.full += (self.used / 8) as usize;
        self.used %= 8;
    }

    /// Appends four Rice codes, together if they are short enough.
    #[inline]
    fn put_four(&mut self, lengths: &[u32; 4], ends: &[u32; 4], codes: &[u32; 4]) {
        let [one, two, three, four] = *lengths;
        if one + two + three + four <= AT_ONCE {
            let [first, second, third, last] = ends.map(u64::from);
            let front = (first << two | second) << three | third;
            self.put(front << four | last, one + two + three + four);
            return;
        }
        let pairs = lengths.as_chunks().0.iter().zip(ends.as_chunks().0).zip(codes.as_chunks().0);
        for ((&[length, next_length], &[end, next_end]), &[code, next_code]) in pairs {
            if length + next_length <= AT_ONCE {
                self.put(u64::from(end) << next_length | u64::from(next_end), length + next_length);
            } else {
                self.put_code(length, end, code);
                self.put_code(next_length, next_end, next_code);
            }
        }
    }

    /// Appends one Rice code, given its length, its end and the number that it stands for.
    fn put_code(&mut self, length: u32, end: u32, code: u32) {
        if length < LONG {
            self.put(end.into(), length);
        } else {
            self.put(0, ESCAPE);
            self.put(u64::from(code) ^ ((1 << RAW_BITS) - 1), RAW_BITS);
        }
    }
}

/// Returns 1 to 64 values as a block. They are repeated until it is full, which hardly changes how
/// the block is coded. Loops over a block have a fixed length, and so no code for a rest.
pub(crate) fn padded(values: &[u32]) -> [u32; BLOCK] {
    let mut block = [0; BLOCK];
    for (place, &value) in block.iter_mut().zip(values.iter().cycle()) {
        *place = value;
    }
    block
}

/// Returns the bitwise OR of values. No value is larger.
fn any_bits(values: &[u32; BLOCK]) -> u32 {
    values.iter().fold(0, |any, &value| any | value)
}

/// Returns the sum of the first `len` values of a block. `min` is the smallest value, and `above`
/// the sum of the differences to it in a whole block.
fn block_sum(values: &[u32; BLOCK], len: usize, min: u32, above: u64) -> u64 {
    if len < BLOCK {
        return values.iter().take(len).map(|&value| u64::from(value)).sum();
    }
    u64::from(min) * BLOCK as u64 + above
}

/// Returns the greatest common divisor of numbers. `any` is their bitwise OR.
fn common_unit(values: &[u32; BLOCK], any: u32) -> u32 {
    // The divisor is at least this power of two, so the search ends once it is reached.
    let least = any & any.wrapping_neg();
    let mut unit = 0;
    let mut last = 0;
    for &value in values {
        if value != last {
            last = value;
            unit = gcd(value, unit);
            if unit == least {
                break;
            }
        }
    }
    unit
}

/// Codes below this are small: the sum of as many zigzag codes as a block has fits in 32 bits.
const SMALL: u32 = 1 << 25;

/// Returns the sum of the codes of a block. Zigzag codes of small ones may be twice as large.
fn sum(codes: &[u32; BLOCK], are_small: bool) -> u64 {
    // Without widening, this takes a quarter of the time.
    if are_small { codes.iter().sum::<u32>().into() } else { codes.iter().map(|&code| u64::from(code)).sum() }
}

/// Number of values in the sample of a block from which the median is estimated.
const SOME: usize = BLOCK / 4;
/// Number of bits of a position in that sample.
const NUMBER_BITS: u32 = SOME.ilog2();

/// Returns a value close to the median of a block: the median of every fourth value. `any` is the
/// bitwise OR of the values.
fn near_median(values: &[u32; BLOCK], any: u32) -> u32 {
    // A key is a value followed by its position, so no two keys are equal. To fit in 31 bits, large
    // values lose their last bits.
    let shift = (any.ilog2() + 1 + NUMBER_BITS).saturating_sub(31);
    let mut keys = [0_i32; SOME];
    let some = values.as_chunks::<{ BLOCK / SOME }>().0;
    for (number, (key, [value, ..])) in (0..).zip(keys.iter_mut().zip(some)) {
        *key = (*value >> shift << NUMBER_BITS).cast_signed() | number;
    }
    // The median is the key that half of the keys are smaller than. Counting them is vectorised,
    // and so takes less time than sorting. Signed numbers are compared in one vector instruction.
    let mut smaller = [0_u32; SOME];
    for other in keys {
        for (smaller, &key) in smaller.iter_mut().zip(&keys) {
            *smaller += u32::from(other < key);
        }
    }
    let middle = smaller.iter().zip(some).find(|(smaller, _)| **smaller == 1 << (NUMBER_BITS - 1));
    middle.map_or(0, |(_, [value, ..])| *value)
}

/// Returns the Rice parameter with which the codes of a block take the fewest bits.
fn best_parameter(codes: &[u32; BLOCK], sum: u64) -> u32 {
    // The best parameter is close to log2 of the mean. Outliers raise the mean.
    let mut best = (sum / BLOCK as u64).checked_ilog2().unwrap_or(0).min(MAX_K);
    let any = any_bits(codes);
    let mut least = bits(codes, any, best);
    while let Some(k) = best.checked_sub(1) {
        let bits = bits(codes, any, k);
        if bits >= least {
            break;
        }
        (best, least) = (k, bits);
    }
    best
}

/// Returns the number of bits that the codes of a block take with a Rice parameter. `any` is the
/// bitwise OR of the codes.
fn bits(codes: &[u32; BLOCK], any: u32, k: u32) -> u32 {
    if any >> k < ESCAPE {
        let each = u32::try_from(BLOCK).unwrap_or(0) * (1 + k);
        return each + codes.iter().map(|&code| code >> k).sum::<u32>();
    }
    let bits = codes.iter().map(|&code| {
        let quotient = code >> k;
        if quotient < ESCAPE { quotient + 1 + k } else { ESCAPE + RAW_BITS }
    });
    bits.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_estimated_median_has_as_many_smaller_as_larger_values(
            values in prop::collection::vec(prop_oneof![0..9_u32, 0..SMALL, any::<u32>()], BLOCK),
        ) {
            let values: [u32; BLOCK] = values.try_into().unwrap();
            let any = any_bits(&values);
            let mut some: Vec<u32> = values.iter().copied().step_by(4).collect();
            some.sort_unstable();
            // Large values are compared without their last bits.
            let shift = any.checked_ilog2().unwrap_or(0).saturating_sub(26);
            prop_assert_eq!(near_median(&values, any.max(1)) >> shift, some[SOME / 2] >> shift);
        }

        #[test]
        fn codes_are_written_as_one_by_one(
            codes in prop::collection::vec(prop_oneof![0..9_u32, 0..4000_u32, any::<u32>()], 1..=BLOCK),
            k in 0..=MAX_K,
            before in 0..64_u32,
        ) {
            let mut together = BitWriter::default();
            let mut alone = BitWriter::default();
            for writer in [&mut together, &mut alone] {
                (0..before).for_each(|bit| writer.put(u64::from(bit % 3 == 0), 1));
            }
            together.put_codes(&padded(&codes), codes.len(), k);
            for &code in &codes {
                let quotient = code >> k;
                (0..quotient.min(ESCAPE)).for_each(|_| alone.put(1, 1));
                if quotient < ESCAPE {
                    alone.put(0, 1);
                    alone.put(u64::from(code & ((1 << k) - 1)), k);
                } else {
                    alone.put(code.into(), RAW_BITS);
                }
            }
            prop_assert_eq!(together.len(), alone.len());
            prop_assert_eq!(together.finish(), alone.finish());
        }

        #[test]
        fn a_block_returns_the_sum_of_its_values(
            values in prop::collection::vec(prop_oneof![0..9_u32, Just(u32::MAX), any::<u32>()], 1..=BLOCK),
            are_equal: bool,
        ) {
            let values = if are_equal { vec![values[0]; values.len()] } else { values };
            let sum = BitWriter::default().put_block(&padded(&values), values.len(), &mut BlockState::default());
            prop_assert_eq!(sum, values.iter().map(|&value| u64::from(value)).sum::<u64>());
        }
    }
}
