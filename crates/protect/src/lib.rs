//! Encryption of segments: content keys, IVs and ciphers.
//!
//! This crate is pure: no I/O, no clock, no randomness. Keys come from outside. They are zeroed
//! when they are dropped, and no [`std::fmt::Debug`] output holds them.
//!
//! - [`key`]: content keys and their IDs
//! - [`segment_cipher`]: AES-128 of HLS, which encrypts whole segments
//! - [`cuts`]: the slices of video samples, and the subsamples made of them
//! - [`cut_box`]: the box of an index MP4 that states the cuts of its media
//! - [`packed_cuts`]: cuts in the compact form in which they are kept
//! - [`sample_aes`]: SAMPLE-AES of HLS, which encrypts the samples in transport streams
//! - [`sample_cipher`]: `cenc` and `cbcs`, which encrypt the samples of segments
//! - [`samples`]: the encryption of a segment's samples, and what its `senc` states of it
//! - [`systems`]: what DRM systems need to request a licence
//! - [`cpix`], [`key_json`]: documents that state keys, read into [`document`]
//! - [`usage`]: the tracks that the keys of a document are for
//! - [`speke`]: requests for keys
//! - [`Scheme`]: the ways to encrypt

mod chain;
pub mod cpix;
pub mod cut_box;
pub mod cuts;
pub mod document;
mod found_cuts;
pub mod key;
pub mod key_json;
mod keystream;
pub mod packed_cuts;
pub mod sample_aes;
pub mod sample_cipher;
pub mod samples;
pub mod segment_cipher;
pub mod speke;
pub mod systems;
pub mod usage;

pub use cuts::{CutError, CutReader};
pub use document::{DocumentError, DocumentKey};
pub use found_cuts::{CutCheck, FoundCuts};
pub use key::{ContentKey, Key, KeyId, Signalling};
pub use packed_cuts::PackedCuts;
pub use sample_aes::SampleAes;
pub use sample_cipher::SampleCipher;
pub use samples::{SampleSeal, SealedSamples};
pub use segment_cipher::SegmentCipher;
pub use systems::DrmSystem;
pub use usage::UsageRule;

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
    /// Samples in transport streams are encrypted by AES-CBC (method `SAMPLE-AES`).
    SampleAes,
    /// Samples of Smooth Streaming are encrypted by AES-CTR, as in `cenc` but with IVs of 8 bytes
    /// (PIFF 1.1 §5.3.2).
    Piff,
}

impl Scheme {
    /// Returns the scheme that configuration files call by this name.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Aes128, Self::Cenc, Self::Cbcs, Self::SampleAes, Self::Piff]
            .into_iter()
            .find(|scheme| scheme.name() == name)
    }

    /// Returns true for the schemes that encrypt samples, not segments as a whole.
    pub const fn is_of_samples(self) -> bool {
        !matches!(self, Self::Aes128)
    }

    /// Returns true for the schemes of Common Encryption (ISO/IEC 23001-7), which encrypt samples
    /// in MP4, and for PIFF, from which they come.
    pub const fn is_common_encryption(self) -> bool {
        matches!(self, Self::Cenc | Self::Cbcs | Self::Piff)
    }

    /// Returns the length in bytes of the IV that each sample states.
    pub const fn iv_len(self) -> usize {
        match self {
            Self::Cenc => 16,
            Self::Piff => 8,
            Self::Aes128 | Self::Cbcs | Self::SampleAes => 0,
        }
    }

    /// Returns the largest number of subsamples of one sample. `saiz` states the size of their
    /// description in one byte, and players make a `saiz` of PIFF's box. The description consists
    /// of the IV, a count of 2 bytes, and 6 bytes for each subsample.
    pub const fn max_subsamples(self) -> usize {
        if self.is_common_encryption() { (255 - self.iv_len() - 2) / 6 } else { 0 }
    }

    /// Returns the scheme by which key documents call the keys of this one: a licence for it
    /// decrypts both.
    #[must_use]
    pub const fn of_keys(self) -> Self {
        match self {
            Self::SampleAes => Self::Cbcs,
            Self::Piff => Self::Cenc,
            other => other,
        }
    }

    /// Returns the name in configuration files, digests and pages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128 => "aes-128",
            Self::Cenc => "cenc",
            Self::Cbcs => "cbcs",
            Self::SampleAes => "sample-aes",
            Self::Piff => "piff",
        }
    }
}
