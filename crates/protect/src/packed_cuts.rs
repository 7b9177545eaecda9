//! Cuts of consecutive samples, packed into few bytes so that they can be kept in memory.

use crate::cuts::{Cut, CutError};

/// The cuts of consecutive samples: for each sample the number of its cuts, and for each cut its
/// clear bytes and its data. Each number is stored in groups of 7 bits, the lowest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackedCuts(Vec<u8>);

impl PackedCuts {
    /// Appends the cuts of the next sample.
    pub fn push(&mut self, cuts: &[Cut]) {
        self.put(u32::try_from(cuts.len()).unwrap_or(u32::MAX));
        for cut in cuts {
            self.put(cut.clear);
            self.put(cut.data);
        }
    }

    /// Removes all cuts.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns cuts that were stored as [`Self::as_bytes`].
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Returns the packed form.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the bytes of memory that they take.
    pub fn heap_bytes(&self) -> usize {
        self.0.capacity()
    }

    /// Returns a reader of the cuts, sample by sample.
    pub fn samples(&self) -> PackedSamples<'_> {
        PackedSamples(&self.0)
    }

    fn put(&mut self, number: u32) {
        put_number(number, &mut self.0);
    }
}

/// Appends a number in groups of 7 bits, the lowest first.
pub(crate) fn put_number(mut number: u32, out: &mut Vec<u8>) {
    while number > 0x7f {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}

/// Reads the cuts of one sample after another.
#[derive(Debug, Clone)]
pub struct PackedSamples<'a>(&'a [u8]);

impl<'a> PackedSamples<'a> {
    /// Reads cuts from packed bytes.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Returns the bytes that have not been read.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// Skips the cuts of the next sample. Returns `None` if there are none.
    pub(crate) fn skip_sample(&mut self) -> Option<()> {
        let count = self.number()?;
        for _ in 0..count {
            self.number().zip(self.number())?;
        }
        Some(())
    }

    /// Replaces `cuts` with those of the next sample, which has `size` bytes.
    ///
    /// # Errors
    /// [`CutError::OtherMedia`] if there are none, or if they are not as long as the sample.
    pub fn next_sample(&mut self, size: u32, cuts: &mut Vec<Cut>) -> Result<(), CutError> {
        cuts.clear();
        let count = self.number().ok_or(CutError::OtherMedia)?;
        let mut total = 0_u64;
        for _ in 0..count {
            let (clear, data) = self.number().zip(self.number()).ok_or(CutError::OtherMedia)?;
            total += u64::from(clear) + u64::from(data);
            cuts.push(Cut { clear, data });
        }
        if total == u64::from(size) { Ok(()) } else { Err(CutError::OtherMedia) }
    }

    pub(crate) fn number(&mut self) -> Option<u32> {
        let mut number = 0_u32;
        for shift in (0..32).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            number |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cuts_are_read_as_they_were_packed(
            samples in prop::collection::vec(prop::collection::vec((any::<u32>(), 0_u32..9999), 0..4), 0..9),
        ) {
            let mut packed = PackedCuts::default();
            let cuts = |sample: &[(u32, u32)]| -> Vec<Cut> {
                sample.iter().map(|&(clear, data)| Cut { clear: clear >> 4, data }).collect()
            };
            samples.iter().for_each(|sample| packed.push(&cuts(sample)));
            let mut reader = packed.samples();
            let mut read = Vec::new();
            for sample in &samples {
                let expected = cuts(sample);
                let size = expected.iter().map(|cut| cut.clear + cut.data).sum();
                prop_assert_eq!(reader.clone().next_sample(size + 1, &mut read), Err(CutError::OtherMedia));
                prop_assert_eq!(reader.next_sample(size, &mut read), Ok(()));
                prop_assert_eq!(&read, &expected);
            }
            prop_assert_eq!(reader.next_sample(0, &mut read), Err(CutError::OtherMedia));
            prop_assert_eq!(PackedCuts::from_bytes(packed.as_bytes().to_vec()), packed);
        }
    }
}
