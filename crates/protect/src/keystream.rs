//! The key stream of AES-CTR, made for many blocks at a time.
//!
//! The ciphers of the crate `aes` encrypt 64 blocks at once, and what is left one block after
//! another, which takes as long as the 64. Samples are short: most of a frame of audio, and several
//! hundred bytes of each picture, would be encrypted in that slow way. So this stream always asks
//! for a whole batch. It also reads the input and writes the output in one pass.

use crate::chain::Block;
use aes::Aes128Enc;
use bytes::BytesMut;
use cbc::cipher::{BlockCipherEncrypt, array::Array};

/// Size of a block in bytes.
const BLOCK: usize = 16;
/// Blocks that are encrypted at one time.
const BATCH: usize = 64;
/// Fewest blocks for which a whole batch is made.
const WORTH_A_BATCH: usize = 4;

/// The key stream of one sample. The last 64 bits of its blocks count (ISO/IEC 23001-7 §9.2).
pub(crate) struct Keystream {
    prefix: [u8; 8],
    /// Counter of the next block.
    next: u64,
    /// The last block that was made.
    block: [u8; BLOCK],
    /// Bytes of `block` that were used.
    used: usize,
}

impl Keystream {
    /// Begins a stream at an IV.
    pub(crate) fn new(iv: [u8; BLOCK]) -> Self {
        let iv = u128::from_be_bytes(iv).to_be_bytes();
        let (prefix, count) = iv.split_at(8);
        let half = |bytes: &[u8]| std::array::from_fn(|i| bytes.get(i).copied().unwrap_or_default());
        let next = u64::from_be_bytes(half(count));
        Self { prefix: half(prefix), next, block: [0; BLOCK], used: BLOCK }
    }

    /// Appends the encrypted form of the next bytes.
    pub(crate) fn write(&mut self, cipher: &Aes128Enc, input: &[u8], out: &mut BytesMut) {
        let rest = self.block.get(self.used..).unwrap_or_default();
        let (now, input) = input.split_at(input.len().min(rest.len()));
        self.used += now.len();
        out.extend(now.iter().zip(rest).map(|(byte, key)| byte ^ key));
        let mut blocks = [Array::from([0; BLOCK]); BATCH];
        for piece in input.chunks(BATCH * BLOCK) {
            self.write_batch(cipher, piece, &mut blocks, out);
        }
    }

    /// Does the same with at most a batch of bytes, which begin a block. The stream is made in
    /// `blocks`.
    fn write_batch(
        &mut self,
        cipher: &Aes128Enc,
        input: &[u8],
        blocks: &mut [Block; BATCH],
        out: &mut BytesMut,
    ) {
        let count = input.len().div_ceil(BLOCK);
        let made = if count < WORTH_A_BATCH { count } else { BATCH };
        let blocks = blocks.get_mut(..made).unwrap_or_default();
        for (index, block) in (0..).zip(blocks.iter_mut()) {
            let (prefix, number) = block.split_at_mut(8);
            prefix.copy_from_slice(&self.prefix);
            number.copy_from_slice(&self.next.wrapping_add(index).to_be_bytes());
        }
        self.next = self.next.wrapping_add(count as u64);
        cipher.encrypt_blocks(blocks);
        if let Some(last) = count.checked_sub(1).and_then(|last| blocks.get(last)) {
            self.block = (*last).into();
            self.used = input.len() - (count - 1) * BLOCK;
        }
        let stream = Array::slice_as_flattened_mut(blocks);
        for (key, byte) in stream.iter_mut().zip(input) {
            *key ^= byte;
        }
        out.extend_from_slice(stream.get(..input.len()).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aes::cipher::KeyInit;
    use ctr::{
        Ctr64BE,
        cipher::{KeyIvInit, StreamCipher},
    };
    use proptest::prelude::*;

    const KEY: [u8; 16] = *b"a key of 16 byte";

    proptest! {
        /// The counter passes its end in half of the cases.
        #[test]
        fn pieces_are_encrypted_like_the_crate_ctr_does(
            clear in prop::collection::vec(any::<u8>(), 0..5000),
            pieces in prop::collection::vec(0_usize..1500, 0..12),
            prefix in any::<u64>(),
            back in 0_u64..200,
            wraps in any::<bool>(),
        ) {
            let low = if wraps { u64::MAX - back } else { prefix };
            let iv = (u128::from(prefix) << 64 | u128::from(low)).to_be_bytes();
            let cipher = Aes128Enc::new(&KEY.into());
            let mut stream = Keystream::new(iv);
            let mut out = BytesMut::new();
            let mut rest = clear.as_slice();
            for piece in pieces {
                let (now, later) = rest.split_at(piece.min(rest.len()));
                stream.write(&cipher, now, &mut out);
                rest = later;
            }
            stream.write(&cipher, rest, &mut out);
            let mut expected = clear;
            Ctr64BE::<aes::Aes128>::new(&KEY.into(), &iv.into()).apply_keystream(&mut expected);
            prop_assert_eq!(&out[..], &expected[..]);
        }
    }
}
