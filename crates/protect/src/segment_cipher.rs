//! AES-128 of HLS: a segment is encrypted as a whole, by CBC with the padding of PKCS #7 (RFC 8216
//! §4.3.2.4, RFC 2315 §10.3).

use crate::ContentKey;
use aes::Aes128Enc;
use bytes::BytesMut;
use cbc::cipher::{BlockModeEncrypt, InnerIvInit, array::Array};
use std::fmt;

/// Size of a block in bytes.
const BLOCK: usize = 16;

/// Encrypts the bytes of one segment in order.
pub struct SegmentCipher {
    chain: cbc::Encryptor<Aes128Enc>,
    /// Clear bytes that do not fill a block yet.
    held: [u8; BLOCK],
    held_len: usize,
}

impl SegmentCipher {
    /// Begins a segment.
    pub fn new(key: &ContentKey, iv: [u8; 16]) -> Self {
        let chain = cbc::Encryptor::inner_iv_init(key.cipher().clone(), &iv.into());
        Self { chain, held: [0; BLOCK], held_len: 0 }
    }

    /// Returns the length of the encrypted form of `clear` bytes.
    pub const fn encrypted_len(clear: u64) -> u64 {
        clear - clear % BLOCK as u64 + BLOCK as u64
    }

    /// Lets `fill` append clear bytes to `out`, and encrypts them there. Bytes that do not fill a
    /// block are taken out of `out` again until more follow.
    pub fn write(&mut self, out: &mut BytesMut, fill: impl FnOnce(&mut BytesMut)) {
        let start = self.begin(out, fill);
        let end = self.encrypt(out, start);
        out.truncate(end);
    }

    /// Does the same with the last bytes, and appends the padding.
    pub fn finish(&mut self, out: &mut BytesMut, fill: impl FnOnce(&mut BytesMut)) {
        let start = self.begin(out, fill);
        let padding = BLOCK - (out.len() - start) % BLOCK;
        out.resize(out.len() + padding, u8::try_from(padding).unwrap_or(0));
        self.encrypt(out, start);
    }

    /// Appends the bytes that were held back, then those of `fill`. Returns where they begin.
    fn begin(&mut self, out: &mut BytesMut, fill: impl FnOnce(&mut BytesMut)) -> usize {
        let start = out.len();
        out.extend_from_slice(self.held.get(..self.held_len).unwrap_or_default());
        self.held_len = 0;
        fill(out);
        start
    }

    /// Encrypts all whole blocks of `out` from `start` on, and keeps the rest. Returns the end of
    /// the encrypted bytes.
    fn encrypt(&mut self, out: &mut BytesMut, start: usize) -> usize {
        let (blocks, rest) = Array::slice_as_chunks_mut(out.get_mut(start..).unwrap_or_default());
        self.chain.encrypt_blocks(blocks);
        if let Some(held) = self.held.get_mut(..rest.len()) {
            held.copy_from_slice(rest);
            self.held_len = rest.len();
        }
        start + blocks.len() * BLOCK
    }
}

impl fmt::Debug for SegmentCipher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SegmentCipher").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Key, KeyId, key::parse_iv};
    use proptest::prelude::*;

    fn key() -> ContentKey {
        let id = KeyId::new([1; 16]).unwrap();
        ContentKey::new(id, Key::from_hex("2b7e151628aed2a6abf7158809cf4f3c").unwrap(), None)
    }

    fn encrypted(clear: &[u8], pieces: &[usize]) -> Vec<u8> {
        let iv = parse_iv("000102030405060708090a0b0c0d0e0f").unwrap();
        let mut cipher = SegmentCipher::new(&key(), iv);
        let mut out = BytesMut::new();
        let mut rest = clear;
        for &piece in pieces {
            let (now, later) = rest.split_at(piece.min(rest.len()));
            cipher.write(&mut out, |out| out.extend_from_slice(now));
            rest = later;
        }
        cipher.finish(&mut out, |out| out.extend_from_slice(rest));
        out.to_vec()
    }

    fn hex(text: &str) -> Vec<u8> {
        let digit = |c: char| u8::try_from(c.to_digit(16)?).ok();
        let digits: Vec<u8> = text.chars().filter_map(digit).collect();
        digits.as_chunks::<2>().0.iter().map(|[a, b]| a << 4 | b).collect()
    }

    /// NIST SP 800-38A F.2.1, CBC-AES128.Encrypt.
    #[test]
    fn blocks_are_encrypted_as_nist_says() {
        let clear = hex("6bc1bee22e409f96e93d7e117393172a ae2d8a571e03ac9c9eb76fac45af8e51");
        let expected = hex("7649abac8119b246cee98e9b12e9197d 5086cb9b507219ee95db113a917678b2");
        let whole = encrypted(&clear, &[]);
        assert_eq!(whole[..32], expected);
        // A whole block of padding follows.
        assert_eq!(whole.len(), 48);
    }

    /// Made with `openssl enc -aes-128-cbc -K … -iv …` of the text `latemux`.
    #[test]
    fn padding_is_that_of_openssl() {
        assert_eq!(encrypted(b"latemux", &[]), hex(OPENSSL));
    }

    const OPENSSL: &str = "4a99c71b86a70d774171e3629fbbbbe2";

    proptest! {
        #[test]
        fn pieces_change_nothing(
            clear in prop::collection::vec(any::<u8>(), 0..200),
            pieces in prop::collection::vec(0_usize..40, 0..12),
        ) {
            let whole = encrypted(&clear, &[]);
            prop_assert_eq!(&encrypted(&clear, &pieces), &whole);
            prop_assert_eq!(whole.len() as u64, SegmentCipher::encrypted_len(clear.len() as u64));
        }
    }
}
