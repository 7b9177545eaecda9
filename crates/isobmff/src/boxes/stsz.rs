//! `stsz` and `stz2`: sample sizes (ISO/IEC 14496-12 §8.7.3).

use bytes::Bytes;

/// The size of every sample, in bytes.
#[derive(Debug, Clone)]
pub enum SampleSizes {
    /// All samples have one size.
    Constant {
        /// Bytes of each sample.
        size: u32,
        /// Number of samples.
        count: u32,
    },
    /// One entry per sample, of 4, 8, 16 or 32 bits.
    Table {
        /// Bits of an entry.
        bits: u8,
        /// Number of samples.
        count: u32,
        /// The entries.
        entries: Bytes,
    },
}

impl SampleSizes {
    /// Number of samples.
    #[must_use]
    pub fn count(&self) -> u32 {
        match *self {
            Self::Constant { count, .. } | Self::Table { count, .. } => count,
        }
    }

    /// Sizes in sample order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.count()).map(|_| todo!())
    }
}
