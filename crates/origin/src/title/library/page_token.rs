//! Tokens of pages, as clients see them.
//!
//! The tokens of S3, GCS and Azure hold names of the bucket, and a client could change one. They
//! are therefore encrypted and authenticated. Every node that serves the same storage has the same
//! key: a load balancer may send each request of a client to another node.

use latemux_storage::{Key, PageToken};
use ring::{
    aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    digest::{SHA256, digest},
    hmac::{self, HMAC_SHA256},
};
use std::fmt;

/// Longest token that is read, as text.
const MAX_TEXT: usize = 8 << 10;

/// Hides tokens from clients, and recognises them.
pub(super) struct TokenSeal {
    cipher: Option<LessSafeKey>,
    nonces: hmac::Key,
}

impl fmt::Debug for TokenSeal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenSeal")
    }
}

impl TokenSeal {
    /// Creates the seal of a storage. The seal hides its location, which tokens would
    /// otherwise reveal. Somebody who has the location can make tokens, but none of another folder.
    pub(super) fn new(location: &str) -> Self {
        let derive = |purpose: &str| digest(&SHA256, format!("{purpose} {location}").as_bytes());
        let cipher = UnboundKey::new(&AES_256_GCM, derive("page token").as_ref()).ok();
        let nonces = hmac::Key::new(HMAC_SHA256, derive("page token nonce").as_ref());
        Self { cipher: cipher.map(LessSafeKey::new), nonces }
    }

    /// Returns the text of a token for clients. It is the same on every node and at all times.
    pub(super) fn seal(&self, folder: &Key, token: &PageToken) -> String {
        // Equal tokens get equal nonces, others do not.
        let mut context = hmac::Context::with_key(&self.nonces);
        context.update(folder.as_str().as_bytes());
        context.update(&[0]);
        context.update(token.as_str().as_bytes());
        let tag = context.sign();
        let mut nonce = [0; NONCE_LEN];
        nonce.iter_mut().zip(tag.as_ref()).for_each(|(to, from)| *to = *from);
        let mut bytes = token.as_str().as_bytes().to_vec();
        let aad = Aad::from(folder.as_str());
        let sealed = self.cipher.as_ref().is_some_and(|cipher| {
            cipher.seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), aad, &mut bytes).is_ok()
        });
        if !sealed {
            return String::new();
        }
        nonce.iter().chain(&bytes).map(|byte| format!("{byte:02x}")).collect()
    }

    /// Returns the token that was sealed for a folder.
    pub(super) fn open(&self, folder: &Key, text: &str) -> Option<PageToken> {
        if text.len() > MAX_TEXT || !text.len().is_multiple_of(2) {
            return None;
        }
        let digits: Option<Vec<u8>> =
            text.bytes().map(|digit| u8::try_from(char::from(digit).to_digit(16)?).ok()).collect();
        let mut bytes: Vec<u8> = digits?.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let opened = self.cipher.as_ref()?.open_in_place(nonce, Aad::from(folder.as_str()), sealed).ok()?;
        Some(PageToken::new(std::str::from_utf8(opened).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_equal_on_every_node_and_tell_nothing() {
        let folder = Key::new("a/b").unwrap();
        let token = PageToken::new("vod/secret/a/b/film-499.mp4");
        let text = TokenSeal::new("s3://bucket/vod/secret").seal(&folder, &token);
        let other = TokenSeal::new("s3://bucket/vod/secret");
        assert_eq!(other.seal(&folder, &token), text);
        assert_eq!(other.open(&folder, &text), Some(token.clone()));
        let hex: String = "secret".bytes().map(|byte| format!("{byte:02x}")).collect();
        assert!(!text.contains(&hex), "{text}");
        // Of another folder, another storage, changed, or no token at all.
        assert_eq!(other.open(&Key::new("a").unwrap(), &text), None);
        assert_eq!(TokenSeal::new("s3://bucket/vod").open(&folder, &text), None);
        for at in (0..text.len()).step_by(7) {
            let digit = if text.as_bytes()[at] == b'0' { "1" } else { "0" };
            let mut changed = text.clone();
            changed.replace_range(at..=at, digit);
            assert_eq!(other.open(&folder, &changed), None, "{at}");
        }
        for text in ["", "0", "00", "zz", "é", &"00".repeat(9000), &"00".repeat(40)] {
            assert_eq!(other.open(&folder, text), None);
        }
    }
}
