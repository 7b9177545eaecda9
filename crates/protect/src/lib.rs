//! Encryption of segments: content keys, IVs and ciphers.
//!
//! This crate is pure: no I/O, no clock, no randomness. Keys come from outside. They are zeroed
//! when they are dropped, and no [`std::fmt::Debug`] output holds them.
//!
//! - [`key`]: content keys and their IDs
//! - [`segment_cipher`]: AES-128 of HLS, which encrypts whole segments
//! - [`Scheme`]: the ways to encrypt

pub mod key;
pub mod segment_cipher;

pub use key::{ContentKey, Key, KeyId};
pub use segment_cipher::SegmentCipher;

/// A way to encrypt segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Scheme {
    /// Each segment is encrypted as a whole (RFC 8216 §4.3.2.4, method `AES-128`).
    Aes128,
}

impl Scheme {
    /// Returns the name in configuration files, digests and pages.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aes128 => "aes-128",
        }
    }
}
