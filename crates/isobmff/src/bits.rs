//! Reading and writing bit by bit, most significant bit first, as codec headers and configuration
//! records are laid out.

/// A reader over borrowed bytes. A read past the end returns `None`.
#[derive(Debug, Clone)]
pub struct BitReader<'a> {
    data: &'a [u8],
    /// Number of bits read so far, at most all of `data`.
    pos: usize,
}

impl<'a> BitReader<'a> {
    /// Starts at the first bit of `data`.
    pub const fn new(data: &'a [u8]) -> Self {
        Self { data, pos: 0 }
    }

    /// Returns the number of bits not yet read.
    pub const fn remaining(&self) -> usize {
        self.data.len() * 8 - self.pos
    }

    /// Reads one bit.
    pub fn flag(&mut self) -> Option<bool> {
        let byte = self.data.get(self.pos / 8)?;
        let bit = byte >> (7 - self.pos % 8) & 1;
        self.pos += 1;
        Some(bit == 1)
    }

    /// Reads `count` bits, at most 32, as a number. Reads nothing if fewer are left.
    pub fn bits(&mut self, count: u32) -> Option<u32> {
        if self.remaining() < count as usize {
            return None;
        }
        let mut value = 0u32;
        for _ in 0..count.min(32) {
            value = value << 1 | u32::from(self.flag()?);
        }
        Some(value)
    }

    /// Reads `count` bits, at most 8.
    pub fn u8(&mut self, count: u32) -> Option<u8> {
        u8::try_from(self.bits(count)?).ok()
    }

    /// Reads `count` bits, at most 16.
    pub fn u16(&mut self, count: u32) -> Option<u16> {
        u16::try_from(self.bits(count)?).ok()
    }

    /// Skips `count` bits. Skips nothing if fewer are left.
    pub fn skip(&mut self, count: usize) -> Option<()> {
        if self.remaining() < count {
            return None;
        }
        self.pos += count;
        Some(())
    }

    /// Moves to the next byte boundary.
    pub fn align(&mut self) {
        self.pos = self.pos.div_ceil(8) * 8;
    }

    /// Reads `count` whole bytes from the next byte boundary on.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        self.align();
        let start = self.pos / 8;
        let taken = self.data.get(start..start.checked_add(count)?)?;
        self.pos += count * 8;
        Some(taken)
    }

    /// Reads all bytes from the next byte boundary to the end.
    pub fn rest(&mut self) -> &'a [u8] {
        self.align();
        let rest = self.data.get(self.pos / 8..).unwrap_or_default();
        self.pos = self.data.len() * 8;
        rest
    }

    /// Counts zero bits up to the next one bit, and reads that too; `None` for more than 32 zeros.
    fn leading_zeros(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while !self.flag()? {
            zeros += 1;
            if zeros > 32 {
                return None;
            }
        }
        Some(zeros)
    }

    /// Reads the unsigned Exp-Golomb code `ue(v)` (ISO/IEC 14496-10 §9.1), below 2³² − 1.
    pub fn ue(&mut self) -> Option<u32> {
        match self.leading_zeros()? {
            32 => None,
            zeros => Some((1u32 << zeros) - 1 + self.bits(zeros)?),
        }
    }

    /// Reads the signed Exp-Golomb code `se(v)` (ISO/IEC 14496-10 §9.1.1).
    pub fn se(&mut self) -> Option<i64> {
        let code = i64::from(self.ue()?);
        Some(if code % 2 == 1 { code / 2 + 1 } else { -(code / 2) })
    }

    /// Reads `leb128()` (AV1 bitstream §4.10.5), at most 8 bytes and 32 bits of value.
    pub fn leb128(&mut self) -> Option<u32> {
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

    /// Skips `uvlc()` (AV1 bitstream §4.10.3).
    pub fn skip_uvlc(&mut self) -> Option<()> {
        match self.leading_zeros()? {
            32 => Some(()),
            zeros => self.skip(zeros as usize),
        }
    }
}

/// A writer into bytes of its own.
#[derive(Debug, Clone, Default)]
pub struct BitWriter {
    bytes: Vec<u8>,
    /// Number of bits used in the last byte; 0 if the next bit starts a byte.
    used: u32,
}

impl BitWriter {
    /// Appends the lowest `count` bits of `value`; `count` is at most 32.
    pub fn put(&mut self, count: u32, value: u32) -> &mut Self {
        for shift in (0..count).rev() {
            if self.used == 0 {
                self.bytes.push(0);
            }
            if let (1, Some(last)) = (value >> shift & 1, self.bytes.last_mut()) {
                *last |= 0x80 >> self.used;
            }
            self.used = (self.used + 1) % 8;
        }
        self
    }

    /// Moves to the next byte boundary. The bits in between are zero.
    pub fn align(&mut self) -> &mut Self {
        self.used = 0;
        self
    }

    /// Returns the bytes written so far. The last one is filled up with zero bits.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.bytes.clone()
    }
}

/// Removes the emulation prevention bytes from a NAL unit (ISO/IEC 14496-10 §7.3.1).
pub fn without_emulation_prevention(nal_unit: &[u8]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(nal_unit.len());
    let mut zeros = 0;
    for &byte in nal_unit {
        if zeros >= 2 && byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        payload.push(byte);
    }
    payload
}

#[cfg(test)]
mod tests {
    use super::{BitReader, BitWriter, without_emulation_prevention};

    #[test]
    fn numbers_cross_bytes_and_reads_past_the_end_give_none() {
        let mut bits = BitReader::new(&[0b1010_0101, 0xff, 0x00]);
        assert_eq!(bits.bits(3), Some(0b101));
        assert_eq!(bits.u8(8), Some(0b0010_1111));
        assert_eq!(bits.remaining(), 13);
        assert_eq!(bits.bits(14), None);
        assert_eq!(bits.remaining(), 13, "a failed read does not move");
        bits.align();
        assert_eq!(bits.bytes(1), Some(&[0u8][..]));
        assert_eq!(bits.bytes(1), None);
        assert_eq!(bits.rest(), &[] as &[u8]);
    }

    #[test]
    fn exp_golomb_codes_are_read() {
        // 1 | 010 | 011 | 00100 | 00101
        let mut bits = BitReader::new(&[0b1010_0110, 0b0100_0010, 0b1000_0000]);
        assert_eq!((bits.ue(), bits.ue(), bits.ue(), bits.ue()), (Some(0), Some(1), Some(2), Some(3)));
        assert_eq!(bits.se(), Some(-2));
        assert_eq!(BitReader::new(&[0; 8]).ue(), None);
        // 32 leading zeros are more than the code may have.
        assert_eq!(BitReader::new(&[0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff]).ue(), None);
        assert_eq!(BitReader::new(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]).ue(), Some(u32::MAX - 1));
    }

    #[test]
    fn leb128_numbers_are_read() {
        assert_eq!(BitReader::new(&[0xe5, 0x8e, 0x26]).leb128(), Some(624_485));
        assert_eq!(BitReader::new(&[0xff; 9]).leb128(), None);
    }

    #[test]
    fn written_bits_are_read_back() {
        let mut written = BitWriter::default();
        written.put(3, 0b101).put(13, 4711).put(1, 1).align().put(32, u32::MAX - 1);
        let bytes = written.to_bytes();
        assert_eq!(bytes.len(), 7);
        let mut bits = BitReader::new(&bytes);
        assert_eq!((bits.bits(3), bits.bits(13), bits.bits(8)), (Some(5), Some(4711), Some(0x80)));
        assert_eq!((bits.bits(32), bits.flag()), (Some(u32::MAX - 1), None));
    }

    #[test]
    fn emulation_prevention_bytes_are_removed() {
        assert_eq!(
            without_emulation_prevention(&[0, 0, 3, 1, 0, 0, 3, 0, 0, 3, 3]),
            [0, 0, 1, 0, 0, 0, 0, 3]
        );
    }
}
