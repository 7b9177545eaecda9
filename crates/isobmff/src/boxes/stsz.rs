//! `stsz` and `stz2`: sample sizes (ISO/IEC 14496-12 §8.7.3).

use crate::{
    Error, FourCc,
    cursor::{Cursor, u32_at},
    write::{WriteBox, put_version_and_flags},
};
use bytes::{BufMut, Bytes};

/// The size of each sample in bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SampleSizes {
    /// All samples have the same size. The count is unconfirmed, since the box has no entries: only
    /// the media's bytes could confirm it.
    Constant {
        /// Bytes of each sample.
        size: u32,
        /// Number of samples.
        count: u32,
    },
    /// One entry of 4, 8, 16 or 32 bits for each sample.
    Table {
        /// Bits of an entry.
        bits: u8,
        /// Number of samples.
        count: u32,
        /// The entries.
        entries: Bytes,
    },
}

impl Default for SampleSizes {
    /// Returns an empty table.
    fn default() -> Self {
        Self::Table { bits: 32, count: 0, entries: Bytes::new() }
    }
}

impl SampleSizes {
    /// Reads the payload of a `stsz`.
    pub fn parse_stsz(mut payload: Cursor<'_>) -> Result<Self, Error> {
        payload.version_and_flags()?;
        let size = payload.u32()?;
        let count = payload.u32()?;
        if size != 0 {
            return Ok(Self::Constant { size, count });
        }
        Ok(Self::Table { bits: 32, count, entries: payload.table("sample_count", count, 4)? })
    }

    /// Reads the payload of a `stz2`.
    ///
    /// # Errors
    /// [`Error::BadValue`] for a field size other than 4, 8 and 16.
    pub fn parse_stz2(mut payload: Cursor<'_>) -> Result<Self, Error> {
        payload.version_and_flags()?;
        payload.skip(3)?;
        let bad_size = payload.bad("field_size is not 4, 8 or 16");
        let bits = payload.u8()?;
        let count = payload.u32()?;
        let entries = match bits {
            4 => payload.table("sample_count", count.div_ceil(2), 1)?,
            8 => payload.table("sample_count", count, 1)?,
            16 => payload.table("sample_count", count, 2)?,
            _ => return Err(bad_size),
        };
        Ok(Self::Table { bits, count, entries })
    }

    /// Returns the number of samples.
    pub fn count(&self) -> u32 {
        match *self {
            Self::Constant { count, .. } | Self::Table { count, .. } => count,
        }
    }

    /// Returns the size of the sample with this 0-based index; `None` beyond the last sample.
    pub fn get(&self, index: u32) -> Option<u32> {
        if index >= self.count() {
            return None;
        }
        let index = index as usize;
        match self {
            Self::Constant { size, .. } => Some(*size),
            Self::Table { bits: 32, entries, .. } => {
                entries.get(index * 4..index * 4 + 4).map(|entry| u32_at(entry, 0))
            }
            Self::Table { bits: 16, entries, .. } => {
                entries.get(index * 2..)?.first_chunk().map(|&entry| u32::from(u16::from_be_bytes(entry)))
            }
            Self::Table { bits: 4, entries, .. } => {
                // The first of two entries is in the high nibble.
                entries
                    .get(index / 2)
                    .map(|&pair| u32::from(if index.is_multiple_of(2) { pair >> 4 } else { pair & 15 }))
            }
            Self::Table { entries, .. } => entries.get(index).map(|&size| u32::from(size)),
        }
    }

    /// Returns the entries as they are stored, big-endian, if they have 32 bits.
    pub fn words(&self) -> Option<&[[u8; 4]]> {
        match self {
            Self::Table { bits: 32, entries, .. } => Some(entries.as_chunks().0),
            _ => None,
        }
    }

    /// Returns the sum of `count` sizes from a 0-based index on, or of those that there are.
    #[inline]
    pub fn sum(&self, first: u32, count: u32) -> u64 {
        match self {
            Self::Constant { size, count: all } => {
                u64::from(*size) * u64::from(count.min(all.saturating_sub(first)))
            }
            Self::Table { bits: 32, entries, .. } => {
                let entries = entries.as_chunks::<4>().0;
                let size = |entry: &[u8; 4]| u64::from(u32::from_be_bytes(*entry));
                if count == 1 {
                    // Chunks of one sample are usual, and a loop takes longer to set up.
                    return entries.get(first as usize).map_or(0, size);
                }
                let entries = entries.get(first as usize..).unwrap_or_default();
                entries.get(..count as usize).unwrap_or(entries).iter().map(size).sum()
            }
            Self::Table { .. } => {
                (first..self.count()).zip(0..count).filter_map(|(at, _)| self.get(at)).map(u64::from).sum()
            }
        }
    }

    /// Reads the sizes from a 0-based index on into `out`, and returns how many there were.
    pub fn fill(&self, first: u32, out: &mut [u32]) -> usize {
        if let Self::Table { bits: 32, entries, .. } = self {
            let entries = entries.as_chunks::<4>().0.get(first as usize..).unwrap_or_default();
            for (size, entry) in out.iter_mut().zip(entries) {
                *size = u32::from_be_bytes(*entry);
            }
            return out.len().min(entries.len());
        }
        let sizes = (first..self.count()).map_while(|index| self.get(index));
        out.iter_mut().zip(sizes).map(|(place, size)| *place = size).count()
    }

    /// Iterates over the sizes in sample order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.count()).map(|index| self.get(index).unwrap_or(0))
    }
}

impl FromIterator<u32> for SampleSizes {
    fn from_iter<I: IntoIterator<Item = u32>>(sizes: I) -> Self {
        let mut entries = Vec::new();
        for size in sizes {
            entries.put_u32(size);
        }
        Self::Table {
            bits: 32,
            count: u32::try_from(entries.len() / 4).unwrap_or(u32::MAX),
            entries: entries.into(),
        }
    }
}

impl WriteBox for SampleSizes {
    fn kind(&self) -> FourCc {
        FourCc(match self {
            Self::Constant { .. } | Self::Table { bits: 32, .. } => *b"stsz",
            Self::Table { .. } => *b"stz2",
        })
    }

    fn payload_size(&self) -> u64 {
        match self {
            Self::Constant { .. } => 12,
            Self::Table { entries, .. } => 12 + entries.len() as u64,
        }
    }

    fn write_payload(&self, out: &mut Vec<u8>) {
        put_version_and_flags(out, 0, 0);
        match self {
            Self::Constant { size, count } => {
                out.put_u32(*size);
                out.put_u32(*count);
            }
            Self::Table { bits, count, entries } => {
                // `stsz` has sample_size in this place, 0 for a table; `stz2` has reserved bits and
                // field_size.
                out.put_u32(if *bits == 32 { 0 } else { u32::from(*bits) });
                out.put_u32(*count);
                out.put_slice(entries);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nibbles_are_read_high_first() {
        let bytes = Bytes::from_static(b"\0\0\0\0\0\0\0\x04\0\0\0\x03\x1f\x70");
        let sizes = SampleSizes::parse_stz2(Cursor::new(&bytes, 0)).unwrap();
        assert_eq!(sizes.iter().collect::<Vec<_>>(), [1, 15, 7]);
        assert_eq!(sizes.get(3), None);
        let short = bytes.slice(..13);
        assert!(SampleSizes::parse_stz2(Cursor::new(&short, 0)).is_err());
    }

    #[test]
    fn entries_of_8_and_16_bits_are_read() {
        let bytes = Bytes::from_static(b"\0\0\0\0\0\0\0\x08\0\0\0\x02\xff\x01");
        let sizes = SampleSizes::parse_stz2(Cursor::new(&bytes, 0)).unwrap();
        assert_eq!(sizes.iter().collect::<Vec<_>>(), [255, 1]);
        let bytes = Bytes::from_static(b"\0\0\0\0\0\0\0\x10\0\0\0\x02\xff\x01\0\x02");
        let sizes = SampleSizes::parse_stz2(Cursor::new(&bytes, 0)).unwrap();
        assert_eq!(sizes.iter().collect::<Vec<_>>(), [0xff01, 2]);
        let bytes = Bytes::from_static(b"\0\0\0\0\0\0\0\x09\0\0\0\x02\xff\x01\0\x02");
        assert!(SampleSizes::parse_stz2(Cursor::new(&bytes, 0)).is_err());
    }
}
