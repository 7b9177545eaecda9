//! Headers of slices: how many bytes of a NAL unit come before its slice data.
//!
//! Encryption leaves them clear (ISO/IEC 23001-7 §10.4.2), and players parse them. The fields are
//! only skipped, but their number depends on parameter sets, which the sample entry and the samples
//! before hold.

use super::{Avc, Hevc, avc_slice::AvcSets, hevc_slice::HevcSets};
use crate::bits::{BitReader, without_emulation_prevention};
use std::collections::BTreeMap;

/// Most bytes of a NAL unit that are searched for the end of a header. Real headers have a few
/// dozen.
const MAX_HEADER: usize = 2048;

/// The reason why the header of a slice cannot be found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SliceError {
    /// Wrong bits, or a parameter set that is missing.
    #[error("the header of a slice cannot be read")]
    Malformed,
    /// A tool that this parser does not follow, such as data partitioning or layers.
    #[error("the video uses {0}")]
    Unsupported(&'static str),
}

/// A reader of the headers of one track's slices. It keeps the parameter sets that it has read.
#[derive(Debug, Clone)]
pub enum SliceReader {
    /// For AVC.
    Avc(AvcSets),
    /// For HEVC.
    Hevc(HevcSets),
}

impl SliceReader {
    /// Creates a reader with the parameter sets of a sample entry of AVC.
    pub fn avc(config: &Avc) -> Self {
        let mut sets = AvcSets::default();
        config.sps.iter().chain(&*config.pps).for_each(|nal| sets.learn(nal));
        Self::Avc(sets)
    }

    /// Creates a reader with the parameter sets of a sample entry of HEVC.
    pub fn hevc(config: &Hevc) -> Self {
        let mut sets = HevcSets::default();
        config.nal_units.iter().for_each(|nal| sets.learn(nal));
        Self::Hevc(sets)
    }

    /// Returns the number of bytes of a NAL unit, from its own header on, before the first byte of
    /// slice data. `None` if the unit holds no slice. Remembers parameter sets.
    ///
    /// # Errors
    /// [`SliceError`] for a slice whose header cannot be read.
    pub fn header_len(&mut self, nal_unit: &[u8]) -> Result<Option<usize>, SliceError> {
        let (is_slice, sets) = match self {
            Self::Avc(sets) => (AvcSets::is_slice(nal_unit)?, sets as &mut dyn ParameterSets),
            Self::Hevc(sets) => (HevcSets::is_slice(nal_unit)?, sets as &mut dyn ParameterSets),
        };
        if !is_slice {
            sets.learn(nal_unit);
            return Ok(None);
        }
        let start = nal_unit.get(..MAX_HEADER).unwrap_or(nal_unit);
        let payload = without_emulation_prevention(start);
        let bits = sets.header_bits(&payload)?;
        let len = raw_len(start, bits.div_ceil(8)).ok_or(SliceError::Malformed)?;
        Ok(Some(len))
    }
}

/// Parameter sets of one coding.
pub(super) trait ParameterSets {
    /// Remembers a NAL unit that holds a parameter set. One that cannot be read is forgotten, so
    /// that its slices are refused.
    fn learn(&mut self, nal_unit: &[u8]);

    /// Skips the NAL unit's header and the header of its slice.
    fn skip_header(&self, bits: &mut BitReader<'_>) -> Option<()>;

    /// Returns the number of bits of both headers, without emulation prevention bytes.
    fn header_bits(&self, payload: &[u8]) -> Result<usize, SliceError> {
        let mut bits = BitReader::new(payload);
        self.skip_header(&mut bits).ok_or(SliceError::Malformed)?;
        Ok(payload.len() * 8 - bits.remaining())
    }
}

/// Remembers a parameter set under its number. After one that cannot be read, none is known.
pub(super) fn remember<T>(sets: &mut BTreeMap<u32, T>, read: Option<(u32, T)>) {
    match read {
        Some((number, set)) => drop(sets.insert(number, set)),
        None => sets.clear(),
    }
}

/// Returns the number of bytes of a NAL unit that hold the first `payload` bytes of it without
/// emulation prevention bytes.
fn raw_len(nal_unit: &[u8], payload: usize) -> Option<usize> {
    let mut zeros = 0;
    let mut left = payload;
    for (at, &byte) in nal_unit.iter().enumerate() {
        if left == 0 {
            return Some(at);
        }
        if zeros >= 2 && byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if byte == 0 { zeros + 1 } else { 0 };
        left -= 1;
    }
    (left == 0).then_some(nal_unit.len())
}

/// Returns the number of bits that tell `count` values apart: ⌈log2(count)⌉.
pub(super) fn bits_for(count: u32) -> usize {
    usize::try_from(count.max(1).next_power_of_two().trailing_zeros()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emulation_prevention_bytes_are_counted() {
        let nal = [1, 0, 0, 3, 1, 0, 0, 3, 0, 9];
        assert_eq!(without_emulation_prevention(&nal), [1, 0, 0, 1, 0, 0, 0, 9]);
        for (payload, raw) in [(0, 0), (1, 1), (3, 3), (4, 5), (6, 7), (7, 9), (8, 10)] {
            assert_eq!(raw_len(&nal, payload), Some(raw), "{payload}");
        }
        assert_eq!(raw_len(&nal, 9), None);
    }

    #[test]
    fn values_are_told_apart_by_enough_bits() {
        for (count, bits) in [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (64, 6), (65, 7)] {
            assert_eq!(bits_for(count), bits, "{count}");
        }
    }
}
