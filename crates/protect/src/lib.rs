//! Encryption of segments: content keys, IVs and ciphers.
//!
//! This crate is pure: no I/O, no clock, no randomness. Keys come from outside. They are zeroed
//! when they are dropped, and no [`std::fmt::Debug`] output holds them.
//!
//! - [`key`]: content keys and their IDs
//! - [`segment_cipher`]: AES-128 of HLS, which encrypts whole segments
//! - [`cuts`]: the slices of video samples, and the subsamples made of them
//! - [`sample_cipher`]: `cenc` and `cbcs`, which encrypt the samples of segments
//! - [`Scheme`]: the ways to encrypt
//!
//! No configuration names `cenc` and `cbcs` yet: boxes and manifests do not state them.

pub mod cuts;
pub mod key;
pub mod sample_cipher;
pub mod segment_cipher;

pub use key::{ContentKey, Key, KeyId};
pub use segment_cipher::SegmentCipher;

/// A way to encrypt segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scheme {
    /// Each segment is encrypted as a whole (RFC 8216 §4.3.2.4, method `AES-128`).
    Aes128,
    /// Samples are encrypted by AES-CTR (ISO/IEC 23001-7 §10.1).
    Cenc,
    /// Samples are encrypted by AES-CBC with a pattern (ISO/IEC 23001-7 §10.4).
    Cbcs,
}

impl Scheme {
    /// Returns the most subsamples of one sample. Their size is stated in one byte: an IV of 8
    /// bytes (`cenc`), a count of 2 bytes, and 6 bytes each.
    pub const fn max_subsamples(self) -> usize {
        match self {
            Self::Cenc => (255 - 8 - 2) / 6,
            Self::Cbcs => (255 - 2) / 6,
            Self::Aes128 => 0,
        }
    }

    /// Returns the name in configuration files, digests and pages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128 => "aes-128",
            Self::Cenc => "cenc",
            Self::Cbcs => "cbcs",
        }
    }
}
