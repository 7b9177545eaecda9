//! Keys that are derived from a secret and the base of a title.

use super::access::from_env;
use latemux_protect::{ContentKey, Key, KeyId};
use ring::hmac;
use std::fmt;

/// Fewest characters of a secret.
const MIN_SECRET: usize = 16;

/// A secret from which keys are derived.
pub(super) struct Secret(hmac::Key);

impl Secret {
    /// Reads the environment variable that a value such as `env:NAME` names.
    ///
    /// # Errors
    /// A sentence for the operator, without the secret.
    pub(super) fn read(value: &str) -> Result<Self, String> {
        from_env(value, MIN_SECRET, "secret").map(|secret| Self::new(secret.as_bytes()))
    }

    fn new(secret: &[u8]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, secret))
    }

    /// Returns the key of a title: the first 16 bytes of HMAC-SHA-256 under the secret of
    /// `latemux key`, a zero byte and the base; the KID likewise of `latemux kid`.
    pub(super) fn key_of(&self, base: &str) -> ContentKey {
        let derived = |label: &str| {
            let tag = hmac::sign(&self.0, &[label.as_bytes(), &[0], base.as_bytes()].concat());
            std::array::from_fn(|i| tag.as_ref().get(i).copied().unwrap_or_default())
        };
        let id = KeyId::of_digest(derived("latemux kid"));
        ContentKey::new(id, Key::new(derived("latemux key")), None)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf 'latemux kid\0films/a.mp4' | openssl dgst -sha256 -hmac 'an example of a secret'`
    #[test]
    fn keys_are_those_of_openssl() {
        let key = Secret::new(b"an example of a secret").key_of("films/a.mp4");
        assert_eq!(key.id().to_string(), "8fdb6975ca70b061f3fa7720c65126ec");
        let hex: String = key.key().expose().iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "9cf8f5d98687ba70757fcb3dec4ff9c2");
    }
}
