//! Bits of headers and parameter sets, the most significant first; whatever is behind the end is `None`.

/// A reader.
#[derive(Debug, Clone)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    /// Bits read.
    at: usize,
}

impl<'a> Bits<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// At most 32 bits as a number.
    pub(super) fn take(&mut self, count: u32) -> Option<u32> {
        (0..count.min(32)).try_fold(0, |value: u32, _| {
            let byte = self.bytes.get(self.at / 8)?;
            let bit = byte >> (7 - self.at % 8) & 1;
            self.at = self.at.saturating_add(1);
            Some(value << 1 | u32::from(bit))
        })
    }

    /// At most 8 bits.
    pub(super) fn byte(&mut self, count: u32) -> Option<u8> {
        u8::try_from(self.take(count.min(8))?).ok()
    }

    pub(super) fn skip(&mut self, count: usize) {
        self.at = self.at.saturating_add(count);
    }

    /// Exp-Golomb code `ue(v)` (ISO/IEC 14496-10 §9.1).
    pub(super) fn golomb(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while self.take(1)? == 0 {
            zeros += 1;
            if zeros > 31 {
                return None;
            }
        }
        Some((1_u32 << zeros) - 1 + self.take(zeros)?)
    }
}

/// Bits to be written.
#[derive(Debug, Default)]
pub(super) struct Written {
    bytes: Vec<u8>,
    count: usize,
}

impl Written {
    /// The lowest `count` bits of a value.
    pub(super) fn put(&mut self, count: u32, value: u32) -> &mut Self {
        for place in (0..count).rev() {
            if self.count.is_multiple_of(8) {
                self.bytes.push(0);
            }
            let bit = u8::from(value >> place & 1 != 0);
            if let Some(last) = self.bytes.last_mut() {
                *last |= bit << (7 - self.count % 8);
            }
            self.count = self.count.saturating_add(1);
        }
        self
    }

    /// The last byte is filled up with zeros.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.bytes.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut written = Written::default();
        written.put(3, 0b101).put(13, 4711).put(1, 1).put(7, 0);
        let bytes = written.bytes();
        assert_eq!(bytes.len(), 3);
        let mut bits = Bits::new(&bytes);
        assert_eq!((bits.take(3), bits.take(13), bits.byte(1)), (Some(5), Some(4711), Some(1)));
        assert_eq!((bits.take(7), bits.take(1)), (Some(0), None));
    }

    #[test]
    fn exp_golomb() {
        // 1 | 010 | 011 | 00100
        let mut bits = Bits::new(&[0b1010_0110, 0b0100_0000]);
        assert_eq!([(); 4].map(|()| bits.golomb()), [Some(0), Some(1), Some(2), Some(3)]);
        assert_eq!(Bits::new(&[0; 9]).golomb(), None);
    }
}
