//! Keys as key documents state them.

use crate::{ContentKey, Scheme, UsageRule};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use zeroize::Zeroizing;

/// Most keys of one document.
pub const MAX_KEYS: usize = 256;
/// Most bytes of one document.
pub const MAX_BYTES: usize = 1 << 20;

/// A key of a document.
#[derive(Debug)]
pub struct DocumentKey {
    /// The key, with the signalling that the document states for it.
    pub key: ContentKey,
    /// The only scheme that the key may be used in. `None` for all.
    pub scheme: Option<Scheme>,
    /// Rules of which one must be true of a track. `None` for all tracks.
    pub rules: Option<Vec<UsageRule>>,
}

/// The reason why a key document cannot be used. It never repeats a text of the document, which may
/// be a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct DocumentError(pub(crate) &'static str);

/// Decodes base64, in which XML may have white space.
pub(crate) fn decoded(text: &str) -> Option<Zeroizing<Vec<u8>>> {
    let plain: Zeroizing<String> =
        Zeroizing::new(text.chars().filter(|c| !c.is_ascii_whitespace()).collect());
    STANDARD.decode(plain.as_bytes()).ok().map(Zeroizing::new)
}

/// Decodes 16 bytes of base64.
pub(crate) fn decoded_block(text: &str) -> Option<[u8; 16]> {
    decoded(text).and_then(|bytes| bytes.as_slice().try_into().ok())
}
