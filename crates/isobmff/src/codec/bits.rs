//! Reading configuration records bit by bit, most significant bit first; every read past the end is `None`.

/// A reader over the bytes of one record. Nothing is read twice, nothing panics.
#[derive(Debug, Clone)]
pub(super) struct Bits<'a> {
    data: &'a [u8],
    /// Bits read so far.
    pos: usize,
}

impl<'a> Bits<'a> {
    pub(super) fn new(data: &'a [u8]) -> Self {
        Self { data, pos: 0 }
    }

    /// Bits not yet read.
    pub(super) fn remaining(&self) -> usize {
        self.data.len().saturating_mul(8).saturating_sub(self.pos)
    }

    fn next(&mut self) -> Option<bool> {
        let byte = self.data.get(self.pos / 8)?;
        let bit = byte >> (7 - self.pos % 8) & 1;
        self.pos += 1;
        Some(bit == 1)
    }

    /// One bit.
    pub(super) fn flag(&mut self) -> Option<bool> {
        self.next()
    }

    /// `count` bits (at most 32) as a number.
    pub(super) fn bits(&mut self, count: u32) -> Option<u32> {
        if self.remaining() < usize::try_from(count).ok()? {
            return None;
        }
        let mut value = 0u32;
        for _ in 0..count.min(32) {
            value = value << 1 | u32::from(self.next()?);
        }
        Some(value)
    }

    /// `count` bits, at most 8.
    pub(super) fn u8(&mut self, count: u32) -> Option<u8> {
        u8::try_from(self.bits(count)?).ok()
    }

    /// `count` bits, at most 16.
    pub(super) fn u16(&mut self, count: u32) -> Option<u16> {
        u16::try_from(self.bits(count)?).ok()
    }

    /// Moves `count` bits on.
    pub(super) fn skip(&mut self, count: usize) -> Option<()> {
        if self.remaining() < count {
            return None;
        }
        self.pos += count;
        Some(())
    }

    /// Moves to the next byte boundary.
    pub(super) fn align(&mut self) {
        self.pos = self.pos.div_ceil(8) * 8;
    }

    /// The next `count` whole bytes, from the next byte boundary.
    pub(super) fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        self.align();
        let start = self.pos / 8;
        let taken = self.data.get(start..start.checked_add(count)?)?;
        self.pos += count * 8;
        Some(taken)
    }

    /// Everything from the next byte boundary to the end.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        self.align();
        let rest = self.data.get(self.pos / 8..).unwrap_or_default();
        self.pos = self.data.len() * 8;
        rest
    }

    /// Leading zero bits up to and including the one that ends them, at most 32.
    fn leading_zeros(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while !self.next()? {
            zeros += 1;
            if zeros > 32 {
                return None;
            }
        }
        Some(zeros)
    }

    /// Unsigned Exp-Golomb code `ue(v)` (ISO/IEC 14496-10 §9.1), below 2³² − 1.
    pub(super) fn ue(&mut self) -> Option<u32> {
        match self.leading_zeros()? {
            32 => None,
            zeros => Some((1u32 << zeros) - 1 + self.bits(zeros)?),
        }
    }

    /// Signed Exp-Golomb code `se(v)` (ISO/IEC 14496-10 §9.1.1).
    pub(super) fn se(&mut self) -> Option<i64> {
        let code = i64::from(self.ue()?);
        Some(if code % 2 == 1 { code / 2 + 1 } else { -(code / 2) })
    }

    /// `leb128()` (AV1 bitstream §4.10.5), at most 8 bytes and 32 bits of value.
    pub(super) fn leb128(&mut self) -> Option<u32> {
        let mut value = 0u64;
        for i in 0..8 {
            let byte = self.u8(8)?;
            value |= u64::from(byte & 0x7f) << (i * 7);
            if byte & 0x80 == 0 {
                return u32::try_from(value).ok();
            }
        }
        None
    }

    /// `uvlc()` (AV1 bitstream §4.10.3): the value is skipped, only its length counts here.
    pub(super) fn skip_uvlc(&mut self) -> Option<()> {
        match self.leading_zeros()? {
            32 => Some(()),
            zeros => self.skip(usize::try_from(zeros).ok()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Bits;

    #[test]
    fn numbers_cross_bytes_and_end_with_none() {
        let mut bits = Bits::new(&[0b1010_0101, 0xff, 0x00]);
        assert_eq!(bits.bits(3), Some(0b101));
        assert_eq!(bits.u8(8), Some(0b0010_1111));
        assert_eq!(bits.remaining(), 13);
        assert_eq!(bits.bits(14), None);
        assert_eq!(bits.remaining(), 13, "a refused read moves nothing");
        bits.align();
        assert_eq!(bits.bytes(1), Some(&[0u8][..]));
        assert_eq!(bits.bytes(1), None);
        assert_eq!(bits.rest(), &[] as &[u8]);
    }

    #[test]
    fn exp_golomb() {
        // 1 | 010 | 011 | 00100 | 00101
        let mut bits = Bits::new(&[0b1010_0110, 0b0100_0010, 0b1000_0000]);
        assert_eq!((bits.ue(), bits.ue(), bits.ue(), bits.ue()), (Some(0), Some(1), Some(2), Some(3)));
        assert_eq!(bits.se(), Some(-2));
        assert_eq!(Bits::new(&[0; 8]).ue(), None);
        // 32 leading zeros are more than the code may have.
        assert_eq!(Bits::new(&[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff]).ue(), None);
        assert_eq!(Bits::new(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]).ue(), Some(u32::MAX - 1));
    }

    #[test]
    fn leb128() {
        assert_eq!(Bits::new(&[0xe5, 0x8e, 0x26]).leb128(), Some(624_485));
        assert_eq!(Bits::new(&[0xff; 9]).leb128(), None);
    }
}
