//! Writing blocks of Rice-coded numbers.

use super::{ALL_EQUAL, BLOCK, BlockState, ESCAPE, MAX_K, PADDING, RAW_BITS, low_half, zigzag};
use latemux_isobmff::time::gcd;

/// Writes bits, most significant first.
#[derive(Debug, Default)]
pub(crate) struct BitWriter {
    bytes: Vec<u8>,
    /// Bits that are not in `bytes` yet, left-aligned.
    word: u64,
    /// Number of bits in `word`, below 64.
    used: u32,
}

impl BitWriter {
    /// Appends the low `count` bits of `value`, `count` ≤ 56. Its other bits must be 0.
    fn put(&mut self, value: u64, count: u32) {
        if count == 0 {
            return;
        }
        let free = 64 - self.used;
        if count < free {
            self.word |= value << (free - count);
            self.used += count;
            return;
        }
        let left = count - free;
        self.bytes.extend_from_slice(&(self.word | value >> left).to_be_bytes());
        // Shifted in two steps: `left` may be 0, and a shift by 64 is not defined.
        self.word = value << (63 - left) << 1;
        self.used = left;
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
        self.len()
    }

    /// Returns the number of bytes so far, including a last one that is not full.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() + self.used.div_ceil(8) as usize
    }

    /// Returns the stream, with the padding that a [`super::BlockReader`] needs.
    pub(crate) fn finish(mut self) -> Box<[u8]> {
        let padded = self.len() + PADDING;
        self.bytes.extend_from_slice(&self.word.to_be_bytes());
        self.bytes.resize(padded, 0);
        self.bytes.into_boxed_slice()
    }

    /// Writes one block of 1 to [`BLOCK`] values and returns their sum. Further values are ignored.
    pub(crate) fn put_block(&mut self, values: &[u32], state: &mut BlockState) -> u64 {
        let values = values.get(..BLOCK).unwrap_or(values);
        let min = values.iter().fold(u32::MAX, |min, &v| min.min(v));
        let max = values.iter().fold(0, |max, &v| max.max(v));
        if min >= max {
            // All values are equal, or there are none.
            if min == max {
                self.put_header(0, ALL_EQUAL, BlockState { base: min, unit: state.unit }, state);
            }
            return u64::from(max) * values.len() as u64;
        }
        let unit = common_unit(values, min);
        let mut skewed = [0; BLOCK];
        let skewed = skewed.get_mut(..values.len()).unwrap_or_default();
        for (code, &value) in skewed.iter_mut().zip(values) {
            *code = value - min;
        }
        // Units are often powers of two. A shift is vectorised, and a division is not.
        let shift = unit.trailing_zeros();
        if shift > 0 {
            skewed.iter_mut().for_each(|code| *code >>= shift);
        }
        if unit >> shift > 1 {
            skewed.iter_mut().for_each(|code| *code /= unit >> shift);
        }
        let largest = (max - min) / unit;
        let is_small = largest < SMALL;
        let middle = if is_small { usual_of_small(skewed) } else { usual(skewed) };
        let mut centred = [0; BLOCK];
        let centred = centred.get_mut(..values.len()).unwrap_or_default();
        // Zigzag codes of differences below 2^31 have 32 bits.
        let is_narrow = largest < 1 << 31;
        if is_narrow {
            for (code, &value) in centred.iter_mut().zip(&*skewed) {
                let difference = value.cast_signed() - middle.cast_signed();
                *code = ((difference << 1) ^ (difference >> 31)).cast_unsigned();
            }
        }
        // The codes with the smaller sum nearly always take fewer bits.
        let skewed_sum = sum(skewed, is_small);
        let centred_sum = sum(centred, is_small);
        if is_narrow && centred_sum < skewed_sum {
            let k = best_parameter(centred, centred_sum);
            self.put_header(1, k.into(), BlockState { base: min + middle * unit, unit }, state);
            self.put_codes(centred, k);
        } else {
            let k = best_parameter(skewed, skewed_sum);
            self.put_header(0, k.into(), BlockState { base: min, unit }, state);
            self.put_codes(skewed, k);
        }
        u64::from(min) * values.len() as u64 + skewed_sum * u64::from(unit)
    }

    fn put_header(&mut self, centred: u64, k: u64, block: BlockState, state: &mut BlockState) {
        self.put(centred << 5 | k, 6);
        if block.unit == state.unit {
            self.put(1, 1);
        } else {
            self.put(0, 1);
            self.put_gamma(block.unit.into());
        }
        self.put_gamma(zigzag(i64::from(block.base) - i64::from(state.base)) + 1);
        *state = block;
    }

    /// Appends the Rice codes of numbers. Bits are collected in registers, and the bytes in one
    /// place, which is several times as fast as code by code.
    fn put_codes(&mut self, codes: &[u32], k: u32) {
        // No more than 58 bits for each code, and those in `word`.
        let mut bytes = [0; 8 * BLOCK];
        let mut full = 0;
        // The last `used` bits of `bits` are not in `bytes` yet.
        let mut bits = self.word >> 1 >> (63 - self.used);
        let mut used = self.used;
        let mut flush = |bits: u64, used: u32| {
            if let Some(place) = bytes.as_chunks_mut().0.get_mut(full) {
                *place = low_half(bits >> used).to_be_bytes();
            }
            full += 1;
        };
        if used >= 32 {
            used -= 32;
            flush(bits, used);
        }
        let low_bits = (1 << k) - 1;
        // Below this quotient, a code has at most 32 bits.
        let short = ESCAPE.min(32 - k);
        for &code in codes {
            let quotient = code >> k;
            // `quotient` ones and a zero, then k bits.
            let len = quotient + 1 + k;
            let rice = |len: u32| (1_u64 << len) - (2 << k) + u64::from(code & low_bits);
            let mut put = |value: u64, count: u32| {
                bits = bits << count | value;
                used += count;
                if used >= 32 {
                    used -= 32;
                    flush(bits, used);
                }
            };
            if quotient < short {
                put(rice(len), len);
            } else if quotient < ESCAPE {
                put(rice(len) >> 32, len - 32);
                put(rice(len) & 0xffff_ffff, 32);
            } else {
                put((1 << ESCAPE) - 1, ESCAPE);
                put(0, RAW_BITS - 32);
                put(code.into(), 32);
            }
        }
        // Shifted in two steps: `used` may be 0, and a shift by 64 is not defined.
        (self.word, self.used) = (bits << (63 - used) << 1, used);
        self.bytes.extend_from_slice(bytes.get(..4 * full).unwrap_or_default());
    }
}

/// Returns the greatest common divisor of the differences from the least value.
fn common_unit(values: &[u32], min: u32) -> u32 {
    let mut unit = 0;
    let mut last = 0;
    // The unit is at least the largest power of two that divides all differences.
    let bits = values.iter().fold(0, |bits, &value| bits | (value - min));
    let least = bits & bits.wrapping_neg();
    for &value in values {
        let difference = value - min;
        if difference != last {
            last = difference;
            unit = gcd(difference, unit);
            if unit == least {
                break;
            }
        }
    }
    unit
}

/// Returns a value close to the median: the median of every fourth value.
fn usual(values: &[u32]) -> u32 {
    // Unused places hold the largest value, which is behind the median.
    let mut some = [u32::MAX; BLOCK / 4];
    let middle = u32::try_from(values.len().div_ceil(4) / 2).unwrap_or(0);
    for (to, from) in some.iter_mut().zip(values.iter().step_by(4)) {
        *to = *from;
    }
    // Counting the smaller values of each is vectorised, and so takes less time than sorting.
    // Vectors of signed numbers are compared in one instruction.
    let ordered = some.map(|value| (value ^ 1 << 31).cast_signed());
    let mut smaller = [0; BLOCK / 4];
    let mut up_to = [0; BLOCK / 4];
    for other in ordered {
        for ((smaller, up_to), &value) in smaller.iter_mut().zip(&mut up_to).zip(&ordered) {
            *smaller += u32::from(other < value);
            *up_to += u32::from(other <= value);
        }
    }
    let ranks = smaller.iter().zip(&up_to);
    let found = ranks.zip(&some).find(|((smaller, up_to), _)| **smaller <= middle && middle < **up_to);
    found.map_or(0, |(_, &value)| value)
}

/// Codes below this are small: the sum of as many zigzag codes as a block has fits in 32 bits.
const SMALL: u32 = 1 << 25;

/// Returns the sum of the codes of a block. Zigzag codes of small ones may be twice as large.
fn sum(codes: &[u32], are_small: bool) -> u64 {
    // Without widening, this takes a quarter of the time.
    if are_small { codes.iter().sum::<u32>().into() } else { codes.iter().map(|&code| u64::from(code)).sum() }
}

/// Returns [`usual`] of small values, in half of the time.
fn usual_of_small(values: &[u32]) -> u32 {
    // Values with their indexes differ, so each has its place in the order.
    let mut keys = [i32::MAX; BLOCK / 4];
    let middle = i32::try_from(values.len().div_ceil(4) / 2).unwrap_or(0);
    for (number, (key, value)) in (0..).zip(keys.iter_mut().zip(values.iter().step_by(4))) {
        *key = (*value << 4).cast_signed() | number;
    }
    let mut smaller = [0; BLOCK / 4];
    for other in keys {
        for (smaller, &key) in smaller.iter_mut().zip(&keys) {
            *smaller += i32::from(other < key);
        }
    }
    let found = smaller.iter().zip(&keys).find(|(smaller, _)| **smaller == middle);
    found.map_or(0, |(_, &key)| key.cast_unsigned() >> 4)
}

/// Returns the Rice parameter with which the codes of a block take the fewest bits.
fn best_parameter(codes: &[u32], sum: u64) -> u32 {
    let mean = sum / codes.len().max(1) as u64;
    // The best parameter is close to log2 of the mean. Outliers raise the mean.
    let mut best = mean.checked_ilog2().unwrap_or(0).min(MAX_K);
    let largest = codes.iter().fold(0, |largest, &code| largest.max(code));
    let mut least = bits(codes, largest, best);
    while let Some(k) = best.checked_sub(1) {
        let bits = bits(codes, largest, k);
        if bits >= least {
            break;
        }
        (best, least) = (k, bits);
    }
    best
}

/// Returns the number of bits that codes take with a Rice parameter. `largest` is the largest code.
fn bits(codes: &[u32], largest: u32, k: u32) -> u32 {
    if largest >> k < ESCAPE {
        let each = u32::try_from(codes.len()).unwrap_or(0) * (1 + k);
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
        fn small_values_have_the_same_usual_value(
            values in prop::collection::vec(prop_oneof![0..9_u32, 0..SMALL, Just(SMALL - 1)], 1..=BLOCK),
        ) {
            prop_assert_eq!(usual_of_small(&values), usual(&values));
        }

        #[test]
        fn codes_are_written_as_one_by_one(
            codes in prop::collection::vec(prop_oneof![0..9_u32, 0..4000_u32, any::<u32>()], 0..=BLOCK),
            k in 0..=MAX_K,
            before in 0..64_u32,
        ) {
            let mut together = BitWriter::default();
            let mut alone = BitWriter::default();
            for writer in [&mut together, &mut alone] {
                (0..before).for_each(|bit| writer.put(u64::from(bit % 3 == 0), 1));
            }
            together.put_codes(&codes, k);
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
            let sum = BitWriter::default().put_block(&values, &mut BlockState::default());
            prop_assert_eq!(sum, values.iter().map(|&value| u64::from(value)).sum::<u64>());
        }
    }
}
